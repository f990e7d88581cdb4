//! One captured packet: the headers that the analysis of TCP needs.
//!
//! Lengths are those of the original packet, not of its captured part; packets that the
//! kernel joins for segmentation offload (larger than any MTU, or with a length of 0) count as they are. Input is untrusted:
//! no bytes cause a panic.

mod fragments;
mod link;
mod network;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, SocketAddr};

use etherparse::{TcpHeaderSlice, TcpOptionElement};

pub use fragments::{Fragment, Fragments, NoHeader};
use link::Layer;
pub use link::LinkType;

use crate::reader::Frame;

/// Maximum of headers below TCP's, against packets made to nest.
const LAYERS_MAX: usize = 16;

/// A TCP segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// When it was captured, since 1970-01-01 UTC.
    pub time_ns: i64,
    /// Number of its packet in the capture, from 1.
    pub number: u64,
    /// Identification of its IPv4 packet; `None` for IPv6.
    pub identification: Option<u16>,
    /// Its sender.
    pub from: SocketAddr,
    /// Its receiver.
    pub to: SocketAddr,
    /// Sequence number of its first byte.
    pub sequence: u32,
    /// Sequence number that its sender expects next; valid if `is_ack`.
    pub acknowledgement: u32,
    /// SYN.
    pub is_syn: bool,
    /// FIN.
    pub is_fin: bool,
    /// RST.
    pub is_reset: bool,
    /// ACK.
    pub is_ack: bool,
    /// PSH: the sender had no more data for now.
    pub is_pushed: bool,
    /// The unscaled window.
    pub window: u16,
    /// Bytes of data.
    pub data_bytes: u32,
    /// Its options.
    pub options: Options,
}

/// Options of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Maximum segment size; in a SYN only.
    pub largest_data_bytes: Option<u16>,
    /// Shift of its sender's windows; in a SYN only.
    pub window_scale: Option<u8>,
    /// The sender's timestamp, and the one that it echoes.
    pub timestamps: Option<(u32, u32)>,
}

impl Segment {
    /// The sequence numbers that it takes: its data, and one each for SYN and FIN.
    #[must_use]
    pub fn span(&self) -> u32 {
        self.data_bytes.saturating_add(u32::from(self.is_syn)).saturating_add(u32::from(self.is_fin))
    }

    /// True without SYN, FIN and RST.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        !(self.is_syn || self.is_fin || self.is_reset)
    }
}

/// A parsed packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packet<'a> {
    /// A TCP segment.
    Tcp(Segment),
    /// A part of a TCP segment; [`Fragments`] joins them.
    Fragment(Fragment<'a>),
    /// Another protocol.
    Other(Protocol),
    /// Nothing can be said about it.
    Unreadable(Reason),
}

/// Why a packet is not analyzed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// The captured part ends before the end of its TCP header.
    Cut,
    /// Whole, but its lengths contradict each other.
    Malformed,
    /// A fragment of an IP packet of which others were not captured.
    Fragment,
    /// A link type that is not read.
    LinkType(LinkType),
}

impl Reason {
    /// The name in results.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Reason::Cut => "cut off by the capture before the end of the TCP header".into(),
            Reason::Malformed => "malformed".into(),
            Reason::Fragment => "fragments of IP packets without the others".into(),
            Reason::LinkType(LinkType(u32::MAX)) => "other link types".into(),
            Reason::LinkType(link) => format!("link type {} ({})", link.0, link.name()),
        }
    }
}

/// A protocol that is not TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Protocol {
    /// By its EtherType.
    EtherType(u16),
    /// By its number in IP.
    Ip(u8),
    /// By its number in PPP.
    Ppp(u16),
    /// By name.
    Named(&'static str),
}

impl Protocol {
    /// The name in results.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Protocol::EtherType(0x0806) => "arp".into(),
            Protocol::EtherType(0x8863) => "pppoe discovery".into(),
            Protocol::EtherType(0x8864) => "pppoe".into(),
            Protocol::EtherType(0x888e) => "eapol".into(),
            Protocol::EtherType(0x88cc) => "lldp".into(),
            Protocol::EtherType(0x88e5) => "macsec".into(),
            Protocol::EtherType(0x88e7) => "802.1ah".into(),
            Protocol::EtherType(number) => format!("ethertype 0x{number:04x}"),
            Protocol::Ip(1) => "icmp".into(),
            Protocol::Ip(2) => "igmp".into(),
            Protocol::Ip(17) => "udp".into(),
            Protocol::Ip(47) => "gre".into(),
            Protocol::Ip(50) => "esp".into(),
            Protocol::Ip(58) => "icmpv6".into(),
            Protocol::Ip(89) => "ospf".into(),
            Protocol::Ip(115) => "l2tp".into(),
            Protocol::Ip(132) => "sctp".into(),
            Protocol::Ip(number) => format!("ip protocol {number}"),
            Protocol::Ppp(0xc021) => "ppp lcp".into(),
            Protocol::Ppp(0x8021) => "ppp ipcp".into(),
            Protocol::Ppp(0x002d | 0x002f) => "ppp with compressed tcp headers".into(),
            Protocol::Ppp(0x00fd) => "ppp compressed".into(),
            Protocol::Ppp(0x0053) => "ppp encrypted".into(),
            Protocol::Ppp(number) => format!("ppp protocol 0x{number:04x}"),
            Protocol::Named(name) => name.into(),
        }
    }
}

/// Why parsing ended before TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unread {
    Other(Protocol),
    Unreadable(Reason),
    /// The data end within a header.
    TooShort,
    Malformed,
}

/// Parses the headers of a packet captured at `time_ns`, number `number` of its capture.
#[must_use]
pub fn read<'a>(frame: &Frame<'a>, time_ns: i64, number: u64) -> Packet<'a> {
    match layers(frame) {
        Ok(Found::Tcp(piece)) => match tcp(time_ns, number, &piece) {
            Some(segment) => Packet::Tcp(segment),
            None => Packet::Unreadable(frame_reason(frame)),
        },
        Ok(Found::Fragment(fragment)) => Packet::Fragment(fragment),
        Err(Unread::Other(protocol)) => Packet::Other(protocol),
        Err(Unread::Unreadable(reason)) => Packet::Unreadable(reason),
        Err(Unread::TooShort) => Packet::Unreadable(frame_reason(frame)),
        Err(Unread::Malformed) => Packet::Unreadable(Reason::Malformed),
    }
}

/// A packet that ends within a header was cut off by the capture, or was sent so.
fn frame_reason(frame: &Frame<'_>) -> Reason {
    if frame.data.len() < frame.original_bytes as usize { Reason::Cut } else { Reason::Malformed }
}

/// Steps over headers until TCP's.
fn layers<'a>(frame: &Frame<'a>) -> Result<Found<'a>, Unread> {
    let (mut layer, at) = frame.link.layer(frame.data)?;
    let is_padded = frame.link == LinkType::RADIOTAP && link::is_padded(frame.data.get(..at).unwrap_or_default());
    let mut rest = Rest { data: frame.data, bytes: frame.original_bytes as usize };
    rest = rest.behind(at)?;
    for _ in 0..LAYERS_MAX {
        let at = match layer {
            Layer::Ipv4 | Layer::Ipv6 | Layer::Ip => match network::step(layer, rest)? {
                network::Step::Found(found) => return Ok(found),
                network::Step::Inner(inner, inside) => {
                    (layer, rest) = (inner, inside);
                    continue;
                }
            },
            Layer::Ieee80211 if is_padded => {
                let (next, at) = link::next(layer, rest.data)?;
                layer = next;
                at.next_multiple_of(4)
            }
            _ => {
                let (next, at) = link::next(layer, rest.data)?;
                layer = next;
                at
            }
        };
        rest = rest.behind(at)?;
    }
    Err(Unread::Other(Protocol::Named("nested headers")))
}

/// The rest of a packet behind its first headers.
#[derive(Clone, Copy, Debug)]
struct Rest<'a> {
    /// The captured part.
    data: &'a [u8],
    /// The original length.
    bytes: usize,
}

impl<'a> Rest<'a> {
    /// The rest behind a header of this length.
    fn behind(self, header_bytes: usize) -> Result<Rest<'a>, Unread> {
        let data = self.data.get(header_bytes..).ok_or(Unread::TooShort)?;
        Ok(Rest { data, bytes: self.bytes.saturating_sub(header_bytes) })
    }

    /// Without what follows the first `bytes`.
    fn within(self, bytes: usize) -> Rest<'a> {
        let bytes = bytes.min(self.bytes);
        Rest { data: self.data.get(..bytes.min(self.data.len())).unwrap_or_default(), bytes }
    }
}

/// The end of the way through the headers.
enum Found<'a> {
    Tcp(Piece<'a>),
    Fragment(Fragment<'a>),
}

/// TCP's header and data.
#[derive(Clone, Copy, Debug)]
struct Piece<'a> {
    from: IpAddr,
    to: IpAddr,
    /// Identification of the IPv4 packet.
    identification: Option<u16>,
    data: &'a [u8],
    /// Original length of TCP's header and data.
    bytes: usize,
}

fn tcp(time_ns: i64, number: u64, piece: &Piece<'_>) -> Option<Segment> {
    let Piece { from, to, identification, data, bytes } = *piece;
    let header = TcpHeaderSlice::from_slice(data).ok()?;
    let data_bytes = bytes.checked_sub(header.slice().len())?;
    let mut options = Options::default();
    // Nothing after a malformed option can be parsed.
    for option in header.options_iterator().map_while(Result::ok) {
        match option {
            // RFC 7323, section 2.3: more than 14 counts as 14.
            TcpOptionElement::MaximumSegmentSize(bytes) => options.largest_data_bytes = Some(bytes),
            TcpOptionElement::WindowScale(shift) => options.window_scale = Some(shift.min(14)),
            TcpOptionElement::Timestamp(own, echoed) => options.timestamps = Some((own, echoed)),
            _ => {}
        }
    }
    Some(Segment {
        time_ns,
        number,
        identification,
        from: SocketAddr::new(from, header.source_port()),
        to: SocketAddr::new(to, header.destination_port()),
        sequence: header.sequence_number(),
        acknowledgement: header.acknowledgment_number(),
        is_syn: header.syn(),
        is_fin: header.fin(),
        is_reset: header.rst(),
        is_ack: header.ack(),
        is_pushed: header.psh(),
        window: header.window_size(),
        data_bytes: u32::try_from(data_bytes).ok()?,
        options,
    })
}
