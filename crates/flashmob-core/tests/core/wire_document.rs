//! The worked example of docs/wire-protocol.md, decoded by the code that it describes.

use flashmob_core::op::{Op, OpFlags};
use flashmob_core::wire::batch::{WirePiece, decode_batch, encode_batch};
use flashmob_core::wire::replies::RepliesDecoder;
use flashmob_core::wire::{Decoded, Frame, FrameKind, decode_frame};

/// The bytes of the example that the document calls `name`: two-digit numbers up to the remark on each line.
fn example(name: &str) -> Vec<u8> {
    let document = include_str!("../../../../docs/wire-protocol.md");
    let (_, rest) = document.split_once(&format!("```hex {name}\n")).expect("the document has the example");
    let (block, _) = rest.split_once("```").expect("the example ends");
    let numbers = block.lines().flat_map(|line| line.split("   ").next().unwrap_or_default().split_whitespace());
    numbers.map(|number| u8::from_str_radix(number, 16).expect("a number of two digits")).collect()
}

fn frame(bytes: &[u8]) -> Frame<'_> {
    match decode_frame(bytes) {
        Ok(Decoded::Frame(frame, taken)) if taken == bytes.len() => frame,
        other => panic!("not one whole frame: {other:?}"),
    }
}

#[test]
fn the_batch_in_the_document_asks_for_what_it_says() {
    let bytes = example("batch");
    let mut pieces = Vec::new();
    let read = |offset_bytes, len_bytes| WirePiece { op: Op::Read, flags: OpFlags::NONE, offset_bytes, len_bytes };
    assert_eq!(frame(&bytes).kind, FrameKind::Batch);
    assert_eq!(decode_batch(frame(&bytes).meta, 0, &mut pieces), Ok(7));
    assert_eq!(pieces, [read(0x1000, 5), read(0x0015_1234, 1)]);
    let mut again = Vec::new();
    encode_batch(&mut again, 7, &pieces, |_| ());
    assert_eq!((again, bytes.len()), (bytes, 52));
}

#[test]
fn the_replies_in_the_document_answer_that_batch() {
    let bytes = example("replies");
    let frame = frame(&bytes);
    assert_eq!((frame.kind, frame.payload, bytes.len()), (FrameKind::Replies, &b"hello\0"[..], 41));
    let mut runs = RepliesDecoder::new(frame.meta).expect("one run");
    let run = runs.next_run().expect("well formed").expect("one run");
    assert_eq!((run.seq, run.outcome, run.node_time_us), (7, Ok(()), 33));
    assert_eq!(run.indices().collect::<Vec<_>>(), [0, 1]);
    assert_eq!(runs.next_run(), Ok(None));
}
