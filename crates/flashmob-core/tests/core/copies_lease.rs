//! Volumes with copies whose gateway has a standby: answers depend on its lease.

use std::time::Duration;

use crate::testing::{BLOCK, CHUNK_BYTES, GatewayBed, bytes_of, linked_pair, pair_map};
use flashmob_core::gateway::{Action, CopiesSpec, LinkId, lasts_until};
use flashmob_core::op::Op;
use flashmob_core::units::Time;
use flashmob_core::wire::hello::{Refuse, RefuseReason};

/// A gateway with a lease until then; `None` without. Each of its two nodes has a copy of all.
fn started(lease_until: Option<Time>) -> GatewayBed {
    let mut bed = linked_pair(CopiesSpec { lease_until, ..CopiesSpec::new(pair_map()) });
    settle(&mut bed);
    bed
}

/// Decisions become durable, and nodes answer.
fn settle(bed: &mut GatewayBed) {
    for _ in 0..10 {
        bed.pass(Duration::from_millis(1));
        for action in bed.actions() {
            if let Action::Commit { volume, number, .. } = action {
                bed.gateway.committed(bed.now, volume, number, Ok(()));
            }
        }
        for link in 0..2 {
            bed.answer(link);
        }
    }
}

/// How many requests have been answered, and all of them well.
fn answered(bed: &mut GatewayBed) -> usize {
    settle(bed);
    let completions = std::mem::take(bed.gateway.completions());
    assert!(completions.iter().all(|completion| completion.result.is_ok()), "{completions:?}");
    completions.len()
}

#[test]
fn reads_wait_while_the_lease_is_over_and_changes_do_not() {
    let mut bed = started(Some(Time(u64::MAX)));
    let client = bed.gateway.native_opened(0).unwrap();
    bed.submit(client, Op::Read, 0, BLOCK as u32);
    assert_eq!(answered(&mut bed), 1);
    bed.gateway.renew_lease(bed.now, bed.now + Duration::from_millis(50));
    bed.submit(client, Op::Read, 0, BLOCK as u32);
    assert_eq!(answered(&mut bed), 1, "below");
    bed.pass(Duration::from_millis(100));
    bed.submit(client, Op::Read, 0, BLOCK as u32);
    bed.submit(client, Op::Read, CHUNK_BYTES, BLOCK as u32);
    assert_eq!(answered(&mut bed), 0, "both wait");
    for op in [Op::Write, Op::Flush] {
        bed.submit(client, op, 0, if op == Op::Flush { 0 } else { BLOCK as u32 });
    }
    assert_eq!(answered(&mut bed), 2, "changes need no lease");
    let status = |bed: &GatewayBed| bed.gateway.copies_status(bed.now, 0).unwrap();
    let lease = status(&bed).lease.unwrap();
    assert_eq!((lease.left, lease.waiting, status(&bed).counters.waited_for_lease), (Duration::ZERO, 2, 2));
    // One that is over when it comes does not help.
    bed.gateway.renew_lease(bed.now, bed.now);
    assert_eq!(answered(&mut bed), 0);
    bed.gateway.renew_lease(bed.now, bed.now + Duration::from_secs(1));
    assert_eq!(answered(&mut bed), 2);
    assert_eq!(status(&bed).lease.unwrap().waiting, 0);
}

#[test]
fn what_waits_for_the_lease_waits_longer_than_any_timeout() {
    let mut bed = started(Some(Time(0)));
    let client = bed.gateway.native_opened(0).unwrap();
    bed.submit(client, Op::Read, 0, BLOCK as u32);
    assert_eq!(answered(&mut bed), 0);
    for _ in 0..500 {
        bed.pass(Duration::from_secs(1));
        for link in 0..2 {
            bed.answer(link);
        }
    }
    bed.gateway.renew_lease(bed.now, bed.now + Duration::from_secs(1));
    assert_eq!(answered(&mut bed), 1);
}

#[test]
fn who_leaves_while_its_answer_waits_is_forgotten() {
    let mut bed = started(Some(Time(0)));
    let client = bed.gateway.native_opened(0).unwrap();
    bed.submit(client, Op::Read, 0, BLOCK as u32);
    assert_eq!(answered(&mut bed), 0);
    bed.gateway.client_closed(client);
    bed.gateway.renew_lease(bed.now, bed.now + Duration::from_secs(1));
    assert_eq!(answered(&mut bed), 0);
}

#[test]
fn without_a_standby_there_is_no_lease() {
    let mut bed = started(None);
    let client = bed.gateway.native_opened(0).unwrap();
    bed.gateway.renew_lease(bed.now, Time(0));
    bed.submit(client, Op::Read, 0, BLOCK as u32);
    assert_eq!(answered(&mut bed), 1);
    assert_eq!(bed.gateway.copies_status(bed.now, 0).unwrap().lease, None);
}

#[test]
fn a_gateway_that_was_deposed_says_nothing_if_another_answers() {
    for (lease, is_answered) in [(Some(Time(u64::MAX)), false), (None, true)] {
        let mut bed = started(lease);
        let client = bed.gateway.native_opened(0).unwrap();
        // What was under way before gets no answer either.
        for op in [Op::Read, Op::Write] {
            bed.submit(client, op, 0, BLOCK as u32);
        }
        let link = LinkId(0);
        bed.gateway.link_closed(bed.now, link, "lost");
        bed.pass(Duration::from_secs(1));
        bed.gateway.link_connected(bed.now, link);
        let text = "a later gateway is in charge".to_string();
        bed.gateway.link_rx(link).extend(&bytes_of(|out| Refuse { reason: RefuseReason::Deposed, text }.encode(out)));
        bed.gateway.process_link(bed.now, link);
        assert!(bed.gateway.deposed(0).is_some());
        // Before anything is decided, the owner of the map may look whether a mirror has what it lacks.
        assert_eq!(bed.gateway.may_catch_up(0), is_answered);
        bed.gateway.stay_deposed(bed.now, 0);
        for op in [Op::Read, Op::Write] {
            bed.submit(client, op, 0, BLOCK as u32);
        }
        settle(&mut bed);
        bed.gateway.renew_lease(bed.now, bed.now + Duration::from_secs(9));
        let completions = std::mem::take(bed.gateway.completions());
        assert_eq!(completions.len(), if is_answered { 4 } else { 0 });
        assert!(completions.iter().all(|completion| completion.result.is_err()));
    }
}

#[test]
fn a_lease_is_counted_from_when_it_was_asked_for() {
    let asked = Time(5_000_000_000);
    let until = lasts_until(asked, asked + Duration::from_secs(4), Duration::from_secs(10));
    assert_eq!(until, asked + Duration::from_secs(7));
}
