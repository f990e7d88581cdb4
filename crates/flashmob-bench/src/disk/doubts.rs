//! Reasons for doubtful figures of a point, each with a remedy.

use flashmob_results::disk::{Cache, Operation, Parameters, Pattern, Point, Repetition, Sync};
use flashmob_results::warning::{Code, Warning};

use hdrhistogram::Histogram;

use super::offsets::HEAD_DISTANCE_BYTES;
use super::plan;
use crate::modelled::ModelledDisk;

/// Largest acceptable fraction of requests answered from memory.
const CACHED_FRACTION_MAX: f64 = 0.05;
/// Least fraction of a warm range that must be in memory.
const WARM_FRACTION_MIN: f64 = 0.99;
/// Largest acceptable spread of the repetitions, as a fraction of the median.
const SPREAD_MAX: f64 = 0.2;
/// The page size of the page cache. With larger pages more requests hit the cache than reported.
const PAGE_BYTES: u64 = 4096;
/// If a smaller fraction of the fetched bytes is in memory, some of them were evicted.
const STAYED_FRACTION_MIN: f64 = 0.95;
/// Least number of requests beyond a percentile.
const SAMPLES_BEYOND_MIN: f64 = 5.0;
/// Shorter repetitions are mostly start and end.
const TIME_S_MIN: f64 = 0.2;
/// Largest acceptable lateness, as a fraction of the modelled service time.
const LATE_FRACTION_MAX: f64 = 0.1;
/// The percentiles that tables show.
const SHOWN_PERCENTILES: [f64; 3] = [50.0, 99.0, 99.9];

/// The doubts raised by a point's figures.
#[must_use]
pub fn of_point(point: &Point) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let mut add = |code, message: String| warnings.push(Warning::new(code, message));
    let parameters = &point.parameters;
    if let Some((fraction, how)) = worst(point, |r| cached_fraction(parameters, r))
        && fraction > CACHED_FRACTION_MAX
    {
        let remedy = if how == Why::Before {
            "something holds the file in memory"
        } else {
            "take fewer reads or less time, or a larger range"
        };
        add(
            Code::ServedFromCache,
            format!("about {:.0} % of the requests were answered from memory; {remedy}", 100.0 * fraction),
        );
    }
    if let Some((missing, _)) = worst(point, |r| uncached_fraction(parameters, r))
        && missing > 1.0 - WARM_FRACTION_MIN
    {
        add(
            Code::NotCached,
            format!("{:.0} % of the range was not in memory; give a smaller --range, or free memory", 100.0 * missing),
        );
    }
    let errors: u64 = point.repetitions.iter().map(|r| r.errors).sum();
    if errors > 0 {
        let first = point.repetitions.iter().find_map(|r| r.first_error.as_deref()).unwrap_or("not named");
        add(Code::Errors, format!("{errors} requests failed, the first: {first}"));
    }
    let rate = point.summary.requests_per_second;
    if point.summary.repetitions > 1 && rate.relative() > SPREAD_MAX {
        let percent = 100.0 * rate.relative();
        add(
            Code::WideSpread,
            format!(
                "the repetitions differ by {percent:.0} %: {:.0} to {:.0}/s; stop other programs, or take more of them",
                rate.min, rate.max
            ),
        );
    }
    if point.repetitions.iter().any(|r| r.elapsed_s < TIME_S_MIN && !r.interrupted) {
        let shortest = point.repetitions.iter().map(|r| r.elapsed_s).fold(f64::INFINITY, f64::min);
        add(Code::Short, format!("{:.0} ms are short; take more --reads or --time", 1000.0 * shortest));
    }
    let count = point.summary.latency_ns.count;
    let thin = SHOWN_PERCENTILES.into_iter().find(|p| (1.0 - p / 100.0) * (count as f64) < SAMPLES_BEYOND_MIN);
    if let Some(percentile) = thin {
        let wanted = (SAMPLES_BEYOND_MIN / (1.0 - percentile / 100.0)).ceil();
        add(Code::FewSamples, format!("p{percentile} rests on {count} requests; {wanted:.0} are the least for it"));
    }
    if parameters.operation == Operation::Write
        && parameters.sync == Some(Sync::None)
        && parameters.cache != Cache::Direct
    {
        add(
            Code::ServedFromCache,
            "these writes reach the page cache, not the disk; add --sync fdatasync or dsync, or --cache direct".into(),
        );
    }
    warnings
}

/// The doubt raised by threads that ran much later than the model completed their requests.
#[must_use]
pub fn of_lateness(disk: &ModelledDisk, latencies_ns: &Histogram<u64>) -> Option<Warning> {
    let late_ns = disk.lateness_ns().value_at_quantile(0.5);
    let (late, served) = (late_ns as f64, latencies_ns.value_at_quantile(0.5) as f64);
    (late > LATE_FRACTION_MAX * served).then(|| {
        let text = format!(
            "this machine was {:.0} us late with the model's answers, of {:.0} us (medians); stop other programs, or model a slower device",
            late / 1000.0,
            served / 1000.0
        );
        Warning::new(Code::Late, text)
    })
}

/// The first warning of each kind.
#[must_use]
pub fn once_each(warnings: Vec<Warning>) -> Vec<Warning> {
    let mut kept: Vec<Warning> = Vec::new();
    for warning in warnings {
        if kept.iter().all(|w| w.code != warning.code) {
            kept.push(warning);
        }
    }
    kept
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    Before,
    Meanwhile,
}

fn worst(point: &Point, of: impl Fn(&Repetition) -> Option<(f64, Why)>) -> Option<(f64, Why)> {
    point.repetitions.iter().filter_map(of).max_by(|a, b| a.0.total_cmp(&b.0))
}

/// The fraction of a repetition's reads that were answered from memory, estimated; `None` where it is intended or not known.
fn cached_fraction(parameters: &Parameters, repetition: &Repetition) -> Option<(f64, Why)> {
    if parameters.cache != Cache::Cold || parameters.operation == Operation::Write {
        return None;
    }
    let range = used_bytes(parameters);
    let before = repetition.cached_before_bytes? as f64 / range;
    if before > CACHED_FRACTION_MAX {
        return Some((before.min(1.0), Why::Before));
    }
    let meanwhile = match parameters.pattern {
        // Random reads hit earlier reads: on average half of what is cached at the end.
        Pattern::Random | Pattern::Rand => {
            let after = (repetition.cached_after_bytes? as f64 / range).min(1.0);
            f64::midpoint(before, after).max(met_again(parameters, repetition.requests, range, after))
        }
        // Within one pass nothing is read twice; a second pass hits everything.
        Pattern::Sequential => again(repetition.bytes as f64, range),
        Pattern::Sort | Pattern::Shuffle => {
            again(repetition.requests as f64, (range / HEAD_DISTANCE_BYTES as f64).max(1.0).ceil())
        }
    };
    Some((meanwhile, Why::Meanwhile))
}

/// The fraction of uniformly distributed requests that hit the pages of earlier requests, if all of those are still cached; otherwise 0. In
/// a range that is soon cached as a whole this is far more than half.
fn met_again(parameters: &Parameters, requests: u64, range: f64, after: f64) -> f64 {
    let block = parameters.block_bytes;
    let touched = match parameters.pattern {
        Pattern::Random if block.is_multiple_of(PAGE_BYTES) || PAGE_BYTES.is_multiple_of(block) => {
            block.max(PAGE_BYTES)
        }
        _ => block + PAGE_BYTES - 1,
    };
    // Requested bytes in units of the range, and the expected fraction of the range that they touch.
    let rounds = requests as f64 * touched as f64 / range;
    let fetched = 1.0 - (-rounds).exp();
    let stayed = after >= STAYED_FRACTION_MIN * fetched;
    if stayed && rounds > 0.0 { (1.0 - fetched / rounds).max(0.0) } else { 0.0 }
}

/// The bytes of the range that is used.
fn used_bytes(parameters: &Parameters) -> f64 {
    let range = plan::range(parameters);
    (range.end - range.start).max(1) as f64
}

/// The fraction of `done` beyond a first pass of `round`.
fn again(done: f64, round: f64) -> f64 {
    if done > round { (done - round) / done } else { 0.0 }
}

/// The fraction of a warm range that was not in memory.
fn uncached_fraction(parameters: &Parameters, repetition: &Repetition) -> Option<(f64, Why)> {
    if parameters.cache != Cache::Warm {
        return None;
    }
    let range = used_bytes(parameters);
    let least = repetition.cached_before_bytes?.min(repetition.cached_after_bytes?) as f64;
    Some(((1.0 - least / range).max(0.0), Why::Before))
}

#[cfg(test)]
#[path = "doubts_tests.rs"]
mod tests;
