//! The page cache of a real file. Pages may be evicted at any time, so the cached amount is checked at once.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use crate::cache::{by_mincore, drop_range, drop_range_with, resident_bytes, warm};

const MIB: u64 = 1 << 20;
const SIZE: u64 = 64 * MIB;

/// A directory on a disk: that of this test program. Temporary directories may be in memory.
fn dir() -> tempfile::TempDir {
    tempfile::tempdir_in(std::env::current_exe().unwrap().parent().unwrap()).unwrap()
}

fn file(dir: &Path) -> File {
    let mut file = File::options().read(true).write(true).create_new(true).open(dir.join("file")).unwrap();
    for i in 0..SIZE / MIB {
        file.write_all(&vec![i as u8; MIB as usize]).unwrap();
    }
    file
}

#[test]
fn a_file_goes_out_of_memory_and_comes_back() {
    let dir = dir();
    let file = file(dir.path());
    let resident = resident_bytes(&file, 0..SIZE).unwrap().unwrap();
    assert!(resident > SIZE / 10 * 9, "{resident}");
    let dropped = drop_range(&file, 0..SIZE).unwrap();
    assert!(dropped.resident_after_bytes.unwrap() < SIZE / 100, "{dropped:?}");
    assert!(dropped.remedy.is_none() || dropped.resident_after_bytes != Some(0), "{dropped:?}");
    warm(&file, 0..SIZE).unwrap();
    assert!(resident_bytes(&file, 0..SIZE).unwrap().unwrap() > SIZE / 10 * 9);
}

#[test]
fn both_ways_to_ask_agree_on_parts() {
    let dir = dir();
    let file = file(dir.path());
    drop_range(&file, 0..SIZE).unwrap();
    // Random access, so that nothing is read ahead.
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::Random).unwrap();
    warm(&file, 8 * MIB..12 * MIB).unwrap();
    let ask = |from: u64, to: u64| {
        let told = resident_bytes(&file, from * MIB..to * MIB).unwrap().unwrap();
        let counted = by_mincore(&file, &(from * MIB..to * MIB)).unwrap();
        assert_eq!(told, counted, "{from} to {to} MiB");
        told
    };
    assert_eq!(ask(8, 12), 4 * MIB);
    assert_eq!(ask(16, 64), 0);
    assert_eq!(ask(10, 20), 2 * MIB);
    assert_eq!(resident_bytes(&file, 8 * MIB + 5..8 * MIB + 6).unwrap(), Some(1), "never more than was asked about");
    assert_eq!(resident_bytes(&file, SIZE..SIZE + 9).unwrap(), Some(0), "beyond its end is nothing");
    assert_eq!(drop_range(&file, 9 * MIB..10 * MIB).unwrap().resident_after_bytes, Some(0));
    assert_eq!(ask(8, 12), 3 * MIB);
}

#[test]
fn locked_pages_stay_and_it_is_said() {
    let dir = dir();
    let file = file(dir.path());
    let len = 4 * MIB as usize;
    // SAFETY: a new mapping at an address of the kernel's choice; nothing reads it, and only this test writes the file.
    let map = unsafe {
        let (prot, flags) = (rustix::mm::ProtFlags::READ, rustix::mm::MapFlags::SHARED);
        rustix::mm::mmap(std::ptr::null_mut(), len, prot, flags, &file, 0).unwrap()
    };
    // SAFETY: exactly the mapping.
    unsafe { rustix::mm::mlock(map, len).unwrap() };
    let instead = dir.path().join("drop_caches");
    let dropped = drop_range_with(&file, 0..SIZE, &instead).unwrap();
    let stays = dropped.resident_after_bytes.unwrap();
    assert!((4 * MIB..8 * MIB).contains(&stays), "{dropped:?}");
    let remedy = dropped.remedy.unwrap();
    assert!(remedy.contains("of 64 MiB stay in memory") && remedy.contains("locked"), "{remedy}");
    let is_root = rustix::process::geteuid().is_root();
    assert_eq!(std::fs::read(&instead).is_ok_and(|text| text == b"1"), is_root, "root's last means was tried");
    assert_eq!(remedy.contains("run this as root"), !is_root, "{remedy}");
    // SAFETY: exactly the mapping from above, and nothing refers to it.
    unsafe { rustix::mm::munmap(map, len).unwrap() };
    assert_eq!(drop_range_with(&file, 0..SIZE, &instead).unwrap().resident_after_bytes, Some(0));
}

#[test]
fn memory_has_no_disk_and_direct_reads_warm_nothing() {
    let Ok(shared) = tempfile::tempdir_in("/dev/shm") else { return };
    let path = shared.path().join("file");
    std::fs::write(&path, vec![1; 8192]).unwrap();
    let dropped = drop_range(&File::open(&path).unwrap(), 0..8192).unwrap();
    assert_eq!(dropped.resident_after_bytes, Some(8192));
    assert!(dropped.remedy.unwrap().contains("tmpfs"));
    let dir = dir();
    let path = dir.path().join("file");
    std::fs::write(&path, vec![1; 8192]).unwrap();
    let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::DIRECT;
    if let Ok(direct) = rustix::fs::open(&path, flags, rustix::fs::Mode::empty()) {
        assert_eq!(warm(&direct.into(), 0..8192).unwrap_err().kind(), std::io::ErrorKind::InvalidInput);
    }
    assert!(resident_bytes(&File::open("/dev/null").unwrap(), 0..1).is_err());
}
