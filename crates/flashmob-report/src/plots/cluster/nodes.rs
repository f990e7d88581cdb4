//! Over the nodes, each k with its best number of links: automatic batches beside P1's fixed ones.

use flashmob_results::cluster::{Batch, Point};
use flashmob_results::disk::Spread;

use super::{Axis, COMMAND, Drawing, Section, batch_line, drawn, named};
use crate::entry::Entry;
use crate::figure::lines::Limit;
use crate::sweep::{Sweep, frames_per_request};
use crate::words;

const BEST: &str = "each k with the links that it does most with";

pub(super) fn rates(entries: &[Entry]) -> Section {
    let of = |p: &Point| Some(p.summary.requests_per_second);
    let mut drawings: Vec<Drawing> = Vec::new();
    for (name, sweep) in named(entries, false) {
        let mut drawing = over_nodes(&name, &sweep, "requests/s", of);
        if let Some(limit) = sweep.limit {
            let axis = NodeAxis::of(&sweep);
            let points = sweep.all_nodes().into_iter().map(|n| (axis.part(n), limit * f64::from(n))).collect();
            drawing.limits.push(Limit { name: "flash".into(), points });
            drawing.caption.push_str("Dashed: what the flash of so many nodes does. ");
        }
        drawings.push(drawing);
    }
    let axis = Axis { y_title: "requests/s", x_title: "nodes", legend: "k", may_be_logarithmic: false };
    Section {
        heading: "Requests per second over nodes",
        words: "Batches that clock themselves (auto, one of which is what gathered while earlier ones were out) beside P1's fixed ones.",
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
    let drawings = named(entries, false).iter().map(|(name, s)| over_nodes(name, s, what, of)).collect();
    let axis = Axis { y_title: "frames/request", x_title: "nodes", legend: "k", may_be_logarithmic: true };
    Section {
        heading: "Frames for each request",
        words: "What a request costs the air. Where the air is real, TCP packets stand in for frames.",
        figures: drawn(drawings, &axis),
        command: COMMAND,
    }
}

/// A linear axis of nodes.
struct NodeAxis {
    min: f64,
    max: f64,
    nodes: Vec<u32>,
}

impl NodeAxis {
    fn of(sweep: &Sweep) -> NodeAxis {
        let nodes = sweep.all_nodes();
        let at = |n: Option<&u32>| f64::from(n.copied().unwrap_or(1));
        NodeAxis { min: at(nodes.first()), max: at(nodes.last()), nodes }
    }

    fn part(&self, nodes: u32) -> f64 {
        if self.max > self.min { (f64::from(nodes) - self.min) / (self.max - self.min) } else { 0.5 }
    }

    fn ticks(&self) -> Vec<(f64, String)> {
        let some = super::super::threads::spread_evenly(self.nodes.clone(), 8);
        some.into_iter().map(|n| (self.part(n), words::short(f64::from(n)))).collect()
    }
}

fn over_nodes(name: &str, sweep: &Sweep, what: &str, of: impl Fn(&Point) -> Option<Spread>) -> Drawing {
    let axis = NodeAxis::of(sweep);
    let line = |batch: Batch| {
        let points = sweep.nodes(batch).into_iter().filter_map(|n| sweep.best(n, batch));
        batch_line(batch, points, |p| axis.part(p.nodes), &of)
    };
    Drawing {
        name: name.to_string(),
        title: format!("{name}: {what} over nodes"),
        caption: format!("{}, {BEST}. ", words::capital(&sweep.words())),
        lines: sweep.batches().into_iter().map(line).filter(|l| !l.marks.is_empty()).collect(),
        limits: Vec::new(),
        x_ticks: axis.ticks(),
    }
}
