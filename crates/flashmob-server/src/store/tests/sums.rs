//! Checksums: every kind of damage is found, on every engine, and nothing else is taken for damage.

use super::*;
use crate::store::sums::format::{BLOCK_BYTES, Change, SLOT_BLOCKS_MAX, Shape, UNIT_BYTES, sum_of};
use flashmob_core::checksum::checksum;
use flashmob_core::wire::digest::{CORRUPT, Corrupt, answer_bytes, digest_of, digests, unreadable_payload};
use proptest::prelude::*;
use std::os::unix::fs::FileExt;

const BLOCK: usize = BLOCK_BYTES;
/// Two units, and a part of a third.
const SIZE_BYTES: u64 = 2 * UNIT_BYTES + (1 << 20);
const EXTENT: ExtentId = ExtentId([7; 16]);
const NONCE: ExtentId = ExtentId([8; 16]);

/// A store with checksums on an extent that was blank when it got them.
struct Bed {
    dir: tempfile::TempDir,
    variant: Variant,
    mapped: Mapping,
    rig: Rig,
}

impl Bed {
    fn new(variant: Variant) -> Bed {
        Bed::over(variant, |_| ())
    }

    /// The same over a file that `prepare` has filled.
    fn over(variant: Variant, prepare: impl FnOnce(&Path)) -> Bed {
        Bed::with(variant, Mapping::Auto, prepare)
    }

    /// A bed in the page cache, which may be mapped.
    fn mapped(mapped: Mapping) -> Bed {
        Bed::with((Engine::Threads, false), mapped, |_| ())
    }

    fn with(variant: Variant, mapped: Mapping, prepare: impl FnOnce(&Path)) -> Bed {
        let dir = tempfile::tempdir().unwrap();
        File::create(dir.path().join("data")).unwrap().set_len(SIZE_BYTES).unwrap();
        prepare(&dir.path().join("data"));
        let rig = Rig::open(StoreConfig { mapped, ..config(&dir.path().join("data"), SIZE_BYTES, variant) });
        rig.store.make_sums(&dir.path().join("data.sums"), EXTENT, NONCE).unwrap();
        rig.store.place_sums().unwrap();
        Bed { dir, variant, mapped, rig }
    }

    fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    fn sums(&self) -> PathBuf {
        self.dir.path().join("data.sums")
    }

    /// Ends the store, does something to its files, and opens it again.
    fn reopened(self, meanwhile: impl FnOnce(&Path, &Path)) -> Bed {
        let Bed { dir, variant, mapped, rig } = self;
        drop(rig);
        meanwhile(&dir.path().join("data"), &dir.path().join("data.sums"));
        let sums_path = dir.path().join("data.sums");
        let config = StoreConfig { mapped, ..config(&dir.path().join("data"), SIZE_BYTES, variant) };
        let rig = Rig::with_sums(config, SyncRecord::load(None, Vec::new()), Some(&sums_path));
        let (sums, _) = Sums::open(&sums_path, EXTENT, SIZE_BYTES, &[NONCE]).unwrap();
        rig.store.keep_sums(sums).unwrap();
        Bed { dir, variant, mapped, rig }
    }

    fn write(&mut self, offset_bytes: usize, data: &[u8]) -> Result<(), Failure> {
        self.rig.result(write(1, offset_bytes as u64, data.to_vec()))
    }

    /// Reads by way of the engine, and sees that no faster way gives anything else.
    fn read(&mut self, offset_bytes: usize, len_bytes: usize) -> Result<Vec<u8>, Failure> {
        let mut fast = vec![0xee; len_bytes];
        let tried = self.rig.store.try_read(offset_bytes as u64, &mut fast);
        let read = self.rig.read(offset_bytes as u64, len_bytes);
        match tried {
            TryRead::Hit => assert_eq!(read.as_ref(), Ok(&fast), "{:?}", self.variant),
            TryRead::Miss => {}
            TryRead::Failed(failure) => panic!("{:?}: {failure}", self.variant),
        }
        read
    }

    fn digest(&mut self, offset_bytes: usize, len_bytes: usize) -> Vec<u64> {
        self.digest_with(OpFlags::NONE, offset_bytes, len_bytes)
    }

    fn digest_with(&mut self, flags: OpFlags, offset_bytes: usize, len_bytes: usize) -> Vec<u64> {
        let data = vec![9; answer_bytes(len_bytes as u32) as usize];
        let asked = StoreOp { data, flags, ..bare(Op::Digest, offset_bytes as u64, len_bytes as u32) };
        let done = self.rig.one(asked);
        assert_eq!(done.result, Ok(()));
        digests(&done.data).collect()
    }

    fn status(&self) -> SumsStatus {
        self.rig.store.sums_status().expect("it has checksums")
    }

    /// Changes the bytes behind the store's back: on the flash, and out of the page cache.
    fn damage(&mut self, offset_bytes: usize, bytes: &[u8]) {
        assert_eq!(self.rig.result(bare(Op::Flush, 0, 0)), Ok(()));
        let file = File::options().write(true).open(self.data()).unwrap();
        file.write_all_at(bytes, offset_bytes as u64).unwrap();
        file.sync_all().unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    }
}

/// What a block becomes, made of the first 20.
type Damage = fn(&[u8]) -> Vec<u8>;

/// Blocks that are all different.
fn blocks(seed: u64, count: usize) -> Vec<u8> {
    pattern(seed, count * BLOCK)
}

fn data_of(path: &Path, at: usize, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    File::open(path).unwrap().read_exact_at(&mut bytes, at as u64).unwrap();
    bytes
}

#[test]
fn each_kind_of_damage_is_found_told_once_and_healed_by_a_whole_write() {
    for variant in variants() {
        let kinds: [(&str, Damage); 4] = [
            ("a flipped bit", |all| {
                [&all[5 * BLOCK..5 * BLOCK + 77], &[all[5 * BLOCK + 77] ^ 4], &all[5 * BLOCK + 78..6 * BLOCK]].concat()
            }),
            ("a block of zeros", |_| vec![0; BLOCK]),
            ("a block from another place", |all| all[9 * BLOCK..10 * BLOCK].to_vec()),
            ("an older version", |_| blocks(99, 6)[5 * BLOCK..].to_vec()),
        ];
        for (kind, damage) in kinds {
            let mut bed = Bed::new(variant);
            bed.write(0, &blocks(99, 20)).unwrap();
            let all = blocks(7, 20);
            bed.write(0, &all).unwrap();
            bed.damage(5 * BLOCK, &damage(&all));
            for (offset, len, is_bad) in [
                (5 * BLOCK, BLOCK, true),
                (5 * BLOCK + 4000, 1, true),
                (0, 20 * BLOCK, true),
                (6 * BLOCK - 1, 2, true),
                (4 * BLOCK, BLOCK, false),
                (6 * BLOCK, 14 * BLOCK, false),
                (5 * BLOCK - 1, 1, false),
            ] {
                let read = bed.read(offset, len);
                let expected = if is_bad { Err(Failure::Corrupt) } else { Ok(all[offset..offset + len].to_vec()) };
                assert_eq!(read, expected, "{variant:?}: {kind}: {offset}+{len}");
            }
            let found = digest_of(&all[4 * BLOCK..5 * BLOCK]);
            assert_eq!(bed.digest(4 * BLOCK, 2 * BLOCK), [found, CORRUPT], "{variant:?}: {kind}");
            let status = bed.status();
            assert!(status.bad_blocks == 1 && status.mismatches >= 5, "{variant:?}: {kind}: {status:?}");
            // A part of it cannot be changed, also where a larger change only ends in it. Nothing of that is written.
            let before = data_of(&bed.data(), 0, 20 * BLOCK);
            for (offset, len) in [(5 * BLOCK, 1), (6 * BLOCK - 1, 1), (5 * BLOCK + 9, 10 * BLOCK), (0, 5 * BLOCK + 3)] {
                assert_eq!(bed.write(offset, &vec![1; len]), Err(Failure::Corrupt), "{variant:?}: {kind}");
            }
            let zeroes = bare(Op::WriteZeroes, 100, 5 * BLOCK as u32);
            assert_eq!(bed.rig.result(zeroes), Err(Failure::Corrupt), "{variant:?}: {kind}");
            assert_eq!(data_of(&bed.data(), 0, 20 * BLOCK), before, "{variant:?}: {kind}");
            bed.write(5 * BLOCK, &all[5 * BLOCK..6 * BLOCK]).unwrap();
            assert_eq!(bed.read(0, 20 * BLOCK), Ok(all), "{variant:?}: {kind}");
            assert_eq!(bed.status().bad_blocks, 0);
        }
    }
}

#[test]
fn a_long_change_that_ends_in_a_bad_block_writes_nothing() {
    for variant in variants() {
        let mut bed = Bed::new(variant);
        let all = blocks(3, 100);
        bed.write(0, &all).unwrap();
        bed.damage(70 * BLOCK, &[0; 9]);
        assert_eq!(bed.write(BLOCK, &vec![1; 69 * BLOCK + 1]), Err(Failure::Corrupt), "{variant:?}");
        assert_eq!(bed.read(0, 70 * BLOCK), Ok(all[..70 * BLOCK].to_vec()), "{variant:?}");
        bed.write(BLOCK, &vec![1; 70 * BLOCK]).unwrap();
        assert_eq!(bed.read(BLOCK, 70 * BLOCK), Ok(vec![1; 70 * BLOCK]), "{variant:?}");
    }
}

#[test]
fn a_gateway_may_take_bytes_as_they_are() {
    for variant in variants() {
        let mut bed = Bed::new(variant);
        let mut all = blocks(3, 4);
        bed.write(0, &all).unwrap();
        bed.damage(BLOCK, b"torn");
        all[BLOCK..BLOCK + 4].copy_from_slice(b"torn");
        assert_eq!(bed.read(0, 4 * BLOCK), Err(Failure::Corrupt), "{variant:?}");
        let done = bed.rig.one(with(OpFlags::UNVERIFIED, read(1, 0, 4 * BLOCK)));
        assert_eq!((done.result, done.data), (Ok(()), all.clone()), "{variant:?}");
        assert_eq!(bed.read(0, 4 * BLOCK), Ok(all.clone()), "{variant:?}: its checksum is that of these bytes now");
        let status = bed.status();
        assert_eq!((status.bad_blocks, status.adopted_blocks), (0, 1), "{variant:?}");
        let mut bed = bed.reopened(|_, _| ());
        assert_eq!(bed.read(0, 4 * BLOCK), Ok(all), "{variant:?}");
    }
    // Where there are no checksums the flag has no effect.
    let dir = tempfile::tempdir().unwrap();
    let mut rig = Rig::open(config(&dir.path().join("data"), SIZE_BYTES, (Engine::Threads, false)));
    assert_eq!(rig.one(with(OpFlags::UNVERIFIED, read(1, 5, 5))).data, [0; 5]);
}

#[test]
fn a_digest_tells_what_a_corrupt_block_should_be_where_that_is_asked_for() {
    for variant in variants() {
        let mut bed = Bed::new(variant);
        let all = blocks(7, 4);
        bed.write(0, &all).unwrap();
        bed.damage(BLOCK, b"rotten");
        let expected = checksum(&all[BLOCK..2 * BLOCK]);
        let told = Corrupt { expected, is_marked: false }.code();
        let right = digest_of(&all[2 * BLOCK..3 * BLOCK]);
        assert_eq!(bed.digest_with(OpFlags::EXPECTED, BLOCK, 2 * BLOCK), [told, right], "{variant:?}");
        let both = OpFlags::EXPECTED.with(OpFlags::FROM_FLASH);
        assert_eq!(bed.digest_with(both, BLOCK, 2 * BLOCK), [told, right], "{variant:?}");
        assert_eq!(bed.digest(BLOCK, 2 * BLOCK), [CORRUPT, right], "{variant:?}");
    }
}

#[test]
fn a_block_that_is_marked_is_an_error_until_it_is_written_whole() {
    for variant in variants() {
        let mut bed = Bed::new(variant);
        let old = blocks(7, 4);
        bed.write(0, &old).unwrap();
        assert_eq!(bed.read(0, 4 * BLOCK), Ok(old.clone()), "{variant:?}: it was verified");
        let expected = [0xdead_beef, 0x95a7_58e2];
        let payload = expected.map(unreadable_payload).concat();
        let mark = with(OpFlags::UNREADABLE, write(1, BLOCK as u64, payload.clone()));
        assert_eq!(bed.rig.one(mark).result, Ok(()), "{variant:?}");
        let told = expected.map(|expected| Corrupt { expected, is_marked: true }.code());
        for _ in 0..2 {
            assert_eq!(bed.read(BLOCK, BLOCK), Err(Failure::Corrupt), "{variant:?}");
            assert_eq!(bed.read(2 * BLOCK + 7, 1), Err(Failure::Corrupt), "{variant:?}");
            assert_eq!(bed.read(0, BLOCK), Ok(old[..BLOCK].to_vec()), "{variant:?}");
            assert_eq!(bed.read(3 * BLOCK, BLOCK), Ok(old[3 * BLOCK..].to_vec()), "{variant:?}");
            assert_eq!(bed.write(BLOCK + 1, &[1; 100]), Err(Failure::Corrupt), "{variant:?}");
            assert_eq!(bed.digest_with(OpFlags::EXPECTED, BLOCK, 2 * BLOCK), told, "{variant:?}");
            // No gateway makes bytes of it by asking for it as it is.
            let taken = bed.rig.one(with(OpFlags::UNVERIFIED, read(1, BLOCK as u64, BLOCK)));
            assert_eq!(taken.result, Err(Failure::Corrupt), "{variant:?}");
            assert_eq!(bed.status().bad_blocks, 2, "{variant:?}");
            bed = bed.reopened(|_, _| ());
            assert_eq!(bed.read(2 * BLOCK, BLOCK), Err(Failure::Corrupt), "{variant:?}");
            assert_eq!(bed.read(BLOCK, BLOCK), Err(Failure::Corrupt), "{variant:?}");
        }
        let new = blocks(8, 2);
        bed.write(BLOCK, &new).unwrap();
        assert_eq!(bed.read(BLOCK, 2 * BLOCK), Ok(new), "{variant:?}");
        assert_eq!(bed.status().bad_blocks, 0, "{variant:?}");
    }
    // Nothing but a checksum tells that bytes are none.
    let dir = tempfile::tempdir().unwrap();
    let mut rig = Rig::open(config(&dir.path().join("data"), SIZE_BYTES, (Engine::Threads, false)));
    let done = rig.one(with(OpFlags::UNREADABLE, write(1, 0, unreadable_payload(1))));
    assert_eq!(done.result, Err(Failure::NotSupported));
}

#[test]
fn what_has_the_expected_checksum_is_right_though_it_is_to_be_marked() {
    for variant in variants() {
        let mut bed = Bed::new(variant);
        let all = blocks(7, 2);
        bed.write(0, &all).unwrap();
        let payload = unreadable_payload(checksum(&all[BLOCK..]));
        assert_eq!(bed.rig.one(with(OpFlags::UNREADABLE, write(1, BLOCK as u64, payload.clone()))).result, Ok(()));
        assert_eq!(bed.read(0, 2 * BLOCK), Ok(all), "{variant:?}");
        assert_eq!(bed.status().bad_blocks, 0, "{variant:?}");
    }
}

#[test]
fn an_extent_that_held_data_gets_checksums_unit_by_unit_as_it_is_used() {
    for variant in variants() {
        let old = blocks(5, 3);
        let mut bed = Bed::over(variant, |path| {
            let file = File::options().write(true).open(path).unwrap();
            file.write_all_at(&old, UNIT_BYTES - BLOCK as u64).unwrap();
        });
        // A file system that tells no holes has no blank unit.
        let before = bed.status().units_without;
        assert!(before == 2 || before == 3, "{variant:?}: {before}");
        assert_eq!(bed.read(UNIT_BYTES as usize, 10), Ok(old[BLOCK..BLOCK + 10].to_vec()), "{variant:?}");
        assert_eq!(bed.status().units_without, before - 1, "{variant:?}");
        // From then on it is verified; the first unit gets its checksums by a change of a part.
        bed.damage(UNIT_BYTES as usize + 5, &[0]);
        assert_eq!(bed.read(UNIT_BYTES as usize, 10), Err(Failure::Corrupt), "{variant:?}");
        bed.write(UNIT_BYTES as usize - BLOCK + 1, &[1]).unwrap();
        assert_eq!(bed.status().units_without, before - 2, "{variant:?}");
        let mut bed = bed.reopened(|_, _| ());
        assert_eq!(bed.status().units_without, before - 2, "{variant:?}: that is kept");
        assert_eq!(bed.read(UNIT_BYTES as usize - BLOCK, 3), Ok(vec![old[0], 1, old[2]]), "{variant:?}");
        assert_eq!(bed.read(UNIT_BYTES as usize, 10), Err(Failure::Corrupt), "{variant:?}");
    }
}

#[test]
fn zeros_over_a_whole_unit_need_no_look_at_what_was_there() {
    for variant in variants() {
        let mut bed = Bed::over(variant, |path| std::fs::write(path, pattern(1, SIZE_BYTES as usize)).unwrap());
        assert_eq!(bed.status().units_without, 3, "{variant:?}");
        assert_eq!(bed.rig.result(bare(Op::WriteZeroes, 0, UNIT_BYTES as u32 + 5000)), Ok(()), "{variant:?}");
        assert_eq!(bed.status().units_without, 1, "{variant:?}");
        let tail = pattern(1, SIZE_BYTES as usize)[UNIT_BYTES as usize + 5000..].to_vec();
        assert_eq!(bed.read(0, UNIT_BYTES as usize + 5000), Ok(vec![0; UNIT_BYTES as usize + 5000]), "{variant:?}");
        assert_eq!(bed.read(UNIT_BYTES as usize + 5000, tail.len()), Ok(tail), "{variant:?}");
        bed.damage(BLOCK, &[1]);
        assert_eq!(bed.read(BLOCK, 1), Err(Failure::Corrupt), "{variant:?}");
        // A trim leaves zeros, too.
        assert_eq!(bed.rig.result(bare(Op::Trim, 0, 2 * BLOCK as u32)), Ok(()), "{variant:?}");
        assert_eq!(bed.read(0, 2 * BLOCK), Ok(vec![0; 2 * BLOCK]), "{variant:?}");
    }
}

/// Puts a change into a slot, as a process leaves it that is killed.
fn leave_unfinished(sums: &Path, slot: usize, change: &Change) {
    let file = File::options().write(true).open(sums).unwrap();
    file.write_all_at(&change.encode(), Shape::new(SIZE_BYTES).slot_at(slot)).unwrap();
}

#[test]
fn a_change_that_a_killed_node_left_is_finished_and_hides_no_damage() {
    let (old, new) = (blocks(1, 8), blocks(2, 8));
    let sums_of = |bytes: &[u8]| bytes.chunks(BLOCK).map(sum_of).collect::<Vec<u32>>();
    for variant in variants() {
        let mut bed = Bed::new(variant);
        bed.write(0, &old).unwrap();
        bed.rig.result(bare(Op::Flush, 0, 0)).unwrap();
        let mut bed = bed.reopened(|data, sums| {
            let file = File::options().write(true).open(data).unwrap();
            // Noted, and nothing written; half written; written, and zeroed, without checksums; written, and then damaged.
            leave_unfinished(sums, 0, &Change::Sums { first: 0, sums: sums_of(&new[..BLOCK]) });
            leave_unfinished(sums, 1, &Change::Sums { first: 1, sums: sums_of(&new[BLOCK..3 * BLOCK]) });
            file.write_all_at(&new[BLOCK..2 * BLOCK], BLOCK as u64).unwrap();
            leave_unfinished(sums, 2, &Change::Zeros { first: 3, count: 3 });
            file.write_all_at(&[0; 2 * BLOCK], 3 * BLOCK as u64).unwrap();
            leave_unfinished(sums, 63, &Change::Sums { first: 6, sums: sums_of(&new[6 * BLOCK..7 * BLOCK]) });
            file.write_all_at(&[&new[6 * BLOCK..7 * BLOCK - 1], &[0]].concat(), 6 * BLOCK as u64).unwrap();
        });
        assert_eq!(bed.status().settled_blocks, 3, "{variant:?}");
        let expected = [
            &old[..BLOCK],
            &new[BLOCK..2 * BLOCK],
            &old[2 * BLOCK..3 * BLOCK],
            &[0; 2 * BLOCK],
            &old[5 * BLOCK..6 * BLOCK],
        ]
        .concat();
        assert_eq!(bed.read(0, 6 * BLOCK), Ok(expected.clone()), "{variant:?}");
        assert_eq!(bed.read(6 * BLOCK, BLOCK), Err(Failure::Corrupt), "{variant:?}");
        assert_eq!(bed.read(7 * BLOCK, BLOCK), Ok(old[7 * BLOCK..].to_vec()), "{variant:?}");
        let mut bed = bed.reopened(|_, _| ());
        assert_eq!(bed.status().settled_blocks, 0, "{variant:?}: the slots were emptied");
        assert_eq!(bed.read(0, 6 * BLOCK), Ok(expected), "{variant:?}");
    }
}

#[test]
fn a_node_that_is_killed_while_it_writes_leaves_no_block_that_does_not_match() {
    if is_left_out("children") {
        return;
    }
    let mut settled = 0;
    for (number, variant) in variants().into_iter().enumerate() {
        let mut bed = Bed::new(variant);
        for round in 0..4u64 {
            let (data, begun) = (bed.data(), Instant::now());
            bed = bed.reopened(|_, _| {
                let mut child = std::process::Command::new(std::env::current_exe().unwrap())
                    .args(["--exact", "store::tests::sums::child_that_is_killed", "--ignored", "--nocapture"])
                    .env(CHILD_PATH, &data)
                    .env(CHILD_VARIANT, number.to_string())
                    .stdout(std::process::Stdio::null())
                    .spawn()
                    .unwrap();
                while !data.with_extension("writing").exists() && begun.elapsed() < Duration::from_secs(60) {
                    std::thread::sleep(Duration::from_millis(1));
                }
                std::thread::sleep(Duration::from_millis(20 + 31 * round));
                child.kill().unwrap();
                assert!(!child.wait().unwrap().success(), "it writes until it is killed");
                std::fs::remove_file(data.with_extension("writing")).unwrap();
            });
            assert_eq!(bed.read(0, SIZE_BYTES as usize).map(|_| ()), Ok(()), "{variant:?}");
            assert_eq!(bed.status().mismatches, 0, "{variant:?}");
            settled += bed.status().settled_blocks;
        }
    }
    eprintln!("{settled} blocks were in the middle of a change");
}

#[test]
fn checksums_that_an_earlier_process_has_not_synced_are_synced_by_the_first_flush() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data.sums");
    let sums = Sums::create(&path, EXTENT, SIZE_BYTES, NONCE, |_| false).unwrap();
    sums.sync().unwrap();
    assert!(!sums.is_dirty());
    sums.store(3, &[7]).unwrap();
    assert!(sums.is_dirty());
    // It ends without a sync, and the next one has no room to record its start.
    drop(sums);
    let (sums, _) = Sums::open(&path, EXTENT, SIZE_BYTES, &[NONCE]).unwrap();
    assert!(sums.is_dirty());
    sums.sync().unwrap();
    assert!(!sums.is_dirty());
}

const CHILD_VARIANT: &str = "FLASHMOB_TEST_CHILD_VARIANT";

#[test]
#[ignore = "started by a_node_that_is_killed_while_it_writes_leaves_no_block_that_does_not_match"]
fn child_that_is_killed() {
    let Some(path) = child_path() else { return };
    let number: usize = std::env::var(CHILD_VARIANT).unwrap().parse().unwrap();
    let mut rig = Rig::open(config(&path, SIZE_BYTES, variants()[number]));
    let (sums, _) = Sums::open(&path.with_extension("sums"), EXTENT, SIZE_BYTES, &[NONCE]).unwrap();
    rig.store.keep_sums(sums).unwrap();
    let align = rig.store.alignment_bytes();
    let mut state = std::process::id() as u64 | 1 << 40;
    let mut random = move |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    std::fs::write(path.with_extension("writing"), b"").unwrap();
    loop {
        // Each in a stretch of its own.
        let ops = (0..16u64).map(|id| {
            let stretch = SIZE_BYTES / 16;
            let (at, len) = (random(stretch / 2) / align * align, 1 + random(if id < 8 { 9_000 } else { 200_000 }));
            if id % 5 == 4 {
                StoreOp { id, ..bare(Op::WriteZeroes, id * stretch + at, len as u32) }
            } else {
                write(id, id * stretch + at, pattern(random(1 << 40), len as usize))
            }
        });
        assert!(rig.run(ops.collect()).values().all(|done| done.result == Ok(())));
    }
}

#[test]
fn a_file_that_is_missing_torn_foreign_or_older_is_refused_with_the_remedy() {
    let bed = Bed::new((Engine::Threads, false));
    let (path, other) = (bed.sums(), bed.dir.path().join("other.sums"));
    let open = |id, size, nonces: &[ExtentId]| Sums::open(&path, id, size, nonces).map(|(_, nonce)| nonce);
    assert_eq!(open(EXTENT, SIZE_BYTES, &[ExtentId([1; 16]), NONCE]).unwrap(), NONCE);
    let says = |result: Result<ExtentId, SumsError>, expected: &str| {
        let text = result.expect_err("refused").to_string();
        assert!(text.contains(expected) && text.contains("data.sums"), "{text}");
        // Nobody is told to give up the last copy.
        assert!(text.contains("--forget") && text.contains("only if `flashmob volume show`"), "{text}");
    };
    says(open(ExtentId([1; 16]), SIZE_BYTES, &[NONCE]), "checksums of another extent");
    says(open(EXTENT, SIZE_BYTES - 1, &[NONCE]), "checksums of another extent");
    says(open(EXTENT, SIZE_BYTES, &[EXTENT]), "restored from an older copy");
    std::fs::copy(&path, &other).unwrap();
    let file = File::options().write(true).open(&path).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!(bytes.len() as u64, Shape::new(SIZE_BYTES).file_bytes(), "all of it is there from the start");
    file.set_len(bytes.len() as u64 - 1).unwrap();
    says(open(EXTENT, SIZE_BYTES, &[NONCE]), "should have");
    file.set_len(100).unwrap();
    says(open(EXTENT, SIZE_BYTES, &[NONCE]), "too short");
    std::fs::write(&path, &bytes).unwrap();
    file.write_all_at(&[1], 50).unwrap();
    says(open(EXTENT, SIZE_BYTES, &[NONCE]), "does not match");
    file.write_all_at(b"x", 0).unwrap();
    says(open(EXTENT, SIZE_BYTES, &[NONCE]), "does not begin");
    std::fs::remove_file(&path).unwrap();
    says(open(EXTENT, SIZE_BYTES, &[NONCE]), "are missing");
    std::fs::write(&path, [&bytes[..8], &9u32.to_le_bytes(), &bytes[12..]].concat()).unwrap();
    let text = open(EXTENT, SIZE_BYTES, &[NONCE]).unwrap_err().to_string();
    assert!(text.contains("version 9") && text.contains("newer flashmob"), "{text}");
}

#[test]
fn an_extent_that_is_too_large_for_any_file_of_checksums_takes_no_memory() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data.sums");
    let error = Sums::create(&path, EXTENT, i64::MAX as u64, NONCE, |_| panic!("asked about its units")).unwrap_err();
    assert!(matches!(error, SumsError::NoSpace { .. }) && !path.exists(), "{error}");
}

#[test]
fn checksums_that_have_no_room_are_told_with_their_size_and_leave_nothing() {
    let dir = tempfile::tempdir().unwrap();
    in_child("trap '' XFSZ; ulimit -f 8; exec \"$@\"", "sums::child_without_room", dir.path());
}

#[test]
#[ignore = "started by checksums_that_have_no_room_are_told_with_their_size_and_leave_nothing"]
fn child_without_room() {
    let Some(dir) = child_path() else { return };
    let path = dir.join("data.sums");
    let error = Sums::create(&path, EXTENT, SIZE_BYTES, NONCE, |_| false).unwrap_err();
    assert!(matches!(error, SumsError::NoSpace { .. }) && error.to_string().contains("free some"), "{error}");
    assert!(!path.exists());
}

#[test]
fn a_page_that_comes_back_from_the_flash_is_verified_before_the_mapping_answers() {
    if is_left_out("nowait") {
        return;
    }
    let mut bed = Bed::mapped(Mapping::On);
    let all = blocks(3, 64);
    bed.write(0, &all).unwrap();
    bed.rig.result(bare(Op::Flush, 0, 0)).unwrap();
    if bed.rig.store.mapped_status().is_none() {
        return;
    }
    let second = |n: u64| Time(n * 1_100_000_000);
    let warm = |bed: &mut Bed, n| {
        bed.rig.store.tick(second(n));
        for at in (0..64).cycle().take(300) {
            let mut buf = [0; BLOCK];
            assert_eq!(bed.rig.store.try_read((at * BLOCK) as u64, &mut buf), TryRead::Hit);
            assert_eq!(buf, all[at * BLOCK..(at + 1) * BLOCK]);
        }
    };
    warm(&mut bed, 1);
    let reads = bed.rig.store.mapped_status().unwrap().reads;
    assert!(reads > 100, "verified once, then answered from the mapping: {reads}");
    bed.damage(5 * BLOCK, &[0; 16]);
    let data = bed.data();
    let mut now = 2;
    // Seen absent at the next look, or still in the page cache with its old bytes.
    let evicted = |bed: &mut Bed, now: &mut u64| {
        *now += 1;
        bed.rig.store.tick(second(*now));
        let mut buf = [0; BLOCK];
        let _ = bed.rig.store.try_read(0, &mut buf);
        bed.rig.store.try_read(9 * BLOCK as u64, &mut buf) == TryRead::Miss
    };
    evict(&data, || evicted(&mut bed, &mut now));
    assert_eq!(bed.read(5 * BLOCK, BLOCK), Err(Failure::Corrupt));
    assert_eq!(bed.rig.store.try_read(5 * BLOCK as u64, &mut [0; BLOCK]), TryRead::Miss, "resident, and not verified");
    for at in [4, 6] {
        assert_eq!(bed.read(at * BLOCK, BLOCK), Ok(all[at * BLOCK..(at + 1) * BLOCK].to_vec()));
    }
}

#[test]
fn each_read_is_verified_unless_the_mapping_is_asked_for() {
    // Before it had checksums it was mapped; one that has them when it is opened is not.
    let mut bed = Bed::mapped(Mapping::Auto);
    let all = blocks(3, 64);
    bed.write(0, &all).unwrap();
    bed.rig.result(bare(Op::Flush, 0, 0)).unwrap();
    let read_all = |bed: &Bed| {
        for n in 1..4 {
            bed.rig.store.tick(Time(n * 1_100_000_000));
            for at in (0..64).cycle().take(300) {
                let mut buf = [0; BLOCK];
                if bed.rig.store.try_read((at * BLOCK) as u64, &mut buf) == TryRead::Hit {
                    assert_eq!(buf, all[at * BLOCK..(at + 1) * BLOCK]);
                }
            }
        }
        bed.rig.store.mapped_status()
    };
    let is_off = |status: MappedStatus| status.is_given_up && status.reads == 0;
    let status = read_all(&bed);
    assert!(status.is_none_or(is_off), "{status:?}");
    assert_eq!(read_all(&bed.reopened(|_, _| ())), None);
    // Where the system has what a mapping needs.
    if status.is_some() {
        let on = Bed::mapped(Mapping::On).reopened(|_, _| ()).rig.store.mapped_status();
        assert!(on.is_some_and(|status| !status.is_given_up), "to be had all the same: {on:?}");
    }
}

#[test]
fn parts_of_one_block_are_changed_by_many_at_once() {
    for variant in variants() {
        let mut bed = Bed::new(variant);
        let align = bed.rig.store.alignment_bytes().max(64);
        let count = (2 * BLOCK as u64 / align) as usize;
        for round in 0..20u8 {
            let ops = (0..count as u64)
                .map(|i| write(i, BLOCK as u64 / 2 + i * align, vec![round ^ i as u8; align as usize]));
            assert!(bed.rig.run(ops.collect()).values().all(|done| done.result == Ok(())), "{variant:?}");
            let read = bed.read(BLOCK / 2, 2 * BLOCK).unwrap();
            for (i, part) in read.chunks(align as usize).enumerate() {
                assert!(part.iter().all(|&byte| byte == round ^ i as u8), "{variant:?}");
            }
        }
        assert_eq!(bed.status().mismatches, 0, "{variant:?}");
    }
}

#[test]
fn reads_beside_changes_of_the_same_blocks_see_no_damage() {
    for variant in variants() {
        let mut bed = Bed::new(variant);
        let len = 8 * BLOCK;
        for round in 0..30u8 {
            let ops = (0..16u64)
                .map(|i| if i % 2 == 0 { read(i, 0, len) } else { write(i, 100 * i, vec![round; len - 3000]) });
            // The changes may happen in any order; no read may fail.
            let done = bed.rig.run(ops.filter(|op| op.op == Op::Read || op.id == 7).collect());
            assert!(done.values().all(|done| done.result == Ok(())), "{variant:?}");
        }
        assert_eq!(bed.status().mismatches, 0, "{variant:?}");
    }
}

#[test]
fn the_end_of_an_extent_need_not_be_that_of_a_block() {
    const ODD_BYTES: u64 = 10 * BLOCK as u64 + 1000;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data");
    for engine in variants().into_iter().filter(|&(_, direct)| !direct) {
        let mut rig = Rig::open(config(&path, ODD_BYTES, engine));
        rig.store.make_sums(&dir.path().join("data.sums"), EXTENT, NONCE).unwrap();
        rig.store.place_sums().unwrap();
        let tail = pattern(1, 5096);
        assert_eq!(rig.result(write(1, ODD_BYTES - 5096, tail.clone())), Ok(()));
        assert_eq!(rig.result(write(1, ODD_BYTES - 1, vec![3])), Ok(()));
        assert_eq!(rig.read(ODD_BYTES - 5096, 5096).unwrap(), [&tail[..5095], &[3]].concat());
        let mut buf = [0; 9];
        assert!(matches!(rig.store.try_read(ODD_BYTES - 9, &mut buf), TryRead::Hit | TryRead::Miss));
        assert_eq!(rig.result(bare(Op::WriteZeroes, 100, ODD_BYTES as u32 - 100)), Ok(()));
        assert_eq!(rig.read(0, ODD_BYTES as usize).unwrap(), vec![0; ODD_BYTES as usize]);
        assert_eq!(rig.store.sums_status().unwrap().mismatches, 0);
        std::fs::remove_file(dir.path().join("data.sums")).unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn any_changes_leave_bytes_that_match(
        changes in prop::collection::vec((0u8..6, 0..SIZE_BYTES as usize, prop_oneof![1..10_000usize, 1..300_000usize]), 1..25),
        flags in 0u8..4,
    ) {
        for variant in variants() {
            let mut bed = Bed::new(variant);
            let mut model = vec![0; SIZE_BYTES as usize];
            for (i, &(kind, at, len)) in changes.iter().enumerate() {
                let range = at..(at + len).min(model.len());
                let flags = OpFlags(flags);
                if kind < 4 {
                    let data = pattern(i as u64, range.len());
                    model[range.clone()].copy_from_slice(&data);
                    prop_assert_eq!(bed.rig.result(with(flags, write(1, at as u64, data))), Ok(()));
                } else {
                    model[range.clone()].fill(0);
                    let op = if kind == 4 { Op::Trim } else { Op::WriteZeroes };
                    prop_assert_eq!(bed.rig.result(with(flags, bare(op, at as u64, range.len() as u32))), Ok(()));
                }
                prop_assert!(bed.read(range.start, range.len()) == Ok(model[range].to_vec()), "{:?}", variant);
            }
            let bed = bed.reopened(|_, _| ());
            let mut bed = bed;
            prop_assert!(bed.read(0, model.len()) == Ok(model), "{:?}", variant);
            let status = bed.status();
            prop_assert_eq!((status.mismatches, status.settled_blocks), (0, 0));
        }
    }
}

// A change in a slot is one window of a write.
const _: () = assert!(SLOT_BLOCKS_MAX * BLOCK_BYTES == 128 * 1024);

#[test]
fn a_digest_from_the_flash_finds_damage_and_takes_nothing_else_for_it() {
    for variant in variants() {
        let mut bed = Bed::new(variant);
        let all = blocks(1, 80);
        bed.write(3 * BLOCK, &all).unwrap();
        let hashes = |all: &[u8]| all.chunks(BLOCK).map(digest_of).collect::<Vec<_>>();
        let flags = OpFlags::FROM_FLASH.with(OpFlags::BACKGROUND);
        let found = bed.digest_with(flags, 3 * BLOCK, 60 * BLOCK);
        assert_eq!(found, hashes(&all[..60 * BLOCK]), "{variant:?}: what is not on the flash yet is written first");
        bed.damage(10 * BLOCK + 5, &[all[7 * BLOCK + 5] ^ 1]);
        let mut expected = hashes(&all);
        expected[7] = CORRUPT;
        assert_eq!(bed.digest_with(flags, 3 * BLOCK, 60 * BLOCK), expected[..60], "{variant:?}");
        assert_eq!(bed.digest_with(flags, 10 * BLOCK, BLOCK), [CORRUPT], "{variant:?}");
        assert_eq!(bed.digest_with(flags, 0, 3 * BLOCK), [digest_of(&[0; BLOCK]); 3], "{variant:?}: a hole");
        assert_eq!(bed.read(10 * BLOCK, BLOCK), Err(Failure::Corrupt), "{variant:?}");
        // Healed, and not flushed.
        bed.write(10 * BLOCK, &all[7 * BLOCK..8 * BLOCK]).unwrap();
        assert_eq!(bed.digest_with(flags, 3 * BLOCK, 60 * BLOCK), hashes(&all[..60 * BLOCK]), "{variant:?}");
        let SumsStatus { bad_blocks, rewritten_blocks, .. } = bed.status();
        assert_eq!((bad_blocks, rewritten_blocks), (0, 0), "{variant:?}");
    }
}

#[test]
fn a_digest_from_the_flash_beside_changes_takes_none_of_them_for_damage() {
    for variant in variants() {
        let mut bed = Bed::new(variant);
        for round in 0..20u64 {
            let writes =
                (0..16).map(|n| StoreOp { id: n, ..write(1, (n * 3000) % 40_000, pattern(round * 99 + n, 9000)) });
            let asked = (16..24).map(|id| StoreOp {
                id,
                data: vec![9; answer_bytes(64 << 10) as usize],
                flags: OpFlags::FROM_FLASH.with(OpFlags::BACKGROUND),
                ..bare(Op::Digest, 0, 64 << 10)
            });
            for (id, done) in bed.rig.run(writes.chain(asked).collect()) {
                assert_eq!(done.result, Ok(()), "{variant:?}");
                assert!(id < 16 || digests(&done.data).all(|hash| hash != CORRUPT), "{variant:?}");
            }
        }
        assert_eq!(bed.status().mismatches, 0, "{variant:?}");
    }
}

#[test]
fn checksums_go_on_when_an_extent_grows() {
    for variant in variants() {
        // Further than the room of its bitmap reaches, too.
        for grown_bytes in [SIZE_BYTES + 512, 3 * UNIT_BYTES, 4 * UNIT_BYTES + 3584, (32_768 + 5) * UNIT_BYTES] {
            let mut bed = Bed::new(variant);
            let (first, last) = (blocks(1, 3), blocks(2, 2));
            let last_at = SIZE_BYTES as usize - last.len();
            bed.write(7 * BLOCK, &first).unwrap();
            bed.write(last_at, &last).unwrap();
            assert_eq!(bed.rig.result(bare(Op::Flush, 0, 0)), Ok(()));
            let Bed { dir, rig, .. } = bed;
            drop(rig);
            let data = dir.path().join("data");
            let file = File::options().write(true).open(&data).unwrap();
            file.set_len(grown_bytes).unwrap();
            // What lies behind the old end was not written by the store: a partition has whatever was there.
            let behind = vec![0x5a; (grown_bytes - SIZE_BYTES).min(64 * 1024) as usize];
            file.write_all_at(&behind, SIZE_BYTES).unwrap();
            // A bit has flipped in a unit that was whole.
            file.write_all_at(&[!first[0]], 7 * BLOCK as u64).unwrap();
            let rig = Rig::open(config(&data, grown_bytes, variant));
            let path = dir.path().join("data.sums");
            let (sums, _) = Sums::open(&path, EXTENT, grown_bytes, &[NONCE]).unwrap();
            rig.store.keep_sums(sums).unwrap();
            let mut bed = Bed { dir, variant, mapped: Mapping::Auto, rig };
            assert_eq!(bed.read(7 * BLOCK, BLOCK), Err(Failure::Corrupt), "{variant:?} {grown_bytes}");
            assert_eq!(bed.read(8 * BLOCK, 2 * BLOCK).as_deref(), Ok(&first[BLOCK..]));
            assert_eq!(bed.read(last_at, last.len()).as_deref(), Ok(&last[..]));
            assert_eq!(bed.read(SIZE_BYTES as usize, behind.len()).as_deref(), Ok(&behind[..]));
            let written = blocks(3, 1);
            let at = (grown_bytes as usize - BLOCK) / BLOCK * BLOCK;
            bed.write(at, &written).unwrap();
            assert_eq!(bed.read(at, BLOCK).as_deref(), Ok(&written[..]));
            // It has that size from now on.
            assert!(Sums::open(&path, EXTENT, SIZE_BYTES, &[NONCE]).is_err());
            assert!(!path.with_extension("sums.new").exists());
        }
    }
}

#[test]
fn what_was_left_of_a_file_that_was_made_larger_is_in_nobodys_way() {
    let bed = Bed::new(variants()[0]);
    let path = bed.sums();
    std::fs::write(path.with_extension("sums.new"), b"cut off").unwrap();
    assert!(Sums::open(&path, EXTENT, 4 * UNIT_BYTES, &[ExtentId([1; 16])]).is_err(), "of another start");
    assert_eq!(Sums::open(&path, EXTENT, 4 * UNIT_BYTES, &[NONCE]).unwrap().1, NONCE);
    assert!(!path.with_extension("sums.new").exists());
}
