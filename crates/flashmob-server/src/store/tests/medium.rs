//! What errors of the kernel do to a medium: they are hard to bring about from outside.

use super::*;
use std::fs::OpenOptions;

use flashmob_core::wire::map::put_all_data;

use crate::store::permanent::Permanent;

const SIZE_BYTES: u64 = 1 << 20;

fn open(path: &Path) -> File {
    OpenOptions::new().read(true).write(true).open(path).unwrap()
}

/// A medium on /dev/full: the kernel answers each write to it with ENOSPC, and fdatasync with EINVAL.
fn full_medium() -> Medium {
    let path = Path::new("/dev/full");
    let (file, durable) = (open(path), open(path));
    let opened = Opened {
        file,
        durable,
        size_bytes: SIZE_BYTES,
        is_device: true,
        align_bytes: 1,
        hole_align_bytes: 1,
        tells_holes: false,
        permanent: Permanent::default(),
    };
    Medium::new(path, opened)
}

fn run(medium: &Medium, op: Op, flags: OpFlags, len_bytes: u32) -> Result<(), Failure> {
    let data = if matches!(op, Op::Read | Op::Write) { vec![7; len_bytes as usize] } else { Vec::new() };
    let mut op = StoreOp { id: 0, op, flags, offset_bytes: 0, len_bytes, data };
    medium.execute(&mut op, &mut Bounce::new(1))
}

#[test]
fn want_of_space_fails_writes_durable_ones_too_and_spoils_nothing() {
    let medium = full_medium();
    for flags in [OpFlags::NONE, OpFlags::FUA] {
        assert_eq!(run(&medium, Op::Write, flags, 4096), Err(Failure::NoSpace));
    }
    assert_eq!(
        run(&medium, Op::WriteZeroes, OpFlags::NO_HOLE, 200_000),
        Err(Failure::NoSpace),
        "falls back to writing"
    );
    assert!(!medium.sync_failed.load(Ordering::Relaxed) && !medium.is_damaged());
    assert_eq!(run(&medium, Op::Trim, OpFlags::NONE, 200_000), Ok(()), "advice that cannot be followed");
}

#[test]
fn a_failed_flush_stays_failed_even_if_the_kernel_has_forgotten() {
    let mut medium = full_medium();
    assert_eq!(run(&medium, Op::Flush, OpFlags::NONE, 0), Err(Failure::Io));
    let good = tempfile::NamedTempFile::new().unwrap();
    good.as_file().set_len(SIZE_BYTES).unwrap();
    (medium.opened.file, medium.opened.durable) = (open(good.path()), open(good.path()));
    assert_eq!(rustix::fs::fdatasync(&medium.opened.file), Ok(()));
    for (op, flags, expected) in [
        (Op::Flush, OpFlags::NONE, Err(Failure::Io)),
        (Op::Write, OpFlags::FUA, Err(Failure::Io)),
        (Op::Trim, OpFlags::FUA, Err(Failure::Io)),
        (Op::WriteZeroes, OpFlags::FUA, Err(Failure::Io)),
        (Op::Write, OpFlags::NONE, Ok(())),
        (Op::Read, OpFlags::NONE, Ok(())),
        (Op::Read, OpFlags::FUA, Ok(())),
    ] {
        assert_eq!(run(&medium, op, flags, 512), expected, "{op:?} {flags:?}");
    }
}

#[test]
fn a_failed_flush_is_recorded_once_before_it_is_answered() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("x.syncs");
    let record = || SyncRecord::load(Some([7; 16]), vec![place.clone()]);
    let medium = full_medium();
    medium.record_with(record());
    assert_eq!(run(&medium, Op::Write, OpFlags::NONE, 4096), Err(Failure::NoSpace));
    assert!(!place.exists() && medium.sync_trouble().is_none(), "want of space is no failed flush");
    for _ in 0..2 {
        assert_eq!(run(&medium, Op::Flush, OpFlags::NONE, 0), Err(Failure::Io));
        assert_eq!(record().known().failed, 1);
    }
    assert!(medium.sync_trouble().is_some_and(|text| !text.contains("whole device")));
    std::fs::remove_dir_all(dir.path()).unwrap();
    let medium = full_medium();
    medium.record_with(record());
    assert_eq!(run(&medium, Op::Flush, OpFlags::NONE, 0), Err(Failure::Io));
    assert!(medium.sync_trouble().is_some_and(|text| text.contains("restart the whole device")));
}

#[test]
fn a_device_error_on_a_durable_write_counts_as_a_failed_flush() {
    let medium = full_medium();
    assert_eq!(medium.durable_failed(Errno::FBIG), Some(Failure::NoSpace));
    assert_eq!(medium.durable_failed(Errno::NOSPC), None);
    assert!(medium.writes_durably() && !medium.sync_failed.load(Ordering::Relaxed));
    assert_eq!(medium.durable_failed(Errno::OPNOTSUPP), None);
    assert!(!medium.writes_durably());
    assert_eq!(medium.durable_failed(Errno::IO), Some(Failure::Io));
    assert_eq!(run(&medium, Op::Flush, OpFlags::NONE, 0), Err(Failure::Io));
}

#[test]
fn durable_writes_reach_the_file_without_the_one_call_too() {
    let mut medium = full_medium();
    let good = tempfile::NamedTempFile::new().unwrap();
    good.as_file().set_len(SIZE_BYTES).unwrap();
    (medium.opened.file, medium.opened.durable) = (open(good.path()), open(good.path()));
    medium.durable_missing.store(true, Ordering::Relaxed);
    assert_eq!(run(&medium, Op::Write, OpFlags::FUA, 3000), Ok(()));
    assert_eq!(std::fs::read(good.path()).unwrap()[..3001], [&[7; 3000][..], &[0]].concat());
}

#[test]
fn a_kernel_without_nowait_is_asked_once_and_then_always_misses() {
    let medium = full_medium();
    medium.nowait_missing.store(true, Ordering::Relaxed);
    let mut buf = [1; 16];
    assert_eq!(medium.read_cached(0, &mut [IoSliceMut::new(&mut buf)]), TryRead::Miss);
    assert_eq!(buf, [1; 16]);
}

#[test]
fn holes_are_shrunk_to_whole_blocks() {
    let mut medium = full_medium();
    medium.opened.hole_align_bytes = 4096;
    for (offset, len, expected) in [
        (0, 4096, (0, 4096)),
        (1, 4096, (4096, 4096)),
        (1, 8191, (4096, 8192)),
        (4095, 4098, (4096, 8192)),
        (4096, 4095, (4096, 4096)),
        (100, 50, (150, 150)),
        (8192, 0, (8192, 8192)),
    ] {
        assert_eq!(medium.hole_within(offset, len), expected, "{offset} {len}");
    }
}

#[test]
fn a_medium_that_cannot_tell_its_holes_is_all_data() {
    let mut all = vec![9; MAP_BYTES];
    put_all_data(&mut all, 200_000);
    let data = vec![9; MAP_BYTES];
    let mut op = StoreOp { id: 0, op: Op::Map, flags: OpFlags::NONE, offset_bytes: 0, len_bytes: 200_000, data };
    assert_eq!(full_medium().execute(&mut op, &mut Bounce::new(1)), Ok(()));
    assert_eq!(op.data, all);
}
