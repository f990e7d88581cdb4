//! The file of a map: any bytes are refused, or give an image that is sound and survives being written.

use std::collections::BTreeSet;

use flashmob_core::checksum::checksum_of_two;
use flashmob_core::copies::{
    BATCH_BYTES_MAX, CHUNK_BYTES_MIN, MapCounts, MapImage, Marks, Member, Record, Replayed, encode_batch,
    encode_snapshot, replay,
};

/// Bytes of a batch's header, and where its length and its checksum lie in it (docs/map-format.md).
const HEADER_BYTES: usize = 24;
const LENGTH_AT: usize = 8;
const CHECKSUM_AT: usize = 20;

/// The first byte says whether checksums are made right, so that records are reached, and where the file is cut.
pub fn run(data: &[u8]) {
    let Some((&control, file)) = data.split_first() else { return };
    let mut file = file.to_vec();
    if control & 1 != 0 {
        seal(&mut file);
    }
    let replayed = match replay(&file) {
        Ok(replayed) => replayed,
        Err(error) => {
            let message = error.to_string();
            assert!(!message.contains(char::is_control) && message.len() < 400, "{message:?}");
            return;
        }
    };
    check_lengths(&file, &replayed, control);
    check_image(&replayed.image);
    let image = &replayed.image;
    assert_eq!(MapImage::from_records(&image.snapshot()).as_ref(), Ok(image));
    let mut compact = encode_snapshot(image);
    let again = replay(&compact).expect("what was written is read");
    assert_eq!((&again.image, again.torn_bytes), (image, 0));
    // The next change has its place behind it.
    let change = Record::Loss { count: u64::MAX };
    if image.version() < u64::MAX {
        encode_batch(&mut compact, image.version() + 1, &[change]).expect("one record fits");
        let next = replay(&compact).expect("what was written is read");
        assert_eq!((next.image.version(), next.image.losses()), (image.version() + 1, u64::MAX));
    }
}

/// What is torn is left out, and only that; a shorter file is an earlier one.
fn check_lengths(file: &[u8], replayed: &Replayed, control: u8) {
    let Replayed { valid_bytes, torn_bytes, snapshot_bytes, .. } = *replayed;
    assert_eq!(valid_bytes + torn_bytes, file.len() as u64);
    assert!(torn_bytes <= BATCH_BYTES_MAX as u64 && snapshot_bytes <= valid_bytes);
    let whole = replay(&file[..valid_bytes as usize]);
    assert_eq!(whole, Ok(Replayed { torn_bytes: 0, ..replayed.clone() }));
    let changes_bytes = (valid_bytes - snapshot_bytes) as usize;
    let cut = snapshot_bytes as usize + changes_bytes * usize::from(control) / 256;
    let earlier = replay(&file[..cut]).expect("a file that is cut short is an earlier one");
    assert!(earlier.image.version() <= replayed.image.version());
}

/// Every copy has a place of its own, apart from the others; some copy of each chunk is not behind; counts count.
fn check_image(image: &MapImage) {
    let (copies, members) = (image.copies(), image.members());
    let mut taken = BTreeSet::new();
    let mut counts = MapCounts { open: 0, behind: 0, doubtful: 0, behind_copies: 0, fewest_current: copies };
    for chunk in 0..image.chunks() {
        let places = image.places(chunk);
        let domains: BTreeSet<&str> = places.iter().map(|p| members[usize::from(p.member)].domain.as_str()).collect();
        assert_eq!((places.len(), domains.len()), (copies, copies));
        for place in places {
            assert!(taken.insert((place.member, place.slot)));
            let end_bytes = (u64::from(place.slot) + 1) * image.chunk_bytes();
            assert!(end_bytes <= members[usize::from(place.member)].size_bytes);
        }
        let Marks { is_open, behind, doubtful, .. } = image.marks(chunk);
        assert!((behind | doubtful) >> copies == 0 && (behind.count_ones() as usize) < copies);
        counts.open += u32::from(is_open);
        counts.behind += u32::from(behind != 0);
        counts.doubtful += u32::from(doubtful != 0);
        counts.behind_copies += behind.count_ones();
        counts.fewest_current = counts.fewest_current.min(copies - (behind | doubtful).count_ones() as usize);
    }
    assert_eq!(image.counts(), counts);
    assert_eq!(image.size_bytes(), u64::from(image.chunks()) * image.chunk_bytes());
}

/// Makes the checksum of each batch right, as far as their lengths lead.
fn seal(file: &mut [u8]) {
    let mut rest = file;
    while rest.len() >= HEADER_BYTES {
        let (header, behind) = rest.split_at_mut(HEADER_BYTES);
        let len = u32::from_le_bytes([0, 1, 2, 3].map(|i| header[LENGTH_AT + i])) as usize;
        if len > behind.len() {
            return;
        }
        let (records, next) = behind.split_at_mut(len);
        let sum = checksum_of_two(&header[..CHECKSUM_AT], records);
        header[CHECKSUM_AT..].copy_from_slice(&sum.to_le_bytes());
        rest = next;
    }
}

/// Small maps, with and without changes, whole and torn.
#[must_use]
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let map = |copies: usize, members: u8| {
        let member = |number: u8| Member {
            extent_id: [number; 16],
            boot_id: (number == 1).then_some([0xb0; 16]),
            seen: (number == 1).then_some((3, 4)),
            size_bytes: 2 * CHUNK_BYTES_MIN,
            domain: format!("d{number}"),
        };
        MapImage::new([7; 16], CHUNK_BYTES_MIN, copies, (0..members).map(member).collect()).expect("a map")
    };
    let marks = |is_open, behind, doubtful| Marks { is_open, is_torn: !is_open, behind, doubtful };
    let batches = [
        vec![Record::Epoch { epoch: 1, nonce: 2 }, Record::Boot { member: 0, boot_id: [0xb1; 16] }],
        vec![Record::Marks { first_chunk: 0, count: 2, marks: marks(true, 0, 0) }],
        vec![
            Record::Marks { first_chunk: 1, count: 1, marks: marks(true, 0b10, 0b01) },
            Record::Loss { count: 1 },
            Record::Told { count: 1 },
            Record::Linear,
            Record::Extent { member: 2, extent_id: [9; 16], size_bytes: 3 * CHUNK_BYTES_MIN },
        ],
    ];
    let mut image = map(3, 4);
    let mut changed = encode_snapshot(&image);
    for records in &batches {
        encode_batch(&mut changed, image.version() + 1, records).expect("it fits");
        records.iter().for_each(|record| image.apply(record).expect("it is right"));
    }
    let with = |control: u8, file: &[u8]| [&[control][..], file].concat();
    vec![
        ("one_copy", with(1, &encode_snapshot(&map(1, 2)))),
        ("changed", with(0x81, &changed)),
        ("compacted", with(0, &encode_snapshot(&image))),
        ("torn", with(0x40, &changed[..changed.len() - 5])),
    ]
}
