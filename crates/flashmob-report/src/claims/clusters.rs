//! Common to the claims about clusters: the sweeps that they use, and what is missing if one cannot be judged.
//!
//! P1's cluster had one to eight nodes: points with more are ignored. Rates are those of a batch's best number of links unless
//! a claim is about links.

use flashmob_results::cluster::{Batch, Point};

use super::{Finding, Judged, Missing};
use crate::entry::Entry;
use crate::sweep::{self, Sweep, rate};
use crate::words;

/// P1's nodes.
pub(super) const NODES_MAX: u32 = 8;
/// Links that a sweep must reach before more of them can be said not to help.
pub(super) const LINKS_MANY: u32 = 8;
/// P1's batches.
pub(super) const ONE: Batch = Batch::Fixed(1);
pub(super) const TEN: Batch = Batch::Fixed(10);
pub(super) const HUNDRED: Batch = Batch::Fixed(100);

/// Judges every sweep of reads of every cluster, with I/O or without.
pub(super) fn each(entries: &[Entry], no_io: bool, of: fn(usize, &Sweep) -> Result<Finding, Missing>) -> Judged {
    let nothing = if no_io { "reads without I/O were not measured" } else { "no reads were measured" };
    let mut judged = Judged::default();
    for (at, entry) in entries.iter().enumerate() {
        let Some(cluster) = entry.cluster() else { continue };
        let sweeps = sweep::sweeps(cluster).into_iter().filter(|s| s.no_io == no_io && s.reads_only());
        let results = sweeps.map(|mut sweep| {
            sweep.points.retain(|p| (1..=NODES_MAX).contains(&p.parameters.nodes));
            (sweep.words(), of(at, &sweep))
        });
        judged.add(at, results, nothing);
    }
    judged
}

/// The nodes' own limit.
pub(super) fn limit(sweep: &Sweep) -> Result<f64, Missing> {
    sweep.limit.ok_or_else(|| "what one node's flash does alone is not known".into())
}

/// The fastest over links with so many nodes.
pub(super) fn best<'a>(sweep: &Sweep<'a>, nodes: u32, batch: Batch) -> Result<&'a Point, Missing> {
    let none = || format!("{} with {} was not measured", words::batch(batch), words::plural(u64::from(nodes), "node"));
    sweep.best(nodes, batch).ok_or_else(none)
}

/// Numbers of nodes from 1 to at least 2 with such batches.
pub(super) fn nodes_from_one(sweep: &Sweep, batch: Batch) -> Result<Vec<u32>, Missing> {
    best(sweep, 1, batch)?;
    let nodes = sweep.nodes(batch);
    if nodes.len() > 1 {
        Ok(nodes)
    } else {
        Err(format!("{} with several nodes was not measured", words::batch(batch)))
    }
}

/// The most links of a sweep, which must be so many at least.
pub(super) fn most_links<'a>(sweep: &Sweep<'a>, nodes: u32, batch: Batch, least: u32) -> Result<&'a Point, Missing> {
    let most = sweep.over_links(nodes, batch).max_by_key(|p| p.parameters.links);
    most.filter(|p| p.parameters.links >= least).ok_or_else(|| {
        format!(
            "{} with {} was not measured with {least} links or more",
            words::batch(batch),
            words::plural(u64::from(nodes), "node")
        )
    })
}

/// The largest number of nodes that all of these batches were measured with.
pub(super) fn most_nodes(sweep: &Sweep, batches: &[Batch]) -> Result<u32, Missing> {
    let has = |nodes: &u32| batches.iter().all(|batch| sweep.best(*nodes, *batch).is_some());
    let names: Vec<String> = batches.iter().map(|batch| words::batch(*batch)).collect();
    let most = sweep.all_nodes().into_iter().rev().find(has);
    most.ok_or_else(|| format!("{} were not all measured with equally many nodes", words::list(&names)))
}

/// `7,012/s`.
pub(super) fn per_second(point: &Point) -> String {
    format!("{}/s", words::number(rate(point)))
}
