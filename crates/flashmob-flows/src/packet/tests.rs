//! Headers behind every kind of link, whole and cut short.

use etherparse::{IpFragOffset, IpNumber, Ipv6Extensions, Ipv6FragmentHeader, PacketBuilder};
use proptest::prelude::*;

use super::*;
use crate::testing::Tcp;

fn data() -> Vec<u8> {
    Tcp { sequence: 7, acknowledgement: Some(9), window: 100, data_bytes: 30, stamps: Some((1, 2)), ..Tcp::default() }
        .ethernet()
}

fn read_as(link: LinkType, data: &[u8], original_bytes: usize) -> Packet<'_> {
    read(&Frame { time_ns: None, link, data, original_bytes: original_bytes as u32 }, 5, 1)
}

fn data_bytes(packet: Packet<'_>) -> Option<u32> {
    match packet {
        Packet::Tcp(segment) => {
            assert_eq!((segment.sequence, segment.acknowledgement, segment.window, segment.time_ns), (7, 9, 100, 5));
            Some(segment.data_bytes)
        }
        _ => None,
    }
}

#[test]
fn behind_every_link_is_the_same_packet() {
    let ethernet = data();
    let ip = &ethernet[14..];
    let with = |header: &[u8]| [header, ip].concat();
    let mut sll2 = [0; 20];
    sll2[..2].copy_from_slice(&[8, 0]);
    let mut tagged_sll2 = sll2.to_vec();
    tagged_sll2[..2].copy_from_slice(&[0x81, 0]);
    tagged_sll2.extend([0, 5, 8, 0]);
    for (link, bytes) in [
        (LinkType::ETHERNET, ethernet.clone()),
        (LinkType::ETHERNET, [&ethernet[..12], &[0x81, 0, 0, 5, 8, 0], ip].concat()),
        (LinkType::ETHERNET, [&ethernet[..12], &[0x88, 0xa8, 0, 5, 0x81, 0, 0, 6, 8, 0], ip].concat()),
        (LinkType::RAW, ip.to_vec()),
        (LinkType(228), ip.to_vec()),
        (LinkType::NULL, with(&[2, 0, 0, 0])),
        (LinkType::NULL, with(&[0, 0, 0, 2])),
        (LinkType::LOOP, with(&[0, 0, 0, 2])),
        (LinkType::LINUX_SLL, with(&[0, 0, 0, 1, 0, 6, 1, 2, 3, 4, 5, 6, 0, 0, 8, 0])),
        (LinkType::LINUX_SLL2, with(&sll2)),
        (LinkType::LINUX_SLL2, with(&tagged_sll2)),
    ] {
        assert_eq!(data_bytes(read_as(link, &bytes, bytes.len())), Some(30), "{} {bytes:?}", link.name());
    }
    let unknown = Packet::Unreadable(Reason::LinkType(LinkType(147)));
    assert_eq!(read_as(LinkType(147), &ethernet, ethernet.len()), unknown);
}

#[test]
fn within_encapsulations_is_the_same_packet() {
    let ethernet = data();
    let ip = &ethernet[14..];
    let behind = |headers: &[&[u8]]| [headers.concat(), ip.to_vec()].concat();
    let mac = &ethernet[..12];
    let snap = [0xaa, 0xaa, 3, 0, 0, 0, 8, 0];
    // Data from a station with three addresses, QoS, and from an access point to another with four and padding.
    let station = [&[0x08, 0x01, 0, 0][..], &[2; 18], &[0, 0]].concat();
    let qos = [&[0x88, 0x02, 0, 0][..], &[2; 18], &[0, 0, 0, 0]].concat();
    let between = [&[0x08, 0x03, 0, 0][..], &[2; 18], &[0, 0], &[2; 6], &[0, 0]].concat();
    let radiotap: &[u8] = &[0, 0, 9, 0, 2, 0, 0, 0, 0x00];
    // Time, then flags: padding.
    let padded: &[u8] = &[0, 0, 17, 0, 3, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 0x20];
    // Two words of presence.
    let long: &[u8] = &[0, 0, 13, 0, 2, 0, 0, 0x80, 0, 0, 0, 0, 0x10];
    let ah: &[u8] = &[6, 4, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];
    let with_protocol = |protocol: u8, header: &[u8]| {
        let mut outer = ip[..20].to_vec();
        outer[2..4].copy_from_slice(&((20 + header.len() + ip.len()) as u16).to_be_bytes());
        outer[9] = protocol;
        [outer, header.to_vec()].concat()
    };
    let mut in_ah = with_protocol(51, ah);
    let in_ah_bytes = (20 + ah.len() + ip.len() - 20) as u16;
    in_ah[2..4].copy_from_slice(&in_ah_bytes.to_be_bytes());
    let in_ah = [in_ah, ip[20..].to_vec()].concat();
    for (link, bytes, what) in [
        (1, behind(&[mac, &[0x88, 0x64, 0x11, 0, 0, 1, 0, 90, 0, 0x21]]), "PPPoE"),
        (1, behind(&[mac, &[0x81, 0, 0, 5, 0x88, 0x64, 0x11, 0, 0, 1, 0, 90, 0x21]]), "PPPoE, compressed, in a VLAN"),
        (1, behind(&[mac, &[0x88, 0x47, 0, 1, 0x10, 64, 0, 1, 0x11, 64]]), "two MPLS labels"),
        (1, behind(&[mac, &[0, 90], &snap]), "SNAP"),
        (1, behind(&[mac, &[0, 90, 6, 6, 3]]), "802.2"),
        (1, behind(&[mac, &[8, 0], &with_protocol(4, &[])]), "IP in IP"),
        (1, behind(&[mac, &[8, 0], &with_protocol(47, &[0, 0, 8, 0])]), "GRE"),
        (
            1,
            behind(&[mac, &[8, 0], &with_protocol(47, &[&[0x20, 0, 0x65, 0x58, 0, 0, 0, 7], mac, &[8, 0]].concat())]),
            "Ethernet in GRE",
        ),
        (1, [mac, &[8, 0], &in_ah].concat(), "AH"),
        (9, behind(&[&[0xff, 3, 0, 0x21]]), "PPP"),
        (9, behind(&[&[0x21]]), "PPP, compressed"),
        (50, behind(&[&[0x0f, 0, 8, 0]]), "Cisco HDLC"),
        (51, behind(&[&[0x11, 0, 0, 1, 0, 90, 0, 0x21]]), "PPPoE without Ethernet"),
        (104, behind(&[&[0x0f, 0, 8, 0]]), "Cisco HDLC"),
        (166, behind(&[&[0, 3, 0, 0x21]]), "pppd"),
        (204, behind(&[&[1, 0xff, 3, 0, 0x21]]), "PPP with direction"),
        (105, behind(&[&station, &snap]), "802.11"),
        (127, behind(&[radiotap, &station, &snap]), "radiotap"),
        (127, behind(&[radiotap, &qos, &snap]), "radiotap, QoS"),
        (127, behind(&[padded, &between, &snap]), "radiotap, four addresses, padding"),
        (127, behind(&[long, &station, &snap]), "radiotap, long"),
        (163, behind(&[&[0x80, 0x21, 0x10, 1, 0, 0, 0, 12, 0, 0, 0, 0], &station, &snap]), "AVS"),
        (119, behind(&[&[0x44, 0, 0, 0], &[0; 140], &station, &snap]), "Prism"),
        (192, behind(&[&[0, 0, 8, 0, 105, 0, 0, 0], &station, &snap]), "PPI"),
        (113, behind(&[&[0, 0, 3, 0x21, 0, 6, 1, 2, 3, 4, 5, 6, 0, 0, 0, 4], &snap]), "802.2 in linux_sll"),
    ] {
        assert_eq!(data_bytes(read_as(LinkType(link), &bytes, bytes.len())), Some(30), "{what} {bytes:x?}");
        // Cut off behind the outer headers, and within TCP's.
        let cut = bytes.len() - 31;
        assert_eq!(read_as(LinkType(link), &bytes[..cut], bytes.len()), Packet::Unreadable(Reason::Cut), "{what}");
    }
}

#[test]
fn what_is_not_read_is_named() {
    let ethernet = data();
    let name = |link: u32, bytes: &[u8], original_bytes: usize| match read_as(LinkType(link), bytes, original_bytes) {
        Packet::Other(protocol) => protocol.name(),
        Packet::Unreadable(reason) => reason.name(),
        packet => format!("{packet:?}"),
    };
    let mac = &ethernet[..12];
    let named = |rest: &[u8]| name(1, &[mac, rest].concat(), 12 + rest.len());
    assert_eq!(named(&[0x88, 0x63, 0x11, 9, 0, 0, 0, 0]), "pppoe discovery");
    assert_eq!(named(&[0x88, 0x64, 0x11, 0, 0, 1, 0, 4, 0xc0, 0x21]), "ppp lcp");
    assert_eq!(named(&[0x88, 0x64, 0x11, 0, 0, 1, 0, 4, 0, 0xfd]), "ppp compressed");
    assert_eq!(named(&[0x88, 0xe5, 1, 2]), "macsec");
    assert_eq!(named(&[0x12, 0x34, 1, 2]), "ethertype 0x1234");
    assert_eq!(named(&[0, 3, 0x42, 0x42, 3]), "llc");
    assert_eq!(named(&[0x88, 0x47, 0, 1, 0x11, 64, 0, 0, 0, 0]), "mpls");
    assert_eq!(name(127, &[0, 0, 8, 0, 0, 0, 0, 0, 0x80, 0, 0, 0], 12), "802.11 management");
    assert_eq!(name(105, &[0x08, 0x41, 0, 0], 4), "802.11 encrypted");
    assert_eq!(name(195, &[0; 40], 40), "link type 195 (ieee802_15_4)");
    assert_eq!(name(99_999, &[0; 40], 40), "link type 99999 (link_type_99999)");
    // Whole, and yet too short: more bytes of it do not help.
    assert_eq!(name(1, &ethernet[..40], 40), "malformed");
    assert!(name(1, &ethernet[..40], 96).starts_with("cut off"));
    let nested = [mac, &[0x81, 0, 0, 5].repeat(200)].concat();
    assert_eq!(name(1, &nested, nested.len()), "nested headers");
    assert_eq!(name(192, &[0, 0, 8, 0, 192, 0, 0, 0].repeat(9), 72), "link type 192 (ppi)");
}

#[test]
fn fragments_of_a_segment_are_one_segment() {
    let ip = data()[14..].to_vec();
    let fragment = |offset: usize, bytes: usize, is_last: bool, identification: u8| {
        let mut header = ip[..20].to_vec();
        header[2..4].copy_from_slice(&((20 + bytes) as u16).to_be_bytes());
        header[5] = identification;
        header[6..8].copy_from_slice(&((offset / 8) as u16 | if is_last { 0 } else { 0x2000 }).to_be_bytes());
        [header, ip[20 + offset..20 + offset + bytes].to_vec()].concat()
    };
    let mut fragments = Fragments::default();
    let mut take = |bytes: Vec<u8>, number: u64| match read_as(LinkType::RAW, &bytes, bytes.len()) {
        Packet::Fragment(fragment) => fragments.take(&fragment, 5, number).unwrap(),
        packet => panic!("{packet:?}"),
    };
    // 32 bytes of header and 30 of data.
    assert_eq!(take(fragment(0, 40, false, 1), 1), None);
    let segment = take(fragment(40, 22, true, 1), 2).unwrap();
    assert_eq!((segment.data_bytes, segment.sequence, segment.number), (30, 7, 2));
    // The last first, one twice, and the same identification again.
    assert_eq!(take(fragment(56, 6, true, 1), 3), None);
    assert_eq!(take(fragment(56, 6, true, 1), 4), None);
    assert_eq!(take(fragment(40, 16, false, 1), 5), None);
    assert_eq!(take(fragment(0, 40, false, 1), 6).map(|segment| segment.data_bytes), Some(30));
    // One of another packet, and one whose others never come.
    assert_eq!(take(fragment(0, 40, false, 2), 7), None);
    assert_eq!(take(fragment(40, 22, true, 3), 8), None);
    assert_eq!(take(fragment(0, 40, false, 2), 9), None, "a second beginning is another packet's");
    assert_eq!(fragments.lost(), Some((3, 7)));
}

#[test]
fn an_encapsulated_packet_in_fragments_has_its_own_length() {
    let ip = data()[14..].to_vec();
    let mut outer = ip[..20].to_vec();
    // The first 60 bytes of the inner packet, and more to follow.
    outer[2..4].copy_from_slice(&80_u16.to_be_bytes());
    outer[6] = 0x20;
    outer[9] = 4;
    let first = [outer.clone(), ip[..60].to_vec()].concat();
    assert_eq!(data_bytes(read_as(LinkType::RAW, &first, first.len())), Some(30));
    outer[6..8].copy_from_slice(&[0, 7]);
    let last = [outer, ip[60..].to_vec()].concat();
    assert_eq!(read_as(LinkType::RAW, &last, last.len()), Packet::Other(Protocol::Ip(4)));
}

#[test]
fn of_too_many_packets_in_fragments_the_oldest_is_given_up() {
    for (others, is_kept) in [(62, true), (63, true), (64, false)] {
        let mut fragments = Fragments::default();
        let mut take = |bytes: &[u8], identification: u16| {
            let mut bytes = bytes.to_vec();
            bytes[4..6].copy_from_slice(&identification.to_be_bytes());
            match read_as(LinkType::RAW, &bytes, bytes.len()) {
                Packet::Fragment(fragment) => fragments.take(&fragment, 5, 1).unwrap().is_some(),
                packet => panic!("{packet:?}"),
            }
        };
        let (mut first, mut last) = (data()[14..14 + 60].to_vec(), [&data()[14..34], &data()[74..]].concat());
        first[3] = 60;
        first[6] = 0x20;
        last[3] = 20 + 22;
        last[7] = 5;
        assert!(!take(&first, 1000));
        (0..others).for_each(|at| assert!(!take(&first, at)));
        assert_eq!(take(&last, 1000), is_kept, "{others}");
    }
}

#[test]
fn lengths_are_those_on_the_way() {
    let bytes = data();
    // 14 Ethernet, 20 IP, 32 TCP.
    for (kept, found) in [(96, Some(30)), (67, Some(30)), (66, Some(30)), (65, None), (40, None), (13, None)] {
        assert_eq!(data_bytes(read_as(LinkType::ETHERNET, &bytes[..kept], 96)), found, "{kept}");
    }
    let padded = [bytes.clone(), vec![0; 20]].concat();
    assert_eq!(data_bytes(read_as(LinkType::ETHERNET, &padded, padded.len())), Some(30), "padding is no data");
    let mut large = bytes;
    large[16..18].copy_from_slice(&[0, 0]);
    assert_eq!(data_bytes(read_as(LinkType::ETHERNET, &large, 66 + 64_000)), Some(64_000), "no length: the frame's");
}

#[test]
fn ipv6_with_extensions_and_fragments() {
    let builder = || PacketBuilder::ethernet2([2; 6], [4; 6]);
    let plain = builder().ipv6([1; 16], [2; 16], 64).tcp(1, 2, 7, 100).ack(9);
    let mut bytes = vec![0; plain.size(30)];
    plain.write_to_slice(&mut bytes, &[0; 30]).unwrap();
    assert_eq!(data_bytes(read_as(LinkType::ETHERNET, &bytes, bytes.len())), Some(30));
    let with_fragment = |offset: u16| {
        let fragment = Ipv6FragmentHeader::new(IpNumber::TCP, IpFragOffset::try_new(offset).unwrap(), true, 1);
        let extensions = Ipv6Extensions { fragment: Some(fragment), ..Ipv6Extensions::default() };
        let header =
            etherparse::Ipv6Header { source: [1; 16], destination: [2; 16], hop_limit: 9, ..Default::default() };
        let builder = builder().ip(etherparse::IpHeaders::Ipv6(header, extensions)).tcp(1, 2, 7, 100).ack(9);
        let mut bytes = vec![0; builder.size(30)];
        builder.write_to_slice(&mut bytes, &[0; 30]).unwrap();
        bytes
    };
    let mut fragments = Fragments::default();
    let mut take = |bytes: Vec<u8>| match read_as(LinkType::ETHERNET, &bytes, bytes.len()) {
        Packet::Fragment(fragment) => fragments.take(&fragment, 5, 1).unwrap(),
        packet => panic!("{packet:?}"),
    };
    // 20 bytes of header and 28 of data; more follow, of which the last has no more flag.
    let (mut first, mut last) = (with_fragment(0), with_fragment(6));
    let payload = first.len() - 2;
    first.truncate(payload);
    first[18..20].copy_from_slice(&(8_u16 + 48).to_be_bytes());
    last[57] &= !1;
    assert_eq!(take(first), None);
    assert_eq!(take(last).map(|segment| segment.data_bytes), Some(28 + 50), "with the header of the last as data");
}

#[test]
fn other_protocols_are_no_errors() {
    let builder = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([1; 4], [2; 4], 64).udp(1, 2);
    let mut bytes = vec![0; builder.size(10)];
    builder.write_to_slice(&mut bytes, &[0; 10]).unwrap();
    assert_eq!(read_as(LinkType::ETHERNET, &bytes, bytes.len()), Packet::Other(Protocol::Ip(17)));
    let mut arp = data();
    arp[12..14].copy_from_slice(&[8, 6]);
    assert_eq!(read_as(LinkType::ETHERNET, &arp, arp.len()), Packet::Other(Protocol::EtherType(0x0806)));
}

proptest! {
    #[test]
    fn any_bytes_are_something(
        link in prop_oneof![0_u32..290, any::<u32>()],
        data in proptest::collection::vec(any::<u8>(), 0..200),
        original_bytes in any::<u32>(),
    ) {
        let frame = Frame { time_ns: None, link: LinkType(link), data: &data, original_bytes };
        if let Packet::Tcp(segment) = read(&frame, 0, 1) {
            prop_assert!(u64::from(segment.data_bytes) <= u64::from(original_bytes));
        }
    }
}
