//! What a cluster does now, and did in the last ten minutes: the JSON of `/live`, which the terminal's and other live views poll.
//!
//! `schema/live-1.json` describes it. Fields may be added; none changes its meaning without a new `schema`. A request without `since` gets ten
//! minutes, in which older seconds are merged so that the answer stays small; one with `since` what has happened from that second on.

use std::time::Duration;

use flashmob_core::buckets::{BOUNDS, BOUNDS_NANOS, BUCKETS, Buckets};
use flashmob_core::gateway::{Cause, NodeSlot, Slot};
use serde::{Deserialize, Serialize};

use super::finding::Finding;
use super::measure::MeasurementReport;
use super::report::{CopiesReport, NodeOfVolume, Rebuild};

/// The version of this form.
pub const SCHEMA: u32 = 1;
/// The most entries of nodes in the slots of an answer: about 400 KB.
pub const ENTRIES_MAX: usize = 2_000;
/// The most warnings in an answer.
pub const WARNINGS_MAX: usize = 16;

/// A cluster as its gateway sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LiveReport {
    /// Version of this form: 1.
    pub schema: u32,
    /// flashmob's version.
    pub version: String,
    /// Which start of which gateway: seconds of another one are not to be compared.
    pub start: String,
    /// Seconds since the gateway started.
    pub uptime_seconds: f64,
    /// Seconds of a slot that is not merged.
    pub slot_seconds: u64,
    /// The first second of the slot that is being recorded: the next `since`.
    pub next_second: u64,
    /// How many seconds are kept.
    pub kept_seconds: u64,
    /// Upper bounds of the 32 buckets of a histogram, in microseconds; the last bucket has none.
    pub bounds_us: Vec<f64>,
    /// Warnings for operators, with remedies.
    pub warnings: Vec<String>,
    /// How many more there are: `/status` has all.
    pub more_warnings: usize,
    /// What is wrong with the cluster, or worth to know, worst first: the same in parts.
    #[serde(default)]
    pub findings: Vec<Finding>,
    /// How many more there are.
    #[serde(default)]
    pub more_findings: usize,
    /// Whoever asked may change things: it has keys, and his have the right for that.
    #[serde(default)]
    pub may_change: bool,
    /// Clients connected now.
    pub clients: usize,
    /// Requests not yet answered.
    pub in_hand: usize,
    /// Memory held for requests and replies.
    pub memory_used_bytes: u64,
    /// Its limit.
    pub memory_limit_bytes: u64,
    /// Each volume.
    pub volumes: Vec<LiveVolume>,
    /// The nodes of all volumes, in the order of the volumes and their layouts.
    pub nodes: Vec<LiveNode>,
    /// The measurement of a node that is under way, or the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measurement: Option<MeasurementReport>,
    /// What they did, oldest first. A slot in which nothing happened is missing.
    pub slots: Vec<LiveSlot>,
}

/// A volume.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LiveVolume {
    /// The export's name.
    pub name: String,
    /// Its size, once known.
    pub size_bytes: Option<u64>,
    /// Its copies, if it has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copies: Option<LiveCopies>,
}

/// The copies of a volume.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LiveCopies {
    /// Copies of each chunk.
    pub copies: usize,
    /// The copies that the worst chunk has left: those that are known to have everything.
    pub fewest_current: usize,
    /// Chunks of the volume.
    pub chunks: u32,
    /// Chunks with a copy that lacks something.
    pub behind_chunks: u32,
    /// Chunks with a copy of which it is not known whether it lacks something.
    pub doubtful_chunks: u32,
    /// Whether copies are being compared or verified.
    pub is_scrubbing: bool,
    /// What is left to be made current, and how fast that goes.
    pub rebuild: Rebuild,
}

impl LiveCopies {
    /// That part of a report.
    #[must_use]
    pub fn of(report: &CopiesReport) -> LiveCopies {
        LiveCopies {
            copies: report.copies,
            fewest_current: report.fewest_current,
            chunks: report.chunks,
            behind_chunks: report.behind_chunks,
            doubtful_chunks: report.doubtful_chunks,
            is_scrubbing: report.scrub.is_comparing || report.scrub.verifying_nodes > 0,
            rebuild: report.rebuild,
        }
    }
}

fn is_false(value: &bool) -> bool {
    !value
}

/// The state of a node now.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LiveNode {
    /// The number of its volume.
    pub volume: usize,
    /// Its address or path.
    pub name: String,
    /// `ready`, `connecting`, `waiting`, `refused`, `drained`: it has no copies any more, and is not linked;
    /// or `removed` from the volume.
    pub state: String,
    /// It is paused: not used, as somebody wants it.
    #[serde(skip_serializing_if = "is_false")]
    pub is_paused: bool,
    /// It is drained: its copies move to other nodes, or have moved.
    #[serde(skip_serializing_if = "is_false")]
    pub is_leaving: bool,
    /// It has no copies any more because of that, and can be switched off.
    #[serde(skip_serializing_if = "is_false")]
    pub is_drained: bool,
    /// Pieces in its queue.
    pub queue: usize,
    /// Smoothed round-trip time of its slowest link, from TCP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rtt_us: Option<u64>,
    /// Segments of its present connections, both ways, acknowledgements included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub segments: Option<u64>,
    /// Those that the gateway sent again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retransmissions: Option<u64>,
    /// Charge of the battery, 0 to 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub battery_percent: Option<u8>,
    /// Whether it is being charged, or fed from outside.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub charging: Option<bool>,
    /// Temperature of the battery, or of the warmest sensor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub celsius: Option<f64>,
    /// Free bytes for its extent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free_bytes: Option<u64>,
    /// The battery is low, and not being charged.
    #[serde(skip_serializing_if = "is_false")]
    pub is_battery_low: bool,
    /// The device is too hot.
    #[serde(skip_serializing_if = "is_false")]
    pub is_hot: bool,
    /// Free space for the extent is low.
    #[serde(skip_serializing_if = "is_false")]
    pub is_space_little: bool,
    /// Its flash is modelled, or it does no I/O.
    #[serde(skip_serializing_if = "is_false")]
    pub is_modelled: bool,
}

impl LiveNode {
    /// Its state in a word: of its links, or that it is paused.
    #[must_use]
    pub fn word(&self) -> &str {
        if self.is_paused { "paused" } else { &self.state }
    }

    /// That part of a report.
    #[must_use]
    pub fn of(volume: usize, node: &NodeOfVolume) -> LiveNode {
        let tcp = || node.links.iter().filter_map(|link| link.tcp.as_ref());
        let is_tcp = tcp().next().is_some();
        let condition = node.condition.clone().unwrap_or_default();
        LiveNode {
            volume,
            name: node.name.clone(),
            state: node.state.clone(),
            is_paused: node.is_paused,
            is_leaving: node.is_leaving,
            is_drained: node.is_drained,
            queue: node.queue_depth,
            rtt_us: tcp().map(|tcp| tcp.rtt_us).max(),
            segments: is_tcp.then(|| tcp().map(|tcp| tcp.segments_in + tcp.segments_out).sum()),
            retransmissions: is_tcp.then(|| tcp().map(|tcp| tcp.retransmissions).sum()),
            battery_percent: condition.battery_percent,
            charging: condition.charging,
            celsius: condition.celsius,
            free_bytes: condition.free_bytes,
            is_battery_low: condition.is_battery_low,
            is_hot: condition.is_hot,
            is_space_little: condition.is_space_little,
            is_modelled: node.modelled || node.no_io,
        }
    }
}

/// A second, or some: a column for each figure, with an entry for each node that did something. Times and pieces are those of pieces: parts of
/// requests that one node serves.
///
/// A histogram is the number of its first bucket that is not empty, and the counts from there to the last; `[]` if all are. Counts above 65,535
/// are rounded up to their 16 highest bits.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LiveSlot {
    /// Its first second since the gateway's start.
    pub second: u64,
    /// How many seconds it covers.
    pub seconds: u64,
    /// The nodes, by their place in `nodes`.
    pub node: Vec<usize>,
    /// Pieces that were answered.
    pub answered: Vec<u64>,
    /// Pieces that failed.
    pub failed: Vec<u64>,
    /// Half of the pieces were answered within this time after their request arrived; null without answers. In merged slots the mean, by
    /// answers.
    pub p50_us: Vec<Option<u64>>,
    /// 99 % of them. In merged slots the largest.
    pub p99_us: Vec<Option<u64>>,
    /// Frames sent with batches of pieces.
    pub batches: Vec<u64>,
    /// Pieces in them.
    pub pieces: Vec<u64>,
    /// Frames received with answers.
    pub reply_frames: Vec<u64>,
    /// Bytes received.
    pub bytes_in: Vec<u64>,
    /// Answered pieces that were read at once, from an extent in the gateway's process; they are in no histogram.
    pub read_here: Vec<u64>,
    /// Pieces that the node answered without a thread of its store, mostly from its page cache; for all its gateways.
    pub at_once: Vec<u64>,
    /// Operations of the node's store, for all its gateways.
    pub store_operations: Vec<u64>,
    /// Thousandths of the time in which the node's loop ran; null if unknown.
    pub running_permille: Vec<Option<u16>>,
    /// Thousandths in which it waited for a processor.
    pub starved_permille: Vec<Option<u16>>,
    /// Histogram of the time from a request's arrival until its piece was sent.
    pub queue: Vec<Vec<u32>>,
    /// Of the time until the answer, without the node's own: the network, there and back.
    pub way: Vec<Vec<u32>>,
    /// Of the node's own time.
    pub at_node: Vec<Vec<u32>>,
    /// Of the time in the node's store, a part of that. It covers what the node did for all its gateways, and arrives up to a second later.
    pub flash: Vec<Vec<u32>>,
}

impl LiveSlot {
    /// The form of a slot.
    #[must_use]
    pub fn of(slot: &Slot) -> LiveSlot {
        fn column<T>(slot: &Slot, of: impl Fn(&NodeSlot) -> T) -> Vec<T> {
            slot.nodes.iter().map(|(_, node)| of(node)).collect()
        }
        let cause = |cause: Cause| column(slot, |node| trimmed(&node.causes[cause as usize]));
        let us = |time: Option<Duration>| time.map(|time| time.as_micros() as u64);
        LiveSlot {
            second: slot.first_second,
            seconds: slot.seconds,
            node: slot.nodes.iter().map(|(node, _)| *node).collect(),
            answered: column(slot, NodeSlot::answered),
            failed: column(slot, |node| node.counts.failures),
            p50_us: column(slot, |node| us(node.p50)),
            p99_us: column(slot, |node| us(node.p99)),
            batches: column(slot, |node| node.counts.batches),
            pieces: column(slot, |node| node.counts.pieces),
            reply_frames: column(slot, |node| node.counts.reply_frames),
            bytes_in: column(slot, |node| node.counts.bytes_in),
            read_here: column(slot, |node| node.counts.read_here),
            at_once: column(slot, |node| node.at_once),
            store_operations: column(slot, |node| node.store_operations),
            running_permille: column(slot, |node| node.running_permille),
            starved_permille: column(slot, |node| node.starved_permille),
            queue: cause(Cause::Queue),
            way: cause(Cause::Way),
            at_node: cause(Cause::Node),
            flash: cause(Cause::Flash),
        }
    }
}

fn trimmed(buckets: &Buckets) -> Vec<u32> {
    let counts = &buckets.0;
    let Some(first) = counts.iter().position(|&count| count > 0) else { return Vec::new() };
    let last = counts.iter().rposition(|&count| count > 0).unwrap_or(first);
    std::iter::once(first as u32).chain(counts[first..=last].iter().copied()).collect()
}

/// The reverse: a histogram of a [`LiveSlot`].
#[must_use]
pub fn untrimmed(histogram: &[u32]) -> Buckets {
    let mut buckets = Buckets::default();
    if let [first, counts @ ..] = histogram {
        let room = buckets.0.iter_mut().skip(usize::try_from(*first).unwrap_or(BUCKETS));
        room.zip(counts).for_each(|(bucket, count)| *bucket = *count);
    }
    buckets
}

/// [`BOUNDS_NANOS`] in microseconds.
#[must_use]
pub fn bounds_us() -> Vec<f64> {
    let bounds: [u64; BOUNDS] = BOUNDS_NANOS;
    bounds.iter().map(|&nanos| nanos as f64 / 1e3).collect()
}

#[cfg(test)]
mod tests;
