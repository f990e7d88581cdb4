//! The report of a running gateway or node: the JSON of `/status`, and the source of `/metrics` and of `flashmob status`.
//!
//! Counters count from the start of the process. Field names carry their units. Fields may be added; none changes its
//! meaning without a new `schema`.

use std::time::Duration;

use flashmob_core::gateway::{CopiesCounters, GatewayCounters, LinkCounters};
use flashmob_core::node::NodeCounters;
use flashmob_core::stages::{BUCKET_BOUNDS_NANOS, Interval, StageHistograms};
use serde::{Deserialize, Serialize};

pub use super::condition::{ConditionReport, PauseReport};
use super::failures::FailuresReport;
pub use super::finding::Finding;
pub use super::trace::TraceCounters;
pub use super::volumes::Rebuild;
pub use crate::net::report::{NodeLinkReport, PathLimit, PathReport, TcpReport};
use crate::store::{LATE_NS, ModelStatus, PlaceInVolume};

/// The version of this form.
pub const SCHEMA: u32 = 1;

/// The state of one process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: u32,
    /// flashmob's version.
    pub version: String,
    /// Seconds since the process started.
    pub uptime_seconds: f64,
    /// Warnings for operators.
    pub warnings: Vec<String>,
    /// System calls that the system (Android) forbids and that were answered as missing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forbidden_calls: Vec<String>,
    /// Memory held for requests and replies.
    pub memory: MemoryReport,
    /// How long requests (gateway) or pieces (node) took from stage to stage.
    pub stages: Vec<StageReport>,
    /// Present in a gateway.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gateway: Option<GatewayReport>,
    /// Present in a node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeReport>,
}

impl Report {
    /// A report on this process, so far without a gateway or node. `memory_bytes`: used, peak, limit.
    #[must_use]
    pub fn new(uptime: Duration, memory_bytes: (u64, u64, u64), stages: Vec<StageReport>) -> Report {
        let (used_bytes, peak_bytes, limit_bytes) = memory_bytes;
        Report {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION").to_string(),
            uptime_seconds: uptime.as_secs_f64(),
            warnings: Vec::new(),
            forbidden_calls: crate::android::forbidden_calls(),
            memory: MemoryReport { used_bytes, peak_bytes, limit_bytes },
            stages,
            gateway: None,
            node: None,
        }
    }
}

/// Bytes held for requests and replies.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct MemoryReport {
    /// Now.
    pub used_bytes: u64,
    /// The maximum since the start.
    pub peak_bytes: u64,
    /// The limit.
    pub limit_bytes: u64,
}

/// One interval between two stages.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StageReport {
    /// The stage that ends it, or `total`.
    pub name: String,
    /// Number of passes.
    pub count: u64,
    /// Sum of the times.
    pub sum_seconds: f64,
    /// Median.
    pub p50_seconds: f64,
    /// 90th percentile.
    pub p90_seconds: f64,
    /// 99th percentile.
    pub p99_seconds: f64,
    /// Maximum, within the histogram's resolution.
    pub max_seconds: f64,
    /// Upper bounds in seconds, with the number of times up to each.
    pub buckets: Vec<(f64, u64)>,
}

/// A gateway's state.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct GatewayReport {
    /// Clients connected now.
    pub clients: usize,
    /// Requests not yet answered.
    pub in_hand: usize,
    /// Requests accepted, by operation.
    pub requests: Vec<(String, u64)>,
    /// Further counters.
    #[serde(flatten)]
    pub counters: GatewayCounters,
    /// Outcomes of followed requests.
    #[serde(default)]
    pub trace: TraceCounters,
    /// Its keys, without which no node is used; absent if the cluster has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys: Option<KeysReport>,
    /// What is wrong with the cluster, or worth to know, worst first; `warnings` has the same as sentences.
    #[serde(default)]
    pub findings: Vec<Finding>,
    /// Each volume.
    pub volumes: Vec<VolumeReport>,
}

/// The keys of a cluster, as one of its devices knows them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeysReport {
    /// The cluster's public key: 64 hexadecimal digits.
    pub cluster: String,
    /// At a gateway that of its key; at a node the latest that it has seen: it refuses earlier ones.
    pub generation: u64,
}

/// One volume.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct VolumeReport {
    /// The export's name.
    pub name: String,
    /// Its size, once known.
    pub size_bytes: Option<u64>,
    /// Its copies, if it has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copies: Option<CopiesReport>,
    /// Its nodes, in the order of the layout.
    pub nodes: Vec<NodeOfVolume>,
}

/// The copies of a volume.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CopiesReport {
    /// Copies of each chunk.
    pub copies: usize,
    /// The copies that the worst chunk has left: those that are known to have everything.
    pub fewest_current: usize,
    /// Bytes of a chunk.
    pub chunk_bytes: u64,
    /// Chunks of the volume.
    pub chunks: u32,
    /// Chunks with unsynced changes.
    pub open_chunks: u32,
    /// Chunks with a copy that lacks something.
    pub behind_chunks: u32,
    /// Chunks with a copy of which it is not known whether it lacks something.
    pub doubtful_chunks: u32,
    /// Chunks whose copies are to be compared before they are used.
    pub uncompared_chunks: u32,
    /// Chunks that are being compared or made equal.
    pub busy_chunks: usize,
    /// What is left to be made current, and how fast that goes.
    #[serde(default)]
    pub rebuild: Rebuild,
    /// Scrubs.
    #[serde(default)]
    pub scrub: ScrubReport,
    /// The number of the gateway's start, as nodes know it.
    pub epoch: u64,
    /// Nodes that keep a mirror of the map which lacks nothing but changes of the last second.
    #[serde(default)]
    pub mirrors: usize,
    /// Why the map cannot be written, while it cannot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub map_trouble: Option<String>,
    /// How long this gateway's lease still lasts; none where no other gateway stands by. Reads wait when it is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_seconds: Option<f64>,
    /// Answers that wait until the lease is renewed.
    #[serde(default)]
    pub waiting_for_lease: usize,
    /// Why nothing is served for now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
    /// Why this gateway is no longer in charge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deposed: Option<String>,
    /// What happened since the start.
    #[serde(flatten)]
    pub counters: CopiesCounters,
}

/// Scrubs of a volume's copies. `/volumes` has more, and the places of what cannot be mended.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ScrubReport {
    /// All copies are being compared.
    pub is_comparing: bool,
    /// Nodes whose copies are being verified.
    pub verifying_nodes: usize,
    /// Bytes of the volume that were compared, of the comparison under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compared_bytes: Option<u64>,
    /// Why a scrub does not go on now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<String>,
    /// How long ago all copies were last compared; absent if never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compared_seconds_ago: Option<f64>,
    /// How long ago the copies of the node were last verified for which that is longest ago; absent if one never was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified_seconds_ago: Option<f64>,
    /// Blocks that cannot be mended: no current copy matches, or copies differ.
    pub bad_blocks: u64,
    /// Chunks with blocks that are to be written again.
    pub mending_chunks: usize,
}

impl VolumeReport {
    /// Its nodes, without those that were removed.
    pub fn present(&self) -> impl Iterator<Item = &NodeOfVolume> {
        self.nodes.iter().filter(|node| node.state != REMOVED)
    }
}

/// The state of nodes that were removed: they are listed so that numbers stay what they are, and are not shown.
pub const REMOVED: &str = "removed";

/// One node as its gateway sees it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NodeOfVolume {
    /// Its address or path.
    pub name: String,
    /// `ready`, `connecting`, `waiting`, `refused`, `drained`: it has no copies any more, and is not linked;
    /// or `removed` from the volume, whose numbers are not used again.
    pub state: String,
    /// It is paused: not used, as somebody wants it.
    #[serde(default)]
    pub is_paused: bool,
    /// It is drained: its copies move to other nodes, or have moved.
    #[serde(default)]
    pub is_leaving: bool,
    /// It has no copies any more because of that, and can be switched off.
    #[serde(default)]
    pub is_drained: bool,
    /// Size of its extent, once known.
    pub size_bytes: Option<u64>,
    /// Pieces in its queue.
    pub queue_depth: usize,
    /// It answers without touching its store.
    pub no_io: bool,
    /// It has the timing of a modelled flash.
    #[serde(default)]
    pub modelled: bool,
    /// Failures of its device.
    #[serde(default)]
    pub failures: FailuresReport,
    /// Why it cannot be used until an operator intervenes.
    pub refusal: Option<String>,
    /// Offset of its clock ahead of the gateway's; absent until its first welcome.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_offset_seconds: Option<f64>,
    /// Maximum error of that offset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_error_seconds: Option<f64>,
    /// Its announced address, if it differs from the configured one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen_at: Option<String>,
    /// Generation of the gateway's key when it was last linked to this start of the gateway. With another than the gateway's it may still accept earlier
    /// keys. Absent without keys, and before the first link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_generation: Option<u64>,
    /// The last condition of its device; absent until it was sent, and for versions that do not send it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<ConditionReport>,
    /// Its links.
    pub links: Vec<LinkReport>,
}

impl NodeOfVolume {
    /// Its state in a word: of its links, or that it is paused.
    #[must_use]
    pub fn word(&self) -> &str {
        if self.is_paused { "paused" } else { &self.state }
    }
}

/// One link.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LinkReport {
    /// Which of the node's links.
    pub number: usize,
    /// `ready`, `greeting`, `connecting` or `waiting`.
    pub state: String,
    /// Batches out now.
    pub outstanding_batches: usize,
    /// Its counters.
    #[serde(flatten)]
    pub counters: LinkCounters,
    /// Pieces per batch so far.
    pub pieces_per_batch: f64,
    /// Sum of the times that answered pieces spent at the node.
    pub node_seconds: f64,
    /// The kernel's counters of the connection; absent for links inside the process.
    pub tcp: Option<TcpReport>,
    /// Its path as seen by this end's socket; absent where `tcp` is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathReport>,
}

/// A node's state.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NodeReport {
    /// Which extent, in hexadecimal.
    pub extent_id: String,
    /// Its data file or device.
    pub path: String,
    /// Its size.
    pub size_bytes: u64,
    /// The keys without which no gateway is let in; absent if all are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys: Option<KeysReport>,
    /// It answers without touching its store.
    pub no_io: bool,
    /// The modelled flash whose timing it has; absent without a model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelReport>,
    /// The condition of its device.
    #[serde(default)]
    pub condition: ConditionReport,
    /// The volume that it belongs to, once a gateway claimed it.
    pub volume: Option<String>,
    /// Its place there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<PlaceInVolume>,
    /// Links open now.
    pub links: usize,
    /// Each of them.
    #[serde(default)]
    pub paths: Vec<NodeLinkReport>,
    /// Its counters.
    #[serde(flatten)]
    pub counters: NodeCounters,
    /// Whether small reads may be answered from a memory mapping now.
    #[serde(default)]
    pub mapped: bool,
    /// Fast reads answered from the memory mapping.
    #[serde(default)]
    pub mapped_reads: u64,
    /// Waits of the loop for a mapped page that was assumed to be in memory.
    #[serde(default)]
    pub mapped_major_faults: u64,
    /// Its checksums; absent for an extent without them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sums: Option<SumsReport>,
    /// Pieces that wait in the elevator.
    pub waiting: usize,
    /// Operations in the store now.
    pub in_store: usize,
}

/// The checksums of a node's extent, which belongs to a volume with copies. Numbers count from the start of the process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SumsReport {
    /// Blocks of 4 KiB that do not match their checksum, as far as known, and were not written since.
    pub bad_blocks: u64,
    /// How often a block was found not to match.
    pub mismatches: u64,
    /// Blocks that were given the checksum of the bytes that they have, because the gateway asked for them.
    pub adopted_blocks: u64,
    /// Blocks whose change was finished at the start, because the node had been killed in the middle of it.
    pub settled_blocks: u64,
    /// Blocks that were wrong on the flash and right in the page cache, and were written again from there.
    #[serde(default)]
    pub rewritten_blocks: u64,
    /// Units of 4 MiB whose checksums are made when they are first used, because they held data before.
    pub units_without: u64,
}

/// A node's modelled flash.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ModelReport {
    /// Its name.
    pub profile: String,
    /// The device that it models.
    pub description: String,
    /// Operations that it has done.
    pub served: u64,
    /// Time in which at least one of its slots was busy.
    pub busy_seconds: f64,
    /// That, as a fraction of the time since the process started.
    pub busy_fraction: f64,
    /// Of its steps from one operation to the next, those that did not go down: 0 to 1.
    pub upward_fraction: f64,
    /// Operations that were answered more than a millisecond after the model's time.
    #[serde(default)]
    pub late: u64,
    /// How late operations were answered, after the model's time: half of all at most this.
    pub lateness_p50_us: f64,
    /// 99 % at most this.
    pub lateness_p99_us: f64,
    /// The latest.
    pub lateness_max_us: f64,
}

impl ModelReport {
    /// The report of `status` after `uptime`.
    #[must_use]
    pub fn new(status: &ModelStatus, uptime: Duration) -> ModelReport {
        let ModelStatus { name, description, counters, lateness_ns } = status;
        let busy = Duration::from_nanos(counters.busy_ns);
        let late_us = |quantile| lateness_ns.value_at_quantile(quantile) as f64 / 1e3;
        ModelReport {
            profile: name.clone(),
            description: description.clone(),
            served: counters.served,
            busy_seconds: busy.as_secs_f64(),
            busy_fraction: (busy.as_secs_f64() / uptime.as_secs_f64().max(1e-9)).min(1.0),
            upward_fraction: counters.upward_fraction(),
            late: lateness_ns.count_between(LATE_NS + 1, u64::MAX),
            lateness_p50_us: late_us(0.5),
            lateness_p99_us: late_us(0.99),
            lateness_max_us: late_us(1.0),
        }
    }
}

/// The stages of a process as reports.
#[must_use]
pub fn stage_reports<I: Interval>(stages: &StageHistograms<I>) -> Vec<StageReport> {
    let seconds = |nanos: u64| nanos as f64 / 1e9;
    I::ALL
        .iter()
        .map(|&interval| StageReport {
            name: interval.name().to_string(),
            count: stages.count(interval),
            sum_seconds: seconds(stages.sum_nanos(interval)),
            p50_seconds: seconds(stages.quantile(interval, 0.5)),
            p90_seconds: seconds(stages.quantile(interval, 0.9)),
            p99_seconds: seconds(stages.quantile(interval, 0.99)),
            max_seconds: seconds(stages.quantile(interval, 1.0)),
            buckets: BUCKET_BOUNDS_NANOS.iter().map(|&n| seconds(n)).zip(stages.cumulative(interval)).collect(),
        })
        .collect()
}
