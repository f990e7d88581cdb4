//! Frames that keep a mirror of a volume's map on its nodes, and give it back.
//!
//! A mirror has the bytes of the map's file ([`crate::copies`]): a snapshot, and the changes since. A gateway appends to it with
//! [`PutMirror`] frames, or makes a new one that takes the place of the old one once it is whole. Whoever has lost the map reads it with
//! [`Recall`] frames, which come in the place of a hello. docs/wire-protocol.md has the byte tables.

use super::frame::{Fields, FrameKind, WireError, encode_frame, put_text};
use super::hello::{CHARGE_NUMBER_MAX, Charge};

/// Most bytes of a mirror in one frame: a slow way is not blocked by them for long.
pub const MIRROR_FRAME_BYTES_MAX: usize = 64 * 1024;
/// Most bytes of a mirror.
pub const MIRROR_BYTES_MAX: u64 = 4 << 30;

const NEW: u8 = 1;
const LAST: u8 = 2;
const DURABLE: u8 = 4;

/// How much of a map a mirror has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MirrorState {
    /// The start of the gateway that has written it last.
    pub epoch: u64,
    /// The random number of that start.
    pub nonce: u64,
    /// The version of the map that it shows.
    pub version: u64,
    /// Bytes of the whole batches in it.
    pub len_bytes: u64,
}

impl MirrorState {
    /// The age of an extent whose mirror has this durably: the decision before its last one. A gateway shows a charge with the last decision that it
    /// has, which may be that of a copy of the extent that was made before; so an age never is as late as a charge that came after it.
    #[must_use]
    pub fn age(&self) -> (u64, u64) {
        (self.epoch, self.version.saturating_sub(1))
    }
}

/// Bytes for a mirror.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PutMirror {
    /// Where they belong. What the mirror has behind them is dropped.
    pub offset_bytes: u64,
    /// They are of a new mirror, which takes the place of the present one once it is whole. It begins with those at offset 0.
    pub is_new: bool,
    /// They end the new mirror.
    pub is_last: bool,
    /// They have to be durable before they are answered. A new mirror is, once it is whole.
    pub is_durable: bool,
    /// What the mirror has with them.
    pub state: MirrorState,
}

/// The answer to [`PutMirror`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MirrorPut {
    /// That of the bytes that are answered.
    pub state: MirrorState,
    /// Whether the node has them.
    pub is_kept: bool,
}

/// Asks a node which extent it has, and for a part of its mirror.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recall {
    /// The first byte of the mirror to send.
    pub offset_bytes: u64,
}

/// The answer to [`Recall`]. The payload is the part of the mirror.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recalled {
    /// The extent's permanent identity.
    pub extent_id: [u8; 16],
    /// Size of the extent in bytes.
    pub size_bytes: u64,
    /// Bytes of the mirror; 0 without one, or if it cannot be read.
    pub mirror_bytes: u64,
    /// The volume that the extent belongs to, and which of its extents it is.
    pub volume: Option<(String, u32)>,
    /// The gateway that was last in charge, of a volume with copies.
    pub charge: Option<Charge>,
    /// The layout of that volume, if it has no copies, and how many extents it has. On the wire, the highest bit of the extent's number tells that
    /// they follow.
    pub layout: Option<(String, u32)>,
    /// Whether a gateway is linked to the extent at present. On the wire, the second highest bit of the extent's number.
    pub is_linked: bool,
}

/// In the extent's number of an answer to a recall.
const HAS_LAYOUT: u32 = 1 << 31;
const IS_LINKED: u32 = 1 << 30;

/// Decisions in a map of that epoch and version, apart from starts of gateways: each start adds one to both.
#[must_use]
pub fn decisions(epoch: u64, version: u64) -> u64 {
    version.saturating_sub(epoch)
}

impl MirrorState {
    /// Decisions in it: see [`decisions`].
    #[must_use]
    pub fn decisions(&self) -> u64 {
        decisions(self.epoch, self.version)
    }

    pub(super) fn put(&self, meta: &mut Vec<u8>) {
        let numbers = [self.epoch, self.nonce, self.version, self.len_bytes];
        numbers.iter().for_each(|number| meta.extend_from_slice(&number.to_le_bytes()));
    }

    pub(super) fn take(fields: &mut Fields<'_>) -> Result<MirrorState, WireError> {
        let (epoch, nonce, version, len_bytes) = (fields.u64()?, fields.u64()?, fields.u64()?, fields.u64()?);
        if epoch.max(version) > CHARGE_NUMBER_MAX || len_bytes > MIRROR_BYTES_MAX {
            return Err(WireError::Malformed("mirror"));
        }
        Ok(MirrorState { epoch, nonce, version, len_bytes })
    }
}

impl PutMirror {
    /// Appends the frame, with the bytes.
    pub fn encode(&self, out: &mut Vec<u8>, bytes: &[u8]) {
        let flag = |is_set: bool, flag| u8::from(is_set) * flag;
        let meta = |meta: &mut Vec<u8>| {
            meta.extend_from_slice(&self.offset_bytes.to_le_bytes());
            meta.push(flag(self.is_new, NEW) | flag(self.is_last, LAST) | flag(self.is_durable, DURABLE));
            self.state.put(meta);
        };
        encode_frame(out, FrameKind::PutMirror, meta, |payload| payload.extend_from_slice(bytes));
    }

    /// Decodes the frame's meta. `payload_bytes` is the length of its payload.
    pub fn decode(meta: &[u8], payload_bytes: usize) -> Result<PutMirror, WireError> {
        let mut fields = Fields::new(meta, "mirror");
        let (offset_bytes, flags) = (fields.u64()?, fields.u8()?);
        let state = MirrorState::take(&mut fields)?;
        fields.end()?;
        let is = |flag| flags & flag != 0;
        let put = PutMirror { offset_bytes, is_new: is(NEW), is_last: is(LAST), is_durable: is(DURABLE), state };
        let end_bytes = offset_bytes.saturating_add(payload_bytes as u64);
        let is_whole = !put.is_last || state.len_bytes == end_bytes;
        if flags & !(NEW | LAST | DURABLE) != 0
            || payload_bytes == 0
            || payload_bytes > MIRROR_FRAME_BYTES_MAX
            || end_bytes > MIRROR_BYTES_MAX
            || (put.is_last && !put.is_new)
            || !is_whole
        {
            return Err(WireError::Malformed("mirror"));
        }
        Ok(put)
    }
}

impl MirrorPut {
    /// Appends the frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let meta = |meta: &mut Vec<u8>| {
            meta.push(u8::from(self.is_kept));
            self.state.put(meta);
        };
        encode_frame(out, FrameKind::MirrorPut, meta, |_| ());
    }

    /// Decodes the frame's meta.
    pub fn decode(meta: &[u8]) -> Result<MirrorPut, WireError> {
        let mut fields = Fields::new(meta, "answer to a mirror");
        let is_kept = match fields.u8()? {
            0 => false,
            1 => true,
            _ => return Err(WireError::Malformed("answer to a mirror")),
        };
        let state = MirrorState::take(&mut fields)?;
        fields.end()?;
        Ok(MirrorPut { state, is_kept })
    }
}

impl Recall {
    /// Appends the frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let meta = |meta: &mut Vec<u8>| meta.extend_from_slice(&self.offset_bytes.to_le_bytes());
        encode_frame(out, FrameKind::Recall, meta, |_| ());
    }

    /// Decodes the frame's meta.
    pub fn decode(meta: &[u8]) -> Result<Recall, WireError> {
        let mut fields = Fields::new(meta, "recall");
        let offset_bytes = fields.u64()?;
        fields.end()?;
        Ok(Recall { offset_bytes })
    }
}

impl Recalled {
    /// Appends the frame, with a part of the mirror: at most [`MIRROR_FRAME_BYTES_MAX`] bytes.
    pub fn encode(&self, out: &mut Vec<u8>, bytes: &[u8]) {
        let meta = |meta: &mut Vec<u8>| {
            meta.extend_from_slice(&self.extent_id);
            meta.extend_from_slice(&self.size_bytes.to_le_bytes());
            meta.extend_from_slice(&self.mirror_bytes.to_le_bytes());
            let (volume, extent) = self.volume.as_ref().map_or(("", 0), |(volume, extent)| (volume, *extent));
            put_text(meta, volume);
            let layout = self.layout.as_ref().filter(|_| self.volume.is_some() && self.charge.is_none());
            let flag = |is_set: bool, flag: u32| u32::from(is_set) * flag;
            let flags = flag(layout.is_some(), HAS_LAYOUT) | flag(self.is_linked, IS_LINKED);
            meta.extend_from_slice(&(extent & !(HAS_LAYOUT | IS_LINKED) | flags).to_le_bytes());
            self.charge.iter().for_each(|charge| charge.put(meta));
            if let Some((layout, extents)) = layout {
                put_text(meta, layout);
                meta.extend_from_slice(&extents.to_le_bytes());
            }
        };
        encode_frame(out, FrameKind::Recalled, meta, |payload| payload.extend_from_slice(bytes));
    }

    /// Decodes the frame's meta. `payload_bytes` is the length of its payload.
    pub fn decode(meta: &[u8], payload_bytes: usize) -> Result<Recalled, WireError> {
        let mut fields = Fields::new(meta, "answer to a recall");
        let (extent_id, size_bytes, mirror_bytes) = (fields.array()?, fields.u64()?, fields.u64()?);
        let (volume, extent) = (fields.text()?, fields.u32()?);
        let layout = if extent & HAS_LAYOUT != 0 { Some((fields.text()?, fields.u32()?)) } else { None };
        let charge = if fields.is_empty() { None } else { Some(Charge::take(&mut fields)?) };
        fields.end()?;
        if payload_bytes > MIRROR_FRAME_BYTES_MAX
            || mirror_bytes > MIRROR_BYTES_MAX
            || (layout.is_some() && (volume.is_empty() || charge.is_some()))
        {
            return Err(WireError::Malformed("answer to a recall"));
        }
        let volume = (!volume.is_empty()).then_some((volume, extent & !(HAS_LAYOUT | IS_LINKED)));
        let is_linked = extent & IS_LINKED != 0;
        Ok(Recalled { extent_id, size_bytes, mirror_bytes, volume, charge, layout, is_linked })
    }
}

#[cfg(test)]
mod tests {
    use super::super::frame::{Decoded, decode_frame};
    use super::*;
    use proptest::prelude::*;

    fn any_state() -> impl Strategy<Value = MirrorState> {
        (0..=CHARGE_NUMBER_MAX, any::<u64>(), 0..=CHARGE_NUMBER_MAX, 0..=MIRROR_BYTES_MAX)
            .prop_map(|(epoch, nonce, version, len_bytes)| MirrorState { epoch, nonce, version, len_bytes })
    }

    /// The meta of an encoded frame, and the length of its payload.
    fn parts(bytes: &[u8]) -> (&[u8], usize) {
        match decode_frame(bytes) {
            Ok(Decoded::Frame(frame, taken)) if taken == bytes.len() => (frame.meta, frame.payload.len()),
            other => panic!("{other:?}"),
        }
    }

    proptest! {
        #[test]
        fn frames_round_trip(state in any_state(), offset in 0..MIRROR_BYTES_MAX / 2, flags: (bool, bool, bool), payload in prop::collection::vec(any::<u8>(), 1..40), is_kept: bool) {
            let (is_new, is_last, is_durable) = (flags.0, flags.0 && flags.1, flags.2);
            let offset_bytes = offset;
            let len_bytes = if is_last { offset_bytes + payload.len() as u64 } else { state.len_bytes };
            let state = MirrorState { len_bytes, ..state };
            let put = PutMirror { offset_bytes, is_new, is_last, is_durable, state };
            let mut bytes = Vec::new();
            put.encode(&mut bytes, &payload);
            let (meta, payload_bytes) = parts(&bytes);
            prop_assert_eq!(PutMirror::decode(meta, payload_bytes), Ok(put));
            let done = MirrorPut { state, is_kept };
            let mut bytes = Vec::new();
            done.encode(&mut bytes);
            prop_assert_eq!(MirrorPut::decode(parts(&bytes).0), Ok(done));
        }

        #[test]
        fn recalls_round_trip(offset_bytes: u64, extent_id: [u8; 16], sizes: (u64, u64), volume in prop::option::of(("[a-zé]{1,60}", 0..1u32 << 30)), is_linked: bool, layout in prop::option::of(("[a-z:0-9]{0,60}", any::<u32>())), charge in prop::option::of((any::<[u8; 16]>(), 0..=CHARGE_NUMBER_MAX, any::<u64>(), 0..=CHARGE_NUMBER_MAX))) {
            let recall = Recall { offset_bytes };
            let mut bytes = Vec::new();
            recall.encode(&mut bytes);
            prop_assert_eq!(Recall::decode(parts(&bytes).0), Ok(recall));
            let charge = charge.map(|(map_id, epoch, nonce, version)| Charge { map_id, epoch, nonce, version });
            let layout = layout.filter(|_| volume.is_some() && charge.is_none());
            let recalled = Recalled { extent_id, size_bytes: sizes.0, mirror_bytes: sizes.1 % MIRROR_BYTES_MAX, volume, charge, layout, is_linked };
            let mut bytes = Vec::new();
            recalled.encode(&mut bytes, b"part");
            let (meta, payload_bytes) = parts(&bytes);
            prop_assert_eq!(Recalled::decode(meta, payload_bytes), Ok(recalled));
        }

        #[test]
        fn garbage_never_panics(meta in prop::collection::vec(any::<u8>(), 0..120), payload_bytes: usize) {
            let _ = (PutMirror::decode(&meta, payload_bytes), MirrorPut::decode(&meta));
            let _ = (Recall::decode(&meta), Recalled::decode(&meta, payload_bytes));
        }
    }

    #[test]
    fn limits_are_held_below_at_and_above() {
        let put = |offset_bytes, is_new, is_last, len_bytes| {
            let state = MirrorState { epoch: 1, nonce: 2, version: 3, len_bytes };
            let mut bytes = Vec::new();
            PutMirror { offset_bytes, is_new, is_last, is_durable: false, state }.encode(&mut bytes, &[]);
            parts(&bytes).0.to_vec()
        };
        let is_taken = |meta: &[u8], payload_bytes| PutMirror::decode(meta, payload_bytes).is_ok();
        for (payload_bytes, is_valid) in
            [(0, false), (1, true), (MIRROR_FRAME_BYTES_MAX, true), (MIRROR_FRAME_BYTES_MAX + 1, false)]
        {
            assert_eq!(is_taken(&put(0, true, false, 0), payload_bytes), is_valid, "{payload_bytes}");
        }
        for (offset, is_valid) in
            [(MIRROR_BYTES_MAX - 2, true), (MIRROR_BYTES_MAX - 1, true), (MIRROR_BYTES_MAX, false), (u64::MAX, false)]
        {
            assert_eq!(is_taken(&put(offset, false, false, 0), 1), is_valid, "{offset}");
        }
        assert!(is_taken(&put(9, true, true, 10), 1) && !is_taken(&put(9, true, true, 9), 1), "the last come last");
        assert!(!is_taken(&put(9, false, true, 10), 1), "only a new mirror ends");
        assert!(is_taken(&put(9, false, false, MIRROR_BYTES_MAX), 1));
        assert!(!is_taken(&put(9, false, false, MIRROR_BYTES_MAX + 1), 1));
        let whole = put(9, false, false, 10);
        assert!((0..whole.len()).all(|len| !is_taken(&whole[..len], 1)));
        let mut flagged = whole.clone();
        flagged[8] = 8;
        assert!(!is_taken(&flagged, 1), "an unknown flag");
    }
}
