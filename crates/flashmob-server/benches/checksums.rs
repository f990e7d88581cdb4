//! What checksums cost: 4 KiB operations one at a time on an extent with and without them, by way of the page cache's fast paths, of the
//! store's thread, and of O_DIRECT.
//!
//! Two stores of one size, one with checksums; each round measures both in short slices in turn, so that a disk that others use is as slow
//! for both. The table has the medians in nanoseconds per operation, and the median, the least and the most of the rounds' ratios.
//!
//!     cargo bench -p flashmob-server --bench checksums           # 256 MiB each, in target/tmp
//!     FLASHMOB_BENCH_BYTES=1073741824 FLASHMOB_BENCH_ROUNDS=9 cargo bench ...

use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use flashmob_core::op::{Op, OpFlags};
use flashmob_core::units::Time;
use flashmob_server::store::sync_record::SyncRecord;
use flashmob_server::store::{ExtentId, Mapping, Store, StoreConfig, StoreDone, StoreOp, TryRead};

const BLOCK: usize = 4096;
/// Parts of a round, each of both stores.
const SLICES: usize = 20;
/// Operations between two looks at the clock.
const BATCH: usize = 256;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    /// Answered from the memory mapping.
    Mapped,
    /// Answered by `preadv2` from the page cache.
    Preadv2,
    /// By way of the store's thread, from the page cache.
    ThreadRead,
    /// Into the page cache.
    ThreadWrite,
    /// A part of a block, into the page cache.
    PartWrite,
    DirectRead,
    DirectWrite,
    /// On the flash before it ends.
    FuaWrite,
}

const WAYS: [(Way, usize); 8] = [
    (Way::Mapped, 400_000),
    (Way::Preadv2, 200_000),
    (Way::ThreadRead, 20_000),
    (Way::ThreadWrite, 20_000),
    (Way::PartWrite, 20_000),
    (Way::DirectRead, 2_000),
    (Way::DirectWrite, 2_000),
    (Way::FuaWrite, 100),
];

impl Way {
    fn is_direct(self) -> bool {
        matches!(self, Way::DirectRead | Way::DirectWrite)
    }
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

struct Bed {
    store: Store,
    woken: Receiver<()>,
    start: Instant,
    done: Vec<StoreDone>,
    places: u64,
    state: u64,
}

impl Bed {
    fn open(path: &Path, size_bytes: u64, way: Way, has_sums: bool) -> Bed {
        let (wake, woken) = channel();
        let mapped = if way == Way::Mapped { Mapping::On } else { Mapping::Off };
        let config = StoreConfig {
            size_bytes: Some(size_bytes),
            threads: 1,
            mapped,
            direct: way.is_direct(),
            ..StoreConfig::new(path)
        };
        let start = Instant::now();
        let wake = move || {
            // Nobody waits any more when the store is dropped.
            let _ = wake.send(());
        };
        let store = Store::open(config, start, wake).unwrap_or_else(|e| panic!("{e}"));
        store.begin(SyncRecord::load(None, Vec::new()), None).unwrap_or_else(|e| panic!("{e}"));
        if has_sums {
            // The bytes are there already: their checksums are made here, and not while it is measured.
            store
                .make_sums(&path.with_extension("sums"), ExtentId([1; 16]), ExtentId([2; 16]))
                .unwrap_or_else(|e| panic!("{e}"));
        }
        let mut bed = Bed {
            store,
            woken,
            start,
            done: Vec::new(),
            places: size_bytes / BLOCK as u64,
            state: 88_172_645_463_325_252,
        };
        let unit_blocks = 1024;
        for unit in 0..bed.places.div_ceil(unit_blocks) {
            bed.one(Op::Read, OpFlags::NONE, unit * unit_blocks * BLOCK as u64, BLOCK);
        }
        bed
    }

    fn one(&mut self, op: Op, flags: OpFlags, offset_bytes: u64, len: usize) {
        let mut ops = vec![StoreOp { id: 1, op, flags, offset_bytes, len_bytes: len as u32, data: vec![0x5a; len] }];
        self.store.submit(&mut ops);
        while self.done.is_empty() {
            self.woken.recv().expect("woken");
            self.store.take_done(&mut self.done);
        }
        assert!(self.done.drain(..).all(|done| done.result == Ok(())));
    }

    fn place(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state % (self.places - 1) * BLOCK as u64
    }

    /// Carries `count` operations out.
    fn run(&mut self, way: Way, count: usize) {
        let mut buf = [0; BLOCK];
        for i in 0..count {
            let at = self.place();
            if i % BATCH == 0 {
                let now = u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX);
                self.store.tick(Time(now));
            }
            match way {
                Way::Mapped | Way::Preadv2 => {
                    // A page that was evicted, or is locked at the moment, is read as a node would.
                    if self.store.try_read(at, &mut buf) != TryRead::Hit {
                        self.one(Op::Read, OpFlags::NONE, at, BLOCK);
                    }
                }
                Way::ThreadRead | Way::DirectRead => self.one(Op::Read, OpFlags::NONE, at, BLOCK),
                Way::ThreadWrite | Way::DirectWrite => self.one(Op::Write, OpFlags::NONE, at, BLOCK),
                Way::PartWrite => self.one(Op::Write, OpFlags::NONE, at + 1024, 512),
                Way::FuaWrite => self.one(Op::Write, OpFlags::FUA, at, BLOCK),
            }
        }
    }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() -> std::io::Result<()> {
    let size_bytes = number("FLASHMOB_BENCH_BYTES", 256 << 20);
    let rounds = number("FLASHMOB_BENCH_ROUNDS", 7).max(1);
    let folder = tempfile::tempdir_in(option_env!("CARGO_TARGET_TMPDIR").unwrap_or("."))?;
    let (plain, summed) = (folder.path().join("plain"), folder.path().join("summed"));
    for path in [&plain, &summed] {
        let part: Vec<u8> = (0..1u32 << 20).map(|i| (i.wrapping_mul(0x9e37_79b9) >> 24) as u8).collect();
        let mut file = std::fs::File::create(path)?;
        (0..size_bytes >> 20).try_for_each(|_| std::io::Write::write_all(&mut file, &part))?;
        file.sync_all()?;
    }
    println!("{} MiB each, {rounds} rounds; nanoseconds per operation", size_bytes >> 20);
    println!("{:>12} {:>12} {:>12} {:>8} {:>16}", "", "without", "with", "ratio", "least to most");
    for (way, count) in WAYS {
        let mut beds = [Bed::open(&plain, size_bytes, way, false), Bed::open(&summed, size_bytes, way, true)];
        let mut nanos = [Vec::new(), Vec::new()];
        for bed in &mut beds {
            bed.run(way, count / 2);
        }
        for round in 0..rounds as usize {
            let mut round_nanos = [0; 2];
            for slice in 0..SLICES {
                for which in [(round + slice) % 2, 1 - (round + slice) % 2] {
                    let begun = Instant::now();
                    beds[which].run(way, count / SLICES);
                    round_nanos[which] += begun.elapsed().as_nanos();
                }
            }
            for which in [0, 1] {
                nanos[which].push(round_nanos[which] as f64 / (count / SLICES * SLICES) as f64);
            }
        }
        let mut ratios: Vec<f64> = nanos[1].iter().zip(&nanos[0]).map(|(with, without)| with / without).collect();
        let [without, with] = &mut nanos;
        let ratio = median(&mut ratios);
        println!(
            "{:>12} {:>12.0} {:>12.0} {ratio:>8.2} {:>16}",
            format!("{way:?}"),
            median(without),
            median(with),
            format!("{:.2} to {:.2}", ratios[0], ratios[ratios.len() - 1])
        );
    }
    Ok(())
}
