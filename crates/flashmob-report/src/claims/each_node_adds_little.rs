//! C22: without aggregation each node after the first adds little, and more links help only so far, for the air is what holds the cluster back.
//!
//! k = 1, at each number of nodes the links that suit it best. From one node to the most (8 at least), each node after the first adds on average less than
//! half of what one does alone; half would still be a reason to buy another. At the most nodes, the most links (8 at least) do at most 10 % more than half as
//! many. And without I/O, where it was measured, the most nodes do at most 25 % more: then no flash is what they wait for.

use flashmob_results::cluster::Point;

use super::clusters::{
    Case, LINKS_MANY, NODES_MAX, ONE, best, most_links, name_measurement, nodes_from_one, per_second,
};
use super::{Definition, Finding, Judged, Missing};
use crate::entry::Entry;
use crate::sweep::{Sweep, rate, sweeps};
use crate::words;

const ADDED_MAX: f64 = 0.50;
const BY_LINKS_MAX: f64 = 1.10;
const WITHOUT_IO_MAX: f64 = 1.25;

pub(super) const CLAIM: Definition = Definition {
    id: "C22",
    source: "P1, Fig. 7",
    words: "Without aggregation (k = 1) each node after the first adds little, and hiding latency with more links helps only so far, because Wi-Fi is the bottleneck.",
    short: "k=1: each node more adds little",
    criterion: "k = 1, the best of all links: each node after the first adds less than half of one node's rate on average, up to 8 nodes; there, the most links (8 at least) do at most 10 % more than half as many, and reads without I/O, if measured, at most 25 % more.",
    paper: "throughput grows slowly with the nodes; Wi-Fi is the bottleneck (no figures in the text)",
    judge: judged,
    ..Definition::CLUSTER
};

fn judged(entries: &[Entry]) -> Judged {
    let mut judged = Judged::default();
    for (at, entry) in entries.iter().enumerate() {
        let Some(cluster) = entry.cluster() else { continue };
        let mut all: Vec<Sweep> = sweeps(cluster).into_iter().filter(Sweep::reads_only).collect();
        all.iter_mut().for_each(|sweep| sweep.points.retain(|p| p.parameters.nodes <= NODES_MAX));
        let (without, with): (Vec<Sweep>, Vec<Sweep>) = all.into_iter().partition(|sweep| sweep.no_io);
        let results = with.iter().map(|sweep| {
            let twin = without.iter().find(|other| other.block_bytes == sweep.block_bytes);
            (sweep.words(), of_sweep(Case { entries, at }, sweep, twin))
        });
        judged.add(at, results, "no reads were measured");
    }
    name_measurement(entries, false, &mut judged);
    // It is about the same figure as C5.
    super::several_nodes_stay_below::mark_fitted(entries, &mut judged);
    judged
}

fn of_sweep(case: Case, sweep: &Sweep, without_io: Option<&Sweep>) -> Result<Finding, Missing> {
    case.disks_of_their_own(sweep)?;
    let nodes = nodes_from_one(sweep, ONE)?;
    let most = nodes[nodes.len() - 1];
    if most < NODES_MAX {
        return Err(format!("k=1 was not measured with {NODES_MAX} nodes").into());
    }
    let (first, last) = (best(sweep, 1, ONE)?, best(sweep, most, ONE)?);
    let added = (rate(last) - rate(first)) / f64::from(most - 1) / rate(first);
    let many = most_links(sweep, most, ONE, LINKS_MANY)?;
    let links = many.parameters.links;
    let half = sweep
        .at(most, links / 2, ONE)
        .ok_or_else(|| format!("k=1 with {most} nodes was not measured with {} links", links / 2))?;
    let by_links = rate(many) / rate(half);
    let idle = without_io.and_then(|sweep| sweep.best(most, ONE));
    let by_flash = idle.map(|point| rate(point) / rate(last));
    let holds = added < ADDED_MAX && by_links <= BY_LINKS_MAX && by_flash.is_none_or(|ratio| ratio <= WITHOUT_IO_MAX);
    let told = match (idle, by_flash) {
        (Some(point), Some(ratio)) => {
            format!("without I/O {}, {} times as many", per_second(point), words::number(ratio))
        }
        _ => "reads without I/O were not measured".to_string(),
    };
    let numbers = format!(
        "n=1 {}, n={most} {}: each node more adds {} of the first; n={most} with {links} links {}, {} times as many as with {}; {told}",
        per_second(first),
        per_second(last),
        words::percent(added),
        per_second(many),
        words::number(by_links),
        links / 2,
    );
    let points: Vec<&Point> = [first, last, many, half].into_iter().chain(idle).collect();
    Ok(Finding::of_cluster(case.at, holds, numbers, &points))
}
