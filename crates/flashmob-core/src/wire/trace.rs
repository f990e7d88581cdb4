//! Followed pieces: a gateway marks them in a batch, and their node reports their times.
//!
//! The marks are behind the groups of a batch ([`mark`]); the times are in a frame of their own behind the answer ([`put_times`]),
//! for which no request waits.

use super::BATCH_PIECES_MAX;
use super::batch::FOLLOWED;
use super::frame::{Fields, FrameKind, WireError, encode_frame};
use crate::enums::listed;

/// Most followed pieces of one batch.
pub const FOLLOWED_MAX: usize = 64;
/// Most pieces of a times frame.
pub const TIMES_MAX: usize = 64;
/// Bytes per piece in a times frame.
pub const TIMES_BYTES: usize = 60;

/// Marks pieces in a batch's finished meta: 1 to [`FOLLOWED_MAX`] `indices`, ascending.
pub fn mark(meta: &mut Vec<u8>, indices: &[u16]) {
    let indices = &indices[..indices.len().min(FOLLOWED_MAX)];
    if indices.is_empty() || meta.len() < 6 {
        return;
    }
    meta[5] |= (FOLLOWED >> 8) as u8;
    for index in indices {
        meta.extend_from_slice(&index.to_le_bytes());
    }
    meta.push(indices.len() as u8);
}

/// Whether a batch's meta has marks.
#[must_use]
pub fn is_followed(meta: &[u8]) -> bool {
    meta.get(5).is_some_and(|high| high & (FOLLOWED >> 8) as u8 != 0)
}

/// The marked pieces of a checked batch, ascending.
pub fn followed(meta: &[u8]) -> impl Iterator<Item = u16> + '_ {
    let column = match meta.split_last() {
        Some((&count, rest)) if is_followed(meta) => &rest[rest.len().saturating_sub(2 * usize::from(count))..],
        _ => &[],
    };
    column.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]))
}

/// Checks the marks of a batch with `pieces` pieces, to the end of its meta.
pub(super) fn check_marks(fields: &mut Fields<'_>, pieces: usize) -> Result<(), WireError> {
    let malformed = WireError::Malformed("batch: followed pieces");
    let (mut count, mut last) = (0, None);
    while fields.len() > 1 {
        let index = fields.u16()?;
        if usize::from(index) >= pieces || last.is_some_and(|last| index <= last) || count == FOLLOWED_MAX {
            return Err(malformed);
        }
        (count, last) = (count + 1, Some(index));
    }
    if count == 0 || usize::from(fields.u8()?) != count { Err(malformed) } else { Ok(()) }
}

listed! {
    /// How a node got an answer.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    #[repr(u8)]
    pub enum Way {
        /// Without waiting: from the page cache, or without I/O.
        AtOnce = 1,
        /// Through the elevator and the store.
        Store = 2,
        /// Refused before either.
        Refused = 3,
    }
}

/// When a piece passed the node's stages, by the monotonic clock of the node's device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PieceTimes {
    /// The batch's sequence number.
    pub seq: u32,
    /// The piece's index in it.
    pub index: u16,
    /// How it was answered.
    pub way: Way,
    /// When the batch was completely read, in nanoseconds. The clock was read after the last byte had arrived.
    pub received_ns: u64,
    /// When the piece was in the elevator, or was about to be tried at once.
    pub scheduled_ns: u64,
    /// When the store began.
    pub started_ns: u64,
    /// When the store had finished.
    pub finished_ns: u64,
    /// When the answer was ready. The clock was read before its first byte was sent.
    pub replied_ns: u64,
    /// First byte, in the extent, of the store's operation that it was part of.
    pub op_offset_bytes: u64,
    /// Length of that operation in bytes.
    pub op_bytes: u32,
}

impl PieceTimes {
    /// The five times, in the order of the stages.
    #[must_use]
    pub fn stages_ns(&self) -> [u64; 5] {
        [self.received_ns, self.scheduled_ns, self.started_ns, self.finished_ns, self.replied_ns]
    }
}

/// Appends a frame with the times of 1 to [`TIMES_MAX`] pieces.
pub fn put_times(out: &mut Vec<u8>, pieces: &[PieceTimes]) {
    let pieces = &pieces[..pieces.len().min(TIMES_MAX)];
    let put = |meta: &mut Vec<u8>| {
        meta.extend_from_slice(&(pieces.len() as u16).to_le_bytes());
        for piece in pieces {
            meta.extend_from_slice(&piece.seq.to_le_bytes());
            meta.extend_from_slice(&piece.index.to_le_bytes());
            meta.extend_from_slice(&[piece.way as u8, 0]);
            piece.stages_ns().iter().for_each(|ns| meta.extend_from_slice(&ns.to_le_bytes()));
            meta.extend_from_slice(&piece.op_offset_bytes.to_le_bytes());
            meta.extend_from_slice(&piece.op_bytes.to_le_bytes());
        }
    };
    encode_frame(out, FrameKind::Times, put, |_| ());
}

/// Decodes and checks the times of pieces one by one.
#[derive(Debug)]
pub struct TimesDecoder<'a> {
    fields: Fields<'a>,
    left: u16,
}

impl<'a> TimesDecoder<'a> {
    /// Starts on the meta of a frame.
    pub fn new(meta: &'a [u8]) -> Result<TimesDecoder<'a>, WireError> {
        let mut fields = Fields::new(meta, "times");
        let left = fields.u16()?;
        if left == 0 || usize::from(left) > TIMES_MAX {
            return Err(WireError::Malformed("times: count of pieces"));
        }
        Ok(TimesDecoder { fields, left })
    }

    /// The next piece's; `None` after the last.
    pub fn next_piece(&mut self) -> Result<Option<PieceTimes>, WireError> {
        if self.left == 0 {
            return if self.fields.is_empty() { Ok(None) } else { Err(WireError::Malformed("times: trailing bytes")) };
        }
        self.left -= 1;
        let fields = &mut self.fields;
        let (seq, index) = (fields.u32()?, fields.u16()?);
        let way = Way::from_wire(fields.u8()?).ok_or(WireError::Malformed("times: way"))?;
        if usize::from(index) >= BATCH_PIECES_MAX || fields.u8()? != 0 {
            return Err(WireError::Malformed("times: piece"));
        }
        let piece = PieceTimes {
            seq,
            index,
            way,
            received_ns: fields.u64()?,
            scheduled_ns: fields.u64()?,
            started_ns: fields.u64()?,
            finished_ns: fields.u64()?,
            replied_ns: fields.u64()?,
            op_offset_bytes: fields.u64()?,
            op_bytes: fields.u32()?,
        };
        if !piece.stages_ns().is_sorted() {
            return Err(WireError::Malformed("times: a stage before the one that it follows"));
        }
        Ok(Some(piece))
    }
}

#[cfg(test)]
mod tests {
    use super::super::batch::{WirePiece, decode_batch, is_together, put_groups};
    use super::super::frame::{Decoded, decode_frame};
    use super::*;
    use crate::op::{Op, OpFlags};
    use proptest::prelude::*;

    fn times() -> impl Strategy<Value = PieceTimes> {
        let way = prop::sample::select(Way::ALL.to_vec());
        let stages = any::<[u64; 5]>().prop_map(|mut stages| {
            stages.sort_unstable();
            stages
        });
        (any::<u32>(), 0u16..4096, way, stages, any::<u64>(), any::<u32>()).prop_map(
            |(seq, index, way, stages, op_offset_bytes, op_bytes)| {
                let [received_ns, scheduled_ns, started_ns, finished_ns, replied_ns] = stages;
                PieceTimes {
                    seq,
                    index,
                    way,
                    received_ns,
                    scheduled_ns,
                    started_ns,
                    finished_ns,
                    replied_ns,
                    op_offset_bytes,
                    op_bytes,
                }
            },
        )
    }

    fn decoded(meta: &[u8]) -> Result<Vec<PieceTimes>, WireError> {
        let mut decoder = TimesDecoder::new(meta)?;
        let mut pieces = Vec::new();
        while let Some(piece) = decoder.next_piece()? {
            pieces.push(piece);
        }
        Ok(pieces)
    }

    fn meta_of(bytes: &[u8]) -> Vec<u8> {
        match decode_frame(bytes) {
            Ok(Decoded::Frame(frame, taken)) if frame.kind == FrameKind::Times && taken == bytes.len() => {
                frame.meta.to_vec()
            }
            other => panic!("{other:?}"),
        }
    }

    fn batch(pieces: usize) -> Vec<u8> {
        let piece = WirePiece { op: Op::Read, flags: OpFlags::NONE, offset_bytes: 7, len_bytes: 1 };
        let mut meta = Vec::new();
        put_groups(&mut meta, 9, &vec![piece; pieces], |piece| *piece);
        meta
    }

    proptest! {
        #[test]
        fn times_round_trip(pieces in prop::collection::vec(times(), 1..TIMES_MAX)) {
            let mut bytes = Vec::new();
            put_times(&mut bytes, &pieces);
            let meta = meta_of(&bytes);
            prop_assert_eq!(meta.len(), 2 + pieces.len() * TIMES_BYTES);
            prop_assert_eq!(decoded(&meta), Ok(pieces));
            prop_assert!(decoded(&meta[..meta.len() - 1]).is_err());
            prop_assert!(decoded(&[meta, vec![0]].concat()).is_err());
        }

        #[test]
        fn marks_round_trip(indices in prop::collection::btree_set(0u16..100, 1..=FOLLOWED_MAX)) {
            let indices: Vec<u16> = indices.into_iter().collect();
            let mut meta = batch(100);
            mark(&mut meta, &indices);
            let mut pieces = Vec::new();
            prop_assert_eq!(decode_batch(&meta, 0, &mut pieces), Ok(9));
            prop_assert_eq!((pieces.len(), is_together(&meta)), (100, false));
            prop_assert_eq!(followed(&meta).collect::<Vec<_>>(), indices);
        }

        #[test]
        fn garbage_never_panics(meta in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = decoded(&meta);
            prop_assert!(followed(&meta).count() <= 255);
        }

        #[test]
        fn garbage_behind_the_groups_is_refused_or_within_the_limits(tail in prop::collection::vec(any::<u8>(), 0..80)) {
            let mut meta = batch(50);
            meta[5] |= (FOLLOWED >> 8) as u8;
            meta.extend_from_slice(&tail);
            if decode_batch(&meta, 0, &mut Vec::new()).is_ok() {
                let marked: Vec<u16> = followed(&meta).collect();
                prop_assert!(!marked.is_empty() && marked.len() <= FOLLOWED_MAX);
                prop_assert!(marked.iter().all(|&index| index < 50) && marked.is_sorted());
            }
        }
    }

    #[test]
    fn a_batch_without_marks_has_none() {
        let meta = batch(3);
        assert_eq!(followed(&meta).count(), 0);
        assert_eq!(followed(&[]).count(), 0);
    }

    #[test]
    fn marks_that_mean_nothing_are_refused() {
        for tail in [&[][..], &[0], &[3, 0, 1], &[1, 0, 2], &[1, 0, 1, 0, 2], &[2, 0, 1, 0, 2], &[1, 0, 0]] {
            let mut meta = batch(3);
            meta[5] |= (FOLLOWED >> 8) as u8;
            meta.extend_from_slice(tail);
            let refused = Err(WireError::Malformed("batch: followed pieces"));
            assert_eq!(decode_batch(&meta, 0, &mut Vec::new()), refused, "{tail:?}");
        }
    }

    #[test]
    fn stages_that_go_back_in_time_are_refused() {
        let piece = PieceTimes {
            seq: 1,
            index: 2,
            way: Way::Store,
            received_ns: 10,
            scheduled_ns: 11,
            started_ns: 12,
            finished_ns: 13,
            replied_ns: 14,
            op_offset_bytes: 0,
            op_bytes: 4096,
        };
        let mut bytes = Vec::new();
        put_times(&mut bytes, &[PieceTimes { replied_ns: 12, ..piece }]);
        assert!(decoded(&meta_of(&bytes)).is_err());
        for (at, byte) in [(8, 0), (8, 4), (9, 1), (7, 16), (0, 0), (0, 65)] {
            let mut bytes = Vec::new();
            put_times(&mut bytes, &[piece]);
            let mut meta = meta_of(&bytes);
            assert_eq!(decoded(&meta), Ok(vec![piece]));
            meta[at] = byte;
            assert!(decoded(&meta).is_err(), "byte {at} is {byte}");
        }
    }
}
