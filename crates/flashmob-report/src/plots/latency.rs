//! Latencies over percentiles.

use flashmob_results::disk::{Pattern, Point};

use super::threads::spread_evenly;
use super::{Figures, Place, Section};
use crate::entry::Entry;
use crate::figure::axes::Scale;
use crate::figure::lines::{Lines, Mark, Series};
use crate::words;

/// Lines that can be told apart.
const LINES_MAX: usize = 6;
/// Ticks of the axis, evenly spaced: beyond each lies about a tenth of the requests beyond the one before.
const STEPS: [f64; 5] = [50.0, 90.0, 99.0, 99.9, 99.99];

pub(super) fn percentiles(entries: &[Entry]) -> Section {
    let chosen: Vec<(&Entry, Chosen)> = entries.iter().filter_map(|e| Some((e, choose(e)?))).collect();
    let all = || chosen.iter().flat_map(|(_, c)| &c.points).flat_map(|p| latencies(p));
    let mut threads: Vec<u32> = chosen.iter().flat_map(|(_, c)| &c.points).map(|p| p.parameters.threads).collect();
    threads.sort_unstable();
    threads.dedup();
    let low = all().map(|(_, us)| us).fold(f64::INFINITY, f64::min);
    let high = all().map(|(_, us)| us).fold(0.0, f64::max);
    let mut figures = Figures::new();
    for (entry, Chosen { what, points, by_threads }) in &chosen {
        let name =
            |p: &Point| if *by_threads { p.parameters.threads.to_string() } else { p.parameters.pattern.to_string() };
        let look = |p: &Point| {
            if *by_threads {
                threads.binary_search(&p.parameters.threads).unwrap_or_default()
            } else {
                p.parameters.pattern as usize
            }
        };
        let lines = Lines {
            title: format!("{}: latency over percentiles", entry.name),
            description: description(points),
            caption: format!(
                "{what}. Logarithmic{}. A line ends where less than one request is slower.",
                if chosen.len() > 1 { "; same scale in all of these figures" } else { "" }
            ),
            y_title: "latency, us".into(),
            x_title: "percentile".into(),
            legend: if *by_threads { "threads".into() } else { String::new() },
            scale: Scale::log(low, high),
            x_ticks: STEPS.iter().map(|percent| (x(*percent), format!("p{percent}"))).collect(),
            series: points.iter().map(|p| Series { name: name(p), look: look(p), points: marks(p) }).collect(),
            limits: Vec::new(),
        };
        figures.push((entry.name.clone(), Box::new(move |nth| lines.draw(nth))));
    }
    Section {
        place: Place::BEYOND,
        heading: "Latency percentiles",
        words: "How long requests took: half of them at most p50, all but one in a thousand at most p99.9.",
        figures,
        command: "flashmob bench disk FILE",
    }
}

struct Chosen<'a> {
    what: String,
    points: Vec<&'a Point>,
    by_threads: bool,
}

/// Random reads of the block size nearest to 4 KiB over threads; without several of these, one point of each pattern.
fn choose(entry: &Entry) -> Option<Chosen<'_>> {
    let group =
        entry.random_reads().into_iter().filter_map(|(_, points)| nearest_to_4_kib(points)).max_by_key(Vec::len);
    if let Some(points) = group.filter(|points| points.len() > 1) {
        let what = format!("Random reads of {}", words::bytes(points[0].parameters.block_bytes));
        return Some(Chosen { what, points: spread_evenly(points, LINES_MAX), by_threads: true });
    }
    let of = |pattern: &Pattern| entry.reads().find(|p| p.parameters.pattern == *pattern && has_latencies(p));
    let points: Vec<&Point> = Pattern::ALL.iter().filter_map(of).collect();
    let first = &points.first()?.parameters;
    let what = format!("Reads of {} with {}", words::bytes(first.block_bytes), words::threads(first.threads));
    Some(Chosen { what, points, by_threads: false })
}

/// Those of one block size.
fn nearest_to_4_kib(points: Vec<&Point>) -> Option<Vec<&Point>> {
    let distance = |p: &Point| p.parameters.block_bytes.abs_diff(4_096);
    let usable = || points.iter().copied().filter(|p| has_latencies(p));
    let block = usable().min_by_key(|p| (distance(p), p.parameters.block_bytes))?.parameters.block_bytes;
    Some(usable().filter(|p| p.parameters.block_bytes == block).collect())
}

fn has_latencies(point: &Point) -> bool {
    latencies(point).next().is_some()
}

/// Percentiles from the median on that at least one request exceeds, in microseconds.
fn latencies(point: &Point) -> impl Iterator<Item = (f64, f64)> + '_ {
    let latency = &point.summary.latency_ns;
    let backed = |percent: f64| latency.count as f64 * (100.0 - percent) / 100.0 >= 1.0;
    let wanted = latency.percentiles.iter().filter(move |p| (50.0..=99.99).contains(&p.percent) && backed(p.percent));
    wanted.filter(|p| p.ns > 0).map(|p| (p.percent, p.ns as f64 / 1e3))
}

fn marks(point: &Point) -> Vec<Mark> {
    latencies(point).map(|(percent, us)| Mark { x: x(percent), y: us, range: None, doubtful: false }).collect()
}

/// Position of a percentile by the logarithm of the part beyond it: 0 at p50, 1 at p99.99.
fn x(percent: f64) -> f64 {
    let beyond = |percent: f64| -((100.0 - percent) / 100.0).ln();
    (beyond(percent) - beyond(50.0)) / (beyond(99.99) - beyond(50.0))
}

fn description(points: &[&Point]) -> String {
    let words = |p: &&Point| {
        let at = |percent| words::or_dash(words::percentile(&p.summary.latency_ns, percent));
        format!("{}: p50 {}, p99 {}", words::parameters(&p.parameters), at(50.0), at(99.0))
    };
    format!("{}.", points.iter().map(words).collect::<Vec<_>>().join("; "))
}
