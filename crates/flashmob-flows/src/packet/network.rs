//! IP headers, and the encapsulations between IP and TCP: fragments, AH, IP in IP, GRE.

use std::net::IpAddr;

use etherparse::{IpNumber, Ipv4HeaderSlice, Ipv6ExtensionSlice, Ipv6ExtensionsSlice, Ipv6Header, Ipv6HeaderSlice};

use super::fragments::{Fragment, Key};
use super::{Found, Layer, Piece, Protocol, Rest, Unread};

const GRE: u8 = 47;
const AUTHENTICATION: u8 = 51;
/// Maximum of an IP packet in fragments.
const FRAGMENTED_BYTES_MAX: usize = 65_535;

/// One step into a packet.
pub(super) enum Step<'a> {
    Found(Found<'a>),
    /// An encapsulated packet.
    Inner(Layer, Rest<'a>),
}

/// Steps over an IP header.
pub(super) fn step(layer: Layer, rest: Rest<'_>) -> Result<Step<'_>, Unread> {
    let version = rest.data.first().map(|byte| byte >> 4);
    match (layer, version) {
        (Layer::Ipv4, Some(4)) | (Layer::Ip, Some(4)) => ipv4(rest),
        (Layer::Ipv6, Some(6)) | (Layer::Ip, Some(6)) => ipv6(rest),
        (_, None) => Err(Unread::TooShort),
        _ => Err(Unread::Malformed),
    }
}

fn ipv4(rest: Rest<'_>) -> Result<Step<'_>, Unread> {
    let header = Ipv4HeaderSlice::from_slice(rest.data).map_err(|_| Unread::TooShort)?;
    let payload = match header.total_len() {
        // Packets for segmentation offload may have a length of 0.
        0 => rest,
        // Ethernet pads short frames.
        bytes => rest.within(bytes.into()),
    }
    .behind(header.slice().len())?;
    let (from, to) = (header.source_addr().into(), header.destination_addr().into());
    let offset_bytes = u32::from(header.fragments_offset().value()) * 8;
    let is_last = !header.more_fragments();
    if header.protocol() == IpNumber::TCP && (offset_bytes > 0 || !is_last) {
        let key = Key { from, to, identification: header.identification().into() };
        return Ok(Step::Found(Found::Fragment(Fragment::new(key, offset_bytes, is_last, payload))));
    }
    if offset_bytes > 0 {
        return Err(Unread::Other(Protocol::Ip(header.protocol().0)));
    }
    // An encapsulated packet says its own length, which the first fragment of the outer one may not hold.
    let payload = if is_last { payload } else { Rest { bytes: FRAGMENTED_BYTES_MAX, ..payload } };
    let identification = Some(header.identification());
    behind(header.protocol().0, payload, &|payload| piece(from, to, identification, payload))
}

fn ipv6(rest: Rest<'_>) -> Result<Step<'_>, Unread> {
    let header = Ipv6HeaderSlice::from_slice(rest.data).map_err(|_| Unread::TooShort)?;
    let payload = match header.payload_length() {
        0 => rest,
        bytes => rest.within(Ipv6Header::LEN + usize::from(bytes)),
    }
    .behind(Ipv6Header::LEN)?;
    let (extensions, next, _, error) = Ipv6ExtensionsSlice::from_slice_lax(header.next_header(), payload.data);
    if error.is_some() {
        return Err(Unread::TooShort);
    }
    let payload = payload.behind(extensions.slice().len())?;
    let (from, to) = (header.source_addr().into(), header.destination_addr().into());
    let fragment = extensions.into_iter().find_map(|extension| match extension {
        Ipv6ExtensionSlice::Fragment(fragment) => Some(fragment),
        _ => None,
    });
    if let Some(fragment) = fragment.filter(|fragment| fragment.is_fragmenting_payload()) {
        if next != IpNumber::TCP {
            return if fragment.fragment_offset().value() > 0 {
                Err(Unread::Other(Protocol::Ip(next.0)))
            } else {
                let payload = Rest { bytes: FRAGMENTED_BYTES_MAX, ..payload };
                behind(next.0, payload, &|payload| piece(from, to, None, payload))
            };
        }
        let key = Key { from, to, identification: fragment.identification() };
        let offset_bytes = u32::from(fragment.fragment_offset().value()) * 8;
        let is_last = !fragment.more_fragments();
        return Ok(Step::Found(Found::Fragment(Fragment::new(key, offset_bytes, is_last, payload))));
    }
    behind(next.0, payload, &|payload| piece(from, to, None, payload))
}

fn piece(from: IpAddr, to: IpAddr, identification: Option<u16>, payload: Rest<'_>) -> Piece<'_> {
    Piece { from, to, identification, data: payload.data, bytes: payload.bytes }
}

/// Steps into the payload of an IP packet.
fn behind<'a>(protocol: u8, payload: Rest<'a>, piece: &dyn Fn(Rest<'a>) -> Piece<'a>) -> Result<Step<'a>, Unread> {
    match protocol {
        6 => Ok(Step::Found(Found::Tcp(piece(payload)))),
        4 => Ok(Step::Inner(Layer::Ipv4, payload)),
        41 => Ok(Step::Inner(Layer::Ipv6, payload)),
        AUTHENTICATION => {
            let &[next, words] = payload.data.first_chunk::<2>().ok_or(Unread::TooShort)?;
            // RFC 4302, section 2.2: in words of 4 bytes, less two.
            let payload = payload.behind((usize::from(words) + 2) * 4)?;
            if next == AUTHENTICATION {
                return Err(Unread::Other(Protocol::Ip(next)));
            }
            behind(next, payload, piece)
        }
        GRE => {
            let &[flags, version, high, low] = payload.data.first_chunk::<4>().ok_or(Unread::TooShort)?;
            // RFC 2890: optional checksum, key and sequence number. Version 1 is PPTP's, routing is obsolete.
            if version & 7 != 0 || flags & 0x40 != 0 {
                return Err(Unread::Other(Protocol::Ip(GRE)));
            }
            let options = (flags & 0x80 != 0) as usize + (flags & 0x20 != 0) as usize + (flags & 0x10 != 0) as usize;
            Ok(Step::Inner(Layer::EtherType(u16::from_be_bytes([high, low])), payload.behind(4 + 4 * options)?))
        }
        other => Err(Unread::Other(Protocol::Ip(other))),
    }
}
