//! Common to the claims about clusters: the sweeps that they use, and what is missing if one cannot be judged.
//!
//! P1's cluster had one to eight nodes: points with more are ignored. Rates are those of a batch's best number of links unless
//! a claim is about links.

use flashmob_results::cluster::{Batch, Point};

use super::node_limit::{self, Limit};
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

/// What measures a cluster of real devices.
const MEASURE: &str = "flashmob bench cluster --config FILE --nodes 1,2,4,8 --links 1,2,4,8,16,32 --batch 1,10,100 --repeat 3 --save cluster.json";
/// The same without I/O.
const MEASURE_NO_IO: &str = "flashmob bench cluster --config FILE --no-io --links 1,2,4,8,16,32 --batch 1,10,100 --repeat 3 --save cluster.json";

/// One cluster to judge, among all results.
#[derive(Clone, Copy)]
pub(super) struct Case<'a> {
    pub entries: &'a [Entry],
    /// Its place among them.
    pub at: usize,
}

impl<'a> Case<'a> {
    /// Neither its air nor its nodes' flash is a model.
    pub fn is_real(self) -> bool {
        node_limit::is_real(&self.entries[self.at])
    }

    /// The nodes' own limit.
    pub fn limit(self, sweep: &Sweep) -> Result<Limit<'a>, Missing> {
        node_limit::of(self, sweep)
    }

    /// A claim about several nodes is about as many disks: an error if extents of the sweep's nodes share one.
    pub fn disks_of_their_own(self, sweep: &Sweep) -> Result<(), Missing> {
        let nodes = sweep.all_nodes().into_iter().max().unwrap_or(0);
        let shared = self.entries[self.at].cluster().map_or_else(Vec::new, |cluster| cluster.shared_disks(nodes));
        let groups = shared.iter().map(|group| {
            let numbers: Vec<String> = group.iter().map(ToString::to_string).collect();
            format!("nodes {}", words::list(&numbers))
        });
        match words::joined(groups) {
            None => Ok(()),
            Some(groups) => Err(format!(
                "the extents of {groups} are on one disk and share its limit, so that this is not about {nodes} nodes' flash; give each node a disk of its own"
            )
            .into()),
        }
    }
}

/// Names what measures a real cluster, in place of a model, where something is missing.
pub(super) fn name_measurement(entries: &[Entry], no_io: bool, judged: &mut Judged) {
    for (at, missing) in judged.missing.iter_mut().filter(|(_, missing)| missing.command.is_none()) {
        if entries.get(*at).is_some_and(node_limit::is_real) {
            missing.command = Some(if no_io { MEASURE_NO_IO } else { MEASURE }.into());
        }
    }
}

/// Judges every sweep of reads of every cluster, with I/O or without.
pub(super) fn each(entries: &[Entry], no_io: bool, of: fn(Case, &Sweep) -> Result<Finding, Missing>) -> Judged {
    let nothing = if no_io { "reads without I/O were not measured" } else { "no reads were measured" };
    let mut judged = Judged::default();
    for (at, entry) in entries.iter().enumerate() {
        let Some(cluster) = entry.cluster() else { continue };
        let sweeps = sweep::sweeps(cluster).into_iter().filter(|s| s.no_io == no_io && s.reads_only());
        let results = sweeps.map(|mut sweep| {
            sweep.points.retain(|p| (1..=NODES_MAX).contains(&p.parameters.nodes));
            (sweep.words(), of(Case { entries, at }, &sweep))
        });
        judged.add(at, results, nothing);
    }
    name_measurement(entries, no_io, &mut judged);
    judged
}

/// The fastest over links with so many nodes.
pub(super) fn best<'a>(sweep: &Sweep<'a>, nodes: u32, batch: Batch) -> Result<&'a Point, Missing> {
    let none = || format!("{} with {} was not measured", words::batch(batch), words::plural(u64::from(nodes), "node"));
    sweep.best(nodes, batch).ok_or_else(|| none().into())
}

/// Numbers of nodes from 1 to at least 2 with such batches.
pub(super) fn nodes_from_one(sweep: &Sweep, batch: Batch) -> Result<Vec<u32>, Missing> {
    best(sweep, 1, batch)?;
    let nodes = sweep.nodes(batch);
    if nodes.len() > 1 {
        Ok(nodes)
    } else {
        Err(format!("{} with several nodes was not measured", words::batch(batch)).into())
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
        .into()
    })
}

/// The largest number of nodes that all of these batches were measured with.
pub(super) fn most_nodes(sweep: &Sweep, batches: &[Batch]) -> Result<u32, Missing> {
    let has = |nodes: &u32| batches.iter().all(|batch| sweep.best(*nodes, *batch).is_some());
    let names: Vec<String> = batches.iter().map(|batch| words::batch(*batch)).collect();
    let most = sweep.all_nodes().into_iter().rev().find(has);
    most.ok_or_else(|| format!("{} were not all measured with equally many nodes", words::list(&names)).into())
}

/// `7,012/s`.
pub(super) fn per_second(point: &Point) -> String {
    format!("{}/s", words::number(rate(point)))
}
