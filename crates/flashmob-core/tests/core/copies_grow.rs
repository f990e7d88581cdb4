//! Volumes with copies that grow while they are used.

use std::time::Duration;

use crate::testing::FlashBed;
use flashmob_core::copies::MapImage;
use flashmob_core::gateway::{LinkPhase, ResizeError, Resized};
use flashmob_core::op::{Failure, Op};

const SECOND: Duration = Duration::from_secs(1);
const CHUNK_BYTES: u64 = FlashBed::CHUNK_BYTES;

/// Three nodes with room for four chunks each; two chunks of two copies.
fn bed() -> FlashBed {
    let mut bed = FlashBed::new(3, 2, 4, |spec| {
        let members = spec.map.members().to_vec();
        spec.map = MapImage::with_chunks(spec.map.map_id(), CHUNK_BYTES, 2, members, 2).unwrap();
    });
    bed.nodes.iter_mut().for_each(|node| node.tells_holes = true);
    bed.pass(SECOND * 3);
    bed
}

fn resize(bed: &mut FlashBed, chunks: u64) -> Result<Resized, ResizeError> {
    bed.bed.gateway.resize(bed.bed.now, 0, chunks * CHUNK_BYTES, false)
}

/// Chunks that clients may use.
fn shown(bed: &FlashBed) -> u64 {
    bed.bed.gateway.layout(0).expect("a layout").size_bytes() / CHUNK_BYTES
}

#[test]
fn a_volume_grows_as_far_as_there_is_room() {
    let mut bed = bed();
    let dry = bed.bed.gateway.resize(bed.bed.now, 0, 3 * CHUNK_BYTES, true).unwrap();
    assert_eq!((dry.from_bytes, dry.to_bytes, dry.number), (2 * CHUNK_BYTES, 3 * CHUNK_BYTES, 0));
    assert_eq!(resize(&mut bed, 7), Err(ResizeError::NoRoom { fit_bytes: 6 * CHUNK_BYTES }));
    assert_eq!(resize(&mut bed, 1), Err(ResizeError::Shrinks { from_bytes: 2 * CHUNK_BYTES }));
    let part = bed.bed.gateway.resize(bed.bed.now, 0, 3 * CHUNK_BYTES - 1, false).unwrap_err();
    assert!(matches!(part, ResizeError::PartOfChunk { next_bytes, .. } if next_bytes == 3 * CHUNK_BYTES), "{part}");
    resize(&mut bed, 3).unwrap();
    assert_eq!(shown(&bed), 2, "it is not on record");
    // Another one before the first has effect.
    resize(&mut bed, 6).unwrap();
    bed.pass(SECOND * 3);
    assert_eq!((shown(&bed), bed.bed.gateway.map(0).unwrap().shown()), (6, 6));
    assert_eq!(resize(&mut bed, 7), Err(ResizeError::NoRoom { fit_bytes: 6 * CHUNK_BYTES }));
    assert!(resize(&mut bed, 6).is_ok(), "it has that");
}

#[test]
fn new_room_is_zeros_and_keeps_what_is_written_there() {
    let mut bed = bed();
    let (client, at) = (bed.client, 2 * CHUNK_BYTES);
    bed.bed.submit(client, Op::Read, at, 4096);
    bed.serve();
    assert_eq!(bed.results(), [Err(Failure::Invalid)], "behind the end");
    resize(&mut bed, 4).unwrap();
    bed.pass(SECOND * 3);
    bed.bed.submit(client, Op::Read, at, 2 * CHUNK_BYTES as u32);
    bed.serve();
    assert_eq!(bed.results(), [Ok(vec![0; 2 * CHUNK_BYTES as usize])]);
    bed.bed.submit(client, Op::Write, at + CHUNK_BYTES - 512, 1024);
    bed.serve();
    assert_eq!(bed.results(), [Ok(Vec::new())]);
    for (chunk, block) in [(2, 15), (3, 0)] {
        assert_eq!(bed.block(chunk, 0, block), bed.block(chunk, 1, block));
        assert!(bed.block(chunk, 0, block).iter().any(|&byte| byte != 0), "{chunk}");
    }
    bed.bed.submit(client, Op::Read, 4 * CHUNK_BYTES - 512, 513);
    bed.serve();
    assert_eq!(bed.results(), [Err(Failure::Invalid)], "behind the new end");
}

#[test]
fn room_that_was_not_looked_through_is_not_used() {
    let mut bed = bed();
    bed.unlink(1);
    let places = (0..2).flat_map(|chunk| bed.bed.gateway.map(0).unwrap().places(chunk).to_vec());
    let used = places.filter(|place| place.member != 1).count() as u64;
    // Two nodes are there: each new chunk has a copy on both.
    let fit = 2 + (4 - used.div_ceil(2)).min(4);
    let refused = resize(&mut bed, 9).unwrap_err();
    assert!(matches!(refused, ResizeError::NoRoomYet { fit_bytes, .. } if fit_bytes <= fit * CHUNK_BYTES), "{refused}");
    // What is to be done first is not to add a node.
    let text = refused.to_string();
    assert!(text.contains("not linked: ") && text.contains("Try again once they are linked"), "{text}");
    // Its device was started anew: it is searched again.
    bed.until_connecting(1);
    bed.link_after(1, [99; 16]);
    // It cannot tell what its free slots hold before it is asked.
    let before = bed.bed.gateway.map(0).unwrap().copies_on(1);
    resize(&mut bed, 3).unwrap();
    assert_eq!(bed.bed.gateway.map(0).unwrap().copies_on(1), before, "it is not used yet");
    bed.pass(SECOND * 5);
    resize(&mut bed, 6).unwrap();
    bed.pass(SECOND * 3);
    assert_eq!(shown(&bed), 6);
}

/// Whether a node was flushed after it was asked last for something.
fn is_flushed_after(bed: &FlashBed, n: usize, op: Op) -> bool {
    let last = |op: Op| bed.nodes[n].seen.iter().rposition(|piece| piece.op == op);
    last(Op::Flush) > last(op)
}

/// All copies may lose power, and clients would find in new chunks what others had.
#[test]
fn slots_that_were_cleared_take_new_chunks_after_a_flush() {
    let mut bed = FlashBed::new(3, 2, 4, |spec| spec.settle_after = SECOND * 3600);
    bed.nodes.iter_mut().for_each(|node| node.tells_holes = true);
    bed.pass(SECOND * 3);
    bed.bed.gateway.shrink(bed.bed.now, 0, 3 * CHUNK_BYTES, true, false).unwrap();
    let fits = |bed: &mut FlashBed| bed.bed.gateway.resize(bed.bed.now, 0, 6 * CHUNK_BYTES, true).is_ok();
    bed.pass(Duration::from_millis(1));
    while shown(&bed) > 3 || !fits(&mut bed) {
        if bed.serve_once() == 0 {
            bed.pass(Duration::from_millis(1));
        }
    }
    for n in 0..3 {
        assert!(bed.nodes[n].seen.iter().any(|piece| piece.op == Op::WriteZeroes), "node {n} has cleared a slot");
        assert!(is_flushed_after(&bed, n, Op::WriteZeroes), "node {n} may not have written that");
    }
}

/// A gateway that was killed may have cleared them, and nobody flushed that.
#[test]
fn slots_that_are_found_to_be_holes_take_new_chunks_after_a_flush() {
    let mut bed = bed();
    assert!(resize(&mut bed, 3).is_ok());
    for n in 0..3 {
        assert!(is_flushed_after(&bed, n, Op::Map), "node {n} may have written none of them");
    }
}

#[test]
fn an_extent_that_has_grown_brings_its_room() {
    let mut bed = bed();
    resize(&mut bed, 6).unwrap();
    bed.pass(SECOND * 3);
    assert_eq!(resize(&mut bed, 8), Err(ResizeError::NoRoom { fit_bytes: 6 * CHUNK_BYTES }));
    let kept = bed.block(0, 0, 3);
    for n in 0..2 {
        let was = bed.nodes[n].bytes.len();
        bed.unlink(n);
        bed.until_connecting(n);
        // Somebody else's data lies there.
        bed.nodes[n].bytes.resize(was + 2 * CHUNK_BYTES as usize + 100, 7);
        bed.link(n);
        bed.pass(SECOND * 3);
        assert_eq!(bed.bed.gateway.map(0).unwrap().members()[n].size_bytes, bed.nodes[n].bytes.len() as u64);
        assert!(bed.nodes[n].bytes[was..was + 2 * CHUNK_BYTES as usize].iter().all(|byte| *byte == 0), "it is cleared");
    }
    resize(&mut bed, 8).unwrap();
    bed.pass(SECOND * 3);
    assert_eq!((shown(&bed), bed.block(0, 0, 3)), (8, kept));
    let client = bed.client;
    bed.bed.submit(client, Op::Read, 6 * CHUNK_BYTES, 2 * CHUNK_BYTES as u32);
    bed.serve();
    assert_eq!(bed.results(), [Ok(vec![0; 2 * CHUNK_BYTES as usize])]);
    // One that has become smaller is refused.
    bed.unlink(0);
    bed.until_connecting(0);
    let less = bed.bed.gateway.map(0).unwrap().used_bytes(0) as usize - 1;
    bed.nodes[0].bytes.truncate(less);
    bed.link(0);
    bed.serve();
    assert_eq!(bed.bed.gateway.status().volumes[0].nodes[0].links[0].phase, LinkPhase::Waiting);
}

/// The size that a node tells is put on record, so that it must not be more than can be, and must not keep the true size out.
#[test]
fn a_size_that_cannot_be_is_refused_and_one_that_was_too_large_is_taken_back() {
    let phase = |bed: &FlashBed| bed.bed.gateway.status().volumes[0].nodes[0].links[0].phase;
    let size = |bed: &FlashBed| bed.bed.gateway.map(0).unwrap().members()[0].size_bytes;
    let tell = |bed: &mut FlashBed, size_bytes| {
        bed.unlink(0);
        bed.until_connecting(0);
        bed.link_of_size(0, size_bytes);
    };
    let most = bed().bed.gateway.map(0).unwrap().extent_bytes_max();
    for (size_bytes, is_taken) in [(1 << 62, false), (most + 1, false), (most, true), (most - 1, true)] {
        let mut bed = bed();
        tell(&mut bed, size_bytes);
        assert_eq!(phase(&bed) == LinkPhase::Ready, is_taken, "{size_bytes}");
    }
    let mut bed = bed();
    let (true_bytes, used) = (size(&bed), bed.bed.gateway.map(0).unwrap().used_bytes(0));
    assert!(used > 0 && used < true_bytes);
    let lie = true_bytes + 3 * CHUNK_BYTES;
    for (size_bytes, is_taken) in [(lie, true), (true_bytes, true), (used - 1, false), (used, true), (true_bytes, true)]
    {
        bed.nodes[0].bytes.resize(size_bytes.max(used) as usize, 0);
        tell(&mut bed, size_bytes);
        assert_eq!(phase(&bed) == LinkPhase::Ready, is_taken, "{size_bytes}");
        let before = size(&bed);
        bed.pass(SECOND * 2);
        assert_eq!(size(&bed), if is_taken { size_bytes } else { before });
    }
}
