//! The state of a running lab, for processes inside it, over a socket.
//!
//! A client of the Unix socket that `FLASHMOB_LAB` names sends a word and a line feed, and receives one line of JSON:
//! `status` returns the state; `begin` does the same and then resets the lateness.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use anyhow::Context;
use flashmob_core::elevator::IssueOrder;
use flashmob_results::cluster::{AirModel, FlashModel, Lateness, Order};
use serde::{Deserialize, Serialize};

/// The environment variable with the socket's path.
pub const SOCKET_VARIABLE: &str = "FLASHMOB_LAB";
/// The environment variable with the path of the gateway's configuration.
pub const CONFIG_VARIABLE: &str = "FLASHMOB_CONFIG";

/// The state of a lab at one moment. Counts are since its start, lateness since the last `begin`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LabStatus {
    /// Number of nodes.
    pub nodes: u32,
    /// The modelled air.
    pub air: AirModel,
    /// The modelled flash of each node, without its limits; `None` if nodes answer without I/O.
    pub flash: Option<FlashModel>,
    /// The order in which each node reads and writes; absent if nodes answer without I/O.
    pub order: Option<Order>,
    /// Bytes that each node serves.
    pub extent_bytes: u64,
    /// Nodes that are weaker than the others, as `--weak` has it; absent if all are alike.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weak: Option<String>,
    /// The air's counters.
    pub counters: AirCounters,
    /// Lateness of frames, and of the answers of the nodes' modelled flash.
    pub lateness: Lateness,
    /// The lateness since the last `begin` makes figures invalid.
    pub is_late: bool,
    /// Time since the lab's start.
    pub elapsed_ns: u64,
}

/// An order in the format of results.
#[must_use]
pub fn order_of(order: IssueOrder) -> Order {
    match order {
        IssueOrder::Sorted => Order::Sorted,
        IssueOrder::Arrival => Order::Arrival,
    }
}

/// The air's counters: [`flashmob_lab::air::Counters`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AirCounters {
    /// Number of times that a sender gained the medium.
    pub transmissions: u64,
    /// Frames sent in them.
    pub frames: u64,
    /// Their bytes with MAC headers.
    pub frame_bytes: u64,
    /// Number of times that several sent at once.
    pub collisions: u64,
    /// Frames retransmitted.
    pub retries: u64,
    /// Frames that did not arrive.
    pub dropped: u64,
    /// Time for which the medium was busy.
    pub busy_ns: u64,
}

impl From<flashmob_lab::air::Counters> for AirCounters {
    fn from(c: flashmob_lab::air::Counters) -> AirCounters {
        AirCounters {
            transmissions: c.transmissions,
            frames: c.frames,
            frame_bytes: c.frame_bytes,
            collisions: c.collisions,
            retries: c.retries,
            dropped: c.dropped,
            busy_ns: c.busy_ns,
        }
    }
}

/// The lab that this process is in, if it is in one.
#[must_use]
pub fn socket() -> Option<PathBuf> {
    std::env::var_os(SOCKET_VARIABLE).map(PathBuf::from)
}

/// Queries a lab's state; `begin` resets the lateness afterwards.
pub fn ask(socket: &Path, begin: bool) -> anyhow::Result<LabStatus> {
    let mut stream = UnixStream::connect(socket)
        .with_context(|| format!("the lab at {} does not answer; check that it is still running", socket.display()))?;
    stream.write_all(if begin { b"begin\n" } else { b"status\n" })?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).context("cannot read the lab's reply")?;
    serde_json::from_str(&line).context("invalid reply from the lab; check that both have the same version")
}
