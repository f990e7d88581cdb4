//! Actions, events and completions for the shell.

use std::time::Duration;

use super::state::{ClientId, LinkId};
use crate::op::Failure;

/// An action for the shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Connect this link to node `node` (counted over all volumes), then call
    /// [`Gateway::link_connected`](super::Gateway::link_connected) or [`Gateway::link_closed`](super::Gateway::link_closed).
    Connect {
        /// Which link.
        link: LinkId,
        /// Which node.
        node: usize,
    },
    /// Close this link's connection; the gateway has already forgotten it.
    Disconnect(LinkId),
    /// Write what is queued, then close this client's connection. With a reason if the client caused it.
    CloseClient(ClientId, Option<String>),
    /// Write what is queued, then begin TLS on this client's connection, and call
    /// [`Gateway::client_secured`](super::Gateway::client_secured) when its handshake is over.
    SecureClient(ClientId),
    /// Store durably that this node serves this extent: see [`GatewayConfig::extent_ids`](super::GatewayConfig::extent_ids).
    Remember {
        /// Which node, counted over all volumes.
        node: usize,
        /// Which extent.
        extent_id: [u8; 16],
    },
    /// Append `bytes` to the map of this volume, make that durable, and call [`Gateway::committed`](super::Gateway::committed) with the
    /// number. One such action is out at a time for each volume.
    Commit {
        /// Which volume.
        volume: usize,
        /// The number of the last decision in it.
        number: u64,
        /// A batch of records, or several.
        bytes: Vec<u8>,
        /// They make the whole map, and go to a new file: what was appended last could not be made durable.
        is_whole: bool,
    },
    /// A node says that another gateway is in charge: get its mirror of the map, verify it, and call
    /// [`Gateway::claim_answered`](super::Gateway::claim_answered).
    VerifyClaim {
        /// The node, counted over all volumes.
        node: usize,
        /// How long the node may take.
        within: Duration,
    },
    /// An event for the operator.
    Tell(Event),
}

/// An event for the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A volume is ready: its name, its size in bytes, its number of nodes.
    VolumeReady(String, u64, usize),
    /// A volume with copies has grown, or shrinks: its name, its size in bytes.
    VolumeResized(String, u64),
    /// Every node of a volume has a link: the volume's name.
    VolumeLinked(String),
    /// A node's first link is up.
    NodeUp {
        /// Its name.
        name: String,
        /// It runs without I/O.
        no_io: bool,
        /// It answers at the speed of a modelled flash.
        modelled: bool,
    },
    /// A node has no link: its name and the reason.
    NodeDown(String, String),
    /// A node reports that limits of its device are crossed: its name, which limits and the remedy.
    NodeWarning(String, String),
    /// The owner should know of this: the volume's name.
    VolumeWarning(String, String),
    /// All limits of a node's device are met again: its name.
    NodeRecovered(String),
    /// A node reports that it was paused: its name, how long and why.
    NodePaused(String, String),
    /// A later gateway is in charge of a volume with copies; this one serves it no longer: the node's words.
    Deposed(String),
    /// A node is the wrong one, as it or this gateway found: its name, the reason and the remedy.
    NodeRefused(String, String),
    /// A node's device restarted, or its process after a failed sync, with changes that were acknowledged but not flushed: its name.
    ChangesLost(String),
    /// Requests that failed because they took too long: the volume's name, and how many.
    TimedOut(String, usize),
    /// How many requests failed early because their nodes do not answer and others need the memory.
    GaveWay(usize),
}

/// A finished call of a native client.
#[derive(Debug)]
pub struct Completion {
    /// The caller.
    pub client: ClientId,
    /// The client's name for it.
    pub cookie: u64,
    /// The bytes read (empty for other operations), or why it failed.
    pub result: Result<Vec<u8>, Failure>,
}
