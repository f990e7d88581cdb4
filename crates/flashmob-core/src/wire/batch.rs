//! A batch: the pieces that travel to a node in one frame.
//!
//! Consecutive pieces of one kind form a group and share its header. Addresses are packed: the group
//! has a base, each piece only the bytes that its distance from the base needs; lengths likewise, and
//! equal lengths take no bytes at all. A hundred 1-byte reads of a 10 GB extent take 5.44 bytes each.

use super::frame::{Fields, FrameKind, WireError, encode_frame};
use super::{BATCH_PIECES_MAX, PAYLOAD_BYTES_MAX, PIECE_BYTES_MAX};
use crate::op::{Op, OpFlags};

/// Bytes before the first group: sequence number, count of groups.
pub const BATCH_HEADER_BYTES: usize = 6;
/// Bytes of a group's header.
pub const GROUP_HEADER_BYTES: usize = 18;

/// One piece as it travels: what, where in the extent, how much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WirePiece {
    /// What is asked.
    pub op: Op,
    /// Modifiers.
    pub flags: OpFlags,
    /// First byte of the extent.
    pub offset_bytes: u64,
    /// How many bytes; 0 for a flush.
    pub len_bytes: u32,
}

impl WirePiece {
    /// Bytes of payload that it brings to the node.
    #[must_use]
    pub fn payload_bytes(&self) -> u32 {
        if self.op == Op::Write { self.len_bytes } else { 0 }
    }

    /// Bytes of payload that its answer brings back.
    #[must_use]
    pub fn reply_bytes(&self) -> u32 {
        if self.op == Op::Read { self.len_bytes } else { 0 }
    }
}

/// How many bytes a number needs, from 0 for zero to 8.
fn width(value: u64) -> usize {
    (64 - value.leading_zeros() as usize).div_ceil(8)
}

/// Appends the low `width` bytes of `value`.
fn put_packed(out: &mut Vec<u8>, value: u64, width: usize) {
    let bytes = value.to_le_bytes();
    out.extend_from_slice(&bytes[..width]);
}

/// Reads a column of `count` numbers of `width` bytes each.
fn packed(column: &[u8], width: usize, index: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes[..width].copy_from_slice(&column[index * width..(index + 1) * width]);
    u64::from_le_bytes(bytes)
}

/// Appends a batch frame. `payload` appends the bytes of the writes, in order.
pub fn encode_batch(out: &mut Vec<u8>, seq: u32, pieces: &[WirePiece], payload: impl FnOnce(&mut Vec<u8>)) {
    encode_frame(out, FrameKind::Batch, |meta| put_groups(meta, seq, pieces), payload);
}

/// Appends the meta of a batch frame. A batch has 1 to [`BATCH_PIECES_MAX`] pieces.
pub fn put_groups(meta: &mut Vec<u8>, seq: u32, pieces: &[WirePiece]) {
    meta.extend_from_slice(&seq.to_le_bytes());
    let count_at = meta.len();
    meta.extend_from_slice(&[0; 2]);
    let mut groups = 0u16;
    for group in pieces.chunk_by(|a, b| a.op == b.op && a.flags == b.flags) {
        put_group(meta, group);
        groups += 1;
    }
    meta[count_at..count_at + 2].copy_from_slice(&groups.to_le_bytes());
}

fn put_group(meta: &mut Vec<u8>, group: &[WirePiece]) {
    let (mut base, mut top) = (u64::MAX, 0);
    let (mut len_min, mut len_max) = (u32::MAX, 0);
    for piece in group {
        base = base.min(piece.offset_bytes);
        top = top.max(piece.offset_bytes);
        len_min = len_min.min(piece.len_bytes);
        len_max = len_max.max(piece.len_bytes);
    }
    let address_width = width(top - base);
    let length_width = width(u64::from(len_max - len_min));
    meta.push(group[0].op as u8);
    meta.push(group[0].flags.0);
    meta.push((address_width | length_width << 4) as u8);
    meta.push(0);
    meta.extend_from_slice(&(group.len() as u16).to_le_bytes());
    meta.extend_from_slice(&base.to_le_bytes());
    meta.extend_from_slice(&len_min.to_le_bytes());
    for piece in group {
        put_packed(meta, piece.offset_bytes - base, address_width);
    }
    if length_width > 0 {
        for piece in group {
            put_packed(meta, u64::from(piece.len_bytes - len_min), length_width);
        }
    }
}

/// Decodes a batch's meta into `pieces` (cleared first) and returns its sequence number.
///
/// Checks everything that can be checked without knowing the extent: known operations and flags, lengths
/// within limits, no address beyond 2^63, payload exactly as long as the writes say, and no more asked for than
/// one reply's payload may carry.
pub fn decode_batch(meta: &[u8], payload_len: usize, pieces: &mut Vec<WirePiece>) -> Result<u32, WireError> {
    pieces.clear();
    let mut fields = Fields::new(meta, "batch");
    let seq = fields.u32()?;
    let groups = fields.u16()?;
    let mut payload_sum = 0usize;
    for _ in 0..groups {
        payload_sum += decode_group(&mut fields, pieces)?;
    }
    fields.end()?;
    if pieces.iter().map(|p| p.reply_bytes() as usize).sum::<usize>() > PAYLOAD_BYTES_MAX {
        return Err(WireError::Malformed("batch that asks for more than one reply may carry"));
    }
    if pieces.is_empty() {
        return Err(WireError::Malformed("batch without pieces"));
    }
    if payload_sum != payload_len {
        return Err(WireError::Malformed("batch whose payload has another length than its writes"));
    }
    Ok(seq)
}

/// Decodes one group and returns how many bytes of payload belong to it.
fn decode_group(fields: &mut Fields<'_>, pieces: &mut Vec<WirePiece>) -> Result<usize, WireError> {
    let op = Op::from_wire(fields.u8()?).ok_or(WireError::Malformed("batch: unknown operation"))?;
    let flags = OpFlags(fields.u8()?);
    if flags.0 & !OpFlags::KNOWN != 0 {
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
    let addresses = fields.bytes(count * address_width)?;
    let lengths = fields.bytes(count * length_width)?;
    let mut payload_sum = 0;
    for index in 0..count {
        let offset = base.checked_add(packed(addresses, address_width, index));
        let len = u64::from(len_min) + packed(lengths, length_width, index);
        let piece = check_piece(op, flags, offset, len)?;
        payload_sum += piece.payload_bytes() as usize;
        pieces.push(piece);
    }
    Ok(payload_sum)
}

fn check_piece(op: Op, flags: OpFlags, offset: Option<u64>, len: u64) -> Result<WirePiece, WireError> {
    let offset_bytes = offset.ok_or(WireError::Malformed("batch: address"))?;
    let len_bytes = u32::try_from(len).map_err(|_| WireError::Malformed("batch: length"))?;
    let len_ok = match op {
        Op::Read | Op::Write => (1..=PIECE_BYTES_MAX).contains(&len_bytes),
        Op::Flush => len_bytes == 0,
        Op::Trim | Op::WriteZeroes => len_bytes > 0,
    };
    if !len_ok {
        return Err(WireError::Malformed("batch: length"));
    }
    match offset_bytes.checked_add(len) {
        Some(end) if end <= i64::MAX as u64 => Ok(WirePiece { op, flags, offset_bytes, len_bytes }),
        _ => Err(WireError::Malformed("batch: address")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::frame::{Decoded, decode_frame};
    use super::*;
    use proptest::prelude::*;

    fn piece() -> impl Strategy<Value = WirePiece> {
        let op = prop::sample::select(Op::ALL.to_vec());
        (op, 0u8..4, 0u64..1 << 62, 1u32..=5000).prop_map(|(op, flags, offset_bytes, len)| WirePiece {
            op,
            flags: OpFlags(flags),
            offset_bytes,
            len_bytes: if op == Op::Flush { 0 } else { len },
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
    fn counts_and_lengths_are_held_below_at_and_above_their_limits() {
        let read = |len_bytes| WirePiece { op: Op::Read, flags: OpFlags::NONE, offset_bytes: 0, len_bytes };
        let decodes = |pieces: &[WirePiece]| {
            let mut meta = Vec::new();
            put_groups(&mut meta, 0, pieces);
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
