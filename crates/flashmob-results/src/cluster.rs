//! Measurements of a cluster: by `flashmob bench cluster` over a real network or in the lab, or by `flashmob simulate`.

use serde::{Deserialize, Serialize};

use crate::cluster_rebuild::Rebuild;
use crate::disk::Spread;
use crate::latency::Latency;
use crate::warning::Warning;

/// A gateway with its nodes, and how they answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Cluster {
    /// Which parts were real.
    pub setting: Setting,
    /// The modelled air between gateway and nodes; absent on a real network.
    pub air: Option<AirModel>,
    /// The modelled flash of each node; absent if it was real, or left out.
    pub flash: Option<FlashModel>,
    /// Bytes that each node serves.
    pub extent_bytes: u64,
    /// The disk of each node's extent, in the order of the nodes, as `disk_id` of a measured file names it; null where it is not known, or where
    /// the node does not wait for it. Absent if none is known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disk_ids: Vec<Option<String>>,
    /// The copies of a simulated volume; absent if it is linear.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copies: Option<CopiesModel>,
    /// Modelled nodes that are weaker than the others, as `--weak` has it; absent if all are alike.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weak: Option<String>,
    /// The simulated node whose copies were made again, as `--rebuild` has it; absent if none were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rebuild: Option<String>,
    /// One for each combination of parameters, in the order in which they were measured first.
    pub points: Vec<Point>,
}

/// Which parts of a cluster were real.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Setting {
    /// Everything is real: devices on their own network.
    Network,
    /// Processes and TCP stacks are real; air and flash are modelled.
    Lab,
    /// The state machines of gateway and nodes run in virtual time; all else is modelled.
    Simulator,
}

/// The copies of a simulated volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CopiesModel {
    /// Copies of each chunk.
    pub copies: u32,
    /// Each chunk was read from one of them, however slow that was.
    pub home_only: bool,
    /// A scrub ran all the time.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub scrub: bool,
}

/// A modelled air.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct AirModel {
    /// Name of the profile, with what was changed of it, such as `11n-2014,loss=1%`.
    pub profile: String,
    /// What it models, in one sentence.
    pub description: String,
    /// How the gateway is attached.
    pub gateway: Attachment,
    /// Cells, each with an access point and a channel of its own; the nodes are divided among them.
    pub cells: u32,
}

/// How a host is attached to the access point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Attachment {
    /// A station: everything between it and another one crosses the air twice.
    Wireless,
    /// By a cable.
    Wired,
}

/// The modelled flash of each node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct FlashModel {
    /// Name of the profile.
    pub profile: String,
    /// What it models, in one sentence.
    pub description: String,
    /// Random reads each second of one node alone, unsorted, with as many outstanding as it serves at once: the node's own
    /// limit, by the size of a block. What sorting gains comes on top.
    pub limits: Vec<FlashLimit>,
}

/// A node's own limit for one size of block.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct FlashLimit {
    /// Bytes of each request.
    pub block_bytes: u32,
    /// Percentage of reads; the others are writes.
    pub read_percent: f64,
    /// Requests per second.
    pub requests_per_second: f64,
}

/// How many pieces travel together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Batch {
    /// What gathered while earlier batches were out.
    Auto,
    /// At most so many: P1's k.
    Fixed(u16),
}

impl std::fmt::Display for Batch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Batch::Auto => f.pad("auto"),
            Batch::Fixed(k) => f.pad(&k.to_string()),
        }
    }
}

/// One combination of what can be chosen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Parameters {
    /// Nodes that the load goes to (P1's n).
    pub nodes: u32,
    /// Links to each node (P1's m).
    pub links: u32,
    /// Pieces in a batch (P1's k).
    pub batch: Batch,
    /// Bytes of each request.
    pub block_bytes: u32,
    /// Percentage of reads; the others are writes.
    pub read_percent: f64,
    /// Requests outstanding at once, over all nodes.
    pub outstanding: u32,
    /// Nodes answer without reading or writing (P1's mode without I/O).
    pub no_io: bool,
    /// The order in which each node reads and writes; absent where it is not known, as on a real network, and without I/O.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<Order>,
    /// The part of the air that clients took before a rebuild, in percent, with requests that came by time; absent where each answer was followed by
    /// the next request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub air_load_percent: Option<f64>,
}

/// The order in which a node reads and writes the requests that it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Ascending offsets, neighbours merged.
    Sorted,
    /// As they arrived: P1's nodes.
    Arrival,
}

/// What was measured with one combination of parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Point {
    /// The combination.
    pub parameters: Parameters,
    /// In the order in which they were made, void ones included.
    pub repetitions: Vec<Repetition>,
    /// Those that count, together.
    pub summary: Summary,
    /// Warnings about this point.
    pub warnings: Vec<Warning>,
}

/// One run with one combination of parameters. Counts are of the measured time alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Repetition {
    /// Begin, in seconds after the document's.
    pub begin_s: f64,
    /// Measured time, of the model's clock where there is one.
    pub elapsed_s: f64,
    /// Requests that were answered well.
    pub requests: u64,
    /// Bytes that they carried.
    pub bytes: u64,
    /// Requests that failed.
    pub errors: u64,
    /// Requests per second.
    pub requests_per_second: f64,
    /// From a request's entry into the gateway to its answer, in nanoseconds.
    pub latency_ns: Latency,
    /// Pieces and batches that the gateway sent, frames of replies that it got.
    pub batches: Batches,
    /// TCP packets between gateway and nodes; absent where the system does not say.
    pub packets: Option<Packets>,
    /// What happened on the modelled air.
    pub air: Option<AirUse>,
    /// How long at least one slot of a node's modelled flash was busy, as a fraction of the time, mean over the nodes.
    pub flash_busy_fraction: Option<f64>,
    /// Processor time of the gateway: measured on a real one, modelled in the simulator.
    pub gateway_cpu_s: f64,
    /// Hedged reads: late ones that were sent to a second copy as well; absent without copies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hedged: Option<u64>,
    /// The copies that were made again meanwhile; absent if none were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rebuild: Option<Box<Rebuild>>,
    /// Lateness of the lab; absent elsewhere.
    pub lateness: Option<Lateness>,
    /// It does not count: the lab was late, or the repetition was stopped early.
    pub is_void: bool,
}

/// What travelled as flashmob's own messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Batches {
    /// Batches from the gateway.
    pub sent: u64,
    /// Pieces in them.
    pub pieces: u64,
    /// Frames of replies from the nodes.
    pub replies: u64,
}

/// What TCP_INFO says of all links together, seen from the gateway.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Packets {
    /// Packets from the gateway, pure acknowledgements included.
    pub sent: u64,
    /// Packets to the gateway, pure acknowledgements included.
    pub received: u64,
    /// Those of `sent` that carried data.
    pub data_sent: u64,
    /// Those of `received` that carried data.
    pub data_received: u64,
    /// Bytes of data from the gateway, TCP's headers not counted.
    pub bytes_sent: u64,
    /// Bytes of data to the gateway.
    pub bytes_received: u64,
    /// Packets that the gateway sent again.
    pub retransmitted: u64,
}

/// What happened on the modelled air, over all cells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct AirUse {
    /// Times that somebody gained the medium: one for each frame, or for each aggregate of frames; beacons not counted.
    pub transmissions: u64,
    /// Frames that were sent, relayed ones twice, repeated ones each time.
    pub frames: u64,
    /// Bytes of those frames, with their MAC headers.
    pub frame_bytes: u64,
    /// Times that several sent at once.
    pub collisions: u64,
    /// Frames that were sent again.
    pub retries: u64,
    /// Frames that were given up: no room in a queue, too many retries, or the planted loss of a profile.
    pub dropped: u64,
    /// How long the medium was busy, as a fraction of the time, mean over the cells.
    pub busy_fraction: f64,
}

/// How late the lab moved frames, compared with its models' clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Lateness {
    /// Of frames, in microseconds: half of them were no later.
    pub p50_us: f64,
    /// 99 of 100 were no later.
    pub p99_us: f64,
    /// The latest.
    pub max_us: f64,
    /// Fraction of the frames that were later than tolerated.
    pub late_fraction: f64,
}

/// All repetitions of a point that count.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Summary {
    /// How many there are.
    pub repetitions: u32,
    /// Requests per second: median, minimum and maximum.
    pub requests_per_second: Spread,
    /// Of all their requests together, in nanoseconds.
    pub latency_ns: Latency,
    /// Packets each second, both directions together.
    pub packets_per_second: Option<Spread>,
    /// Mean bytes of a packet with data, both directions together, TCP's headers not counted.
    pub packet_bytes: Option<Spread>,
    /// Frames on the air for each request.
    pub frames_per_request: Option<Spread>,
    /// Requests each second as a fraction of what all nodes' flash alone would do.
    pub flash_fraction: Option<Spread>,
}

impl Point {
    /// A point of these repetitions; void ones count only if there are no others. `flash_limit` is the limit of one node
    /// alone, in requests per second.
    #[must_use]
    pub fn new(parameters: Parameters, repetitions: Vec<Repetition>, flash_limit: Option<f64>) -> Point {
        let valid: Vec<&Repetition> = repetitions.iter().filter(|r| !r.is_void).collect();
        let counted: Vec<&Repetition> = if valid.is_empty() { repetitions.iter().collect() } else { valid };
        let spread = |of: &dyn Fn(&Repetition) -> Option<f64>| {
            let values: Vec<f64> = counted.iter().filter_map(|r| of(r)).filter(|v| v.is_finite()).collect();
            (!values.is_empty()).then(|| Spread::of(values))
        };
        let of_all_nodes = flash_limit.filter(|_| !parameters.no_io).map(|limit| limit * f64::from(parameters.nodes));
        let summary = Summary {
            repetitions: u32::try_from(counted.len()).unwrap_or(u32::MAX),
            requests_per_second: Spread::of(counted.iter().map(|r| r.requests_per_second)),
            latency_ns: Latency::merged(counted.iter().map(|r| &r.latency_ns)),
            packets_per_second: spread(&|r| r.packets.map(|p| (p.sent as f64 + p.received as f64) / r.elapsed_s)),
            packet_bytes: spread(&|r| r.packets.map(Packets::mean_bytes)),
            frames_per_request: spread(&|r| r.air.map(|air| air.frames as f64 / r.requests as f64)),
            flash_fraction: spread(&|r| of_all_nodes.map(|limit| r.requests_per_second / limit)),
        };
        Point { parameters, repetitions, summary, warnings: Vec::new() }
    }
}

impl Packets {
    /// Mean bytes of data per packet with data; NaN without such packets.
    #[must_use]
    pub fn mean_bytes(self) -> f64 {
        // As floating-point numbers: the sum of counts from a file may overflow.
        (self.bytes_sent as f64 + self.bytes_received as f64) / (self.data_sent as f64 + self.data_received as f64)
    }
}

impl Cluster {
    /// The nodes of each disk that has extents of several of the first `nodes` nodes, counted from 1.
    #[must_use]
    pub fn shared_disks(&self, nodes: u32) -> Vec<Vec<usize>> {
        shared_disks(self.disk_ids.iter().take(nodes as usize))
    }

    /// The limit of one node alone for such requests.
    #[must_use]
    pub fn flash_limit(&self, block_bytes: u32, read_percent: f64) -> Option<f64> {
        let same = |l: &&FlashLimit| l.block_bytes == block_bytes && (l.read_percent - read_percent).abs() < 1e-9;
        self.flash.as_ref()?.limits.iter().find(same).map(|l| l.requests_per_second)
    }
}

/// The nodes of each disk that has extents of several of these nodes, counted from 1.
#[must_use]
pub fn shared_disks<'a>(disk_ids: impl Iterator<Item = &'a Option<String>>) -> Vec<Vec<usize>> {
    let mut disks: Vec<(&str, Vec<usize>)> = Vec::new();
    for (at, id) in disk_ids.enumerate() {
        let Some(id) = id else { continue };
        match disks.iter_mut().find(|(known, _)| known == id) {
            Some((_, nodes)) => nodes.push(at + 1),
            None => disks.push((id, vec![at + 1])),
        }
    }
    disks.into_iter().map(|(_, nodes)| nodes).filter(|nodes| nodes.len() > 1).collect()
}
