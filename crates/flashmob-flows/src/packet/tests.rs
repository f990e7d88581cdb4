//! Headers behind every kind of link, whole and cut short.

use etherparse::{IpFragOffset, IpNumber, Ipv6Extensions, Ipv6FragmentHeader, PacketBuilder};
use proptest::prelude::*;

use super::*;
use crate::testing::Tcp;

fn data() -> Vec<u8> {
    Tcp { sequence: 7, acknowledgement: Some(9), window: 100, data_bytes: 30, stamps: Some((1, 2)), ..Tcp::default() }
        .ethernet()
}

fn read_as(link: LinkType, data: &[u8], original_bytes: usize) -> Packet {
    read(&Frame { time_ns: None, link, data, original_bytes: original_bytes as u32 }, 5)
}

fn data_bytes(packet: Packet) -> Option<u32> {
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
    assert_eq!(read_as(LinkType(147), &ethernet, ethernet.len()), Packet::Unreadable);
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
        read_as(LinkType::ETHERNET, &bytes, bytes.len())
    };
    assert_eq!(data_bytes(with_fragment(0)), Some(30), "the first has the header");
    assert_eq!(with_fragment(185), Packet::Unreadable);
}

#[test]
fn other_protocols_are_no_errors() {
    let builder = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([1; 4], [2; 4], 64).udp(1, 2);
    let mut bytes = vec![0; builder.size(10)];
    builder.write_to_slice(&mut bytes, &[0; 10]).unwrap();
    assert_eq!(read_as(LinkType::ETHERNET, &bytes, bytes.len()), Packet::Other);
    let mut arp = data();
    arp[12..14].copy_from_slice(&[8, 6]);
    assert_eq!(read_as(LinkType::ETHERNET, &arp, arp.len()), Packet::Other);
}

proptest! {
    #[test]
    fn any_bytes_are_something(
        link in prop_oneof![Just(0), Just(1), Just(101), Just(108), Just(113), Just(228), Just(229), Just(276), any::<u32>()],
        data in proptest::collection::vec(any::<u8>(), 0..200),
        original_bytes in any::<u32>(),
    ) {
        let frame = Frame { time_ns: None, link: LinkType(link), data: &data, original_bytes };
        if let Packet::Tcp(segment) = read(&frame, 0) {
            prop_assert!(u64::from(segment.data_bytes) <= u64::from(original_bytes));
        }
    }
}
