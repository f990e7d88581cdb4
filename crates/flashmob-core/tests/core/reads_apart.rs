//! Reads that a node has merged: one that hits a block that does not match its checksum fails alone.

use crate::testing::{NodeBed, Reads, bytes_of, node_config};
use flashmob_core::node::StoreDone;
use flashmob_core::op::{Failure, Op, OpFlags};
use flashmob_core::units::Time;
use flashmob_core::wire::batch::{WirePiece, encode_batch};
use flashmob_core::wire::frame::FrameKind;
use flashmob_core::wire::replies::RepliesDecoder;

const BLOCK: u32 = 4096;

/// The store ends its first operation.
fn end(bed: &mut NodeBed, result: Result<(), Failure>) {
    let op = bed.ops.remove(0);
    bed.node.store_done(StoreDone {
        id: op.id,
        result,
        data: op.data,
        started: Time::default(),
        finished: Time::default(),
    });
    bed.turn();
}

/// How pieces were answered, by their numbers.
fn answered(bed: &mut NodeBed) -> Vec<(u16, Result<(), Failure>)> {
    let mut answers = Vec::new();
    for frame in bed.sent(bed.link).iter().filter(|frame| frame.kind == FrameKind::Replies) {
        let mut runs = RepliesDecoder::new(&frame.meta).unwrap();
        while let Some(run) = runs.next_run().unwrap() {
            answers.extend(run.indices().map(|index| (index, run.outcome)));
        }
    }
    answers.sort_by_key(|answer| answer.0);
    answers
}

#[test]
fn a_corrupt_block_fails_the_reads_of_it_alone() {
    let mut bed = NodeBed::new(node_config(64 * u64::from(BLOCK)), Reads::NotTried);
    let read =
        |n: u64| WirePiece { op: Op::Read, flags: OpFlags::NONE, offset_bytes: n * u64::from(BLOCK), len_bytes: BLOCK };
    bed.receive(bed.link, &bytes_of(|out| encode_batch(out, 1, &[read(0), read(1), read(2)], |_| ())));
    let merged: Vec<(u64, u32)> = bed.ops.iter().map(|op| (op.offset_bytes, op.len_bytes)).collect();
    assert_eq!(merged, [(0, 3 * BLOCK)]);
    end(&mut bed, Err(Failure::Corrupt));
    assert_eq!(answered(&mut bed), [], "it is not known yet which of them");
    for n in 0..3 {
        let op = &bed.ops[0];
        assert_eq!((op.op, op.offset_bytes, op.len_bytes), (Op::Read, n * u64::from(BLOCK), BLOCK));
        end(&mut bed, if n == 1 { Err(Failure::Corrupt) } else { Ok(()) });
    }
    assert_eq!(answered(&mut bed), [(0, Ok(())), (1, Err(Failure::Corrupt)), (2, Ok(()))]);
    assert!(bed.ops.is_empty());
    assert_eq!(bed.node.status().memory_bytes.0, 0);
    // Other failures are those of the store, and no piece is tried again.
    bed.receive(bed.link, &bytes_of(|out| encode_batch(out, 2, &[read(0), read(1)], |_| ())));
    end(&mut bed, Err(Failure::Io));
    assert_eq!(answered(&mut bed), [(0, Err(Failure::Io)), (1, Err(Failure::Io))]);
}
