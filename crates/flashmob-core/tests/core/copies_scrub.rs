//! Volumes with copies: scrubs find what a flash has changed, mend what can be mended, and list the rest.

use std::time::Duration;

use crate::testing::{BLOCK, FlashBed};
use flashmob_core::condition::Condition;
use flashmob_core::copies::{Marks, Record};
use flashmob_core::gateway::{
    CopiesCounters, CopiesSpec, Flaw, LinkId, PassStatus, ScrubError, ScrubSpec, ScrubStatus,
};
use flashmob_core::op::{Failure, Op, OpFlags};

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(24 * 3600);

fn no_plan(_: &mut CopiesSpec) {}

/// Two nodes with two copies of four chunks.
fn two() -> FlashBed {
    FlashBed::new(2, 2, 4, no_plan)
}

fn status(bed: &FlashBed) -> ScrubStatus {
    bed.bed.gateway.scrub_status(bed.bed.now, 0).expect("it has copies")
}

fn compare(bed: &FlashBed) -> PassStatus {
    status(bed).compare
}

fn counters(bed: &FlashBed) -> CopiesCounters {
    bed.bed.gateway.copies_status(bed.bed.now, 0).expect("it has copies").counters
}

/// What is listed: first byte, bytes, what is wrong.
fn listed(bed: &FlashBed) -> Vec<(u64, u64, Flaw)> {
    bed.bed.gateway.bad_ranges(0).into_iter().map(|(at, len, range, _)| (at, len, range.first.flaw)).collect()
}

/// A scrub from its beginning to its end.
fn scrub(bed: &mut FlashBed) {
    bed.bed.gateway.begin_scrub(bed.bed.now, 0, true).unwrap();
    assert!(compare(bed).is_running);
    bed.pass(20 * SECOND);
    assert!(!compare(bed).is_running, "{:?}", compare(bed));
}

/// The digests that a node was asked for: offset, bytes.
fn digests_of(bed: &FlashBed, node: usize, flags: OpFlags) -> Vec<(u64, u32)> {
    let asked = bed.nodes[node].seen.iter().filter(|piece| piece.op == Op::Digest && piece.flags == flags);
    asked.map(|piece| (piece.offset_bytes, piece.len_bytes)).collect()
}

fn in_passing() -> OpFlags {
    OpFlags::FROM_FLASH.with(OpFlags::BACKGROUND)
}

#[test]
fn every_block_of_every_copy_is_read_from_the_flash() {
    let mut bed = two();
    scrub(&mut bed);
    for node in 0..2 {
        let mut asked = digests_of(&bed, node, in_passing());
        asked.sort_unstable();
        let all: Vec<(u64, u32)> = (0..64).map(|block| (block * BLOCK, BLOCK as u32)).collect();
        assert_eq!(asked, all, "once each");
        assert_eq!(digests_of(&bed, node, OpFlags::FROM_FLASH), [], "nothing is looked at again");
    }
    let PassStatus { done_ago, found, left_out, .. } = compare(&bed);
    assert!(done_ago.is_some() && (found, left_out) == (0, 0));
    assert!(status(&bed).verify.iter().all(|pass| pass.done_ago.is_some()), "each copy was verified");
    assert_eq!((counters(&bed).scrubs, counters(&bed).scrubbed_bytes), (1, 2 * 64 * BLOCK));
    assert_eq!(bed.bed.gateway.status().memory_bytes.0, 0);
}

#[test]
fn what_one_copy_lost_is_written_again_from_the_other() {
    let mut bed = two();
    for (chunk, copy, block) in [(0, 0, 0), (0, 0, 1), (0, 1, 2), (3, 1, 15), (2, 0, 7)] {
        bed.rot(chunk, copy, block);
    }
    let right = bed.block(0, 1, 0);
    scrub(&mut bed);
    assert!(bed.is_clean());
    assert_eq!(bed.block(0, 0, 0), right);
    let CopiesCounters { scrub_corrupt, mended, corrupt, unreadable, .. } = counters(&bed);
    assert_eq!((scrub_corrupt, mended, corrupt, unreadable), (5, 5, 0, 0));
    assert_eq!(listed(&bed), []);
}

#[test]
fn what_no_copy_has_is_listed_until_it_is_written_whole() {
    let mut bed = two();
    for (copy, block) in [(0, 4), (1, 4), (0, 5), (1, 5), (0, 9), (1, 9), (0, 11)] {
        bed.rot(1, copy, block);
    }
    scrub(&mut bed);
    let at = FlashBed::CHUNK_BYTES;
    let expected = [(at + 4 * BLOCK, 2 * BLOCK, Flaw::Unreadable), (at + 9 * BLOCK, BLOCK, Flaw::Unreadable)];
    assert_eq!(listed(&bed), expected);
    let unreadable = counters(&bed).unreadable;
    scrub(&mut bed);
    assert_eq!(listed(&bed), expected, "it is the same the next time");
    assert!(counters(&bed).unreadable <= 2 * unreadable, "and is not tried for ever");
    // A part of a block does not heal it.
    bed.bed.submit(bed.client, Op::Write, at + 4 * BLOCK + 1, BLOCK as u32 - 1);
    bed.pass(SECOND);
    assert_eq!((bed.results()[0].is_err(), listed(&bed).len()), (true, 2));
    bed.bed.submit(bed.client, Op::Write, at + 4 * BLOCK, 2 * BLOCK as u32);
    bed.bed.submit(bed.client, Op::WriteZeroes, at + 8 * BLOCK, 3 * BLOCK as u32);
    bed.pass(SECOND);
    assert_eq!((bed.results().iter().filter(|result| result.is_ok()).count(), listed(&bed)), (2, vec![]));
    assert!(bed.is_clean());
}

#[test]
fn a_block_that_is_readable_again_is_listed_no_more() {
    let mut bed = two();
    let right = bed.block(2, 0, 3);
    bed.rot(2, 0, 3);
    bed.rot(2, 1, 3);
    scrub(&mut bed);
    assert_eq!(listed(&bed).len(), 1);
    bed.nodes.iter_mut().for_each(|node| node.corrupt.clear());
    (0..2).for_each(|copy| bed.put(2, copy, 3, &right));
    scrub(&mut bed);
    assert_eq!(listed(&bed), []);
}

#[test]
fn two_copies_that_differ_and_match_are_listed_and_left_as_they_are() {
    let mut bed = two();
    let (old, new) = (vec![7; BLOCK as usize], bed.block(1, 1, 6));
    bed.put(1, 0, 6, &old);
    scrub(&mut bed);
    let at = FlashBed::CHUNK_BYTES + 6 * BLOCK;
    assert_eq!(listed(&bed), [(at, BLOCK, Flaw::Differs)]);
    assert_eq!((bed.block(1, 0, 6), bed.block(1, 1, 6)), (old, new), "nobody knows which is right");
    let CopiesCounters { scrub_differing, mended, copied_bytes, .. } = counters(&bed);
    assert_eq!((scrub_differing, mended, copied_bytes), (1, 0, 0));
    for node in 0..2 {
        let again = digests_of(&bed, node, OpFlags::FROM_FLASH);
        assert_eq!(again.len(), 1, "it was looked at again, under lock: {again:?}");
    }
    // Whoever knows better writes it.
    bed.bed.submit(bed.client, Op::Write, at, BLOCK as u32);
    bed.serve();
    assert_eq!(listed(&bed), []);
    assert_eq!(bed.block(1, 0, 6), bed.block(1, 1, 6));
    scrub(&mut bed);
    assert_eq!(listed(&bed), []);
}

#[test]
fn copies_that_differ_are_not_read_in_turn() {
    let mut bed = two();
    let old = vec![7; BLOCK as usize];
    (0..4).for_each(|chunk| bed.put(chunk, 0, 6, &old));
    let read = |bed: &mut FlashBed| -> Vec<usize> {
        bed.nodes.iter_mut().for_each(|node| node.seen.clear());
        for chunk in 0..4 {
            bed.bed.submit(bed.client, Op::Read, chunk * FlashBed::CHUNK_BYTES + 6 * BLOCK, BLOCK as u32);
        }
        bed.serve();
        let reads = |node: usize| bed.nodes[node].seen.iter().filter(|piece| piece.op == Op::Read).count();
        (0..2).map(reads).collect()
    };
    let before = read(&mut bed);
    assert!(before.iter().all(|reads| *reads > 0), "chunks have different homes: {before:?}");
    scrub(&mut bed);
    assert_eq!(listed(&bed).len(), 4);
    let first_copies = |bed: &FlashBed| -> Vec<usize> {
        let map = bed.bed.gateway.map(0).unwrap();
        (0..2).map(|node| (0..4).filter(|&chunk| usize::from(map.places(chunk)[0].member) == node).count()).collect()
    };
    assert_ne!(before, first_copies(&bed), "or this would show nothing");
    assert_eq!(read(&mut bed), first_copies(&bed));
}

#[test]
fn a_copy_that_does_not_match_is_made_equal_to_none_of_those_that_differ() {
    let mut bed = FlashBed::new(3, 3, 2, no_plan);
    bed.put(1, 0, 2, &[7; BLOCK as usize]);
    bed.rot(1, 2, 2);
    bed.rot(1, 2, 3);
    let before: Vec<_> = (0..3).map(|copy| bed.block(1, copy, 2)).collect();
    scrub(&mut bed);
    let after: Vec<_> = (0..3).map(|copy| bed.block(1, copy, 2)).collect();
    assert_eq!(before, after);
    assert_eq!(listed(&bed), [(FlashBed::CHUNK_BYTES + 2 * BLOCK, BLOCK, Flaw::Differs)]);
    assert_eq!(bed.nodes.iter().map(|node| node.corrupt.len()).sum::<usize>(), 1, "its neighbour is mended");
}

#[test]
fn a_change_between_two_hashes_is_no_difference() {
    let mut bed = two();
    bed.bed.gateway.begin_scrub(bed.bed.now, 0, true).unwrap();
    bed.turn();
    assert!(bed.answer(0), "one node has hashed the first range");
    bed.bed.submit(bed.client, Op::Write, 0, BLOCK as u32);
    bed.turn();
    assert!(bed.answer(0), "no lock keeps the change waiting");
    assert!(bed.answer(1), "the other node hashes what it did not have before");
    assert_eq!(bed.results(), [Ok(vec![])]);
    bed.pass(20 * SECOND);
    assert!(!compare(&bed).is_running);
    assert_eq!((listed(&bed), counters(&bed).scrub_differing), (vec![], 0));
}

#[test]
fn one_range_of_a_node_is_out_and_two_in_all() {
    let every = Some(7 * DAY);
    let mut bed = FlashBed::new(6, 2, 4, |spec| {
        spec.scrub = ScrubSpec { verify_every: every, ..ScrubSpec::default() };
    });
    bed.nodes.iter_mut().for_each(|node| node.is_silent = true);
    bed.bed.pass(7 * DAY);
    let out: Vec<usize> = (0..6).filter(|&n| !bed.bed.gateway.link_out(LinkId(n)).is_empty()).collect();
    assert_eq!(out.len(), 2, "{out:?}");
    assert_eq!(status(&bed).verify.iter().filter(|pass| pass.is_running).count(), 6);
}

/// How much of a week has gone when a scrub begins by itself.
fn begins_after(set: impl Fn(&mut ScrubSpec), of: impl Fn(&ScrubStatus) -> PassStatus) -> Option<Duration> {
    let mut bed = FlashBed::new(2, 2, 1, |spec| set(&mut spec.scrub));
    bed.nodes.iter_mut().for_each(|node| node.is_silent = true);
    let begun = bed.bed.now;
    for _ in 0..100 {
        if of(&status(&bed)).is_running {
            return Some(bed.bed.now - begun);
        }
        let due = bed.bed.gateway.next_timeout()?;
        bed.bed.now = due.max(bed.bed.now);
        bed.bed.gateway.handle_timeout(bed.bed.now);
    }
    None
}

#[test]
fn scrubs_begin_by_themselves_when_their_time_has_come() {
    let of_node = |set: fn(&mut ScrubSpec)| begins_after(set, |status| status.verify[1].clone());
    assert_eq!(of_node(|spec| spec.verify_every = Some(7 * DAY)), Some(7 * DAY));
    assert_eq!(of_node(|spec| spec.compare_every = Some(7 * DAY)), None, "that is not planned");
    let of_volume = |set: fn(&mut ScrubSpec)| begins_after(set, |status| status.compare.clone());
    assert_eq!(of_volume(|spec| spec.compare_every = Some(30 * DAY)), Some(30 * DAY));
    assert_eq!(of_volume(|_| ()), None);
    // What an earlier start knew counts.
    for (age, left) in [(DAY, 29 * DAY), (30 * DAY, Duration::ZERO), (90 * DAY, Duration::ZERO)] {
        let begins = begins_after(
            |spec| {
                spec.compare_every = Some(30 * DAY);
                spec.kept.compare.age = age;
            },
            |status| status.compare.clone(),
        );
        assert_eq!(begins, Some(left), "{age:?}");
    }
}

#[test]
fn a_scrub_goes_on_where_it_was_after_a_restart() {
    let mut bed = two();
    bed.rot(0, 0, 3);
    bed.rot(1, 0, 3);
    bed.rot(1, 1, 3);
    bed.bed.gateway.begin_scrub(bed.bed.now, 0, true).unwrap();
    while compare(&bed).done_bytes < 2 * FlashBed::CHUNK_BYTES {
        bed.turn();
        for n in 0..2 {
            bed.answer(n);
        }
        bed.bed.pass(Duration::from_millis(10));
    }
    let (news, is_running) = bed.bed.gateway.scrub_news(0).unwrap();
    let kept = bed.bed.gateway.scrub_kept(bed.bed.now, 0).unwrap();
    assert!(news > 0 && is_running);
    assert_eq!((kept.compare.place, kept.compare.is_forced, kept.bad.len()), (Some(2), true, 1));
    let mut again = FlashBed::new(2, 2, 4, |spec| spec.scrub.kept = kept);
    assert_eq!(listed(&again).len(), 1, "what cannot be mended is known");
    again.pass(20 * SECOND);
    assert!(!compare(&again).is_running && compare(&again).done_ago.is_some());
    assert_eq!(digests_of(&again, 0, in_passing()).len(), 2 * 16, "the rest of it");
}

#[test]
fn a_device_that_is_not_fit_is_waited_for_unless_somebody_says_now() {
    let mut bed = two();
    let tired = Condition { charging: Some(false), battery_percent: Some(80), ..Condition::default() };
    bed.report(1, &tired);
    bed.bed.gateway.begin_scrub(bed.bed.now, 0, false).unwrap();
    bed.pass(100 * SECOND);
    let PassStatus { is_running, is_forced, done_bytes, waits, .. } = compare(&bed);
    assert_eq!((is_running, is_forced, done_bytes), (true, false, 0));
    assert_eq!(waits.as_deref(), Some("node node1 is not charging"));
    bed.report(1, &Condition { charging: Some(true), ..tired.clone() });
    bed.pass(SECOND / 100);
    bed.pass(2 * SECOND);
    assert!(compare(&bed).done_bytes > 0 || !compare(&bed).is_running);
    bed.pass(20 * SECOND);
    bed.report(1, &tired);
    bed.bed.gateway.begin_scrub(bed.bed.now, 0, false).unwrap();
    bed.pass(SECOND);
    assert_eq!(compare(&bed).done_bytes, 0);
    bed.bed.gateway.begin_scrub(bed.bed.now, 0, true).unwrap();
    bed.pass(20 * SECOND);
    assert!(!compare(&bed).is_running, "now");
}

#[test]
fn a_scrub_that_is_stopped_begins_anew_a_period_later() {
    let mut bed = FlashBed::new(2, 2, 4, |spec| {
        spec.scrub.verify_every = Some(7 * DAY);
        spec.scrub.kept.members = vec![Default::default(); 2];
        spec.scrub.kept.members[0].age = 7 * DAY;
    });
    bed.nodes.iter_mut().for_each(|node| node.is_silent = true);
    bed.bed.gateway.begin_scrub(bed.bed.now, 0, true).unwrap();
    bed.bed.pass(SECOND);
    bed.bed.gateway.stop_scrub(bed.bed.now, 0).unwrap();
    let status = status(&bed);
    assert!(!status.compare.is_running && status.verify.iter().all(|pass| !pass.is_running));
    assert_eq!((status.compare.done_ago, status.verify[0].due_in), (None, Some(7 * DAY)));
    assert_eq!(bed.bed.gateway.status().in_hand, 0, "what was out is given up");
    bed.nodes.iter_mut().for_each(|node| node.is_silent = false);
    scrub(&mut bed);
}

#[test]
fn copies_that_lack_something_are_counted_as_not_compared() {
    let mut bed = two();
    bed.unlink(1);
    for chunk in 0..4 {
        bed.bed.submit(bed.client, Op::Write, chunk * FlashBed::CHUNK_BYTES, 4096);
    }
    bed.pass(10 * SECOND);
    assert_eq!(bed.results(), [Ok(vec![]), Ok(vec![]), Ok(vec![]), Ok(vec![])]);
    bed.bed.gateway.begin_scrub(bed.bed.now, 0, true).unwrap();
    bed.pass(60 * SECOND);
    let PassStatus { is_running, found, left_out, behind, .. } = compare(&bed);
    assert_eq!((is_running, found, left_out, behind), (false, 0, 0, 4), "each once");
    // Made equal again, all are compared.
    bed.until_connecting(1);
    bed.link(1);
    bed.pass(30 * SECOND);
    scrub(&mut bed);
    assert_eq!(compare(&bed).behind, 0);
}

#[test]
fn a_range_that_fails_is_left_out_of_that_copy_alone() {
    let mut bed = two();
    bed.nodes[0].fails = Some(Failure::Io);
    let well = (0..2).find(|&copy| bed.place_of(2, copy) == 1).unwrap();
    bed.rot(2, well, 5);
    bed.bed.gateway.begin_scrub(bed.bed.now, 0, true).unwrap();
    bed.pass(300 * SECOND);
    let PassStatus { is_running, left_out, found, .. } = compare(&bed);
    assert_eq!((is_running, left_out, found), (false, 64, 1), "three attempts each");
    assert!(status(&bed).verify.iter().all(|pass| pass.done_ago.is_none()), "not all were verified");
}

#[test]
fn clients_that_are_there_slow_a_scrub_down() {
    let mut bed = two();
    let took = |bed: &mut FlashBed, is_busy: bool| {
        bed.bed.gateway.begin_scrub(bed.bed.now, 0, true).unwrap();
        let begun = bed.bed.now;
        while compare(bed).is_running {
            if is_busy {
                bed.bed.submit(bed.client, Op::Read, 0, 1);
            }
            bed.turn();
            // Each answer takes 5 ms.
            bed.bed.pass(Duration::from_millis(5));
            for n in 0..2 {
                bed.answer(n);
            }
            bed.turn();
        }
        bed.results();
        bed.bed.now - begun
    };
    let (alone, beside) = (took(&mut bed, false), took(&mut bed, true));
    assert!(alone <= SECOND, "{alone:?}");
    assert!(beside > alone * 10 && beside < alone * 50, "{beside:?} after {alone:?}");
}

#[test]
fn a_gateway_that_ends_begins_no_range_any_more() {
    let mut bed = two();
    bed.bed.gateway.begin_scrub(bed.bed.now, 0, true).unwrap();
    bed.turn();
    bed.bed.gateway.drain();
    bed.serve();
    bed.bed.pass(SECOND);
    assert!(bed.bed.gateway.is_idle());
}

#[test]
fn volumes_without_copies_have_no_scrubs() {
    use crate::testing::{GatewayBed, gateway_config, volume};
    let mut bed = GatewayBed::new(gateway_config(volume(&[1 << 20])));
    assert_eq!(bed.gateway.begin_scrub(bed.now, 0, true), Err(ScrubError::NoCopies));
    assert_eq!(bed.gateway.begin_scrub(bed.now, 7, true), Err(ScrubError::NoCopies));
    assert_eq!(bed.gateway.stop_scrub(bed.now, 0), Err(ScrubError::NoCopies));
    assert!(bed.gateway.scrub_status(bed.now, 0).is_none() && bed.gateway.scrub_kept(bed.now, 0).is_none());
}

#[test]
fn reads_of_a_block_that_no_copy_has_list_it_without_a_scrub() {
    let mut bed = two();
    bed.rot(0, 0, 1);
    bed.rot(0, 1, 1);
    bed.bed.submit(bed.client, Op::Read, BLOCK, 1);
    bed.pass(SECOND);
    assert!(bed.results()[0].is_err());
    assert_eq!(listed(&bed), [(BLOCK, BLOCK, Flaw::Unreadable)]);
}

#[test]
fn what_is_found_where_a_repair_has_been_is_mended_by_the_next() {
    let mut bed = two();
    bed.bed.submit(bed.client, Op::Read, 0, 1);
    bed.pass(SECOND);
    let has_read = |bed: &FlashBed, n: usize| bed.nodes[n].seen.iter().any(|piece| piece.op == Op::Read);
    let home = (0..2).find(|&n| has_read(&bed, n)).expect("one was read");
    let copy = (0..2).find(|&copy| bed.place_of(0, copy) == home).unwrap();
    bed.rot(0, copy, 9);
    bed.rot(0, copy, 2);
    for block in [9, 2] {
        bed.bed.submit(bed.client, Op::Read, block * BLOCK, 1);
        bed.turn();
        // The other copy neither hashes nor is read yet.
        assert!(bed.answer(home));
        bed.turn();
    }
    bed.pass(SECOND / 10);
    assert!(bed.is_clean());
    assert!(bed.results().iter().all(Result::is_ok));
}

#[test]
fn a_comparison_after_a_crash_leaves_what_differs_as_it_was_found() {
    let old = vec![7; BLOCK as usize];
    let mut bed = two();
    bed.put(1, 0, 6, &old);
    bed.put(1, 1, 8, &old);
    scrub(&mut bed);
    assert_eq!(listed(&bed).len(), 2);
    let kept = bed.bed.gateway.scrub_kept(bed.bed.now, 0).unwrap();
    let new = bed.block(1, 1, 6);
    // The next gateway finds the chunk open. A write of one of the blocks was under way: one copy has it.
    let mut again = FlashBed::new(2, 2, 4, |spec| {
        let marks = Marks { is_open: true, ..Marks::default() };
        spec.map.apply(&Record::Marks { first_chunk: 1, count: 1, marks }).unwrap();
        spec.scrub.kept = kept;
    });
    again.put(1, 0, 6, &old);
    again.put(1, 1, 8, &[9; BLOCK as usize]);
    again.pass(20 * SECOND);
    assert_eq!(counters(&again).compared, 1);
    assert_eq!((again.block(1, 0, 6), again.block(1, 1, 6)), (old, new));
    assert_eq!(again.block(1, 0, 8), again.block(1, 1, 8), "clients may have read either");
    assert_eq!(listed(&again), [(FlashBed::CHUNK_BYTES + 6 * BLOCK, BLOCK, Flaw::Differs)]);
}

/// Three nodes with three copies; a scrub goes on until `is_over`. Returns the node that has a block which does not match.
fn scrubbed_until(is_over: impl Fn(&mut FlashBed, usize) -> bool) -> (FlashBed, usize) {
    let mut bed = FlashBed::new(3, 3, 2, no_plan);
    bed.rot(1, 2, 6);
    let node = bed.place_of(1, 2);
    bed.bed.gateway.begin_scrub(bed.bed.now, 0, true).unwrap();
    for _ in 0..1000 {
        bed.turn();
        if is_over(&mut bed, node) {
            bed.bed.gateway.stop_scrub(bed.bed.now, 0).unwrap();
            return (bed, node);
        }
        (0..3).filter(|&n| bed.answer(n)).count();
        bed.bed.pass(Duration::from_millis(10));
    }
    panic!("it does not come to that");
}

#[test]
fn a_copy_that_leaves_while_it_is_mended_is_mended_when_it_is_back() {
    let (mut bed, node) = scrubbed_until(|bed, node| {
        bed.nodes[node].is_silent = counters(bed).scrub_corrupt == 1;
        bed.nodes[node].is_silent
    });
    assert!(!bed.bed.gateway.link_out(LinkId(node)).is_empty(), "it was asked for what to mend");
    bed.unlink(node);
    bed.pass(20 * SECOND);
    assert!(!bed.is_clean());
    bed.nodes[node].is_silent = false;
    bed.until_connecting(node);
    bed.link(node);
    bed.pass(10 * SECOND);
    assert!(bed.is_clean());
    assert_eq!((counters(&bed).mended, bed.bed.gateway.status().in_hand), (1, 0));
}

#[test]
fn a_copy_whose_node_shuts_down_is_mended_later_and_one_that_fails_is_left_until_it_is_found_again() {
    for (failure, is_mended) in [(Failure::ShuttingDown, true), (Failure::Io, false)] {
        let (mut bed, node) = scrubbed_until(|bed, node| {
            bed.nodes[node].fails = (counters(bed).scrub_corrupt == 1).then_some(failure);
            counters(bed).jobs_given_up == 1
        });
        bed.nodes[node].fails = None;
        bed.pass(10 * SECOND);
        assert_eq!(bed.is_clean(), is_mended, "{failure:?}");
    }
}
