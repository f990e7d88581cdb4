//! Over the links to each node: requests for each k (P1's figures 7 to 9), without I/O (10), packets' sizes (11) and numbers (12).

use flashmob_results::cluster::{Batch, Point};
use flashmob_results::disk::Spread;

use super::super::Figures;
use super::super::threads::Across;
use super::{Axis, COMMAND, Drawing, Line, Section, batch_line, drawn, line, named};
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

/// One line per number of nodes, with the limit of their flash.
fn of_batch(name: &str, sweep: &Sweep, batch: Batch) -> Drawing {
    let across = across(sweep.points.iter().copied().filter(|p| p.parameters.batch == batch));
    let all = sweep.all_nodes();
    let nodes = super::super::threads::spread_evenly(sweep.nodes(batch), LINES_MAX);
    let of = |p: &Point| Some(p.summary.requests_per_second);
    let look = |n: &u32| all.binary_search(n).unwrap_or_default();
    let line = |n: &u32| line(n.to_string(), look(n), sweep.over_links(*n, batch), |p| across.part(p.links), of);
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
        lines: nodes.iter().map(line).collect(),
        limits,
        x_ticks: across.ticks(),
    }
}

pub(super) fn without_io(entries: &[Entry]) -> Section {
    let of = |p: &Point| Some(p.summary.requests_per_second);
    Section {
        heading: "Without I/O: the network alone",
        words: "P1, figure 10: nodes answer without reading.",
        figures: over_batches(entries, true, "requests/s", true, of),
        command: COMMAND,
    }
}

pub(super) fn packet_bytes(entries: &[Entry]) -> Section {
    Section {
        heading: "Mean size of a packet",
        words: "P1, figure 11: bytes of data in a TCP packet that has some, both directions together.",
        figures: over_batches(entries, false, "bytes", true, |p| p.summary.packet_bytes),
        command: COMMAND,
    }
}

pub(super) fn packets(entries: &[Entry]) -> Section {
    Section {
        heading: "Packets per second",
        words: "P1, figure 12: TCP packets between gateway and nodes, both directions together, acknowledgements included.",
        figures: over_batches(entries, false, "packets/s", false, |p| p.summary.packets_per_second),
        command: COMMAND,
    }
}

/// A figure for each sweep, with a line for each k.
fn over_batches(
    entries: &[Entry],
    no_io: bool,
    what: &'static str,
    may_be_logarithmic: bool,
    of: fn(&Point) -> Option<Spread>,
) -> Figures {
    let drawings = named(entries, no_io).iter().filter_map(|(name, s)| of_batches(name, s, what, of)).collect();
    drawn(drawings, &Axis { y_title: what, x_title: X_TITLE, legend: "k", may_be_logarithmic })
}

/// At the largest number of nodes, one line for each k.
fn of_batches(name: &str, sweep: &Sweep, what: &str, of: fn(&Point) -> Option<Spread>) -> Option<Drawing> {
    let nodes = *sweep.all_nodes().last()?;
    let across = across(sweep.points.iter().copied().filter(|p| p.parameters.nodes == nodes));
    let line = |batch: Batch| batch_line(batch, sweep.over_links(nodes, batch), |p| across.part(p.links), of);
    let lines: Vec<Line> = sweep.batches().into_iter().map(line).filter(|line| !line.marks.is_empty()).collect();
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
