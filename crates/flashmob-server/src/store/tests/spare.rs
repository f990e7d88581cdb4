//! Spares: the room of one file for the next, whatever an earlier process has left of them.

use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;

/// Text of as many bytes as a small file has.
fn small(letter: char) -> Vec<u8> {
    letter.to_string().repeat(SMALL_BYTES).into_bytes()
}

fn inode(path: &Path) -> u64 {
    fs::symlink_metadata(path).unwrap().ino()
}

/// A folder with a small file that was changed, and so has a spare.
fn with_spare() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x");
    exchange(&path, &small('a')).unwrap();
    let spare = spare_path(&path);
    assert_eq!((fs::read(&path).unwrap(), fs::read(&spare).unwrap()), (small('a'), small('a')));
    (dir, path, spare)
}

#[test]
fn a_small_file_and_its_spare_are_two_files_for_ever() {
    let (dir, path, spare) = with_spare();
    let mut inodes = [inode(&path), inode(&spare)];
    for letter in ['b', 'c', 'd'] {
        exchange(&path, &small(letter)).unwrap();
        inodes.reverse();
        assert_eq!([inode(&path), inode(&spare)], inodes, "no file is made");
        assert_eq!(fs::read(&path).unwrap(), small(letter));
    }
    assert_eq!(fs::read(&spare).unwrap(), small('c'));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    // One of another size is made anew, and so is its spare.
    exchange(&path, b"short").unwrap();
    assert_eq!((fs::read(&path).unwrap(), fs::read(&spare).unwrap()), (b"short".to_vec(), b"short".to_vec()));
}

#[test]
fn what_a_spare_has_counts_for_nothing_at_whichever_byte_it_was_torn() {
    let (_dir, path, spare) = with_spare();
    for cut in [0, 1, 511, 512, 4095, 4096] {
        let torn = [&small('b')[..cut], &small('a')[cut..]].concat();
        fs::write(&spare, torn).unwrap();
        assert_eq!(fs::read(&path).unwrap(), small('a'));
        let before = inode(&spare);
        exchange(&path, &small('a')).unwrap();
        assert_eq!((inode(&path), fs::read(&path).unwrap()), (before, small('a')), "{cut}");
    }
}

#[test]
fn somebody_elses_file_is_no_spare() {
    let (dir, path, spare) = with_spare();
    let other = dir.path().join("other");
    let plants: [&dyn Fn(); 4] = [
        &|| symlink(&other, &spare).unwrap(),
        &|| fs::hard_link(&other, &spare).unwrap(),
        &|| {
            fs::write(&spare, small('z')).unwrap();
            fs::set_permissions(&spare, fs::Permissions::from_mode(0o620)).unwrap();
        },
        &|| rustix::fs::mknodat(CWD, &spare, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap(),
    ];
    for (plant, letter) in plants.into_iter().zip('b'..) {
        fs::write(&other, small('o')).unwrap();
        fs::set_permissions(&other, fs::Permissions::from_mode(0o600)).unwrap();
        fs::remove_file(&spare).unwrap();
        plant();
        exchange(&path, &small(letter)).unwrap();
        assert_eq!((fs::read(&path).unwrap(), fs::read(&other).unwrap()), (small(letter), small('o')));
        assert!(is_spare(&open(&path).unwrap(), &path) && is_spare(&open(&spare).unwrap(), &spare), "{letter}");
    }
    // A folder stays, and nothing is changed.
    fs::remove_file(&spare).unwrap();
    fs::create_dir(&spare).unwrap();
    exchange(&path, &small('x')).unwrap_err();
    assert_eq!(fs::read(&path).unwrap(), small('e'));
}

#[test]
fn a_spare_for_a_file_that_grows_is_empty_and_keeps_its_blocks() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x");
    assert!(take(&path).is_none());
    keep(&path, 64 * 1024).unwrap();
    let spare = spare_path(&path);
    let room = |spare: &Path| fs::metadata(spare).map(|m| (m.len(), m.blocks() * 512 >= 64 * 1024)).unwrap();
    assert_eq!(room(&spare), (0, true));
    let before = inode(&spare);
    keep(&path, 64 * 1024).unwrap();
    assert_eq!((inode(&spare), room(&spare)), (before, (0, true)));
    // Its process was killed while it wrote there.
    fs::write(&spare, b"half of it").unwrap();
    reserve(&open(&spare).unwrap(), 64 * 1024).unwrap();
    let taken = take(&path).unwrap();
    assert_eq!((inode(&spare), room(&spare)), (before, (0, true)));
    drop(taken);
    fs::set_permissions(&spare, fs::Permissions::from_mode(0o644)).unwrap();
    assert!(take(&path).is_none(), "others may have it open");
    keep(&path, 4096).unwrap();
    assert!(take(&path).is_some());
}
