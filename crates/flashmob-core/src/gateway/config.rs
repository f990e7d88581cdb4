//! What a gateway is told when it is made. Each struct has a constructor with the product's defaults, to be changed by struct
//! update: a new field then concerns only whoever cares for it.

use std::time::Duration;

use crate::layout::LayoutKind;
use crate::units::MIB;

/// How many pieces travel together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchMode {
    /// Everything that gathered while earlier batches were out.
    Auto,
    /// At most so many, as P1 does (k = 1, 10, 100).
    Fixed(u16),
}

/// One extent of a volume, as the gateway expects it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtentSpec {
    /// What messages call its node: an address or a path.
    pub name: String,
    /// The size that it must have, in bytes; `None` takes what the node has.
    pub size_bytes: Option<u64>,
    /// It is in the gateway's own process: see [`LocalExtents`].
    pub is_local: bool,
}

impl ExtentSpec {
    /// An extent behind a link, of whatever size its node says.
    pub fn new(name: impl Into<String>) -> ExtentSpec {
        ExtentSpec { name: name.into(), size_bytes: None, is_local: false }
    }
}

/// One volume, as configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeSpec {
    /// The export's name.
    pub name: String,
    /// The identity that nodes remember.
    pub id: String,
    /// For people.
    pub description: String,
    /// Refuse everything that changes it.
    pub read_only: bool,
    /// How extents make up the volume.
    pub layout: LayoutKind,
    /// How many pieces travel together.
    pub batch: BatchMode,
    /// Most bytes of payload that a batch brings or asks for.
    pub batch_bytes: u64,
    /// Links per node (P1's m).
    pub links: u16,
    /// Batches out at once per link.
    pub outstanding_batches: usize,
    /// How long a request may take before it fails.
    pub timeout: Duration,
    /// How long a connection, and then a welcome, may take.
    pub connect_timeout: Duration,
    /// Pause after the first failed attempt at a link; it doubles from attempt to attempt.
    pub reconnect_min: Duration,
    /// The longest such pause.
    pub reconnect_max: Duration,
    /// On a link that was used within the last second, a small frame goes when nothing moved for so long; `None`: never.
    pub keep_awake: Option<Duration>,
    /// Its extents in the order of the layout.
    pub extents: Vec<ExtentSpec>,
}

impl VolumeSpec {
    /// A linear volume with the defaults of the configuration file, its identity the same as its name.
    pub fn new(name: impl Into<String>, extents: Vec<ExtentSpec>) -> VolumeSpec {
        let name = name.into();
        VolumeSpec {
            id: name.clone(),
            name,
            description: String::new(),
            read_only: false,
            layout: LayoutKind::Linear,
            batch: BatchMode::Auto,
            batch_bytes: MIB,
            links: 1,
            outstanding_batches: 2,
            timeout: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(3),
            reconnect_min: Duration::from_millis(50),
            reconnect_max: Duration::from_secs(2),
            keep_awake: Some(Duration::from_millis(75)),
            extents,
        }
    }
}

/// What a gateway is told when it is made.
#[derive(Debug, Clone)]
pub struct GatewayConfig {
    /// Which gateway this is, across its restarts.
    pub id: [u8; 16],
    /// Which start of it: larger than all earlier ones.
    pub session: u64,
    /// Most bytes of requests and replies held at once.
    pub memory_bytes: u64,
    /// Most NBD clients at once.
    pub clients_max: usize,
    /// Where the jitter of reconnects comes from.
    pub seed: u64,
    /// Its volumes.
    pub volumes: Vec<VolumeSpec>,
    /// The extents that nodes are known to serve from earlier starts, by node, counted over all volumes; missing ones
    /// are learnt. An empty extent in the place of a known one would read as zeros, so it is refused.
    pub extent_ids: Vec<Option<[u8; 16]>>,
}

impl GatewayConfig {
    /// A gateway with the defaults of the configuration file that remembers no extent; its session is its random seed.
    pub fn new(id: [u8; 16], session: u64, volumes: Vec<VolumeSpec>) -> GatewayConfig {
        GatewayConfig {
            id,
            session,
            memory_bytes: 128 * MIB,
            clients_max: 64,
            seed: session,
            volumes,
            extent_ids: Vec::new(),
        }
    }
}
