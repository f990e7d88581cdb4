//! Samples of a running gateway, fetched repeatedly until there are enough.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;

use flashmob_server::net::fetch::{Target, fetch_trace};
use flashmob_server::status::trace::{SCHEMA, SampleReport, TraceReport};

/// Interval of requests: the gateway keeps 256 samples, which at the default rate take at least a second.
const PAUSE: Duration = Duration::from_millis(200);

/// The samples.
#[derive(Debug)]
pub struct Gathered {
    /// In the order of their begins.
    pub samples: Vec<SampleReport>,
    /// The last report.
    pub last: TraceReport,
    /// Samples that were overwritten before they were fetched.
    pub missed: u64,
}

/// Fetches samples that were received at `since_ns` or later, until there are `enough` or the time is over.
pub fn gather(
    target: &Target,
    enough: u64,
    time: Duration,
    since_ns: u64,
    cancel: &AtomicBool,
) -> anyhow::Result<Gathered> {
    let until = Instant::now() + time;
    let mut last = fetch(target)?;
    let kept_before = last.samples.iter().map(|sample| sample.number).collect::<Vec<_>>();
    let mut gathered = Gathered { samples: take(&last, since_ns), last: last.clone(), missed: 0 };
    let before = last.counters.counters.finished + last.counters.counters.failed;
    while (gathered.samples.len() as u64) < enough && Instant::now() < until && !cancel.load(Ordering::Relaxed) {
        std::thread::sleep(PAUSE.min(until.saturating_duration_since(Instant::now())));
        last = fetch(target)?;
        let seen = |sample: &SampleReport| gathered.samples.iter().any(|old| old.number == sample.number);
        let new: Vec<SampleReport> = take(&last, since_ns).into_iter().filter(|sample| !seen(sample)).collect();
        gathered.samples.extend(new);
    }
    let ended = (last.counters.counters.finished + last.counters.counters.failed).saturating_sub(before);
    let new = gathered.samples.iter().filter(|sample| !kept_before.contains(&sample.number)).count() as u64;
    if since_ns == 0 {
        gathered.missed = ended.saturating_sub(new);
    }
    gathered.samples.sort_by_key(|sample| (sample.received_ns, sample.number));
    gathered.samples.truncate(usize::try_from(enough).unwrap_or(usize::MAX));
    gathered.last = last;
    Ok(gathered)
}

/// The gateway's current report.
pub fn fetch(target: &Target) -> anyhow::Result<TraceReport> {
    let body = fetch_trace(target).with_context(|| {
        format!("cannot fetch samples; only gateways have them: check that {target} is a gateway's admin address")
    })?;
    let report: TraceReport =
        serde_json::from_slice(&body).with_context(|| format!("the reply of {target} is not a report of samples"))?;
    anyhow::ensure!(
        report.schema == SCHEMA,
        "{target} reports samples in format {}, this program reads {SCHEMA}; use the same version of flashmob",
        report.schema
    );
    Ok(report)
}

fn take(report: &TraceReport, since_ns: u64) -> Vec<SampleReport> {
    report.samples.iter().filter(|sample| sample.received_ns >= since_ns).cloned().collect()
}
