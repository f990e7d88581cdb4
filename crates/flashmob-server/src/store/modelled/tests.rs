//! The modelled engine on real files, in real time: nothing is answered before the model is done, everything is
//! answered once, and the bytes are right. How late answers are nobody asserts here.

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use flashmob_core::op::OpFlags;
use flashmob_core::wire::digest::{CORRUPT, digest_of, digests};
use flashmob_lab::flash::{Model, Profile};

use super::super::sums::format::BLOCK_BYTES;
use super::super::tests::{Rig, bare, config, pattern, read, variants, with, write};
use super::super::{Engine, ExtentId, StoreConfig};
use super::*;

const MIB: u64 = 1 << 20;

fn model(name: &str) -> Option<Arc<dyn DeviceModel>> {
    // Without jitter a lower bound can be computed.
    Some(Arc::new(Model::new(Profile { jitter_percent: 0, ..Profile::named(name).unwrap() }, 1.0, 1)))
}

fn modelled(path: &Path, name: &str) -> StoreConfig {
    StoreConfig { model: model(name), ..config(path, MIB, (Engine::Threads, false)) }
}

fn rig(name: &str) -> (tempfile::TempDir, Rig) {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::open(modelled(&dir.path().join("extent"), name));
    (dir, rig)
}

fn access(name: &str) -> Duration {
    Duration::from_nanos(Profile::named(name).unwrap().read.access_ns)
}

#[test]
fn a_read_is_never_answered_before_the_model_is_done() {
    let (_dir, mut rig) = rig("nexus7-emmc");
    for i in 0..20 {
        let began = Instant::now();
        rig.read(i * 40_960, 4096).unwrap();
        let took = began.elapsed();
        assert!(took >= access("nexus7-emmc") * 9 / 10, "{took:?}");
    }
    let status = rig.store.model_status().unwrap();
    assert_eq!((status.counters.served, status.counters.reads, status.lateness_ns.len()), (20, 20, 20));
}

#[test]
fn what_is_in_memory_is_not_answered_at_once_either() {
    let (_dir, mut rig) = rig("sdcard");
    assert!(rig.store.mapped_status().is_none());
    for _ in 0..2 {
        rig.read(0, 4096).unwrap();
        let mut buf = [0; 16];
        assert_eq!(rig.store.try_read(0, &mut buf), TryRead::Miss);
    }
    assert_eq!(rig.store.model_status().unwrap().counters.reads, 2);
}

#[test]
fn as_many_are_served_at_once_as_there_are_slots() {
    let (_dir, mut rig) = rig("nexus7-emmc");
    let began = Instant::now();
    let ops = (0..40).map(|i| read(i, (i * 7 % 40) * 8192, 1)).collect();
    assert_eq!(rig.run(ops).len(), 40);
    let took = began.elapsed();
    let service_ns = rig.store.model_status().unwrap().counters.service_ns;
    assert!(took >= Duration::from_nanos(service_ns / 4), "{took:?}");
    // Four at once took it: one after the other would be the sum of all, and a loaded machine must not fail this.
    assert!(service_ns >= 40 * access("nexus7-emmc").as_nanos() as u64 * 9 / 10);
}

#[test]
fn bytes_are_right_on_every_engine() {
    for variant in variants() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("extent");
        let mut rig = Rig::open(StoreConfig { model: model("ufs"), ..config(&path, MIB, variant) });
        let data = pattern(7, 12_288);
        assert_eq!(rig.result(write(1, 4096, data.clone())), Ok(()));
        assert_eq!(rig.read(4096, 12_288).unwrap(), data);
        assert_eq!(rig.result(bare(Op::WriteZeroes, 4096, 4096)), Ok(()));
        assert_eq!(rig.read(4096, 8192).unwrap(), [&[0; 4096][..], &data[4096..8192]].concat());
        let asked = rig.one(StoreOp { data: vec![0; 16], ..bare(Op::Digest, 4096, 8192) });
        let hashes: Vec<u64> = digests(&asked.data).collect();
        assert_eq!((asked.result, hashes), (Ok(()), vec![digest_of(&[0; 4096]), digest_of(&data[4096..8192])]));
        assert_eq!(rig.result(bare(Op::Trim, 8192, 4096)), Ok(()));
        assert_eq!(rig.result(bare(Op::Flush, 0, 0)), Ok(()));
        let counters = rig.store.model_status().unwrap().counters;
        assert_eq!((counters.reads, counters.writes, counters.flushes), (3, 3, 1), "{variant:?}");
        drop(rig);
        assert_eq!(&std::fs::read(&path).unwrap()[12_288..16_384], &data[8192..]);
    }
}

#[test]
fn bytes_that_do_not_match_their_checksums_are_found_on_every_engine_and_no_sooner_than_the_model_says() {
    const BLOCK: usize = BLOCK_BYTES;
    for variant in variants() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("extent");
        let mut rig = Rig::open(StoreConfig { model: model("ufs"), ..config(&path, MIB, variant) });
        rig.store.make_sums(&dir.path().join("sums"), ExtentId([1; 16]), ExtentId([2; 16])).unwrap();
        let data = pattern(7, 4 * BLOCK);
        assert_eq!(rig.result(write(1, 0, data.clone())), Ok(()));
        assert_eq!(rig.result(write(2, BLOCK as u64 + 5, data[BLOCK + 5..BLOCK + 9].to_vec())), Ok(()));
        // What the page cache has is answered without a thread, and matches.
        assert_eq!(rig.read(1, 4 * BLOCK - 2).unwrap(), data[1..4 * BLOCK - 1]);
        assert_eq!(rig.result(bare(Op::Flush, 0, 0)), Ok(()));
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        file.write_all_at(&[data[BLOCK + 77] ^ 4], BLOCK as u64 + 77).unwrap();
        file.sync_all().unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        let served = rig.store.model_status().unwrap().counters.served;
        for (offset, len, is_bad) in
            [(0, BLOCK, false), (BLOCK, BLOCK, true), (BLOCK + 4000, 1, true), (2 * BLOCK, 2 * BLOCK, false)]
        {
            let service_ns = rig.store.model_status().unwrap().counters.service_ns;
            let began = Instant::now();
            let expected = if is_bad { Err(Failure::Corrupt) } else { Ok(data[offset..offset + len].to_vec()) };
            assert_eq!(rig.read(offset as u64, len), expected, "{variant:?}: {offset}+{len}");
            let took = began.elapsed();
            let service_ns = rig.store.model_status().unwrap().counters.service_ns - service_ns;
            assert!(took >= Duration::from_nanos(service_ns) * 9 / 10, "{variant:?}: {offset}+{len}: {took:?}");
        }
        let asked = rig.one(StoreOp { data: vec![0; 16], ..bare(Op::Digest, 0, 2 * BLOCK as u32) });
        let hashes: Vec<u64> = digests(&asked.data).collect();
        assert_eq!((asked.result, hashes), (Ok(()), vec![digest_of(&data[..BLOCK]), CORRUPT]), "{variant:?}");
        assert_eq!(rig.result(write(3, BLOCK as u64, vec![1; 9])), Err(Failure::Corrupt), "{variant:?}: a part of it");
        assert_eq!(
            rig.store.model_status().unwrap().counters.served,
            served + 6,
            "{variant:?}: each is one of the model's"
        );
        assert_eq!(rig.store.sums_status().unwrap().bad_blocks, 1, "{variant:?}");
        assert_eq!(rig.result(write(4, BLOCK as u64, data[BLOCK..2 * BLOCK].to_vec())), Ok(()), "{variant:?}");
        assert_eq!(rig.read(0, 4 * BLOCK).unwrap(), data, "{variant:?}");
        assert_eq!(rig.store.sums_status().unwrap().bad_blocks, 0, "{variant:?}");
    }
}

#[test]
fn a_flush_and_a_durable_write_take_as_long_as_the_model_flushes() {
    let (_dir, mut rig) = rig("sdcard");
    let profile = Profile::named("sdcard").unwrap();
    let (flush, writing) = (Duration::from_nanos(profile.flush_ns), Duration::from_nanos(profile.write.sequential_ns));
    rig.result(write(1, 0, vec![1; 4096])).unwrap();
    let began = Instant::now();
    rig.result(bare(Op::Flush, 0, 0)).unwrap();
    assert!(began.elapsed() >= flush * 9 / 10, "{:?}", began.elapsed());
    let began = Instant::now();
    rig.result(with(OpFlags::FUA, write(2, 4096, vec![2; 4096]))).unwrap();
    assert!(began.elapsed() >= (flush + writing) * 9 / 10, "{:?}", began.elapsed());
    assert_eq!(rig.store.model_status().unwrap().counters.flushes, 2);
}

#[test]
fn errors_pass_through_and_hold_nobody_up() {
    let (dir, mut rig) = rig("nexus7-emmc");
    assert_eq!(rig.read(MIB, 1), Err(Failure::Invalid));
    assert_eq!(rig.read(u64::MAX - 3, 8), Err(Failure::Invalid));
    let mixed = rig.run(vec![read(1, 0, 4096), read(2, MIB - 1, 2), read(3, 4096, 4096)]);
    assert_eq!(mixed.values().map(|done| done.result).collect::<Vec<_>>(), [Ok(()), Err(Failure::Invalid), Ok(())]);
    std::fs::File::options().write(true).open(dir.path().join("extent")).unwrap().set_len(4096).unwrap();
    assert_eq!(rig.result(write(4, 0, vec![1])), Err(Failure::Io));
    assert!(rig.store.is_damaged());
    assert_eq!(rig.read(0, 1), Err(Failure::Io));
}

#[test]
fn a_device_faster_than_threads_wake_answers_everything_once() {
    let (_dir, mut rig) = rig("nvme");
    for round in 0..20 {
        let ops = (0..256).map(|i| read(i, (i * 31 + round) % 256 * 4096, 512)).collect();
        assert_eq!(rig.run(ops).len(), 256);
    }
    assert_eq!(rig.store.model_status().unwrap().counters.served, 20 * 256);
}

#[test]
fn what_was_submitted_is_written_when_the_store_is_dropped() {
    let (dir, mut rig) = rig("sdcard");
    let mut ops = (0..64).map(|i| write(i, i * 4096, vec![9; 4096])).collect();
    rig.store.submit(&mut ops);
    drop(rig);
    let bytes = std::fs::read(dir.path().join("extent")).unwrap();
    assert!(bytes[..64 * 4096].iter().all(|&byte| byte == 9));
}

#[test]
fn the_store_holds_more_than_the_slots_so_that_none_runs_dry() {
    for profile in Profile::ALL {
        let depth = Model::new(profile, 1.0, 0).depth();
        assert!(depth >= profile.slots as usize + 4, "{}", profile.name);
        assert!(depth <= 4 * profile.slots as usize + 64, "{}: something is left to sort", profile.name);
    }
}
