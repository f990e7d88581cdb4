//! Measurements of `flashmob bench disk`.

use serde::{Deserialize, Serialize};

use crate::device::Place;
use crate::latency::Latency;
use crate::warning::Warning;

/// A file on a device, or a model of one, and how it answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Disk {
    /// The file; absent if the device was modelled.
    pub file: Option<File>,
    /// The model that answered in the place of a device: then nothing here says anything about this machine's disk.
    pub model: Option<Model>,
    /// One for each combination of parameters, in the order in which they were measured first.
    pub points: Vec<Point>,
}

/// The file that was read or written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct File {
    /// Its path, as given.
    pub path: String,
    /// Its size.
    pub size_bytes: u64,
    /// The benchmark made it, in this run or an earlier one.
    pub made_by_benchmark: bool,
    /// Where it lies.
    pub place: Place,
}

/// A modelled device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// Name of the profile.
    pub profile: String,
    /// What it models, in one sentence.
    pub description: String,
    /// Requests that are served at once.
    pub slots: u32,
    /// Size of the modelled file.
    pub size_bytes: u64,
}

/// Reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// Reads.
    Read,
    /// Writes.
    Write,
}

/// Order of the offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Pattern {
    /// Uniformly random multiples of the block size.
    Random,
    /// One block after the other, each thread in its own share of the range.
    Sequential,
    /// Heads of 1 MiB blocks, ascending.
    Sort,
    /// The same heads in random order.
    Shuffle,
    /// Any byte.
    Rand,
}

/// How requests reach the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Engine {
    /// `pread` and `pwrite`, one request at a time for each thread.
    Pread,
    /// A ring for each thread.
    IoUring,
}

/// State of the page cache at the beginning of a repetition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Cache {
    /// Nothing of the file was in it; what is read twice may come from it.
    Cold,
    /// All of the range was in it.
    Warm,
    /// Not used: O_DIRECT.
    Direct,
}

/// When a write counts as done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Sync {
    /// When the system call returns.
    None,
    /// After an `fdatasync` of its own.
    Fdatasync,
    /// When the call on a file opened with O_DSYNC returns.
    Dsync,
}

/// One combination of what can be chosen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Parameters {
    /// Reads or writes.
    pub operation: Operation,
    /// Order of the offsets.
    pub pattern: Pattern,
    /// Bytes of each request.
    pub block_bytes: u64,
    /// Threads.
    pub threads: u32,
    /// Requests that each thread keeps outstanding; 1 with `pread`.
    pub depth: u32,
    /// How requests reach the kernel.
    pub engine: Engine,
    /// State of the page cache.
    pub cache: Cache,
    /// When a write counts as done; absent for reads.
    pub sync: Option<Sync>,
    /// I/O scheduler that was set for this point, or that the model has; absent if the device's own was left alone.
    pub scheduler: Option<String>,
    /// Bytes of the file, from its beginning, that offsets were taken from.
    pub range_bytes: u64,
    /// Requests of a repetition, over all threads, if they were what ended it.
    pub requests: Option<u64>,
    /// Seconds of a repetition, if they were what ended it.
    pub time_s: Option<f64>,
}

/// What was measured with one combination of parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Point {
    /// The combination.
    pub parameters: Parameters,
    /// In the order in which they were made.
    pub repetitions: Vec<Repetition>,
    /// All of them together.
    pub summary: Summary,
    /// Commands of the driver while it was measured, or of the model; absent unless they were asked for (`--commands`) and could be seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commands: Option<crate::trace::Commands>,
    /// Warnings about this point.
    pub warnings: Vec<Warning>,
}

/// One run with one combination of parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Repetition {
    /// Begin, in seconds after the document's.
    pub begin_s: f64,
    /// From the first request to the last answer.
    pub elapsed_s: f64,
    /// Requests that were answered well.
    pub requests: u64,
    /// Bytes that they carried.
    pub bytes: u64,
    /// Requests that failed.
    pub errors: u64,
    /// The first failure, in words.
    pub first_error: Option<String>,
    /// Requests per second.
    pub requests_per_second: f64,
    /// Bytes per second.
    pub bytes_per_second: f64,
    /// From the call to its return, in nanoseconds.
    pub latency_ns: Latency,
    /// Processor time of this process in user mode.
    pub cpu_user_s: f64,
    /// Processor time of this process in the kernel.
    pub cpu_system_s: f64,
    /// Bytes of the range that were in the page cache just before; absent where the system does not say.
    pub cached_before_bytes: Option<u64>,
    /// The same just after.
    pub cached_after_bytes: Option<u64>,
    /// Bytes that the kernel fetched from the disk for this process; absent where the system does not say.
    pub fetched_bytes: Option<u64>,
    /// Bytes that others moved from or to the disk meanwhile; absent where the system does not say.
    pub foreign_bytes: Option<u64>,
    /// Of the requests that the modelled device served, the fraction whose address lay above the one before. Absent for real disks.
    pub upward_fraction: Option<f64>,
    /// Stopped before its end.
    pub interrupted: bool,
}

/// All repetitions of a point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Summary {
    /// Repetitions that count: the ones that were not interrupted.
    pub repetitions: u32,
    /// Requests per second: median, minimum and maximum.
    pub requests_per_second: Spread,
    /// Bytes per second: median, minimum and maximum.
    pub bytes_per_second: Spread,
    /// Of all repetitions' requests together, in nanoseconds.
    pub latency_ns: Latency,
}

/// Median, minimum and maximum of one figure over the repetitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Spread {
    /// Median; the mean of the middle two of an even number of values.
    pub median: f64,
    /// Minimum.
    pub min: f64,
    /// Maximum.
    pub max: f64,
}

impl Spread {
    /// The spread of these values; all zero if there are none.
    #[must_use]
    pub fn of(values: impl IntoIterator<Item = f64>) -> Spread {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (Some(&min), Some(&max)) = (values.first(), values.last()) else { return Spread::default() };
        let middle = values.len() / 2;
        let median =
            if values.len() % 2 == 1 { values[middle] } else { f64::midpoint(values[middle - 1], values[middle]) };
        Spread { median, min, max }
    }

    /// The difference of maximum and minimum as a fraction of the median; 0 without a median.
    #[must_use]
    pub fn relative(&self) -> f64 {
        if self.median > 0.0 { (self.max - self.min) / self.median } else { 0.0 }
    }
}

impl Point {
    /// A point of these repetitions; interrupted ones count only if there are no others.
    #[must_use]
    pub fn new(parameters: Parameters, repetitions: Vec<Repetition>) -> Point {
        let whole: Vec<&Repetition> = repetitions.iter().filter(|r| !r.interrupted).collect();
        let counted: Vec<&Repetition> = if whole.is_empty() { repetitions.iter().collect() } else { whole };
        let summary = Summary {
            repetitions: u32::try_from(counted.len()).unwrap_or(u32::MAX),
            requests_per_second: Spread::of(counted.iter().map(|r| r.requests_per_second)),
            bytes_per_second: Spread::of(counted.iter().map(|r| r.bytes_per_second)),
            latency_ns: Latency::merged(counted.iter().map(|r| &r.latency_ns)),
        };
        Point { parameters, repetitions, summary, commands: None, warnings: Vec::new() }
    }
}

macro_rules! words {
    ($type:ty { $($variant:ident => $word:literal),+ $(,)? }) => {
        impl $type {
            /// All variants.
            pub const ALL: &[$type] = &[$(<$type>::$variant),+];

            /// Its name on command lines, in tables and in results.
            #[must_use]
            pub fn word(self) -> &'static str {
                match self { $(<$type>::$variant => $word),+ }
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.word())
            }
        }
    };
}

words!(Operation { Read => "read", Write => "write" });
words!(Pattern { Random => "random", Sequential => "sequential", Sort => "sort", Shuffle => "shuffle", Rand => "rand" });
words!(Engine { Pread => "pread", IoUring => "io_uring" });
words!(Cache { Cold => "cold", Warm => "warm", Direct => "direct" });
words!(Sync { None => "none", Fdatasync => "fdatasync", Dsync => "dsync" });
