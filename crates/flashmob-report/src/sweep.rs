//! Points of a cluster for claims and figures: over nodes, links and batches, all other parameters equal.
//!
//! A point of which every repetition is void is not here, nor is one that answered nothing. Where points differ in nothing but the
//! requests outstanding, the one with the most counts: claims ask what a cluster can do, not what a short queue asks of it.

use flashmob_results::cluster::{Batch, Cluster, Parameters, Point, Repetition};

use crate::words;

/// Points that differ in nodes, links and batches alone.
#[derive(Clone, Debug)]
pub struct Sweep<'a> {
    /// Bytes of each request.
    pub block_bytes: u32,
    /// Of 100 requests so many read.
    pub read_percent: f64,
    /// Nodes answered without reading or writing.
    pub no_io: bool,
    /// What one node's flash alone does with such requests, each second; unknown for real devices.
    pub limit: Option<f64>,
    /// Sorted by nodes, batches and links.
    pub points: Vec<&'a Point>,
}

/// All sweeps of a cluster, in the order of their first points.
#[must_use]
pub fn sweeps(cluster: &Cluster) -> Vec<Sweep<'_>> {
    let mut sweeps: Vec<Sweep> = Vec::new();
    for point in cluster.points.iter().filter(|p| counts(p)) {
        let p = &point.parameters;
        let same = |s: &&mut Sweep| {
            s.block_bytes == p.block_bytes && s.read_percent.total_cmp(&p.read_percent).is_eq() && s.no_io == p.no_io
        };
        match sweeps.iter_mut().find(same) {
            Some(sweep) => sweep.points.push(point),
            None => sweeps.push(Sweep {
                block_bytes: p.block_bytes,
                read_percent: p.read_percent,
                no_io: p.no_io,
                limit: cluster.flash_limit(p.block_bytes, p.read_percent).filter(|limit| *limit > 0.0),
                points: vec![point],
            }),
        }
    }
    for sweep in &mut sweeps {
        let place = |p: &Point| (p.parameters.nodes, order(p.parameters.batch), p.parameters.links);
        sweep.points.sort_by_key(|p| (place(p), std::cmp::Reverse(p.parameters.outstanding)));
        sweep.points.dedup_by_key(|p| place(p));
    }
    sweeps
}

/// The repetitions that are not void.
pub fn valid(point: &Point) -> impl Iterator<Item = &Repetition> {
    point.repetitions.iter().filter(|r| !r.is_void)
}

/// It was measured, and something was answered.
#[must_use]
pub fn counts(point: &Point) -> bool {
    let spread = point.summary.requests_per_second;
    let numbers = [spread.median, spread.min, spread.max].iter().all(|v| v.is_finite());
    valid(point).next().is_some() && numbers && spread.median > 0.0
}

/// Median of the requests each second.
#[must_use]
pub fn rate(point: &Point) -> f64 {
    point.summary.requests_per_second.median
}

/// The one with the most requests each second; the first of equal ones.
pub fn fastest<'a>(points: impl IntoIterator<Item = &'a Point>) -> Option<&'a Point> {
    points.into_iter().reduce(|best, point| if rate(point) > rate(best) { point } else { best })
}

/// Fixed batches by their size, then those that clock themselves.
#[must_use]
pub fn order(batch: Batch) -> u32 {
    match batch {
        Batch::Fixed(k) => u32::from(k),
        Batch::Auto => u32::MAX,
    }
}

impl<'a> Sweep<'a> {
    /// Every request read.
    #[must_use]
    pub fn reads_only(&self) -> bool {
        self.read_percent >= 100.0
    }

    /// The point of this combination.
    #[must_use]
    pub fn at(&self, nodes: u32, links: u32, batch: Batch) -> Option<&'a Point> {
        let wanted = |p: &Parameters| (p.nodes, p.links, p.batch) == (nodes, links, batch);
        self.points.iter().copied().find(|p| wanted(&p.parameters))
    }

    /// Those of so many nodes and such batches, over links.
    pub fn over_links(&self, nodes: u32, batch: Batch) -> impl Iterator<Item = &'a Point> + '_ {
        self.points.iter().copied().filter(move |p| p.parameters.nodes == nodes && p.parameters.batch == batch)
    }

    /// The fastest over links.
    #[must_use]
    pub fn best(&self, nodes: u32, batch: Batch) -> Option<&'a Point> {
        fastest(self.over_links(nodes, batch))
    }

    /// The numbers of nodes that were measured with such batches, in order.
    #[must_use]
    pub fn nodes(&self, batch: Batch) -> Vec<u32> {
        distinct(self.points.iter().filter(|p| p.parameters.batch == batch).map(|p| p.parameters.nodes))
    }

    /// All numbers of nodes, in order.
    #[must_use]
    pub fn all_nodes(&self) -> Vec<u32> {
        distinct(self.points.iter().map(|p| p.parameters.nodes))
    }

    /// All batches, fixed ones first.
    #[must_use]
    pub fn batches(&self) -> Vec<Batch> {
        let mut batches: Vec<Batch> = self.points.iter().map(|p| p.parameters.batch).collect();
        batches.sort_by_key(|batch| order(*batch));
        batches.dedup();
        batches
    }

    /// What tells it from others of one cluster: `1 B`, `4 KiB, read 50 %`.
    #[must_use]
    pub fn words(&self) -> String {
        let part =
            if self.reads_only() { String::new() } else { format!(", read {} %", words::number(self.read_percent)) };
        format!("{}{part}{}", words::bytes(u64::from(self.block_bytes)), if self.no_io { ", without I/O" } else { "" })
    }
}

fn distinct(values: impl Iterator<Item = u32>) -> Vec<u32> {
    let mut values: Vec<u32> = values.collect();
    values.sort_unstable();
    values.dedup();
    values
}

/// Frames on the air for each request where the air is modelled, and TCP packets where it is not.
#[must_use]
pub fn frames_per_request(point: &Point) -> Option<f64> {
    let frames = point.summary.frames_per_request.map(|s| s.median);
    frames.or_else(|| packets_per_request(point)).filter(|v| v.is_finite() && *v > 0.0)
}

fn packets_per_request(point: &Point) -> Option<f64> {
    point.summary.packets_per_second.map(|packets| packets.median / rate(point))
}

/// The part of the time that the air was busy, mean over the repetitions that count.
#[must_use]
pub fn air_busy(point: &Point) -> Option<f64> {
    let busy: Vec<f64> = valid(point).filter_map(|r| r.air.map(|air| air.busy_fraction)).collect();
    (!busy.is_empty()).then(|| busy.iter().sum::<f64>() / busy.len() as f64)
}
