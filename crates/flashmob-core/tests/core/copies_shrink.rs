//! Volumes with copies that shrink while they are used.

use std::time::Duration;

use crate::testing::{BLOCK, FlashBed};
use flashmob_core::copies::{Marks, Record};
use flashmob_core::gateway::{Action, ResizeError, Resized};
use flashmob_core::op::{Failure, Op};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const CHUNK_BYTES: u64 = FlashBed::CHUNK_BYTES;

/// Three nodes; six chunks of two copies, all of them with data.
fn bed() -> FlashBed {
    let mut bed = FlashBed::new(3, 2, 4, |spec| spec.settle_after = SECOND);
    bed.nodes.iter_mut().for_each(|node| node.tells_holes = true);
    bed.pass(SECOND * 3);
    assert_eq!((chunks(&bed), shown(&bed)), (6, 6));
    bed
}

fn chunks(bed: &FlashBed) -> u32 {
    bed.bed.gateway.map(0).expect("a map").chunks()
}

/// Chunks that clients may use.
fn shown(bed: &FlashBed) -> u64 {
    bed.bed.gateway.layout(0).expect("a layout").size_bytes() / CHUNK_BYTES
}

fn begin(bed: &mut FlashBed, chunks: u64, gives_up: bool) -> Result<(), ResizeError> {
    bed.bed.gateway.shrink(bed.bed.now, 0, chunks * CHUNK_BYTES, gives_up, false)
}

fn outcome(bed: &mut FlashBed) -> Option<Result<(u64, u64), ResizeError>> {
    let sizes = |resized: Resized| (resized.from_bytes / CHUNK_BYTES, resized.to_bytes / CHUNK_BYTES);
    bed.bed.gateway.take_shrunk(0).map(|outcome| outcome.map(sizes))
}

fn shrink(bed: &mut FlashBed, chunks: u64, gives_up: bool) -> Result<(u64, u64), ResizeError> {
    begin(bed, chunks, gives_up)?;
    bed.pass(SECOND);
    outcome(bed).expect("it is over")
}

/// A client does something, which ends at once.
fn does(bed: &mut FlashBed, op: Op, offset_bytes: u64, len_bytes: u64) -> Result<Vec<u8>, Failure> {
    bed.bed.submit(bed.client, op, offset_bytes, len_bytes as u32);
    bed.serve();
    bed.results().pop().expect("an answer")
}

fn trim(bed: &mut FlashBed, chunk: u64) {
    assert_eq!(does(bed, Op::Trim, chunk * CHUNK_BYTES, CHUNK_BYTES), Ok(vec![]));
}

#[test]
fn a_volume_loses_what_was_trimmed_and_its_slots_are_free() {
    let mut bed = bed();
    let first = does(&mut bed, Op::Read, 0, 4 * CHUNK_BYTES).unwrap();
    [4, 5].into_iter().for_each(|chunk| trim(&mut bed, chunk));
    assert_eq!(shrink(&mut bed, 4, false), Ok((6, 4)));
    bed.pass(SECOND);
    assert_eq!((chunks(&bed), shown(&bed)), (4, 4));
    let image = bed.bed.gateway.map(0).unwrap();
    assert_eq!((0..3).map(|member| image.copies_on(member)).sum::<u32>(), 8);
    assert_eq!(does(&mut bed, Op::Read, 0, 4 * CHUNK_BYTES), Ok(first));
    assert_eq!(does(&mut bed, Op::Read, 4 * CHUNK_BYTES - 512, 513), Err(Failure::Invalid));
    assert_eq!(does(&mut bed, Op::Write, 4 * CHUNK_BYTES, 512), Err(Failure::Invalid));
    // It grows again, as if nothing had been there.
    bed.bed.gateway.resize(bed.bed.now, 0, 6 * CHUNK_BYTES, false).unwrap();
    bed.pass(SECOND * 3);
    assert_eq!(shown(&bed), 6);
    assert_eq!(does(&mut bed, Op::Read, 4 * CHUNK_BYTES, 2 * CHUNK_BYTES), Ok(vec![0; 2 * CHUNK_BYTES as usize]));
}

#[test]
fn what_holds_data_is_kept_unless_it_is_given_up() {
    let mut bed = bed();
    let before = does(&mut bed, Op::Read, 0, 6 * CHUNK_BYTES).unwrap();
    trim(&mut bed, 4);
    let last = 5 * CHUNK_BYTES + 15 * BLOCK;
    assert_eq!(does(&mut bed, Op::Trim, 5 * CHUNK_BYTES, 15 * BLOCK), Ok(vec![]));
    assert_eq!(shrink(&mut bed, 4, false), Err(ResizeError::HoldsData { offset_bytes: last }));
    assert_eq!((chunks(&bed), shown(&bed)), (6, 6));
    assert_eq!(does(&mut bed, Op::Read, last, BLOCK).unwrap(), before[last as usize..]);
    assert_eq!(does(&mut bed, Op::Write, last, 512), Ok(vec![]), "it is used as before");
    assert_eq!(shrink(&mut bed, 3, true), Ok((6, 3)));
    bed.pass(SECOND * 3);
    bed.bed.gateway.resize(bed.bed.now, 0, 6 * CHUNK_BYTES, false).unwrap();
    bed.pass(SECOND * 3);
    let after = does(&mut bed, Op::Read, 0, 6 * CHUNK_BYTES).unwrap();
    let end = 3 * CHUNK_BYTES as usize;
    assert!(after[..end] == before[..end] && after[end..].iter().all(|byte| *byte == 0));
}

#[test]
fn whether_it_can_be_is_told_without_doing_it() {
    let mut bed = bed();
    trim(&mut bed, 5);
    let mut dry = |chunks: u64| {
        bed.bed.gateway.shrink(bed.bed.now, 0, chunks * CHUNK_BYTES, false, true).unwrap();
        assert_eq!(does(&mut bed, Op::WriteZeroes, 5 * CHUNK_BYTES, 512), Ok(vec![]), "changes are taken");
        bed.pass(SECOND);
        outcome(&mut bed)
    };
    assert_eq!(dry(5), Some(Ok((6, 5))));
    assert_eq!(dry(4), Some(Err(ResizeError::HoldsData { offset_bytes: 4 * CHUNK_BYTES })));
    assert_eq!((chunks(&bed), shown(&bed)), (6, 6));
}

#[test]
fn sizes_have_limits() {
    let mut bed = bed();
    let mut of_bytes = |size_bytes: u64| bed.bed.gateway.shrink(bed.bed.now, 0, size_bytes, true, false).unwrap_err();
    for size_bytes in [0, 1, CHUNK_BYTES - 1, CHUNK_BYTES + 1] {
        let next = if size_bytes > CHUNK_BYTES { 2 } else { 1 } * CHUNK_BYTES;
        let error = of_bytes(size_bytes);
        assert!(matches!(error, ResizeError::PartOfChunk { next_bytes, .. } if next_bytes == next), "{error}");
    }
    assert_eq!(shrink(&mut bed, 6, true), Ok((6, 6)), "it has that");
    assert_eq!(shrink(&mut bed, 1, true), Ok((6, 1)));
    assert_eq!((chunks(&bed), shown(&bed)), (1, 1));
}

#[test]
fn changes_behind_the_end_end_first_and_no_others_begin() {
    let mut bed = bed();
    trim(&mut bed, 5);
    bed.pass(SECOND * 3);
    (0..3).for_each(|n| bed.nodes[n].is_silent = true);
    bed.bed.submit(bed.client, Op::Write, 5 * CHUNK_BYTES, 512);
    bed.pass(MS * 100);
    begin(&mut bed, 5, false).unwrap();
    bed.pass(MS * 100);
    bed.bed.submit(bed.client, Op::Write, 5 * CHUNK_BYTES - 512, 1024);
    bed.pass(MS * 100);
    assert_eq!(bed.results(), [Err(Failure::NoSpace)], "it would reach behind the end");
    assert_eq!((outcome(&mut bed), chunks(&bed)), (None, 6));
    (0..3).for_each(|n| bed.nodes[n].is_silent = false);
    bed.pass(SECOND);
    assert_eq!(bed.results(), [Ok(vec![])]);
    assert_eq!(outcome(&mut bed), Some(Err(ResizeError::HoldsData { offset_bytes: 5 * CHUNK_BYTES })));
    assert_eq!(shown(&bed), 6);
}

#[test]
fn reads_behind_the_end_are_answered() {
    let mut bed = bed();
    bed.nodes.iter_mut().for_each(|node| node.is_silent = true);
    bed.bed.submit(bed.client, Op::Read, 5 * CHUNK_BYTES, BLOCK as u32);
    bed.pass(MS * 100);
    begin(&mut bed, 4, true).unwrap();
    bed.pass(MS * 200);
    assert_eq!((outcome(&mut bed), chunks(&bed), shown(&bed)), (None, 6, 4), "clients have the new end");
    bed.nodes.iter_mut().for_each(|node| node.is_silent = false);
    bed.pass(SECOND);
    assert!(matches!(&bed.results()[..], [Ok(bytes)] if bytes.iter().any(|byte| *byte != 0)));
    assert_eq!((outcome(&mut bed), chunks(&bed)), (Some(Ok((6, 4))), 4));
}

#[test]
fn what_nobody_can_look_at_is_kept_unless_it_is_given_up() {
    let mut bed = bed();
    [4, 5].into_iter().for_each(|chunk| trim(&mut bed, chunk));
    bed.pass(SECOND * 3);
    let away: Vec<usize> = (0..2).map(|copy| bed.place_of(5, copy)).collect();
    away.iter().for_each(|&n| bed.unlink(n));
    begin(&mut bed, 4, false).unwrap();
    bed.pass(SECOND * 119);
    assert_eq!(outcome(&mut bed), None);
    bed.pass(SECOND * 2);
    let error = outcome(&mut bed).expect("it has waited for the timeout").unwrap_err();
    assert!(matches!(error, ResizeError::Away { .. }), "{error}");
    assert_eq!(shrink(&mut bed, 4, true), Ok((6, 4)));
}

#[test]
fn nothing_is_given_up_that_a_former_gateway_could_still_change() {
    // Whether nodes 1 and 2 know that another gateway is in charge cannot be told, so they may take writes of the former one.
    let mut bed = FlashBed::without(1..3, 3, 2, 4, |_| ());
    bed.pass(SECOND * 3);
    let of_others: Vec<u64> =
        (0..6).filter(|&chunk| (0..2).all(|copy| bed.place_of(chunk, copy) != 0)).map(u64::from).collect();
    let [.., last] = of_others[..] else { panic!("chunks without a copy on node 0") };
    begin(&mut bed, last, true).unwrap();
    bed.pass(SECOND * 119);
    assert_eq!((outcome(&mut bed), chunks(&bed), shown(&bed)), (None, 6, 6));
    // Meanwhile nothing is refused.
    bed.bed.submit(bed.client, Op::Write, last * CHUNK_BYTES, 512);
    bed.serve();
    assert_eq!(bed.results(), []);
    bed.pass(SECOND * 2);
    let error = outcome(&mut bed).expect("it has waited for the timeout").unwrap_err();
    let ResizeError::Unfenced { names } = error else { panic!("{error}") };
    assert!(names == "node1, node2" || names == "node2, node1", "{names}");
    assert_eq!(bed.bed.gateway.shrink_status(0), None);
    // One of the two is enough, and need not stay.
    begin(&mut bed, last, true).unwrap();
    bed.pass(SECOND);
    assert_eq!(outcome(&mut bed), None);
    let n = bed.place_of(last as u32, 1);
    bed.link(n);
    bed.pass(SECOND);
    bed.unlink(n);
    assert_eq!(bed.results(), [Ok(vec![])], "the write that was taken has ended");
    assert_eq!(outcome(&mut bed), Some(Ok((6, last))));
    assert!(of_others.len() > 1, "chunks that are looked at one after the other");
}

#[test]
fn a_node_whose_copy_is_behind_keeps_no_former_gateway_out() {
    // The former gateway does not need that copy for a change.
    let mut bed = FlashBed::without(1..3, 3, 2, 4, |spec| {
        for chunk in 0..spec.map.chunks() {
            let Some(copy) = spec.map.places(chunk).iter().position(|place| place.member == 0) else { continue };
            let marks = Marks { behind: 1 << copy, ..Marks::default() };
            spec.map.apply(&Record::Marks { first_chunk: chunk, count: 1, marks }).unwrap();
        }
    });
    bed.pass(SECOND * 3);
    let of_node = |bed: &FlashBed, chunk: u32| (0..2).any(|copy| bed.place_of(chunk, copy) == 0);
    let last = (0..6).rev().find(|&chunk| of_node(&bed, chunk)).expect("a chunk with a copy on node 0");
    begin(&mut bed, u64::from(last), true).unwrap();
    // What the map had at the start is not in a mirror before that is given up.
    bed.pass(SECOND * 300);
    let error = outcome(&mut bed).expect("it has waited for the timeout").unwrap_err();
    let ResizeError::Unfenced { names } = error else { panic!("{error}") };
    assert!(names == "node1" || names == "node2", "{names}");
    (1..3).for_each(|n| bed.link(n));
    begin(&mut bed, u64::from(last), true).unwrap();
    bed.pass(SECOND * 300);
    assert_eq!(outcome(&mut bed), Some(Ok((6, u64::from(last)))));
}

#[test]
fn one_copy_that_is_there_is_enough_and_another_is_asked_if_it_goes() {
    let mut bed = bed();
    trim(&mut bed, 5);
    bed.pass(SECOND * 3);
    bed.nodes.iter_mut().for_each(|node| node.is_silent = true);
    begin(&mut bed, 5, false).unwrap();
    bed.pass(MS * 100);
    let asked = bed.place_of(5, 0);
    bed.unlink(asked);
    bed.nodes.iter_mut().for_each(|node| node.is_silent = false);
    bed.pass(SECOND);
    assert_eq!(outcome(&mut bed), Some(Ok((6, 5))));
}

#[test]
fn another_copy_is_asked_if_one_does_not_tell() {
    let mut bed = bed();
    [4, 5].into_iter().for_each(|chunk| trim(&mut bed, chunk));
    bed.pass(SECOND * 3);
    let first = bed.place_of(5, 0);
    bed.nodes[first].fails_maps = Some(Failure::Io);
    assert_eq!(shrink(&mut bed, 5, false), Ok((6, 5)));
    // Of the next one no copy tells it.
    bed.nodes.iter_mut().for_each(|node| node.fails_maps = Some(Failure::Io));
    let error = shrink(&mut bed, 4, false).unwrap_err();
    assert!(matches!(error, ResizeError::Failed { failure: Failure::Io, .. }), "{error}");
    bed.nodes.iter_mut().for_each(|node| node.fails_maps = Some(Failure::NotSupported));
    let error = shrink(&mut bed, 4, false).unwrap_err();
    assert!(matches!(error, ResizeError::CannotTell { .. }), "{error}");
    assert_eq!((chunks(&bed), shown(&bed)), (5, 5));
}

#[test]
fn what_one_copy_has_is_kept_though_another_lacks_it() {
    let mut bed = bed();
    trim(&mut bed, 5);
    bed.pass(SECOND * 3);
    for copy in 0..2 {
        let (place, bytes) = (bed.place_of(5, copy), vec![7; BLOCK as usize]);
        bed.put(5, copy, 3, &bytes);
        let error = shrink(&mut bed, 5, false).unwrap_err();
        assert_eq!(error, ResizeError::HoldsData { offset_bytes: 5 * CHUNK_BYTES + 3 * BLOCK }, "node {place}");
        bed.put(5, copy, 3, &vec![0; BLOCK as usize]);
    }
    assert_eq!(shrink(&mut bed, 5, false), Ok((6, 5)));
}

#[test]
fn slots_are_used_again_once_that_is_on_record() {
    let mut bed = bed();
    begin(&mut bed, 5, true).unwrap();
    let lost: Vec<usize> = (0..2).map(|copy| bed.place_of(5, copy)).collect();
    let mut number = 0;
    for _ in 0..50 {
        bed.bed.pass(MS * 10);
        bed.bed.turn();
        number = bed.bed.actions().iter().fold(number, |last, action| match action {
            Action::Commit { number, .. } => *number,
            _ => last,
        });
        (0..3).filter(|&n| bed.answer(n)).count();
    }
    assert_eq!((outcome(&mut bed), chunks(&bed)), (Some(Ok((6, 5))), 5), "it is decided");
    let has_zeroed = |bed: &FlashBed| lost.iter().any(|&n| bed.nodes[n].seen.iter().any(|p| p.op == Op::WriteZeroes));
    let freed = |bed: &FlashBed| bed.bed.gateway.copies_status(bed.bed.now, 0).unwrap().moves.freed;
    assert_eq!((has_zeroed(&bed), freed(&bed)), (false, 2));
    bed.bed.gateway.committed(bed.bed.now, 0, number, Ok(()));
    bed.pass(SECOND);
    assert_eq!((has_zeroed(&bed), freed(&bed)), (true, 0));
}

#[test]
fn many_slots_are_free_again_though_a_node_is_away_or_cannot_clear() {
    // More than are looked at at a time.
    let mut bed = FlashBed::new(3, 2, 100, |spec| spec.settle_after = SECOND);
    bed.nodes.iter_mut().for_each(|node| node.tells_holes = true);
    bed.pass(SECOND * 3);
    bed.unlink(0);
    bed.nodes[1].fails_zeroes = Some(Failure::NotSupported);
    assert_eq!(shrink(&mut bed, 2, true), Ok((150, 2)));
    let freed = |bed: &FlashBed| bed.bed.gateway.copies_status(bed.bed.now, 0).unwrap().moves.freed;
    bed.pass(SECOND * 10);
    assert_eq!(freed(&bed), 0);
    let cleared = |n: usize| bed.nodes[n].seen.iter().filter(|piece| piece.op == Op::WriteZeroes).count();
    assert!(cleared(1) <= 2 && cleared(2) >= 96, "{} and {}", cleared(1), cleared(2));
}

#[test]
fn one_change_of_the_size_at_a_time() {
    let mut bed = bed();
    bed.nodes.iter_mut().for_each(|node| node.is_silent = true);
    bed.bed.submit(bed.client, Op::Write, 5 * CHUNK_BYTES, 512);
    bed.pass(MS * 100);
    begin(&mut bed, 5, false).unwrap();
    assert_eq!(begin(&mut bed, 4, true), Err(ResizeError::UnderWay));
    assert_eq!(bed.bed.gateway.resize(bed.bed.now, 0, 7 * CHUNK_BYTES, false), Err(ResizeError::UnderWay));
    assert_eq!(bed.bed.gateway.shrink_status(0).map(|s| (s.done_bytes, s.total_bytes)), Some((0, CHUNK_BYTES)));
}
