//! What makes the figures of a point doubtful, each with what to do about it.

use flashmob_results::disk::{Cache, Operation, Parameters, Pattern, Point, Repetition, Sync};
use flashmob_results::warning::{Code, Warning};

use hdrhistogram::Histogram;

use super::offsets::HEAD_DISTANCE_BYTES;
use super::plan;
use crate::modelled::ModelledDisk;

/// Fraction of requests that may be answered from memory where they should not be.
const CACHED_FRACTION_MAX: f64 = 0.05;
/// Least fraction of a range that is in memory where it should be.
const WARM_FRACTION_MIN: f64 = 0.99;
/// Distance of the fastest and the slowest repetition, as a fraction of the median.
const SPREAD_MAX: f64 = 0.2;
/// What the page cache keeps together. Where its pages are larger, requests meet more than is said.
const PAGE_BYTES: u64 = 4096;
/// If less of what must have been fetched is in memory, some of it has been evicted.
const STAYED_FRACTION_MIN: f64 = 0.95;
/// Requests beyond a percentile that it must rest on.
const SAMPLES_BEYOND_MIN: f64 = 5.0;
/// Less time than this is mostly beginning and end.
const TIME_S_MIN: f64 = 0.2;
/// Part of a modelled service time that threads may be late by.
const LATE_FRACTION_MAX: f64 = 0.1;
/// The percentiles that tables show.
const SHOWN_PERCENTILES: [f64; 3] = [50.0, 99.0, 99.9];

/// The doubts that a point's figures themselves raise.
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
                "the repetitions differ by {percent:.0} %: {:.0} to {:.0}/s; end what else runs, or take more of them",
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
            "these writes end in memory, not on the disk; add --sync fdatasync or dsync, or --cache direct".into(),
        );
    }
    warnings
}

/// The doubt that threads ran again much later than the model was done with their requests.
#[must_use]
pub fn of_lateness(disk: &ModelledDisk, latencies_ns: &Histogram<u64>) -> Option<Warning> {
    let late_ns = disk.lateness_ns().value_at_quantile(0.5);
    let (late, served) = (late_ns as f64, latencies_ns.value_at_quantile(0.5) as f64);
    (late > LATE_FRACTION_MAX * served).then(|| {
        let text = format!(
            "this machine was {:.0} us late with the model's answers, of {:.0} us (medians); end what else runs, or model a slower device",
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

/// What explains that requests were answered from memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    Before,
    Meanwhile,
}

fn worst(point: &Point, of: impl Fn(&Repetition) -> Option<(f64, Why)>) -> Option<(f64, Why)> {
    point.repetitions.iter().filter_map(of).max_by(|a, b| a.0.total_cmp(&b.0))
}

/// Which fraction of a repetition's reads met what was in memory already, as far as that can be told; `None` where it may or where nobody knows.
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
        // What a random read meets is what was read before it: on average half of what there is at the end.
        Pattern::Random | Pattern::Rand => {
            let after = (repetition.cached_after_bytes? as f64 / range).min(1.0);
            f64::midpoint(before, after).max(met_again(parameters, repetition.requests, range, after))
        }
        // Within the range nothing comes twice; what goes round once more meets all of it.
        Pattern::Sequential => again(repetition.bytes as f64, range),
        Pattern::Sort | Pattern::Shuffle => {
            again(repetition.requests as f64, (range / HEAD_DISTANCE_BYTES as f64).max(1.0).ceil())
        }
    };
    Some((meanwhile, Why::Meanwhile))
}

/// The part of uniformly distributed requests that meet what others of them fetched, if all that was fetched is still there; otherwise 0.
/// In a range that is soon in memory as a whole that is far more than half of them.
fn met_again(parameters: &Parameters, requests: u64, range: f64, after: f64) -> f64 {
    let block = parameters.block_bytes;
    let touched = match parameters.pattern {
        Pattern::Random if block.is_multiple_of(PAGE_BYTES) || PAGE_BYTES.is_multiple_of(block) => {
            block.max(PAGE_BYTES)
        }
        _ => block + PAGE_BYTES - 1,
    };
    // How often the range was asked for as a whole, and which part of it such many requests touch.
    let rounds = requests as f64 * touched as f64 / range;
    let fetched = 1.0 - (-rounds).exp();
    let stayed = after >= STAYED_FRACTION_MIN * fetched;
    if stayed && rounds > 0.0 { (1.0 - fetched / rounds).max(0.0) } else { 0.0 }
}

/// The bytes that requests go to.
fn used_bytes(parameters: &Parameters) -> f64 {
    let range = plan::range(parameters);
    (range.end - range.start).max(1) as f64
}

/// The part of `done` that goes beyond the first round of `round`.
fn again(done: f64, round: f64) -> f64 {
    if done > round { (done - round) / done } else { 0.0 }
}

/// Which fraction of the range was not in memory, where all of it should be.
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
