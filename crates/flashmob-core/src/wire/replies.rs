//! Replies: the results of pieces of one or several batches.
//!
//! Pieces with the same result that are close to each other in their batch share a run: consecutive ones take no bytes of their own,
//! scattered ones a bit each. The bytes that were read follow as payload, in the order of runs and of the pieces in them; the gateway
//! knows the length of each piece.

use super::frame::{Fields, WireError};
use super::{BATCH_PIECES_MAX, META_BYTES_MAX};
use crate::op::Failure;

/// Bytes before the first run: the number of runs.
pub const RUNS_HEADER_BYTES: usize = 2;
/// Bytes of a run without its bitmap.
pub const RUN_BYTES: usize = 13;
/// Most runs in one frame.
pub const RUNS_MAX: usize = 4096;
/// Flag in a run's status byte: a bitmap selects its pieces.
const BITMAP: u8 = 0x80;

const _: () = assert!(2 + RUNS_MAX * RUN_BYTES + BATCH_PIECES_MAX.div_ceil(8) <= META_BYTES_MAX);

/// Pieces of one batch with the same result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run<'a> {
    /// The batch's sequence number.
    pub seq: u32,
    /// The first piece's index in the batch.
    pub first: u16,
    /// How many indices the run spans.
    pub span: u16,
    /// Their result.
    pub outcome: Result<(), Failure>,
    /// How long the oldest of them was at the node, in microseconds: batch received until reply made.
    pub node_time_us: u32,
    /// Selects the pieces of the span, one bit each, lowest first; empty for all.
    bitmap: &'a [u8],
}

impl Run<'_> {
    /// The selected indices, ascending.
    pub fn indices(&self) -> impl Iterator<Item = u16> + '_ {
        (0..self.span)
            .filter(|&i| self.bitmap.is_empty() || self.bitmap[usize::from(i / 8)] & (1 << (i % 8)) != 0)
            .map(|i| self.first + i)
    }

    /// Whether every index of the span is selected.
    #[must_use]
    pub fn is_dense(&self) -> bool {
        self.bitmap.is_empty()
    }
}

/// Encodes the meta of a replies frame; pieces are added in ascending order within each batch.
#[derive(Debug, Default)]
pub struct RepliesEncoder {
    meta: Vec<u8>,
    runs: u16,
}

impl RepliesEncoder {
    /// Starts a frame and keeps the memory.
    pub fn clear(&mut self) {
        self.meta.clear();
        self.meta.extend_from_slice(&[0; RUNS_HEADER_BYTES]);
        self.runs = 0;
    }

    /// Whether `pieces` more pieces of one batch certainly fit.
    #[must_use]
    pub fn has_room_for(&self, pieces: usize) -> bool {
        usize::from(self.runs) + pieces <= RUNS_MAX
            && self.meta.len() + pieces * RUN_BYTES + BATCH_PIECES_MAX / 8 <= META_BYTES_MAX
    }

    /// Adds pieces of batch `seq` with the same result, as runs or one bitmap, whichever is shorter. `indices` ascend strictly and are not
    /// empty.
    pub fn push(&mut self, seq: u32, indices: &[u16], outcome: Result<(), Failure>, node_time_us: u32) {
        let (Some(&first), Some(&last)) = (indices.first(), indices.last()) else { return };
        let status = outcome.err().map_or(0, |f| f as u8);
        let span = last - first + 1;
        let gaps = indices.windows(2).filter(|w| w[1] != w[0] + 1).count();
        let bitmap_bytes = usize::from(span).div_ceil(8);
        if gaps * RUN_BYTES > bitmap_bytes {
            self.put_run(seq, first, span, status | BITMAP, node_time_us);
            let at = self.meta.len();
            self.meta.resize(at + bitmap_bytes, 0);
            for &index in indices {
                let bit = usize::from(index - first);
                self.meta[at + bit / 8] |= 1 << (bit % 8);
            }
        } else {
            for run in indices.chunk_by(|a, b| *b == a + 1) {
                self.put_run(seq, run[0], run.len() as u16, status, node_time_us);
            }
        }
    }

    fn put_run(&mut self, seq: u32, first: u16, span: u16, status: u8, node_time_us: u32) {
        self.meta.extend_from_slice(&seq.to_le_bytes());
        self.meta.extend_from_slice(&first.to_le_bytes());
        self.meta.extend_from_slice(&span.to_le_bytes());
        self.meta.push(status);
        self.meta.extend_from_slice(&node_time_us.to_le_bytes());
        self.runs += 1;
    }

    /// Whether nothing was pushed since [`RepliesEncoder::clear`].
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.runs == 0
    }

    /// The finished meta.
    pub fn finish(&mut self) -> &[u8] {
        self.meta[..2].copy_from_slice(&self.runs.to_le_bytes());
        &self.meta
    }
}

/// Decodes and checks the runs of a replies frame one by one.
#[derive(Debug)]
pub struct RepliesDecoder<'a> {
    fields: Fields<'a>,
    left: u16,
}

impl<'a> RepliesDecoder<'a> {
    /// Starts on the meta of a frame.
    pub fn new(meta: &'a [u8]) -> Result<RepliesDecoder<'a>, WireError> {
        let mut fields = Fields::new(meta, "replies");
        let left = fields.u16()?;
        if left == 0 || usize::from(left) > RUNS_MAX {
            return Err(WireError::Malformed("replies: count of runs"));
        }
        Ok(RepliesDecoder { fields, left })
    }

    /// The next run; `None` after the last.
    pub fn next_run(&mut self) -> Result<Option<Run<'a>>, WireError> {
        if self.left == 0 {
            return if self.fields.is_empty() {
                Ok(None)
            } else {
                Err(WireError::Malformed("replies: trailing bytes"))
            };
        }
        self.left -= 1;
        let (seq, first, span) = (self.fields.u32()?, self.fields.u16()?, self.fields.u16()?);
        let status = self.fields.u8()?;
        let node_time_us = self.fields.u32()?;
        if span == 0 || usize::from(first) + usize::from(span) > BATCH_PIECES_MAX {
            return Err(WireError::Malformed("replies: run"));
        }
        let outcome = match status & !BITMAP {
            0 => Ok(()),
            byte => Err(Failure::from_wire(byte).ok_or(WireError::Malformed("replies: status"))?),
        };
        let bitmap = if status & BITMAP == 0 { &[][..] } else { self.fields.bytes(usize::from(span).div_ceil(8))? };
        Ok(Some(Run { seq, first, span, outcome, node_time_us, bitmap }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn replies_round_trip(groups in prop::collection::vec((any::<u32>(), prop::collection::btree_set(0u16..4096, 1..60), 0u8..10, any::<u32>()), 1..8)) {
            let mut encoder = RepliesEncoder::default();
            encoder.clear();
            let mut expected = Vec::new();
            for (seq, set, status, time) in &groups {
                let indices: Vec<u16> = set.iter().copied().collect();
                let outcome = Failure::from_wire(*status).map_or(Ok(()), Err);
                prop_assert!(encoder.has_room_for(indices.len()));
                encoder.push(*seq, &indices, outcome, *time);
                expected.extend(indices.into_iter().map(|i| (*seq, i, outcome, *time)));
            }
            let meta = encoder.finish().to_vec();
            let mut decoder = RepliesDecoder::new(&meta).unwrap();
            let mut got = Vec::new();
            while let Some(run) = decoder.next_run().unwrap() {
                got.extend(run.indices().map(|i| (run.seq, i, run.outcome, run.node_time_us)));
            }
            prop_assert_eq!(got, expected);
        }

        #[test]
        fn garbage_never_panics(meta in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(mut decoder) = RepliesDecoder::new(&meta) {
                while let Ok(Some(run)) = decoder.next_run() {
                    prop_assert!(run.indices().all(|i| usize::from(i) < BATCH_PIECES_MAX));
                }
            }
        }
    }

    #[test]
    fn a_whole_batch_takes_one_run_and_scattered_pieces_a_bit_each() {
        let mut encoder = RepliesEncoder::default();
        encoder.clear();
        encoder.push(7, &(0..100).collect::<Vec<u16>>(), Ok(()), 0);
        assert_eq!(encoder.finish().len(), 2 + RUN_BYTES);
        encoder.clear();
        encoder.push(7, &(0..100).step_by(2).collect::<Vec<u16>>(), Ok(()), 0);
        assert_eq!(encoder.finish().len(), 2 + RUN_BYTES + 13);
    }

    #[test]
    fn runs_beyond_a_batch_are_refused() {
        let run = |first: u16, span: u16| {
            let mut encoder = RepliesEncoder::default();
            encoder.clear();
            encoder.put_run(1, first, span, 0, 0);
            let meta = encoder.finish().to_vec();
            RepliesDecoder::new(&meta).and_then(|mut d| d.next_run().map(|r| r.is_some()))
        };
        assert_eq!(run(4095, 1), Ok(true));
        assert_eq!(run(0, 4096), Ok(true));
        assert!(run(4095, 2).is_err());
        assert!(run(0, 0).is_err());
    }
}
