//! The JSON result of `flashmob bench nbd`, with everything needed to judge and repeat it. Its format is published in
//! `schema/bench-nbd-1.json`; a change that breaks readers gets a new number.

use flashmob_bench::Uri;
use flashmob_bench::load::offsets::Pattern;
use flashmob_bench::load::{Load, LoadResult, Stop};
use flashmob_results::latency::PERCENTILES;
use serde_json::{Value, json};

/// Name of the format.
const FORMAT: &str = "flashmob-bench-nbd";
/// Its version.
const FORMAT_VERSION: u32 = 1;
/// Processor time of the load per 4 KiB request above which the figures are more about the load than the server, in nanoseconds.
const OWN_CPU_NS_MAX: f64 = 1000.0;
/// Fraction of a core above which the load may be the limit.
const OWN_CPU_BUSY: f64 = 0.9;

/// The result of `load` on `uri`.
pub fn record(uri: &Uri, load: &Load, result: &LoadResult, interrupted: bool) -> Value {
    let export = &result.export;
    let range = load.range_bytes.clone().unwrap_or(0..export.size_bytes);
    let (time_s, requests) = match load.stop {
        Stop::After(time) => (Some(time.as_secs_f64()), None),
        Stop::Requests(count) => (None, Some(count)),
    };
    let uname = rustix::system::uname();
    let errors =
        result.errors.iter().map(|(errno, count)| json!({"errno": errno.0, "name": errno.name(), "count": count}));
    let seconds = result.elapsed.as_secs_f64();
    json!({
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "program_version": env!("CARGO_PKG_VERSION"),
        "machine": {
            "system": uname.sysname().to_string_lossy(),
            "release": uname.release().to_string_lossy(),
            "architecture": uname.machine().to_string_lossy(),
            "cpus": std::thread::available_parallelism().map_or(0, usize::from),
        },
        "uri": uri.to_string(),
        "export": {
            "size_bytes": export.size_bytes,
            "block_bytes_min": export.block_bytes_min,
            "block_bytes_max": export.block_bytes_max,
            "structured_replies": export.structured_replies,
        },
        "load": {
            "connections": load.connections,
            "threads": load.threads.min(load.connections),
            "outstanding": load.outstanding,
            "block_bytes": load.block_bytes,
            "pattern": pattern(load),
            "align_bytes": load.unit_bytes(),
            "range_begin_bytes": range.start,
            "range_end_bytes": range.end,
            "read_percent": load.read_fraction * 100.0,
            "time_s": time_s,
            "requests": requests,
            "warmup_s": load.warmup.as_secs_f64(),
            "seed": load.pattern.seed(),
            "verified_one_of": load.verify.as_ref().map(|_| load.verify_one_of),
            "rest_us": u64::try_from(load.rest.as_micros()).unwrap_or(u64::MAX),
        },
        "result": {
            "interrupted": interrupted,
            "elapsed_s": seconds,
            "reads": result.reads,
            "writes": result.writes,
            "bytes": result.bytes,
            "requests_per_second": result.requests_per_second(),
            "bytes_per_second": bytes_per_second(result),
            "latency_ns": latency(result),
            "errors": errors.collect::<Vec<_>>(),
            "first_error": result.first_error,
            "verified_bytes": result.verified_bytes,
            "wrong_bytes": result.mismatched_bytes,
            "first_wrong_offset_bytes": result.first_mismatch_offset_bytes,
            "own_cpu_s": result.cpu.as_secs_f64(),
            "own_cpu_ns_per_request": result.cpu_ns_per_request(),
        },
        "warnings": warnings(load, result),
    })
}

/// With the non-empty buckets of the histogram, ascending; `ns_max` is the longest latency of a bucket.
fn latency(result: &LoadResult) -> Value {
    let all = &result.latency_ns;
    let percentiles = PERCENTILES.iter().map(|&p| json!({"percent": p, "ns": all.value_at_percentile(p)}));
    let buckets = all.iter_recorded();
    let buckets =
        buckets.map(|step| json!({"ns_max": step.value_iterated_to(), "count": step.count_since_last_iteration()}));
    json!({
        "min": all.min(),
        "mean": all.mean(),
        "stdev": all.stdev(),
        "max": all.max(),
        "percentiles": percentiles.collect::<Vec<_>>(),
        "histogram": buckets.collect::<Vec<_>>(),
    })
}

pub fn pattern(load: &Load) -> &'static str {
    match load.pattern {
        Pattern::Random { .. } => "random",
        Pattern::Sequential => "sequential",
    }
}

pub fn bytes_per_second(result: &LoadResult) -> f64 {
    result.bytes as f64 / result.elapsed.as_secs_f64().max(1e-9)
}

/// Reasons to doubt the figures, each with a remedy.
pub fn warnings(load: &Load, result: &LoadResult) -> Vec<String> {
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
