//! Block devices, and disks that are really full. All of it needs root and loop devices, so it is ignored unless asked
//! for: `cargo test -p flashmob store -- --ignored`.

use super::*;
use std::process::Command;

const SIZE_BYTES: u64 = 16 << 20;

/// A command that must succeed; its output without the newline.
fn shell(script: &str) -> String {
    let output = Command::new("sh").args(["-ec", script]).output().unwrap();
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_string()
}

/// A loop device, until it is dropped.
struct Loop(PathBuf);

impl Loop {
    fn over(file: &Path) -> Loop {
        Loop(shell(&format!("losetup -f --show {}", file.display())).into())
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("-d").arg(&self.0).status();
    }
}

#[test]
#[ignore = "needs root and a loop device"]
fn a_block_device_holds_an_extent() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("image");
    std::fs::File::create(&file).unwrap().set_len(SIZE_BYTES).unwrap();
    let device = Loop::over(&file);
    for variant in variants() {
        for size in [None, Some(SIZE_BYTES), Some(SIZE_BYTES - 4096)] {
            let mut rig = Rig::open(StoreConfig { size_bytes: size, ..config(&device.0, 0, variant) });
            let size = size.unwrap_or(SIZE_BYTES);
            assert_eq!(rig.store.size_bytes(), size);
            let mut model = pattern(size, 1 << 20);
            rig.result(with(OpFlags::FUA, write(1, 0, model.clone()))).unwrap();
            rig.result(write(1, size - 3, vec![4; 3])).unwrap();
            for (op, offset, len) in [
                (with(OpFlags::NO_HOLE, bare(Op::WriteZeroes, 1001, 100_000)), 1001, 100_000),
                (bare(Op::WriteZeroes, 200_001, 100_000), 200_001, 100_000),
                (bare(Op::WriteZeroes, 400_001, 5), 400_001, 5),
            ] {
                rig.result(op).unwrap();
                model[offset..offset + len].fill(0);
            }
            rig.result(bare(Op::Trim, 500_001, 100)).unwrap();
            assert_eq!(rig.read(0, 1 << 20).unwrap(), model, "{variant:?}");
            rig.result(bare(Op::Trim, 600_001, 100_000)).unwrap();
            assert_eq!(rig.read(0, 600_001).unwrap(), model[..600_001], "{variant:?}");
            assert_eq!(rig.read(700_001, 300_000).unwrap(), model[700_001..1_000_001], "{variant:?}");
            assert_eq!(rig.read(size - 3, 3).unwrap(), [4; 3]);
            assert_eq!(rig.result(bare(Op::Flush, 0, 0)), Ok(()));
            assert_eq!(rig.result(write(1, size - 3, vec![4; 4])), Err(Failure::Invalid));
        }
    }
    let refused =
        |size| Store::open(config(&device.0, size, (Engine::Threads, false)), Instant::now(), || {}).unwrap_err();
    assert!(matches!(refused(SIZE_BYTES + 1), StoreError::DeviceTooSmall { .. }));
    let store = Rig::open(config(&device.0, SIZE_BYTES, (Engine::Threads, false)));
    assert!(matches!(refused(SIZE_BYTES), StoreError::Locked { .. }));
    drop(store);
    let mount = dir.path().join("mount");
    let (device_name, mount_name) = (device.0.display(), mount.display());
    shell(&format!("mkfs.ext4 -q {device_name}; mkdir {mount_name}; mount {device_name} {mount_name}"));
    let error = refused(SIZE_BYTES);
    shell(&format!("umount {mount_name}"));
    assert!(matches!(error, StoreError::DeviceInUse { .. }), "{error}");
    let sidecar = super::super::identity::sidecar_path(&device.0, Some(Path::new("/state")));
    assert_eq!(sidecar, Path::new("/state").join(device.0.file_name().unwrap()).with_extension("flashmob"));
}

const MOUNT_AND_RUN: &str =
    "exec unshare -m sh -ec 'mount -t tmpfs -o size=4m none \"$FLASHMOB_TEST_CHILD_PATH\"; exec \"$@\"' sh \"$@\"";

#[test]
#[ignore = "needs root to mount a small file system"]
fn a_really_full_file_system_fails_writes_and_recovers() {
    let dir = tempfile::tempdir().unwrap();
    in_child(MOUNT_AND_RUN, "devices::child_on_a_small_file_system", dir.path());
}

#[test]
#[ignore = "started by a_really_full_file_system_fails_writes_and_recovers"]
fn child_on_a_small_file_system() {
    let Some(dir) = child_path() else { return };
    for (engine, _) in variants() {
        let path = dir.join("data");
        let mut rig = Rig::open(config(&path, SIZE_BYTES, (engine, false)));
        let chunk = |i: u64| pattern(i, 1 << 20);
        let results: Vec<_> = (0..8).map(|i| rig.result(with(OpFlags::FUA, write(1, i << 20, chunk(i))))).collect();
        assert_eq!(results[..3], [Ok(()); 3]);
        assert_eq!(results[4..], [Err(Failure::NoSpace); 4]);
        assert_eq!(rig.result(bare(Op::Flush, 0, 0)), Ok(()), "nothing acknowledged was lost");
        for i in 0..3 {
            assert_eq!(rig.read(i << 20, 1 << 20).unwrap(), chunk(i));
        }
        assert_eq!(rig.result(with(OpFlags::NO_HOLE, bare(Op::WriteZeroes, 8 << 20, 1 << 20))), Err(Failure::NoSpace));
        assert_eq!(rig.result(bare(Op::Trim, 0, SIZE_BYTES as u32)), Ok(()));
        assert_eq!(rig.result(with(OpFlags::FUA, write(1, 8 << 20, chunk(8)))), Ok(()), "space was given back");
        drop(rig);
        std::fs::remove_file(path).unwrap();
    }
}

#[test]
#[ignore = "needs root and a loop device on a small file system"]
fn a_device_that_loses_writes_fails_the_flush_until_it_is_opened_again() {
    let dir = tempfile::tempdir().unwrap();
    in_child(MOUNT_AND_RUN, "devices::child_on_a_device_that_loses_writes", dir.path());
}

#[test]
#[ignore = "started by a_device_that_loses_writes_fails_the_flush_until_it_is_opened_again"]
fn child_on_a_device_that_loses_writes() {
    let Some(dir) = child_path() else { return };
    let file = dir.join("image");
    for durable in [false, true] {
        for (engine, _) in variants().into_iter().filter(|&(_, direct)| !direct) {
            std::fs::File::create(&file).unwrap().set_len(SIZE_BYTES).unwrap();
            let device = Loop::over(&file);
            let config = config(&device.0, SIZE_BYTES, (engine, false));
            let mut rig = Rig::open(config.clone());
            // More than the 4 MiB that the image's file system has: the page cache takes it, the device cannot.
            let flags = if durable { OpFlags::FUA } else { OpFlags::NONE };
            let written = rig.result(with(flags, write(1, 0, pattern(1, 8 << 20))));
            assert_eq!(written.is_ok(), !durable, "{engine:?}");
            for _ in 0..3 {
                assert_eq!(rig.result(bare(Op::Flush, 0, 0)), Err(Failure::Io), "{engine:?} {durable}");
                assert_eq!(rig.result(with(OpFlags::FUA, write(1, 0, vec![1; 512]))), Err(Failure::Io));
                assert_eq!(rig.result(write(1, 0, vec![1; 512])), Ok(()));
            }
            drop(rig);
            let mut rig = Rig::open(config);
            assert_eq!(rig.result(bare(Op::Flush, 0, 0)), Ok(()), "{engine:?} {durable}: opened again");
        }
    }
}

#[test]
#[ignore = "needs root and a loop device"]
fn what_the_page_cache_has_and_the_flash_has_not_is_written_again() {
    use flashmob_core::wire::digest::{CORRUPT, answer_bytes, digest_of, digests};
    use std::os::unix::fs::FileExt;
    const BLOCK: usize = 4096;
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("image");
    std::fs::File::create(&image).unwrap().set_len(SIZE_BYTES).unwrap();
    let device = Loop::over(&image);
    let mut rig = Rig::open(config(&device.0, SIZE_BYTES, (Engine::Threads, false)));
    rig.store.make_sums(&dir.path().join("sums"), ExtentId([7; 16]), ExtentId([8; 16])).unwrap();
    let all = pattern(5, 8 * BLOCK);
    rig.result(write(1, 0, all.clone())).unwrap();
    assert_eq!(rig.result(bare(Op::Flush, 0, 0)), Ok(()));
    // Under the device: its page cache does not see it.
    let flash = std::fs::File::options().read(true).write(true).open(&image).unwrap();
    flash.write_all_at(&[0; BLOCK], 2 * BLOCK as u64).unwrap();
    let mut digest = |flags| {
        let data = vec![9; answer_bytes(8 * BLOCK as u32) as usize];
        let done = rig.one(StoreOp { data, flags, ..bare(Op::Digest, 0, 8 * BLOCK as u32) });
        assert_eq!(done.result, Ok(()));
        (digests(&done.data).collect::<Vec<_>>(), rig.store.sums_status().unwrap().rewritten_blocks)
    };
    let right: Vec<u64> = all.chunks(BLOCK).map(digest_of).collect();
    assert_eq!(digest(OpFlags::NONE), (right.clone(), 0), "the page cache has it");
    assert_eq!(digest(OpFlags::FROM_FLASH), (right.clone(), 1), "it is not lost");
    assert_eq!(digest(OpFlags::FROM_FLASH), (right.clone(), 1), "it is on the flash");
    let mut bytes = vec![0; 8 * BLOCK];
    flash.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(bytes, all);
    // And without the page cache.
    flash.write_all_at(&[0; BLOCK], 2 * BLOCK as u64).unwrap();
    shell(&format!("blockdev --flushbufs {}", device.0.display()));
    let (found, rewritten) = digest(OpFlags::FROM_FLASH);
    assert_eq!((found[2], found[1], rewritten), (CORRUPT, right[1], 1));
}

/// A loop device whose last blocks the flash cannot read, with checksums.
struct Unreadable {
    dir: tempfile::TempDir,
    device: Loop,
    rig: Rig,
    /// The bytes of the last 256 KiB.
    all: Vec<u8>,
}

impl Unreadable {
    const BLOCK: usize = 4096;
    const BLOCKS: usize = 64;
    const START: u64 = SIZE_BYTES - (Self::BLOCKS * Self::BLOCK) as u64;
    const LOST: usize = 2;

    fn new(variant: Variant) -> Unreadable {
        let dir = tempfile::tempdir().unwrap();
        let image = dir.path().join("image");
        File::create(&image).unwrap().set_len(SIZE_BYTES).unwrap();
        let device = Loop::over(&image);
        // The kernel does not evict pages that are mapped.
        let config = StoreConfig { mapped: Mapping::Off, ..config(&device.0, SIZE_BYTES, variant) };
        let mut rig = Rig::open(config);
        rig.store.make_sums(&dir.path().join("sums"), ExtentId([7; 16]), ExtentId([8; 16])).unwrap();
        let all = pattern(5, Self::BLOCKS * Self::BLOCK);
        rig.result(write(1, Self::START, all.clone())).unwrap();
        assert_eq!(rig.result(bare(Op::Flush, 0, 0)), Ok(()));
        Unreadable { dir, device, rig, all }
    }

    /// Has the flash lose all behind `len_bytes`. A write there brings that block back.
    fn lose_behind(&self, len_bytes: u64) {
        let image = File::options().write(true).open(self.dir.path().join("image")).unwrap();
        image.set_len(len_bytes).unwrap();
    }

    fn lose_last(&self) {
        self.lose_behind(SIZE_BYTES - (Self::LOST * Self::BLOCK) as u64);
    }

    fn drop_cached(&self) {
        let is_cached = |number: u64| {
            let at = Self::START + number * Self::BLOCK as u64;
            self.rig.store.try_read(at, &mut [0; Self::BLOCK]) == TryRead::Hit
        };
        evict(&self.device.0, || !(0..Self::BLOCKS as u64).any(is_cached));
    }

    /// Reads a part of the last 256 KiB, and sees that no faster way gives anything else.
    fn read(&mut self, offset: usize, len: usize) -> Result<(), Failure> {
        let mut fast = vec![0xee; len];
        let tried = self.rig.store.try_read(Self::START + offset as u64, &mut fast);
        assert!(matches!(tried, TryRead::Hit | TryRead::Miss), "{tried:?}");
        if tried == TryRead::Hit {
            assert_eq!(fast, self.all[offset..offset + len]);
        }
        let read = self.rig.read(Self::START + offset as u64, len)?;
        assert!(read == self.all[offset..offset + len], "{offset} {len}");
        Ok(())
    }

    fn digest(&mut self, flags: OpFlags) -> Result<Vec<u64>, Failure> {
        use flashmob_core::wire::digest::{answer_bytes, digests};
        let len = (Self::BLOCKS * Self::BLOCK) as u32;
        let data = vec![9; answer_bytes(len) as usize];
        let done = self.rig.one(StoreOp { data, flags, ..bare(Op::Digest, Self::START, len) });
        done.result.map(|()| digests(&done.data).collect())
    }
}

#[test]
#[ignore = "needs root and a loop device"]
fn a_block_that_the_flash_cannot_read_is_one_that_does_not_match() {
    use flashmob_core::wire::digest::{Corrupt, digest_of};
    const BLOCK: usize = Unreadable::BLOCK;
    const GOOD: usize = (Unreadable::BLOCKS - Unreadable::LOST) * BLOCK;
    for variant in variants() {
        let mut bed = Unreadable::new(variant);
        bed.lose_last();
        bed.drop_cached();
        let whole = bed.all.len();
        for (offset, len, is_bad) in [
            (GOOD, BLOCK, true),
            (whole - 1, 1, true),
            (0, whole, true),
            (GOOD - 1, 2, true),
            (0, GOOD, false),
            (GOOD - BLOCK, BLOCK, false),
            (GOOD - 1, 1, false),
        ] {
            let expected = if is_bad { Err(Failure::Corrupt) } else { Ok(()) };
            assert_eq!(bed.read(offset, len), expected, "{variant:?}: {offset}+{len}");
            let mut op = read(1, Unreadable::START + offset as u64, len);
            op.flags = OpFlags::UNVERIFIED;
            assert_eq!(bed.rig.result(op), expected, "{variant:?}: it has no bytes that could be taken as they are");
        }
        // A digest tells which bytes another copy would heal it with, and that there are none here.
        let mut told: Vec<u64> = bed.all.chunks(BLOCK).map(digest_of).collect();
        for (hash, block) in told.iter_mut().zip(bed.all.chunks(BLOCK)).skip(Unreadable::BLOCKS - Unreadable::LOST) {
            *hash = Corrupt { expected: flashmob_core::checksum::checksum(block), is_marked: true }.code();
        }
        for flags in [OpFlags::EXPECTED, OpFlags::EXPECTED.with(OpFlags::FROM_FLASH)] {
            assert_eq!(bed.digest(flags), Ok(told.clone()), "{variant:?} {flags:?}");
        }
        let status = bed.rig.store.sums_status().unwrap();
        assert!(status.bad_blocks == 2 && status.adopted_blocks + status.rewritten_blocks == 0, "{status:?}");
        // A part of it cannot be changed; a write of the whole block heals it.
        let at = Unreadable::START + GOOD as u64;
        for (offset, len) in [(at, 1), (at - BLOCK as u64, BLOCK + 1), (at + BLOCK as u64 + 7, 9)] {
            assert_eq!(bed.rig.result(write(1, offset, vec![1; len])), Err(Failure::Corrupt), "{variant:?}");
        }
        let lost = bed.all[GOOD..].to_vec();
        for (number, block) in lost.chunks(BLOCK).enumerate() {
            assert_eq!(bed.rig.result(write(1, at + (number * BLOCK) as u64, block.to_vec())), Ok(()));
        }
        assert_eq!(bed.rig.result(bare(Op::Flush, 0, 0)), Ok(()));
        bed.drop_cached();
        assert_eq!(bed.read(0, whole), Ok(()), "{variant:?}");
        assert_eq!(bed.rig.store.sums_status().unwrap().bad_blocks, 0);
        // Where nothing near by can be read either it is the device that fails.
        bed.lose_behind(Unreadable::START);
        bed.drop_cached();
        assert_eq!(bed.read(GOOD, BLOCK), Err(Failure::Io), "{variant:?}");
        assert_eq!(bed.digest(OpFlags::EXPECTED), Err(Failure::Io), "{variant:?}");
        assert_eq!(bed.digest(OpFlags::FROM_FLASH), Err(Failure::Io), "{variant:?}");
        assert_eq!(bed.rig.store.sums_status().unwrap().bad_blocks, 0);
    }
}

#[test]
#[ignore = "needs root and a loop device"]
fn what_the_page_cache_has_and_the_flash_cannot_read_is_written_again() {
    use flashmob_core::wire::digest::digest_of;
    for variant in variants().into_iter().filter(|&(_, direct)| !direct) {
        let mut bed = Unreadable::new(variant);
        bed.lose_last();
        let right: Vec<u64> = bed.all.chunks(Unreadable::BLOCK).map(digest_of).collect();
        assert_eq!(bed.digest(OpFlags::FROM_FLASH), Ok(right), "{variant:?}");
        let status = bed.rig.store.sums_status().unwrap();
        assert_eq!((status.rewritten_blocks, status.bad_blocks), (2, 0), "{variant:?}");
        assert_eq!(bed.rig.result(bare(Op::Flush, 0, 0)), Ok(()));
        bed.drop_cached();
        assert_eq!(bed.read(0, bed.all.len()), Ok(()), "{variant:?}");
    }
}

#[test]
#[ignore = "needs root and a loop device on a small file system"]
fn the_next_process_sees_what_a_flash_lacks_after_a_failed_flush() {
    let dir = tempfile::tempdir().unwrap();
    in_child(MOUNT_AND_RUN, "devices::child_after_a_failed_flush", dir.path());
}

#[test]
#[ignore = "started by the_next_process_sees_what_a_flash_lacks_after_a_failed_flush"]
fn child_after_a_failed_flush() {
    let Some(dir) = child_path() else { return };
    let beside = tempfile::tempdir().unwrap();
    let (boot_id, start) = (Some([7; 16]), [9; 16]);
    for (at, (engine, direct)) in variants().into_iter().enumerate() {
        if direct {
            continue;
        }
        let file = dir.join(format!("image{at}"));
        std::fs::File::create(&file).unwrap().set_len(SIZE_BYTES).unwrap();
        let device = Loop::over(&file);
        let places = vec![beside.path().join(format!("missing/{at}")), beside.path().join(format!("{at}.syncs"))];
        let config = config(&device.0, SIZE_BYTES, (engine, false));
        let open = || Rig::begun(config.clone(), SyncRecord::load(boot_id, places.clone()));
        let written = pattern(1, 8 << 20);
        // The kernel drops the pages of a device that nobody has open.
        let holder = File::open(&device.0).unwrap();
        let mut rig = open();
        assert_eq!(rig.store.shown_boot_id(start), start);
        assert_eq!(rig.result(write(1, 0, written.clone())), Ok(()));
        assert_eq!(rig.result(bare(Op::Flush, 0, 0)), Err(Failure::Io));
        assert!(rig.store.sync_trouble().is_some_and(|text| text.contains("until the node is restarted")));
        assert!(rig.read(0, 8 << 20).unwrap() == written, "memory has it still");
        drop(rig);
        // What would happen without a record.
        let mut rig = Rig::open(config.clone());
        assert!(rig.read(0, 8 << 20).unwrap() == written, "{engine:?}: though the flash cannot have it");
        assert_eq!(rig.result(bare(Op::Flush, 0, 0)), Ok(()));
        drop(rig);
        let mut rig = open();
        assert_ne!(rig.store.shown_boot_id(start), start, "{engine:?}: it counts as restarted");
        assert!(rig.read(0, 8 << 20).unwrap() != written, "what the flash has is seen");
        assert_eq!(rig.store.sync_trouble(), None);
        shell(&format!("mount -o remount,size=64m {}", dir.display()));
        assert_eq!(rig.result(write(1, 0, written.clone())), Ok(()));
        assert_eq!(rig.result(bare(Op::Flush, 0, 0)), Ok(()), "{engine:?}: there is room again");
        let shown = rig.store.shown_boot_id(start);
        drop(rig);
        let mut rig = open();
        assert_eq!(rig.store.shown_boot_id(start), shown, "nothing failed since");
        evict(&device.0, || rig.store.try_read(0, &mut [0; 4096]) == TryRead::Miss);
        assert!(rig.read(0, 8 << 20).unwrap() == written);
        drop((rig, holder, device));
        std::fs::remove_file(&file).unwrap();
        shell(&format!("mount -o remount,size=4m {}", dir.display()));
    }
}

#[test]
#[ignore = "needs root and a loop device"]
fn an_extent_whose_pages_stay_in_memory_after_a_failed_flush_is_not_served() {
    let dir = tempfile::tempdir().unwrap();
    let (file, place) = (dir.path().join("image"), dir.path().join("x.syncs"));
    std::fs::File::create(&file).unwrap().set_len(SIZE_BYTES).unwrap();
    let device = Loop::over(&file);
    let record = || SyncRecord::load(Some([7; 16]), vec![place.clone()]);
    record().note_failure();
    // Another program has a part of it mapped and locked.
    let mut locker = Command::new("python3")
        .args(["-c", "import ctypes, mmap, os, sys; f = os.open(sys.argv[1], os.O_RDWR); m = mmap.mmap(f, 65536); \
              b = (ctypes.c_char * 65536).from_buffer(m); assert ctypes.CDLL(None).mlock(b, 65536) == 0; print('locked', flush=True); sys.stdin.read()"])
        .arg(&device.0)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(locker.stdout.take().unwrap()), &mut line).unwrap();
    assert_eq!(line.trim(), "locked");
    let config = config(&device.0, SIZE_BYTES, (Engine::Threads, false));
    let store = Store::open(config.clone(), Instant::now(), || {}).unwrap();
    let error = store.begin(record(), None).unwrap_err();
    assert!(matches!(error, StoreError::StaysCached { resident_bytes: Some(65536), .. }), "{error}");
    assert!(error.to_string().contains("restart the device"), "{error}");
    drop(store);
    drop(locker.stdin.take());
    locker.wait().unwrap();
    let store = Store::open(config, Instant::now(), || {}).unwrap();
    store.begin(record(), None).unwrap();
    assert!(!record().known().must_drop());
}
