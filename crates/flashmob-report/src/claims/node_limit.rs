//! What one node's flash does alone. Of modelled flash the cluster's result has it; of real nodes a result of `flashmob bench disk` on a node's disk.
//!
//! A disk's limit is the most that it did in random reads of the cluster's size, at any number of threads from [`THREADS_MIN`] on, as P1 has it: its
//! tablet's ceiling over threads. Reads below 4 KiB may be stood for by 4 KiB, since the kernel reads whole pages. A measured disk is a node's if
//! both results have the same id of it. Where one of them has none (older versions, systems that hide it), the only disk in the report is taken,
//! if it does not rotate, and the verdict says so. Nodes are taken to be equal: those of the paper are.

use std::collections::BTreeSet;

use flashmob_results::cluster::{self, Setting};
use flashmob_results::disk::Point;
use flashmob_results::warning::Code;

use super::clusters::Case;
use super::{Finding, Missing, REPETITIONS_MIN, rate, rates};
use crate::entry::{self, Entry, Medium, doubts};
use crate::groups::grouped;
use crate::sweep::{self, Sweep};
use crate::words;

/// Threads that a node reads with unless it is told another number, and up to which C2 sees flash grow.
const THREADS_MIN: u32 = 4;
/// Of smaller reads the kernel fetches as much.
const PAGE_BYTES: u64 = 4_096;
/// Measured disks of several nodes may differ by this factor and count as equal: C4's tenth.
const EQUAL_WITHIN: f64 = 1.10;
/// A cluster that does more than this times what its disks do is answered from memory: sorting alone gains a fifth.
const PAST_MAX: f64 = 1.5;

/// Requests per second of one node's flash alone, and where that is known from.
pub(super) struct Limit<'a> {
    pub requests_per_second: f64,
    measured: Option<Measured<'a>>,
}

/// A measurement of a disk.
struct Measured<'a> {
    /// Its result.
    at: usize,
    point: &'a Point,
    /// Whose disk it is.
    whose: String,
    /// The size of the cluster's requests, where another one stands for it.
    in_place_of: Option<u64>,
}

/// How a measured disk relates to those of the nodes.
#[derive(PartialEq)]
enum Kin {
    /// It is that of this node, counted from 1.
    Node(usize),
    /// The results do not say.
    Unknown,
    /// It is none of theirs.
    Other,
}

/// The limit of one node for the sweep's requests.
pub(super) fn of<'a>(case: Case<'a>, sweep: &Sweep) -> Result<Limit<'a>, Missing> {
    if let Some(requests_per_second) = sweep.limit {
        return Ok(Limit { requests_per_second, measured: None });
    }
    if !case.is_real() {
        return Err("what one node's flash does alone is not known".into());
    }
    measured(case, u64::from(sweep.block_bytes)).map_err(|what| Missing {
        command: Some(format!(
            "flashmob bench disk FILE --block-size {} --threads 1,2,4,8,16,32 --save device.json",
            sweep.block_bytes
        )),
        measured_on: " on one of the nodes, with FILE beside its extent and before its next restart; then report both results",
        what,
    })
}

fn measured(case: Case<'_>, block_bytes: u64) -> Result<Limit<'_>, String> {
    let disks = case.entries.iter().enumerate().filter(|(_, entry)| entry.is_device() && entry.model().is_none());
    let disks: Vec<(usize, &Entry, Kin)> = disks.map(|(at, entry)| (at, entry, kin(case, entry))).collect();
    let of_nodes: Vec<(usize, &Entry, usize)> = disks
        .iter()
        .filter_map(|(at, entry, kin)| if let Kin::Node(node) = kin { Some((*at, *entry, *node)) } else { None })
        .collect();
    if !of_nodes.is_empty() {
        return of_nodes_disks(&of_nodes, block_bytes);
    }
    let unknown: Vec<(usize, &Entry)> = disks
        .iter()
        .filter(|(_, entry, kin)| *kin == Kin::Unknown && entry.medium() != Medium::Rotational)
        .map(|(at, entry, _)| (*at, *entry))
        .collect();
    match grouped(unknown, |(_, entry)| hardware(entry)).as_slice() {
        [] if disks.is_empty() => Err("what one node's flash does alone is not known: no disk of a node was measured".into()),
        [] => Err("what one node's flash does alone is not known: the measured disks are not the nodes', or their systems were restarted since".into()),
        [(_, results)] => {
            let whose = format!("the disk of {}; the results do not say whether it is a node's", results[0].1.name);
            first(results.iter().copied(), block_bytes, &whose)
        }
        several => {
            let names: Vec<String> = several.iter().map(|(_, results)| results[0].1.name.clone()).collect();
            Err(format!(
                "what one node's flash does alone is not known: the results do not say which of the measured disks ({}) is a node's",
                words::list(&names)
            ))
        }
    }
}

/// The limit by results of nodes' disks: that of the first node among them, if the others' are equal.
fn of_nodes_disks<'a>(results: &[(usize, &'a Entry, usize)], block_bytes: u64) -> Result<Limit<'a>, String> {
    let mut of_nodes = grouped(results.iter().copied(), |(_, _, node)| *node);
    of_nodes.sort_by_key(|(node, _)| *node);
    let mut limits = Vec::new();
    for (node, results) in of_nodes {
        let whose = format!("the disk of node {node}, taken for each");
        limits.push((node, first(results.into_iter().map(|(at, entry, _)| (at, entry)), block_bytes, &whose)));
    }
    let known = limits.iter().filter_map(|(node, limit)| Some((node, limit.as_ref().ok()?.requests_per_second)));
    let (least, most) =
        known.clone().fold((f64::INFINITY, 0.0_f64), |(least, most), (_, rate)| (least.min(rate), most.max(rate)));
    if most > least * EQUAL_WITHIN {
        let each: Vec<String> =
            known.map(|(node, rate)| format!("that of node {node} {}/s", words::number(rate))).collect();
        return Err(format!("the claim is about equal nodes, and the measured disks differ: {}", words::list(&each)));
    }
    let found = limits.iter().position(|(_, limit)| limit.is_ok()).unwrap_or(0);
    limits.swap_remove(found).1
}

/// The limit by the first of these results that has such reads.
fn first<'a>(
    results: impl Iterator<Item = (usize, &'a Entry)>,
    block_bytes: u64,
    whose: &str,
) -> Result<Limit<'a>, String> {
    let mut name = None;
    for (at, entry) in results {
        name = name.or(Some(&entry.name));
        if let Some(point) = ceiling(entry, block_bytes) {
            let in_place_of = (point.parameters.block_bytes != block_bytes).then_some(block_bytes);
            let measured = Measured { at, point, whose: whose.to_string(), in_place_of };
            return Ok(Limit { requests_per_second: rate(point), measured: Some(measured) });
        }
    }
    Err(format!(
        "random reads of {} with {THREADS_MIN} threads or more were not measured on {}",
        words::bytes(block_bytes),
        name.map_or("the node's disk", String::as_str)
    ))
}

/// The most random reads per second of this size, under the disk's own scheduler if that was measured.
fn ceiling(entry: &Entry, block_bytes: u64) -> Option<&Point> {
    let all: Vec<&Point> = entry.random_reads().into_iter().flat_map(|(_, points)| points).collect();
    let with = |bytes: u64| {
        all.iter().copied().filter(move |p| p.parameters.block_bytes == bytes && p.parameters.threads >= THREADS_MIN)
    };
    let most = |bytes: u64, is_own: bool| {
        let points = with(bytes).filter(|p| !is_own || p.parameters.scheduler.is_none());
        points.max_by(|a, b| rate(a).total_cmp(&rate(b)))
    };
    let of = |bytes: u64| most(bytes, true).or_else(|| most(bytes, false));
    of(block_bytes).or_else(|| (block_bytes < PAGE_BYTES).then(|| of(PAGE_BYTES)).flatten())
}

fn kin(case: Case<'_>, disk: &Entry) -> Kin {
    let nodes = case.entries[case.at].cluster().map_or(&[][..], |cluster| &cluster.disk_ids);
    let id = disk.file().and_then(|file| file.place.disk_id.as_ref());
    match (id, nodes.iter().position(|node| node.is_some() && node.as_ref() == id)) {
        (_, Some(at)) => Kin::Node(at + 1),
        (Some(_), None) if !nodes.is_empty() && nodes.iter().all(Option::is_some) => Kin::Other,
        _ => Kin::Unknown,
    }
}

/// Equal for results that are of one kind of device, as far as they say.
fn hardware(entry: &Entry) -> [Option<String>; 4] {
    let (device, place) = (&entry.document.device, entry.file().map(|file| &file.place));
    let of_disk = |of: fn(&flashmob_results::device::Place) -> Option<&String>| place.and_then(of).cloned();
    [device.model.clone(), device.cpu.clone(), of_disk(|p| p.disk.as_ref()), of_disk(|p| p.disk_model.as_ref())]
}

impl Limit<'_> {
    /// Fails if nodes answered faster than their disks can: from memory, so that what their flash does was not asked. Of a model the sweep
    /// itself says what it did.
    pub fn reached_disks(&self, points: &[&cluster::Point]) -> Result<(), Missing> {
        let nodes_limit = |p: &cluster::Point| self.requests_per_second * f64::from(p.parameters.nodes);
        let past = |p: &&&cluster::Point| sweep::rate(p) > PAST_MAX * nodes_limit(p);
        let Some(point) = points.iter().find(past).filter(|_| self.measured.is_some()) else { return Ok(()) };
        Err(Missing {
            what: format!(
                "with {} it did {}/s where their disks do {}/s: it was answered from memory",
                words::plural(u64::from(point.parameters.nodes), "node"),
                words::number(sweep::rate(point)),
                words::number(nodes_limit(point)),
            ),
            command: None,
            measured_on: " with nodes that were started with --direct, or over a volume much larger than their memory",
        })
    }

    /// A finding that rests on this limit as well: it names the measurement, has its doubts, and needs its repetitions.
    pub fn beside(&self, finding: Finding) -> Finding {
        let Some(Measured { at, point, whose, in_place_of }) = &self.measured else { return finding };
        let p = &point.parameters;
        let cache = entry::Setting::of(p).words();
        let instead = in_place_of.map_or_else(String::new, |bytes| format!(" in place of {}", words::bytes(bytes)));
        let numbers = format!(
            "{}; the limit of {}/s is of random reads of {}{instead} with {} ({cache}) on {whose}",
            finding.numbers,
            words::number(self.requests_per_second),
            words::bytes(p.block_bytes),
            words::threads(p.threads),
        );
        let both: BTreeSet<Code> = finding.doubts.iter().copied().chain(doubts(&point.warnings)).collect();
        let entries = finding.entries.iter().copied().chain([*at]).collect();
        let finding = Finding { entries, numbers, doubts: both.into_iter().collect(), ..finding };
        if finding.verdict == super::Verdict::TooFewRepetitions {
            return finding;
        }
        finding.needing(REPETITIONS_MIN, Some(rates(point).len()))
    }
}

/// Everything of the cluster is real: neither the air nor a node's flash is a model.
pub(super) fn is_real(entry: &Entry) -> bool {
    entry.cluster().is_some_and(|cluster| cluster.setting == Setting::Network) && !entry.document.is_modelled()
}
