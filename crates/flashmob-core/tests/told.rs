//! What a node tells of its device: to gateways that know such frames, when it is news, and not too often.

use std::time::Duration;

use flashmob_core::condition::Condition;
use flashmob_core::node::{Host, LinkId, Node, NodeConfig, NodeEvent, TELL_EVERY, TryRead};
use flashmob_core::units::Time;
use flashmob_core::wire::condition::{decode_alive, decode_condition, put_alive};
use flashmob_core::wire::frame::{Decoded, FrameKind, decode_frame};
use flashmob_core::wire::hello::{Hello, RefuseReason, Welcome};

const NOW: Time = Time(1);

struct NoStore;

impl Host for NoStore {
    fn try_read(&mut self, _: u64, _: &mut [u8]) -> TryRead {
        TryRead::Miss
    }
    fn adopt(&mut self, _: &Hello) -> Result<(), (RefuseReason, String)> {
        Ok(())
    }
    fn has_fast_reads(&self) -> bool {
        false
    }
    fn now(&mut self) -> Time {
        NOW
    }
}

fn node() -> Node {
    Node::new(NodeConfig {
        extent_id: [1; 16],
        boot_id: [2; 16],
        size_bytes: 4096,
        no_io: false,
        modelled: false,
        memory_bytes: 16 << 20,
        links_max: 2,
        align_bytes: 1,
        store_depth: 8,
    })
}

fn link(node: &mut Node, number: u16, keeps_alive: bool) -> LinkId {
    let link = node.link_opened();
    let mut hello = Vec::new();
    Hello {
        gateway_id: [3; 16],
        session: 1,
        link: number,
        keeps_alive,
        attempt: 1,
        volume_id: "v".to_string(),
        extent: 0,
        extents: 1,
        layout: "linear".to_string(),
        size_bytes: 0,
    }
    .encode(&mut hello);
    receive(node, link, &hello);
    link
}

fn receive(node: &mut Node, link: LinkId, bytes: &[u8]) {
    node.rx(link).expect("a link").extend(bytes);
    node.process(NOW, link, &mut NoStore);
    node.turn(NOW, &mut NoStore);
}

/// What the node sent on a link since the last look: conditions by their charge, answers to who keeps alive as 255.
fn sent(node: &mut Node, link: LinkId) -> Vec<u8> {
    let out = node.out(link).expect("a link").take_all();
    let (mut at, mut sent) = (0, Vec::new());
    while let Ok(Decoded::Frame(frame, taken)) = decode_frame(&out[at..]) {
        at += taken;
        match frame.kind {
            FrameKind::Condition => sent.extend(decode_condition(frame.meta).unwrap().battery_percent),
            FrameKind::Alive => {
                assert_eq!(decode_alive(frame.meta), Ok(false));
                sent.push(255);
            }
            FrameKind::Welcome => assert!(Welcome::decode(frame.meta).is_ok()),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(at, out.len());
    sent
}

fn charged(percent: u8) -> Condition {
    Condition { battery_percent: Some(percent), ..Condition::default() }
}

#[test]
fn a_newcomer_is_told_at_once_and_then_what_is_new_every_five_seconds_at_most() {
    let mut node = node();
    let _ = node.set_condition(NOW, charged(50));
    let link = link(&mut node, 0, true);
    assert_eq!(sent(&mut node, link), [50]);
    let mut told = Vec::new();
    for second in 1..=20u64 {
        let again = node.set_condition(NOW + Duration::from_secs(second), charged(50 - second as u8));
        let due = NOW + Duration::from_secs(second.next_multiple_of(5));
        assert_eq!(again, (!second.is_multiple_of(5)).then_some(due), "what is too early is not forgotten");
        told.extend(sent(&mut node, link));
    }
    assert_eq!(told, [45, 40, 35, 30]);
    node.set_condition(NOW + Duration::from_secs(3600), charged(30));
    assert_eq!(sent(&mut node, link), [], "nothing new");
}

#[test]
fn a_gateway_from_before_is_told_nothing_and_must_not_keep_alive() {
    let mut node = node();
    let link = link(&mut node, 0, false);
    node.set_condition(NOW + TELL_EVERY, charged(50));
    assert_eq!(sent(&mut node, link), []);
    let mut bytes = Vec::new();
    put_alive(&mut bytes, true);
    receive(&mut node, link, &bytes);
    let closed = std::iter::from_fn(|| node.poll_event()).any(|event| matches!(event, NodeEvent::Close { .. }));
    assert!(closed, "a kind that it did not say it knows");
}

#[test]
fn who_wants_to_know_is_answered_once_and_who_keeps_alive_is_not() {
    let mut node = node();
    let link = link(&mut node, 0, true);
    assert_eq!(sent(&mut node, link), []);
    for wants_answer in [false, true] {
        let mut bytes = Vec::new();
        put_alive(&mut bytes, wants_answer);
        receive(&mut node, link, &bytes);
        assert_eq!(sent(&mut node, link).len(), usize::from(wants_answer));
    }
    // However many ask without reading, one answer waits.
    for _ in 0..10_000 {
        let mut bytes = Vec::new();
        put_alive(&mut bytes, true);
        receive(&mut node, link, &bytes);
    }
    assert_eq!(sent(&mut node, link), [255]);
}

#[test]
fn a_gateway_that_reads_nothing_does_not_fill_the_memory_with_conditions() {
    let mut node = node();
    let link = link(&mut node, 0, true);
    for n in 0..100_000u64 {
        node.set_condition(NOW + TELL_EVERY * u32::try_from(n).unwrap(), charged((n % 2) as u8));
    }
    assert!(node.out(link).expect("a link").len() < 80 * 1024);
}
