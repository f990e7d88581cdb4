//! Over the links to each node: requests for each k (P1's figures 7 to 9), without I/O (10), packets' sizes (11) and numbers (12).

use flashmob_results::cluster::{Batch, Point};
use flashmob_results::disk::Spread;

use super::super::threads::Across;
use super::{Axis, COMMAND, Drawing, Line, Section, drawn, look, mark, named, usable};
use crate::entry::Entry;
use crate::figure::lines::Limit;
use crate::sweep::Sweep;
use crate::words;

const X_TITLE: &str = "links to each node";
/// Lines that can be told apart in one figure.
const LINES_MAX: usize = 10;

pub(super) fn rates(entries: &[Entry]) -> Section {
    let mut drawings = Vec::new();
    for (name, sweep) in named(entries, false) {
        for batch in sweep.batches().into_iter().filter(|batch| *batch != Batch::Auto) {
            drawings.push(of_batch(&name, &sweep, batch));
        }
    }
    let axis = Axis { y_title: "requests/s", x_title: X_TITLE, legend: "nodes", may_be_logarithmic: false };
    Section {
        heading: "Requests per second over links",
        words: "P1, figures 7 to 9: with one request in each packet several nodes stay below what their flash does; with ten or a hundred they reach it.",
        figures: drawn(drawings, &axis),
        command: COMMAND,
    }
}

/// One line for each number of nodes, and for each what its flash does.
fn of_batch(name: &str, sweep: &Sweep, batch: Batch) -> Drawing {
    let across = across(sweep.points.iter().copied().filter(|p| p.parameters.batch == batch));
    let all = sweep.all_nodes();
    let nodes = super::super::threads::spread_evenly(sweep.nodes(batch), LINES_MAX);
    let mut lines = Vec::new();
    for n in &nodes {
        let points: Vec<&Point> = sweep.over_links(*n, batch).collect();
        let look = all.binary_search(n).unwrap_or_default();
        lines.push(line(n.to_string(), look, &points, &across, |p| Some(p.summary.requests_per_second)));
    }
    let limit = |n: &u32, limit: f64| Limit {
        name: format!("n={n}"),
        points: vec![(0.0, limit * f64::from(*n)), (1.0, limit * f64::from(*n))],
    };
    // From the top, so that the highest has its name where they are close.
    let limits: Vec<Limit> = sweep.limit.iter().flat_map(|l| nodes.iter().rev().map(|n| limit(n, *l))).collect();
    let dashed = match sweep.limit {
        Some(limit) => format!("Dashed: what the flash of so many nodes does, {}/s each. ", words::number(limit)),
        None => String::new(),
    };
    Drawing {
        name: format!("{name} · {}", words::batch(batch)),
        title: format!("{name}: requests/s over links, {}", words::batch(batch)),
        caption: format!("{}. {dashed}", words::capital(&sweep.words())),
        lines,
        limits,
        x_ticks: across.ticks(),
    }
}

pub(super) fn without_io(entries: &[Entry]) -> Section {
    let of = |p: &Point| Some(p.summary.requests_per_second);
    let drawings = named(entries, true).iter().filter_map(|(name, s)| of_batches(name, s, "requests/s", of)).collect();
    let axis = Axis { y_title: "requests/s", x_title: X_TITLE, legend: "k", may_be_logarithmic: true };
    Section {
        heading: "Without I/O: the network alone",
        words: "P1, figure 10: nodes answer without reading.",
        figures: drawn(drawings, &axis),
        command: COMMAND,
    }
}

pub(super) fn packet_bytes(entries: &[Entry]) -> Section {
    let of = |p: &Point| p.summary.packet_bytes;
    let drawings = named(entries, false).iter().filter_map(|(name, s)| of_batches(name, s, "bytes", of)).collect();
    let axis = Axis { y_title: "bytes", x_title: X_TITLE, legend: "k", may_be_logarithmic: true };
    Section {
        heading: "Mean size of a packet",
        words: "P1, figure 11: bytes of data in a TCP packet that has some, both directions together.",
        figures: drawn(drawings, &axis),
        command: COMMAND,
    }
}

pub(super) fn packets(entries: &[Entry]) -> Section {
    let of = |p: &Point| p.summary.packets_per_second;
    let drawings = named(entries, false).iter().filter_map(|(name, s)| of_batches(name, s, "packets/s", of)).collect();
    let axis = Axis { y_title: "packets/s", x_title: X_TITLE, legend: "k", may_be_logarithmic: false };
    Section {
        heading: "Packets per second",
        words: "P1, figure 12: TCP packets between gateway and nodes, both directions together, acknowledgements included.",
        figures: drawn(drawings, &axis),
        command: COMMAND,
    }
}

/// At the largest number of nodes, one line for each k.
fn of_batches(name: &str, sweep: &Sweep, what: &str, of: impl Fn(&Point) -> Option<Spread> + Copy) -> Option<Drawing> {
    let nodes = *sweep.all_nodes().last()?;
    let at = |batch: Batch| sweep.over_links(nodes, batch).collect::<Vec<&Point>>();
    let across = across(sweep.points.iter().copied().filter(|p| p.parameters.nodes == nodes));
    let batches = sweep.batches().into_iter();
    let lines: Vec<Line> = batches
        .map(|batch| {
            let name = words::batch(batch).trim_start_matches("k=").to_string();
            line(name, look(batch), &at(batch), &across, of)
        })
        .filter(|line| !line.marks.is_empty())
        .collect();
    Some(Drawing {
        name: name.to_string(),
        title: format!("{name}: {what} over links with {}", words::plural(u64::from(nodes), "node")),
        caption: format!("{}, {}. ", words::capital(&sweep.words()), words::plural(u64::from(nodes), "node")),
        lines,
        limits: Vec::new(),
        x_ticks: across.ticks(),
    })
}

fn across<'a>(points: impl Iterator<Item = &'a Point>) -> Across {
    Across::of(&points.map(|p| p.parameters.links.max(1)).collect::<Vec<_>>())
}

fn line(name: String, look: usize, points: &[&Point], across: &Across, of: impl Fn(&Point) -> Option<Spread>) -> Line {
    let mut line = Line { name, look, marks: Vec::new(), repetitions: Vec::new() };
    for point in points {
        if let Some(spread) = of(point).filter(usable) {
            line.marks.push(mark(across.part(point.parameters.links), spread, point));
            line.repetitions.push(point.summary.repetitions);
        }
    }
    line
}
