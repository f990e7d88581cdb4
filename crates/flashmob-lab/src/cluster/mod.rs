//! A cluster in virtual time: the state machines of gateway and nodes with modelled air, flash, TCP and processors.
//!
//! ```text
//!  load ─▶ gateway ─▶ links: modelled TCP ─▶ modelled air ─▶ node ─▶ modelled flash
//! ```
//!
//! Unlike `faults`, which injects faults and checks bytes, this measures speed: nothing fails unless the air loses it. The bytes on the
//! links are the real ones, so that the state machines do what they do elsewhere; what is stored is zeros.

mod count;
mod gateway;
pub mod limit;
mod node;
mod settings;
mod tcp;
mod world;

pub use settings::{CELLS_MAX, LINKS_MAX, NODES_MAX, OUTSTANDING_BYTES_MAX, OUTSTANDING_MAX};

use std::time::Duration;

use flashmob_core::gateway::BatchMode;
use hdrhistogram::Histogram;

use crate::{air, flash};

/// A cluster and its load.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Nodes.
    pub nodes: u32,
    /// The load goes to this many nodes, the first ones.
    pub loaded_nodes: u32,
    /// Cells, each with an access point and a channel of its own; the nodes are divided among them. With more than one the
    /// gateway is wired.
    pub cells: u32,
    /// The medium between them.
    pub air: air::Profile,
    /// How the gateway is attached.
    pub gateway: air::Attachment,
    /// The flash of each node; `None`: nodes answer without reading or writing.
    pub flash: Option<flash::Profile>,
    /// Bytes that each node serves.
    pub extent_bytes: u64,
    /// Links to each node (P1's m).
    pub links: u16,
    /// Pieces in a batch (P1's k).
    pub batch: BatchMode,
    /// Bytes of each request.
    pub block_bytes: u32,
    /// Percentage of reads; the others are writes.
    pub read_percent: f64,
    /// Requests outstanding at once, over all nodes.
    pub outstanding: u32,
    /// Virtual time before anything counts.
    pub warmup: Duration,
    /// Virtual time that counts.
    pub time: Duration,
    /// The random seed.
    pub seed: u64,
    /// The cost of the gateway's work.
    pub gateway_cost: Cost,
    /// The cost of a node's work.
    pub node_cost: Cost,
}

/// The cost of work on a processor, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// A wake-up, and going to sleep again.
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

    /// One turn of a loop.
    pub(crate) fn of_turn(self, packets: usize, requests: usize, bytes: usize) -> u64 {
        self.turn_ns
            + self.packet_ns * packets as u64
            + self.request_ns * requests as u64
            + self.kib_ns * bytes as u64 / 1024
    }
}

/// Runs a cluster under its load.
///
/// # Errors
/// See [`SettingsError`].
pub fn run(settings: &Settings) -> Result<Measured, SettingsError> {
    run_watched(settings, settings.warmup + settings.time, &mut |_| true)
}

/// The same; after each `step` of virtual time `go_on` receives the finished part, from 0 to 1, and returns whether to continue. If not, what
/// was measured until then comes back, with the time that it took.
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

/// Runs it, and says how long the gateway took in reality: `clock` gives the present in nanoseconds, and is asked before and after
/// each of the gateway's turns. The model itself knows no clock, and does the same whatever this one says.
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

/// The time of the gateway's turns by a caller's clock: its state machine, the load inside it, and the copying of bytes from and to the
/// modelled TCP. Of the measured time alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timed {
    /// Turns.
    pub turns: u64,
    /// All of them together, in nanoseconds.
    pub turns_ns: u64,
}

/// A cluster under its load that can run on, for a caller that does not know beforehand how long it takes to settle.
#[derive(Debug)]
pub struct Running(world::World);

impl Running {
    /// At its beginning. The times of `settings` are not used.
    ///
    /// # Errors
    /// See [`SettingsError`].
    pub fn new(settings: &Settings) -> Result<Running, SettingsError> {
        settings.check()?;
        Ok(Running(world::World::new(settings)?))
    }

    /// Runs for this much virtual time, and returns what was measured in it.
    pub fn measure(&mut self, time: Duration) -> Measured {
        self.0.measure(time, time, &mut |_| true, &mut no_clock).0
    }

    /// How often links were given up so far.
    #[cfg(test)]
    fn links_broken(&self) -> u64 {
        self.0.links_broken()
    }
}

/// The results of a run. Counts are of the measured time alone.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Virtual time.
    pub elapsed: Duration,
    /// Requests that were answered well.
    pub requests: u64,
    /// Requests that failed.
    pub errors: u64,
    /// From a request's entry into the gateway to its answer, in nanoseconds.
    pub latency_ns: Histogram<u64>,
    /// Batches from the gateway.
    pub batches: u64,
    /// Pieces in them.
    pub pieces: u64,
    /// Frames of replies from the nodes.
    pub replies: u64,
    /// TCP's packets, seen from the gateway.
    pub packets: Packets,
    /// The air of all cells, added up.
    pub air: air::Counters,
    /// How long the medium was busy, as a fraction of the time, mean over the cells.
    pub air_busy_fraction: f64,
    /// How long at least one slot of a node's flash was busy, as a fraction, mean over the nodes that were asked; `None` without flash.
    pub flash_busy_fraction: Option<f64>,
    /// How long the gateway's processor was busy.
    pub gateway_busy: Duration,
    /// Events of the simulation, warm-up included.
    pub events: u64,
}

/// TCP's packets, seen from the gateway.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Packets {
    /// From the gateway, pure acknowledgements included.
    pub sent: u64,
    /// To the gateway, pure acknowledgements included.
    pub received: u64,
    /// Those of `sent` that carried data.
    pub data_sent: u64,
    /// Those of `received` that carried data.
    pub data_received: u64,
    /// Bytes of data from the gateway, headers not counted.
    pub bytes_sent: u64,
    /// Bytes of data to the gateway.
    pub bytes_received: u64,
    /// Packets that the gateway sent again.
    pub retransmitted: u64,
}

/// Why settings are refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SettingsError {
    /// A number is out of range: which, and its range.
    #[error("{0} must be {1}")]
    OutOfRange(&'static str, &'static str),
    /// The profile of the flash is refused.
    #[error(transparent)]
    Flash(#[from] flash::ProfileError),
    /// The extents do not make a volume.
    #[error(transparent)]
    Layout(#[from] flashmob_core::layout::LayoutError),
}

#[cfg(test)]
mod tests;
