//! C23: even a cluster without aggregation does many more random reads each second than a hard disk.
//!
//! k = 1, the most nodes (at most 8), the best of all links, against the best random reads of each rotating disk in the report at the cluster's block size,
//! whatever its threads. "Many more" is five times at least. Each cluster is compared with each disk.

use std::collections::BTreeSet;

use flashmob_results::disk;
use flashmob_results::warning::Code;

use super::clusters::{ONE, best, per_second};
use super::{Definition, Finding, Judged, Missing, REPETITIONS_MIN, flash_beats_disk, rate, rates};
use crate::entry::{Entry, Medium, doubts};
use crate::sweep::{self, Sweep, sweeps};
use crate::words;

const TIMES_MIN: f64 = 5.0;

pub(super) const CLAIM: Definition = Definition {
    id: "C23",
    source: "P1, Fig. 3, 7",
    words: "Even a cluster without aggregation (k = 1) does many more random reads per second than a hard disk.",
    short: "k=1 still beats a hard disk",
    criterion: "k = 1, the most nodes up to 8, the best of all links: at least five times the best random reads of a rotating disk at the same block size.",
    paper: "many more random reads than a hard disk (no figures in the text)",
    command: "flashmob reproduce p1, and flashmob bench disk FILE --preset p1",
    measured_on: " on the cluster and on a rotating disk, both results in one report",
    judge: judged,
    ..Definition::CLUSTER
};

fn judged(entries: &[Entry]) -> Judged {
    let mut judged = Judged::default();
    let disks = || entries.iter().enumerate().filter(|(_, entry)| entry.medium() == Medium::Rotational);
    for (at, entry) in entries.iter().enumerate() {
        let Some(cluster) = entry.cluster() else { continue };
        let all: Vec<Sweep> = sweeps(cluster).into_iter().filter(|s| s.reads_only() && !s.no_io).collect();
        let compared =
            all.iter().flat_map(|sweep| disks().map(move |disk| (sweep.words(), of_pair((at, sweep), disk))));
        let nothing = if all.is_empty() {
            "no reads of a cluster were measured"
        } else {
            "no rotating disk was measured; give its result of 'bench disk' as well"
        };
        judged.add(at, compared, nothing);
    }
    judged
}

fn of_pair((at, cluster): (usize, &Sweep), (disk_at, disk): (usize, &Entry)) -> Result<Finding, Missing> {
    let nodes = cluster.nodes(ONE).into_iter().filter(|n| *n <= super::clusters::NODES_MAX).max();
    let of_cluster = best(cluster, nodes.ok_or("no reads with k=1 were measured")?, ONE)?;
    let block = u64::from(cluster.block_bytes);
    let of_disk: &disk::Point = flash_beats_disk::best(disk)
        .into_iter()
        .find(|point| point.parameters.block_bytes == block)
        .ok_or_else(|| format!("the disk's random reads of {} were not measured", words::bytes(block)))?;
    let times = sweep::rate(of_cluster) / rate(of_disk);
    let numbers = format!(
        "{} with {} on {} against {}/s of the disk, {} times as many",
        per_second(of_cluster),
        words::batch(ONE),
        words::plural(u64::from(of_cluster.parameters.nodes), "node"),
        words::number(rate(of_disk)),
        words::number(times),
    );
    let of = Finding::of_cluster(at, times >= TIMES_MIN, numbers, &[of_cluster]);
    let doubts: BTreeSet<Code> = of.doubts.iter().copied().chain(doubts(&of_disk.warnings)).collect();
    let of = Finding { entries: vec![at, disk_at], doubts: doubts.into_iter().collect(), ..of };
    Ok(of.needing(REPETITIONS_MIN, Some(rates(of_disk).len())))
}
