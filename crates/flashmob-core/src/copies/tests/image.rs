//! Properties of images: what records make of them, and what they refuse.

use super::*;
use crate::copies::testing::{CHUNK, any_change, any_record, id, image, marks, members};
use crate::copies::{CHUNK_BYTES_MAX, CHUNKS_MAX, DOMAIN_BYTES_MAX};
use proptest::prelude::*;

/// The counts, from the marks.
fn counted(image: &MapImage) -> MapCounts {
    let all = || (0..image.chunks()).map(|chunk| image.marks(chunk));
    let count = |is: fn(&Marks) -> bool| all().filter(is).count() as u32;
    let current = all().map(|marks| image.copies() - (marks.behind | marks.doubtful).count_ones() as usize);
    MapCounts {
        open: count(|marks| marks.is_open),
        behind: count(|marks| marks.behind != 0),
        doubtful: count(|marks| marks.doubtful != 0),
        behind_copies: all().map(|marks| marks.behind.count_ones()).sum(),
        fewest_current: current.min().unwrap(),
    }
}

/// A snapshot with one record changed, loaded.
fn loaded(image: &MapImage, change: impl Fn(&mut Record)) -> Result<MapImage, MapError> {
    let mut records = image.snapshot();
    records.iter_mut().for_each(change);
    MapImage::from_records(&records)
}

fn set(first_chunk: u32, count: u32, marks: Marks) -> Record {
    Record::Marks { first_chunk, count, marks }
}

proptest! {
    #[test]
    fn an_image_is_what_its_records_make_it(
        copies in 1usize..=4, slots in 1u64..20, changes in prop::collection::vec(any_change(24), 0..60),
    ) {
        let mut image = image(copies, 5, slots);
        let mut applied = 0;
        for change in &changes {
            let before = image.clone();
            match image.apply(change) {
                Ok(()) => applied += 1,
                Err(error) => {
                    prop_assert_eq!(&image, &before, "{}", error);
                }
            }
            prop_assert_eq!(image.version(), applied);
            prop_assert_eq!(image.counts(), counted(&image));
            prop_assert!((0..image.chunks()).all(|chunk| image.marks(chunk).behind != mask_of_all(copies)));
        }
        let all = (0..image.chunks()).map(|chunk| (chunk, image.marks(chunk)));
        let marked: Vec<(u32, Marks)> = all.filter(|marked| marked.1 != Marks::default()).collect();
        prop_assert_eq!(image.chunks_marked().collect::<Vec<_>>(), marked);
        let again = MapImage::from_records(&image.snapshot()).unwrap();
        prop_assert_eq!(&again, &image);
        prop_assert_eq!(again.snapshot(), image.snapshot());
    }

    #[test]
    fn chunks_of_a_member_are_those_with_a_place_there(copies in 1usize..=4, slots in 1u64..20) {
        let image = image(copies, 5, slots);
        let mut places = 0;
        for member in 0..7 {
            for (chunk, copy) in image.chunks_of(member) {
                prop_assert_eq!(image.places(chunk)[copy].member, member);
                places += 1;
            }
        }
        prop_assert_eq!(places, image.chunks() as usize * copies);
    }

    #[test]
    fn no_records_panic(records in prop::collection::vec(any_record(), 0..8), at in any::<prop::sample::Index>()) {
        let _ = MapImage::from_records(&records);
        let mut mixed = image(2, 3, 4).snapshot();
        let at = at.index(mixed.len() + 1);
        mixed.splice(at..at, records);
        let _ = MapImage::from_records(&mixed);
    }
}

#[test]
fn a_new_image_is_settled_and_current() {
    let image = image(2, 3, 4);
    assert_eq!((image.version(), image.epoch(), image.nonce(), image.losses()), (0, 0, 0, 0));
    assert_eq!((image.map_id(), image.chunk_bytes(), image.copies()), (id(7), CHUNK, 2));
    assert_eq!((image.chunks(), image.size_bytes(), image.members().len()), (6, 6 * CHUNK, 3));
    assert_eq!(image.counts(), MapCounts { open: 0, behind: 0, doubtful: 0, behind_copies: 0, fewest_current: 2 });
    assert_eq!(image.chunks_marked().count(), 0);
    assert_eq!((image.places(5).len(), image.places(6), image.places(u32::MAX)), (2, &[][..], &[][..]));
    assert_eq!(image.marks(6), Marks::default());
}

#[test]
fn boot_ids_of_the_first_members_are_kept() {
    let mut two = members(&[(2, 0), (2, 1)]);
    two[1].boot_id = Some(id(9));
    let image = MapImage::new(id(1), CHUNK, 2, two.clone()).unwrap();
    assert_eq!(MapImage::from_records(&image.snapshot()).unwrap().members(), two);
}

#[test]
fn marks_are_set_whole_within_the_volume() {
    let mut image = image(3, 3, 4);
    let all = marks(true, 0b011, 0b100);
    for (first_chunk, count, is_ok) in [
        (0, 4, true),
        (3, 1, true),
        (0, 5, false),
        (4, 1, false),
        (3, 2, false),
        (0, 0, false),
        (u32::MAX, u32::MAX, false),
    ] {
        let unknown = MapError::UnknownChunks { first_chunk, count: count.into(), chunks: 4 };
        let expected = if is_ok { Ok(()) } else { Err(unknown) };
        assert_eq!(image.apply(&set(first_chunk, count, all)), expected);
    }
    assert_eq!(image.counts(), MapCounts { open: 4, behind: 4, doubtful: 4, behind_copies: 8, fewest_current: 0 });
    image.apply(&set(1, 3, Marks::default())).unwrap();
    assert_eq!(image.chunks_marked().collect::<Vec<_>>(), [(0, all)]);
}

#[test]
fn the_last_copy_is_never_behind_and_no_other_copy_is_named() {
    for copies in 1..=4 {
        let mut image = image(copies, 4, 4);
        let all = mask_of_all(copies);
        assert_eq!(image.apply(&set(1, 1, marks(true, all, 0))), Err(MapError::LastCopy { chunk: 1 }));
        assert_eq!(image.apply(&set(1, 1, marks(false, all >> 1, all))), Ok(()), "doubt is not absence");
        for (behind, doubtful) in [(all + 1, 0), (0, all + 1), (0x80, 0), (0, 0x80)] {
            let error = Err(MapError::Masks { behind, doubtful, copies });
            assert_eq!(image.apply(&set(1, 1, marks(true, behind, doubtful))), error);
        }
    }
}

#[test]
fn epochs_grow_and_losses_do_not_shrink() {
    let mut image = image(1, 1, 1);
    let epoch = |epoch| Record::Epoch { epoch, nonce: epoch ^ 5 };
    assert_eq!(image.apply(&epoch(0)), Err(MapError::Epoch { given: 0, current: 0 }));
    assert_eq!(image.apply(&epoch(3)), Ok(()));
    assert_eq!(image.apply(&epoch(3)), Err(MapError::Epoch { given: 3, current: 3 }));
    assert_eq!(image.apply(&epoch(4)), Ok(()));
    assert_eq!((image.epoch(), image.nonce()), (4, 4 ^ 5));
    for (count, is_ok) in [(2, true), (2, true), (1, false), (3, true)] {
        assert_eq!(image.apply(&Record::Loss { count }).is_ok(), is_ok, "{count}");
    }
    assert_eq!((image.losses(), image.version()), (3, 5));
    for (count, is_ok) in [(4, false), (2, true), (1, false), (3, true), (3, true), (4, false)] {
        assert_eq!(image.apply(&Record::Told { count }).is_ok(), is_ok, "{count}");
    }
    assert_eq!((image.losses_told(), image.version()), (3, 8));
    assert_eq!(MapImage::from_records(&image.snapshot()), Ok(image));
}

#[test]
fn an_extent_that_has_grown_keeps_what_it_has() {
    let mut image = image(2, 3, 4);
    image.apply(&set(0, 6, marks(true, 0b01, 0))).unwrap();
    let before = image.clone();
    let extent_id = image.members()[1].extent_id;
    let of_size = |slots| Record::Extent { member: 1, extent_id, size_bytes: slots * CHUNK };
    assert!(matches!(image.apply(&of_size(3)), Err(MapError::ExtentShrinks { .. })));
    assert_eq!(image.used_bytes(1), 4 * CHUNK);
    // What a node said too much is taken back, down to what is in use.
    for slots in [900, 5, 4] {
        image.apply(&of_size(slots)).unwrap();
        assert_eq!(u64::from(image.slots(1)), slots);
    }
    assert!(matches!(image.apply(&of_size(4)), Err(MapError::ExtentTwice { .. })), "it has that");
    image.apply(&of_size(9)).unwrap();
    assert_eq!((image.slots(1), image.slots(0), image.counts()), (9, 4, before.counts()));
    assert_eq!((image.members()[1].extent_id, image.marks(0)), (extent_id, before.marks(0)));
    let another = Record::Extent { member: 0, extent_id, size_bytes: 9 * CHUNK };
    assert!(matches!(image.apply(&another), Err(MapError::ExtentTwice { .. })), "it is the other member's");
    assert_eq!(MapImage::from_records(&image.snapshot()), Ok(image));
}

#[test]
fn a_volume_that_shrinks_gives_its_last_slots_back() {
    let mut image = image(2, 3, 4);
    let all = image.clone();
    for chunks in [0, 7, u32::MAX] {
        let unknown = MapError::UnknownChunks { first_chunk: 0, count: chunks.into(), chunks: 6 };
        assert_eq!(image.apply(&Record::Shrunk { chunks }), Err(unknown), "{chunks}");
    }
    image.apply(&set(1, 5, marks(true, 0b01, 0b10))).unwrap();
    image.apply(&Record::Shrunk { chunks: 6 }).unwrap();
    assert_eq!((image.chunks(), image.shown()), (6, 6), "as many as it has");
    image.apply(&Record::Shrunk { chunks: 2 }).unwrap();
    assert_eq!((image.chunks(), image.shown(), image.size_bytes()), (2, 2, 2 * CHUNK));
    assert_eq!((image.counts().open, image.counts().behind_copies, image.counts().doubtful), (1, 1, 1));
    assert_eq!((0..3).map(|member| image.copies_on(member)).sum::<u32>(), 4);
    assert!(image.places(2).is_empty() && image.places(1) == all.places(1));
    let snapshot = image.snapshot();
    assert_eq!(MapImage::from_records(&snapshot).as_ref(), Ok(&image));
    let refused = MapImage::from_records(&[&snapshot[..], &[Record::Shrunk { chunks: 1 }]].concat());
    assert_eq!(refused, Err(MapError::Order("shrunk")), "a snapshot has what is left");
    // The slots can be taken again.
    image.apply(&Record::Places { first_chunk: 2, places: all.places(2).to_vec() }).unwrap();
    assert_eq!((image.chunks(), image.shown()), (3, 2));
    image.apply(&Record::Shrunk { chunks: 1 }).unwrap();
    assert_eq!((image.chunks(), image.shown()), (1, 1), "also before they were shown");
}

#[test]
fn a_fresh_extent_has_nothing() {
    let mut image = image(2, 3, 4);
    image.apply(&Record::Boot { member: 1, boot_id: id(50) }).unwrap();
    image.apply(&set(0, 6, marks(true, 0, 0b11))).unwrap();
    let fresh = |member, extent_id, slots| Record::Extent { member, extent_id, size_bytes: slots * CHUNK };
    let shrinks = MapError::ExtentShrinks { member: 1, given_bytes: 3 * CHUNK, current_bytes: 4 * CHUNK };
    assert_eq!(image.apply(&fresh(1, id(90), 3)), Err(shrinks));
    assert_eq!(image.apply(&fresh(1, id(1), 4)), Err(MapError::ExtentTwice { first: 0, second: 1 }));
    assert_eq!(image.apply(&fresh(1, id(2), 4)), Err(MapError::ExtentTwice { first: 1, second: 1 }));
    assert_eq!(image.apply(&fresh(3, id(90), 4)), Err(MapError::UnknownMember(3)));
    assert_eq!(image.apply(&fresh(1, id(90), 5)), Ok(()));
    let Member { extent_id, boot_id, size_bytes, .. } = image.members()[1];
    assert_eq!((extent_id, boot_id, size_bytes), (id(90), None, 5 * CHUNK));
    for chunk in 0..6 {
        let bit = image.chunks_of(1).find(|on| on.0 == chunk).map_or(0, |(_, copy)| 1 << copy);
        assert_eq!(image.marks(chunk), marks(true, bit, 0b11 & !bit), "{chunk}");
    }
    assert_eq!(image.counts(), counted(&image));
    // Chunks that have a copy on both now have their only good copy on member 2.
    let before = image.clone();
    assert!(matches!(image.apply(&fresh(2, id(91), 4)), Err(MapError::LastCopy { .. })));
    assert_eq!(image, before);
}

#[test]
fn the_only_copies_are_not_replaced() {
    let extent = Record::Extent { member: 0, extent_id: id(90), size_bytes: 4 * CHUNK };
    assert_eq!(image(1, 1, 4).apply(&extent), Err(MapError::LastCopy { chunk: 0 }));
}

#[test]
fn unknown_members_do_not_start() {
    let mut image = image(2, 3, 4);
    for (member, is_ok) in [(0, true), (2, true), (3, false), (u16::MAX, false)] {
        assert_eq!(image.apply(&Record::Boot { member, boot_id: id(9) }).is_ok(), is_ok);
    }
}

#[test]
fn the_table_is_laid_down_once() {
    let mut image = image(2, 3, 4);
    let records = image.snapshot();
    for record in &records {
        let refused = match *record {
            // One more has the next number.
            Record::Member { number, .. } => MapError::MemberNumber { number, expected: 3 },
            // Those of more chunks follow those of the last.
            Record::Places { first_chunk, .. } => MapError::PlacesOrder { first_chunk, expected: 6 },
            _ => MapError::Order(record.name()),
        };
        assert_eq!(image.apply(record), Err(refused));
    }
    for missing in 0..records.len() {
        let mut fewer = records.clone();
        fewer.remove(missing);
        assert!(MapImage::from_records(&fewer).is_err(), "without record {missing}");
    }
    for twice in 0..records.len() {
        let mut more = records.clone();
        more.insert(twice, records[twice].clone());
        assert!(MapImage::from_records(&more).is_err(), "with record {twice} twice");
    }
    let extent = Record::Extent { member: 0, extent_id: id(99), size_bytes: 4 * CHUNK };
    let with_extent = [&records[..], &[extent]].concat();
    assert_eq!(MapImage::from_records(&with_extent), Err(MapError::Order("extent")));
}

#[test]
fn sizes_are_refused_at_their_limits() {
    let image = image(2, 3, 4);
    let with = |given_bytes: u64, given_copies: u8, given_chunks: u32| {
        loaded(&image, |record| {
            if let Record::Begin { chunk_bytes, copies, chunks, .. } = record {
                (*chunk_bytes, *copies, *chunks) = (given_bytes, given_copies, given_chunks);
            }
        })
    };
    assert_eq!(with(CHUNK, 2, 6), Ok(image.clone()));
    assert_eq!(with(CHUNK / 2, 2, 6), Err(MapError::ChunkBytes(CHUNK / 2)));
    assert_eq!(with(CHUNK_BYTES_MAX * 2, 2, 6), Err(MapError::ChunkBytes(CHUNK_BYTES_MAX * 2)));
    assert_eq!(with(CHUNK + 1, 2, 6), Err(MapError::ChunkBytes(CHUNK + 1)));
    assert!(matches!(with(CHUNK * 2, 2, 6), Err(MapError::SlotBeyond { slot: 2, .. })));
    assert_eq!(with(CHUNK, 0, 6), Err(MapError::Copies(0)));
    assert_eq!(with(CHUNK, 5, 6), Err(MapError::Copies(5)));
    assert_eq!(with(CHUNK, 2, 0), Err(MapError::Chunks(0)));
    assert_eq!(with(CHUNK, 2, CHUNKS_MAX + 1), Err(MapError::Chunks(CHUNKS_MAX + 1)));
    assert_eq!(with(CHUNK, 2, CHUNKS_MAX), Err(MapError::Incomplete { placed: 6, chunks: CHUNKS_MAX }));
    assert_eq!(with(CHUNK, 2, 5), Err(MapError::UnknownChunks { first_chunk: 0, count: 6, chunks: 5 }));
}

#[test]
fn members_are_checked() {
    let image = image(2, 3, 4);
    let with = |change: fn(&mut u16, &mut [u8; 16], &mut String)| {
        loaded(&image, |record| {
            if let Record::Member { number: number @ 1, extent_id, domain, .. } = record {
                change(number, extent_id, domain);
            }
        })
    };
    assert_eq!(with(|number, _, _| *number = 2), Err(MapError::MemberNumber { number: 2, expected: 1 }));
    assert_eq!(with(|_, extent_id, _| *extent_id = id(1)), Err(MapError::ExtentTwice { first: 0, second: 1 }));
    assert!(with(|_, _, domain| *domain = "d".repeat(DOMAIN_BYTES_MAX)).is_ok());
    assert!(matches!(with(|_, _, domain| *domain = "d".repeat(DOMAIN_BYTES_MAX + 1)), Err(MapError::Domain { .. })));
    assert!(matches!(with(|_, _, domain| domain.clear()), Err(MapError::Domain { .. })));
    assert!(matches!(with(|_, _, domain| *domain = "d0".into()), Err(MapError::SameDomain { .. })));
}

#[test]
fn places_are_checked() {
    let image = image(2, 3, 4);
    let good: Vec<Place> = (0..6).flat_map(|chunk| image.places(chunk).to_vec()).collect();
    let with = |first: u32, given: Vec<Place>| {
        loaded(&image, |record| {
            if let Record::Places { first_chunk, places } = record {
                (*first_chunk, *places) = (first, given.clone());
            }
        })
    };
    let with_first = |member, slot| {
        let mut given = good.clone();
        given[0] = Place { member, slot };
        with(0, given)
    };
    assert_eq!(with(0, good.clone()), Ok(image.clone()));
    assert_eq!(with(1, good.clone()), Err(MapError::PlacesOrder { first_chunk: 1, expected: 0 }));
    assert_eq!(with(0, vec![]), Err(MapError::PlacesCount { count: 0, copies: 2 }));
    assert_eq!(with(0, good[..11].to_vec()), Err(MapError::PlacesCount { count: 11, copies: 2 }));
    assert_eq!(with(0, good[..10].to_vec()), Err(MapError::Incomplete { placed: 5, chunks: 6 }));
    let Place { member, slot } = good[1];
    assert_eq!(with_first(member, slot + 1), Err(MapError::SameMember { chunk: 0, member }));
    assert_eq!(with_first(3, 0), Err(MapError::UnknownMember(3)));
    let other = 3 - good[0].member - good[1].member;
    assert!(matches!(with_first(other, 0), Err(MapError::SlotTaken { slot: 0, .. })));
    let size_bytes = 4 * CHUNK;
    assert_eq!(with_first(other, 4), Err(MapError::SlotBeyond { chunk: 0, member: other, slot: 4, size_bytes }));
    assert!(matches!(with_first(other, u32::MAX), Err(MapError::SlotBeyond { .. })));
}

#[test]
fn more_records_than_a_version_counts_are_refused() {
    let last = loaded(&image(1, 1, 1), |record| {
        if let Record::Begin { version, .. } = record {
            *version = u64::MAX - 1;
        }
    });
    let mut image = last.unwrap();
    assert_eq!(image.apply(&Record::Loss { count: 1 }), Ok(()));
    assert_eq!(image.apply(&Record::Loss { count: 2 }), Err(MapError::Version));
    assert_eq!((image.losses(), image.version()), (1, u64::MAX));
}

#[test]
fn many_places_take_several_records() {
    for copies in [1, 2, 3, 4] {
        let image = image(copies, copies, 2 * PLACES_MAX as u64 / copies as u64 + 1);
        let records = image.snapshot();
        let places = records.iter().filter_map(|record| match record {
            Record::Places { places, .. } => Some(places.len()),
            _ => None,
        });
        assert_eq!(places.collect::<Vec<_>>(), [PLACES_MAX, PLACES_MAX, copies]);
        assert_eq!(MapImage::from_records(&records), Ok(image));
    }
}

#[test]
fn it_takes_little_memory() {
    // 12 bytes for each copy, and some for the chunk.
    assert!(size_of::<Place>() <= 8 && size_of::<Marks>() <= 4);
}
