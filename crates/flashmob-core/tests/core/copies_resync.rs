//! Volumes with copies: somebody has a node's copies made equal to others.

use std::time::Duration;

use crate::testing::{BLOCK, FlashBed};
use flashmob_core::copies::Marks;
use flashmob_core::gateway::{CopiesStatus, Flaw, MoveError, ResyncError, Resynced};
use flashmob_core::op::{Failure, Op};

const SECOND: Duration = Duration::from_secs(1);
/// The node whose copies are not believed.
const WRONG: usize = 1;

fn resync(bed: &mut FlashBed, node: usize) -> Result<Resynced, ResyncError> {
    bed.bed.gateway.resync_node(bed.bed.now, 0, node)
}

fn status(bed: &FlashBed) -> CopiesStatus {
    bed.bed.gateway.copies_status(bed.bed.now, 0).expect("it has copies")
}

fn marks(bed: &FlashBed, chunk: u32) -> Marks {
    bed.bed.gateway.map(0).expect("a map").marks(chunk)
}

fn copy_on(bed: &FlashBed, chunk: u32, node: usize) -> usize {
    let places = bed.bed.gateway.map(0).expect("a map").places(chunk);
    places.iter().position(|place| usize::from(place.member) == node).expect("a copy")
}

/// A node has other bytes of a block, that match their checksum.
fn differ(bed: &mut FlashBed, chunk: u32, block: u64) -> Vec<u8> {
    let copy = copy_on(bed, chunk, WRONG);
    let right = bed.block(chunk, 1 - copy, block);
    bed.put(chunk, copy, block, &[7; BLOCK as usize]);
    right
}

fn read(bed: &mut FlashBed, chunk: u32, block: u64) -> Result<Vec<u8>, Failure> {
    bed.bed.submit(bed.client, Op::Read, u64::from(chunk) * FlashBed::CHUNK_BYTES + block * BLOCK, BLOCK as u32);
    bed.pass(SECOND);
    bed.results().pop().expect("answered")
}

fn is_equal(bed: &FlashBed, chunk: u32) -> bool {
    (0..FlashBed::CHUNK_BYTES / BLOCK).all(|block| bed.block(chunk, 0, block) == bed.block(chunk, 1, block))
}

#[test]
fn copies_that_differ_become_those_of_the_other_node() {
    let mut bed = FlashBed::new(2, 2, 4, |_| ());
    bed.pass(SECOND);
    let right = [(0, 3), (2, 9), (2, 10)].map(|(chunk, block)| (chunk, block, differ(&mut bed, chunk, block)));
    bed.bed.gateway.begin_scrub(bed.bed.now, 0, true).unwrap();
    bed.pass(20 * SECOND);
    let listed =
        |bed: &FlashBed| bed.bed.gateway.bad_ranges(0).into_iter().map(|(.., bad, _)| bad.first.flaw).collect();
    assert_eq!(Vec::<Flaw>::from_iter::<Vec<Flaw>>(listed(&bed)), [Flaw::Differs, Flaw::Differs]);
    let copied = status(&bed).counters.copied_bytes;
    let resynced = resync(&mut bed, WRONG).unwrap();
    assert_eq!((resynced.copies, resynced.lacked), (4, 0));
    for chunk in 0..4 {
        assert_eq!(marks(&bed, chunk).behind, 1 << copy_on(&bed, chunk, WRONG));
    }
    bed.pass(SECOND);
    assert!(bed.bed.gateway.is_recorded(0, resynced.number));
    // Clients go on meanwhile, and see no copy that is behind.
    for (chunk, block, right) in &right {
        assert_eq!(read(&mut bed, *chunk, *block).as_ref(), Ok(right));
    }
    bed.bed.submit(bed.client, Op::Write, FlashBed::CHUNK_BYTES, 512);
    bed.pass(60 * SECOND);
    assert_eq!(bed.results(), [Ok(vec![])]);
    assert!((0..4).all(|chunk| is_equal(&bed, chunk) && marks(&bed, chunk).behind == 0));
    assert_eq!(status(&bed).counters.copied_bytes - copied, 3 * BLOCK, "only what differs is copied");
    assert_eq!(Vec::<Flaw>::from_iter::<Vec<Flaw>>(listed(&bed)), []);
    let again = resync(&mut bed, WRONG).unwrap();
    assert_eq!((again.copies, again.lacked), (4, 0), "as often as somebody likes");
}

#[test]
fn a_node_with_an_only_current_copy_keeps_what_it_has() {
    let mut bed = FlashBed::new(2, 2, 2, |_| ());
    bed.pass(SECOND);
    bed.unlink(0);
    bed.bed.submit(bed.client, Op::Write, 0, BLOCK as u32);
    bed.pass(10 * SECOND);
    assert_eq!(bed.results(), [Ok(vec![])]);
    let name = bed.bed.gateway.status().volumes[0].nodes[WRONG].name.clone();
    let before = [marks(&bed, 0), marks(&bed, 1)];
    assert_eq!(resync(&mut bed, WRONG), Err(ResyncError::OnlyCopy { name: name.clone(), chunks: 1, first: 0 }));
    assert_eq!([marks(&bed, 0), marks(&bed, 1)], before, "nothing has changed");
    let text = resync(&mut bed, WRONG).unwrap_err().to_string();
    assert!(text.contains("only current copy of 1 chunks"), "{text}");
}

#[test]
fn others_have_to_be_there() {
    let mut bed = FlashBed::new(2, 2, 2, |_| ());
    bed.pass(SECOND);
    bed.unlink(0);
    assert!(matches!(resync(&mut bed, WRONG), Err(ResyncError::Needed { chunks: 2, first: 0, .. })));
    // The one that is away may be made equal when it is back.
    let resynced = resync(&mut bed, 0).unwrap();
    assert_eq!(resynced.copies, 2);
    bed.until_connecting(0);
    bed.link(0);
    bed.pass(60 * SECOND);
    assert!((0..2).all(|chunk| is_equal(&bed, chunk) && marks(&bed, chunk).behind == 0));
    assert_eq!(resync(&mut bed, 2), Err(MoveError::NoNode { number: 2, count: 2 }.into()));
}

#[test]
fn where_changes_need_two_current_copies_none_is_given_up() {
    let mut bed = FlashBed::new(2, 2, 2, |spec| spec.min_current = 2);
    bed.pass(SECOND);
    assert!(matches!(resync(&mut bed, WRONG), Err(ResyncError::Needed { .. })));
}

#[test]
fn nothing_is_made_equal_on_a_paused_node() {
    let mut bed = FlashBed::new(2, 2, 2, |_| ());
    bed.pass(SECOND);
    let pause = |bed: &mut FlashBed, is_paused| bed.bed.gateway.pause_node(bed.bed.now, 0, WRONG, is_paused);
    read(&mut bed, 0, 0).unwrap();
    let is_paused = (0..4).any(|block| {
        read(&mut bed, 1, block).unwrap();
        pause(&mut bed, true).is_ok()
    });
    assert!(is_paused);
    assert!(matches!(resync(&mut bed, WRONG), Err(ResyncError::Paused(_))));
}

#[test]
fn a_connection_may_outlast_the_device_that_has_the_other_copies() {
    let mut bed = FlashBed::new(2, 2, 2, |_| ());
    bed.pass(SECOND);
    // Nobody asks anything, so nothing is heard.
    bed.nodes[0].is_silent = true;
    bed.pass(2 * SECOND);
    assert!(matches!(resync(&mut bed, WRONG), Err(ResyncError::NotHeard(_))));
    assert_eq!(marks(&bed, 0).behind, 0);
    bed.nodes[0].is_silent = false;
    read(&mut bed, 0, 0).unwrap();
    bed.pass(SECOND);
    let heard = (0..2).any(|_| {
        read(&mut bed, 0, 1).unwrap();
        resync(&mut bed, WRONG).is_ok()
    });
    assert!(heard, "it has answered");
}
