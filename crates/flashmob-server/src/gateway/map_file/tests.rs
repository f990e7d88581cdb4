//! Maps on real files: torn, damaged, locked, full, written anew.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use super::*;
use crate::gateway::map_store::COMPACTION_BYTES_MIN;
use crate::gateway::map_writer::{MapDone, MapWriter};
use crate::store::tests::{child_path, in_child_of};
use flashmob_core::copies::{CHUNK_BYTES_MIN, Marks, Member, Record, ReplayError, encode_batch};
use flashmob_core::op::Failure;
use rustix::io::Errno;

/// Chunks of the map in tests.
const CHUNKS: u32 = 6;

fn new_image() -> MapImage {
    let member = |number: u8| Member {
        extent_id: [number; 16],
        boot_id: None,
        seen: None,
        size_bytes: 4 * CHUNK_BYTES_MIN,
        domain: format!("node {number}"),
    };
    let image = MapImage::new([9; 16], CHUNK_BYTES_MIN, 2, (0..3).map(member).collect()).unwrap();
    assert_eq!(image.chunks(), CHUNKS);
    image
}

/// Opens a chunk, and settles it when called the next time for it.
fn change(image: &mut MapImage, chunk: u32) -> Vec<u8> {
    let marks = Marks { is_open: !image.marks(chunk).is_open, ..Marks::default() };
    let record = Record::Marks { first_chunk: chunk, count: 1, marks };
    let mut batch = Vec::new();
    encode_batch(&mut batch, image.version() + 1, std::slice::from_ref(&record)).unwrap();
    image.apply(&record).unwrap();
    batch
}

/// An open map that must be there.
fn opened(path: &Path) -> (MapFile, MapImage) {
    MapFile::open(path).unwrap_or_else(|e| panic!("{e}")).expect("there is a map")
}

fn text(error: MapFileError) -> String {
    error.to_string()
}

/// A folder with a map that has two changes behind its snapshot, and what it was after each.
fn sample() -> (tempfile::TempDir, PathBuf, Vec<MapImage>, Vec<u64>) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool.map");
    let mut image = new_image();
    let mut file = MapFile::create(&path, &image).unwrap();
    let (mut images, mut ends) = (vec![image.clone()], vec![file.end_bytes]);
    for chunk in [1, 4] {
        file.append(&change(&mut image, chunk)).unwrap();
        images.push(image.clone());
        ends.push(file.end_bytes);
    }
    (dir, path, images, ends)
}

#[test]
fn a_map_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool.map");
    assert!(MapFile::open(&path).unwrap().is_none());
    assert!(MapFile::open(&dir.path().join("no/pool.map")).unwrap().is_none());
    let mut image = new_image();
    let file = MapFile::create(&path, &image).unwrap();
    assert_eq!(file.path(), path);
    drop(file);
    for round in 0..3 {
        let (mut file, read) = opened(&path);
        assert_eq!(read, image, "{round}");
        for chunk in 0..CHUNKS {
            file.append(&change(&mut image, chunk)).unwrap();
        }
    }
    let (file, read) = opened(&path);
    assert_eq!((read, file.end_bytes), (image.clone(), fs::metadata(&path).unwrap().len()));
    assert_eq!(file.snapshot_bytes, file.end_bytes, "opening compacts");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no temporary file is left");
}

#[test]
fn a_map_is_never_overwritten() {
    let (dir, path, images, _) = sample();
    let before = fs::read(&path).unwrap();
    let error = MapFile::create(&path, &new_image()).unwrap_err();
    assert!(matches!(error, MapFileError::Exists { .. }) && text(error).contains("pool.map"));
    let link = dir.path().join("link");
    symlink(dir.path().join("gone"), &link).unwrap();
    assert!(matches!(MapFile::create(&link, &new_image()), Err(MapFileError::Exists { .. })));
    assert!(matches!(MapFile::open(&link), Err(MapFileError::DanglingLink { .. })));
    assert_eq!(fs::read(&path).unwrap(), before);
    assert_eq!(opened(&path).1, images[2]);
    // What a crash left of another attempt is no obstacle.
    fs::write(dir.path().join("other.new"), b"half").unwrap();
    drop(MapFile::create(&dir.path().join("other"), &new_image()).unwrap());
    assert_eq!(opened(&dir.path().join("other")).1, new_image());
}

#[test]
fn of_many_that_make_a_map_at_once_one_succeeds() {
    for round in 0..50 {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pool");
        if round % 2 == 0 {
            fs::write(dir.path().join("pool.new"), b"half").unwrap();
        }
        let made: Vec<bool> = std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..4).map(|_| scope.spawn(|| MapFile::create(&path, &new_image()).is_ok())).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(made.iter().filter(|made| **made).count() <= 1, "{made:?}");
        if made.contains(&true) {
            assert_eq!(opened(&path).1, new_image());
        }
    }
}

#[test]
fn a_map_is_its_owners_alone_and_no_link_beside_it_is_followed() {
    let dir = tempfile::tempdir().unwrap();
    let (path, new, other) = (dir.path().join("pool"), dir.path().join("pool.new"), dir.path().join("other"));
    fs::write(&other, b"not ours").unwrap();
    symlink(&other, &new).unwrap();
    let mut map = MapFile::create(&path, &new_image()).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
    assert_eq!((mode(&path), fs::read(&other).unwrap()), (0o600, b"not ours".to_vec()));
    // What is there with more rights keeps none of them.
    fs::write(&new, b"half").unwrap();
    fs::set_permissions(&new, fs::Permissions::from_mode(0o666)).unwrap();
    map.rewrite(&encode_snapshot(&new_image())).unwrap();
    drop(map);
    assert_eq!((mode(&path), opened(&path).1), (0o600, new_image()));
    // One that another process is writing stays.
    let other = MapFile::create(&dir.path().join("busy.new"), &new_image()).unwrap();
    let error = MapFile::create(&dir.path().join("busy"), &new_image()).unwrap_err();
    assert!(matches!(error, MapFileError::Locked { .. }), "{error}");
    drop(other);
    // And so does a folder.
    fs::create_dir(dir.path().join("third.new")).unwrap();
    assert!(MapFile::create(&dir.path().join("third"), &new_image()).is_err());
}

#[test]
fn a_link_to_a_map_stays_a_link() {
    let (dir, path, images, _) = sample();
    let link = dir.path().join("link");
    symlink(&path, &link).unwrap();
    let (mut file, image) = opened(&link);
    assert_eq!(image, images[2]);
    file.rewrite(&encode_snapshot(&image)).unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(matches!(MapFile::open(&path), Err(MapFileError::Locked { .. })));
}

#[test]
fn a_torn_tail_is_cut_off_at_every_byte_of_the_last_batch() {
    let (_dir, path, images, ends) = sample();
    let whole = fs::read(&path).unwrap();
    for cut in ends[0]..=ends[2] {
        fs::write(&path, &whole[..cut as usize]).unwrap();
        let batches = ends.iter().filter(|&&end| end <= cut).count() - 1;
        let (mut file, image) = opened(&path);
        assert_eq!(image, images[batches], "{cut}");
        let mut next = image;
        file.append(&change(&mut next, 5)).unwrap();
        drop(file);
        assert_eq!(opened(&path).1, next, "{cut}");
    }
}

#[test]
fn damage_is_refused_and_left_alone_but_in_the_last_batch() {
    let (_dir, path, images, ends) = sample();
    let whole = fs::read(&path).unwrap();
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x10;
        fs::write(&path, &damaged).unwrap();
        if at as u64 >= ends[1] {
            assert_eq!(opened(&path).1, images[1], "{at}");
            continue;
        }
        let error = MapFile::open(&path).unwrap_err();
        assert!(matches!(error, MapFileError::Damaged { .. }), "{at}");
        let text = text(error);
        let has_remedy = text.contains("recover the map") || text.contains("use the release");
        assert!(text.contains("pool.map") && has_remedy, "{text}");
        assert_eq!(fs::read(&path).unwrap(), damaged, "{at}");
    }
    fs::write(&path, b"").unwrap();
    let error = MapFile::open(&path).unwrap_err();
    assert!(matches!(error, MapFileError::Damaged { source: ReplayError::Empty, .. }));
}

#[test]
fn a_second_gateway_is_refused_until_the_first_has_gone() {
    let (_dir, path, images, _) = sample();
    let (mut file, image) = opened(&path);
    let refused = || text(MapFile::open(&path).unwrap_err());
    let expected = format!(
        "the map {} is in use by another gateway; stop that gateway, or give this volume another map",
        path.display()
    );
    assert_eq!(refused(), expected);
    file.rewrite(&encode_snapshot(&image)).unwrap();
    assert_eq!(refused(), expected, "after it was written anew, too");
    let by_others = std::process::Command::new("flock").arg("-n").arg(&path).arg("true").status().unwrap();
    assert!(!by_others.success(), "another process is kept away, too");
    drop(file);
    assert_eq!(opened(&path).1, images[2]);
}

#[test]
fn a_lock_on_a_file_that_was_replaced_is_not_enough() {
    let (_dir, path, images, _) = sample();
    let (mut file, image) = opened(&path);
    let other = {
        let path = path.clone();
        // It opens the present file, and waits for its lock.
        std::thread::spawn(move || MapFile::open(&path).map(|found| found.map(|(_, image)| image)))
    };
    std::thread::sleep(Duration::from_millis(100));
    file.rewrite(&encode_snapshot(&image)).unwrap();
    assert!(matches!(other.join().unwrap(), Err(MapFileError::Locked { .. })));
    drop(file);
    assert_eq!(opened(&path).1, images[2]);
}

#[test]
fn a_map_that_was_moved_away_takes_nothing_more() {
    let (_dir, path, images, _) = sample();
    let elsewhere = path.with_extension("moved");
    let (mut file, mut image) = opened(&path);
    let mut refusals = |file: &mut MapFile| {
        let refused = [file.append(&change(&mut image, 2)), file.rewrite(&encode_snapshot(&image))];
        refused.map(|result| text(result.unwrap_err()))
    };
    fs::rename(&path, &elsewhere).unwrap();
    for text in refusals(&mut file) {
        assert!(text.contains("was moved, removed or replaced") && text.contains("/proc/"), "{text}");
    }
    assert!(!path.exists(), "no other map begins there");
    fs::copy(&elsewhere, &path).unwrap();
    for text in refusals(&mut file) {
        assert!(text.contains("was moved, removed or replaced"), "a copy is another file: {text}");
    }
    assert_eq!(opened(&path).1, images[2], "and has what was there before");
    fs::rename(&elsewhere, &path).unwrap();
    file.append(&change(&mut images[2].clone(), 3)).unwrap();
}

#[test]
fn compaction_is_wanted_in_time_and_keeps_the_image() {
    let (_dir, path, ..) = sample();
    let (mut file, mut image) = opened(&path);
    let mut appended = 0;
    while !file.wants_compaction() {
        assert!(file.end_bytes <= COMPACTION_BYTES_MIN);
        file.append(&change(&mut image, appended % CHUNKS)).unwrap();
        appended += 1;
    }
    assert!(file.end_bytes > COMPACTION_BYTES_MIN && appended > 1000);
    file.rewrite(&encode_snapshot(&image)).unwrap();
    assert!(!file.wants_compaction() && file.end_bytes < 1000);
    file.append(&change(&mut image, 2)).unwrap();
    drop(file);
    assert_eq!(opened(&path).1, image);
}

#[test]
fn a_larger_map_grows_to_four_snapshots() {
    let (_dir, path, ..) = sample();
    let (mut file, _) = opened(&path);
    for (snapshot_bytes, end_bytes, is_wanted) in
        [(100, 65_536, false), (100, 65_537, true), (1 << 20, 4 << 20, false), (1 << 20, (4 << 20) + 1, true)]
    {
        (file.snapshot_bytes, file.end_bytes) = (snapshot_bytes, end_bytes);
        assert_eq!(file.wants_compaction(), is_wanted, "{snapshot_bytes} {end_bytes}");
    }
}

#[test]
fn after_a_failed_write_or_sync_only_a_new_file_helps() {
    // Writes to /dev/full fail. Those to /dev/null succeed, but it cannot be synced.
    for (device, failure) in [("/dev/full", Failure::NoSpace), ("/dev/null", Failure::Io)] {
        let (_dir, path, images, _) = sample();
        let (mut file, mut image) = opened(&path);
        file.file = OpenOptions::new().write(true).open(device).unwrap();
        let batch = change(&mut image, 3);
        let error = file.append(&batch).unwrap_err();
        assert_eq!(error.failure(), failure, "{error}");
        assert!(text(error).contains("pool.map"));
        assert!(file.is_spent);
        let error = file.append(&batch).unwrap_err();
        assert!(matches!(error, MapFileError::Spent { .. }) && error.failure() == Failure::Io);
        file.rewrite(&encode_snapshot(&image)).unwrap();
        assert!(!file.is_spent);
        file.append(&change(&mut image, 3)).unwrap();
        drop(file);
        let (_, read) = opened(&path);
        assert_eq!(read, image);
        assert_eq!(read.version(), images[2].version() + 2);
    }
}

#[test]
fn a_full_disk_takes_nothing_and_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    // A limit of 8 blocks of 512 bytes on the size of files, with EFBIG instead of a signal.
    let script = "trap '' XFSZ; ulimit -f 8; exec \"$@\"";
    in_child_of("gateway::map_file::tests", script, "child_at_the_limit", &dir.path().join("pool.map"));
}

#[test]
#[ignore = "started by a_full_disk_takes_nothing_and_loses_nothing"]
fn child_at_the_limit() {
    let Some(path) = child_path() else { return };
    let mut image = new_image();
    let mut file = MapFile::create(&path, &image).unwrap();
    let (error, kept) = loop {
        let before = image.clone();
        let batch = change(&mut image, 0);
        match file.append(&batch) {
            Ok(()) => assert!(file.end_bytes <= 4096),
            Err(error) => break (error, before),
        }
    };
    assert!(matches!(error, MapFileError::NoSpace { .. }) && error.failure() == Failure::NoSpace, "{error}");
    assert_eq!(text(error), format!("no space left for the map {}; free some on its file system", path.display()));
    assert_eq!(fs::metadata(&path).unwrap().len(), file.end_bytes, "the part that was written is cut off");
    assert_eq!(replay(&fs::read(&path).unwrap()).unwrap().image, kept);
    // A snapshot that is too large leaves the map as it is.
    assert_eq!(file.rewrite(&[0; 5000]).unwrap_err().failure(), Failure::NoSpace);
    assert_eq!(replay(&fs::read(&path).unwrap()).unwrap().image, kept);
    assert!(file.is_spent && !path.with_extension("map.new").exists());
    file.rewrite(&encode_snapshot(&image)).unwrap();
    file.append(&change(&mut image, 0)).unwrap();
    drop(file);
    assert_eq!(opened(&path).1, image);
}

#[test]
fn a_failed_compaction_does_not_stop_appending() {
    let (dir, path, ..) = sample();
    let (mut file, mut image) = opened(&path);
    // Nothing can be written at this name.
    fs::create_dir(dir.path().join("pool.map.new")).unwrap();
    let error = file.rewrite(&encode_snapshot(&image)).unwrap_err();
    assert!(matches!(error, MapFileError::NotAFile { .. }), "{error}");
    assert!(!file.is_spent);
    file.append(&change(&mut image, 0)).unwrap();
    drop(file);
    fs::remove_dir(dir.path().join("pool.map.new")).unwrap();
    assert_eq!(opened(&path).1, image);
}

#[test]
fn what_is_no_file_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    for path in [dir.path(), Path::new("/dev/null")] {
        let error = MapFile::open(path).unwrap_err();
        assert!(matches!(error, MapFileError::NotAFile { .. }), "{error}");
    }
    let error = MapFile::create(&dir.path().join("no/pool.map"), &new_image()).unwrap_err();
    assert!(matches!(error, MapFileError::ParentMissing { .. }) && text(error).contains("create it first"));
    let path = dir.path().join("huge");
    File::create(&path).unwrap().set_len(FILE_BYTES_MAX + 1).unwrap();
    assert!(matches!(MapFile::open(&path), Err(MapFileError::TooLarge { .. })));
}

#[test]
fn a_folder_without_permission_is_named_with_the_remedy() {
    if rustix::process::geteuid().is_root() {
        // Root may do everything: drop to nobody in a process of its own.
        let dir = tempfile::tempdir_in("/var/tmp").unwrap();
        let path = dir.path().join("pool.map");
        drop(MapFile::create(&path, &new_image()).unwrap());
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        // The test binary may lie where nobody can go: hand it over as an open file.
        let script =
            "exec 9<\"$1\"; shift; exec setpriv --reuid 65534 --regid 65534 --clear-groups /proc/self/fd/9 \"$@\"";
        in_child_of("gateway::map_file::tests", script, "child_without_permission", &path);
    } else {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pool.map");
        drop(MapFile::create(&path, &new_image()).unwrap());
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o555)).unwrap();
        without_permission(&path);
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    }
}

#[test]
#[ignore = "started by a_folder_without_permission_is_named_with_the_remedy"]
fn child_without_permission() {
    if let Some(path) = child_path() {
        without_permission(&path);
    }
}

/// The file may be written, its folder not.
fn without_permission(path: &Path) {
    let other = path.with_file_name("other");
    let error = MapFile::create(&other, &new_image()).unwrap_err();
    assert_eq!(error.failure(), Failure::NotPermitted);
    assert_eq!(
        text(error),
        format!(
            "no permission to open the map {}; run as its owner, or change the owner or mode of it and its directory",
            other.display()
        )
    );
    // A map without changes opens. It only takes no new file.
    let (mut file, mut image) = opened(path);
    file.append(&change(&mut image, 0)).unwrap();
    assert!(matches!(file.rewrite(&encode_snapshot(&image)), Err(MapFileError::Permission { .. })));
    file.append(&change(&mut image, 0)).unwrap();
}

#[test]
fn the_kernels_refusals_become_messages_with_a_remedy() {
    let path = Path::new("/some/map");
    for (errno, remedy, failure) in [
        (Errno::ACCESS, "owner", Failure::NotPermitted),
        (Errno::ROFS, "remount", Failure::NotPermitted),
        (Errno::NOSPC, "free some", Failure::NoSpace),
        (Errno::DQUOT, "free some", Failure::NoSpace),
        (Errno::FBIG, "free some", Failure::NoSpace),
        (Errno::NOENT, "create it", Failure::Io),
        (Errno::IO, "check its file system", Failure::Io),
    ] {
        let error = MapFileError::new("write", path, errno.into());
        assert_eq!(error.failure(), failure, "{error}");
        assert!(text(error).contains(remedy));
    }
}

/// A writer, and what its thread says.
fn writer(file: MapFile) -> (MapWriter, Receiver<()>) {
    let (wake, woken) = channel();
    let wake = move || {
        let _ = wake.send(());
    };
    (MapWriter::start(Box::new(file), wake).unwrap(), woken)
}

/// What is finished, once the writer wakes the loop for it.
fn finished(writer: &mut MapWriter, woken: &Receiver<()>) -> MapDone {
    woken.recv_timeout(Duration::from_secs(60)).expect("woken for every job");
    writer.take_done().expect("woken for something")
}

#[test]
fn a_writer_reports_each_number_once() {
    let (_dir, path, ..) = sample();
    let (file, mut image) = opened(&path);
    let (mut writer, woken) = writer(file);
    for chunk in 0..CHUNKS {
        assert!(writer.take_done().is_none());
        let batch = change(&mut image, chunk);
        writer.append(image.version(), batch);
        assert_eq!(finished(&mut writer, &woken), MapDone { number: image.version(), result: Ok(()) });
        assert_eq!(replay(&fs::read(&path).unwrap()).unwrap().image, image, "it is there when it is reported");
    }
    writer.rewrite(image.version(), encode_snapshot(&image));
    assert_eq!(finished(&mut writer, &woken), MapDone { number: image.version(), result: Ok(()) });
    // Dropped with something under way, it finishes that, and only then gives up the lock.
    let batch = change(&mut image, 0);
    writer.append(image.version(), batch);
    drop(writer);
    assert_eq!(opened(&path).1, image);
}

#[test]
fn a_writer_tells_when_a_snapshot_is_due() {
    let (_dir, path, ..) = sample();
    let (mut file, mut image) = opened(&path);
    file.file = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let (mut writer, woken) = writer(file);
    assert!(!writer.wants_compaction());
    let batch = change(&mut image, 0);
    writer.append(image.version(), batch);
    let MapDone { number, result } = finished(&mut writer, &woken);
    let failure = result.unwrap_err();
    assert_eq!((number, failure.failure), (image.version(), Failure::NoSpace));
    assert!(failure.text.contains("pool.map"), "{}", failure.text);
    assert_eq!(writer.trouble(), Some(&*failure.text));
    writer.rewrite(image.version(), encode_snapshot(&image));
    assert_eq!(writer.trouble(), Some(&*failure.text), "until it is known to be written");
    assert_eq!(finished(&mut writer, &woken).result, Ok(()));
    assert_eq!(writer.trouble(), None);
    while !writer.wants_compaction() {
        let mut batch = Vec::new();
        while batch.len() < 10_000 {
            batch.extend(change(&mut image, 0));
        }
        writer.append(image.version(), batch);
        assert_eq!(finished(&mut writer, &woken).result, Ok(()));
    }
    drop(writer);
    assert_eq!(opened(&path).1, image);
}

#[test]
#[should_panic(expected = "one batch at a time")]
fn a_writer_takes_one_job_at_a_time() {
    let (_dir, path, ..) = sample();
    let (file, mut image) = opened(&path);
    let (mut writer, _woken) = writer(file);
    for chunk in 0..2 {
        let batch = change(&mut image, chunk);
        writer.append(image.version(), batch);
    }
}
