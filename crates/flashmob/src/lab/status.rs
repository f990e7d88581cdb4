//! What a running lab tells those inside it, over a socket.
//!
//! Whoever connects to the Unix socket that `FLASHMOB_LAB` names sends a word and a line feed, and gets one line of JSON:
//! `status` asks how things are; `begin` asks the same, and from then on lateness is counted anew.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use anyhow::Context;
use flashmob_results::cluster::{AirModel, FlashModel, Lateness};
use serde::{Deserialize, Serialize};

/// Names the socket.
pub const SOCKET_VARIABLE: &str = "FLASHMOB_LAB";
/// Names the configuration of the lab's gateway.
pub const CONFIG_VARIABLE: &str = "FLASHMOB_CONFIG";

/// How a lab is at one moment. Counts are since its start, lateness since the last `begin`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LabStatus {
    /// Nodes in it.
    pub nodes: u32,
    /// The modelled air.
    pub air: AirModel,
    /// The modelled flash of each node, its limits left empty; `None` if nodes answer without reading or writing.
    pub flash: Option<FlashModel>,
    /// Bytes that each node serves.
    pub extent_bytes: u64,
    /// What happened on the air.
    pub counters: AirCounters,
    /// How late frames were moved, and the nodes' modelled flash answered.
    pub lateness: Lateness,
    /// Too late to be trusted, since the last `begin`.
    pub is_late: bool,
    /// Since the lab's start.
    pub elapsed_ns: u64,
}

/// What happened on the air: [`flashmob_lab::air::Counters`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AirCounters {
    /// Times that somebody gained the medium.
    pub transmissions: u64,
    /// Frames in them.
    pub frames: u64,
    /// Their bytes with MAC headers.
    pub frame_bytes: u64,
    /// Times that several sent at once.
    pub collisions: u64,
    /// Frames sent again.
    pub retries: u64,
    /// Frames that did not arrive.
    pub dropped: u64,
    /// How long the medium was busy.
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

/// Asks a lab how it is; with `begin`, lateness is counted anew from now on.
pub fn ask(socket: &Path, begin: bool) -> anyhow::Result<LabStatus> {
    let mut stream = UnixStream::connect(socket)
        .with_context(|| format!("the lab at {} does not answer; check that it is still running", socket.display()))?;
    stream.write_all(if begin { b"begin\n" } else { b"status\n" })?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).context("cannot read the lab's reply")?;
    serde_json::from_str(&line).context("invalid reply from the lab; check that both have the same version")
}
