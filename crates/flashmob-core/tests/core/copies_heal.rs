//! Volumes with copies: requests that need a block which no current copy has wait for a copy that is behind.

use std::time::Duration;

use crate::testing::{BLOCK, FlashBed};
use flashmob_core::copies::{MapImage, Marks, Record};
use flashmob_core::gateway::{CopiesCounters, CopiesSpec};
use flashmob_core::op::{Failure, Op, OpFlags};

const SECOND: Duration = Duration::from_secs(1);
const SOURCE: usize = 0;
const BEHIND: usize = 1;
const HALF: u64 = BLOCK / 2;

/// A chunk with two copies, of which one is behind. Both nodes are linked, and the copy is not made current yet: the node of the other answers no
/// digests.
fn behind() -> FlashBed {
    let mut bed = FlashBed::new(2, 2, 1, |spec: &mut CopiesSpec| {
        let members = spec.map.members().to_vec();
        spec.map = MapImage::with_chunks(spec.map.map_id(), FlashBed::CHUNK_BYTES, 2, members, 1).unwrap();
        let marks = Marks { behind: 1 << BEHIND, ..Marks::default() };
        spec.map.apply(&Record::Marks { first_chunk: 0, count: 1, marks }).unwrap();
    });
    bed.pass(2 * SECOND);
    assert_eq!(marks(&bed).behind, 0);
    bed
}

/// Both copies are current; what the second node has is declared behind, and nothing is made equal before time goes by.
fn resynced() -> FlashBed {
    let mut bed = behind();
    let node = bed.place_of(0, BEHIND);
    bed.bed.gateway.resync_node(bed.bed.now, 0, node).unwrap();
    assert_eq!(marks(&bed).behind, 1 << BEHIND);
    bed
}

fn marks(bed: &FlashBed) -> Marks {
    bed.bed.gateway.map(0).expect("a map").marks(0)
}

fn counters(bed: &FlashBed) -> CopiesCounters {
    bed.bed.gateway.copies_status(bed.bed.now, 0).expect("a volume with copies").counters
}

fn marked(bed: &FlashBed) -> usize {
    let seen = bed.nodes.iter().flat_map(|node| &node.seen);
    seen.filter(|piece| piece.op == Op::Write && piece.flags.has(OpFlags::UNREADABLE)).count()
}

fn submit(bed: &mut FlashBed, op: Op, at: u64, len: u64) {
    bed.bed.submit(bed.client, op, at, len as u32);
}

/// The first half of a block is ones, as a client has written.
fn with_ones(mut block: Vec<u8>) -> Vec<u8> {
    block[..HALF as usize].fill(1);
    block
}

#[test]
fn a_read_and_a_change_of_a_part_wait_until_the_block_is_healed() {
    let mut bed = resynced();
    let (right, other) = (bed.block(0, SOURCE, 5), bed.block(0, SOURCE, 6));
    bed.rot(0, SOURCE, 5);
    bed.rot(0, SOURCE, 6);
    submit(&mut bed, Op::Read, 5 * BLOCK, BLOCK);
    submit(&mut bed, Op::Write, 6 * BLOCK, HALF);
    bed.pass(5 * SECOND);
    let results = bed.results();
    assert_eq!(results[0], Ok(right.clone()));
    assert!(results[1].is_ok());
    assert!(bed.is_clean() && marks(&bed).behind == 0 && marked(&bed) == 0);
    for copy in 0..2 {
        assert_eq!(bed.block(0, copy, 5), right, "copy {copy}");
        assert_eq!(bed.block(0, copy, 6), with_ones(other.clone()), "copy {copy}");
    }
    assert!(bed.bed.gateway.bad_ranges(0).is_empty());
}

#[test]
fn a_paused_node_is_used_for_a_block_that_no_other_copy_has() {
    for op in [Op::Read, Op::Write] {
        let mut bed = behind();
        let (source, node) = (bed.place_of(0, SOURCE), bed.place_of(0, BEHIND));
        let right = bed.block(0, SOURCE, 5);
        // Its neighbour was heard just now.
        submit(&mut bed, Op::Read, 0, BLOCK);
        bed.pass(SECOND / 10);
        assert_eq!(bed.bed.gateway.pause_node(bed.bed.now, 0, node, true), Ok(()));
        bed.serve();
        submit(&mut bed, Op::Write, 9 * BLOCK, BLOCK);
        bed.pass(SECOND / 10);
        assert!(bed.results().iter().all(Result::is_ok));
        assert_eq!(marks(&bed).behind, 1 << BEHIND, "it misses a change");
        bed.rot(0, SOURCE, 5);
        submit(&mut bed, op, 5 * BLOCK, HALF);
        bed.pass(SECOND / 5);
        assert!(bed.results().is_empty(), "{op:?}: it waits");
        bed.until_connecting(node);
        bed.link(node);
        bed.pass(5 * SECOND);
        let result = bed.results().pop().expect("answered");
        match op {
            Op::Read => assert_eq!(result, Ok(right[..HALF as usize].to_vec())),
            _ => assert!(result.is_ok()),
        }
        assert!(bed.is_clean() && marked(&bed) == 0, "{op:?}");
        assert!(bed.nodes[source].corrupt.is_empty());
    }
}

#[test]
fn nothing_waits_where_no_copy_may_have_it() {
    // The node of the copy that is behind is away.
    let mut bed = resynced();
    let node = bed.place_of(0, BEHIND);
    bed.unlink(node);
    bed.nodes[node].is_silent = true;
    bed.rot(0, SOURCE, 5);
    bed.pass(4 * SECOND);
    submit(&mut bed, Op::Read, 5 * BLOCK, BLOCK);
    submit(&mut bed, Op::Write, 5 * BLOCK, HALF);
    bed.serve();
    bed.pass(SECOND / 10);
    assert!(bed.results().iter().all(|result| *result == Err(Failure::Io)));
    assert_eq!(bed.bed.gateway.bad_ranges(0).len(), 1);
}

#[test]
fn a_block_that_is_on_no_copy_is_an_error_once_all_were_asked() {
    let mut bed = resynced();
    bed.put(0, BEHIND, 5, &[0; BLOCK as usize]);
    bed.rot(0, SOURCE, 5);
    submit(&mut bed, Op::Read, 5 * BLOCK, BLOCK);
    submit(&mut bed, Op::Write, 5 * BLOCK, HALF);
    submit(&mut bed, Op::Read, 6 * BLOCK, BLOCK);
    bed.pass(5 * SECOND);
    let results = bed.results();
    assert_eq!((&results[0], &results[1]), (&Err(Failure::Io), &Err(Failure::Io)));
    assert!(results[2].is_ok());
    assert_eq!((marks(&bed).behind, marked(&bed)), (0, 1));
    submit(&mut bed, Op::Write, 5 * BLOCK, BLOCK);
    bed.pass(SECOND);
    assert!(bed.results()[0].is_ok() && bed.is_clean());
}

#[test]
fn a_node_that_does_not_answer_ends_the_wait() {
    let mut bed = resynced();
    let node = bed.place_of(0, BEHIND);
    bed.rot(0, SOURCE, 5);
    bed.nodes[node].is_silent = true;
    submit(&mut bed, Op::Read, 5 * BLOCK, BLOCK);
    submit(&mut bed, Op::Write, 5 * BLOCK, HALF);
    bed.pass(90 * SECOND);
    let results = bed.results();
    assert_eq!(results, [Err(Failure::Io), Err(Failure::Io)]);
    // It is back, and has the block still.
    bed.nodes[node].is_silent = false;
    bed.until_connecting(node);
    bed.link(node);
    bed.pass(70 * SECOND);
    assert!(bed.is_clean() && marks(&bed).behind == 0 && marked(&bed) == 0);
}

#[test]
fn a_client_that_leaves_takes_what_waits_along() {
    let mut bed = resynced();
    let node = bed.place_of(0, BEHIND);
    bed.rot(0, SOURCE, 5);
    bed.nodes[node].is_silent = true;
    submit(&mut bed, Op::Read, 5 * BLOCK, BLOCK);
    submit(&mut bed, Op::Write, 5 * BLOCK, HALF);
    bed.pass(SECOND / 10);
    assert!(bed.results().is_empty());
    bed.bed.gateway.client_closed(bed.client);
    bed.pass(130 * SECOND);
    assert_eq!(bed.bed.gateway.memory_used_bytes(), 0);
    assert_eq!(counters(&bed).mended, 0);
}

#[test]
fn a_change_that_overlaps_one_that_waits_is_sent_behind_it() {
    let mut bed = resynced();
    bed.rot(0, SOURCE, 5);
    submit(&mut bed, Op::Write, 5 * BLOCK, HALF);
    let node = bed.place_of(0, BEHIND);
    bed.nodes[node].is_silent = true;
    bed.pass(SECOND / 10);
    submit(&mut bed, Op::WriteZeroes, 5 * BLOCK, BLOCK);
    bed.pass(SECOND / 10);
    assert!(bed.results().is_empty(), "the second heals the block, and would be lost to the first");
    bed.nodes[node].is_silent = false;
    bed.pass(5 * SECOND);
    assert!(bed.results().iter().all(Result::is_ok));
    assert!((0..2).all(|copy| bed.block(0, copy, 5) == [0; BLOCK as usize]));
}

#[test]
fn a_change_that_was_overtaken_is_not_sent_again() {
    let mut bed = resynced();
    let source = bed.place_of(0, SOURCE);
    bed.nodes[source].is_silent = true;
    bed.rot(0, SOURCE, 5);
    submit(&mut bed, Op::Write, 5 * BLOCK, HALF);
    submit(&mut bed, Op::WriteZeroes, 5 * BLOCK, BLOCK);
    bed.serve();
    bed.nodes[source].is_silent = false;
    bed.pass(5 * SECOND);
    let results = bed.results();
    assert!(results[0] == Err(Failure::Io) && results[1].is_ok(), "{results:?}");
    assert!((0..2).all(|copy| bed.block(0, copy, 5) == [0; BLOCK as usize]));
}

#[test]
fn a_copy_that_had_all_until_it_fell_behind_is_believed_with_what_was_under_way() {
    // One copy has a change of a part of the block; the other is corrupt there. Then the first is declared behind.
    let mut bed = behind();
    let (source, node) = (bed.place_of(0, SOURCE), bed.place_of(0, BEHIND));
    let right = with_ones(bed.block(0, SOURCE, 5));
    // It is open, and both were heard just now.
    submit(&mut bed, Op::Write, 9 * BLOCK, BLOCK);
    bed.pass(SECOND / 10);
    bed.rot(0, SOURCE, 5);
    bed.nodes[source].is_silent = true;
    submit(&mut bed, Op::Write, 5 * BLOCK, HALF);
    bed.serve();
    assert_eq!(bed.block(0, BEHIND, 5), right, "it is under way");
    bed.bed.gateway.resync_node(bed.bed.now, 0, node).unwrap();
    bed.nodes[source].is_silent = false;
    bed.pass(5 * SECOND);
    assert!(bed.results().iter().all(Result::is_ok));
    assert!(bed.is_clean() && marks(&bed).behind == 0 && marked(&bed) == 0);
    assert!((0..2).all(|copy| bed.block(0, copy, 5) == right));
}

#[test]
fn a_copy_that_fell_behind_at_a_pause_is_believed_though_it_is_to_be_made_equal_then() {
    // As above, and the node of the copy is paused first: then all of it is behind already.
    let mut bed = behind();
    let (source, node) = (bed.place_of(0, SOURCE), bed.place_of(0, BEHIND));
    let right = with_ones(bed.block(0, SOURCE, 5));
    submit(&mut bed, Op::Write, 9 * BLOCK, BLOCK);
    bed.pass(SECOND / 10);
    bed.rot(0, SOURCE, 5);
    bed.nodes[source].is_silent = true;
    submit(&mut bed, Op::Write, 5 * BLOCK, HALF);
    bed.serve();
    for is_paused in [true, false] {
        assert_eq!(bed.bed.gateway.pause_node(bed.bed.now, 0, node, is_paused), Ok(()));
    }
    assert_eq!(marks(&bed).behind, 1 << BEHIND);
    let resynced = bed.bed.gateway.resync_node(bed.bed.now, 0, node).unwrap();
    assert_eq!((resynced.copies, resynced.lacked), (1, 1));
    bed.nodes[source].is_silent = false;
    bed.serve();
    bed.until_connecting(node);
    bed.link(node);
    bed.pass(5 * SECOND);
    assert!(bed.results().iter().all(Result::is_ok));
    assert!(bed.is_clean() && marks(&bed).behind == 0 && marked(&bed) == 0);
    assert!((0..2).all(|copy| bed.block(0, copy, 5) == right));
}

#[test]
fn a_copy_that_missed_a_change_of_the_block_is_not_believed() {
    let mut bed = resynced();
    let node = bed.place_of(0, BEHIND);
    bed.nodes[node].is_silent = true;
    submit(&mut bed, Op::Write, 5 * BLOCK, HALF);
    bed.pass(SECOND / 10);
    bed.rot(0, SOURCE, 5);
    bed.nodes[node].is_silent = false;
    submit(&mut bed, Op::Read, 5 * BLOCK, BLOCK);
    bed.pass(5 * SECOND);
    let results = bed.results();
    assert!(results[0].is_ok() && results[1] == Err(Failure::Io), "{results:?}");
    assert_eq!((marks(&bed).behind, marked(&bed)), (0, 1));
}

/// Some ranges of the copy that is behind are hashed, and its source answers nothing from then on.
fn hashed_in_part(bed: &mut FlashBed) -> u64 {
    let node = bed.place_of(0, BEHIND);
    let hashed = |bed: &FlashBed| bed.nodes[node].seen.iter().filter(|piece| piece.op == Op::Digest).count();
    let before = hashed(bed);
    for _ in 0..10_000 {
        if hashed(bed) - before >= 8 {
            break;
        }
        bed.bed.now = bed.bed.now + Duration::from_millis(1);
        bed.bed.gateway.handle_timeout(bed.bed.now);
        bed.serve_once();
    }
    (hashed(bed) - before) as u64
}

#[test]
fn a_block_that_is_on_no_copy_is_not_looked_for_again() {
    let mut bed = resynced();
    let node = bed.place_of(0, BEHIND);
    bed.put(0, BEHIND, 5, &[0; BLOCK as usize]);
    bed.rot(0, SOURCE, 5);
    // The copy stays behind.
    bed.nodes[node].fails = Some(Failure::Io);
    let mut looks = Vec::new();
    for _ in 0..3 {
        submit(&mut bed, Op::Read, 5 * BLOCK, BLOCK);
        submit(&mut bed, Op::Write, 5 * BLOCK, HALF);
        bed.pass(SECOND);
        assert_eq!(bed.results(), [Err(Failure::Io), Err(Failure::Io)]);
        let reads = bed.nodes[node].seen.iter().filter(|piece| piece.op == Op::Read);
        looks.push(reads.count());
    }
    assert!(looks[0] > 0 && looks[2] == looks[0], "{looks:?}");
    bed.nodes[node].fails = None;
    bed.pass(5 * SECOND);
    assert_eq!((marks(&bed).behind, marked(&bed)), (0, 1));
}

#[test]
fn a_device_that_failed_a_flush_is_not_believed() {
    let mut bed = behind();
    let (source, node) = (bed.place_of(0, SOURCE), bed.place_of(0, BEHIND));
    bed.nodes[node].fails_flushes = true;
    submit(&mut bed, Op::Write, 9 * BLOCK, BLOCK);
    submit(&mut bed, Op::Flush, 0, 0);
    bed.pass(SECOND);
    assert_eq!(marks(&bed).behind, 1 << BEHIND);
    bed.nodes[node].fails_flushes = false;
    bed.pass(120 * SECOND);
    assert_eq!(marks(&bed).behind, 0);
    submit(&mut bed, Op::Write, 9 * BLOCK, BLOCK);
    bed.pass(SECOND / 10);
    bed.results();
    bed.rot(0, SOURCE, 5);
    bed.nodes[source].is_silent = true;
    submit(&mut bed, Op::Write, 5 * BLOCK, HALF);
    bed.serve();
    bed.bed.gateway.resync_node(bed.bed.now, 0, node).unwrap();
    bed.nodes[source].is_silent = false;
    bed.pass(5 * SECOND);
    assert_eq!(bed.results(), [Err(Failure::Io)], "what its device had in memory may be gone");
}

#[test]
fn a_change_that_was_told_does_not_wait_for_a_node_that_is_gone() {
    let mut bed = behind();
    let node = bed.place_of(0, BEHIND);
    submit(&mut bed, Op::Write, 9 * BLOCK, BLOCK);
    bed.pass(SECOND / 10);
    bed.nodes[node].is_silent = true;
    submit(&mut bed, Op::Write, 5 * BLOCK, BLOCK);
    bed.serve();
    bed.bed.gateway.resync_node(bed.bed.now, 0, node).unwrap();
    bed.serve();
    assert_eq!(bed.results().len(), 2, "both are told");
    bed.unlink(node);
    bed.pass(SECOND);
    assert_eq!(bed.bed.gateway.memory_used_bytes(), 0);
}

/// The bytes that a node was sent in changes since, and where.
fn changes(bed: &FlashBed, node: usize, since: usize) -> Vec<(u64, u32)> {
    let seen = bed.nodes[node].seen[since..].iter();
    seen.filter(|piece| piece.op.mutates()).map(|piece| (piece.offset_bytes, piece.len_bytes)).collect()
}

#[test]
fn a_copy_that_is_made_gets_changes_as_far_as_its_source_was_hashed() {
    let mut bed = resynced();
    let (source, node) = (bed.place_of(0, SOURCE), bed.place_of(0, BEHIND));
    // Half of the chunk: 16 ranges of a block.
    let front = hashed_in_part(&mut bed);
    assert!((8..15).contains(&front), "{front}");
    bed.nodes[source].is_silent = true;
    let since = bed.nodes[node].seen.len();
    // Of what is locked now, nothing.
    for (at, len) in [(HALF, BLOCK), (15 * BLOCK, HALF), (0, 16 * BLOCK)] {
        submit(&mut bed, Op::Write, at, len);
    }
    bed.nodes[source].is_silent = false;
    bed.pass(5 * SECOND);
    assert!(bed.results().iter().all(Result::is_ok));
    let changes = changes(&bed, node, since);
    assert!(changes.contains(&(HALF, BLOCK as u32)), "{changes:?}");
    assert_eq!(marks(&bed).behind, 0);
    assert_eq!(bed.nodes[source].bytes, bed.nodes[node].bytes);
}
