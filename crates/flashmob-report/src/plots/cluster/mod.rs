//! P1's figures 7 to 12 of clusters: over links, over nodes, and what crosses the air.
//!
//! - `links`: over the links to each node
//! - `nodes`: over the nodes, with batches that clock themselves beside fixed ones

mod links;
mod nodes;

use flashmob_results::cluster::{Batch, Point};
use flashmob_results::disk::Spread;

use super::Section;
use super::drawing::{Axis, Drawing, Line, drawn};
use crate::entry::{Entry, is_doubtful};
use crate::figure::lines::Mark;
use crate::stats::usable;
use crate::sweep::{self, Sweep};

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

/// k = 1, 10, 100 and auto look the same everywhere.
fn look(batch: Batch) -> usize {
    match batch {
        Batch::Fixed(1) => 0,
        Batch::Fixed(10) => 1,
        Batch::Fixed(100) => 2,
        Batch::Auto => 3,
        Batch::Fixed(k) => 4 + usize::from(k) % 4,
    }
}

fn mark(x: f64, spread: Spread, point: &Point) -> Mark {
    let doubtful = is_doubtful(&point.warnings);
    Mark { x, y: spread.median, range: Some((spread.min, spread.max)), doubtful }
}
