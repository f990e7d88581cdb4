//! Captures made of synthetic packets: two ends, a path, and a cause that is planted.

pub mod flow;

use etherparse::{PacketBuilder, TcpOptionElement};

use crate::packet::LinkType;
use crate::reader::Frame;
use crate::writer::CaptureWriter;

/// Milliseconds.
pub const MS: i64 = 1_000_000;
pub const CLIENT: ([u8; 4], u16) = ([10, 0, 0, 1], 40_000);
pub const SERVER: ([u8; 4], u16) = ([10, 0, 0, 2], 5001);

/// A TCP packet to be.
#[derive(Clone, Debug, Default)]
pub struct Tcp {
    pub is_from_server: bool,
    pub sequence: u32,
    pub acknowledgement: Option<u32>,
    pub is_syn: bool,
    pub is_fin: bool,
    pub is_pushed: bool,
    pub window: u16,
    pub data_bytes: usize,
    pub window_scale: Option<u8>,
    pub stamps: Option<(u32, u32)>,
}

impl Tcp {
    /// An Ethernet frame with it.
    pub fn ethernet(&self) -> Vec<u8> {
        let (from, to) = if self.is_from_server { (SERVER, CLIENT) } else { (CLIENT, SERVER) };
        let mut options = Vec::new();
        if self.is_syn {
            options.push(TcpOptionElement::MaximumSegmentSize(1460));
        }
        if let Some(shift) = self.window_scale {
            options.push(TcpOptionElement::WindowScale(shift));
        }
        if let Some((own, echoed)) = self.stamps {
            options.push(TcpOptionElement::Timestamp(own, echoed));
        }
        let mut builder = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4(from.0, to.0, 64).tcp(
            from.1,
            to.1,
            self.sequence,
            self.window,
        );
        if let Some(acknowledgement) = self.acknowledgement {
            builder = builder.ack(acknowledgement);
        }
        if self.is_syn {
            builder = builder.syn();
        }
        if self.is_fin {
            builder = builder.fin();
        }
        if self.is_pushed {
            builder = builder.psh();
        }
        let builder = builder.options(&options).unwrap();
        let payload = vec![0; self.data_bytes];
        let mut bytes = vec![0; builder.size(payload.len())];
        builder.write_to_slice(&mut bytes, &payload).unwrap();
        bytes
    }
}

/// A capture of these frames, in pcapng.
pub fn pcapng(frames: &[(i64, Vec<u8>)]) -> Vec<u8> {
    let mut writer = CaptureWriter::begin(Vec::new(), LinkType::ETHERNET, "test0", 65_535).unwrap();
    for (time_ns, data) in frames {
        let original_bytes = data.len() as u32;
        writer.packet(&Frame { time_ns: Some(*time_ns), link: LinkType::ETHERNET, data, original_bytes }).unwrap();
    }
    writer.end(3, 0).unwrap()
}

/// The same in pcap: either byte order, micro- or nanoseconds.
pub fn pcap(frames: &[(i64, Vec<u8>)], is_big: bool, is_nano: bool) -> Vec<u8> {
    let put = |n: u32| if is_big { n.to_be_bytes() } else { n.to_le_bytes() };
    let mut bytes = put(if is_nano { 0xa1b2_3c4d } else { 0xa1b2_c3d4 }).to_vec();
    bytes.extend(if is_big { [0, 2, 0, 4] } else { [2, 0, 4, 0] });
    for field in [0, 0, 65_535, 1] {
        bytes.extend(put(field));
    }
    for (time_ns, data) in frames {
        let fraction = time_ns % 1_000_000_000;
        let fraction = if is_nano { fraction } else { fraction / 1000 };
        for field in [(time_ns / 1_000_000_000) as u32, fraction as u32, data.len() as u32, data.len() as u32] {
            bytes.extend(put(field));
        }
        bytes.extend(data);
    }
    bytes
}
