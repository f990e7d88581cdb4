//! Reads of 4 KiB that the memory mapping or the page cache answers.

use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use flashmob_core::op::{Op, OpFlags};
use flashmob_core::units::Time;
use flashmob_server::store::sync_record::SyncRecord;
use flashmob_server::store::{ExtentId, Mapping, Store, StoreConfig, StoreOp, TryRead};

use crate::harness::{Case, Turn, count_off};

const BLOCK: usize = 4096;
const SIZE_BYTES: u64 = 4 << 20;
const SECOND_NANOS: u64 = 1_000_000_000;
/// Reads of a turn.
const READS: usize = 64;

/// All cases.
pub fn all() -> Vec<Case> {
    let ways = [("mapped", Mapping::Auto), ("page cache", Mapping::Off)];
    let kinds = [("", false), (", with checksums", true)];
    let cases = ways.into_iter().flat_map(|way| kinds.map(|kind| (way, kind)));
    cases
        .map(|((way, mapped), (with, has_sums))| Case {
            name: format!("store, {way} hit/{READS} reads of 4 KiB{with}"),
            requests: READS,
            prepare: Box::new(move || prepare(mapped, has_sums)),
        })
        .collect()
}

/// A store in a folder of its own, whose bytes tell where they belong.
struct Bed {
    store: Store,
    woken: Receiver<()>,
    state: u64,
    _folder: tempfile::TempDir,
}

impl Bed {
    fn new(mapped: Mapping, has_sums: bool) -> Bed {
        let folder = tempfile::tempdir_in(option_env!("CARGO_TARGET_TMPDIR").unwrap_or(".")).expect("a folder");
        let path = folder.path().join("extent");
        let bytes: Vec<u8> = (0..SIZE_BYTES).step_by(BLOCK).flat_map(block).collect();
        std::fs::write(&path, bytes).expect("an extent");
        let (wake, woken) = channel();
        let wake = move || {
            // Nobody waits any more when the store is dropped.
            let _ = wake.send(());
        };
        let config = StoreConfig { size_bytes: Some(SIZE_BYTES), threads: 1, mapped, ..StoreConfig::new(&path) };
        let store = Store::open(config, Instant::now(), wake).unwrap_or_else(|e| panic!("{e}"));
        store.begin(SyncRecord::load(None, Vec::new()), None).unwrap_or_else(|e| panic!("{e}"));
        if has_sums {
            let made = store.make_sums(&path.with_extension("sums"), ExtentId([1; 16]), ExtentId([2; 16]));
            made.unwrap_or_else(|e| panic!("{e}"));
        }
        // Until the next tick nothing that is known of the page cache grows old.
        store.tick(Time(SECOND_NANOS));
        Bed { store, woken, state: 88_172_645_463_325_252, _folder: folder }
    }

    /// Reads, by way of the store's thread if it is no hit.
    fn read(&mut self, offset_bytes: u64) {
        let mut buf = [0; BLOCK];
        if self.store.try_read(offset_bytes, &mut buf) == TryRead::Hit {
            return;
        }
        let (op, flags, data) = (Op::Read, OpFlags::NONE, vec![0; BLOCK]);
        self.store.submit(&mut vec![StoreOp { id: 1, op, flags, offset_bytes, len_bytes: BLOCK as u32, data }]);
        let mut done = Vec::new();
        while done.is_empty() {
            self.woken.recv().expect("woken");
            self.store.take_done(&mut done);
        }
        assert!(done.iter().all(|done| done.result == Ok(())));
    }

    /// The place of a block that is not the last, which no mapping answers.
    fn place(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state % (SIZE_BYTES / BLOCK as u64 - 1) * BLOCK as u64
    }
}

/// The bytes of the block at a place.
fn block(offset_bytes: u64) -> [u8; BLOCK] {
    let mut bytes = [(offset_bytes >> 12) as u8; BLOCK];
    bytes[..8].copy_from_slice(&offset_bytes.to_le_bytes());
    bytes
}

fn prepare(mapped: Mapping, has_sums: bool) -> Turn {
    let mut bed = Bed::new(mapped, has_sums);
    // Often enough that everything has its checksum, is known to be resident, and was verified. Then a while later, when that is known of whole
    // regions.
    for now_nanos in [SECOND_NANOS, SECOND_NANOS * 2 + SECOND_NANOS / 2] {
        bed.store.tick(Time(now_nanos));
        (0..4).for_each(|_| (0..SIZE_BYTES).step_by(BLOCK).for_each(|at| bed.read(at)));
    }
    let mapped_before = bed.store.mapped_status().map(|status| status.reads);
    let mut turns = 0;
    let mut buf = [0; BLOCK];
    Box::new(move || {
        for _ in 0..READS {
            let at = count_off(|| bed.place());
            let tried = bed.store.try_read(at, &mut buf);
            count_off(|| assert!(tried == TryRead::Hit && buf == block(at), "{tried:?} at {at}"));
        }
        turns += 1;
        count_off(|| {
            let mapped_now = bed.store.mapped_status().map(|status| status.reads);
            let expected = mapped_before.map(|reads| reads + turns * READS as u64);
            assert_eq!(mapped_now, expected, "all of them were answered from the mapping, or none");
        });
    })
}
