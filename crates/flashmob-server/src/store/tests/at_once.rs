//! When the loop writes itself, and that it does not while it could have to wait.

use std::time::{Duration, Instant};

use flashmob_core::op::Failure;

use super::super::tests::{Rig, write};
use super::super::{StoreConfig, StoreDone};
use super::*;

const SIZE_BYTES: u64 = 1 << 20;

#[test]
fn whole_pages_suit_up_to_the_largest_small_write() {
    let at_once = AtOnce::new(4096);
    let largest = LIGHT_BYTES_MAX as usize;
    for (offset_bytes, len_bytes, suits) in [
        (0, 4096, true),
        (4096, largest, true),
        (4096, largest + 4096, false),
        (0, 4095, false),
        (0, 4097, false),
        (1, 4096, false),
        (512, 512, false),
    ] {
        assert_eq!(at_once.suits(offset_bytes, len_bytes), suits, "{len_bytes} bytes at {offset_bytes}");
    }
    let of_large_pages = AtOnce::new(16384);
    assert!(of_large_pages.suits(16384, 16384) && !of_large_pages.suits(4096, 16384) && !of_large_pages.suits(0, 4096));
    assert!(!AtOnce::new(0).suits(0, 2048), "no page is smaller than 4 KiB");
}

#[test]
fn it_writes_for_a_limited_time_in_a_turn() {
    let mut at_once = AtOnce::new(4096);
    let begun = 5_000_000;
    assert!(at_once.may_go_on(begun, begun + TURN_NANOS - 1) && !at_once.may_go_on(begun, begun + TURN_NANOS));
    at_once.note(begun, begun + TURN_NANOS - 1, Ended::default());
    let again = begun + 2 * TURN_NANOS;
    assert!(at_once.may_begin(again) && !at_once.may_go_on(again, again + 1), "what is left of the turn");
    at_once.note(again, again + 1, Ended::default());
    assert!(!at_once.may_begin(again + 1));
    at_once.end_turn();
    assert!(at_once.may_begin(again + 1));
}

#[test]
fn it_rests_by_how_long_it_was_blocked_and_after_a_failure() {
    let (blocked, failed) =
        (Ended { was_blocked: true, has_failed: false }, Ended { was_blocked: false, has_failed: true });
    let both = Ended { was_blocked: true, has_failed: true };
    for (took_nanos, how, rests_nanos) in [
        (2_000, Ended::default(), 0),
        (2_000, blocked, 200_000),
        (LONG_NANOS - 1, blocked, 100 * (LONG_NANOS - 1)),
        (LONG_NANOS, blocked, 1000 * LONG_NANOS),
        (0, failed, 1_000_000_000),
        (2_000, both, 1_000_000_000),
        (LONG_NANOS, both, 1000 * LONG_NANOS),
    ] {
        let mut at_once = AtOnce::new(4096);
        at_once.note(1_000, 1_000 + took_nanos, how);
        at_once.end_turn();
        let until = 1_000 + took_nanos + rests_nanos;
        assert!(at_once.may_begin(until), "{took_nanos} {how:?}");
        assert_eq!(at_once.may_begin(until - 1), rests_nanos == 0, "{took_nanos} {how:?}");
        at_once.note(u64::MAX - 10, u64::MAX, how);
        assert_eq!(at_once.may_begin(u64::MAX - 1), rests_nanos == 0, "no overflow");
    }
}

#[test]
fn a_thread_that_waits_is_seen_to_have_waited() {
    let before = waits_of_thread();
    std::thread::sleep(Duration::from_millis(1));
    assert!(waits_of_thread() > before);
}

fn rig(config: impl FnOnce(StoreConfig) -> StoreConfig) -> (Rig, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let plain = StoreConfig { size_bytes: Some(SIZE_BYTES), ..StoreConfig::new(dir.path().join("extent")) };
    (Rig::open(config(plain)), dir)
}

/// Writes as soon as it may: the threads have to be asleep, and it may have been blocked a moment ago.
fn write_when_it_may(rig: &mut Rig, writes: &[(u64, &[u8])]) -> usize {
    let begun = Instant::now();
    loop {
        rig.store.end_turn();
        let count = rig.store.try_writes(writes.iter().copied());
        if count > 0 {
            return count;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "it never may");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn writes_are_done_when_it_returns_up_to_the_first_that_is_not_suitable() {
    let (mut rig, _dir) = rig(|config| config);
    let page = vec![7; 4096];
    let large_pages = rustix::param::page_size() > 4096;
    let suitable = if large_pages { vec![7; rustix::param::page_size()] } else { page };
    let step = suitable.len() as u64;
    let count = write_when_it_may(&mut rig, &[(0, &suitable), (2 * step, &suitable[..512]), (3 * step, &suitable)]);
    assert_eq!(count, 1);
    assert_eq!(rig.read(0, suitable.len()).unwrap(), suitable);
    assert!(rig.read(3 * step, suitable.len()).unwrap().iter().all(|&byte| byte == 0), "what comes behind is not");
    let mut done: Vec<StoreDone> = Vec::new();
    rig.store.take_done(&mut done);
    assert!(done.is_empty(), "the caller answers them");
}

#[test]
fn neighbours_are_joined_up_to_the_largest_small_write() {
    let at_once = AtOnce::new(4096);
    assert!(at_once.joins(u64::from(LIGHT_BYTES_MAX)) && !at_once.joins(u64::from(LIGHT_BYTES_MAX) + 1));
}

#[test]
fn neighbours_are_written_where_they_belong_and_gaps_stay() {
    let page_bytes = rustix::param::page_size();
    let pages: Vec<Vec<u8>> = (1..=40).map(|byte| vec![byte; page_bytes]).collect();
    // More neighbours than one call takes, a gap, one before some that are written already, and one that is written twice.
    let places = (0..20).chain(22..40).chain([21, 5]);
    let writes: Vec<(u64, &[u8])> = places.zip(&pages).map(|(at, page)| (at * page_bytes as u64, &page[..])).collect();
    // Another process may have the processor for so long that the time of the turn is over: then the rest is tried with a new file.
    for _ in 0..100 {
        let (mut rig, _dir) = rig(|config| StoreConfig { size_bytes: Some(64 * page_bytes as u64), ..config });
        let count = write_when_it_may(&mut rig, &writes);
        for at in (0..40).map(|place| place * page_bytes as u64) {
            let written = writes[..count].iter().rev().find(|write| write.0 == at);
            let expected = written.map_or_else(|| vec![0; page_bytes], |write| write.1.to_vec());
            assert_eq!(rig.read(at, page_bytes).unwrap(), expected, "{at}, {count} written");
        }
        if count == writes.len() {
            return;
        }
    }
    panic!("never all of them");
}

#[test]
fn what_is_outside_the_extent_is_not_written() {
    let (mut rig, _dir) = rig(|config| config);
    let page = vec![7; rustix::param::page_size()];
    assert_eq!(write_when_it_may(&mut rig, &[(0, &page), (SIZE_BYTES, &page)]), 1);
}

#[test]
fn a_truncated_file_is_noticed_and_does_not_grow() {
    let (mut rig, dir) = rig(|config| config);
    let page = vec![7; rustix::param::page_size()];
    let path = dir.path().join("extent");
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(4096).unwrap();
    let begun = Instant::now();
    while !rig.store.is_damaged() {
        rig.store.end_turn();
        assert_eq!(rig.store.try_writes([(65_536, &page[..])].into_iter()), 0);
        assert!(begun.elapsed() < Duration::from_secs(60), "it has not looked");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(rig.result(write(1, 65_536, page)), Err(Failure::Io));
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 4096);
}

#[test]
fn stores_that_have_more_to_do_than_write_take_none() {
    let page = vec![7; rustix::param::page_size()];
    let (mut no_io, _dir) = rig(|config| StoreConfig { no_io: true, ..config });
    let (mut summed, dir) = rig(|config| config);
    let nonces = [1, 2].map(|byte| crate::store::ExtentId([byte; 16]));
    summed.store.make_sums(&dir.path().join("sums"), nonces[0], nonces[1]).unwrap();
    for rig in [&mut no_io, &mut summed] {
        for _ in 0..20 {
            rig.store.end_turn();
            assert_eq!(rig.store.try_writes([(0, &page[..])].into_iter()), 0);
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
