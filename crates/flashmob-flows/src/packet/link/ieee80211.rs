//! IEEE 802.11 frames, and the headers that capturing interfaces put before them.

use super::{Layer, Protocol, Unread};

/// Length of a Prism header, which other headers of the same link type do not have.
const PRISM_BYTES: usize = 144;
/// Begin of a Prism header, in either byte order.
const PRISM: [[u8; 4]; 2] = [[0x44, 0, 0, 0], [0, 0, 0, 0x44]];
/// Header of a data frame with three addresses.
const DATA_BYTES: usize = 24;
/// Flags of radiotap: bytes that align the payload to four follow the 802.11 header.
const IS_PADDED: u8 = 0x20;

/// Offset of the 802.11 header behind radiotap's (radiotap.org).
pub(super) fn radiotap(data: &[u8]) -> Option<usize> {
    Some(u16::from_le_bytes(data.get(2..4)?.try_into().ok()?).into())
}

/// Offset of the 802.11 header behind a Prism header, or an AVS header of the same link type.
pub(super) fn prism(data: &[u8]) -> usize {
    let is_prism = data.first_chunk::<4>().is_some_and(|begin| PRISM.contains(begin));
    if is_prism { PRISM_BYTES } else { avs(data).unwrap_or(PRISM_BYTES) }
}

/// Offset of the 802.11 header behind an AVS header.
pub(super) fn avs(data: &[u8]) -> Option<usize> {
    usize::try_from(u32::from_be_bytes(data.get(4..8)?.try_into().ok()?)).ok()
}

/// True if a radiotap header says that padding follows the 802.11 header.
pub(in crate::packet) fn is_padded(radiotap: &[u8]) -> bool {
    let word = |at: usize| radiotap.get(at..at + 4).and_then(|b| Some(u32::from_le_bytes(b.try_into().ok()?)));
    let Some(present) = word(4) else { return false };
    let mut at = 8;
    let mut last = present;
    // Further words of presence.
    while last & 1 << 31 != 0 {
        let Some(next) = word(at) else { return false };
        (last, at) = (next, at + 4);
    }
    if present & 1 != 0 {
        at = at.next_multiple_of(8) + 8;
    }
    present & 2 != 0 && radiotap.get(at).is_some_and(|flags| flags & IS_PADDED != 0)
}

/// Steps over the header of a data frame (IEEE 802.11, section 9.3.2).
pub(super) fn data(data: &[u8]) -> Result<(Layer, usize), Unread> {
    let &[control, flags] = data.first_chunk::<2>().ok_or(Unread::TooShort)?;
    let other = |name| Err(Unread::Other(Protocol::Named(name)));
    match control & 0x0c {
        0x08 if control & 0x40 != 0 => return other("802.11 without data"),
        0x08 => {}
        0x04 => return other("802.11 control"),
        _ => return other("802.11 management"),
    }
    if flags & 0x40 != 0 {
        return other("802.11 encrypted");
    }
    let has_four_addresses = flags & 3 == 3;
    let mut at = DATA_BYTES + if has_four_addresses { 6 } else { 0 };
    if control & 0x80 != 0 {
        // Several packets in one frame.
        if data.get(at).ok_or(Unread::TooShort)? & 0x80 != 0 {
            return other("802.11 aggregate");
        }
        at += 2 + if flags & 0x80 != 0 { 4 } else { 0 };
    }
    Ok((Layer::Llc, at))
}
