//! The figures of a page, chosen by the measured points and never by the name of a preset.

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

/// Names of results, each with a function that draws a figure; its argument must be unique on the page.
pub(crate) type Figures = Vec<(String, Box<dyn Fn(usize) -> Result<Figure, Error>>)>;

/// Where a section stands: figures of the papers in their order, then what is beyond them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    paper: u8,
    figure: u8,
}

impl Place {
    /// No paper has such a figure.
    pub const BEYOND: Place = Place { paper: u8::MAX, figure: 0 };

    /// Its first figure in the paper of this number.
    pub const fn paper(paper: u8, figure: u8) -> Place {
        Place { paper, figure }
    }

    /// The paper in words.
    pub fn title(self) -> &'static str {
        match self.paper {
            1 => "P1: parallel I/O on several tablets",
            3 => "P3: flash and I/O schedulers",
            4 => "P4: TCP and UDP",
            5 => "P5: what the system does during database I/O",
            _ => "Beyond the papers",
        }
    }
}

/// Related figures.
pub(crate) struct Section {
    pub place: Place,
    pub heading: &'static str,
    /// The text above the figures.
    pub words: &'static str,
    pub figures: Figures,
    /// The command that measures it; empty: the section is never listed as missing.
    pub command: &'static str,
}

/// All sections about the kinds of results that there are, in the order of the papers, those without figures included.
pub(crate) fn sections(entries: &[Entry]) -> Vec<Section> {
    let clusters = entries.iter().any(|entry| entry.cluster().is_some());
    let mut sections = Vec::new();
    if clusters {
        sections.extend(cluster::sections(entries));
    }
    let networks = entries.iter().any(|entry| entry.net().is_some());
    if networks {
        sections.extend(network::sections(entries));
    }
    if entries.iter().any(|entry| entry.capture().is_some()) {
        sections.extend(capture::sections(entries));
    }
    if networks {
        sections.push(network::other_congestion(entries));
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
    sections.extend(trace::driver(entries));
    if devices {
        sections.extend([others::others(entries), latency::percentiles(entries)]);
    }
    sections.sort_by_key(|section| section.place);
    sections
}

/// Figures share a scale if their maxima differ by no more than this factor.
const COMMON_SCALE_RATIO_MAX: f64 = 4.0;

/// True if figures with these maxima are readable on one scale.
fn comparable(highest: &[f64]) -> bool {
    let (min, max) = highest.iter().fold((f64::INFINITY, 0.0_f64), |(min, max), v| (min.min(*v), max.max(*v)));
    max <= min * COMMON_SCALE_RATIO_MAX
}

/// A linear scale for each figure, and the note in the captions.
fn linear_scales(highest: &[f64]) -> (Vec<Scale>, &'static str) {
    if comparable(highest) {
        let max = highest.iter().copied().fold(0.0, f64::max);
        let note = if highest.len() > 1 { " Same scale in all of these figures." } else { "" };
        (vec![Scale::linear(max); highest.len()], note)
    } else {
        (highest.iter().map(|max| Scale::linear(*max)).collect(), " Each figure has its own scale.")
    }
}

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

/// The note in captions of figures with doubtful points.
fn hollow(points: &[&Point]) -> &'static str {
    if points.iter().any(|p| crate::entry::is_doubtful(&p.warnings)) {
        " Hollow or ⚠: doubtful, see the warnings."
    } else {
        ""
    }
}

/// True if the rate of bytes can be drawn on a logarithmic scale.
fn has_bytes(point: &Point) -> bool {
    let spread = point.summary.bytes_per_second;
    has_rate(point) && spread.median.is_finite() && spread.median > 0.0
}
