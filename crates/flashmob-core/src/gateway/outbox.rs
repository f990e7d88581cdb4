//! What the shell is to do, is told, and is answered.

use std::collections::VecDeque;

use super::state::{ClientId, LinkId};
use crate::op::Failure;

/// Something for the shell to do or to tell.
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
    /// Write what is queued, then close this client's connection. With a reason if the client is to blame.
    CloseClient(ClientId, Option<String>),
    /// Keep in mind, beyond this start, that this node serves this extent: see [`GatewayConfig::extent_ids`](super::GatewayConfig::extent_ids).
    Remember {
        /// Which node, counted over all volumes.
        node: usize,
        /// Which extent.
        extent_id: [u8; 16],
    },
    /// Something that an operator wants to know.
    Tell(Event),
}

/// Something that an operator wants to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A volume can be used from now on: its name, bytes, nodes.
    VolumeReady(String, u64, usize),
    /// Every node of a volume has a link: its name.
    VolumeLinked(String),
    /// A node's first link is up.
    NodeUp {
        /// Its name.
        name: String,
        /// It runs without I/O.
        no_io: bool,
        /// It answers as slowly as a modelled flash.
        modelled: bool,
    },
    /// A node has no link, or no longer: its name, why.
    NodeDown(String, String),
    /// A node tells that limits of its device are crossed: its name, which and what helps.
    NodeAils(String, String),
    /// None is any more: its name.
    NodeWell(String),
    /// A node did nothing for a while, and tells so: its name, how long and why.
    NodePaused(String, String),
    /// A node, or this gateway, found that it is the wrong one: its name, why and what to do.
    NodeRefused(String, String),
    /// A node's device restarted with changes that were acknowledged but not flushed: its name.
    ChangesLost(String),
    /// So many requests of a volume failed because they took too long.
    TimedOut(String, usize),
    /// So many requests failed early: their nodes do not answer, and others needed the memory.
    GaveWay(usize),
}

/// A finished call of a native client.
#[derive(Debug)]
pub struct Completion {
    /// Whose call.
    pub client: ClientId,
    /// What the client calls it.
    pub cookie: u64,
    /// What was read (empty for other operations), or why it failed.
    pub result: Result<Vec<u8>, Failure>,
}

/// All of it that the shell has not taken.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    actions: VecDeque<Action>,
    pub completions: Vec<Completion>,
}

impl Outbox {
    pub fn push(&mut self, action: Action) {
        self.actions.push_back(action);
    }

    pub fn tell(&mut self, event: Event) {
        self.push(Action::Tell(event));
    }

    pub fn pop(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }
}
