//! Workloads that are not in the papers: writes, deeper queues, reads from a warm page cache. Bars over the depth, or else over the threads.

use flashmob_results::disk::{Cache, Engine, Operation, Parameters, Point, Spread};

use super::{Place, Section, hollow, linear_scales, repetitions};
use crate::entry::{Entry, has_rate, is_doubtful};
use crate::figure::bars::{Bar, Bars};
use crate::groups::grouped;
use crate::plots::Figures;
use crate::stats;
use crate::words;

/// Figures of one result; the tables have all points.
const FIGURES_MAX: usize = 8;
/// Maximum of bars; more have no room for their values.
const BARS_MAX: usize = 7;

pub(super) fn others(entries: &[Entry]) -> Section {
    let groups: Vec<(&Entry, Vec<&Point>)> =
        entries.iter().flat_map(|entry| groups(entry).into_iter().map(move |points| (entry, points))).collect();
    let of = |p: &Point| p.summary.requests_per_second;
    let highest: Vec<f64> = groups
        .iter()
        .map(|(_, points)| points.iter().map(|p| of(p).max.max(of(p).median)).fold(0.0, f64::max))
        .collect();
    let (scales, note) = linear_scales(&highest);
    let mut figures = Figures::new();
    for ((entry, points), scale) in groups.into_iter().zip(scales) {
        let by_depth = points.iter().any(|p| p.parameters.depth != points[0].parameters.depth);
        let across = |p: &Point| if by_depth { p.parameters.depth } else { p.parameters.threads };
        let points = super::threads::spread_evenly(points, BARS_MAX);
        let bars: Vec<Bar> = points
            .iter()
            .map(|point| {
                let Spread { median, min, max } = of(point);
                let (name, values) = (across(point).to_string(), stats::rates(point));
                Bar { name, median, range: (min, max), values, doubtful: is_doubtful(&point.warnings) }
            })
            .collect();
        let values: Vec<String> = bars.iter().map(|b| format!("{} at {}", words::number(b.median), b.name)).collect();
        let what = words::plain(&what(&points[0].parameters, by_depth), 120);
        let x_title = if by_depth { "requests outstanding for each thread" } else { "threads" };
        let figure = Bars {
            title: format!("{}: {what}", entry.name),
            description: format!("Bars of medians in requests/s over {x_title}: {}.", words::list(&values)),
            caption: format!("{}. {}.{note}{}", words::capital(&what), repetitions(&points), hollow(&points)),
            y_title: "requests/s".into(),
            x_title: x_title.into(),
            scale,
            bars,
        };
        let p = &points[0].parameters;
        figures
            .push((format!("{} · {} {}", entry.name, p.operation, p.pattern), Box::new(move |nth| figure.draw(nth))));
    }
    Section {
        place: Place::BEYOND,
        heading: "Writes, deeper queues, reads from memory",
        words: "What the papers left out. No claim rests on these.",
        figures,
        command: "",
    }
}

/// Points that differ in depth alone, or else in threads alone; at least two in each.
fn groups(entry: &Entry) -> Vec<Vec<&Point>> {
    let other = |p: &&Point| {
        let of = &p.parameters;
        let others = of.operation == Operation::Write || of.cache == Cache::Warm || of.engine != Engine::Pread;
        (others || of.depth > 1) && has_rate(p)
    };
    let points: Vec<&Point> = entry.points().iter().filter(other).collect();
    let by_depth = points.iter().any(|p| p.parameters.depth != points[0].parameters.depth);
    let key = |p: &Point| {
        let p = p.parameters.clone();
        if by_depth { Parameters { depth: 1, ..p } } else { Parameters { threads: 1, ..p } }
    };
    let mut groups: Vec<Vec<&Point>> = grouped(points, |p| key(p)).into_iter().map(|(_, group)| group).collect();
    for group in &mut groups {
        group.sort_by_key(|p| (p.parameters.depth, p.parameters.threads));
        // Measured twice: the first counts.
        group.dedup_by_key(|p| (p.parameters.depth, p.parameters.threads));
    }
    groups.retain(|group| group.len() > 1);
    groups.truncate(FIGURES_MAX);
    groups
}

/// The parameters that all bars share.
fn what(p: &Parameters, by_depth: bool) -> String {
    let mut text = format!("{} {} {}", p.operation, p.pattern, words::bytes(p.block_bytes));
    if by_depth {
        text.push_str(&format!(", {}", words::threads(p.threads)));
    }
    let scheduler = p.scheduler.clone();
    let parts = [
        Some(p.engine.to_string()),
        Some(if p.cache == Cache::Direct { "direct".into() } else { format!("page cache {}", p.cache) }),
        p.sync.map(|sync| format!("sync {sync}")),
        scheduler,
        Some(format!("range {}", words::bytes(p.range_bytes))),
    ];
    parts.into_iter().flatten().for_each(|part| text.push_str(&format!(", {part}")));
    text
}
