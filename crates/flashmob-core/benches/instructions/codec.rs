//! Cases of the batch protocol, of layouts and of the elevator, each alone.

use std::hint::black_box;

use flashmob_core::elevator::{Elevator, ElevatorConfig, Entry};
use flashmob_core::layout::{Layout, LayoutKind};
use flashmob_core::op::{Op, OpFlags};
use flashmob_core::units::{GIB, KIB};
use flashmob_core::wire::batch::{WirePiece, decode_batch, encode_batch};
use flashmob_core::wire::frame::{Decoded, FrameKind, decode_frame, encode_frame};
use flashmob_core::wire::replies::{RepliesDecoder, RepliesEncoder};

use crate::count_off;
use crate::harness::Turn;
use crate::world::Numbers;

fn pieces(count: usize, len_bytes: u32) -> Vec<WirePiece> {
    let mut numbers = Numbers::new(3);
    let blocks = GIB / u64::from(len_bytes);
    let piece = |_| WirePiece {
        op: Op::Read,
        flags: OpFlags::NONE,
        offset_bytes: numbers.below(blocks) * u64::from(len_bytes),
        len_bytes,
    };
    (0..count).map(piece).collect()
}

/// A batch of `count` reads is made.
pub fn batch_encode(count: usize, len_bytes: u32) -> Turn {
    let (pieces, mut out) = (pieces(count, len_bytes), Vec::new());
    Box::new(move || {
        out.clear();
        encode_batch(&mut out, 1, black_box(&pieces), |_| ());
        black_box(&out);
    })
}

/// The same is taken apart.
pub fn batch_decode(count: usize, len_bytes: u32) -> Turn {
    let (mut bytes, mut back) = (Vec::new(), Vec::new());
    encode_batch(&mut bytes, 1, &pieces(count, len_bytes), |_| ());
    Box::new(move || {
        let Ok(Decoded::Frame(frame, _)) = decode_frame(black_box(&bytes)) else { panic!("no frame") };
        assert_eq!(decode_batch(frame.meta, 0, &mut back), Ok(1));
        assert_eq!(back.len(), count);
    })
}

/// Answers to `count` pieces, every one of them, or every second, are put into the meta of a frame.
pub fn replies_encode(count: u16, step: usize) -> Turn {
    let indices: Vec<u16> = (0..count * step as u16).step_by(step).collect();
    let mut encoder = RepliesEncoder::default();
    Box::new(move || {
        encoder.clear();
        encoder.push(1, black_box(&indices), Ok(()), 5);
        black_box(encoder.finish());
    })
}

/// The same is taken apart.
pub fn replies_decode(count: u16, step: usize) -> Turn {
    let indices: Vec<u16> = (0..count * step as u16).step_by(step).collect();
    let mut encoder = RepliesEncoder::default();
    encoder.clear();
    encoder.push(1, &indices, Ok(()), 5);
    let meta = encoder.finish().to_vec();
    Box::new(move || {
        let mut decoder = RepliesDecoder::new(black_box(&meta)).expect("a meta");
        let mut found = 0;
        while let Some(run) = decoder.next_run().expect("a run") {
            found += run.indices().inspect(|index| _ = black_box(*index)).count();
        }
        assert_eq!(found, usize::from(count));
    })
}

/// A frame with a payload is sealed; the payload's copy is not counted.
pub fn frame_seal(payload_bytes: usize) -> Turn {
    let (payload, mut out) = (vec![7; payload_bytes], Vec::with_capacity(payload_bytes + 1024));
    Box::new(move || {
        out.clear();
        let copy = |to: &mut Vec<u8>| count_off(|| to.extend_from_slice(&payload));
        encode_frame(&mut out, FrameKind::Replies, |meta| meta.extend_from_slice(&[1; 15]), copy);
        black_box(&out);
    })
}

/// The same is checked and taken apart.
pub fn frame_decode(payload_bytes: usize) -> Turn {
    let mut bytes = Vec::new();
    let meta = |meta: &mut Vec<u8>| meta.extend_from_slice(&[1; 15]);
    encode_frame(&mut bytes, FrameKind::Replies, meta, |to| to.resize(to.len() + payload_bytes, 7));
    Box::new(move || {
        let Ok(Decoded::Frame(frame, _)) = decode_frame(black_box(&bytes)) else { panic!("no frame") };
        assert_eq!(frame.payload.len(), payload_bytes);
    })
}

/// 256 requests of `len_bytes` are cut over eight extents.
pub fn layout_split(kind: LayoutKind, len_bytes: u64) -> Turn {
    let layout = Layout::new(kind, &[GIB; 8]).expect("a layout");
    let mut numbers = Numbers::new(5);
    let offsets: Vec<u64> = (0..256).map(|_| numbers.below(layout.size_bytes() - len_bytes)).collect();
    Box::new(move || {
        for &offset in &offsets {
            for span in layout.split(black_box(offset), len_bytes) {
                black_box(span);
            }
        }
    })
}

/// 256 entries go into the elevator, and out of it as operations that end at once: 4 KiB each, scattered or all in one row.
pub fn elevator(op: Op, is_scattered: bool) -> Turn {
    let mut elevator = Elevator::new(ElevatorConfig::default());
    let mut numbers = Numbers::new(9);
    let mut parts = Vec::new();
    let offsets: Vec<u64> =
        (0..256).map(|n| if is_scattered { numbers.below(GIB / 4096) } else { n } * 4 * KIB).collect();
    Box::new(move || {
        for (tag, &offset_bytes) in offsets.iter().enumerate() {
            elevator.push(Entry { op, flags: OpFlags::NONE, offset_bytes, len_bytes: 4096, tag });
        }
        let mut served = 0;
        while let Some(issue) = elevator.next(&mut parts) {
            served += parts.len();
            elevator.complete(issue.ticket);
        }
        assert_eq!(served, offsets.len());
    })
}
