//! Points of a cluster for claims and figures: over nodes, links and batches, all other parameters equal.
//!
//! Points with only void repetitions or without an answered request are left out. Of points that differ in the outstanding requests alone, the
//! one with the most counts: claims are about what a cluster can do, not about short queues.

use flashmob_results::cluster::{Batch, Cluster, Order, Parameters, Point, Repetition};

use crate::groups::grouped;
use crate::stats::usable;
use crate::words;

/// Points that differ in nodes, links and batches alone.
#[derive(Clone, Debug)]
pub struct Sweep<'a> {
    pub block_bytes: u32,
    pub read_percent: f64,
    /// Nodes answer without reading or writing.
    pub no_io: bool,
    /// The order in which nodes read and write, if it is known.
    pub order: Option<Order>,
    /// Requests per second of one node's flash alone; unknown for real devices.
    pub limit: Option<f64>,
    /// Sorted by nodes, batches and links.
    pub points: Vec<&'a Point>,
}

/// All sweeps of a cluster, in the order of their first points.
pub fn sweeps(cluster: &Cluster) -> Vec<Sweep<'_>> {
    let key = |p: &Parameters| (p.block_bytes, p.read_percent.to_bits(), p.no_io, p.order);
    let groups = grouped(cluster.points.iter().filter(|p| counts(p)), |point| key(&point.parameters));
    let sweep = |((block_bytes, read_bits, no_io, nodes_order), mut points): (_, Vec<_>)| {
        let place = |p: &Point| (p.parameters.nodes, order(p.parameters.batch), p.parameters.links);
        points.sort_by_key(|p: &&Point| (place(p), std::cmp::Reverse(p.parameters.outstanding)));
        points.dedup_by_key(|p| place(p));
        let read_percent = f64::from_bits(read_bits);
        let limit = cluster.flash_limit(block_bytes, read_percent).filter(|limit| *limit > 0.0);
        Sweep { block_bytes, read_percent, no_io, order: nodes_order, limit, points }
    };
    groups.into_iter().map(sweep).collect()
}

/// The repetitions that are not void.
pub fn valid(point: &Point) -> impl Iterator<Item = &Repetition> {
    point.repetitions.iter().filter(|r| !r.is_void)
}

/// True if a valid repetition exists and requests were answered.
pub fn counts(point: &Point) -> bool {
    valid(point).next().is_some() && usable(&point.summary.requests_per_second)
}

/// Median of the requests per second.
pub fn rate(point: &Point) -> f64 {
    point.summary.requests_per_second.median
}

/// The point with the most requests per second; the first of equal ones.
pub fn fastest<'a>(points: impl IntoIterator<Item = &'a Point>) -> Option<&'a Point> {
    points.into_iter().reduce(|best, point| if rate(point) > rate(best) { point } else { best })
}

/// Sort key: fixed batches by size, then automatic ones.
pub fn order(batch: Batch) -> u32 {
    match batch {
        Batch::Fixed(k) => u32::from(k),
        Batch::Auto => u32::MAX,
    }
}

impl<'a> Sweep<'a> {
    pub fn reads_only(&self) -> bool {
        self.read_percent >= 100.0
    }

    pub fn at(&self, nodes: u32, links: u32, batch: Batch) -> Option<&'a Point> {
        let wanted = |p: &Parameters| (p.nodes, p.links, p.batch) == (nodes, links, batch);
        self.points.iter().copied().find(|p| wanted(&p.parameters))
    }

    /// The points with this number of nodes and this batch, over links.
    pub fn over_links(&self, nodes: u32, batch: Batch) -> impl Iterator<Item = &'a Point> + '_ {
        self.points.iter().copied().filter(move |p| p.parameters.nodes == nodes && p.parameters.batch == batch)
    }

    /// The fastest point over all links.
    pub fn best(&self, nodes: u32, batch: Batch) -> Option<&'a Point> {
        fastest(self.over_links(nodes, batch))
    }

    /// The numbers of nodes measured with this batch, ascending.
    pub fn nodes(&self, batch: Batch) -> Vec<u32> {
        distinct(self.points.iter().filter(|p| p.parameters.batch == batch).map(|p| p.parameters.nodes))
    }

    /// The numbers of links measured with this batch, ascending.
    pub fn links(&self, batch: Batch) -> Vec<u32> {
        distinct(self.points.iter().filter(|p| p.parameters.batch == batch).map(|p| p.parameters.links))
    }

    /// All numbers of nodes, ascending.
    pub fn all_nodes(&self) -> Vec<u32> {
        distinct(self.points.iter().map(|p| p.parameters.nodes))
    }

    /// All batches, fixed ones first.
    pub fn batches(&self) -> Vec<Batch> {
        let mut batches: Vec<Batch> = self.points.iter().map(|p| p.parameters.batch).collect();
        batches.sort_by_key(|batch| order(*batch));
        batches.dedup();
        batches
    }

    /// Its name among the sweeps of a cluster: `1 B`, `4 KiB, read 50 %`, `1 B, nodes read in order of arrival`.
    pub fn words(&self) -> String {
        let part =
            if self.reads_only() { String::new() } else { format!(", read {} %", words::number(self.read_percent)) };
        let how = match self.order {
            _ if self.no_io => ", without I/O",
            Some(Order::Arrival) => ", nodes read in order of arrival",
            _ => "",
        };
        format!("{}{part}{how}", words::bytes(u64::from(self.block_bytes)))
    }
}

fn distinct(values: impl Iterator<Item = u32>) -> Vec<u32> {
    let mut values: Vec<u32> = values.collect();
    values.sort_unstable();
    values.dedup();
    values
}

/// Frames on the air per request if the air is modelled, else TCP packets per request.
pub fn frames_per_request(point: &Point) -> Option<f64> {
    let frames = point.summary.frames_per_request.map(|s| s.median);
    frames.or_else(|| packets_per_request(point)).filter(|v| v.is_finite() && *v > 0.0)
}

fn packets_per_request(point: &Point) -> Option<f64> {
    point.summary.packets_per_second.map(|packets| packets.median / rate(point))
}

/// The busy fraction of the air, mean over the valid repetitions.
pub fn air_busy(point: &Point) -> Option<f64> {
    let busy: Vec<f64> = valid(point).filter_map(|r| r.air.map(|air| air.busy_fraction)).collect();
    (!busy.is_empty()).then(|| busy.iter().sum::<f64>() / busy.len() as f64)
}
