//! P1's figures 7 to 12 of clusters: over links, over nodes, and what crosses the air.
//!
//! - `links`: over the links to each node
//! - `nodes`: over the nodes, with automatic batches beside fixed ones

mod links;
mod nodes;

use flashmob_results::cluster::{Batch, Parameters, Point};
use flashmob_results::disk::Spread;

use super::Section;
use super::drawing::{Axis, Drawing, Line, drawn};
use crate::entry::{Entry, is_doubtful};
use crate::figure::lines::Mark;
use crate::stats::usable;
use crate::sweep::{self, Sweep};
use crate::words;

const COMMAND: &str = "flashmob reproduce p1";

pub(super) fn sections(entries: &[Entry]) -> Vec<Section> {
    vec![
        links::rates(entries),
        links::without_io(entries),
        links::packet_bytes(entries),
        links::packets(entries),
        nodes::rates(entries),
        nodes::frames(entries),
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
