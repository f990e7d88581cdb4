//! Frames as values, and answers to batches.

use flashmob_core::op::Failure;
use flashmob_core::wire::batch::{WirePiece, decode_batch};
use flashmob_core::wire::frame::{Decoded, FrameKind, decode_frame, encode_frame};
use flashmob_core::wire::replies::RepliesEncoder;

/// A frame apart from the bytes that it came in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Its kind.
    pub kind: FrameKind,
    /// What it says.
    pub meta: Vec<u8>,
    /// The data behind that.
    pub payload: Vec<u8>,
}

/// All frames in `bytes`, which must be whole.
#[must_use]
pub fn frames(bytes: &[u8]) -> Vec<Frame> {
    let (mut rest, mut frames) = (bytes, Vec::new());
    while !rest.is_empty() {
        let Ok(Decoded::Frame(frame, taken)) = decode_frame(rest) else {
            panic!("{} bytes are no frame", rest.len());
        };
        frames.push(Frame { kind: frame.kind, meta: frame.meta.to_vec(), payload: frame.payload.to_vec() });
        rest = &rest[taken..];
    }
    frames
}

/// What `encode` appends.
#[must_use]
pub fn bytes_of(encode: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(&mut bytes);
    bytes
}

/// Answers a batch with success, reads with zeros, and appends that to `to`. Returns how many pieces that were.
pub fn answer(batch: &Frame, to: &mut Vec<u8>) -> usize {
    answer_with(batch, |_| Ok(()), to)
}

/// The same with an outcome for each piece.
pub fn answer_with(
    batch: &Frame,
    mut outcome_of: impl FnMut(&WirePiece) -> Result<(), Failure>,
    to: &mut Vec<u8>,
) -> usize {
    answer_some(batch, |piece| Some(outcome_of(piece)), to)
}

/// The same for those of its pieces that have an outcome yet.
pub fn answer_some(
    batch: &Frame,
    mut outcome_of: impl FnMut(&WirePiece) -> Option<Result<(), Failure>>,
    to: &mut Vec<u8>,
) -> usize {
    assert_eq!(batch.kind, FrameKind::Batch);
    let mut pieces = Vec::new();
    let seq = decode_batch(&batch.meta, batch.payload.len(), &mut pieces).expect("a batch");
    let mut replies = RepliesEncoder::default();
    replies.clear();
    let mut data_bytes = 0;
    for (index, piece) in (0..).zip(&pieces) {
        let Some(outcome) = outcome_of(piece) else { continue };
        data_bytes += if outcome.is_ok() { piece.reply_bytes() as usize } else { 0 };
        replies.push(seq, &[index], outcome, 0);
    }
    let put = |meta: &mut Vec<u8>| meta.extend_from_slice(replies.finish());
    encode_frame(to, FrameKind::Replies, put, |data| data.resize(data.len() + data_bytes, 0));
    pieces.len()
}
