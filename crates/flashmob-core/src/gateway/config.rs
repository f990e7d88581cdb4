//! Configuration. Each struct has a constructor with the defaults, to be changed by struct update.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::copies::CopiesSpec;
use crate::layout::LayoutKind;
use crate::units::MIB;

/// How many pieces travel together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum BatchMode {
    /// All pieces that gathered while earlier batches were out.
    Auto,
    /// At most this many, as P1 does (k = 1, 10, 100).
    Fixed(u16),
}

/// One extent of a volume, as the gateway expects it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExtentSpec {
    /// The node's name in messages: an address or a path.
    pub name: String,
    /// The required size in bytes; `None` accepts the node's.
    pub size_bytes: Option<u64>,
    /// Whether it is in the gateway's process: see [`LocalExtents`](super::LocalExtents).
    pub is_local: bool,
    /// It was removed from its volume, which has copies: nothing is linked. Its number is not used again.
    pub is_gone: bool,
}

impl ExtentSpec {
    /// An extent behind a link, of any size.
    pub fn new(name: impl Into<String>) -> ExtentSpec {
        ExtentSpec { name: name.into(), size_bytes: None, is_local: false, is_gone: false }
    }
}

/// One volume, as configured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeSpec {
    /// The export's name.
    pub name: String,
    /// The identity that nodes remember.
    pub id: String,
    /// Its description for clients.
    pub description: String,
    /// Whether changes are refused.
    pub read_only: bool,
    /// How extents make up the volume.
    pub layout: LayoutKind,
    /// How many pieces travel together.
    pub batch: BatchMode,
    /// Most bytes of payload of a batch, each way.
    pub batch_bytes: u64,
    /// Links per node (P1's m).
    pub links: u16,
    /// Batches out at once per link.
    pub outstanding_batches: usize,
    /// How long a request may take before it fails.
    pub timeout: Duration,
    /// Timeout of a connection attempt, and of the welcome after it.
    pub connect_timeout: Duration,
    /// Pause after the first failed attempt at a link; it doubles with each attempt.
    pub reconnect_min: Duration,
    /// The longest such pause.
    pub reconnect_max: Duration,
    /// Idle time after which a link that was used within the last second carries a small frame; `None`: never.
    pub keep_awake: Option<Duration>,
    /// The volume's copies, if it has them: the layout is [`LayoutKind::Mapped`] then, and the extents are the map's members. Not serialized: the map has a
    /// format of its own.
    #[serde(skip)]
    pub copies: Option<Box<CopiesSpec>>,
    /// Its extents in the order of the layout.
    pub extents: Vec<ExtentSpec>,
}

impl VolumeSpec {
    /// A linear volume with the defaults of the configuration file; its identity is its name.
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
            copies: None,
            extents,
        }
    }
}

/// The configuration of a gateway.
#[derive(Debug, Clone)]
pub struct GatewayConfig {
    /// Identity of the gateway, the same after a restart.
    pub id: [u8; 16],
    /// Number of this start: larger than all earlier ones.
    pub session: u64,
    /// Most bytes of requests and replies held at once.
    pub memory_bytes: u64,
    /// Most NBD clients at once.
    pub clients_max: usize,
    /// Random seed of the jitter of reconnects.
    pub seed: u64,
    /// Whether it records what nodes did each second: [`Gateway::live_since`](super::Gateway::live_since). That takes a tenth of `memory_bytes` at most, for up to some ten thousand nodes.
    pub keeps_live: bool,
    /// Its volumes.
    pub volumes: Vec<VolumeSpec>,
    /// The extents that nodes served before, by node, counted over all volumes; missing ones are learnt. Another extent is refused: an
    /// empty one would read as zeros.
    pub extent_ids: Vec<Option<[u8; 16]>>,
    /// The configuration, as commands that messages advise name it.
    pub config_name: String,
}

impl GatewayConfig {
    /// A gateway with the defaults of the configuration file, no known extents, and its session as random seed.
    pub fn new(id: [u8; 16], session: u64, volumes: Vec<VolumeSpec>) -> GatewayConfig {
        GatewayConfig {
            id,
            session,
            memory_bytes: 128 * MIB,
            clients_max: 64,
            seed: session,
            keeps_live: false,
            volumes,
            extent_ids: Vec::new(),
            config_name: "CONFIG".to_string(),
        }
    }
}
