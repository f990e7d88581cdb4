use super::*;
use proptest::prelude::*;

const SHAPE: Shape = Shape { size_bytes: 1 << 30 };

#[test]
fn zeros_have_the_sum_zero_and_a_short_block_counts_as_filled_up() {
    assert_eq!(checksum(&ZEROS), CRC_OF_ZEROS);
    assert_eq!((sum_of(&ZEROS), sum_of(&[]), sum_of(&ZEROS[..7])), (0, 0, 0));
    let mut block = ZEROS;
    block[..3].copy_from_slice(b"abc");
    assert_eq!(sum_of(&block), checksum(&block) ^ CRC_OF_ZEROS);
    assert_eq!(sum_of(b"abc"), sum_of(&block));
    assert_eq!(sum_of_parts([&block[..1], &block[1..2], &block[2..]]), sum_of(&block));
    assert_eq!(sum_of_parts([b"", b"ab", b"c"]), sum_of(&block));
}

#[test]
fn parts_of_a_file_follow_each_other_without_overlap() {
    for (size_bytes, blocks, units) in [
        (1, 1, 1),
        (4096, 1, 1),
        (4097, 2, 1),
        (UNIT_BYTES, 1024, 1),
        (UNIT_BYTES + 1, 1025, 2),
        (1 << 40, 1 << 28, 1 << 18),
        (i64::MAX as u64, 1 << 51, 1 << 41),
    ] {
        let shape = Shape::new(size_bytes);
        assert_eq!((shape.blocks(), shape.units()), (blocks, units), "{size_bytes}");
        assert_eq!(shape.slot_at(SLOTS), shape.bitmap_at());
        assert!(shape.bitmap_bytes() * 8 >= units);
        assert_eq!(shape.sum_at(0), shape.bitmap_at() + shape.bitmap_bytes());
        assert!(shape.sum_at(blocks - 1) + 4 <= shape.file_bytes());
        assert!(shape.file_bytes() < shape.sum_at(blocks) + 4096);
    }
    assert_eq!(Shape::new(16 << 30).file_bytes(), 20 * 1024 + 4096 + (16 << 20));
}

#[test]
fn a_header_says_why_it_is_refused() {
    let header = Header { extent_id: [1; 16], size_bytes: 1 << 30, nonce: [2; 16], before: None, age: None };
    let bytes = header.encode();
    assert_eq!((bytes.len(), Header::decode(&bytes)), (HEADER_BYTES, Ok(header)));
    let refused = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = bytes.clone();
        change(&mut bytes);
        Header::decode(&bytes).unwrap_err()
    };
    assert_eq!(refused(&|bytes| bytes.truncate(HEADER_BYTES - 1)), BadHeader::Damaged("it is too short"));
    assert!(refused(&|bytes| bytes[0] = 0).to_string().contains("does not begin"));
    assert_eq!(refused(&|bytes| bytes[8] = 2), BadHeader::Version(2));
    assert!(refused(&|bytes| bytes[20] ^= 1).to_string().contains("checksum"));
    let sealed = |size_bytes| Header::decode(&Header { size_bytes, ..header }.encode());
    for (size_bytes, is_valid) in [(0, false), (1, true), (i64::MAX as u64, true), (i64::MAX as u64 + 1, false)] {
        assert_eq!(sealed(size_bytes).is_ok(), is_valid, "{size_bytes}");
    }
}

#[test]
fn what_earlier_programs_do_not_write_is_absent_and_damage_of_it_alone_is_no_damage() {
    let header = Header {
        extent_id: [1; 16],
        size_bytes: 1 << 30,
        nonce: [2; 16],
        before: Some([3; 16]),
        age: Some((1, u64::MAX)),
    };
    let bytes = header.encode();
    let plain = Header { before: None, age: None, ..header };
    assert_eq!(Header::decode(&bytes), Ok(header));
    // As earlier programs write it: zeros behind the first checksum.
    let earlier = [&bytes[..60], &[0; HEADER_BYTES - 60]].concat();
    assert_eq!(Header::decode(&earlier), Ok(plain));
    assert_eq!(bytes[..60], plain.encode()[..60], "they read it, too");
    for at in 60..100 {
        let mut bytes = bytes.clone();
        bytes[at] ^= 1;
        assert_eq!(Header::decode(&bytes), Ok(plain), "byte {at}");
    }
    // One that an earlier program has renewed, and left the rest.
    let renewed = [&Header { nonce: [9; 16], ..plain }.encode()[..60], &bytes[60..]].concat();
    assert_eq!(Header::decode(&renewed), Ok(Header { nonce: [9; 16], ..plain }));
}

#[test]
fn a_change_is_held_at_below_and_above_its_limits() {
    let back = |change: Change| Change::decode(&change.encode(), SHAPE);
    let last = SHAPE.blocks();
    for (change, is_valid) in [
        (Change::Sums { first: 0, sums: vec![7] }, true),
        (Change::Sums { first: 0, sums: vec![] }, false),
        (Change::Sums { first: 5, sums: vec![7; SLOT_BLOCKS_MAX] }, true),
        (Change::Sums { first: 5, sums: vec![7; SLOT_BLOCKS_MAX + 1] }, false),
        (Change::Sums { first: last - 2, sums: vec![7; 2] }, true),
        (Change::Sums { first: last - 1, sums: vec![7; 2] }, false),
        (Change::Sums { first: u64::MAX, sums: vec![7; 2] }, false),
        (Change::Zeros { first: 3, count: UNIT_BLOCKS as u32 }, true),
        (Change::Zeros { first: 3, count: UNIT_BLOCKS as u32 + 1 }, false),
        (Change::Zeros { first: 3, count: 0 }, false),
    ] {
        assert_eq!(back(change.clone()), is_valid.then_some(change));
    }
    assert_eq!(Change::decode(&[0; SLOT_BYTES], SHAPE), None, "an empty slot");
    let blocks: Vec<_> = Change::Sums { first: 9, sums: vec![1, 2] }.blocks().collect();
    assert_eq!(blocks, [(9, 1), (10, 2)]);
    assert_eq!(Change::Zeros { first: 9, count: 2 }.blocks().collect::<Vec<_>>(), [(9, 0), (10, 0)]);
}

proptest! {
    #[test]
    fn headers_and_changes_round_trip(
        extent_id: [u8; 16],
        size_bytes in 1..=i64::MAX as u64,
        nonce: [u8; 16],
        before in prop::option::of(1u128..),
        age in prop::option::of((1u64.., any::<u64>())),
        first in 0..SHAPE.blocks() - UNIT_BLOCKS,
        sums in prop::collection::vec(any::<u32>(), 1..=SLOT_BLOCKS_MAX),
        count in 1..=UNIT_BLOCKS as u32,
        at in 0..SLOT_BYTES,
        flip in 1u8..,
    ) {
        let header = Header { extent_id, size_bytes, nonce, before: before.map(u128::to_le_bytes), age };
        prop_assert_eq!(Header::decode(&header.encode()), Ok(header));
        for change in [Change::Sums { first, sums: sums.clone() }, Change::Zeros { first, count }] {
            let mut bytes = change.encode();
            prop_assert_eq!(Change::decode(&bytes, SHAPE), Some(change));
            bytes[at] ^= flip;
            prop_assert_eq!(Change::decode(&bytes, SHAPE), None, "one damaged byte");
        }
    }

    #[test]
    fn garbage_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..5000), size_bytes: u64) {
        let _ = Header::decode(&bytes);
        let shape = Shape::new(size_bytes);
        if let Some(change) = Change::decode(&bytes, shape) {
            prop_assert!(change.blocks().all(|(block, _)| block < shape.blocks()));
        }
    }

    #[test]
    fn parts_of_a_block_have_the_sum_of_the_whole(bytes in prop::collection::vec(any::<u8>(), 0..=BLOCK_BYTES), a: prop::sample::Index, b: prop::sample::Index) {
        let (a, b) = (a.index(bytes.len() + 1), b.index(bytes.len() + 1));
        let (a, b) = (a.min(b), a.max(b));
        prop_assert_eq!(sum_of_parts([&bytes[..a], &bytes[a..b], &bytes[b..]]), sum_of(&bytes));
    }
}
