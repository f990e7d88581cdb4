//! What a small read of cached bytes costs, by way of a bare `pread`, of `preadv2` with RWF_NOWAIT as the store does it
//! without a mapping, of the mapping, and of the mapping with prefetches ahead.
//!
//! One thread, random offsets over a file that is in the page cache. Five interleaved rounds; the table has the medians
//! in nanoseconds per read, and the least and the most. Every read is checked.
//!
//!     cargo bench -p flashmob-server --bench cached_reads            # 512 MiB in target/tmp
//!     cargo bench -p flashmob-server --bench cached_reads -- PATH    # a file of the same making, or a place for one; any size
//!     FLASHMOB_BENCH_BYTES=4294967296 FLASHMOB_BENCH_ROUNDS=3 FLASHMOB_BENCH_LINES=4 cargo bench ...
//!
//! `FLASHMOB_BENCH_LINES` is how many lines of 64 bytes of each read are prefetched, 1 unless given.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use flashmob_core::units::Time;
use flashmob_server::store::sync_record::SyncRecord;
use flashmob_server::store::{Mapping, Store, StoreConfig, TryRead};

/// Reads between two looks at the clock, as a node does it once per turn; and how many are known ahead.
const BATCH: usize = 256;
/// How many reads ahead is prefetched.
const AHEAD: usize = 8;
const LENGTHS: [usize; 6] = [1, 64, 512, 4096, 16384, 65536];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Pread,
    Preadv2,
    Mapped,
    Prefetched,
}

const WAYS: [Way; 4] = [Way::Pread, Way::Preadv2, Way::Mapped, Way::Prefetched];

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// The byte that the file has at `offset`.
fn byte_at(offset: u64) -> u8 {
    (offset.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

fn make(path: &Path, size_bytes: u64) -> std::io::Result<()> {
    let mut file = File::create(path)?;
    for start in (0..size_bytes).step_by(1 << 20) {
        let chunk: Vec<u8> = (start..size_bytes.min(start + (1 << 20))).map(byte_at).collect();
        file.write_all(&chunk)?;
    }
    file.sync_all()
}

/// Puts all of the file into the page cache.
fn warm(path: &Path) -> std::io::Result<()> {
    let (mut file, mut buf) = (File::open(path)?, vec![0; 1 << 20]);
    while file.read(&mut buf)? > 0 {}
    Ok(())
}

fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// Nanoseconds per read, and the share of reads that came from the mapping; `None` if something was not in the page cache.
fn measure(path: &Path, size_bytes: u64, way: Way, len: usize, reads: usize, seed: u64) -> Option<(f64, f64)> {
    let mapped = if way == Way::Mapped || way == Way::Prefetched { Mapping::Auto } else { Mapping::Off };
    let start = Instant::now();
    let config = StoreConfig { threads: 1, mapped, ..StoreConfig::new(path) };
    let store = Store::open(config, start, || {}).unwrap_or_else(|e| panic!("{e}"));
    store.begin(SyncRecord::load(None, Vec::new()), None).unwrap_or_else(|e| panic!("{e}"));
    let file = File::open(path).expect("the file");
    let mut buf = vec![0; len];
    let places = size_bytes / len as u64;
    let mut state = seed;
    let mut offsets = [0; BATCH];
    let lines = number("FLASHMOB_BENCH_LINES", 1).min(len.div_ceil(64) as u64);
    let prefetch = |offset: u64| (0..lines).for_each(|line| store.prefetch(offset + line * 64));
    let mut run = |batches: usize, check: bool| {
        let (mut nanos, mut misses) = (0, 0);
        for _ in 0..batches {
            offsets.iter_mut().for_each(|offset| *offset = random(&mut state) % places * len as u64);
            let begun = Instant::now();
            store.tick(Time((begun - start).as_nanos() as u64));
            if way == Way::Prefetched {
                offsets[..AHEAD].iter().for_each(|&offset| prefetch(offset));
            }
            for (i, &offset) in offsets.iter().enumerate() {
                if way == Way::Pread {
                    file.read_exact_at(&mut buf, offset).expect("read");
                } else {
                    if way == Way::Prefetched
                        && let Some(&ahead) = offsets.get(i + AHEAD)
                    {
                        prefetch(ahead);
                    }
                    if store.try_read(offset, &mut buf) != TryRead::Hit {
                        misses += 1;
                        continue;
                    }
                }
                if check {
                    assert_eq!((buf[0], buf[len - 1]), (byte_at(offset), byte_at(offset + len as u64 - 1)));
                }
            }
            nanos += begun.elapsed().as_nanos();
        }
        (misses == 0).then_some(nanos)
    };
    // Enough for every region to have been asked about, and for the page tables to be there. Checked, not timed.
    let regions = (size_bytes >> 21) as usize + 1;
    run((regions * 160).div_ceil(BATCH), true)?;
    let before = store.mapped_status().unwrap_or_default().reads;
    let batches = reads.div_ceil(BATCH);
    let nanos = run(batches, false)?;
    let from_mapping = store.mapped_status().unwrap_or_default().reads - before;
    let count = (batches * BATCH) as f64;
    Some((nanos as f64 / count, from_mapping as f64 / count))
}

fn main() {
    // Cargo passes options of its own.
    let given = std::env::args().skip(1).find(|arg| !arg.starts_with('-')).map(PathBuf::from);
    let path = given.unwrap_or_else(|| PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("cached_reads.img"));
    let wanted = number("FLASHMOB_BENCH_BYTES", 512 << 20);
    if std::fs::metadata(&path).map_or(0, |m| m.len()) != wanted {
        println!("making {} of {wanted} bytes", path.display());
        make(&path, wanted).expect("the file");
    }
    let rounds = number("FLASHMOB_BENCH_ROUNDS", 5) as usize;
    let mut all: Vec<Vec<(f64, f64)>> = vec![Vec::new(); WAYS.len() * LENGTHS.len()];
    for round in 0..rounds {
        warm(&path).expect("read");
        for (l, &len) in LENGTHS.iter().enumerate() {
            for (w, &way) in WAYS.iter().enumerate() {
                // About 0.2 s each.
                let reads = (300_000_000 / (600 + len * 60 / 1000)).min(500_000);
                let seed = 0x5eed + round as u64;
                let figure = loop {
                    match measure(&path, wanted, way, len, reads, seed) {
                        Some(figure) => break figure,
                        None => {
                            println!("something was not in the page cache: reading the file through, and once more");
                            warm(&path).expect("read");
                        }
                    }
                };
                all[l * WAYS.len() + w].push(figure);
            }
        }
    }
    println!("{rounds} rounds over {} MiB; ns per read: median (least to most); mapped: share of reads", wanted >> 20);
    print!("{:>8}", "bytes");
    WAYS.iter().for_each(|way| print!("{:>26}", format!("{way:?}")));
    println!("{:>8}", "mapped");
    for (l, len) in LENGTHS.iter().enumerate() {
        print!("{len:>8}");
        let mut share = 0.0;
        for w in 0..WAYS.len() {
            let rounds = &mut all[l * WAYS.len() + w];
            rounds.sort_by(|a, b| a.0.total_cmp(&b.0));
            let (least, median, most) = (rounds[0].0, rounds[rounds.len() / 2].0, rounds[rounds.len() - 1].0);
            print!("{:>26}", format!("{median:.1} ({least:.1} to {most:.1})"));
            share = rounds[rounds.len() / 2].1;
        }
        println!("{:>7.1}%", share * 100.0);
    }
}
