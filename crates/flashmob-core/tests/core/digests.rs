//! Digests: what a node does with them, and that no client gets one.

use crate::testing::{GatewayBed, NodeBed, Reads, bytes_of, gateway_config, node_config, volume, welcome};
use flashmob_core::op::{Failure, Op, OpFlags};
use flashmob_core::wire::batch::{WirePiece, encode_batch};
use flashmob_core::wire::digest::put_digest;
use flashmob_core::wire::frame::FrameKind;
use flashmob_core::wire::replies::RepliesDecoder;

const EXTENT_BYTES: u64 = 1 << 20;

fn piece(op: Op, offset_bytes: u64, len_bytes: u32) -> WirePiece {
    WirePiece { op, flags: OpFlags::NONE, offset_bytes, len_bytes }
}

fn batch(seq: u32, pieces: &[WirePiece]) -> Vec<u8> {
    let payload_bytes: usize = pieces.iter().map(|piece| piece.payload_bytes() as usize).sum();
    bytes_of(|out| encode_batch(out, seq, pieces, |data| data.resize(data.len() + payload_bytes, 1)))
}

/// The number of a piece, and its outcome.
type Answer = (u16, Result<(), Failure>);

/// The answers that a link was sent, and the data of all.
fn answers(bed: &mut NodeBed) -> (Vec<Answer>, Vec<u8>) {
    let (mut answers, mut data) = (Vec::new(), Vec::new());
    for frame in bed.sent(bed.link).into_iter().filter(|frame| frame.kind == FrameKind::Replies) {
        let mut runs = RepliesDecoder::new(&frame.meta).unwrap();
        while let Some(run) = runs.next_run().unwrap() {
            answers.extend(run.indices().map(|index| (index, run.outcome)));
        }
        data.extend(frame.payload);
    }
    (answers, data)
}

#[test]
fn a_digest_is_never_answered_from_memory_nor_merged() {
    let mut bed = NodeBed::new(node_config(EXTENT_BYTES), Reads::Hit);
    let digests = [(0, 4096), (4096, 4096), (8192, 8192)].map(|(at, len)| piece(Op::Digest, at, len));
    bed.receive(bed.link, &batch(1, &[&digests[..], &[piece(Op::Read, 0, 4096)]].concat()));
    let asked: Vec<(Op, u64, usize)> = bed.ops.iter().map(|op| (op.op, op.offset_bytes, op.data.len())).collect();
    let expected = [(Op::Digest, 0, 8), (Op::Read, 0, 4096), (Op::Digest, 4096, 8), (Op::Digest, 8192, 16)];
    assert!(asked.len() == 4 && asked.iter().all(|op| expected.contains(op)), "{asked:?}");
    for op in bed.ops.iter_mut().filter(|op| op.op == Op::Digest) {
        put_digest(&vec![7; op.len_bytes as usize], &mut op.data);
    }
    (0..4).for_each(|_| bed.end_one());
    let (answers, data) = answers(&mut bed);
    assert_eq!((answers.len(), answers.iter().filter(|(_, outcome)| outcome.is_ok()).count()), (4, 4));
    assert_eq!(data.len(), 8 + 8 + 16 + 4096);
    bed.node.link_closed(bed.link);
    assert_eq!(bed.node.status().memory_bytes.0, 0, "all reservations are returned");
}

#[test]
fn a_digest_shows_the_changes_before_it_and_only_waits_for_those() {
    let mut bed = NodeBed::new(node_config(EXTENT_BYTES), Reads::NotTried);
    let pieces = [
        piece(Op::Write, 4000, 200),
        piece(Op::Digest, 4096, 4096),
        piece(Op::Digest, 16_384, 4096),
        piece(Op::Flush, 0, 0),
    ];
    bed.receive(bed.link, &batch(1, &pieces));
    let asked: Vec<(Op, u64)> = bed.ops.iter().map(|op| (op.op, op.offset_bytes)).collect();
    assert_eq!(asked, [(Op::Write, 4000), (Op::Digest, 16_384)]);
    bed.end_one();
    let asked: Vec<(Op, u64)> = bed.ops.iter().map(|op| (op.op, op.offset_bytes)).collect();
    assert_eq!(asked, [(Op::Digest, 16_384), (Op::Flush, 0), (Op::Digest, 4096)], "no flush waits for a digest");
}

#[test]
fn a_digest_beyond_the_extent_is_invalid_and_its_batch_is_served() {
    let mut bed = NodeBed::new(node_config(EXTENT_BYTES), Reads::NotTried);
    let pieces = [piece(Op::Digest, EXTENT_BYTES - 4096, 8192), piece(Op::Digest, EXTENT_BYTES - 4096, 4096)];
    bed.receive(bed.link, &batch(1, &pieces));
    bed.end_one();
    let (mut answers, data) = answers(&mut bed);
    answers.sort_by_key(|answer| answer.0);
    assert_eq!((answers, data.len()), (vec![(0, Err(Failure::Invalid)), (1, Ok(()))], 8));
}

#[test]
fn a_digest_of_a_part_of_a_block_ends_the_link() {
    let mut bed = NodeBed::new(node_config(EXTENT_BYTES), Reads::NotTried);
    bed.receive(bed.link, &batch(1, &[piece(Op::Digest, 512, 4096)]));
    let reason = bed.closed().expect("a closed link");
    assert!(reason.contains("digest of a part of a block"), "{reason}");
    assert!(bed.ops.is_empty());
}

#[test]
fn clients_cannot_ask_for_a_digest() {
    let mut bed = GatewayBed::new(gateway_config(volume(&[EXTENT_BYTES])));
    bed.link(0, &welcome(EXTENT_BYTES));
    let client = bed.gateway.native_opened(0).expect("a client");
    for op in [Op::Map, Op::Digest] {
        bed.submit(client, op, 0, 4096);
        let results: Vec<_> = bed.gateway.completions().drain(..).map(|done| done.result).collect();
        assert_eq!(results, [Err(Failure::NotSupported)], "{op:?}");
    }
}
