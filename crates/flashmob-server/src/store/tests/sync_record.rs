//! The record of failed syncs: what the next process finds, whichever places can be written.

use super::*;
use proptest::prelude::*;

const BOOT: Option<[u8; 16]> = Some([7; 16]);
const START: [u8; 16] = [9; 16];

/// Places in two directories, and the directories.
fn places() -> (Vec<PathBuf>, [tempfile::TempDir; 2]) {
    let dirs = [0, 1].map(|_| tempfile::tempdir().unwrap());
    (dirs.iter().map(|dir| dir.path().join("x.syncs")).collect(), dirs)
}

#[test]
fn the_next_process_of_one_start_knows_and_that_of_another_does_not() {
    let (places, _dirs) = places();
    let first = SyncRecord::load(BOOT, places.clone());
    assert_eq!(first.known(), FailedSyncs { boot_id: BOOT, failed: 0, dropped: 0 });
    assert!(places.iter().all(|place| !place.exists()), "nothing is written while nothing fails");
    first.note_failure();
    let second = SyncRecord::load(BOOT, places.clone());
    assert!(second.known().must_drop());
    assert_ne!(second.known().shown_boot_id(START), START);
    second.note_dropped();
    let third = SyncRecord::load(BOOT, places.clone());
    assert!(!third.known().must_drop());
    assert_eq!(third.known().shown_boot_id(START), second.known().shown_boot_id(START));
    let restarted = SyncRecord::load(Some([8; 16]), places.clone());
    assert_eq!(restarted.known().failed, 0);
    assert!(places.iter().all(|place| !place.exists()), "it is over");
}

#[test]
fn one_place_is_enough_and_none_is_told() {
    for missing in 0..3 {
        let (places, dirs) = places();
        // The others are removed.
        let kept: Vec<_> = dirs.into_iter().zip(0..).filter(|(_, at)| missing < 2 && *at != missing).collect();
        let record = SyncRecord::load(BOOT, places.clone());
        record.note_failure();
        assert_eq!(record.trouble().is_some(), kept.is_empty(), "without {missing}: {:?}", record.trouble());
        assert_eq!(SyncRecord::load(BOOT, places).known().must_drop(), !kept.is_empty());
    }
}

#[test]
fn a_spare_file_takes_what_no_new_file_can_be_written_for() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("missing/x.syncs");
    let places = RecordPlaces {
        in_memory: vec![missing.clone()],
        beside: vec![missing],
        spare: Some(dir.path().join("x.spare")),
    };
    let spare = places.spare.clone().unwrap();
    let first = SyncRecord::load(BOOT, places.clone());
    let inode = || std::fs::metadata(&spare).map(|metadata| (metadata.ino(), metadata.len())).unwrap();
    let made = inode();
    assert_eq!((first.known().failed, made.1), (0, SPARE_BYTES as u64));
    first.note_failure();
    assert_eq!(first.trouble(), None);
    let second = SyncRecord::load(BOOT, places.clone());
    assert!(second.known().must_drop());
    second.note_dropped();
    let third = SyncRecord::load(BOOT, places.clone());
    assert_eq!((third.known().failed, third.known().must_drop()), (1, false));
    assert_eq!(SyncRecord::load(Some([8; 16]), places.clone()).known().failed, 0, "of another boot");
    let last = SyncRecord::load(Some([8; 16]), places.clone());
    last.note_failure();
    assert_eq!(SyncRecord::load(Some([8; 16]), places).known().failed, 1);
    assert_eq!(inode(), made, "it is written over, without another block");
}

#[test]
fn every_directory_in_memory_that_takes_the_record_has_it() {
    let dir = tempfile::tempdir().unwrap();
    let in_memory = ["missing/x", "x", "y"].map(|name| dir.path().join(name)).to_vec();
    let places = RecordPlaces { in_memory: in_memory.clone(), ..RecordPlaces::default() };
    SyncRecord::load(BOOT, places.clone()).note_failure();
    assert_eq!(in_memory.iter().map(|place| place.exists()).collect::<Vec<_>>(), [false, true, true]);
    assert!(SyncRecord::load(BOOT, places).known().must_drop());
}

#[test]
fn a_link_in_a_directory_of_all_users_is_not_followed() {
    let dir = tempfile::tempdir().unwrap();
    let [place, other] = ["x", "other"].map(|name| dir.path().join(name));
    let places = RecordPlaces { in_memory: vec![place.clone()], ..RecordPlaces::default() };
    std::fs::write(&other, "not ours").unwrap();
    std::os::unix::fs::symlink(&other, &place).unwrap();
    SyncRecord::load(BOOT, places.clone()).note_failure();
    assert_eq!(std::fs::read(&other).unwrap(), b"not ours");
    assert!(SyncRecord::load(BOOT, places).known().must_drop());
}

proptest! {
    #[test]
    fn spare_files_have_one_size(boot_id: Option<[u8; 16]>, failed in 0..=i64::MAX as u64, dropped in 0u64..3) {
        let known = FailedSyncs { boot_id, failed, dropped: failed.min(dropped) };
        let text = encode_spare(&known).unwrap();
        prop_assert_eq!((text.len(), parse(text.as_bytes())), (SPARE_BYTES, Ok(known)));
    }
}

#[test]
fn a_place_that_could_not_be_written_does_not_undo_the_other() {
    let (places, _dirs) = places();
    let first = SyncRecord::load(BOOT, places.clone());
    first.note_failure();
    let old = std::fs::read(&places[1]).unwrap();
    first.note_dropped();
    std::fs::write(&places[1], &old).unwrap();
    assert!(!SyncRecord::load(BOOT, places.clone()).known().must_drop());
    SyncRecord::load(BOOT, places.clone()).note_failure();
    std::fs::write(&places[1], &old).unwrap();
    let last = SyncRecord::load(BOOT, places).known();
    assert_eq!((last.failed, last.must_drop()), (2, true));
}

#[test]
fn a_damaged_record_counts_as_a_failure_that_nobody_has_seen() {
    let (places, _dirs) = places();
    let first = SyncRecord::load(BOOT, places.clone());
    first.note_failure();
    let mut shown = vec![first.known().shown_boot_id(START)];
    for cut in [0, 10, 60] {
        let text = std::fs::read(&places[0]).unwrap();
        places.iter().for_each(|place| std::fs::write(place, &text[..cut]).unwrap());
        let record = SyncRecord::load(BOOT, places.clone());
        assert!(record.known().must_drop());
        assert!(!shown.contains(&record.known().shown_boot_id(START)));
        shown.push(record.known().shown_boot_id(START));
        record.note_dropped();
        let again = SyncRecord::load(BOOT, places.clone()).known();
        assert_eq!((again.must_drop(), Some(&again.shown_boot_id(START))), (false, shown.last()));
    }
}

#[test]
fn a_record_is_refused_above_its_size_and_of_another_version() {
    let good = encode(&FailedSyncs { boot_id: BOOT, failed: 1, dropped: 1 }).unwrap();
    assert!(parse(good.as_bytes()).is_ok());
    let body = |version: u32, rest: &str| seal(format!("version = {version}\n{rest}"));
    for (text, is_good) in [
        (body(1, "failed = 2\ndropped = 1\n"), true),
        (body(2, "failed = 2\ndropped = 1\n"), false),
        (body(1, "failed = 2\ndropped = 3\n"), false),
        (body(1, "failed = -1\ndropped = 0\n"), false),
        (body(1, "failed = 2\ndropped = 1\nmore = 1\n"), false),
        (body(1, "boot_id = \"xyz\"\nfailed = 2\ndropped = 1\n"), false),
    ] {
        assert_eq!(parse(text.as_bytes()).is_ok(), is_good, "{text}");
    }
    for (len, is_good) in [(4095, true), (4096, true), (4097, false)] {
        let text = |comment: usize| seal(format!("failed = 2\nversion = 1\ndropped = 1\n#{}\n", "x".repeat(comment)));
        let padding = len - text(0).len();
        assert_eq!(text(padding).len(), len);
        assert_eq!(parse(text(padding).as_bytes()).is_ok(), is_good, "{len}");
    }
}

proptest! {
    #[test]
    fn records_round_trip(boot_id: Option<[u8; 16]>, failed in 0..=i64::MAX as u64, not_dropped in 0u64..3) {
        let known = FailedSyncs { boot_id, failed, dropped: failed.saturating_sub(not_dropped) };
        prop_assert_eq!(parse(encode(&known).unwrap().as_bytes()), Ok(known));
    }

    #[test]
    fn garbage_and_damage_are_refused(garbage in prop::collection::vec(any::<u8>(), 0..200), at in any::<prop::sample::Index>(), flip in 1u8..) {
        prop_assert!(parse(&garbage).is_err());
        let mut text = encode(&FailedSyncs { boot_id: BOOT, failed: 3, dropped: 2 }).unwrap().into_bytes();
        let at = at.index(text.len());
        text[at] ^= flip;
        prop_assert!(parse(&text).is_err());
    }
}
