//! A cluster in virtual time: the state machines of gateway and nodes with modelled air, flash, TCP and processors.
//!
//! ```text
//!  load ─▶ gateway ─▶ links: modelled TCP ─▶ modelled air ─▶ node ─▶ modelled flash
//! ```
//!
//! Unlike `faults`, which injects faults and checks bytes, this measures speed: failures only result from lost frames. The bytes on the
//! links are the real ones, so that the state machines behave as elsewhere; stored data is zeros.

mod count;
pub mod fairness;
mod gateway;
pub mod limit;
mod node;
pub mod rebuild;
mod settings;
mod tcp;
mod weak;
mod world;

pub use settings::{CELLS_MAX, LINKS_MAX, NODES_MAX, OUTSTANDING_BYTES_MAX, OUTSTANDING_MAX};
pub use weak::{SLOWER_MAX, Weak, Weakness};

use std::time::Duration;

use flashmob_core::elevator::IssueOrder;
use flashmob_core::gateway::BatchMode;
use hdrhistogram::Histogram;

use crate::{air, flash};

/// A cluster and its load.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Number of nodes.
    pub nodes: u32,
    /// The load goes to the first nodes, this many.
    pub loaded_nodes: u32,
    /// Number of cells, each with an access point and its own channel; the nodes are divided among them. With more than one the
    /// gateway is wired.
    pub cells: u32,
    /// The medium between them.
    pub air: air::Profile,
    /// How the gateway is attached.
    pub gateway: air::Attachment,
    /// The flash of each node; `None`: nodes answer without reading or writing.
    pub flash: Option<flash::Profile>,
    /// In which order nodes read and write.
    pub order: IssueOrder,
    /// Bytes that each node serves.
    pub extent_bytes: u64,
    /// Links per node (P1's m).
    pub links: u16,
    /// Pieces per batch (P1's k).
    pub batch: BatchMode,
    /// Bytes per request.
    pub block_bytes: u32,
    /// Percentage of reads; the others are writes.
    pub read_percent: f64,
    /// Outstanding requests over all nodes.
    pub outstanding: u32,
    /// Mean nanoseconds from one request to the next, at random moments; then `outstanding` is the most at once. `None`: each answer is
    /// followed by the next request.
    pub every_ns: Option<u64>,
    /// Virtual time of the warm-up, which is not measured.
    pub warmup: Duration,
    /// Virtual time of the measurement.
    pub time: Duration,
    /// The random seed.
    pub seed: u64,
    /// Processor cost of the gateway.
    pub gateway_cost: Cost,
    /// Processor cost of a node.
    pub node_cost: Cost,
    /// Copies of each chunk, and which of them are read; `None`: a linear volume.
    pub copies: Option<Copies>,
    /// Nodes that are weaker than the others.
    pub weak: Option<Weak>,
    /// A node that is away, and whose copies are made again when it returns: see [`rebuild::run`].
    pub rebuild: Option<rebuild::Rebuild>,
    /// When TCP acknowledges.
    pub acks: Acks,
}

/// When TCP acknowledges data, if it has none to send that would do it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Acks {
    /// As Linux: when more than a full segment is unacknowledged; after 40 ms at the latest.
    #[default]
    Linux,
    /// When more than so many full segments are; after 40 ms at the latest.
    Segments(u32),
    /// After 40 ms.
    Late,
}

/// The copies of a simulated volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copies {
    /// Of each chunk.
    pub copies: u32,
    /// Each chunk is read from one of them, however slow that is.
    pub home_only: bool,
    /// The volume is scrubbed all the time.
    pub scrub: bool,
}

impl Copies {
    /// So many copies; reads choose between them, and nothing is scrubbed.
    #[must_use]
    pub const fn of(copies: u32) -> Copies {
        Copies { copies, home_only: false, scrub: false }
    }
}

/// Processor costs in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// A wake-up and the following sleep.
    pub turn_ns: u64,
    /// Each packet in or out.
    pub packet_ns: u64,
    /// Each request or piece.
    pub request_ns: u64,
    /// Each kibibyte moved.
    pub kib_ns: u64,
}

impl Cost {
    /// A computer: a laptop or a small server. Measured for flashmob's own gateway on a small virtual machine, rounded.
    pub const COMPUTER: Cost = Cost { turn_ns: 15_000, packet_ns: 2_000, request_ns: 1_000, kib_ns: 250 };
    /// A tablet or phone of P1's time. Chosen: four times a computer's.
    pub const TABLET: Cost = Cost { turn_ns: 60_000, packet_ns: 8_000, request_ns: 4_000, kib_ns: 1_000 };

    /// The cost of one turn of a loop.
    pub(crate) fn of_turn(self, packets: usize, requests: usize, bytes: usize) -> u64 {
        self.turn_ns + self.of_part(packets, requests, bytes)
    }

    /// The cost of a part of a turn.
    pub(crate) fn of_part(self, packets: usize, requests: usize, bytes: usize) -> u64 {
        self.packet_ns * packets as u64 + self.request_ns * requests as u64 + self.kib_ns * bytes as u64 / 1024
    }
}

/// Runs a cluster under its load.
///
/// # Errors
/// See [`SettingsError`].
pub fn run(settings: &Settings) -> Result<Measured, SettingsError> {
    run_watched(settings, settings.warmup + settings.time, &mut |_| true)
}

/// Like [`run`], but after each `step` of virtual time `go_on` receives the finished fraction (0 to 1) and returns whether to continue.
/// If not, the measurement until then is returned, with its time.
///
/// # Errors
/// See [`SettingsError`].
pub fn run_watched(
    settings: &Settings,
    step: Duration,
    go_on: &mut dyn FnMut(f64) -> bool,
) -> Result<Measured, SettingsError> {
    let mut running = Running::new(settings)?;
    let warmup = settings.warmup.as_secs_f64() / (settings.warmup + settings.time).as_secs_f64();
    let mut goes_on = true;
    let mut warming = |fraction| {
        goes_on = go_on(fraction * warmup);
        goes_on
    };
    running.0.measure(settings.warmup, step, &mut warming, &mut no_clock);
    let time = if goes_on { settings.time } else { Duration::ZERO };
    let mut measuring = |fraction| go_on(warmup + fraction * (1.0 - warmup));
    Ok(running.0.measure(time, step, &mut measuring, &mut no_clock).0)
}

/// Like [`run`], but also returns the real time of the gateway's turns: `clock` returns the present in nanoseconds, and is called before
/// and after each of the gateway's turns. The model itself uses no clock, and its results do not depend on this one.
///
/// # Errors
/// See [`SettingsError`].
pub fn run_timed(settings: &Settings, clock: &mut dyn FnMut() -> u64) -> Result<(Measured, Timed), SettingsError> {
    let mut running = Running::new(settings)?;
    running.measure(settings.warmup);
    Ok(running.0.measure(settings.time, settings.time, &mut |_| true, clock))
}

fn no_clock() -> u64 {
    0
}

/// Real time of the gateway's turns by the caller's clock: its state machine, the load inside it, and the copying of bytes from and to the
/// modelled TCP. Only of the measured time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timed {
    /// Number of turns.
    pub turns: u64,
    /// Total time in nanoseconds.
    pub turns_ns: u64,
}

/// A cluster under load that can be continued, for a caller that does not know beforehand how long it takes to settle.
#[derive(Debug)]
pub struct Running(world::World);

impl Running {
    /// Starts a cluster. The times of `settings` are not used.
    ///
    /// # Errors
    /// See [`SettingsError`].
    pub fn new(settings: &Settings) -> Result<Running, SettingsError> {
        settings.check()?;
        Ok(Running(world::World::new(settings)?))
    }

    /// Runs for this much virtual time, and returns its measurement.
    pub fn measure(&mut self, time: Duration) -> Measured {
        self.0.measure(time, time, &mut |_| true, &mut no_clock).0
    }

    /// Number of links given up so far.
    #[cfg(test)]
    fn links_broken(&self) -> u64 {
        self.0.links_broken()
    }
}

/// The results of a run. Counts only cover the measured time.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Virtual time.
    pub elapsed: Duration,
    /// Requests that succeeded.
    pub requests: u64,
    /// Requests that failed.
    pub errors: u64,
    /// Latency in nanoseconds, from a request's entry into the gateway to its answer.
    pub latency_ns: Histogram<u64>,
    /// Batches sent by the gateway.
    pub batches: u64,
    /// Pieces in them.
    pub pieces: u64,
    /// Reply frames of the nodes.
    pub replies: u64,
    /// TCP packets, seen from the gateway.
    pub packets: Packets,
    /// Counters of the air, summed over all cells.
    pub air: air::Counters,
    /// Fraction of the time in which the medium was busy, mean over the cells.
    pub air_busy_fraction: f64,
    /// Fraction of the time in which at least one slot of a node's flash was busy, mean over the loaded nodes; `None` without flash.
    pub flash_busy_fraction: Option<f64>,
    /// Busy time of the gateway's processor.
    pub gateway_busy: Duration,
    /// Events of the simulation, including the warm-up.
    pub events: u64,
    /// Hedged reads: late ones that were sent to a second copy as well.
    pub hedged_reads: u64,
    /// Those of them that the second copy answered first.
    pub hedges_first: u64,
    /// Bytes of copies that a scrub has read.
    pub scrubbed_bytes: u64,
}

/// TCP packets, seen from the gateway.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Packets {
    /// From the gateway, including pure acknowledgements.
    pub sent: u64,
    /// To the gateway, including pure acknowledgements.
    pub received: u64,
    /// Those of `sent` that carried data.
    pub data_sent: u64,
    /// Those of `received` that carried data.
    pub data_received: u64,
    /// Bytes of data from the gateway, without headers.
    pub bytes_sent: u64,
    /// Bytes of data to the gateway.
    pub bytes_received: u64,
    /// Packets retransmitted by the gateway.
    pub retransmitted: u64,
}

/// Why settings are refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SettingsError {
    /// A number is out of range: which, and its range.
    #[error("{0} must be {1}")]
    OutOfRange(&'static str, &'static str),
    /// The profile of the flash is invalid.
    #[error(transparent)]
    Flash(#[from] flash::ProfileError),
    /// The extents do not form a volume.
    #[error(transparent)]
    Layout(#[from] flashmob_core::layout::LayoutError),
    /// The nodes have no room for the copies.
    #[error(transparent)]
    Placement(#[from] flashmob_core::copies::PlacementError),
    /// The map cannot be made.
    #[error(transparent)]
    Map(#[from] flashmob_core::copies::MapError),
}

#[cfg(test)]
mod copies_tests;
#[cfg(test)]
mod fairness_tests;
#[cfg(test)]
mod rebuild_tests;
#[cfg(test)]
mod tests;
