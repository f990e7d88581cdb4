//! The requests that a gateway followed: the JSON of `/trace`, and the source of `flashmob trace cluster`.
//!
//! All times are nanoseconds of CLOCK_MONOTONIC of the gateway's device. Times of a node are converted with the known relation
//! of the clocks; durations at the node are as it measured them. Fields may be added; none changes its meaning without a
//! new `schema`.

use flashmob_core::gateway::{AtOnce, Gateway, Sample, SampleCounters, SampledPiece};
use flashmob_core::units::Time;
use flashmob_core::wire::trace::Way;
use serde::{Deserialize, Serialize};

/// The version of this form.
pub const SCHEMA: u32 = 1;

/// The report of a gateway.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TraceReport {
    /// [`SCHEMA`].
    pub schema: u32,
    /// flashmob's version.
    pub version: String,
    /// The time of the report.
    pub now_ns: u64,
    /// Outcomes of followed requests since the gateway's start.
    pub counters: TraceCounters,
    /// Nodes of all volumes; [`PieceReport::node`] is an index.
    pub nodes: Vec<NodeClockReport>,
    /// The last ones that ended, oldest first.
    pub samples: Vec<SampleReport>,
}

/// Outcomes of followed requests.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceCounters {
    /// One request in this many is followed; 0: none.
    pub one_in: u64,
    /// Followed now.
    pub in_flight: usize,
    /// Their outcomes.
    #[serde(flatten)]
    pub counters: SampleCounters,
}

/// A node and its clock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeClockReport {
    /// Its volume.
    pub volume: String,
    /// Its address or path.
    pub name: String,
    /// Offset of its clock ahead of the gateway's; absent until its first welcome.
    pub clock_offset_ns: Option<i64>,
    /// Maximum error of that offset.
    pub clock_error_ns: Option<u64>,
}

/// One request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SampleReport {
    /// Counted from 1 since the gateway's start.
    pub number: u64,
    /// `read`, `write`, `flush`, `trim`, `write_zeroes`.
    pub op: String,
    /// Of which volume.
    pub volume: String,
    /// First byte of the volume; of a call with several parts that of the first.
    pub offset_bytes: u64,
    /// Bytes asked for, all parts together.
    pub len_bytes: u64,
    /// Time at which it was completely received.
    pub received_ns: u64,
    /// Time at which its pieces were queued.
    pub queued_ns: u64,
    /// Time at which its answer was made.
    pub replied_ns: u64,
    /// Why it failed, if it did.
    pub failure: Option<String>,
    /// An extent in the gateway's process answered it, or parts of it, without a batch.
    pub at_once: Option<AtOnceReport>,
    /// How many pieces it had.
    pub pieces_in_all: u32,
    /// Those that were followed.
    pub pieces: Vec<PieceReport>,
}

/// A read that an extent in the gateway's own process answered at once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AtOnceReport {
    /// Which node, an index of [`TraceReport::nodes`].
    pub node: usize,
    /// It was asked.
    pub started_ns: u64,
    /// It had answered.
    pub finished_ns: u64,
}

/// One piece.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PieceReport {
    /// Its node, an index of [`TraceReport::nodes`].
    pub node: usize,
    /// First byte of the extent.
    pub offset_bytes: u64,
    /// How many.
    pub len_bytes: u32,
    /// It became part of a batch.
    pub batched_ns: u64,
    /// Pieces of that batch.
    pub batch_pieces: u16,
    /// Retries; the times are those of the last attempt.
    pub retries: u32,
    /// Its failure, if it failed.
    pub failure: Option<String>,
    /// The rest of its path; absent if it was not completed.
    pub way: Option<WayReport>,
}

/// To a node and back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WayReport {
    /// `at_once`: from the node's memory; `store`; `refused`.
    pub answered: String,
    /// Sent to the node.
    pub sent_ns: u64,
    /// Received by the node.
    pub node_received_ns: u64,
    /// In the elevator, or about to be tried.
    pub scheduled_ns: u64,
    /// The store began.
    pub flash_start_ns: u64,
    /// The store finished.
    pub flash_done_ns: u64,
    /// The node's answer was ready.
    pub node_replied_ns: u64,
    /// Returned to the gateway.
    pub returned_ns: u64,
    /// Offset of the node's clock.
    pub clock_offset_ns: i64,
    /// Maximum common error of the node's five times.
    pub clock_error_ns: u64,
    /// The node's own clock when it had received it.
    pub node_clock_ns: u64,
    /// The operation of the store that it was part of: first byte of the extent.
    pub store_offset_bytes: u64,
    /// And how many.
    pub store_bytes: u32,
}

impl TraceCounters {
    /// Those of a gateway.
    #[must_use]
    pub fn of(gateway: &Gateway) -> TraceCounters {
        TraceCounters {
            one_in: gateway.sampling().one_in,
            in_flight: gateway.samples_in_flight(),
            counters: gateway.sample_counters(),
        }
    }
}

impl TraceReport {
    /// The report of a gateway at `now`.
    #[must_use]
    pub fn of(gateway: &Gateway, now: Time) -> TraceReport {
        let status = gateway.status();
        let nodes = status.volumes.iter().flat_map(|volume| volume.nodes.iter().map(move |node| (volume, node)));
        let mut nodes: Vec<_> = nodes.collect();
        // Samples know nodes by their numbers.
        nodes.sort_by_key(|(_, node)| node.number);
        let nodes = nodes.into_iter().map(|(volume, node)| {
            let clock = gateway.clock_of(node.number, now);
            NodeClockReport {
                volume: volume.name.clone(),
                name: node.name.clone(),
                clock_offset_ns: clock.map(|clock| clock.offset_ns),
                clock_error_ns: clock.map(|clock| clock.error_ns),
            }
        });
        let volumes: Vec<&str> = status.volumes.iter().map(|volume| &*volume.name).collect();
        let teller = Teller { clock_start_ns: gateway.sampling().clock_start_ns, volumes: &volumes };
        TraceReport {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION").to_string(),
            now_ns: teller.ns(now),
            counters: TraceCounters::of(gateway),
            nodes: nodes.collect(),
            samples: gateway.samples().map(|sample| teller.sample(sample)).collect(),
        }
    }
}

/// Converts the state machine's samples.
struct Teller<'a> {
    clock_start_ns: u64,
    volumes: &'a [&'a str],
}

impl Teller<'_> {
    fn ns(&self, time: Time) -> u64 {
        self.clock_start_ns.saturating_add(time.as_nanos())
    }

    fn sample(&self, sample: &Sample) -> SampleReport {
        let at_once = sample.at_once.map(|AtOnce { node, started, finished }| AtOnceReport {
            node,
            started_ns: self.ns(started),
            finished_ns: self.ns(finished),
        });
        SampleReport {
            number: sample.number,
            op: sample.op.name().to_string(),
            volume: self.volumes.get(sample.volume).copied().unwrap_or_default().to_string(),
            offset_bytes: sample.offset_bytes,
            len_bytes: sample.len_bytes,
            received_ns: self.ns(sample.received),
            queued_ns: self.ns(sample.queued),
            replied_ns: self.ns(sample.replied),
            failure: sample.failure.map(|failure| failure.to_string()),
            at_once,
            pieces_in_all: sample.pieces_in_all,
            pieces: sample.pieces.iter().map(|piece| self.piece(piece)).collect(),
        }
    }

    fn piece(&self, piece: &SampledPiece) -> PieceReport {
        PieceReport {
            node: piece.node,
            offset_bytes: piece.offset_bytes,
            len_bytes: piece.len_bytes,
            batched_ns: self.ns(piece.batched),
            batch_pieces: piece.batch_pieces,
            retries: piece.retries,
            failure: piece.outcome.err().map(|failure| failure.to_string()),
            way: self.way(piece),
        }
    }

    fn way(&self, piece: &SampledPiece) -> Option<WayReport> {
        let (placed, times, clock) = (piece.placed(self.clock_start_ns)?, piece.times?, piece.clock?);
        let [received, scheduled, started, finished, replied] = placed.at_node.map(|time| self.ns(time));
        let answered = match times.way {
            Way::AtOnce => "at_once",
            Way::Store => "store",
            Way::Refused => "refused",
        };
        Some(WayReport {
            answered: answered.to_string(),
            sent_ns: self.ns(placed.sent),
            node_received_ns: received,
            scheduled_ns: scheduled,
            flash_start_ns: started,
            flash_done_ns: finished,
            node_replied_ns: replied,
            returned_ns: self.ns(placed.returned),
            clock_offset_ns: clock.offset_ns,
            clock_error_ns: clock.error_ns,
            node_clock_ns: times.received_ns,
            store_offset_bytes: times.op_offset_bytes,
            store_bytes: times.op_bytes,
        })
    }
}
