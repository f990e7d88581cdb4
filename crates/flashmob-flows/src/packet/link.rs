//! Link-layer headers, and the encapsulations between them and IP.

mod ieee80211;
mod names;

pub(super) use ieee80211::is_padded;

use super::{Protocol, Reason, Unread};

/// EtherTypes.
const ETHER_IPV4: u16 = 0x0800;
const ETHER_IPV6: u16 = 0x86dd;
const ETHER_MPLS: [u16; 2] = [0x8847, 0x8848];
const ETHER_PPP: u16 = 0x880b;
const ETHER_PPPOE_SESSION: u16 = 0x8864;
/// Ethernet in GRE, and behind 802.1ah's tag.
const ETHER_ETHERNET: u16 = 0x6558;
/// EtherTypes of VLAN tags.
const ETHER_TAGS: [u16; 4] = [0x8100, 0x88a8, 0x9100, 0x9200];
/// EtherTypes below are lengths of 802.3.
const ETHER_TYPE_MIN: u16 = 0x0600;
/// `linux_sll` has this in place of an EtherType before 802.2 headers.
const SLL_LLC: u16 = 0x0004;
/// Protocols of PPP.
const PPP_IPV4: u16 = 0x0021;
const PPP_IPV6: u16 = 0x0057;
const PPP_MPLS: u16 = 0x0281;
/// Service access points of 802.2: IP, and a SNAP header.
const SAP_IP: u8 = 0x06;
const SAP_SNAP: u8 = 0xaa;

/// A number of the registry of link types (tcpdump.org/linktypes.html).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LinkType(pub u32);

/// The next header of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layer {
    Ethernet,
    /// Behind this EtherType or length.
    EtherType(u16),
    /// IEEE 802.2.
    Llc,
    /// From PPP's address and control, which may be absent.
    Ppp,
    /// PPPoE's header of a session.
    Pppoe,
    Mpls,
    /// IEEE 802.11 without a header of the capturing interface.
    Ieee80211,
    Ipv4,
    Ipv6,
    /// IPv4 or IPv6, by its first bits.
    Ip,
}

impl LinkType {
    /// Loopback of BSD.
    pub const NULL: LinkType = LinkType(0);
    /// Ethernet.
    pub const ETHERNET: LinkType = LinkType(1);
    /// IP without a link header.
    pub const RAW: LinkType = LinkType(101);
    /// Loopback of OpenBSD.
    pub const LOOP: LinkType = LinkType(108);
    /// `tcpdump -i any`, old.
    pub const LINUX_SLL: LinkType = LinkType(113);
    /// IEEE 802.11 behind a radiotap header.
    pub const RADIOTAP: LinkType = LinkType(127);
    /// `tcpdump -i any`.
    pub const LINUX_SLL2: LinkType = LinkType(276);

    /// The name in results.
    #[must_use]
    pub fn name(self) -> String {
        names::of(self.0).map_or_else(|| format!("link_type_{}", self.0), str::to_string)
    }

    /// The first layer behind the header of the link, and its offset.
    pub(super) fn layer(self, data: &[u8]) -> Result<(Layer, usize), Unread> {
        let unknown = Unread::Unreadable(Reason::LinkType(self));
        let found = match self.0 {
            0 | 108 => data.first_chunk::<4>().map(|bytes| (family(bytes, self == LinkType::LOOP), 4)),
            1 => Some((Ok(Layer::Ethernet), 0)),
            // Behind a direction, the sender's 15 bytes, or nothing.
            8 => Some((Ok(Layer::Ip), 16)),
            9 | 50 if data.first_chunk::<2>().is_some_and(|b| matches!(b, [0x0f | 0x8f, 0])) => behind(data, 2),
            9 | 50 => Some((Ok(Layer::Ppp), 0)),
            10 => Some((Ok(Layer::Llc), 13)),
            12 | 14 | 101 => Some((Ok(Layer::Ip), 0)),
            51 => Some((Ok(Layer::Pppoe), 0)),
            100 => Some((Ok(Layer::Llc), 0)),
            104 => match data.first_chunk::<2>() {
                Some([0xff, 3]) => Some((Ok(Layer::Ppp), 0)),
                _ => behind(data, 2),
            },
            105 => Some((Ok(Layer::Ieee80211), 0)),
            109 => Some((Ok(Layer::Ip), 12)),
            113 => behind(data, 14),
            119 => Some((Ok(Layer::Ieee80211), ieee80211::prism(data))),
            122 => Some((Ok(Layer::Llc), 16)),
            127 => ieee80211::radiotap(data).map(|at| (Ok(Layer::Ieee80211), at)),
            138 => behind(data, 16),
            163 => ieee80211::avs(data).map(|at| (Ok(Layer::Ieee80211), at)),
            // A header with the link type of the rest, which may not be another such header.
            192 => ppi(data)?,
            // A direction in place of the address, or before it.
            166 => Some((Ok(Layer::Ppp), 2)),
            204 => Some((Ok(Layer::Ppp), 1)),
            228 => Some((Ok(Layer::Ipv4), 0)),
            229 => Some((Ok(Layer::Ipv6), 0)),
            276 => number(data, 0).map(|ether_type| (Ok(Layer::EtherType(ether_type)), 20)),
            _ => return Err(unknown),
        };
        let (layer, at) = found.ok_or(Unread::TooShort)?;
        layer.map(|layer| (layer, at)).map_err(Unread::Other)
    }
}

/// The first layer behind a PPI header.
fn ppi(data: &[u8]) -> Result<Option<Found>, Unread> {
    let Some(header) = data.first_chunk::<8>() else { return Ok(None) };
    let at = usize::from(u16::from_le_bytes([header[2], header[3]]));
    let link = LinkType(u32::from_le_bytes([header[4], header[5], header[6], header[7]]));
    if link.0 == 192 {
        return Err(Unread::Unreadable(Reason::LinkType(link)));
    }
    let (layer, behind) = link.layer(data.get(at..).ok_or(Unread::TooShort)?)?;
    Ok(Some((Ok(layer), at + behind)))
}

type Found = (Result<Layer, Protocol>, usize);

/// The layer behind an EtherType at `at`.
fn behind(data: &[u8], at: usize) -> Option<Found> {
    let layer = match number(data, at)? {
        SLL_LLC => Layer::Llc,
        ether_type => Layer::EtherType(ether_type),
    };
    Some((Ok(layer), at + 2))
}

/// Steps over a header below IP: the next layer, and its offset in `data`.
pub(super) fn next(layer: Layer, data: &[u8]) -> Result<(Layer, usize), Unread> {
    let number = |at| number(data, at).ok_or(Unread::TooShort);
    let byte = |at: usize| data.get(at).copied().ok_or(Unread::TooShort);
    match layer {
        Layer::Ethernet => Ok((Layer::EtherType(number(12)?), 14)),
        Layer::EtherType(ether_type) => match ether_type {
            ETHER_IPV4 => Ok((Layer::Ipv4, 0)),
            ETHER_IPV6 => Ok((Layer::Ipv6, 0)),
            ETHER_PPPOE_SESSION => Ok((Layer::Pppoe, 0)),
            ETHER_PPP => Ok((Layer::Ppp, 0)),
            ETHER_ETHERNET => Ok((Layer::Ethernet, 0)),
            tag if ETHER_TAGS.contains(&tag) => Ok((Layer::EtherType(number(2)?), 4)),
            mpls if ETHER_MPLS.contains(&mpls) => Ok((Layer::Mpls, 0)),
            length if length < ETHER_TYPE_MIN => Ok((Layer::Llc, 0)),
            other => Err(Unread::Other(Protocol::EtherType(other))),
        },
        Layer::Llc => match (byte(0)?, byte(1)?, byte(2)?) {
            // With the organisations of EtherTypes: none, and that of bridged Ethernet.
            (SAP_SNAP, SAP_SNAP, 3) => match (byte(3)?, byte(4)?, byte(5)?) {
                (0, 0, 0 | 0xf8) => Ok((Layer::EtherType(number(6)?), 8)),
                _ => Err(Unread::Other(Protocol::Named("snap"))),
            },
            (SAP_IP, SAP_IP, 3) => Ok((Layer::Ipv4, 3)),
            _ => Err(Unread::Other(Protocol::Named("llc"))),
        },
        Layer::Ppp => {
            let at = if (byte(0)?, data.get(1).copied()) == (0xff, Some(3)) { 2 } else { 0 };
            // Compressed to a byte, the protocol is odd.
            let (protocol, header_bytes) =
                if byte(at)? & 1 == 1 { (byte(at)?.into(), at + 1) } else { (number(at)?, at + 2) };
            match protocol {
                PPP_IPV4 => Ok((Layer::Ipv4, header_bytes)),
                PPP_IPV6 => Ok((Layer::Ipv6, header_bytes)),
                PPP_MPLS => Ok((Layer::Mpls, header_bytes)),
                other => Err(Unread::Other(Protocol::Ppp(other))),
            }
        }
        Layer::Pppoe => match (byte(0)?, byte(1)?) {
            (0x11, 0) => Ok((Layer::Ppp, 6)),
            _ => Err(Unread::Other(Protocol::EtherType(ETHER_PPPOE_SESSION))),
        },
        // The last label has this bit; the loop over layers limits their number.
        Layer::Mpls if byte(2)? & 1 == 0 => Ok((Layer::Mpls, 4)),
        Layer::Mpls => match byte(4)? >> 4 {
            4 => Ok((Layer::Ipv4, 4)),
            6 => Ok((Layer::Ipv6, 4)),
            _ => Err(Unread::Other(Protocol::Named("mpls"))),
        },
        Layer::Ieee80211 => ieee80211::data(data),
        // The caller steps over these.
        Layer::Ipv4 | Layer::Ipv6 | Layer::Ip => Err(Unread::Malformed),
    }
}

fn number(data: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(data.get(at..at + 2)?.try_into().ok()?))
}

/// BSD's loopback header has the address family in the capturing machine's numbering and byte order; OpenBSD's is in network order.
fn family(bytes: &[u8; 4], is_network_order: bool) -> Result<Layer, Protocol> {
    let layer = |number: u32| match number {
        2 => Some(Layer::Ipv4),
        // Linux, NetBSD and OpenBSD, FreeBSD, macOS.
        10 | 24 | 28 | 30 => Some(Layer::Ipv6),
        _ => None,
    };
    let (big, little) = (layer(u32::from_be_bytes(*bytes)), layer(u32::from_le_bytes(*bytes)));
    if is_network_order { big } else { big.or(little) }.ok_or(Protocol::Named("another address family"))
}
