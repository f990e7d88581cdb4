//! A batch: the pieces that travel to a node in one frame.
//!
//! Consecutive pieces of one kind form a group with one header. Addresses are packed: the group has a base, and each piece takes only
//! the bytes that its distance from the base needs; lengths likewise, and equal lengths take no bytes at all. A hundred 1-byte reads
//! of a 10 GB extent take 5.44 bytes each.

use super::digest;
use super::frame::{Fields, FrameKind, WireError, encode_frame};
use super::map::MAP_BYTES;
use super::{BATCH_PIECES_MAX, PAYLOAD_BYTES_MAX, PIECE_BYTES_MAX};
use crate::op::{Op, OpFlags};

/// Bytes before the first group: sequence number, count of groups.
pub const BATCH_HEADER_BYTES: usize = 6;
/// Flag in the count of groups: answer the whole batch in one frame.
const TOGETHER: u16 = 0x8000;
/// Flag in the count of groups: the followed pieces are listed behind the groups ([`super::trace`]).
pub(super) const FOLLOWED: u16 = 0x4000;
/// Bytes of a group's header.
pub const GROUP_HEADER_BYTES: usize = 18;

/// A piece on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WirePiece {
    /// The operation.
    pub op: Op,
    /// Modifiers.
    pub flags: OpFlags,
    /// First byte of the extent.
    pub offset_bytes: u64,
    /// Length in bytes; 0 for a flush.
    pub len_bytes: u32,
}

impl WirePiece {
    /// Bytes of payload that it sends to the node.
    #[must_use]
    pub fn payload_bytes(&self) -> u32 {
        if self.op == Op::Write { self.len_bytes } else { 0 }
    }

    /// Bytes of payload of its answer.
    #[must_use]
    pub fn reply_bytes(&self) -> u32 {
        self.op.reply_bytes(self.len_bytes)
    }
}

/// How many bytes a number needs, from 0 for zero to 8.
fn width(value: u64) -> usize {
    (64 - value.leading_zeros() as usize).div_ceil(8)
}

/// Appends a column of numbers, the low `width` bytes of each.
fn put_column(out: &mut Vec<u8>, width: usize, values: impl ExactSizeIterator<Item = u64>) {
    let (mut at, end) = (out.len(), out.len() + values.len() * width);
    // Each is written with all of its eight bytes; the excess is overwritten by the next, or cut off.
    out.resize(end + 8, 0);
    for value in values {
        out[at..at + 8].copy_from_slice(&value.to_le_bytes());
        at += width;
    }
    out.truncate(end);
}

/// A column of numbers of `width` bytes each.
#[derive(Clone, Copy)]
struct Column<'a> {
    bytes: &'a [u8],
    width: usize,
    mask: u64,
}

impl<'a> Column<'a> {
    /// `width` is at most 8.
    fn new(bytes: &'a [u8], width: usize) -> Column<'a> {
        Column { bytes, width, mask: u64::MAX.checked_shr(64 - 8 * width as u32).unwrap_or(0) }
    }

    #[inline]
    fn get(&self, index: usize) -> u64 {
        if self.width == 0 {
            return 0;
        }
        let from = &self.bytes[index * self.width..];
        match from.first_chunk::<8>() {
            Some(eight) => u64::from_le_bytes(*eight) & self.mask,
            None => {
                let mut eight = [0; 8];
                eight[..self.width].copy_from_slice(&from[..self.width]);
                u64::from_le_bytes(eight)
            }
        }
    }
}

/// Appends a batch frame. `payload` appends the bytes of the writes, in order.
pub fn encode_batch(out: &mut Vec<u8>, seq: u32, pieces: &[WirePiece], payload: impl FnOnce(&mut Vec<u8>)) {
    encode_frame(out, FrameKind::Batch, |meta| put_groups(meta, seq, pieces, |piece| *piece), payload);
}

/// Appends the meta of a batch frame; `wire` gives a piece's form on the wire. A batch has 1 to [`BATCH_PIECES_MAX`] pieces.
pub fn put_groups<P>(meta: &mut Vec<u8>, seq: u32, pieces: &[P], wire: impl Fn(&P) -> WirePiece + Copy) {
    meta.extend_from_slice(&seq.to_le_bytes());
    let count_at = meta.len();
    meta.extend_from_slice(&[0; 2]);
    let mut groups = 0u16;
    for group in pieces.chunk_by(|a, b| (wire(a).op, wire(a).flags) == (wire(b).op, wire(b).flags)) {
        put_group(meta, group, wire);
        groups += 1;
    }
    meta[count_at..count_at + 2].copy_from_slice(&groups.to_le_bytes());
}

/// Sets the flag in a finished meta that all pieces are to be answered together, in one frame if they fit one.
pub fn ask_together(meta: &mut [u8]) {
    if let Some(high) = meta.get_mut(5) {
        *high |= (TOGETHER >> 8) as u8;
    }
}

/// Whether a batch's meta has this flag.
#[must_use]
pub fn is_together(meta: &[u8]) -> bool {
    meta.get(5).is_some_and(|high| high & (TOGETHER >> 8) as u8 != 0)
}

fn put_group<P>(meta: &mut Vec<u8>, group: &[P], wire: impl Fn(&P) -> WirePiece + Copy) {
    let (mut base, mut top) = (u64::MAX, 0);
    let (mut len_min, mut len_max) = (u32::MAX, 0);
    for piece in group.iter().map(wire) {
        base = base.min(piece.offset_bytes);
        top = top.max(piece.offset_bytes);
        len_min = len_min.min(piece.len_bytes);
        len_max = len_max.max(piece.len_bytes);
    }
    let address_width = width(top - base);
    let length_width = width(u64::from(len_max - len_min));
    let first = wire(&group[0]);
    let mut header = [0; GROUP_HEADER_BYTES];
    header[0] = first.op as u8;
    header[1] = first.flags.0;
    header[2] = (address_width | length_width << 4) as u8;
    header[4..6].copy_from_slice(&(group.len() as u16).to_le_bytes());
    header[6..14].copy_from_slice(&base.to_le_bytes());
    header[14..18].copy_from_slice(&len_min.to_le_bytes());
    meta.extend_from_slice(&header);
    put_column(meta, address_width, group.iter().map(|p| wire(p).offset_bytes - base));
    if length_width > 0 {
        put_column(meta, length_width, group.iter().map(|p| u64::from(wire(p).len_bytes - len_min)));
    }
}

/// Decodes a batch's meta into `pieces` (cleared first) and returns its sequence number.
///
/// Checks everything that does not depend on the extent: known operations and flags, lengths within limits, no address beyond 2^63,
/// a payload as long as the writes, and answers that fit one reply's payload.
pub fn decode_batch(meta: &[u8], payload_len: usize, pieces: &mut Vec<WirePiece>) -> Result<u32, WireError> {
    decode_sized_batch(meta, payload_len, pieces).map(|(seq, _)| seq)
}

/// The same, and returns how many bytes of payload the answers have, too.
pub fn decode_sized_batch(
    meta: &[u8],
    payload_len: usize,
    pieces: &mut Vec<WirePiece>,
) -> Result<(u32, u64), WireError> {
    pieces.clear();
    let mut fields = Fields::new(meta, "batch");
    let seq = fields.u32()?;
    let count = fields.u16()?;
    let groups = count & !(TOGETHER | FOLLOWED);
    let (mut payload_sum, mut reply_sum) = (0, 0);
    for _ in 0..groups {
        let (payload_bytes, reply_bytes) = decode_group(&mut fields, pieces)?;
        payload_sum += payload_bytes;
        reply_sum += reply_bytes;
    }
    if count & FOLLOWED != 0 {
        super::trace::check_marks(&mut fields, pieces.len())?;
    }
    fields.end()?;
    if reply_sum > PAYLOAD_BYTES_MAX as u64 {
        return Err(WireError::Malformed("batch that asks for more than one reply may carry"));
    }
    if pieces.is_empty() {
        return Err(WireError::Malformed("batch without pieces"));
    }
    if payload_sum != payload_len as u64 {
        return Err(WireError::Malformed("batch whose payload has another length than its writes"));
    }
    Ok((seq, reply_sum))
}

/// Decodes one group and returns how many bytes of payload belong to it, and to the answers.
fn decode_group(fields: &mut Fields<'_>, pieces: &mut Vec<WirePiece>) -> Result<(u64, u64), WireError> {
    let op = Op::from_wire(fields.u8()?).ok_or(WireError::Malformed("batch: unknown operation"))?;
    let flags = OpFlags(fields.u8()?);
    if flags.0 & !OpFlags::known_of(op) != 0 {
        return Err(WireError::Malformed("batch: unknown flags"));
    }
    let widths = fields.u8()?;
    let (address_width, length_width) = (usize::from(widths & 15), usize::from(widths >> 4));
    if address_width > 8 || length_width > 4 || fields.u8()? != 0 {
        return Err(WireError::Malformed("batch: group header"));
    }
    let count = usize::from(fields.u16()?);
    if count == 0 || pieces.len() + count > BATCH_PIECES_MAX {
        return Err(WireError::Malformed("batch: count of pieces"));
    }
    let base = fields.u64()?;
    let len_min = fields.u32()?;
    let addresses = Column::new(fields.bytes(count * address_width)?, address_width);
    let lengths = Column::new(fields.bytes(count * length_width)?, length_width);
    let start = pieces.len();
    let (mut len_max, mut is_beyond) = (0, false);
    pieces.extend((0..count).map(|index| {
        let (distance, len) = (addresses.get(index), u64::from(len_min) + lengths.get(index));
        let offset_bytes = base.wrapping_add(distance);
        len_max = len.max(len_max);
        // A length is less than 2^33: behind an offset that is no larger than 2^63 no end wraps around.
        is_beyond |= offset_bytes < base || offset_bytes > i64::MAX as u64 || offset_bytes + len > i64::MAX as u64;
        WirePiece { op, flags, offset_bytes, len_bytes: len as u32 }
    }));
    if is_beyond {
        return Err(WireError::Malformed("batch: address"));
    }
    let longest = match op {
        Op::Read | Op::Write | Op::Digest => u64::from(PIECE_BYTES_MAX),
        Op::Flush => 0,
        Op::Trim | Op::WriteZeroes | Op::Map => u64::from(u32::MAX),
    };
    let is_empty = op != Op::Flush && pieces[start..].iter().any(|p| p.len_bytes == 0);
    if len_max > longest || is_empty {
        return Err(WireError::Malformed("batch: length"));
    }
    let are_whole = || pieces[start..].iter().all(|p| digest::is_whole_blocks(p.offset_bytes, p.len_bytes));
    if op == Op::Digest && !are_whole() {
        return Err(WireError::Malformed("batch: digest of a part of a block"));
    }
    if flags.marks_unreadable(op) && !are_whole() {
        return Err(WireError::Malformed("batch: mark of a part of a block"));
    }
    let data_bytes = || pieces[start..].iter().map(|p| u64::from(p.len_bytes)).sum();
    Ok(match op {
        Op::Read => (0, data_bytes()),
        Op::Write => (data_bytes(), 0),
        Op::Map => (0, (count * MAP_BYTES) as u64),
        Op::Digest => (0, pieces[start..].iter().map(|p| u64::from(p.reply_bytes())).sum()),
        Op::Flush | Op::Trim | Op::WriteZeroes => (0, 0),
    })
}

#[cfg(test)]
mod tests {
    use super::super::frame::{Decoded, decode_frame};
    use super::*;
    use proptest::prelude::*;

    fn piece() -> impl Strategy<Value = WirePiece> {
        let op = prop::sample::select(Op::ALL.to_vec());
        (op, 0u8..4, 0u64..1 << 62, 1u32..=5000).prop_map(|(op, flags, offset_bytes, len)| {
            let (offset_bytes, len_bytes) = match op {
                Op::Flush => (offset_bytes, 0),
                Op::Digest => (offset_bytes & !4095, 4096 * (1 + len % 64)),
                _ => (offset_bytes, len),
            };
            let unverified = if op == Op::Read { (len as u8 & 1) << 3 } else { 0 };
            WirePiece { op, flags: OpFlags(flags | unverified), offset_bytes, len_bytes }
        })
    }

    fn encoded(seq: u32, pieces: &[WirePiece]) -> Vec<u8> {
        let mut out = Vec::new();
        encode_batch(&mut out, seq, pieces, |_| ());
        out
    }

    proptest! {
        #[test]
        fn batches_round_trip(seq in any::<u32>(), pieces in prop::collection::vec(piece(), 1..200)) {
            let bytes = encoded(seq, &pieces);
            let Ok(Decoded::Frame(frame, _)) = decode_frame(&bytes) else { panic!("no frame") };
            let payload: usize = pieces.iter().map(|p| p.payload_bytes() as usize).sum();
            let mut back = Vec::new();
            prop_assert_eq!(decode_batch(frame.meta, payload, &mut back), Ok(seq));
            prop_assert_eq!(back, pieces);
            let mut back = Vec::new();
            prop_assert!(decode_batch(frame.meta, payload + 1, &mut back).is_err());
        }

        #[test]
        fn garbage_never_panics_and_keeps_the_limits(meta in prop::collection::vec(any::<u8>(), 0..200), payload in 0usize..2000) {
            let mut pieces = Vec::new();
            if decode_batch(&meta, payload, &mut pieces).is_ok() {
                prop_assert!(pieces.len() <= BATCH_PIECES_MAX);
            }
        }
    }

    #[test]
    fn a_hundred_small_reads_take_less_than_six_bytes_each() {
        let pieces: Vec<WirePiece> = (0..100u64)
            .map(|i| WirePiece { op: Op::Read, flags: OpFlags::NONE, offset_bytes: i * 99_999_999, len_bytes: 1 })
            .collect();
        assert!(encoded(1, &pieces).len() < 600, "{}", encoded(1, &pieces).len());
    }

    #[test]
    fn to_be_answered_together_is_asked_for_and_changes_nothing_else() {
        let pieces = [WirePiece { op: Op::Read, flags: OpFlags::NONE, offset_bytes: 7, len_bytes: 1 }; 3];
        let mut meta = Vec::new();
        put_groups(&mut meta, 9, &pieces, |piece| *piece);
        assert!(!is_together(&meta));
        ask_together(&mut meta);
        assert!(is_together(&meta) && !is_together(&meta[..5]));
        let mut back = Vec::new();
        assert_eq!((decode_batch(&meta, 0, &mut back), &back[..]), (Ok(9), &pieces[..]));
        ask_together(&mut []);
    }

    #[test]
    fn flags_that_an_operation_does_not_have_are_refused() {
        for op in Op::ALL {
            for bit in 0..8 {
                let len_bytes = if op == Op::Flush { 0 } else { 4096 };
                let piece = WirePiece { op, flags: OpFlags(1 << bit), offset_bytes: 0, len_bytes };
                let (mut meta, mut back) = (Vec::new(), Vec::new());
                put_groups(&mut meta, 0, &[piece], |piece| *piece);
                let payload_bytes = piece.payload_bytes() as usize;
                let is_known = bit < 2 || (bit == 3 && matches!(op, Op::Read | Op::Write | Op::Digest));
                assert_eq!(decode_batch(&meta, payload_bytes, &mut back).is_ok(), is_known, "{op:?} {bit}");
            }
        }
    }

    #[test]
    fn a_digest_is_of_whole_blocks() {
        let decodes = |pieces: &[(u64, u32)]| {
            let digest = |&(offset_bytes, len_bytes): &(u64, u32)| WirePiece {
                op: Op::Digest,
                flags: OpFlags::NONE,
                offset_bytes,
                len_bytes,
            };
            let (mut meta, mut back) = (Vec::new(), Vec::new());
            put_groups(&mut meta, 0, &pieces.iter().map(digest).collect::<Vec<_>>(), |piece| *piece);
            decode_sized_batch(&meta, 0, &mut back).ok().map(|(_, reply_bytes)| reply_bytes)
        };
        assert_eq!(decodes(&[(0, 4096)]), Some(8));
        assert_eq!(decodes(&[(4096, PIECE_BYTES_MAX), (1 << 40, 8192)]), Some(512 + 16));
        let last = i64::MAX as u64 - 4095;
        assert_eq!(decodes(&[(last - 4096, 4096)]), Some(8));
        for wrong in [
            (0, 0),
            (0, 1),
            (0, 4095),
            (0, 4097),
            (1, 4096),
            (4095, 4096),
            (2048, 2048),
            (0, PIECE_BYTES_MAX + 4096),
            (last, 4096),
        ] {
            assert_eq!(decodes(&[wrong]), None, "{wrong:?}");
            assert_eq!(decodes(&[(0, 4096), wrong]), None, "{wrong:?} behind another");
        }
        assert_eq!(decodes(&[(0, PIECE_BYTES_MAX); 2048]), Some(PAYLOAD_BYTES_MAX as u64), "a full reply");
        assert_eq!(decodes(&[(0, PIECE_BYTES_MAX); 2049]), None);
    }

    #[test]
    fn whole_blocks_are_marked_as_unreadable() {
        for (offset_bytes, len_bytes, is_whole) in [
            (0, 4096, true),
            (8192, 8192, true),
            (0, 4095, false),
            (1, 4096, false),
            (4096, 4097, false),
            (0, 1, false),
        ] {
            for (flags, is_valid) in [(OpFlags::UNREADABLE, is_whole), (OpFlags::NONE, true)] {
                let (mut meta, mut back) = (Vec::new(), Vec::new());
                let piece = WirePiece { op: Op::Write, flags, offset_bytes, len_bytes };
                put_groups(&mut meta, 0, &[piece], |piece| *piece);
                let decoded = decode_batch(&meta, len_bytes as usize, &mut back);
                assert_eq!(decoded.is_ok(), is_valid, "{offset_bytes}+{len_bytes} {flags:?}");
            }
        }
    }

    #[test]
    fn counts_and_lengths_are_held_below_at_and_above_their_limits() {
        let read = |len_bytes| WirePiece { op: Op::Read, flags: OpFlags::NONE, offset_bytes: 0, len_bytes };
        let decodes = |pieces: &[WirePiece]| {
            let mut meta = Vec::new();
            put_groups(&mut meta, 0, pieces, |piece| *piece);
            decode_batch(&meta, 0, &mut Vec::new()).is_ok()
        };
        assert!(decodes(&[read(PIECE_BYTES_MAX - 1)]));
        assert!(decodes(&[read(PIECE_BYTES_MAX)]));
        assert!(!decodes(&[read(PIECE_BYTES_MAX + 1)]));
        assert!(!decodes(&[read(0)]));
        assert!(decodes(&[read(PIECE_BYTES_MAX); 4]), "a full reply");
        assert!(!decodes(&[
            read(PIECE_BYTES_MAX),
            read(PIECE_BYTES_MAX),
            read(PIECE_BYTES_MAX),
            read(PIECE_BYTES_MAX),
            read(1)
        ]));
        assert!(decodes(&vec![read(1); BATCH_PIECES_MAX]));
        assert!(!decodes(&vec![read(1); BATCH_PIECES_MAX + 1]));
        let last = WirePiece { offset_bytes: i64::MAX as u64 - 1, ..read(1) };
        assert!(decodes(&[last]));
        assert!(!decodes(&[WirePiece { offset_bytes: i64::MAX as u64, ..last }]));
    }
}
