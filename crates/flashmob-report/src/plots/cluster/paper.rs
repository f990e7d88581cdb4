//! P1's figures 7 to 12, with its axes: requests over the nodes with a line for each number of links (7 to 9), without I/O (10), and packets over
//! the links, with I/O and without (11, 12).

use flashmob_results::cluster::{Batch, Point};
use flashmob_results::disk::Spread;

use super::super::Figures;
use super::super::threads::spread_evenly;
use super::{
    Axis, COMMAND, Drawing, Line, NodeAxis, Place, Section, across_links, batch_line, beside, drawn, fixed, line,
    named, of_each_batch, of_fixed,
};
use crate::entry::Entry;
use crate::sweep::Sweep;
use crate::words;

/// Lines that can be told apart in one figure.
const LINES_MAX: usize = 8;

/// Figures 7 to 9: one for each k.
pub(super) fn rates(entries: &[Entry]) -> Section {
    let axis = Axis { y_title: "requests/s", x_title: "nodes", legend: "links", may_be_logarithmic: false };
    Section {
        place: Place::paper(1, 7),
        heading: "Requests per second over nodes",
        words: "P1, figures 7 to 9: with one request in each packet several nodes stay below what their flash does; with ten or a hundred they reach it.",
        figures: drawn(of_each_batch(entries, of_batch), &axis),
        command: COMMAND,
    }
}

/// One line for each number of links, with the limit of the nodes' flash.
fn of_batch(name: &str, sweep: &Sweep, batch: Batch) -> Drawing {
    let axis = NodeAxis::of(sweep);
    let of = |p: &Point| Some(p.summary.requests_per_second);
    let all = sweep.links(batch);
    let look = |links: u32| all.iter().position(|l| *l == links).unwrap_or_default();
    let line = |links: u32| {
        let points = sweep.nodes(batch).into_iter().filter_map(|n| sweep.at(n, links, batch));
        line(links.to_string(), look(links), points, |p| axis.part(p.nodes), of)
    };
    Drawing {
        lines: spread_evenly(all.clone(), LINES_MAX).into_iter().map(line).collect(),
        limits: axis.flash_limit(sweep).into_iter().collect(),
        x_ticks: axis.ticks(),
        ..of_fixed(name, sweep, batch, "nodes")
    }
}

/// Figure 10.
pub(super) fn without_io(entries: &[Entry]) -> Section {
    let drawings = named(entries, true).iter().filter_map(|(name, sweep)| at_most_links(name, sweep)).collect();
    Section {
        place: Place::paper(1, 10),
        heading: "Without I/O: the network alone",
        words: "P1, figure 10: nodes answer without reading; the most links to each (P1: 32).",
        figures: drawn(
            drawings,
            &Axis { y_title: "requests/s", x_title: "nodes", legend: "k", may_be_logarithmic: true },
        ),
        command: COMMAND,
    }
}

/// Over the nodes with the most links that batches of a fixed size were measured with.
fn at_most_links(name: &str, sweep: &Sweep) -> Option<Drawing> {
    let most = fixed(sweep).into_iter().flat_map(|batch| sweep.links(batch)).max()?;
    let axis = NodeAxis::of(sweep);
    let of = |p: &Point| Some(p.summary.requests_per_second);
    let line = |batch: Batch| {
        let points = sweep.nodes(batch).into_iter().filter_map(|n| sweep.at(n, most, batch));
        batch_line(batch, points, |p| axis.part(p.nodes), of)
    };
    let links = words::plural(u64::from(most), "link");
    Some(Drawing {
        name: name.to_string(),
        title: format!("{name}: requests/s over nodes with {links}"),
        caption: format!("{}, {links} to each node. ", words::capital(&sweep.words())),
        lines: fixed(sweep).into_iter().map(line).filter(|line| !line.marks.is_empty()).collect(),
        limits: Vec::new(),
        x_ticks: axis.ticks(),
    })
}

/// Figure 11.
pub(super) fn packet_bytes(entries: &[Entry]) -> Section {
    Section {
        place: Place::paper(1, 11),
        heading: "Mean size of a packet",
        words: "P1, figure 11: bytes of data in a TCP packet that has some, both directions together; with I/O and without.",
        figures: packets_over_links(entries, "bytes", true, |p| p.summary.packet_bytes),
        command: COMMAND,
    }
}

/// Figure 12.
pub(super) fn packets(entries: &[Entry]) -> Section {
    Section {
        place: Place::paper(1, 12),
        heading: "Packets per second",
        words: "P1, figure 12: TCP packets between gateway and nodes, both directions together, acknowledgements included; with I/O and without.",
        figures: packets_over_links(entries, "packets/s", false, |p| p.summary.packets_per_second),
        command: COMMAND,
    }
}

/// A figure for each sweep with I/O that has fixed batches, and the one without I/O beside it.
fn packets_over_links(
    entries: &[Entry],
    what: &'static str,
    may_be_logarithmic: bool,
    of: fn(&Point) -> Option<Spread>,
) -> Figures {
    let mut drawings = Vec::new();
    for entry in entries {
        let one = std::slice::from_ref(entry);
        let (mut with, without) = (named(one, false), named(one, true));
        // Automatic batches alone give no line: what is without I/O would be drawn once more.
        with.retain(|(_, sweep)| !fixed(sweep).is_empty());
        let is_twin = |a: &Sweep, b: &Sweep| a.block_bytes == b.block_bytes && a.read_percent == b.read_percent;
        for (name, sweep) in &with {
            let twin = without.iter().find(|(_, other)| is_twin(sweep, other)).map(|(_, other)| other);
            let both: Vec<&Sweep> = std::iter::once(sweep).chain(twin).collect();
            drawings.extend(over_links(name, &both, what, of));
        }
        let alone = without.iter().filter(|(_, sweep)| !with.iter().any(|(_, other)| is_twin(sweep, other)));
        drawings.extend(alone.filter_map(|(name, sweep)| over_links(name, &[sweep], what, of)));
    }
    drawn(drawings, &Axis { y_title: what, x_title: "links to each node", legend: "k", may_be_logarithmic })
}

/// At the largest number of nodes of the first sweep, a line for each k of each sweep.
fn over_links(name: &str, sweeps: &[&Sweep], what: &str, of: fn(&Point) -> Option<Spread>) -> Option<Drawing> {
    let first = sweeps.first()?;
    let nodes = *first.all_nodes().last()?;
    let all = sweeps.iter().flat_map(|sweep| sweep.points.iter().copied());
    let across = across_links(all.filter(|p| p.parameters.nodes == nodes && p.parameters.batch != Batch::Auto));
    let mut lines: Vec<Line> = Vec::new();
    for sweep in sweeps {
        lines.extend(fixed(sweep).into_iter().map(|batch| {
            let line = batch_line(batch, sweep.over_links(nodes, batch), |p| across.part(p.links), of);
            match sweep.no_io {
                true => Line { name: format!("{}, no I/O", line.name), look: line.look + super::LOOKS, ..line },
                false => line,
            }
        }));
    }
    lines.retain(|line| !line.marks.is_empty());
    Some(Drawing {
        name: name.to_string(),
        title: format!("{name}: {what} over links with {}", words::plural(u64::from(nodes), "node")),
        caption: format!("{}{}. ", beside(name, first), words::plural(u64::from(nodes), "node")),
        lines,
        limits: Vec::new(),
        x_ticks: across.ticks(),
    })
}
