//! Files that shrink, disks that fill up.

use super::*;
use std::fs::OpenOptions;

const SIZE_BYTES: u64 = 1 << 20;

fn truncate(path: &Path, size_bytes: u64) {
    OpenOptions::new().write(true).open(path).unwrap().set_len(size_bytes).unwrap();
}

/// A store full of bytes, whose file is then cut to `size_bytes`.
fn truncated(dir: &Path, variant: Variant, size_bytes: u64) -> Rig {
    let path = dir.join("data");
    let mut rig = Rig::open(config(&path, SIZE_BYTES, variant));
    rig.result(with(OpFlags::FUA, write(1, 0, pattern(0, SIZE_BYTES as usize)))).unwrap();
    truncate(&path, size_bytes);
    rig
}

fn assert_damaged(rig: &mut Rig, variant: Variant) {
    assert!(rig.store.is_damaged(), "{variant:?}");
    assert_eq!(rig.store.try_read(0, &mut [0; 16]), TryRead::Failed(Failure::Io), "{variant:?}");
    for op in [
        read(1, 0, 16),
        write(1, 0, vec![1; 16]),
        bare(Op::Flush, 0, 0),
        bare(Op::Trim, 0, 4096),
        bare(Op::WriteZeroes, 0, 4096),
    ] {
        assert_eq!(rig.result(op.clone()), Err(Failure::Io), "{variant:?} {op:?}");
    }
}

#[test]
fn a_read_behind_the_end_of_a_truncated_file_is_an_error_and_never_zeros() {
    for cut in [0, 1, 4096, 500_001, SIZE_BYTES - 1] {
        for variant in variants() {
            let dir = tempfile::tempdir().unwrap();
            let mut rig = truncated(dir.path(), variant, cut);
            for (offset, len) in [(cut, 1), (cut.saturating_sub(10), 11), (0, SIZE_BYTES as usize)] {
                assert_ne!(rig.store.try_read(offset, &mut vec![0; len]), TryRead::Hit, "{variant:?} {cut}");
                assert_eq!(rig.read(offset, len), Err(Failure::Io), "{variant:?} {cut} {offset}");
            }
            assert_damaged(&mut rig, variant);
        }
    }
}

#[test]
fn nothing_makes_a_truncated_file_grow_again() {
    for variant in variants() {
        for op in [
            write(1, SIZE_BYTES - 4096, vec![1; 4096]),
            with(OpFlags::FUA, write(1, SIZE_BYTES - 10, vec![1; 10])),
            write(1, 0, vec![1; 10]),
            bare(Op::Flush, 0, 0),
            bare(Op::Trim, 0, 4096),
            bare(Op::WriteZeroes, 0, SIZE_BYTES as u32),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let mut rig = truncated(dir.path(), variant, 8192);
            assert_eq!(rig.result(op.clone()), Err(Failure::Io), "{variant:?} {op:?}");
            assert_damaged(&mut rig, variant);
            assert_eq!(std::fs::metadata(dir.path().join("data")).unwrap().len(), 8192, "{variant:?} {op:?}");
        }
    }
}

#[test]
fn bytes_before_the_cut_are_right_until_it_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let mut rig = truncated(dir.path(), (Engine::Threads, false), 8192);
    assert_eq!(rig.read(0, 8192).unwrap(), pattern(0, 8192));
    assert_eq!(rig.read(0, 8193), Err(Failure::Io));
    assert_eq!(rig.read(0, 1), Err(Failure::Io));
}

#[test]
fn a_damaged_store_stays_so_until_it_is_opened_again() {
    for variant in variants() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("data");
        let mut rig = truncated(dir.path(), variant, 8192);
        assert_eq!(rig.result(bare(Op::Flush, 0, 0)), Err(Failure::Io));
        truncate(&path, SIZE_BYTES);
        assert_damaged(&mut rig, variant);
        drop(rig);
        std::fs::write(&path, pattern(0, SIZE_BYTES as usize)).unwrap();
        let mut rig = Rig::open(config(&path, SIZE_BYTES, variant));
        assert_eq!(rig.read(SIZE_BYTES - 9, 9).unwrap(), pattern(0, SIZE_BYTES as usize)[SIZE_BYTES as usize - 9..]);
    }
}

#[test]
fn a_full_disk_fails_writes_and_only_those() {
    for variant in variants() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("data");
        std::fs::File::create(&path).unwrap().set_len(SIZE_BYTES * 4).unwrap();
        let name = match variant {
            (Engine::Threads, false) => "faults::child_threads_at_the_limit",
            (Engine::Threads, true) => "faults::child_threads_direct_at_the_limit",
            (Engine::IoUring, false) => "faults::child_ring_at_the_limit",
            (Engine::IoUring, true) => "faults::child_ring_direct_at_the_limit",
        };
        // A limit of 2,048 blocks of 512 bytes on the size of files, with EFBIG instead of a signal.
        in_child("trap '' XFSZ; ulimit -f 2048; exec \"$@\"", name, &path);
    }
}

/// In a process that may not write behind the first MiB of a file.
fn at_the_limit(variant: Variant) {
    let Some(path) = child_path() else { return };
    let mut rig = Rig::open(config(&path, SIZE_BYTES * 4, variant));
    for flags in [OpFlags::NONE, OpFlags::FUA] {
        assert_eq!(rig.result(with(flags, write(1, SIZE_BYTES - 4096, vec![5; 4096]))), Ok(()), "at the limit");
        assert_eq!(rig.result(with(flags, write(1, SIZE_BYTES * 2, vec![6; 4096]))), Err(Failure::NoSpace));
        assert_eq!(rig.result(with(flags, write(1, SIZE_BYTES - 4096, vec![5; 8192]))), Err(Failure::NoSpace));
    }
    assert_eq!(rig.read(SIZE_BYTES - 4096, 4096).unwrap(), vec![5; 4096]);
    assert_eq!(rig.read(SIZE_BYTES * 2, 4096).unwrap(), vec![0; 4096]);
    assert_eq!(rig.result(bare(Op::Flush, 0, 0)), Ok(()));
    assert!(!rig.store.is_damaged());
}

#[test]
#[ignore = "started by a_full_disk_fails_writes_and_only_those"]
fn child_threads_at_the_limit() {
    at_the_limit((Engine::Threads, false));
}

#[test]
#[ignore = "started by a_full_disk_fails_writes_and_only_those"]
fn child_threads_direct_at_the_limit() {
    at_the_limit((Engine::Threads, true));
}

#[test]
#[ignore = "started by a_full_disk_fails_writes_and_only_those"]
fn child_ring_at_the_limit() {
    at_the_limit((Engine::IoUring, false));
}

#[test]
#[ignore = "started by a_full_disk_fails_writes_and_only_those"]
fn child_ring_direct_at_the_limit() {
    at_the_limit((Engine::IoUring, true));
}
