//! A configuration that has been checked: plain data, every default filled in.

use crate::etcd::Tls;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

pub use flashmob_core::gateway::BatchMode as Batch;
pub use flashmob_core::layout::LayoutKind;

pub use crate::net::{ListenAddr as Listen, Sizing};
pub use crate::store::ExtentId;
pub use crate::store::{Engine, Mapping};

/// The configuration of a gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Where NBD clients connect; at least one.
    pub listen: Vec<Listen>,
    /// Where `/metrics` and `/status` are served, if anywhere.
    pub admin: Option<SocketAddr>,
    /// Names by which it may be reached, besides addresses and the machine's own name.
    pub admin_hosts: Vec<String>,
    /// The folder with the keys of the cluster, if it has keys.
    pub keys: Option<PathBuf>,
    /// Where the maps are, and which gateway is in charge, if not in files.
    pub etcd: Option<EtcdConfig>,
    /// NBD clients at once.
    pub connections: usize,
    /// Maximum time of busy polling before the loop sleeps, in microseconds; 0: none.
    pub busy_poll_us: u64,
    /// One request in this many is followed through all stages; 0: none.
    pub trace_one_in: u64,
    /// Bytes of requests and replies held at once, all clients together.
    pub memory_bytes: u64,
    /// The gateway's name towards nodes; `None` leaves it to the caller.
    pub name: Option<String>,
    /// The volumes, at least one, their names and identities all different.
    pub volumes: Vec<VolumeConfig>,
}

/// The etcd that keeps the maps of all volumes, and who is in charge of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EtcdConfig {
    /// Its members, or some: `HOST:PORT`; at least one.
    pub endpoints: Vec<String>,
    /// The files for TLS; `None` without.
    pub tls: Option<Tls>,
    /// What its keys begin with.
    pub prefix: String,
    /// How long after its end a gateway is replaced.
    pub lease: Duration,
}

/// One volume: its name, the mapping of its addresses to nodes, and the options of links.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeConfig {
    /// The name of the export; 1 to 255 bytes, printable.
    pub name: String,
    /// The id that nodes record as their volume; by default the name.
    pub id: String,
    /// A description, shown by NBD clients.
    pub description: Option<String>,
    /// How the volume's addresses map to its nodes.
    pub layout: LayoutKind,
    /// Its copies, for a mapped layout.
    pub copies: Option<CopiesConfig>,
    /// Whether clients may only read.
    pub read_only: bool,
    /// How many requests travel together (P1's k).
    pub batch: Batch,
    /// Payload bytes that one batch may carry or ask for.
    pub batch_bytes: u64,
    /// TCP connections per node (P1's m).
    pub links: usize,
    /// Batches in flight per link.
    pub outstanding_batches: usize,
    /// How long a request waits for its node before it fails.
    pub timeout: Duration,
    /// How long one attempt to connect may take.
    pub connect_timeout: Duration,
    /// The first pause between attempts to connect; it doubles from there.
    pub reconnect_min: Duration,
    /// The longest pause between attempts to connect; not below the first.
    pub reconnect_max: Duration,
    /// Silence after which a link in use carries a small frame; zero: never.
    pub keep_awake: Duration,
    /// Options of the sockets towards nodes.
    pub socket: SocketConfig,
    /// The nodes in the order of the volume's addresses; at least one.
    pub nodes: Vec<NodeConfig>,
}

/// The copies of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopiesConfig {
    /// Copies of each chunk.
    pub copies: usize,
    /// Size of a new volume in bytes; `None`: as large as the nodes have room for.
    pub size_bytes: Option<u64>,
    /// How many must be current for a change to be acknowledged.
    pub min_current: usize,
    /// How long a node may leave changes unanswered that others have done.
    pub evict_after: Duration,
    /// How often the copies on each node are verified; `None`: never by itself.
    pub scrub: Option<Duration>,
    /// How often all copies are compared; `None`: never by itself.
    pub compare: Option<Duration>,
}

/// Options of a volume's sockets; `None` leaves one to the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SocketConfig {
    /// `SO_SNDBUF` in bytes.
    pub send_buffer_bytes: Option<u64>,
    /// `SO_RCVBUF` in bytes.
    pub receive_buffer_bytes: Option<u64>,
    /// How buffers without a configured size are sized.
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
    /// The size that its extent must have, or that a new local extent gets.
    pub size_bytes: Option<u64>,
    /// The extent that it must serve; the gateway follows its announcements.
    pub extent: Option<ExtentId>,
    /// What it may fail together with; no two copies of a chunk share one. Without it, the node fails alone.
    pub domain: Option<String>,
    /// It was removed from the volume, whose map has its number: it is no node any more. Never so in a configuration file.
    pub is_gone: bool,
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
        /// Whether to bypass the page cache (`O_DIRECT`).
        direct: bool,
        /// Whether small reads may be answered from a memory mapping.
        mapped: Mapping,
    },
}

impl NodeSource {
    /// How messages call the node: its address, or its path.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            NodeSource::Remote { address } => address.clone(),
            NodeSource::Local { path, .. } => path.display().to_string(),
        }
    }
}

/// The form of a volume's id in names of files.
#[must_use]
pub fn file_name_of(id: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
    id.chars().map(plain).take(100).collect()
}
