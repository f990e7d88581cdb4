//! A volume as a Rust value: what programs that link flashmob can do with it, over local extents and remote nodes.

mod cluster;

use std::path::Path;
use std::sync::Barrier;
use std::thread;

use flashmob_core::op::Failure;
use flashmob_core::request::REQUEST_BYTES_MAX;
use flashmob_server::config::Config;
use flashmob_server::{Volume, VolumeError};
use rand::rngs::SmallRng;
use rand::{Rng, RngCore, SeedableRng};
use tempfile::TempDir;

const MIB: usize = 1 << 20;

/// A volume over two local extents and two remote nodes, of different sizes.
struct Mixed {
    volume: Volume,
    sizes_bytes: Vec<usize>,
    // After the volume, which is dropped first.
    _nodes: Vec<cluster::Node>,
    folder: TempDir,
}

/// `lines` go into the volume's section.
fn mixed(lines: &str) -> Mixed {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |n: usize| folder.path().join(format!("extent{n}"));
    let sizes_bytes = vec![MIB + 512, 2 * MIB, MIB, MIB + 4096];
    let mut nodes = Vec::new();
    let mut config = format!("[[volume]]\nname = 'v'\ntimeout = '5s'\n{lines}\n");
    for (n, size) in sizes_bytes.iter().enumerate() {
        if n % 2 == 0 {
            config += &format!("[[volume.node]]\npath = '{}'\nsize = '{size}'\n", path(n).display());
        } else {
            let node = cluster::node(&path(n), *size as u64);
            // The size is learnt from the node.
            config += &format!("[[volume.node]]\naddress = '{}'\n", node.address);
            nodes.push(node);
        }
    }
    Mixed { volume: open(&config).expect("a volume"), sizes_bytes, _nodes: nodes, folder }
}

fn open(config: &str) -> Result<Volume, VolumeError> {
    let config = Config::parse(config, "test.toml", Path::new("/")).unwrap_or_else(|e| panic!("{e}"));
    Volume::with_config(&config, "v")
}

impl Mixed {
    fn size(&self) -> usize {
        usize::try_from(self.volume.size_bytes()).expect("a small volume")
    }

    fn read_all(&self) -> Vec<u8> {
        self.volume.read_at(0, self.size() as u32).wait().expect("all of it")
    }

    /// Writes random bytes everywhere, and returns them.
    fn fill(&self, seed: u64) -> Vec<u8> {
        let mut bytes = vec![0; self.size()];
        SmallRng::seed_from_u64(seed).fill_bytes(&mut bytes);
        self.volume.write_at(0, bytes.clone()).wait().expect("written");
        bytes
    }

    /// The extents' files, as they are.
    fn files(&self) -> Vec<Vec<u8>> {
        let file = |n| std::fs::read(self.folder.path().join(format!("extent{n}"))).expect("an extent");
        (0..self.sizes_bytes.len()).map(file).collect()
    }
}

fn failure<T: std::fmt::Debug>(result: Result<T, VolumeError>) -> Failure {
    match result {
        Err(VolumeError::Failed(failure)) => failure,
        other => panic!("{other:?}"),
    }
}

#[test]
fn thousands_of_spans_come_back_in_their_order() {
    for lines in ["layout = 'linear'", "layout = 'striped'\nstripe = '4KiB'\nbatch = 100", "links = 3\nbatch = 1"] {
        let mixed = mixed(lines);
        let bytes = mixed.fill(1);
        let mut random = SmallRng::seed_from_u64(2);
        let spans: Vec<(u64, u32)> = (0..5000)
            .map(|i| {
                let len = if i % 100 == 0 { random.random_range(1..20_000) } else { random.random_range(1..40) };
                (random.random_range(0..mixed.size() - len) as u64, len as u32)
            })
            .collect();
        let expected: Vec<u8> =
            spans.iter().flat_map(|&(at, len)| &bytes[at as usize..][..len as usize]).copied().collect();
        assert!(mixed.volume.read_many(spans).wait().expect("bytes") == expected, "{lines}");
    }
}

#[test]
fn a_linear_volume_is_its_files_end_to_end() {
    let mixed = mixed("layout = 'linear'");
    assert_eq!(mixed.size(), mixed.sizes_bytes.iter().sum::<usize>());
    let bytes = mixed.fill(3);
    mixed.volume.flush().wait().expect("flushed");
    assert!(mixed.files().concat() == bytes);
}

#[test]
fn a_striped_volume_deals_its_stripes_out() {
    let mixed = mixed("layout = 'striped'\nstripe = '64KiB'");
    let bytes = mixed.fill(4);
    mixed.volume.flush().wait().expect("flushed");
    let files = mixed.files();
    // Rows begin with the extent that has most stripes; the others have 16 each.
    for (n, stripe) in bytes.chunks(64 << 10).take(4 * 16).enumerate() {
        let file = &files[[1, 0, 2, 3][n % 4]];
        assert!(file[n / 4 * (64 << 10)..][..stripe.len()] == *stripe, "stripe {n}");
    }
}

#[test]
fn changes_of_every_kind_are_seen_by_later_reads() {
    let mixed = mixed("layout = 'striped'\nstripe = '4KiB'");
    let mut bytes = mixed.fill(5);
    let volume = &mixed.volume;
    volume.write_at_fua(4090, *b"across two nodes").wait().expect("written");
    bytes[4090..4106].copy_from_slice(b"across two nodes");
    volume.write_zeroes(10_000, 100_001).wait().expect("zeroed");
    bytes[10_000..110_001].fill(0);
    volume.flush().wait().expect("flushed");
    assert!(mixed.read_all() == bytes);
    volume.trim(200_000, 50_000).wait().expect("trimmed");
    let after = volume.read_at(200_000, 50_000).wait().expect("bytes");
    let is_trimmed = |(at, &byte): (usize, &u8)| byte == 0 || byte == bytes[200_000 + at];
    assert!(after.iter().enumerate().all(is_trimmed), "trimmed bytes read as zeros or as before");
    bytes[200_000..250_000].copy_from_slice(&after);
    assert!(mixed.read_all() == bytes, "nothing else has changed");
}

#[test]
fn what_lies_outside_or_has_no_meaning_is_invalid() {
    let mixed = mixed("");
    let (volume, size) = (&mixed.volume, mixed.size() as u64);
    assert_eq!(volume.read_at(size - 1, 1).wait().expect("the last byte"), [0]);
    for (offset, len) in [(size, 1), (size - 1, 2), (u64::MAX, 1), (u64::MAX - 1, u32::MAX), (0, 0)] {
        assert_eq!(failure(volume.trim(offset, len).wait()), Failure::Invalid, "trim {offset}+{len}");
        assert_eq!(failure(volume.write_zeroes(offset, len).wait()), Failure::Invalid, "zero {offset}+{len}");
        let len = len.min(2);
        assert_eq!(failure(volume.read_at(offset, len).wait()), Failure::Invalid, "read {offset}+{len}");
        let data = vec![1; len as usize];
        assert_eq!(failure(volume.write_at(offset, data).wait()), Failure::Invalid, "write {offset}+{len}");
    }
    assert_eq!(failure(volume.read_many(Vec::new()).wait()), Failure::Invalid, "nothing");
    assert_eq!(failure(volume.read_many(vec![(0, 1), (size, 1)]).wait()), Failure::Invalid, "one of many");
    assert!(mixed.read_all().iter().all(|&byte| byte == 0), "nothing was written");
}

#[test]
fn thirty_two_mebibytes_are_the_most_that_one_call_carries() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("extent");
    let config = format!("[[volume]]\nname = 'v'\n[[volume.node]]\npath = '{}'\nsize = '40MiB'\n", path.display());
    let volume = open(&config).expect("a volume");
    let most = REQUEST_BYTES_MAX;
    assert_eq!(volume.read_at(0, most).wait().expect("bytes").len(), most as usize);
    assert_eq!(failure(volume.read_at(0, most + 1).wait()), Failure::TooLarge);
    let halves = |more| vec![(0, most / 2), (1 << 20, most / 2 + more)];
    assert_eq!(volume.read_many(halves(0)).wait().expect("bytes").len(), most as usize);
    assert_eq!(failure(volume.read_many(halves(1)).wait()), Failure::TooLarge);
    let data = vec![7; most as usize + 1];
    volume.write_at(3, &data[1..]).wait().expect("written");
    assert_eq!(failure(volume.write_at(0, data).wait()), Failure::TooLarge);
    assert_eq!(volume.read_at(0, 4).wait().expect("bytes"), [0, 0, 0, 7]);
    volume.trim(0, 40 << 20).wait().expect("a trim has no payload");
}

#[test]
fn a_read_only_volume_is_read_and_not_changed() {
    let mixed = mixed("read_only = true");
    let volume = &mixed.volume;
    assert_eq!(volume.read_at(5, 3).wait().expect("bytes"), [0; 3]);
    assert_eq!(failure(volume.write_at(5, *b"no").wait()), Failure::NotPermitted);
    assert_eq!(failure(volume.trim(5, 3).wait()), Failure::NotPermitted);
    assert_eq!(failure(volume.write_zeroes(5, 3).wait()), Failure::NotPermitted);
    volume.flush().wait().expect("a flush changes nothing");
}

#[test]
fn eight_threads_see_what_they_wrote() {
    const THREADS: usize = 8;
    for lines in ["layout = 'linear'\nlinks = 2", "layout = 'striped'\nstripe = '512'"] {
        let mixed = mixed(lines);
        let (volume, part) = (&mixed.volume, mixed.size() / THREADS);
        let start = Barrier::new(THREADS);
        let parts: Vec<Vec<u8>> = thread::scope(|scope| {
            let work = |n: usize| {
                let start = &start;
                move || {
                    start.wait();
                    work_on(volume, n * part, part, n as u64)
                }
            };
            let threads: Vec<_> = (0..THREADS).map(|n| scope.spawn(work(n))).collect();
            threads.into_iter().map(|t| t.join().expect("a thread")).collect()
        });
        let all = mixed.read_all();
        assert!(all[..part * THREADS] == parts.concat()[..], "{lines}");
    }
}

/// Changes and reads a part of a volume at random, with several calls under way, against a model; returns the model.
fn work_on(volume: &Volume, start: usize, len: usize, seed: u64) -> Vec<u8> {
    let mut model = vec![0; len];
    let mut random = SmallRng::seed_from_u64(seed);
    for round in 0..60 {
        // Changes under way together, one after the other in address, so that none overlaps another.
        let mut at = random.random_range(0..1000);
        let mut changes = Vec::new();
        while at < len {
            let n = random.random_range(1..9000).min(len - at);
            let offset = (start + at) as u64;
            match random.random_range(0..8) {
                0 => {
                    model[at..at + n].fill(0);
                    changes.push(volume.write_zeroes(offset, n as u32));
                }
                1 => changes.push(volume.flush()),
                _ => {
                    random.fill_bytes(&mut model[at..at + n]);
                    changes.push(volume.write_at(offset, &model[at..at + n]));
                }
            }
            at += n + random.random_range(0..100_000);
        }
        changes.into_iter().for_each(|change| change.wait().expect("a change"));
        let spans: Vec<(usize, usize)> = (0..random.random_range(1..200))
            .map(|_| {
                let n = random.random_range(1..500);
                (random.random_range(0..len - n), n)
            })
            .collect();
        let expected: Vec<u8> = spans.iter().flat_map(|&(at, n)| &model[at..at + n]).copied().collect();
        let spans = spans.iter().map(|&(at, n)| ((start + at) as u64, n as u32)).collect();
        assert!(volume.read_many(spans).wait().expect("bytes") == expected, "thread {seed}, round {round}");
    }
    model
}

#[test]
fn what_is_under_way_when_a_volume_is_dropped_is_finished() {
    let mut mixed = mixed("");
    let size = mixed.size();
    let calls: Vec<_> = (0..50).map(|n| mixed.volume.write_at(n * 1000, vec![n as u8 + 1; 1000])).collect();
    let folder = std::mem::replace(&mut mixed.folder, tempfile::tempdir().expect("a folder"));
    drop(mixed);
    let results: Vec<_> = calls.into_iter().map(|call| call.wait()).collect();
    let first = std::fs::read(folder.path().join("extent0")).expect("an extent");
    assert!(size > first.len());
    for (n, result) in results.into_iter().enumerate() {
        match result {
            Ok(()) => assert!(first[n * 1000..][..1000].iter().all(|&byte| byte == n as u8 + 1), "write {n}"),
            Err(error) => assert_eq!(failure::<()>(Err(error)), Failure::ShuttingDown),
        }
    }
}

#[test]
fn a_volume_that_is_not_there_is_told_from_one_that_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("extent");
    let config = format!("[[volume]]\nname = 'other'\n[[volume.node]]\npath = '{}'\nsize = 5\n", path.display());
    let Err(VolumeError::Unknown { known, .. }) = open(&config) else { panic!("it does not exist") };
    assert_eq!(known, "other");
}
