//! Frames: the header with lengths and checksums, and helpers to encode and decode meta.

use flashmob_text::one_line;

use super::{HEADER_BYTES, MAGIC, META_BYTES_MAX, PAYLOAD_BYTES_MAX, VERSION};
use crate::checksum::{checksum, checksum_of_two};
use crate::enums::listed;

listed! {
    /// The kind of a frame.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[repr(u8)]
    pub enum FrameKind {
        /// Gateway to node, first on a link: the gateway's identity and what it expects.
        Hello = 1,
        /// Node to gateway: accepts a hello.
        Welcome = 2,
        /// Node to gateway: refuses a hello, with the reason; the link ends.
        Refuse = 3,
        /// Gateway to node: pieces to serve.
        Batch = 4,
        /// Node to gateway: answers to pieces.
        Replies = 5,
        /// Either way: an error about received bytes, as text; the link ends.
        Error = 6,
        /// Node to gateway: the times at which followed pieces passed the node's stages.
        Times = 7,
        /// Node to gateway: the condition of its device.
        Condition = 8,
        /// Either way: keeps a radio awake, or probes the link, or answers a probe.
        Alive = 9,
        /// Gateway to node: bytes of the volume's map, to keep.
        PutMirror = 10,
        /// Node to gateway: the answer to that.
        MirrorPut = 11,
        /// To a node, in the place of a hello: which extent it has, and what it keeps of its volume's map.
        Recall = 12,
        /// Node: the answer to that.
        Recalled = 13,
        /// Node to gateway: how long its store took lately.
        Service = 14,
    }
}

/// Why bytes from a peer are not a valid frame. The link cannot continue.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The peer speaks another protocol.
    #[error("not a flashmob frame (starts with {0:#06x}, expected {MAGIC:#06x}); is this the right port?")]
    Magic(u16),
    /// The peer speaks another version of the protocol.
    #[error(
        "the peer speaks version {0} of the batch protocol, this end version {VERSION}; run the same release on both"
    )]
    Version(u8),
    /// A kind that this version does not know.
    #[error("unknown frame kind {0}")]
    Kind(u8),
    /// More bytes than a frame may have: the announced bytes of meta and of payload.
    #[error("a frame of {0} + {1} bytes is over the limit of {META_BYTES_MAX} + {PAYLOAD_BYTES_MAX}")]
    TooLarge(u32, u32),
    /// Header or meta arrived damaged.
    #[error("the frame's header or meta is damaged (checksum)")]
    MetaChecksum,
    /// The payload arrived damaged.
    #[error("the frame's payload is damaged (checksum)")]
    PayloadChecksum,
    /// The frame is undamaged but invalid.
    #[error("malformed {0}")]
    Malformed(&'static str),
}

/// A complete frame, borrowed from the receive buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Its kind.
    pub kind: FrameKind,
    /// Requests or answers.
    pub meta: &'a [u8],
    /// Bytes of the volume.
    pub payload: &'a [u8],
}

/// The result of decoding.
#[derive(Debug, PartialEq, Eq)]
pub enum Decoded<'a> {
    /// The frame is incomplete: at least this many bytes are needed in all.
    NeedMore(usize),
    /// A frame, and its length in bytes.
    Frame(Frame<'a>, usize),
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Decodes the frame at the start of `data`. An invalid header is reported at once, without waiting for the rest of the frame.
pub fn decode_frame(data: &[u8]) -> Result<Decoded<'_>, WireError> {
    if data.len() < HEADER_BYTES {
        if data.len() >= 2 && u16_at(data, 0) != MAGIC {
            return Err(WireError::Magic(u16_at(data, 0)));
        }
        return Ok(Decoded::NeedMore(HEADER_BYTES));
    }
    if u16_at(data, 0) != MAGIC {
        return Err(WireError::Magic(u16_at(data, 0)));
    }
    if data[2] != VERSION {
        return Err(WireError::Version(data[2]));
    }
    let kind = FrameKind::from_wire(data[3]).ok_or(WireError::Kind(data[3]))?;
    let (meta_len, payload_len) = (u32_at(data, 4), u32_at(data, 8));
    if meta_len as usize > META_BYTES_MAX || payload_len as usize > PAYLOAD_BYTES_MAX {
        return Err(WireError::TooLarge(meta_len, payload_len));
    }
    let payload_at = HEADER_BYTES + meta_len as usize;
    let total = payload_at + payload_len as usize;
    if data.len() < total {
        return Ok(Decoded::NeedMore(total));
    }
    let meta = &data[HEADER_BYTES..payload_at];
    let payload = &data[payload_at..total];
    if checksum_of_two(&data[..16], meta) != u32_at(data, 16) {
        return Err(WireError::MetaChecksum);
    }
    if payload_len != 0 && checksum(payload) != u32_at(data, 12) {
        return Err(WireError::PayloadChecksum);
    }
    Ok(Decoded::Frame(Frame { kind, meta, payload }, total))
}

/// Appends a frame to `out`: `meta` and then `payload` append their bytes, then the header is filled in. Exceeding the limits is a bug
/// of the caller and panics in debug builds.
pub fn encode_frame(
    out: &mut Vec<u8>,
    kind: FrameKind,
    meta: impl FnOnce(&mut Vec<u8>),
    payload: impl FnOnce(&mut Vec<u8>),
) {
    let start = out.len();
    out.extend_from_slice(&[0; HEADER_BYTES]);
    meta(out);
    let payload_at = out.len();
    payload(out);
    seal_frame(&mut out[start..], kind, payload_at - start - HEADER_BYTES);
}

/// The length of a frame.
#[must_use]
pub fn frame_bytes(meta_len: usize, payload_len: usize) -> usize {
    HEADER_BYTES + meta_len + payload_len
}

/// Writes a frame into `room`, which has exactly [`frame_bytes`]; `payload` fills the slice of the payload.
pub fn put_frame(room: &mut [u8], kind: FrameKind, meta: &[u8], payload: impl FnOnce(&mut [u8])) {
    let payload_at = HEADER_BYTES + meta.len();
    room[HEADER_BYTES..payload_at].copy_from_slice(meta);
    payload(&mut room[payload_at..]);
    seal_frame(room, kind, meta.len());
}

/// Fills in the header of `frame`, which consists of [`HEADER_BYTES`] of room, `meta_len` bytes of meta, and the payload.
pub fn seal_frame(frame: &mut [u8], kind: FrameKind, meta_len: usize) {
    let payload_at = HEADER_BYTES + meta_len;
    let payload_len = frame.len() - payload_at;
    debug_assert!(
        meta_len <= META_BYTES_MAX && payload_len <= PAYLOAD_BYTES_MAX,
        "frame of {meta_len} + {payload_len} bytes"
    );
    let payload_sum = if payload_len == 0 { 0 } else { checksum(&frame[payload_at..]) };
    frame[0..2].copy_from_slice(&MAGIC.to_le_bytes());
    frame[2] = VERSION;
    frame[3] = kind as u8;
    frame[4..8].copy_from_slice(&(meta_len as u32).to_le_bytes());
    frame[8..12].copy_from_slice(&(payload_len as u32).to_le_bytes());
    frame[12..16].copy_from_slice(&payload_sum.to_le_bytes());
    let sum = checksum_of_two(&frame[..16], &frame[HEADER_BYTES..payload_at]);
    frame[16..20].copy_from_slice(&sum.to_le_bytes());
}

/// Most bytes of an error frame's text.
const ERROR_TEXT_BYTES_MAX: usize = 1024;
/// Most columns of what the other end says, in a message.
pub(super) const TEXT_COLUMNS_MAX: usize = 1000;

/// Appends an [`FrameKind::Error`] frame with a text, cut to 1,024 bytes.
pub fn encode_error(out: &mut Vec<u8>, text: &str) {
    let text = &text[..text.floor_char_boundary(ERROR_TEXT_BYTES_MAX)];
    encode_frame(out, FrameKind::Error, |meta| meta.extend_from_slice(text.as_bytes()), |_| ());
}

/// The text of an error frame, without control characters, for one line of a log.
#[must_use]
pub fn error_text(meta: &[u8]) -> String {
    let text = String::from_utf8_lossy(&meta[..meta.len().min(ERROR_TEXT_BYTES_MAX)]);
    one_line(&text, TEXT_COLUMNS_MAX)
}

/// Reads little-endian fields off the front of a frame's meta.
#[derive(Debug, Clone)]
pub(crate) struct Fields<'a> {
    rest: &'a [u8],
    what: &'static str,
}

impl<'a> Fields<'a> {
    pub(crate) fn new(meta: &'a [u8], what: &'static str) -> Fields<'a> {
        Fields { rest: meta, what }
    }

    pub(crate) fn bytes(&mut self, n: usize) -> Result<&'a [u8], WireError> {
        let (head, rest) = self.rest.split_at_checked(n).ok_or(WireError::Malformed(self.what))?;
        self.rest = rest;
        Ok(head)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let mut array = [0; N];
        array.copy_from_slice(self.bytes(N)?);
        Ok(array)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, WireError> {
        Ok(self.array::<1>()?[0])
    }

    pub(crate) fn u16(&mut self) -> Result<u16, WireError> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub(crate) fn u32(&mut self) -> Result<u32, WireError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, WireError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// A text behind its two-byte length.
    pub(crate) fn text(&mut self) -> Result<String, WireError> {
        let len = self.u16()?;
        let bytes = self.bytes(usize::from(len))?;
        String::from_utf8(bytes.to_vec()).map_err(|_| WireError::Malformed(self.what))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Bytes that are left.
    pub(crate) fn len(&self) -> usize {
        self.rest.len()
    }

    /// Checks that no bytes are left.
    pub(crate) fn end(self) -> Result<(), WireError> {
        if self.rest.is_empty() { Ok(()) } else { Err(WireError::Malformed(self.what)) }
    }
}

/// Appends a text behind its two-byte length, cut to 255 bytes at a character boundary.
pub(crate) fn put_text(out: &mut Vec<u8>, text: &str) {
    let text = &text[..text.floor_char_boundary(255)];
    out.extend_from_slice(&(text.len() as u16).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frame(meta: &[u8], payload: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        encode_frame(&mut out, FrameKind::Batch, |m| m.extend_from_slice(meta), |p| p.extend_from_slice(payload));
        out
    }

    proptest! {
        #[test]
        fn frames_round_trip_and_are_wanted_whole(meta in prop::collection::vec(any::<u8>(), 0..300), payload in prop::collection::vec(any::<u8>(), 0..300), cut in any::<prop::sample::Index>()) {
            let bytes = frame(&meta, &payload);
            prop_assert_eq!(decode_frame(&bytes), Ok(Decoded::Frame(Frame { kind: FrameKind::Batch, meta: &meta, payload: &payload }, bytes.len())));
            let cut = cut.index(bytes.len());
            match decode_frame(&bytes[..cut]) {
                Ok(Decoded::NeedMore(n)) => prop_assert!(n > cut && n <= bytes.len()),
                other => prop_assert!(false, "{:?}", other),
            }
        }

        #[test]
        fn no_damaged_frame_is_taken_for_whole(meta in prop::collection::vec(any::<u8>(), 0..60), payload in prop::collection::vec(any::<u8>(), 0..60), at in any::<prop::sample::Index>(), flip in 1u8..) {
            let mut bytes = frame(&meta, &payload);
            let at = at.index(bytes.len());
            bytes[at] ^= flip;
            prop_assert!(!matches!(decode_frame(&bytes), Ok(Decoded::Frame(..))));
        }

        #[test]
        fn garbage_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = decode_frame(&bytes);
        }
    }

    #[test]
    fn sizes_are_held_below_at_and_above_their_limits() {
        for (meta, payload, ok) in [
            (META_BYTES_MAX, 0, true),
            (META_BYTES_MAX + 1, 0, false),
            (0, PAYLOAD_BYTES_MAX, true),
            (0, PAYLOAD_BYTES_MAX + 1, false),
        ] {
            let mut header = frame(&[], &[]);
            header[4..8].copy_from_slice(&(meta as u32).to_le_bytes());
            header[8..12].copy_from_slice(&(payload as u32).to_le_bytes());
            match decode_frame(&header) {
                Ok(Decoded::NeedMore(n)) => assert!(ok && n == HEADER_BYTES + meta + payload),
                Err(WireError::TooLarge(..)) => assert!(!ok),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn another_protocol_is_told_by_its_first_bytes() {
        assert_eq!(decode_frame(b"GET / HTTP/1.1"), Err(WireError::Magic(u16::from_le_bytes(*b"GE"))));
        let mut other = frame(&[], &[]);
        other[2] = VERSION + 1;
        assert_eq!(decode_frame(&other), Err(WireError::Version(VERSION + 1)));
    }
}
