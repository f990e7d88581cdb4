//! What P1 did not draw: requests over the links; over the nodes with P1's batches and order of reads beside automatic batches and sorted reads;
//! and the frames that a request costs.

use flashmob_results::cluster::{Batch, Order, Point};
use flashmob_results::disk::Spread;

use super::super::threads::spread_evenly;
use super::{
    Axis, COMMAND, Drawing, Line, NodeAxis, Place, Section, across_links, batch_line, drawn, line, named,
    of_each_batch, of_fixed,
};
use crate::entry::Entry;
use crate::figure::lines::Limit;
use crate::groups::grouped;
use crate::sweep::{Sweep, frames_per_request};
use crate::words;

const BEST: &str = "each k with the links that it does most with";
/// Lines that can be told apart in one figure.
const LINES_MAX: usize = 10;

/// The figures 7 to 9 the other way round: a line for each number of nodes.
pub(super) fn over_links(entries: &[Entry]) -> Section {
    let axis =
        Axis { y_title: "requests/s", x_title: "links to each node", legend: "nodes", may_be_logarithmic: false };
    Section {
        place: Place::BEYOND,
        heading: "Requests per second over links",
        words: "The same points over the links to each node: where more of them stop to help.",
        figures: drawn(of_each_batch(entries, of_batch), &axis),
        command: COMMAND,
    }
}

/// One line per number of nodes, with the limit of their flash.
fn of_batch(name: &str, sweep: &Sweep, batch: Batch) -> Drawing {
    let across = across_links(sweep.points.iter().copied().filter(|p| p.parameters.batch == batch));
    let all = sweep.all_nodes();
    let nodes = spread_evenly(sweep.nodes(batch), LINES_MAX);
    let of = |p: &Point| Some(p.summary.requests_per_second);
    let look = |n: &u32| all.binary_search(n).unwrap_or_default();
    let line = |n: &u32| line(n.to_string(), look(n), sweep.over_links(*n, batch), |p| across.part(p.links), of);
    let limit = |n: &u32, limit: f64| Limit {
        name: format!("n={n}"),
        points: vec![(0.0, limit * f64::from(*n)), (1.0, limit * f64::from(*n))],
    };
    // From the top, so that the highest has its name where they are close.
    let limits: Vec<Limit> = sweep.limit.iter().flat_map(|l| nodes.iter().rev().map(|n| limit(n, *l))).collect();
    Drawing {
        lines: nodes.iter().map(line).collect(),
        limits,
        x_ticks: across.ticks(),
        ..of_fixed(name, sweep, batch, "links")
    }
}

pub(super) fn over_nodes(entries: &[Entry]) -> Section {
    let of = |p: &Point| Some(p.summary.requests_per_second);
    let mut drawings: Vec<Drawing> = Vec::new();
    for (name, sweeps) in beside(entries) {
        let mut drawing = side_by_side(&name, &sweeps, "requests/s", of);
        let axis = NodeAxis::of_all(&sweeps);
        if let Some(limit) = sweeps.iter().find_map(|sweep| axis.flash_limit(sweep)) {
            drawing.limits.push(limit);
            drawing.caption.push_str("Dashed: what the flash of so many nodes does, in order of arrival. ");
        }
        drawings.push(drawing);
    }
    let axis = Axis { y_title: "requests/s", x_title: "nodes", legend: "k", may_be_logarithmic: false };
    Section {
        place: Place::BEYOND,
        heading: "P1's way and flashmob's side by side",
        words: "Fixed batches, which nodes of P1 read in order of arrival, beside self-clocked batches (auto: each has what gathered while earlier ones were out), which flashmob's nodes sort.",
        figures: drawn(drawings, &axis),
        command: COMMAND,
    }
}

pub(super) fn frames(entries: &[Entry]) -> Section {
    let of = |p: &Point| {
        p.summary.frames_per_request.or_else(|| {
            let median = frames_per_request(p)?;
            Some(Spread { median, min: median, max: median })
        })
    };
    let what = "frames for each request";
    let drawings = beside(entries).iter().map(|(name, sweeps)| side_by_side(name, sweeps, what, of)).collect();
    let axis = Axis { y_title: "frames/request", x_title: "nodes", legend: "k", may_be_logarithmic: true };
    Section {
        place: Place::BEYOND,
        heading: "Frames for each request",
        words: "What a request costs the air. Where the air is real, TCP packets stand in for frames.",
        figures: drawn(drawings, &axis),
        command: COMMAND,
    }
}

/// Sweeps with I/O that differ in the order of the nodes' reads alone. Several groups of a result are told apart by what else they have.
fn beside(entries: &[Entry]) -> Vec<(String, Vec<Sweep<'_>>)> {
    let mut all = Vec::new();
    for entry in entries {
        let sweeps = named(std::slice::from_ref(entry), false).into_iter().map(|(_, sweep)| sweep);
        let groups = grouped(sweeps, |sweep| (sweep.block_bytes, sweep.read_percent));
        let several = groups.len() > 1;
        for (_, group) in groups {
            let words = group.first().filter(|_| several).map(words_without_order);
            all.push((words.map_or_else(|| entry.name.clone(), |words| format!("{} · {words}", entry.name)), group));
        }
    }
    all
}

/// What a sweep is, but for the order of reads.
fn words_without_order(sweep: &Sweep) -> String {
    Sweep { order: None, points: Vec::new(), ..*sweep }.words()
}

fn side_by_side(name: &str, sweeps: &[Sweep], what: &str, of: impl Fn(&Point) -> Option<Spread>) -> Drawing {
    let axis = NodeAxis::of_all(sweeps);
    let mut lines: Vec<Line> = Vec::new();
    for sweep in sweeps {
        for batch in sweep.batches() {
            let points = sweep.nodes(batch).into_iter().filter_map(|n| sweep.best(n, batch));
            let line = batch_line(batch, points, |p| axis.part(p.nodes), &of);
            // In P1's order a batch has the look that it has in P1's figures.
            let (word, more) = match sweep.order.filter(|_| sweeps.len() > 1) {
                Some(Order::Arrival) => (", arrival", 0),
                Some(Order::Sorted) if batch != Batch::Auto => (", sorted", super::LOOKS),
                Some(Order::Sorted) => (", sorted", 0),
                None => ("", 0),
            };
            lines.push(Line { name: format!("{}{word}", line.name), look: line.look + more, ..line });
        }
    }
    lines.retain(|line| !line.marks.is_empty());
    let words = match sweeps {
        [one] => one.words(),
        several => several.first().map(words_without_order).unwrap_or_default(),
    };
    Drawing {
        name: name.to_string(),
        title: format!("{name}: {what} over nodes"),
        caption: format!("{}, {BEST}. ", words::capital(&words)),
        lines,
        limits: Vec::new(),
        x_ticks: axis.ticks(),
    }
}
