//! P1's figures 7 to 12 of clusters: over links, over nodes, and what crosses the air.
//!
//! - `links`: over the links to each node
//! - `nodes`: over the nodes, with batches that clock themselves beside fixed ones

mod links;
mod nodes;

use flashmob_results::cluster::{Batch, Point};
use flashmob_results::disk::Spread;

use super::Section;
use crate::Error;
use crate::entry::{Entry, doubts};
use crate::figure::Figure;
use crate::figure::axes::Scale;
use crate::figure::lines::{Limit, Lines, Mark, Series};
use crate::sweep::{self, Sweep};
use crate::words;

const COMMAND: &str = "flashmob reproduce p1";
/// Beyond this factor between highest and lowest, small values would lie on the axis.
const LINEAR_RATIO_MAX: f64 = 40.0;

pub(super) fn sections(entries: &[Entry], next: &mut impl FnMut() -> usize) -> Result<Vec<Section>, Error> {
    Ok(vec![
        links::rates(entries, next)?,
        links::without_io(entries, next)?,
        links::packet_bytes(entries, next)?,
        links::packets(entries, next)?,
        nodes::rates(entries, next)?,
        nodes::frames(entries, next)?,
    ])
}

/// One of these figures before it is drawn.
struct Drawing {
    name: String,
    title: String,
    /// Below it, before what is said of scale and repetitions.
    caption: String,
    lines: Vec<Line>,
    limits: Vec<Limit>,
    x_ticks: Vec<(f64, String)>,
}

struct Line {
    name: String,
    look: usize,
    marks: Vec<Mark>,
    /// Repetitions that count at each point.
    repetitions: Vec<u32>,
}

/// What all figures of a section have in common.
struct Axis {
    y_title: &'static str,
    x_title: &'static str,
    legend: &'static str,
    may_be_logarithmic: bool,
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
    let doubtful = doubts(&point.warnings).next().is_some();
    Mark { x, y: spread.median, range: Some((spread.min, spread.max)), doubtful }
}

/// It can be drawn.
fn usable(spread: &Spread) -> bool {
    [spread.median, spread.min, spread.max].iter().all(|v| v.is_finite()) && spread.median > 0.0
}

fn drawn(
    drawings: Vec<Drawing>,
    axis: &Axis,
    next: &mut impl FnMut() -> usize,
) -> Result<Vec<(String, Figure)>, Error> {
    // A single place across is no line.
    let has_line = |d: &Drawing| d.lines.iter().any(|l| l.marks.len() > 1);
    let drawings: Vec<Drawing> = drawings.into_iter().filter(has_line).collect();
    let values = |d: &Drawing| -> Vec<f64> {
        let marks = d.lines.iter().flat_map(|l| &l.marks).flat_map(|m| [m.y, m.range.map_or(m.y, |r| r.1)]);
        marks.chain(d.limits.iter().flat_map(|l| l.points.iter().map(|p| p.1))).collect()
    };
    let highest: Vec<f64> = drawings.iter().map(|d| values(d).into_iter().fold(0.0, f64::max)).collect();
    let lowest = drawings.iter().flat_map(&values).fold(f64::INFINITY, f64::min);
    let top = highest.iter().copied().fold(0.0, f64::max);
    let logarithmic = axis.may_be_logarithmic && top > lowest * LINEAR_RATIO_MAX;
    let (scales, note) = if logarithmic {
        (vec![Scale::log(lowest, top); drawings.len()], " Logarithmic.")
    } else {
        super::linear_scales(&highest)
    };
    let mut figures = Vec::new();
    for (drawing, scale) in drawings.into_iter().zip(scales) {
        let doubtful = drawing.lines.iter().flat_map(|l| &l.marks).any(|m| m.doubtful);
        let repetitions = super::how_many(drawing.lines.iter().flat_map(|l| l.repetitions.iter().copied()));
        let lines = Lines {
            description: description(&drawing, axis),
            caption: format!(
                "{}{repetitions}.{note}{}",
                drawing.caption,
                if doubtful { " Hollow: doubtful, see the warnings." } else { "" }
            ),
            title: drawing.title,
            y_title: axis.y_title.into(),
            x_title: axis.x_title.into(),
            legend: axis.legend.into(),
            scale,
            x_ticks: drawing.x_ticks,
            series: drawing.lines.into_iter().map(|l| Series { name: l.name, look: l.look, points: l.marks }).collect(),
            limits: drawing.limits,
        };
        figures.push((drawing.name, lines.draw(next())?));
    }
    Ok(figures)
}

/// The last value of each line.
fn description(drawing: &Drawing, axis: &Axis) -> String {
    let last = |l: &Line| Some(format!("{} {}: {}", axis.legend, l.name, words::number(l.marks.last()?.y)));
    let values: Vec<String> = drawing.lines.iter().filter_map(last).collect();
    format!("Lines over {}. Rightmost values in {}: {}.", axis.x_title, axis.y_title, values.join("; "))
}
