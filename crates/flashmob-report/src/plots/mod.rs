//! Which figures there are: chosen by what was measured, never by the name of a preset.

mod capture;
mod cluster;
mod drawing;
mod inserts;
mod latency;
mod network;
mod others;
mod sets;
mod threads;
mod trace;

use flashmob_results::disk::Point;

use crate::Error;
use crate::entry::{Entry, has_rate};
use crate::figure::Figure;
use crate::figure::axes::Scale;

/// Names of results, each with a function that draws a figure of it; its argument is a number that no other figure of the page has.
pub(crate) type Figures = Vec<(String, Box<dyn Fn(usize) -> Result<Figure, Error>>)>;

/// Figures that belong together.
pub(crate) struct Section {
    /// The heading.
    pub heading: &'static str,
    /// What is to be seen, above the figures.
    pub words: &'static str,
    /// Name of the result, and its figure.
    pub figures: Figures,
    /// What would measure it, if there is no figure; empty if nobody needs to.
    pub command: &'static str,
}

/// All sections about what there are results of, those without figures included.
pub(crate) fn sections(entries: &[Entry]) -> Vec<Section> {
    let clusters = entries.iter().any(|entry| entry.cluster().is_some());
    let mut sections = Vec::new();
    if clusters {
        sections.extend(cluster::sections(entries));
    }
    if entries.iter().any(|entry| entry.net().is_some()) {
        sections.extend(network::sections(entries));
    }
    if entries.iter().any(|entry| entry.capture().is_some()) {
        sections.extend(capture::sections(entries));
    }
    let traces = entries.iter().any(|entry| entry.trace().is_some());
    if traces {
        if crate::inserts::has_any(entries) {
            sections.push(inserts::rates(entries));
        }
        sections.extend(trace::sections(entries));
    }
    let others = clusters || traces || entries.iter().any(Entry::is_network);
    let devices = !others || entries.iter().any(Entry::is_device);
    if devices {
        sections.extend([
            threads::reads(entries),
            threads::bytes(entries),
            sets::sequential_and_random(entries),
            sets::orders(entries),
            sets::schedulers(entries),
        ]);
    }
    // After P3's other figures.
    sections.extend(trace::driver(entries));
    if devices {
        sections.extend([others::others(entries), latency::percentiles(entries)]);
    }
    sections
}

/// Scales for figures with these highest values: one for all while the highest is at most this many times the lowest.
const COMMON_SCALE_RATIO_MAX: f64 = 4.0;

/// True if figures with these highest values stay readable on one scale.
fn comparable(highest: &[f64]) -> bool {
    let (min, max) = highest.iter().fold((f64::INFINITY, 0.0_f64), |(min, max), v| (min.min(*v), max.max(*v)));
    max <= min * COMMON_SCALE_RATIO_MAX
}

/// A linear scale for each figure, and what to say of it.
fn linear_scales(highest: &[f64]) -> (Vec<Scale>, &'static str) {
    if comparable(highest) {
        let max = highest.iter().copied().fold(0.0, f64::max);
        let note = if highest.len() > 1 { " Same scale in all of these figures." } else { "" };
        (vec![Scale::linear(max); highest.len()], note)
    } else {
        (highest.iter().map(|max| Scale::linear(*max)).collect(), " Each figure has its own scale.")
    }
}

/// How many repetitions there are, in words.
fn repetitions(points: &[&Point]) -> String {
    how_many(points.iter().map(|p| p.summary.repetitions))
}

fn how_many(counts: impl Iterator<Item = u32> + Clone) -> String {
    match (counts.clone().min().unwrap_or(0), counts.max().unwrap_or(0)) {
        (1, 1) => "One repetition".into(),
        (a, b) if a == b => format!("Median of {a} repetitions, whiskers show min and max"),
        (a, b) => format!("Median of {a} to {b} repetitions, whiskers show min and max"),
    }
}

/// The place that something is about, for captions.
fn hollow(points: &[&Point]) -> &'static str {
    if points.iter().any(|p| crate::entry::is_doubtful(&p.warnings)) {
        " Hollow or ⚠: doubtful, see the warnings."
    } else {
        ""
    }
}

/// A rate of bytes that can be drawn on a logarithmic scale.
fn has_bytes(point: &Point) -> bool {
    let spread = point.summary.bytes_per_second;
    has_rate(point) && spread.median.is_finite() && spread.median > 0.0
}
