//! A cluster, as its gateway reports it. The command line fills it from `/status` and `/volumes`.

/// What a gateway knows of its volumes and nodes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cluster {
    /// Each volume.
    pub volumes: Vec<Volume>,
}

/// A volume.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Volume {
    /// The export's name.
    pub name: String,
    /// Its copies, if it has them.
    pub copies: Option<Copies>,
    /// Its nodes, in the order of the layout.
    pub nodes: Vec<Node>,
}

/// The copies of a volume.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Copies {
    /// Copies of each chunk, as configured.
    pub wanted: usize,
    /// Current copies of the chunk that has the fewest.
    pub fewest_current: usize,
    /// Bytes of a chunk.
    pub chunk_bytes: u64,
}

/// A node of a volume.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Node {
    /// Its address, or the path of a file in the gateway's own process.
    pub name: String,
    /// `ready`, `connecting`, `waiting` or `refused`.
    pub state: String,
    /// Why it is refused.
    pub refusal: Option<String>,
    /// Size of its extent, once known.
    pub size_bytes: Option<u64>,
    /// Its part in a volume with copies.
    pub member: Option<Member>,
    /// Failures of its device now, in words: `fails flushes`.
    pub fails: Option<String>,
    /// The condition of its device, if it reports one.
    pub condition: Option<Condition>,
}

impl Node {
    /// Whether it serves its extent.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.state == "ready"
    }

    /// The host of its address; `None` for a file in the gateway's own process.
    #[must_use]
    pub fn host(&self) -> Option<&str> {
        let (host, port) = self.name.rsplit_once(':')?;
        port.parse::<u16>().ok().map(|_| host)
    }
}

/// The part of a node in a volume with copies.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Member {
    /// No two copies of a chunk are in one domain.
    pub domain: String,
    /// Copies on it.
    pub copies: u32,
    /// Those of them that lack something.
    pub behind: u32,
    /// Those that are the only current ones of their chunks.
    pub only: u32,
}

/// The condition of a node's device. What it does not report is absent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Condition {
    /// The disk below its extent: equal on all nodes of a disk.
    pub disk: Option<String>,
    /// Charge of the battery, 0 to 100.
    pub battery_percent: Option<u8>,
    /// Whether it is being charged, or fed from outside.
    pub charging: Option<bool>,
    /// The battery is below the node's limit, and not charging.
    pub is_battery_low: bool,
    /// The device is hotter than the node's limit.
    pub is_hot: bool,
    /// Its temperature.
    pub celsius: Option<f64>,
    /// Free bytes for the extent.
    pub free_bytes: Option<u64>,
    /// Bytes of the extent that its file system has not allocated yet.
    pub unallocated_bytes: Option<u64>,
    /// Free space is below the node's limit.
    pub is_space_little: bool,
}
