//! Figures of clusters: P1's figures 7 to 12, then what is drawn beyond them.
//!
//! - `paper`: P1's
//! - `beyond`: automatic batches and sorted reads beside P1's way, and requests over the links

mod beyond;
mod paper;

use flashmob_results::cluster::{Batch, Parameters, Point};
use flashmob_results::disk::Spread;

use super::drawing::{Axis, Drawing, Line, drawn};
use super::threads::{Across, spread_evenly};
use super::{Place, Section};
use crate::entry::{Entry, is_doubtful};
use crate::figure::lines::{Limit, Mark};
use crate::stats::usable;
use crate::sweep::{self, Sweep};
use crate::words;

const COMMAND: &str = "flashmob reproduce p1";
/// Added to a look, it keeps the hue and changes dash and marker.
const LOOKS: usize = crate::figure::HUES;

pub(super) fn sections(entries: &[Entry]) -> Vec<Section> {
    vec![
        paper::rates(entries),
        paper::without_io(entries),
        paper::packet_bytes(entries),
        paper::packets(entries),
        beyond::over_links(entries),
        beyond::over_nodes(entries),
        beyond::frames(entries),
    ]
}

/// Sweeps of clusters with or without I/O, each with a name.
fn named(entries: &[Entry], no_io: bool) -> Vec<(String, Sweep<'_>)> {
    let mut all = Vec::new();
    for entry in entries {
        let Some(cluster) = entry.cluster() else { continue };
        let sweeps: Vec<Sweep> = sweep::sweeps(cluster).into_iter().filter(|s| s.no_io == no_io).collect();
        let several = sweeps.len() > 1;
        for sweep in sweeps {
            let name = if several { format!("{} · {}", entry.name, sweep.words()) } else { entry.name.clone() };
            all.push((name, sweep));
        }
    }
    all
}

/// The sweep in words as the begin of a caption, unless the name has them.
fn beside(name: &str, sweep: &Sweep) -> String {
    let words = sweep.words();
    if name.ends_with(&words) { String::new() } else { format!("{}. ", words::capital(&words)) }
}

/// P1's batches: those of a fixed size.
fn fixed(sweep: &Sweep) -> Vec<Batch> {
    sweep.batches().into_iter().filter(|batch| *batch != Batch::Auto).collect()
}

/// A drawing of each of P1's batches in each sweep with I/O.
fn of_each_batch(entries: &[Entry], of_batch: impl Fn(&str, &Sweep, Batch) -> Drawing) -> Vec<Drawing> {
    let mut drawings = Vec::new();
    for (name, sweep) in named(entries, false) {
        drawings.extend(fixed(&sweep).into_iter().map(|batch| of_batch(&name, &sweep, batch)));
    }
    drawings
}

/// The texts of a drawing of requests/s with this batch, over nodes or links; its lines, limits and ticks are the caller's.
fn of_fixed(name: &str, sweep: &Sweep, batch: Batch, over: &str) -> Drawing {
    let dashed = match sweep.limit {
        Some(limit) => format!("Dashed: what the flash of so many nodes does, {}/s each. ", words::number(limit)),
        None => String::new(),
    };
    Drawing {
        name: format!("{name} · {}", words::batch(batch)),
        title: format!("{name}: requests/s over {over}, {}", words::batch(batch)),
        caption: format!("{}{dashed}", beside(name, sweep)),
        lines: Vec::new(),
        limits: Vec::new(),
        x_ticks: Vec::new(),
    }
}

/// k = 1, 10, 100 and auto look the same in all figures.
fn look(batch: Batch) -> usize {
    match batch {
        Batch::Fixed(1) => 0,
        Batch::Fixed(10) => 1,
        Batch::Fixed(100) => 2,
        Batch::Auto => 3,
        Batch::Fixed(k) => 4 + usize::from(k) % 4,
    }
}

/// A batch's line at the positions `x`; points without a usable value are left out.
fn batch_line<'a>(
    batch: Batch,
    points: impl Iterator<Item = &'a Point>,
    x: impl Fn(&Parameters) -> f64,
    of: impl Fn(&Point) -> Option<Spread>,
) -> Line {
    line(words::batch(batch).trim_start_matches("k=").to_string(), look(batch), points, x, of)
}

fn line<'a>(
    name: String,
    look: usize,
    points: impl Iterator<Item = &'a Point>,
    x: impl Fn(&Parameters) -> f64,
    of: impl Fn(&Point) -> Option<Spread>,
) -> Line {
    let mut line = Line { name, look, marks: Vec::new(), repetitions: Vec::new() };
    for point in points {
        if let Some(Spread { median, min, max }) = of(point).filter(usable) {
            let (x, doubtful) = (x(&point.parameters), is_doubtful(&point.warnings));
            line.marks.push(Mark { x, y: median, range: Some((min, max)), doubtful });
            line.repetitions.push(point.summary.repetitions);
        }
    }
    line
}

fn across_links<'a>(points: impl Iterator<Item = &'a Point>) -> Across {
    Across::of(&points.map(|p| p.parameters.links.max(1)).collect::<Vec<_>>())
}

/// A linear axis of nodes.
struct NodeAxis {
    min: f64,
    max: f64,
    nodes: Vec<u32>,
}

impl NodeAxis {
    fn of(sweep: &Sweep) -> NodeAxis {
        NodeAxis::of_all(std::slice::from_ref(sweep))
    }

    fn of_all(sweeps: &[Sweep]) -> NodeAxis {
        let mut nodes: Vec<u32> = sweeps.iter().flat_map(Sweep::all_nodes).collect();
        nodes.sort_unstable();
        nodes.dedup();
        let at = |n: Option<&u32>| f64::from(n.copied().unwrap_or(1));
        NodeAxis { min: at(nodes.first()), max: at(nodes.last()), nodes }
    }

    fn part(&self, nodes: u32) -> f64 {
        if self.max > self.min { (f64::from(nodes) - self.min) / (self.max - self.min) } else { 0.5 }
    }

    fn ticks(&self) -> Vec<(f64, String)> {
        let some = spread_evenly(self.nodes.clone(), 8);
        some.into_iter().map(|n| (self.part(n), words::short(f64::from(n)))).collect()
    }

    /// What the flash of so many nodes does alone.
    fn flash_limit(&self, sweep: &Sweep) -> Option<Limit> {
        let limit = sweep.limit?;
        let points = self.nodes.iter().map(|n| (self.part(*n), limit * f64::from(*n))).collect();
        Some(Limit { name: "flash".into(), points })
    }
}
