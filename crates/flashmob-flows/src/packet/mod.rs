//! One captured packet: the headers that the analysis of TCP needs.
//!
//! Lengths are those of the original packet, not of its captured part; packets that the
//! kernel joins for segmentation offload (larger than any MTU, or with a length of 0) count as they are. Input is untrusted:
//! no bytes cause a panic.

mod link;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, SocketAddr};

use etherparse::{
    IpNumber, Ipv4HeaderSlice, Ipv6ExtensionsSlice, Ipv6Header, Ipv6HeaderSlice, TcpHeaderSlice, TcpOptionElement,
};

pub use link::LinkType;
use link::Network;

use crate::reader::Frame;

/// A TCP segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// When it was captured, since 1970-01-01 UTC.
    pub time_ns: i64,
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
pub enum Packet {
    /// A TCP segment.
    Tcp(Segment),
    /// Another known protocol.
    Other,
    /// Truncated before the end of its TCP header, malformed, a later fragment of TCP, or of an unknown link type.
    Unreadable,
}

/// Parses the headers of a packet captured at `time_ns`.
#[must_use]
pub fn read(frame: &Frame<'_>, time_ns: i64) -> Packet {
    let Some((network, offset)) = frame.link.network(frame.data) else { return Packet::Unreadable };
    let data = frame.data.get(offset..).unwrap_or_default();
    let original_bytes = (frame.original_bytes as usize).saturating_sub(offset);
    let transport = match network {
        Network::Other => return Packet::Other,
        Network::Ipv4 => ipv4(data, original_bytes),
        Network::Ipv6 => ipv6(data, original_bytes),
        // The first four bits are the version.
        Network::Ip => match data.first().map(|byte| byte >> 4) {
            Some(4) => ipv4(data, original_bytes),
            Some(6) => ipv6(data, original_bytes),
            _ => Transport::Unreadable,
        },
    };
    match transport {
        Transport::Other => Packet::Other,
        Transport::Unreadable => Packet::Unreadable,
        Transport::Tcp { from, to, data, bytes } => {
            tcp(time_ns, from, to, data, bytes).map_or(Packet::Unreadable, Packet::Tcp)
        }
    }
}

enum Transport<'a> {
    Tcp {
        from: IpAddr,
        to: IpAddr,
        data: &'a [u8],
        /// Original length of TCP's header and data.
        bytes: usize,
    },
    Other,
    Unreadable,
}

fn ipv4(data: &[u8], original_bytes: usize) -> Transport<'_> {
    let Ok(header) = Ipv4HeaderSlice::from_slice(data) else { return Transport::Unreadable };
    if header.protocol() != IpNumber::TCP {
        return Transport::Other;
    }
    if header.fragments_offset().value() > 0 {
        return Transport::Unreadable;
    }
    let header_bytes = header.slice().len();
    let total_bytes = match header.total_len() {
        // Packets for segmentation offload may have a length of 0.
        0 => original_bytes,
        // Ethernet pads short frames.
        bytes => usize::from(bytes).min(original_bytes),
    };
    let rest = data.get(header_bytes..total_bytes.min(data.len())).unwrap_or_default();
    Transport::Tcp {
        from: header.source_addr().into(),
        to: header.destination_addr().into(),
        data: rest,
        bytes: total_bytes.saturating_sub(header_bytes),
    }
}

fn ipv6(data: &[u8], original_bytes: usize) -> Transport<'_> {
    let Ok(header) = Ipv6HeaderSlice::from_slice(data) else { return Transport::Unreadable };
    let behind_bytes = original_bytes.saturating_sub(Ipv6Header::LEN);
    let payload_bytes = match header.payload_length() {
        0 => behind_bytes,
        bytes => usize::from(bytes).min(behind_bytes),
    };
    let end = Ipv6Header::LEN.saturating_add(payload_bytes).min(data.len());
    let payload = data.get(Ipv6Header::LEN..end).unwrap_or_default();
    let (extensions, next, rest, error) = Ipv6ExtensionsSlice::from_slice_lax(header.next_header(), payload);
    if error.is_some() {
        return Transport::Unreadable;
    }
    if next != IpNumber::TCP {
        return Transport::Other;
    }
    // Later fragments have no TCP header.
    if extensions.is_fragmenting_payload() && is_later_fragment(&extensions) {
        return Transport::Unreadable;
    }
    Transport::Tcp {
        from: header.source_addr().into(),
        to: header.destination_addr().into(),
        data: rest,
        bytes: payload_bytes.saturating_sub(extensions.slice().len()),
    }
}

fn is_later_fragment(extensions: &Ipv6ExtensionsSlice<'_>) -> bool {
    use etherparse::Ipv6ExtensionSlice;
    extensions.clone().into_iter().any(|extension| match extension {
        Ipv6ExtensionSlice::Fragment(fragment) => fragment.fragment_offset().value() > 0,
        _ => false,
    })
}

fn tcp(time_ns: i64, from: IpAddr, to: IpAddr, data: &[u8], bytes: usize) -> Option<Segment> {
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
