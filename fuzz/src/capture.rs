//! Captures as anybody may hand them over.

use flashmob_flows::packet::LinkType;
use flashmob_flows::reader::{CaptureReader, Frame};
use flashmob_flows::writer::CaptureWriter;
use flashmob_flows::{Analyzer, Limits};

/// Reads and analyses; few connections are kept, so that limits are met.
///
/// # Panics
/// If counts do not add up: that is a finding.
pub fn run(data: &[u8]) {
    let Ok(mut reader) = CaptureReader::open(data) else { return };
    let limits =
        Limits { flows_at_once: 3, waiting_segments: 4, unseen_acknowledgements: 4, gaps: 2, ..Limits::default() };
    let mut analyzer = Analyzer::new(limits);
    while reader.next_with(|frame| analyzer.take(&frame)) {}
    let summary = analyzer.finish();
    assert!(summary.tcp_packets + summary.unreadable_packets <= summary.packets);
    let mut packets = 0;
    for way in summary.flows.iter().flat_map(|flow| [&flow.up, &flow.down]) {
        packets += way.packets;
        assert!(way.data_packets <= way.packets && way.unique_bytes <= way.bytes);
        assert!(way.retransmissions + way.out_of_order <= way.data_packets);
        assert!(way.verdict.as_ref().is_none_or(|verdict| (0.0..=1.0).contains(&verdict.fraction)));
    }
    assert!(packets <= summary.tcp_packets);
}

/// Captures to begin with: a connection with an opening, data both ways, and a window of nothing.
#[must_use]
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let packets = [
        packet(false, 100, 0, 0x02, 1000, &[2, 4, 5, 180, 1, 3, 3, 7], 0),
        packet(true, 500, 101, 0x12, 1000, &[2, 4, 5, 180, 1, 3, 3, 7], 0),
        packet(false, 101, 501, 0x10, 1000, &[], 0),
        packet(false, 101, 501, 0x18, 1000, &[1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2], 100),
        packet(true, 501, 201, 0x10, 0, &[1, 1, 8, 10, 0, 0, 0, 3, 0, 0, 0, 1], 0),
        packet(true, 501, 201, 0x10, 1000, &[], 0),
        packet(false, 101, 501, 0x18, 1000, &[], 100),
        packet(false, 201, 501, 0x11, 1000, &[], 1),
    ];
    vec![
        ("pcapng", pcapng(&packets)),
        ("pcap", pcap(&packets, 101)),
        ("pppoe_mpls", pcap(&packets.clone().map(|p| [PPPOE_MPLS, &p].concat()), 1)),
        ("radiotap", pcap(&packets.clone().map(|p| [RADIOTAP, &p].concat()), 127)),
        ("fragments", pcap(&fragments(&packets[3]), 101)),
        ("two_sections", [pcapng(&packets[..3]), pcapng(&packets)].concat()),
        ("cut", pcapng(&packets)[..300].to_vec()),
    ]
}

/// Ethernet, PPPoE, and a label of MPLS.
const PPPOE_MPLS: &[u8] =
    &[4, 4, 4, 4, 4, 4, 2, 2, 2, 2, 2, 2, 0x88, 0x64, 0x11, 0, 0, 1, 0, 90, 0x02, 0x81, 0, 1, 0x11, 64];
/// Radiotap with flags, a data frame, SNAP.
const RADIOTAP: &[u8] = &[
    0, 0, 9, 0, 2, 0, 0, 0, 0, 8, 1, 0, 0, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 0, 0, 0xaa, 0xaa, 3,
    0, 0, 0, 8, 0,
];

/// An IPv4 packet in three fragments, the last one twice.
fn fragments(packet: &[u8]) -> Vec<Vec<u8>> {
    let (header, payload) = packet.split_at(20);
    let part = |begin: usize, end: usize| {
        let mut bytes = [header, &payload[begin..end]].concat();
        bytes[2..4].copy_from_slice(&((20 + end - begin) as u16).to_be_bytes());
        bytes[6] = if end < payload.len() { 0x20 } else { 0 };
        bytes[7] = (begin / 8) as u8;
        bytes
    };
    let all = payload.len();
    vec![part(64, all), part(64, all), part(0, 40), part(40, 64)]
}

/// IPv4 and TCP without link header.
fn packet(
    is_from_server: bool,
    sequence: u32,
    acknowledgement: u32,
    flags: u8,
    window: u16,
    options: &[u8],
    data: usize,
) -> Vec<u8> {
    let header_bytes = 20 + options.len();
    let length = (20 + header_bytes + data) as u16;
    let (from, to) = if is_from_server { (2, 1) } else { (1, 2) };
    let mut bytes = vec![0x45, 0];
    bytes.extend(length.to_be_bytes());
    bytes.extend([0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, from, 10, 0, 0, to, 0, from, 0, to]);
    bytes.extend(sequence.to_be_bytes());
    bytes.extend(acknowledgement.to_be_bytes());
    bytes.extend([(header_bytes / 4 * 16) as u8, flags]);
    bytes.extend(window.to_be_bytes());
    bytes.extend([0; 4]);
    bytes.extend(options);
    bytes.extend(vec![0; data]);
    bytes
}

fn pcapng(packets: &[Vec<u8>]) -> Vec<u8> {
    let mut writer = CaptureWriter::begin(Vec::new(), LinkType::RAW, "seed0", 256).expect("memory takes everything");
    for (at, data) in packets.iter().enumerate() {
        let frame = Frame {
            time_ns: Some(1_700_000_000_000_000_000 + at as i64 * 10_000_000),
            link: LinkType::RAW,
            data,
            original_bytes: data.len() as u32,
        };
        writer.packet(&frame).expect("memory takes everything");
    }
    writer.end(1, 0).expect("memory takes everything")
}

fn pcap(packets: &[Vec<u8>], link: u8) -> Vec<u8> {
    let mut bytes = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, link, 0, 0, 0];
    for (at, data) in packets.iter().enumerate() {
        for field in [at as u32, 0, data.len() as u32, data.len() as u32] {
            bytes.extend(field.to_le_bytes());
        }
        bytes.extend(data);
    }
    bytes
}
