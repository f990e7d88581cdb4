//! Captures of every form, whole, cut off and damaged.

use std::io::Read;

use proptest::prelude::*;

use super::*;
use crate::testing::{Tcp, pcap, pcapng};

fn frames(count: u32) -> Vec<(i64, Vec<u8>)> {
    (0..count)
        .map(|n| {
            let packet = Tcp { sequence: n, data_bytes: (n as usize * 7) % 50, ..Tcp::default() };
            (1_700_000_000_123_456_000 + i64::from(n) * 1_000_000, packet.ethernet())
        })
        .collect()
}

struct Found {
    frames: Vec<(i64, Vec<u8>)>,
    ended_by: Option<String>,
    lost: Option<u64>,
}

fn read(bytes: impl Read) -> Result<Found, OpenError> {
    let mut reader = CaptureReader::open(bytes)?;
    let mut frames = Vec::new();
    while reader.next_with(|frame| frames.push((frame.time_ns.unwrap_or(-1), frame.data.to_vec()))) {}
    Ok(Found { frames, ended_by: reader.ended_by().map(str::to_string), lost: reader.lost_packets() })
}

/// Gives a byte at a time, as a slow pipe may.
struct Dripping<'a>(&'a [u8]);

impl Read for Dripping<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.0.len().min(buffer.len()).min(1);
        buffer[..count].copy_from_slice(&self.0[..count]);
        self.0 = &self.0[count..];
        Ok(count)
    }
}

#[test]
fn every_form_gives_the_same_packets() {
    let frames = frames(40);
    for (is_big, is_nano) in [(false, false), (false, true), (true, false), (true, true)] {
        let found = read(pcap(&frames, is_big, is_nano).as_slice()).unwrap();
        assert!(found.frames == frames && found.ended_by.is_none(), "big {is_big}, nano {is_nano}");
    }
    let bytes = pcapng(&frames);
    for found in [read(bytes.as_slice()).unwrap(), read(Dripping(&bytes)).unwrap()] {
        assert!(found.frames == frames && found.ended_by.is_none());
        assert_eq!(found.lost, Some(3));
    }
    let twice = [bytes.clone(), bytes].concat();
    let found = read(twice.as_slice()).unwrap();
    assert_eq!((found.frames.len(), found.lost), (80, Some(6)), "sections one after the other");
}

#[test]
fn a_section_of_the_other_byte_order_with_a_clock_of_its_own() {
    let big = |numbers: &[u32]| numbers.iter().flat_map(|n| n.to_be_bytes()).collect::<Vec<u8>>();
    let mut bytes = big(&[0x0a0d_0d0a, 28, 0x1a2b_3c4d, 0x0001_0000, u32::MAX, u32::MAX, 28]);
    // An interface of raw IP, with times in 1024ths of a second (option 9), 100 s later (option 14).
    bytes.extend(big(&[1, 44, 0x0065_0000, 65_535, 0x0009_0001, 0x8a00_0000, 0x000e_0008, 0, 100, 0, 44]));
    bytes.extend(big(&[6, 36, 0, 0, 1536, 2, 60, 0x4500_0000, 36]));
    let mut reader = CaptureReader::open(bytes.as_slice()).unwrap();
    let mut seen = None;
    assert!(reader.next_with(|f| seen = Some((f.time_ns, f.link, f.data.to_vec(), f.original_bytes))));
    assert_eq!(seen, Some((Some(101_500_000_000), LinkType::RAW, vec![0x45, 0], 60)));
    assert!(!reader.next_with(|_| ()) && reader.ended_by().is_none(), "{:?}", reader.ended_by());
}

#[test]
fn what_comes_before_a_cut_or_damage_counts() {
    let frames = frames(10);
    for bytes in [pcap(&frames, false, false), pcapng(&frames)] {
        let found = read(&bytes[..bytes.len() - 42]).unwrap();
        assert!(found.frames.len() >= 9 && frames.starts_with(&found.frames));
        assert!(found.ended_by.unwrap().starts_with("cut off at byte"), "{} bytes", bytes.len());
    }
    // A packet's length that contradicts its block's: it must not be waited for.
    let mut bytes = pcapng(&frames);
    let whole = bytes.len();
    let last = bytes.windows(4).rposition(|w| w == [6, 0, 0, 0]).unwrap();
    bytes[last + 20..last + 24].copy_from_slice(&5000_u32.to_le_bytes());
    bytes.extend(vec![0; 3 * BUFFER_BYTES]);
    let found = read(bytes.as_slice()).unwrap();
    assert!(found.frames.len() == 9 && found.ended_by.unwrap().contains("contradict"), "{whole}");
}

#[test]
fn a_packet_may_be_large_but_not_larger_than_the_limit() {
    let at = |data_bytes: usize| read(pcap(&[(0, vec![0; data_bytes])], false, false).as_slice()).unwrap();
    for data_bytes in [BUFFER_BYTES - 1, BUFFER_BYTES, BUFFER_BYTES + 1, BLOCK_BYTES_MAX - 1000] {
        let found = at(data_bytes);
        assert!(found.frames.len() == 1 && found.ended_by.is_none(), "{data_bytes}: {:?}", found.ended_by);
    }
    for data_bytes in [BLOCK_BYTES_MAX, BLOCK_BYTES_MAX + 1] {
        let found = at(data_bytes);
        assert!(found.frames.is_empty() && found.ended_by.unwrap().contains("16777216"), "{data_bytes}");
    }
}

#[test]
fn what_is_no_capture_is_named() {
    let error = |bytes: &[u8]| read(bytes).err().unwrap().to_string();
    for (bytes, word) in [
        (&b""[..], "empty"),
        (b"\x1f\x8b\x08\x00\x00", "gzip"),
        (b"\x28\xb5\x2f\xfd\x00", "zstd"),
        (b"{\"format\": 1}", "JSON"),
        (b"hello world", "text"),
        (b"\x00\x01\x02\x03\x04", "neither pcap nor pcapng"),
        (b"\xd4\xc3\xb2\xa1\x02\x00", "cut off within its first 6 bytes"),
        (b"\x0a\x0d\x0d\x0a\x1c\x00", "cut off"),
        (b"\x0a\x0d\x0d\x0a\xff\xff\xff\xff\x4d\x3c\x2b\x1a", "header is damaged"),
    ] {
        assert!(error(bytes).contains(word), "{}", error(bytes));
    }
}

#[test]
fn what_fails_on_the_way_is_told() {
    struct Failing;
    impl Read for Failing {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("the disk burns"))
        }
    }
    let bytes = pcap(&frames(3), false, false);
    let found = read(bytes.as_slice().chain(Failing)).unwrap();
    assert!(found.frames.len() == 3 && found.ended_by.as_ref().unwrap().contains("burns"), "{:?}", found.ended_by);
}

proptest! {
    #[test]
    fn any_bytes_end(bytes in proptest::collection::vec(any::<u8>(), 0..400), form in 0..3_usize) {
        let magic: [&[u8]; 3] = [&[], &[0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0], &[0x0a, 0x0d, 0x0d, 0x0a, 28, 0, 0, 0, 0x4d, 0x3c, 0x2b, 0x1a]];
        let _ = read([magic[form], &bytes].concat().as_slice());
    }

    #[test]
    fn any_damage_ends(at in 0..4000_usize, byte in any::<u8>(), cut in 0..4000_usize) {
        for mut bytes in [pcap(&frames(30), false, true), pcapng(&frames(30))] {
            let length = bytes.len();
            bytes[at % length] = byte;
            bytes.truncate(length - cut % length);
            if let Ok(found) = read(bytes.as_slice()) {
                prop_assert!(found.frames.len() <= 31);
            }
        }
    }
}
