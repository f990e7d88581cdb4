//! Volumes with copies: a block that has rotted on the copy that others are made from costs that block, and no copy of its chunk.

use std::time::Duration;

use crate::testing::{BLOCK, FlashBed};
use flashmob_core::copies::{MapImage, Marks, Record};
use flashmob_core::gateway::{CopiesCounters, CopiesSpec, CopiesStatus, Flaw};
use flashmob_core::op::{Failure, Op, OpFlags};
use flashmob_core::wire::digest::is_mark;

const SECOND: Duration = Duration::from_secs(1);

/// The copy that is behind, of each chunk.
const BEHIND: usize = 1;
const SOURCE: usize = 0;

/// Chunks of nodes with so many copies, of which copy 1 is behind: its node is not linked yet.
fn away(copies: usize) -> FlashBed {
    let behind = |spec: &mut CopiesSpec| {
        let members = spec.map.members().to_vec();
        spec.map = MapImage::with_chunks(spec.map.map_id(), FlashBed::CHUNK_BYTES, copies, members, 1).unwrap();
        let marks = Marks { behind: 1 << BEHIND, ..Marks::default() };
        spec.map.apply(&Record::Marks { first_chunk: 0, count: 1, marks }).unwrap();
    };
    // With as many nodes as copies, copy 1 of the only chunk is on one of them, found below.
    let probe = FlashBed::new(copies, copies, 1, behind);
    let node = probe.place_of(0, BEHIND);
    FlashBed::without(node..node + 1, copies, copies, 1, behind)
}

/// The node that was away is there.
fn back(bed: &mut FlashBed) {
    let node = bed.place_of(0, BEHIND);
    bed.link(node);
    bed.pass(5 * SECOND);
}

fn status(bed: &FlashBed) -> CopiesStatus {
    bed.bed.gateway.copies_status(bed.bed.now, 0).expect("a volume with copies")
}

fn counters(bed: &FlashBed) -> CopiesCounters {
    status(bed).counters
}

fn marks(bed: &FlashBed) -> Marks {
    bed.bed.gateway.map(0).expect("a map").marks(0)
}

fn listed(bed: &FlashBed) -> Vec<(u64, u64, Flaw)> {
    bed.bed.gateway.bad_ranges(0).into_iter().map(|(at, len, range, _)| (at, len, range.first.flaw)).collect()
}

/// A block of zeros, with which a copy that is behind lacks something.
fn stale(bed: &mut FlashBed, block: u64) {
    bed.put(0, BEHIND, block, &[0; BLOCK as usize]);
}

fn read(bed: &mut FlashBed, block: u64) -> Result<Vec<u8>, Failure> {
    bed.bed.submit(bed.client, Op::Read, block * BLOCK, BLOCK as u32);
    bed.pass(SECOND);
    bed.results().remove(0)
}

/// Writes that mark blocks, by the node that got them.
fn marked(bed: &FlashBed) -> Vec<(usize, u64)> {
    let of = |node: usize| {
        let seen = bed.nodes[node].seen.iter();
        seen.filter(|piece| piece.op == Op::Write && piece.flags.has(OpFlags::UNREADABLE))
            .map(move |piece| (node, piece.offset_bytes / BLOCK))
    };
    (0..bed.nodes.len()).flat_map(of).collect()
}

#[test]
fn a_copy_that_is_behind_heals_what_it_has_of_a_block_that_rotted_on_the_source() {
    let mut bed = away(2);
    let (right, new) = (bed.block(0, SOURCE, 5), bed.block(0, SOURCE, 9));
    bed.rot(0, SOURCE, 5);
    stale(&mut bed, 9);
    back(&mut bed);
    assert_eq!((marks(&bed).behind, status(&bed).behind_copies), (0, 0));
    assert!(bed.is_clean() && listed(&bed).is_empty() && marked(&bed).is_empty());
    assert_eq!((bed.block(0, SOURCE, 5), bed.block(0, BEHIND, 5)), (right.clone(), right.clone()));
    assert_eq!(bed.block(0, BEHIND, 9), new);
    assert_eq!((counters(&bed).mended, counters(&bed).jobs_given_up), (1, 0));
    assert_eq!(read(&mut bed, 5), Ok(right));
}

#[test]
fn a_block_that_no_copy_has_is_marked_and_the_rest_is_made_equal() {
    let mut bed = away(2);
    let (old, new) = (vec![0; BLOCK as usize], bed.block(0, SOURCE, 9));
    bed.rot(0, SOURCE, 5);
    stale(&mut bed, 5);
    stale(&mut bed, 9);
    back(&mut bed);
    assert_eq!((marks(&bed).behind, counters(&bed).jobs_given_up), (0, 0), "one block costs one block");
    assert_eq!(bed.block(0, BEHIND, 9), new);
    let node = bed.place_of(0, BEHIND);
    let expected = bed.nodes[node].expected[&5];
    assert!(is_mark(&bed.block(0, BEHIND, 5), expected), "what it had is not what was written");
    assert_ne!(bed.block(0, BEHIND, 5), old);
    assert_eq!(marked(&bed), [(node, 5)]);
    assert_eq!(listed(&bed), [(5 * BLOCK, BLOCK, Flaw::Unreadable)]);
    // From both nodes: an error, and never old bytes.
    for _ in 0..4 {
        assert_eq!(read(&mut bed, 5), Err(Failure::Io));
        assert!(read(&mut bed, 4).is_ok() && read(&mut bed, 6).is_ok());
    }
    // A part of it cannot be changed; all of it heals.
    bed.bed.submit(bed.client, Op::Write, 5 * BLOCK + 1, 100);
    bed.pass(SECOND);
    assert!(bed.results()[0].is_err());
    bed.bed.submit(bed.client, Op::Write, 5 * BLOCK, BLOCK as u32);
    bed.pass(SECOND);
    assert!(bed.results()[0].is_ok() && bed.is_clean() && listed(&bed).is_empty());
    assert!(read(&mut bed, 5).is_ok());
}

#[test]
fn what_only_a_checksum_proves_is_taken_whole_or_not_at_all() {
    // One bit of what the copy has differs from what it should be.
    let mut bed = away(2);
    let mut wrong = bed.block(0, SOURCE, 5);
    wrong[4095] ^= 1;
    bed.put(0, BEHIND, 5, &wrong);
    bed.rot(0, SOURCE, 5);
    back(&mut bed);
    assert_eq!((marks(&bed).behind, listed(&bed).len(), marked(&bed).len()), (0, 1, 1));
}

#[test]
fn another_current_copy_has_it_and_is_believed_first() {
    let mut bed = away(3);
    let right = bed.block(0, SOURCE, 5);
    bed.rot(0, SOURCE, 5);
    stale(&mut bed, 5);
    back(&mut bed);
    assert_eq!((marks(&bed).behind, marked(&bed), listed(&bed)), (0, vec![], vec![]));
    assert!(bed.is_clean());
    (0..3).for_each(|copy| assert_eq!(bed.block(0, copy, 5), right, "copy {copy}"));
}

#[test]
fn a_block_that_rotted_on_all_current_copies_is_healed_on_all() {
    let mut bed = away(3);
    let right = bed.block(0, SOURCE, 5);
    bed.rot(0, SOURCE, 5);
    bed.rot(0, 2, 5);
    back(&mut bed);
    assert_eq!((marks(&bed).behind, marked(&bed), listed(&bed)), (0, vec![], vec![]));
    (0..3).for_each(|copy| assert_eq!(bed.block(0, copy, 5), right, "copy {copy}"));
}

#[test]
fn a_source_that_cannot_be_healed_does_not_keep_the_other_copy_behind() {
    for fails in [Some(Failure::Io), None] {
        let mut bed = away(2);
        let right = bed.block(0, SOURCE, 5);
        bed.rot(0, SOURCE, 5);
        let source = bed.place_of(0, SOURCE);
        bed.nodes[source].fails_writes = fails;
        bed.nodes[source].loses_writes = fails.is_none();
        back(&mut bed);
        assert_eq!((marks(&bed).behind, marked(&bed)), (0, vec![]), "{fails:?}");
        assert_eq!(read(&mut bed, 5), Ok(right), "{fails:?}");
        assert!(!bed.is_clean());
        (bed.nodes[source].fails_writes, bed.nodes[source].loses_writes) = (None, false);
        bed.bed.gateway.begin_scrub(bed.bed.now, 0, true).unwrap();
        bed.pass(20 * SECOND);
        assert!(bed.is_clean(), "{fails:?}");
    }
}

#[test]
fn a_mark_that_does_not_take_leaves_the_copy_behind_until_it_does() {
    let mut bed = away(2);
    bed.rot(0, SOURCE, 5);
    let node = bed.place_of(0, BEHIND);
    // Its own block is corrupt as well, and stays so: it must not count as what the source expects.
    bed.rot(0, BEHIND, 5);
    bed.nodes[node].expected.insert(5, 99);
    bed.nodes[node].loses_writes = true;
    back(&mut bed);
    assert_eq!(marks(&bed).behind, 1 << BEHIND);
    bed.nodes[node].loses_writes = false;
    bed.pass(5 * SECOND);
    assert_eq!((marks(&bed).behind, listed(&bed).len()), (0, 1));
}

#[test]
fn changes_of_the_block_wait_until_it_was_looked_at_again() {
    let mut bed = away(2);
    bed.rot(0, SOURCE, 5);
    let node = bed.place_of(0, BEHIND);
    let source = bed.place_of(0, SOURCE);
    bed.link(node);
    // Until the copy that is behind is asked for its bytes.
    let asks = |bed: &FlashBed| bed.nodes[node].seen.iter().any(|piece| piece.op == Op::Read);
    for _ in 0..10_000 {
        bed.bed.now = bed.bed.now + Duration::from_millis(1);
        bed.bed.gateway.handle_timeout(bed.bed.now);
        bed.serve_once();
        if asks(&bed) {
            break;
        }
    }
    assert!(asks(&bed));
    bed.bed.submit(bed.client, Op::WriteZeroes, 5 * BLOCK, BLOCK as u32);
    let was_changed = |bed: &FlashBed| bed.nodes[source].seen.iter().any(|piece| piece.op == Op::WriteZeroes);
    while !was_changed(&bed) {
        assert!(bed.serve_once() > 0);
    }
    let seen = bed.nodes[source].seen.iter().filter(|piece| piece.offset_bytes / BLOCK == 5 && piece.op != Op::Map);
    let ops: Vec<Op> = seen.map(|piece| piece.op).collect();
    assert_eq!(ops, [Op::Digest, Op::Digest, Op::Write, Op::Digest, Op::WriteZeroes], "it was looked at again before");
    bed.pass(5 * SECOND);
    assert_eq!((marks(&bed).behind, listed(&bed)), (0, vec![]));
    (0..2).for_each(|copy| assert_eq!(bed.block(0, copy, 5), vec![0; BLOCK as usize], "copy {copy}"));
}

#[test]
fn a_block_that_is_marked_is_not_adopted_after_all_lost_power() {
    let mut bed = away(2);
    bed.rot(0, SOURCE, 5);
    stale(&mut bed, 5);
    back(&mut bed);
    assert_eq!(listed(&bed).len(), 1);
    // A change of another block is under way when both lose power.
    bed.bed.submit(bed.client, Op::Write, 9 * BLOCK, BLOCK as u32);
    bed.pass(SECOND);
    assert!(bed.results()[0].is_ok());
    for node in 0..2 {
        bed.unlink(node);
        bed.until_connecting(node);
        bed.link_after(node, [90 + node as u8; 16]);
    }
    bed.pass(5 * SECOND);
    let CopiesCounters { adopted, compared, .. } = counters(&bed);
    assert!(adopted == 0 && compared > 0);
    assert_eq!(read(&mut bed, 5), Err(Failure::Io));
    assert!(read(&mut bed, 9).is_ok());
}

#[test]
fn nodes_that_know_no_marks_keep_the_chunk_behind_as_before() {
    for old in 0..2 {
        let mut bed = away(2);
        bed.rot(0, SOURCE, 5);
        let (source, node) = (bed.place_of(0, SOURCE), bed.place_of(0, BEHIND));
        let old = [source, node][old];
        bed.nodes[old].knows_marks = false;
        if old == source {
            bed.unlink(source);
            bed.until_connecting(source);
            bed.link(source);
        }
        back(&mut bed);
        assert_eq!((marks(&bed).behind, marked(&bed)), (1 << BEHIND, vec![]));
    }
}

/// Two copies on three nodes; the first node is drained.
fn drained(rot: &[usize]) -> (FlashBed, usize) {
    let mut bed = FlashBed::new(3, 2, 4, |spec| {
        let members = spec.map.members().to_vec();
        spec.map = MapImage::with_chunks(spec.map.map_id(), FlashBed::CHUNK_BYTES, 2, members, 1).unwrap();
    });
    bed.nodes.iter_mut().for_each(|node| node.tells_holes = true);
    bed.pass(3 * SECOND);
    let from = bed.place_of(0, 0);
    rot.iter().for_each(|&copy| bed.rot(0, copy, 5));
    (bed, from)
}

#[test]
fn a_drain_goes_on_and_loses_no_block_that_any_copy_has() {
    for rot in [&[0][..], &[1], &[0, 1]] {
        let (mut bed, from) = drained(rot);
        let right = bed.block(0, 1, 7);
        bed.bed.gateway.drain_node(bed.bed.now, 0, from, true, false).unwrap();
        bed.pass(20 * SECOND);
        assert_eq!(bed.bed.gateway.map(0).expect("a map").copies_on(from as u16), 0, "{rot:?}");
        let is_lost = rot.len() == 2;
        assert_eq!((listed(&bed).len(), marked(&bed).len()), (usize::from(is_lost), usize::from(is_lost)), "{rot:?}");
        for _ in 0..4 {
            assert_eq!(read(&mut bed, 5).is_err(), is_lost, "{rot:?}");
        }
        assert_eq!(bed.block(0, 0, 7), right);
        assert_eq!(status(&bed).moves.unreadable, 0);
    }
}

#[test]
fn a_copy_that_may_be_the_only_one_with_a_block_is_waited_for() {
    let (mut bed, from) = drained(&[1]);
    bed.unlink(from);
    bed.nodes[from].is_silent = true;
    bed.bed.gateway.drain_node(bed.bed.now, 0, from, true, false).unwrap();
    bed.pass(20 * SECOND);
    assert_eq!(bed.bed.gateway.map(0).expect("a map").copies_on(from as u16), 1);
    assert_eq!((marked(&bed), status(&bed).moves.unreadable), (vec![], 1));
    bed.nodes[from].is_silent = false;
    bed.until_connecting(from);
    bed.link(from);
    bed.pass(120 * SECOND);
    assert_eq!(bed.bed.gateway.map(0).expect("a map").copies_on(from as u16), 0);
    assert!(read(&mut bed, 5).is_ok() && bed.is_clean());
}
