//! What a node tells of its device: to gateways that know such frames, when it is news, and not too often.

use std::time::Duration;

use crate::testing::{NOW, NodeBed, Reads, bytes_of, hello, node_config};
use flashmob_core::condition::Condition;
use flashmob_core::node::{LinkId, TELL_EVERY};
use flashmob_core::wire::condition::{Alive, decode_alive, decode_condition, put_alive};
use flashmob_core::wire::frame::FrameKind;
use flashmob_core::wire::hello::{Hello, Welcome};

fn bed(keeps_alive: bool) -> (NodeBed, LinkId) {
    let bed = NodeBed::greeted(node_config(4096), Reads::NotTried, &Hello { keeps_alive, ..hello() });
    let link = bed.link;
    (bed, link)
}

/// What the node sent on a link since the last look: conditions by their charge, answers to who keeps alive as 255.
fn sent(bed: &mut NodeBed, link: LinkId) -> Vec<u8> {
    let mut sent = Vec::new();
    for frame in bed.sent(link) {
        match frame.kind {
            FrameKind::Condition => sent.extend(decode_condition(&frame.meta).unwrap().battery_percent),
            FrameKind::Alive => {
                assert_eq!(decode_alive(&frame.meta), Ok(Alive::Here));
                sent.push(255);
            }
            FrameKind::Welcome => assert!(Welcome::decode(&frame.meta).is_ok()),
            other => panic!("{other:?}"),
        }
    }
    sent
}

fn charged(percent: u8) -> Condition {
    Condition { battery_percent: Some(percent), ..Condition::default() }
}

#[test]
fn a_newcomer_is_told_at_once_and_then_what_is_new_every_five_seconds_at_most() {
    let (mut bed, _) = bed(true);
    let _ = bed.node.set_condition(NOW, charged(50));
    let link = bed.open_link(&Hello { link: 1, ..hello() });
    assert_eq!(sent(&mut bed, link), [50]);
    let mut told = Vec::new();
    for second in 1..=20u64 {
        let again = bed.node.set_condition(NOW + Duration::from_secs(second), charged(50 - second as u8));
        let due = NOW + Duration::from_secs(second.next_multiple_of(5));
        assert_eq!(again, (!second.is_multiple_of(5)).then_some(due), "what is too early is not forgotten");
        told.extend(sent(&mut bed, link));
    }
    assert_eq!(told, [45, 40, 35, 30]);
    bed.node.set_condition(NOW + Duration::from_secs(3600), charged(30));
    assert_eq!(sent(&mut bed, link), [], "nothing new");
}

#[test]
fn a_gateway_from_before_is_told_nothing_and_must_not_keep_alive() {
    let (mut bed, link) = bed(false);
    bed.node.set_condition(NOW + TELL_EVERY, charged(50));
    assert_eq!(sent(&mut bed, link), []);
    bed.receive(link, &bytes_of(|out| put_alive(out, Alive::Probe)));
    assert!(bed.closed().is_some(), "a kind that it did not say it knows");
}

#[test]
fn a_probe_is_answered_and_a_frame_that_keeps_alive_is_not() {
    let (mut bed, link) = bed(true);
    assert_eq!(sent(&mut bed, link), []);
    for alive in [Alive::Here, Alive::Probe] {
        bed.receive(link, &bytes_of(|out| put_alive(out, alive)));
        assert_eq!(sent(&mut bed, link).len(), usize::from(alive == Alive::Probe));
    }
}

#[test]
fn each_probe_is_answered_until_too_many_answers_are_unread() {
    let (mut bed, link) = bed(true);
    assert_eq!(sent(&mut bed, link), []);
    let probe = bytes_of(|out| put_alive(out, Alive::Probe));
    // More than 64 KiB of answers, and 1,024 behind them.
    let most = (64 << 10) / probe.len() + 1 + 1024;
    for _ in 0..2 {
        for _ in 0..most {
            bed.receive(link, &probe);
        }
        assert_eq!(sent(&mut bed, link).len(), most);
        assert!(bed.closed().is_none(), "they were read in the end");
    }
    for _ in 0..=most {
        bed.receive(link, &probe);
    }
    assert!(bed.closed().is_some());
}

#[test]
fn a_gateway_that_reads_nothing_does_not_fill_the_memory_with_conditions() {
    let (mut bed, link) = bed(true);
    for n in 0..100_000u64 {
        bed.node.set_condition(NOW + TELL_EVERY * u32::try_from(n).unwrap(), charged((n % 2) as u8));
    }
    assert!(bed.node.out(link).expect("a link").len() < 80 * 1024);
}
