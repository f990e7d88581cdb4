//! C21: on the phone single inserts are short, but dense and sparse phases alternate; hand-over between layers takes long.
//!
//! It speaks of phones and is judged on Android alone; elsewhere the figures are told. It holds if all three are so: the median insert takes half of the
//! mean time from insert to insert or less; in equal windows of time the busiest tenth has three times the inserts of the quietest tenth or more; and
//! hand-over between layers takes a quarter of the inserts' time or more. The paper gives no numbers; these are the least that one would call so.
//! Hand-over is known only where the kernel's layers were seen, which needs root: without them no verdict is given.
//! Windows have 20 inserts each on average, so that three times is far beyond chance (a Poisson count of 20 lies between 12 and 30).

use flashmob_results::trace::{Layer, Operations, Run};

use super::traces::{Insert, each};
use super::{Definition, Finding, Missing, on_phone};
use crate::words;

const SHORT_MAX: f64 = 0.5;
const PHASES_MIN: f64 = 3.0;
const HANDOVER_MIN: f64 = 0.25;
/// Below SQLite; without any, only the hand-over between it and the application is known.
const KERNEL: [Layer; 4] = [Layer::SystemCall, Layer::FileSystem, Layer::Block, Layer::Driver];
const INSERTS_OF_A_WINDOW: usize = 20;
/// Fewer have no tenth.
const WINDOWS_MIN: usize = 10;

pub(super) const CLAIM: Definition = Definition {
    id: "C21",
    source: "P5, Fig. 4, 5",
    words: "On the phone single inserts are short, but dense and sparse phases alternate; hand-over between layers takes long.",
    short: "Dense and sparse phases on a phone",
    criterion: "Android, journal mode DELETE, synchronous FULL: the median insert takes half of the time from insert to insert or less; the busiest tenth of equal windows (20 inserts on average) has three times the inserts of the quietest or more; hand-over takes a quarter of the inserts' time or more.",
    paper: "a timeline of many inserts (no figures in the text)",
    command: "flashmob push reproduce --papers p5",
    measured_on: " after `adb root`",
    on_phone: on_phone::P5_AS_ROOT,
    judge: |entries| each(entries, judged),
    ..Definition::TRACE
};

/// The quantities of the claim.
struct Figures {
    /// Of the mean time from insert to insert, the median insert.
    short: f64,
    /// The busiest tenth of windows over the quietest.
    phases: f64,
    /// Of the inserts' time; unknown where the kernel's layers were not seen.
    handover: Option<f64>,
}

fn judged(insert: &Insert) -> Result<Finding, Missing> {
    let figures = figures(insert.run)?;
    let numbers = format!(
        "the median insert takes {} of the time from insert to insert; the busiest windows have {} times the inserts of the quietest; {}",
        words::percent(figures.short),
        if figures.phases.is_finite() { words::number(figures.phases) } else { "endlessly many".into() },
        match figures.handover {
            Some(handover) => format!("hand-over takes {} of the time", words::percent(handover)),
            None => "hand-over to the kernel's layers was not seen, which needs root".into(),
        },
    );
    if !insert.entry.is_android() {
        return Err(format!("it speaks of phones, and this is none; here {numbers}").into());
    }
    let Some(handover) = figures.handover else { return Err(numbers.into()) };
    let holds = figures.short <= SHORT_MAX && figures.phases >= PHASES_MIN && handover >= HANDOVER_MIN;
    Ok(Finding::of_runs(&[insert.at], holds, numbers, &[insert.run]))
}

fn figures(run: &Run) -> Result<Figures, Missing> {
    let operations = &run.operations;
    let median_ns = operations.latency_ns.percentile_ns(50.0).ok_or("how long inserts take is not known")?;
    let distance_ns = 1e9 / operations.per_second;
    let phases = phases(operations)
        .ok_or_else(|| format!("dense and sparse phases need {} inserts or more", INSERTS_OF_A_WINDOW * WINDOWS_MIN))?;
    let is_seen = run.layers.iter().any(|total| KERNEL.contains(&total.layer) && total.spans > 0);
    let handed_ns: u64 = run.handovers.iter().fold(0, |sum, handover| sum.saturating_add(handover.total_ns));
    Ok(Figures {
        short: median_ns as f64 / distance_ns,
        phases,
        handover: is_seen.then(|| handed_ns as f64 / operations.total_ns.max(1) as f64),
    })
}

/// Inserts in the busiest tenth of windows over those in the quietest.
fn phases(operations: &Operations) -> Option<f64> {
    let begins = &operations.begins_s;
    let windows = begins.len() / INSERTS_OF_A_WINDOW;
    let end_s = begins.iter().copied().filter(|s| s.is_finite()).fold(0.0, f64::max);
    if windows < WINDOWS_MIN || end_s <= 0.0 {
        return None;
    }
    let mut counts = vec![0u64; windows];
    for begin_s in begins.iter().filter(|s| s.is_finite() && **s >= 0.0) {
        counts[((begin_s / end_s * windows as f64) as usize).min(windows - 1)] += 1;
    }
    counts.sort_unstable();
    let tenth = windows / 10;
    let (quiet, busy): (u64, u64) = (counts[..tenth].iter().sum(), counts[windows - tenth..].iter().sum());
    Some(busy as f64 / quiet as f64)
}
