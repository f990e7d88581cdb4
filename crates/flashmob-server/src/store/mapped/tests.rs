//! The mapping through the store's public methods, on real files, with the time passed in.

mod faults;
mod residency;
mod signals;

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use flashmob_core::node::TryRead;
use flashmob_core::op::{Failure, Op};
use flashmob_core::units::Time;

use super::residency::{HITS_BEFORE_ASKING, REGION_BYTES};
use super::*;
use crate::store::tests::{Rig, bare, pattern, write};
use crate::store::{Mapping, StoreConfig};

/// A millisecond, in nanoseconds.
const MS: u64 = 1_000_000;

/// A store over a file full of [`pattern`], its time, and the folder that both lie in.
struct Scene {
    rig: Rig,
    now_ms: u64,
    path: PathBuf,
    bytes: Vec<u8>,
    _dir: tempfile::TempDir,
}

impl Scene {
    fn new(size_bytes: u64) -> Scene {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("data");
        let bytes = pattern(0, size_bytes as usize);
        std::fs::write(&path, &bytes).unwrap();
        File::open(&path).unwrap().sync_all().unwrap();
        let rig = Rig::open(StoreConfig::new(&path));
        let mut scene = Scene { rig, now_ms: 0, path, bytes, _dir: dir };
        scene.pass_ms(10);
        scene
    }

    fn pass_ms(&mut self, ms: u64) {
        self.now_ms += ms;
        self.rig.store.tick(Time(self.now_ms * MS));
    }

    fn mapped_reads(&self) -> u64 {
        self.rig.store.mapped_status().expect("mapped").reads
    }

    /// Reads, checks the bytes, and says whether the mapping gave them.
    fn read(&self, offset: u64, len: usize) -> bool {
        let before = self.mapped_reads();
        let mut buf = vec![0xEE; len];
        let mut tried = self.rig.store.try_read(offset, &mut buf);
        if tried == TryRead::Miss && self.rig.store.medium.lacks_nowait() {
            // Where no system call says what is in memory, the store's threads read what the mapping does not have.
            File::open(&self.path).unwrap().read_exact_at(&mut buf, offset).unwrap();
            tried = TryRead::Hit;
        }
        assert_eq!(tried, TryRead::Hit, "{offset} {len}");
        assert!(buf == self.bytes[offset as usize..][..len], "{offset} {len}: other bytes");
        self.mapped_reads() > before
    }

    /// Reads so often that the region of `offset` is asked about.
    fn warm(&self, offset: u64) {
        for _ in 0..=HITS_BEFORE_ASKING {
            self.read(offset, 1);
        }
        assert!(self.read(offset, 1), "mapped after {HITS_BEFORE_ASKING} reads");
    }

    fn mapped(&self) -> &Mapped {
        self.rig.store.medium.mapped().expect("mapped")
    }

    /// Evicts the file, until this page of it is gone.
    fn evict(&self, page: u64) {
        crate::store::tests::evict(&self.path, || {
            let mut pages = [0];
            let is_known = self.mapped().memory.resident(page * self.page(), &mut pages);
            // Mapped pages are not evicted by advice: their page tables go first, as they do when memory is short.
            self.mapped().memory.drop_page_tables();
            is_known && pages[0] & 1 == 0
        });
    }

    fn page(&self) -> u64 {
        rustix::param::page_size() as u64
    }
}

fn truncate(path: &Path, size_bytes: u64) {
    OpenOptions::new().write(true).open(path).unwrap().set_len(size_bytes).unwrap();
}

#[test]
fn reads_around_the_borders_of_pages_and_regions_are_right_and_mapped() {
    let scene = Scene::new(2 * REGION_BYTES + 5 * 65536 + 77);
    for region in 0..3 {
        scene.warm(region * REGION_BYTES);
    }
    let page = scene.page();
    for border in [page, 3 * page, REGION_BYTES - page, REGION_BYTES, REGION_BYTES + page, 2 * REGION_BYTES] {
        for start in [border - page, border - 513, border - 2, border - 1, border, border + 1] {
            for len in [1, 2, 3, 8, 511, 512, 513, page as usize, page as usize + 1, READ_BYTES_MAX] {
                assert!(scene.read(start, len), "{start} {len} was not mapped");
            }
        }
    }
    assert!(!scene.read(page, READ_BYTES_MAX + 1), "longer ones go by system call");
}

#[test]
fn the_last_page_is_never_read_from_the_mapping() {
    for tail in [0, 1, 77] {
        let size = 300 * 4096 + tail;
        let scene = Scene::new(size);
        scene.warm(0);
        let page = scene.page();
        let last_page = (size - 1) / page * page;
        assert!(scene.read(last_page - 10, 10), "{tail}: up to it");
        for (offset, len) in
            [(last_page - 10, 11), (last_page, 1), (size - 1, 1), (last_page, (size - last_page) as usize)]
        {
            assert!(!scene.read(offset, len), "{tail} {offset} {len}");
        }
    }
}

#[test]
fn reads_beyond_the_end_are_refused_as_ever() {
    let scene = Scene::new(REGION_BYTES);
    scene.warm(0);
    for (offset, len) in [(REGION_BYTES, 1), (REGION_BYTES - 1, 2), (u64::MAX, 1), (u64::MAX - 5, 10)] {
        let result = scene.rig.store.try_read(offset, &mut vec![0; len]);
        assert_eq!(result, TryRead::Failed(Failure::Invalid), "{offset} {len}");
    }
    assert_eq!(scene.rig.store.try_read(5, &mut []), TryRead::Hit, "nothing is always there");
}

#[test]
fn nothing_is_mapped_that_is_off_direct_tiny_or_without_a_clock() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data");
    std::fs::write(&path, pattern(0, 1 << 20)).unwrap();
    let plain = StoreConfig::new(&path);
    let off = StoreConfig { mapped: Mapping::Off, ..plain.clone() };
    let no_io = StoreConfig { no_io: true, ..plain.clone() };
    let direct = StoreConfig { direct: true, ..plain.clone() };
    let ways = if crate::store::tests::is_left_out("direct") { vec![off, no_io] } else { vec![off, no_io, direct] };
    for config in ways {
        assert_eq!(Rig::open(config.clone()).store.mapped_status(), None, "{config:?}");
    }
    let rig = Rig::open(plain);
    for _ in 0..300 {
        assert_eq!(rig.store.try_read(0, &mut [0]), TryRead::Hit);
    }
    assert_eq!(rig.store.mapped_status(), Some(MappedStatus::default()), "no tick, no mapped read");
    drop(rig);
    let page = rustix::param::page_size();
    std::fs::write(&path, pattern(0, page)).unwrap();
    assert_eq!(Rig::open(StoreConfig::new(&path)).store.mapped_status(), None);
}

#[test]
fn a_region_is_asked_about_only_after_enough_reads_and_only_while_its_answer_holds() {
    let mut scene = Scene::new(2 * REGION_BYTES);
    for _ in 0..HITS_BEFORE_ASKING {
        assert!(!scene.read(0, 1));
    }
    for _ in 0..20 {
        assert!(scene.read(4096, 1));
    }
    assert!(!scene.read(REGION_BYTES, 1), "its neighbour is another matter");
    scene.pass_ms(900);
    assert!(scene.read(4096, 1));
    scene.pass_ms(2000);
    assert!(scene.read(4096, 1), "renewed at once: it had served enough");
    scene.pass_ms(2000);
    assert!(!scene.read(4096, 1), "one read in two seconds is not worth asking");
}

#[test]
fn where_no_system_call_can_tell_the_mapping_finds_out_by_itself() {
    let scene = Scene::new(REGION_BYTES);
    scene.rig.store.medium.lose_nowait();
    let mut buf = [0; 512];
    for _ in 0..HITS_BEFORE_ASKING {
        assert_eq!(scene.rig.store.try_read(4096, &mut buf), TryRead::Miss);
    }
    assert!(scene.read(4096, 512));
}

#[test]
fn a_write_that_was_acknowledged_is_seen_at_once() {
    let mut scene = Scene::new(REGION_BYTES);
    scene.warm(0);
    for round in 0..200u64 {
        let (offset, len) = (round * 4099, 1 + (round as usize * 97) % 9000);
        let data = pattern(round + 1, len);
        scene.bytes[offset as usize..][..len].copy_from_slice(&data);
        scene.rig.result(write(1, offset, data)).unwrap();
        assert!(scene.read(offset, len), "mapped");
    }
}

#[test]
fn zeros_that_were_acknowledged_are_seen_at_once_and_are_no_surprise() {
    let mut scene = Scene::new(2 * REGION_BYTES);
    for (op, offset) in [(Op::WriteZeroes, 100_000u64), (Op::Trim, 500_000), (Op::WriteZeroes, REGION_BYTES - 30_000)] {
        scene.warm(0);
        scene.warm(REGION_BYTES);
        scene.rig.result(bare(op, offset, 60_000)).unwrap();
        scene.bytes[offset as usize..][..60_000].fill(0);
        let touched = [offset - 100, offset, offset + 30_000, offset + 59_999];
        for at in touched {
            let mut byte = [0xEE];
            // Not in the page cache any more: a miss is right, old bytes are not.
            if scene.rig.store.try_read(at, &mut byte) == TryRead::Hit {
                assert_eq!(byte[0], scene.bytes[at as usize], "{op:?} {at}");
            }
            assert_eq!(scene.rig.read(at, 1).unwrap(), [scene.bytes[at as usize]], "{op:?} {at}");
        }
    }
}

#[test]
fn an_evicted_page_goes_the_old_way() {
    // The locked last page keeps its neighbours in memory, as far as they are one folio: so a larger file, of which we take
    // the beginning.
    let mut scene = Scene::new(4 * REGION_BYTES);
    scene.warm(0);
    let file = File::open(&scene.path).unwrap();
    scene.evict(5);
    // Bring a part of it back, and let the answer grow old. Readahead brings more than that.
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::Random).unwrap();
    rustix::io::pread(&file, &mut vec![0; 100_000], 0).unwrap();
    scene.pass_ms(3000);
    let (mapped, page) = (scene.mapped(), scene.page());
    mapped.renew(0);
    let mut pages = vec![0; mapped.residency.pages_per_region()];
    assert!(mapped.memory.resident(0, &mut pages));
    let is_there = |page: usize| pages[page] & 1 == 1;
    for i in 0..pages.len() {
        assert_eq!(mapped.residency.look(i as u64 * page, 1) == Look::Resident, is_there(i), "{i}");
    }
    let gone = (0..pages.len()).rfind(|&i| !is_there(i)).expect("an evicted page") as u64;
    let before = scene.mapped_reads();
    // A miss, or a hit of the system call if the page has just been fetched by somebody else.
    assert_ne!(scene.rig.store.try_read(gone * page, &mut [0; 512]), TryRead::Failed(Failure::Io));
    assert_eq!(scene.mapped_reads(), before, "what was evicted was not read through the mapping");
    assert!(scene.read(0, 512), "what is there was");
    assert_eq!(scene.rig.store.mapped_status().unwrap().major_faults, 0);
}

#[test]
fn a_page_evicted_behind_our_back_is_read_right_and_followed_by_a_pause() {
    let mut scene = Scene::new(4 * REGION_BYTES);
    scene.warm(0);
    // Evicted right after the kernel was asked, which no answer can foresee.
    scene.evict(5);
    for _ in 0..20 {
        assert!(scene.read(5 * scene.page(), 512), "believed to be there, and waited for");
    }
    scene.pass_ms(1100);
    assert!(!scene.read(5 * scene.page(), 512), "the wait was noticed when the region was asked about again");
    assert!(scene.rig.store.mapped_status().unwrap().major_faults > 0);
    scene.pass_ms(1900);
    assert!((0..=HITS_BEFORE_ASKING).all(|_| !scene.read(5 * scene.page(), 512)), "paused");
    scene.pass_ms(200);
    scene.warm(5 * scene.page());
}

#[test]
fn a_reader_beside_a_writer_sees_old_or_new_words_and_nothing_else() {
    let scene = Scene::new(REGION_BYTES);
    scene.warm(0);
    let file = OpenOptions::new().write(true).open(&scene.path).unwrap();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut value = 1u8;
            while !stop.load(Ordering::Relaxed) {
                rustix::io::pwrite(&file, &[value; 4096], 8192).unwrap();
                value = value % 7 + 1;
            }
        });
        let before = scene.mapped_reads();
        let old = scene.bytes[8192..12288].to_vec();
        let results: Vec<(TryRead, bool)> = (0..20_000)
            .map(|_| {
                let mut buf = [0xEE; 4096];
                let result = scene.rig.store.try_read(8192, &mut buf);
                (result, buf.iter().zip(&old).all(|(byte, old)| (1..=7).contains(byte) || byte == old))
            })
            .collect();
        // Before anything is judged: a writer that nobody stops is waited for without end.
        stop.store(true, Ordering::Relaxed);
        let may_miss = scene.rig.store.medium.lacks_nowait();
        for (result, is_right) in results {
            assert!(result == TryRead::Hit || (may_miss && result == TryRead::Miss), "{result:?}");
            assert!(is_right || result == TryRead::Miss, "other words");
        }
        assert!(scene.mapped_reads() >= before + if may_miss { 1 } else { 19_000 });
    });
}

#[test]
fn page_tables_that_were_dropped_come_back_with_the_same_bytes() {
    let scene = Scene::new(3 * REGION_BYTES);
    scene.warm(REGION_BYTES);
    scene.mapped().memory.drop_page_tables();
    assert!(scene.read(REGION_BYTES + 12345, 4096));
}

#[test]
fn only_writers_and_owners_are_told_what_is_resident() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data");
    std::fs::write(&path, [1; 100]).unwrap();
    assert!(tells_residency(&File::open(&path).unwrap()).unwrap(), "our own file, though read only");
    let other = File::open("/proc/self/exe").unwrap();
    let owner = rustix::fs::fstat(&other).unwrap().st_uid;
    let me = rustix::process::geteuid();
    assert_eq!(tells_residency(&other).unwrap(), me.is_root() || owner == me.as_raw());
    let writable = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    assert!(tells_residency(&writable).unwrap());
}

#[test]
fn file_systems_that_are_not_known_to_be_fit_are_left_alone() {
    let file = File::open("/proc/self/status").unwrap();
    let error = check_fitness(&file, 1 << 20, false).unwrap_err();
    assert!(error.to_string().contains("0x9fa0"), "{error}");
}
