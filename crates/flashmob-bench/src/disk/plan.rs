//! The points of a measurement, and their validity.

use std::ops::Range;
use std::time::Duration;

use flashmob_core::units::{Bytes, MIB};
use flashmob_results::disk::{Cache, Engine, Operation, Parameters, Pattern, Sync};

use super::error::DiskError;
use super::limit::Stop;
use super::offsets::HEAD_DISTANCE_BYTES;
use crate::bench_file::HEADER_BYTES;

/// Largest request.
pub const BLOCK_BYTES_MAX: u64 = 64 * MIB;
/// Most threads.
pub const THREADS_MAX: u32 = 1024;
/// Most requests that a thread keeps outstanding.
pub const DEPTH_MAX: u32 = 1024;
/// Most memory for the requests of one point.
pub const BUFFERS_BYTES_MAX: u64 = 4 << 30;
/// Most heads that `sort` and `shuffle` keep a list of: 128 MiB of memory, 16 TiB of a disk.
pub const HEADS_MAX: u64 = 1 << 24;
/// Most repetitions.
pub const REPEAT_MAX: u32 = 10_000;
/// Most points.
pub const POINTS_MAX: usize = 10_000;

/// The parameters of a measurement, in all combinations.
#[derive(Clone, Debug, PartialEq)]
pub struct Grid {
    /// Reads or writes.
    pub operation: Operation,
    /// Orders of the offsets.
    pub patterns: Vec<Pattern>,
    /// Sizes of requests.
    pub block_bytes: Vec<u64>,
    /// Numbers of threads.
    pub threads: Vec<u32>,
    /// Requests that each thread keeps outstanding.
    pub depths: Vec<u32>,
    /// The I/O engine.
    pub engine: Engine,
    /// State of the page cache.
    pub cache: Cache,
    /// When a write is complete.
    pub sync: Sync,
    /// I/O schedulers; empty to keep the device's own.
    pub schedulers: Vec<String>,
    /// Bytes from the file's beginning that are used; `None`: all.
    pub range_bytes: Option<u64>,
    /// The end of a repetition.
    pub stop: Stop,
}

impl Grid {
    /// Each combination once, for a file of `size_bytes`.
    ///
    /// # Errors
    /// A combination is invalid, or there are none or too many.
    pub fn points(&self, size_bytes: u64) -> Result<Vec<Parameters>, DiskError> {
        let refuse = |why: String| Err(DiskError::Parameters(why));
        let range_bytes = self.range_bytes.unwrap_or(size_bytes);
        if range_bytes > size_bytes {
            let (range, size) = (Bytes(range_bytes), Bytes(size_bytes));
            return refuse(format!(
                "a range of {range} is more than the file has ({size}); give less, or a larger --size"
            ));
        }
        let (requests, time_s) = match self.stop {
            Stop::Requests(count) => (Some(count), None),
            Stop::After(time) => (None, Some(time.as_secs_f64())),
        };
        let schedulers: Vec<Option<String>> =
            if self.schedulers.is_empty() { vec![None] } else { self.schedulers.iter().cloned().map(Some).collect() };
        let lists =
            [self.patterns.len(), self.block_bytes.len(), self.threads.len(), self.depths.len(), schedulers.len()];
        let count = lists.iter().try_fold(1usize, |all, &n| all.checked_mul(n)).unwrap_or(usize::MAX);
        if count == 0 || count > POINTS_MAX {
            return refuse(format!("{count} combinations to measure; there may be 1 to {POINTS_MAX}"));
        }
        let mut points = Vec::with_capacity(count);
        for scheduler in &schedulers {
            for &pattern in &self.patterns {
                for &block_bytes in &self.block_bytes {
                    for &threads in &self.threads {
                        for &depth in &self.depths {
                            let writes = self.operation == Operation::Write;
                            points.push(Parameters {
                                operation: self.operation,
                                pattern,
                                block_bytes,
                                threads,
                                depth,
                                engine: self.engine,
                                cache: self.cache,
                                sync: writes.then_some(self.sync),
                                scheduler: scheduler.clone(),
                                range_bytes,
                                requests,
                                time_s,
                            });
                        }
                    }
                }
            }
        }
        points.iter().try_for_each(check)?;
        Ok(points)
    }
}

/// The bytes of the file that a point uses. Writes spare the header, which identifies the file.
#[must_use]
pub fn range(parameters: &Parameters) -> Range<u64> {
    let begin = if parameters.operation == Operation::Write { HEADER_BYTES } else { 0 };
    begin..parameters.range_bytes.max(begin)
}

/// The end of a repetition of a point.
#[must_use]
pub fn stop(parameters: &Parameters) -> Stop {
    match (parameters.requests, parameters.time_s) {
        (Some(count), _) => Stop::Requests(count),
        (None, time_s) => Stop::After(Duration::try_from_secs_f64(time_s.unwrap_or(0.0)).unwrap_or(Duration::MAX)),
    }
}

fn check(p: &Parameters) -> Result<(), DiskError> {
    let refuse = |why: String| Err(DiskError::Parameters(why));
    let block = Bytes(p.block_bytes);
    if p.block_bytes == 0 || p.block_bytes > BLOCK_BYTES_MAX {
        return refuse(format!("a block of {block} is not possible; 1 byte to {}", Bytes(BLOCK_BYTES_MAX)));
    }
    if p.threads == 0 || p.threads > THREADS_MAX {
        return refuse(format!("{} threads are not possible; 1 to {THREADS_MAX}", p.threads));
    }
    if p.depth == 0 || p.depth > DEPTH_MAX {
        return refuse(format!("a depth of {} is not possible; 1 to {DEPTH_MAX}", p.depth));
    }
    if p.depth > 1 && p.engine == Engine::Pread {
        return refuse(format!(
            "a depth of {} needs --engine io_uring: pread has one request for each thread",
            p.depth
        ));
    }
    let buffers_bytes = p.block_bytes * u64::from(p.threads) * u64::from(p.depth);
    if buffers_bytes > BUFFERS_BYTES_MAX {
        let (all, most) = (Bytes(buffers_bytes), Bytes(BUFFERS_BYTES_MAX));
        return refuse(format!(
            "requests of {block} for {} threads x {} need {all}; at most {most}",
            p.threads, p.depth
        ));
    }
    let range = range(p);
    if range.end - range.start < p.block_bytes {
        let room = Bytes(range.end - range.start);
        return refuse(format!(
            "a block of {block} does not fit the {room} that are used; give a larger --range or --size"
        ));
    }
    if matches!(p.pattern, Pattern::Sort | Pattern::Shuffle) {
        let distance = Bytes(HEAD_DISTANCE_BYTES);
        if p.block_bytes > HEAD_DISTANCE_BYTES {
            return refuse(format!(
                "{} reads at every {distance}: blocks of {block} would overlap, and memory would answer; at most {distance}, or use random",
                p.pattern
            ));
        }
        if (range.end - range.start) / HEAD_DISTANCE_BYTES > HEADS_MAX {
            let most = Bytes(HEADS_MAX * HEAD_DISTANCE_BYTES);
            return refuse(format!(
                "{} keeps a list of the blocks of at most {most}; give a smaller --range",
                p.pattern
            ));
        }
    }
    if p.requests == Some(0) || p.time_s.is_some_and(|s| s <= 0.0) {
        return refuse("nothing to do: the number of reads and the time must be above 0".into());
    }
    if p.cache == Cache::Direct {
        if !p.block_bytes.is_multiple_of(512) {
            return refuse(format!(
                "--cache direct needs blocks of whole sectors (512 bytes or 4 KiB), not {block}; or use --cache cold"
            ));
        }
        if p.pattern == Pattern::Rand {
            return refuse(
                "the pattern rand reads at any byte, --cache direct at whole sectors; use random, or --cache cold"
                    .into(),
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid() -> Grid {
        Grid {
            operation: Operation::Read,
            patterns: vec![Pattern::Random],
            block_bytes: vec![4096],
            threads: vec![1],
            depths: vec![1],
            engine: Engine::Pread,
            cache: Cache::Cold,
            sync: Sync::None,
            schedulers: vec![],
            range_bytes: None,
            stop: Stop::Requests(10),
        }
    }

    fn refusal(grid: Grid, size_bytes: u64) -> String {
        grid.points(size_bytes).expect_err("refused").to_string()
    }

    #[test]
    fn every_combination_comes_once() {
        let grid = Grid {
            patterns: vec![Pattern::Random, Pattern::Sort],
            block_bytes: vec![1, 512],
            threads: vec![1, 2, 4],
            schedulers: vec!["none".into(), "bfq".into()],
            ..grid()
        };
        let points = grid.points(1 << 20).unwrap();
        assert_eq!(points.len(), 24);
        assert!(points.iter().enumerate().all(|(n, p)| !points[..n].contains(p)));
        assert!(points.iter().all(|p| p.range_bytes == 1 << 20 && p.sync.is_none() && p.time_s.is_none()));
    }

    #[test]
    fn limits_at_and_beyond() {
        let size = 1 << 40;
        let with = |change: fn(&mut Grid)| {
            let mut grid = grid();
            change(&mut grid);
            grid
        };
        assert!(with(|g| g.block_bytes = vec![BLOCK_BYTES_MAX]).points(size).is_ok());
        assert!(refusal(with(|g| g.block_bytes = vec![BLOCK_BYTES_MAX + 1]), size).contains("1 byte to 64 MiB"));
        assert!(refusal(with(|g| g.block_bytes = vec![0]), size).contains("0 B"));
        assert!(with(|g| g.threads = vec![THREADS_MAX]).points(size).is_ok());
        assert!(refusal(with(|g| g.threads = vec![THREADS_MAX + 1]), size).contains("1 to 1024"));
        assert!(refusal(with(|g| g.threads = vec![0]), size).contains("0 threads"));
        assert!(refusal(with(|g| g.depths = vec![2]), size).contains("io_uring"));
        let ring = |g: &mut Grid| (g.engine, g.depths) = (Engine::IoUring, vec![DEPTH_MAX]);
        assert!(with(ring).points(size).is_ok());
        assert!(
            refusal(with(|g| (g.engine, g.depths) = (Engine::IoUring, vec![DEPTH_MAX + 1])), size)
                .contains("1 to 1024")
        );
        let many = |g: &mut Grid| (g.block_bytes, g.threads) = (vec![BLOCK_BYTES_MAX], vec![65]);
        assert!(refusal(with(many), size).contains("at most 4 GiB"));
        assert!(with(|g| (g.block_bytes, g.threads) = (vec![BLOCK_BYTES_MAX], vec![64])).points(size).is_ok());
        assert!(refusal(with(|g| g.stop = Stop::Requests(0)), size).contains("nothing to do"));
        assert!(refusal(with(|g| g.stop = Stop::After(Duration::ZERO)), size).contains("nothing to do"));
        assert!(refusal(with(|g| g.threads = vec![]), size).contains("0 combinations"));
        let range = |range_bytes| Grid { range_bytes: Some(range_bytes), ..grid() };
        assert!(range(1 << 20).points(1 << 20).is_ok());
        assert!(refusal(range((1 << 20) + 1), 1 << 20).contains("more than the file has"));
        assert!(range(4096).points(1 << 20).is_ok());
        assert!(refusal(range(4095), 1 << 20).contains("does not fit"));
        assert!(refusal(range(u64::MAX), 1 << 20).contains("more than the file has"));
    }

    #[test]
    fn heads_neither_overlap_nor_fill_the_memory() {
        for pattern in [Pattern::Sort, Pattern::Shuffle] {
            let heads = |block_bytes| Grid { patterns: vec![pattern], block_bytes: vec![block_bytes], ..grid() };
            assert!(heads(MIB).points(HEADS_MAX * MIB).is_ok());
            assert!(refusal(heads(MIB + 1), HEADS_MAX * MIB).contains("would overlap"));
            assert!(refusal(heads(1), (HEADS_MAX + 1) * MIB).contains("smaller --range"));
            assert!(refusal(heads(1), u64::MAX).contains("at most 16 TiB"));
        }
    }

    #[test]
    fn direct_needs_sectors_and_writes_leave_the_header_alone() {
        let direct = |block_bytes, pattern| Grid {
            block_bytes: vec![block_bytes],
            patterns: vec![pattern],
            cache: Cache::Direct,
            ..grid()
        };
        assert!(direct(512, Pattern::Random).points(1 << 20).is_ok());
        assert!(refusal(direct(513, Pattern::Random), 1 << 20).contains("whole sectors"));
        assert!(refusal(direct(512, Pattern::Rand), 1 << 20).contains("any byte"));
        let writes = Grid { operation: Operation::Write, ..grid() };
        assert!(refusal(writes.clone(), 8191).contains("does not fit"));
        let points = writes.points(8192).unwrap();
        assert_eq!((range(&points[0]), points[0].sync), (4096..8192, Some(Sync::None)));
        assert_eq!(stop(&points[0]), Stop::Requests(10));
    }
}
