//! Files: read back, torn, damaged.

use super::*;
use crate::checksum::checksum;
use crate::copies::Member;
use crate::copies::testing::{CHUNK, any_change, id, image, marks, members};
use crate::units::GIB;
use proptest::prelude::*;

fn batch(first_number: u64, records: &[Record]) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_batch(&mut bytes, first_number, records).unwrap();
    bytes
}

fn open(first_chunk: u32) -> Record {
    Record::Marks { first_chunk, count: 1, marks: marks(true, 0, 0) }
}

/// A small map, and its file: a snapshot and three batches. Also where each batch ends.
fn sample() -> (MapImage, Vec<u8>, Vec<usize>) {
    let mut image = image(2, 3, 4);
    let mut bytes = encode_snapshot(&image);
    let mut ends = vec![bytes.len()];
    let batches = [
        vec![Record::Epoch { epoch: 1, nonce: 77 }, Record::Boot { member: 0, boot_id: id(40) }],
        vec![open(0), open(3), open(4)],
        vec![Record::Marks { first_chunk: 3, count: 2, marks: marks(true, 0b10, 0) }, Record::Loss { count: 1 }],
    ];
    for records in batches {
        bytes.extend(batch(image.version() + 1, &records));
        records.iter().for_each(|record| image.apply(record).unwrap());
        ends.push(bytes.len());
    }
    (image, bytes, ends)
}

/// Makes the checksum of the batch at `start` right.
fn seal(bytes: &mut [u8], start: usize) {
    let len = u32::from_le_bytes(bytes[start + 8..start + 12].try_into().unwrap()) as usize;
    end_batch(&mut bytes[start..start + HEADER_BYTES + len], 0);
}

proptest! {
    #[test]
    fn files_round_trip_and_survive_compaction(
        copies in 1usize..=4, batches in prop::collection::vec(prop::collection::vec(any_change(24), 1..9), 0..9),
    ) {
        let mut image = image(copies, 5, 7);
        let mut bytes = encode_snapshot(&image);
        let (snapshot_bytes, mut written) = (bytes.len() as u64, 0);
        for changes in batches {
            let first_number = image.version() + 1;
            let taken: Vec<Record> = changes.into_iter().filter(|change| image.apply(change).is_ok()).collect();
            encode_batch(&mut bytes, first_number, &taken).unwrap();
            written += u64::from(!taken.is_empty());
        }
        let replayed = replay(&bytes).unwrap();
        prop_assert_eq!(&replayed.image, &image);
        prop_assert_eq!((replayed.valid_bytes, replayed.torn_bytes), (bytes.len() as u64, 0));
        prop_assert_eq!((replayed.snapshot_bytes, replayed.batches), (snapshot_bytes, 1 + written));

        let mut compact = encode_snapshot(&image);
        let again = replay(&compact).unwrap();
        prop_assert_eq!(&again.image, &image);
        prop_assert_eq!(again.snapshot_bytes, compact.len() as u64);
        // The numbers go on.
        compact.extend(batch(image.version() + 1, &[Record::Loss { count: u64::MAX }]));
        prop_assert_eq!(replay(&compact).unwrap().image.version(), image.version() + 1);
    }

    #[test]
    fn garbage_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..300), at in any::<prop::sample::Index>()) {
        prop_assert!(replay(&bytes).is_err());
        let (_, mut file, _) = sample();
        let at = at.index(file.len());
        file.splice(at..at, bytes);
        let _ = replay(&file);
    }

    #[test]
    fn sealed_garbage_never_panics(
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6), which in 0usize..4,
    ) {
        let (_, mut file, ends) = sample();
        let start = if which == 0 { 0 } else { ends[which - 1] };
        for (at, byte) in flips {
            file[start + HEADER_BYTES..ends[which]][at.index(ends[which] - start - HEADER_BYTES)] = byte;
        }
        seal(&mut file, start);
        if let Ok(replayed) = replay(&file) {
            let again = replay(&encode_snapshot(&replayed.image)).unwrap();
            prop_assert_eq!(again.image, replayed.image);
        }
    }
}

#[test]
fn a_torn_tail_is_dropped_at_every_byte() {
    let (image, file, ends) = sample();
    assert_eq!(replay(&file).unwrap().image, image);
    for cut in ends[0]..file.len() {
        let replayed = replay(&file[..cut]).unwrap();
        let whole = *ends.iter().rfind(|&&end| end <= cut).unwrap();
        assert_eq!((replayed.valid_bytes, replayed.torn_bytes), (whole as u64, (cut - whole) as u64), "{cut}");
        assert_eq!(replayed, Replayed { torn_bytes: (cut - whole) as u64, ..replay(&file[..whole]).unwrap() });
        // Blocks that were allocated and not written. (With zeros: a batch may end with some, and then be whole.)
        let garbage = [&file[..cut], &[0x55; 40]].concat();
        assert_eq!(replay(&garbage).unwrap().image, replayed.image, "{cut}");
    }
}

#[test]
fn a_start_that_may_be_lost_with_the_end_of_a_map_is_counted_before_the_next() {
    let (image, file, ends) = sample();
    assert_eq!(image.lost_start(5), None, "nothing was dropped");
    // The start with epoch 1 is lost.
    let mut left = replay(&file[..ends[1] - 1]).unwrap().image;
    left.cut().unwrap();
    let decisions = left.decisions();
    let lost = left.lost_start(5).expect("the end was dropped");
    left.apply(&lost).unwrap();
    left.apply(&Record::Epoch { epoch: left.epoch() + 1, nonce: 6 }).unwrap();
    assert_eq!(
        (left.epoch(), left.decisions()),
        (2, decisions),
        "no node has seen its number, and none lacks a decision"
    );
}

#[test]
fn a_torn_snapshot_is_refused_at_every_byte() {
    let (_, file, ends) = sample();
    assert_eq!(replay(&[]), Err(ReplayError::Empty));
    for cut in 1..ends[0] {
        let error = replay(&file[..cut]).unwrap_err();
        assert!(matches!(error, ReplayError::NotAMap | ReplayError::Snapshot { record: 0, .. }), "{cut}: {error}");
    }
}

#[test]
fn any_flipped_bit_is_refused_or_in_the_last_batch_dropped() {
    let (_, file, ends) = sample();
    let last = ends[ends.len() - 2];
    let before = replay(&file[..last]).unwrap();
    for at in 0..file.len() {
        for bit in 0..8 {
            let mut damaged = file.clone();
            damaged[at] ^= 1 << bit;
            match replay(&damaged) {
                Ok(replayed) => {
                    assert!(at >= last, "{at} {bit}");
                    assert_eq!((replayed.image, replayed.valid_bytes), (before.image.clone(), last as u64));
                }
                Err(error) => assert!(at < last, "{at} {bit} {error}"),
            }
        }
    }
}

#[test]
fn damage_before_the_end_names_record_byte_and_remedy() {
    let (_, file, ends) = sample();
    let mut damaged = file.clone();
    damaged[ends[1] + 30] ^= 1;
    let offset_bytes = ends[1] as u64;
    assert_eq!(replay(&damaged), Err(ReplayError::Damaged { record: 3, offset_bytes }));
    assert_eq!(
        replay(&damaged).unwrap_err().to_string(),
        format!(
            "record 3 of the map (byte {offset_bytes}) is damaged; move the file away, and recover the map from the nodes with \
             `flashmob volume recover`"
        )
    );
    let mut damaged = file.clone();
    damaged[40] ^= 1;
    assert_eq!(replay(&damaged), Err(ReplayError::Snapshot { record: 0, offset_bytes: 0 }));
}

#[test]
fn what_is_longer_than_a_batch_is_no_torn_tail() {
    let (_, file, _) = sample();
    for (garbage_bytes, is_torn) in [(BATCH_BYTES_MAX - 1, true), (BATCH_BYTES_MAX, true), (BATCH_BYTES_MAX + 1, false)]
    {
        let long = [&file[..], &vec![0x55; garbage_bytes]].concat();
        assert_eq!(replay(&long).is_ok(), is_torn, "{garbage_bytes}");
    }
}

#[test]
fn a_search_has_an_end() {
    let (_, file, _) = sample();
    // Headers that each announce all of the rest.
    let mut tail = vec![0];
    while tail.len() + 100 < BATCH_BYTES_MAX {
        let left = (BATCH_BYTES_MAX - tail.len() - HEADER_BYTES) as u32;
        tail.extend_from_slice(&MAGIC);
        tail.extend_from_slice(&[VERSION, Part::Changes as u8, 0, 0]);
        tail.extend_from_slice(&left.to_le_bytes());
        tail.extend_from_slice(&[0; 12]);
    }
    tail.resize(BATCH_BYTES_MAX, 0);
    assert!(matches!(replay(&[file, tail].concat()), Err(ReplayError::Damaged { .. })));
}

#[test]
fn batches_out_of_order_are_refused() {
    let (_, file, ends) = sample();
    let (snapshot, first) = (&file[..ends[0]], &file[ends[0]..ends[1]]);
    let (second, third) = (&file[ends[1]..ends[2]], &file[ends[2]..]);
    let offset_bytes = ends[1] as u64;
    let gap = |expected, found| Err(ReplayError::Gap { expected, found, offset_bytes });
    assert_eq!(replay(&[snapshot, first, third].concat()), gap(3, 6));
    assert_eq!(replay(&[snapshot, first, first, second].concat()), gap(3, 1));
    assert_eq!(
        replay(&[snapshot, second].concat()),
        Err(ReplayError::Gap { expected: 1, found: 3, offset_bytes: ends[0] as u64 })
    );
    assert_eq!(replay(&[snapshot, first, snapshot].concat()), Err(ReplayError::Damaged { record: 3, offset_bytes }));
    assert_eq!(replay(&[first, second].concat()), Err(ReplayError::Snapshot { record: 0, offset_bytes: 0 }));
}

#[test]
fn another_version_and_another_file_are_named() {
    let (_, mut file, _) = sample();
    file[4] = 2;
    assert_eq!(
        replay(&file).unwrap_err().to_string(),
        "the map has format version 2, and this program reads version 1; use the release that wrote it"
    );
    assert_eq!(replay(b"[gateway]\nlisten = 1"), Err(ReplayError::NotAMap));
    assert_eq!(replay(&[0; 5000]), Err(ReplayError::NotAMap));
}

#[test]
fn a_record_that_does_not_fit_is_named_and_its_batch_not_applied() {
    let (image, mut file, _) = sample();
    let end = file.len();
    let good = batch(image.version() + 1, &[open(1)]);
    file.extend(batch(image.version() + 1, &[open(1), open(99)]));
    let error = replay(&file).unwrap_err();
    let (record, offset_bytes) = (image.version() + 2, (end + good.len()) as u64);
    let source = MapError::UnknownChunks { first_chunk: 99, count: 1, chunks: 6 };
    assert_eq!(error, ReplayError::Record { record, offset_bytes, source });
    assert!(error.to_string().contains("recover the map"), "{error}");
}

#[test]
fn batches_hold_so_much_and_no_more() {
    let record = open(0);
    let mut one = Vec::new();
    record.encode(&mut one);
    let most = (BATCH_BYTES_MAX - HEADER_BYTES) / one.len();
    let mut out = b"before".to_vec();
    encode_batch(&mut out, 1, &vec![record.clone(); most]).unwrap();
    assert!(out.len() <= 6 + BATCH_BYTES_MAX);
    let file = [encode_snapshot(&image(2, 3, 4)), out[6..].to_vec()].concat();
    assert_eq!(replay(&file).unwrap().records, most as u64 + 5);
    let mut out = b"before".to_vec();
    assert!(encode_batch(&mut out, 1, &vec![record; most + 1]).is_err());
    assert_eq!(out, b"before");
    encode_batch(&mut out, 1, &[]).unwrap();
    assert_eq!(out, b"before");
}

#[test]
fn a_batch_that_announces_too_much_or_nothing_is_damaged() {
    for len in [0, (BATCH_BYTES_MAX - HEADER_BYTES + 1) as u32, u32::MAX] {
        let (_, mut file, ends) = sample();
        file[ends[0] + 8..ends[0] + 12].copy_from_slice(&len.to_le_bytes());
        assert!(matches!(replay(&file), Err(ReplayError::Damaged { record: 1, .. })), "{len}");
    }
}

#[test]
fn the_format_does_not_change_unnoticed() {
    let (_, file, _) = sample();
    assert_eq!((file.len(), checksum(&file)), (401, 0x8f3b_af6b), "raise VERSION and change docs/map-format.md");
}

#[test]
fn a_tebibyte_with_three_copies_is_small() {
    let member = |number: u64| Member { size_bytes: 128 * GIB, ..members(&[(1, number as usize)])[0].clone() };
    let members: Vec<Member> = (0..24).map(|number| Member { extent_id: id(number), ..member(number) }).collect();
    let mut image = MapImage::new(id(1), 4 << 20, 3, members).unwrap();
    let places = u64::from(image.chunks()) * 3;
    assert_eq!(places, 3 * 262_144);
    let bytes = encode_snapshot(&image);
    assert!(bytes.len() as u64 <= 8 * places, "{} bytes", bytes.len());
    assert_eq!(replay(&bytes).unwrap().image, image);
    // The worst that marks can do: none like its neighbour.
    for chunk in 0..image.chunks() {
        let marks = marks(true, chunk as u8 % 2, 0);
        image.apply(&Record::Marks { first_chunk: chunk, count: 1, marks }).unwrap();
    }
    let bytes = encode_snapshot(&image);
    assert!(bytes.len() as u64 <= 11 * places, "{} bytes", bytes.len());
    assert_eq!(replay(&bytes).unwrap().image, image);
    assert_eq!(image.chunk_bytes(), crate::copies::CHUNK_BYTES);
    assert_eq!(CHUNK, crate::copies::CHUNK_BYTES_MIN);
}
