//! The result of `flashmob bench nbd` as it is written: with all that is needed to judge and repeat it. Its form is published in
//! `schema/bench-nbd-1.json`; a change that breaks readers gets a new number.

use flashmob_bench::load::{Load, LoadResult, Stop};
use flashmob_bench::{Errno, Uri};
pub use flashmob_results::latency::PERCENTILES;
use serde::Serialize;

/// Name of the format.
pub const FORMAT: &str = "flashmob-bench-nbd";
/// Its version.
pub const FORMAT_VERSION: u32 = 1;
/// Own processor time above which a 4 KiB request says more about the load than about the server, in nanoseconds.
const OWN_CPU_NS_MAX: f64 = 1000.0;
/// Fraction of a core from which on the load may be the limit.
const OWN_CPU_BUSY: f64 = 0.9;

#[derive(Debug, Serialize)]
pub struct Record {
    pub format: &'static str,
    pub format_version: u32,
    pub program_version: &'static str,
    pub machine: Machine,
    pub uri: String,
    pub export: ExportRecord,
    pub load: LoadRecord,
    pub result: ResultRecord,
    pub warnings: Vec<String>,
}

#[derive(Debug, Serialize)]
pub struct Machine {
    pub system: String,
    pub release: String,
    pub architecture: String,
    pub cpus: usize,
}

#[derive(Debug, Serialize)]
pub struct ExportRecord {
    pub size_bytes: u64,
    pub block_bytes_min: u32,
    pub block_bytes_max: u32,
    pub structured_replies: bool,
}

#[derive(Debug, Serialize)]
pub struct LoadRecord {
    pub connections: u32,
    pub threads: u32,
    pub outstanding: u32,
    pub block_bytes: u32,
    pub pattern: &'static str,
    pub align_bytes: u64,
    pub range_begin_bytes: u64,
    pub range_end_bytes: u64,
    pub read_percent: f64,
    pub time_s: Option<f64>,
    pub requests: Option<u64>,
    pub warmup_s: f64,
    pub seed: u64,
    pub verified_one_of: Option<u32>,
    pub rest_us: u64,
}

#[derive(Debug, Serialize)]
pub struct ResultRecord {
    pub interrupted: bool,
    pub elapsed_s: f64,
    pub reads: u64,
    pub writes: u64,
    pub bytes: u64,
    pub requests_per_second: f64,
    pub bytes_per_second: f64,
    pub latency_ns: Latency,
    pub errors: Vec<ErrorCount>,
    pub first_error: Option<String>,
    pub verified_bytes: u64,
    pub wrong_bytes: u64,
    pub first_wrong_offset_bytes: Option<u64>,
    pub own_cpu_s: f64,
    pub own_cpu_ns_per_request: f64,
}

#[derive(Debug, Serialize)]
pub struct Latency {
    pub min: u64,
    pub mean: f64,
    pub stdev: f64,
    pub max: u64,
    pub percentiles: Vec<Percentile>,
    /// Only buckets that something fell into, ascending.
    pub histogram: Vec<Bucket>,
}

#[derive(Debug, Serialize)]
pub struct Percentile {
    pub percent: f64,
    pub ns: u64,
}

#[derive(Debug, Serialize)]
pub struct Bucket {
    /// Longest latency that is counted here.
    pub ns_max: u64,
    pub count: u64,
}

#[derive(Debug, Serialize)]
pub struct ErrorCount {
    pub errno: u32,
    pub name: Option<&'static str>,
    pub count: u64,
}

impl Record {
    pub fn new(uri: &Uri, load: &Load, result: &LoadResult, interrupted: bool) -> Record {
        let export = &result.export;
        let range = load.range_bytes.clone().unwrap_or(0..export.size_bytes);
        let seconds = result.elapsed.as_secs_f64();
        let record = ResultRecord {
            interrupted,
            elapsed_s: seconds,
            reads: result.reads,
            writes: result.writes,
            bytes: result.bytes,
            requests_per_second: result.requests_per_second(),
            bytes_per_second: result.bytes as f64 / seconds.max(1e-9),
            latency_ns: Latency::new(result),
            errors: result.errors.iter().map(|(&errno, &count)| ErrorCount::new(errno, count)).collect(),
            first_error: result.first_error.clone(),
            verified_bytes: result.verified_bytes,
            wrong_bytes: result.mismatched_bytes,
            first_wrong_offset_bytes: result.first_mismatch_offset_bytes,
            own_cpu_s: result.cpu.as_secs_f64(),
            own_cpu_ns_per_request: result.cpu_ns_per_request(),
        };
        Record {
            format: FORMAT,
            format_version: FORMAT_VERSION,
            program_version: env!("CARGO_PKG_VERSION"),
            machine: Machine::this(),
            uri: uri.to_string(),
            export: ExportRecord {
                size_bytes: export.size_bytes,
                block_bytes_min: export.block_bytes_min,
                block_bytes_max: export.block_bytes_max,
                structured_replies: export.structured_replies,
            },
            load: LoadRecord::new(load, range.start, range.end),
            warnings: warnings(load, result),
            result: record,
        }
    }
}

impl LoadRecord {
    fn new(load: &Load, range_begin_bytes: u64, range_end_bytes: u64) -> LoadRecord {
        let (time_s, requests) = match load.stop {
            Stop::After(time) => (Some(time.as_secs_f64()), None),
            Stop::Requests(count) => (None, Some(count)),
        };
        LoadRecord {
            connections: load.connections,
            threads: load.threads.min(load.connections),
            outstanding: load.outstanding,
            block_bytes: load.block_bytes,
            pattern: match load.pattern {
                flashmob_bench::load::offsets::Pattern::Random { .. } => "random",
                flashmob_bench::load::offsets::Pattern::Sequential => "sequential",
            },
            align_bytes: load.unit_bytes(),
            range_begin_bytes,
            range_end_bytes,
            read_percent: load.read_fraction * 100.0,
            time_s,
            requests,
            warmup_s: load.warmup.as_secs_f64(),
            seed: load.pattern.seed(),
            verified_one_of: load.verify.as_ref().map(|_| load.verify_one_of),
            rest_us: u64::try_from(load.rest.as_micros()).unwrap_or(u64::MAX),
        }
    }
}

impl Latency {
    fn new(result: &LoadResult) -> Latency {
        let histogram = &result.latency_ns;
        Latency {
            min: histogram.min(),
            mean: histogram.mean(),
            stdev: histogram.stdev(),
            max: histogram.max(),
            percentiles: PERCENTILES
                .iter()
                .map(|&percent| Percentile { percent, ns: histogram.value_at_percentile(percent) })
                .collect(),
            histogram: histogram
                .iter_recorded()
                .map(|step| Bucket { ns_max: step.value_iterated_to(), count: step.count_since_last_iteration() })
                .collect(),
        }
    }
}

impl ErrorCount {
    fn new(errno: Errno, count: u64) -> ErrorCount {
        ErrorCount { errno: errno.0, name: errno.name(), count }
    }
}

impl Machine {
    fn this() -> Machine {
        let uname = rustix::system::uname();
        Machine {
            system: uname.sysname().to_string_lossy().into_owned(),
            release: uname.release().to_string_lossy().into_owned(),
            architecture: uname.machine().to_string_lossy().into_owned(),
            cpus: std::thread::available_parallelism().map_or(0, usize::from),
        }
    }
}

/// What makes the figures doubtful, each with what to do about it.
fn warnings(load: &Load, result: &LoadResult) -> Vec<String> {
    let mut warnings = Vec::new();
    let seconds = result.elapsed.as_secs_f64();
    let threads = f64::from(load.threads.min(load.connections));
    if seconds > 0.0 && result.cpu.as_secs_f64() / (seconds * threads) > OWN_CPU_BUSY {
        warnings.push(format!(
            "the benchmark's threads were busy nearly all the time ({:.0} %): the server may be faster; try --threads {} or more",
            100.0 * result.cpu.as_secs_f64() / (seconds * threads),
            load.threads + 1
        ));
    } else if load.block_bytes <= 4096 && load.outstanding >= 64 && result.cpu_ns_per_request() > OWN_CPU_NS_MAX {
        warnings.push(format!(
            "the benchmark itself took {:.1} us of CPU time per request: replies arrive a few at a time",
            result.cpu_ns_per_request() / 1000.0
        ));
    }
    if result.reads > 0 && result.verified_bytes + result.mismatched_bytes == 0 {
        warnings.push("nothing was verified; add --verify FILE to compare the data".to_string());
    }
    if seconds < 1.0 {
        warnings.push(format!("{seconds:.2} s is a short run; use at least a few seconds, and several rounds"));
    }
    warnings
}

#[cfg(test)]
#[path = "record_tests.rs"]
mod tests;
