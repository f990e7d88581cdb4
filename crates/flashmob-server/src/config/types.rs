//! A configuration that has been checked: plain data, every default filled in.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

pub use flashmob_core::gateway::BatchMode as Batch;
pub use flashmob_core::layout::LayoutKind;

pub use crate::net::{ListenAddr as Listen, Sizing};
pub use crate::store::ExtentId;
pub use crate::store::{Engine, Mapping};

/// All that a gateway is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Where NBD clients connect; at least one.
    pub listen: Vec<Listen>,
    /// Where `/metrics` and `/status` are served, if anywhere.
    pub admin: Option<SocketAddr>,
    /// NBD clients at once.
    pub connections: usize,
    /// Microseconds that the loop may look for what comes next before it sleeps; 0: it sleeps at once.
    pub busy_poll_us: u64,
    /// One request in so many is followed through all stages; 0: none.
    pub trace_one_in: u64,
    /// Bytes of requests and replies held at once, all clients together.
    pub memory_bytes: u64,
    /// What the gateway calls itself towards nodes; `None` leaves it to the caller.
    pub name: Option<String>,
    /// The volumes, at least one, their names and identities all different.
    pub volumes: Vec<VolumeConfig>,
}

/// One volume: what it is called, how its addresses map to nodes, and how the nodes are spoken to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeConfig {
    /// The name of the export; 1 to 255 bytes, printable.
    pub name: String,
    /// What nodes remember to belong to; the name unless written otherwise.
    pub id: String,
    /// For people; shown by NBD clients.
    pub description: Option<String>,
    /// How the volume's addresses map to its nodes.
    pub layout: LayoutKind,
    /// Whether clients may only read.
    pub read_only: bool,
    /// How many requests travel together (P1's k).
    pub batch: Batch,
    /// Payload bytes that one batch may carry or ask for.
    pub batch_bytes: u64,
    /// TCP connections per node (P1's m).
    pub links: usize,
    /// Batches on their way per link.
    pub outstanding_batches: usize,
    /// How long a request waits for its node before it fails.
    pub timeout: Duration,
    /// How long one attempt to connect may take.
    pub connect_timeout: Duration,
    /// The first pause between attempts to connect; it doubles from there.
    pub reconnect_min: Duration,
    /// The longest pause between attempts to connect; not below the first.
    pub reconnect_max: Duration,
    /// Silence after which a link that is in use carries a small frame; zero: never.
    pub keep_awake: Duration,
    /// Options of the sockets towards nodes.
    pub socket: SocketConfig,
    /// The nodes in the order of the volume's addresses; at least one.
    pub nodes: Vec<NodeConfig>,
}

/// Options of a volume's sockets; `None` leaves one to the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SocketConfig {
    /// `SO_SNDBUF` in bytes.
    pub send_buffer_bytes: Option<u64>,
    /// `SO_RCVBUF` in bytes.
    pub receive_buffer_bytes: Option<u64>,
    /// Who decides about the sizes of buffers that are not set.
    pub sizing: Sizing,
    /// `TCP_CONGESTION`, such as `bbr`.
    pub congestion: Option<String>,
    /// `TCP_KEEPIDLE`, in whole seconds.
    pub keepalive: Option<Duration>,
}

/// One node of a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeConfig {
    /// Where its extent is served.
    pub source: NodeSource,
    /// What its extent must have; for a local one that does not exist yet, what it gets.
    pub size_bytes: Option<u64>,
    /// Which extent it must serve; it is followed to where it announces itself.
    pub extent: Option<ExtentId>,
}

/// Where an extent is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeSource {
    /// On another machine or in another process.
    Remote {
        /// `host:port`; IPv6 in brackets. Not resolved yet.
        address: String,
    },
    /// Inside the gateway's own process.
    Local {
        /// The file or block device.
        path: PathBuf,
        /// Threads that read and write.
        threads: usize,
        /// How system calls reach the file.
        engine: Engine,
        /// Whether the page cache is passed by (`O_DIRECT`).
        direct: bool,
        /// Whether small reads may be answered from a memory mapping.
        mapped: Mapping,
    },
}
