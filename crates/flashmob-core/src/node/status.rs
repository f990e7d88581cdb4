//! What a node tells about itself: counters and stage histograms, for `/status` and `/metrics`.

use super::Node;
use super::link::{LinkId, LinkState};
use crate::counters::counters;
use crate::stages::{NodeInterval, StageHistograms};

counters! {
    /// What a node has counted since its start.
    pub struct NodeCounters {
        batches: "Batches received",
        pieces: "Pieces received",
        fast_reads: "Reads served from the page cache without blocking",
        store_ops as "store_operations": "Operations submitted to the store, after merging",
        read_bytes: "Bytes requested by reads",
        write_bytes as "written_bytes": "Bytes written",
        failures: "Pieces that failed",
        protocol_errors: "Links dropped for protocol errors",
    }
}

/// A node's state at one moment. Counters count from its start.
#[derive(Debug, Clone)]
pub struct NodeStatus {
    /// What it has counted.
    pub counters: NodeCounters,
    /// Pieces waiting in the elevator.
    pub waiting: usize,
    /// Operations in the store.
    pub in_store: usize,
    /// Bytes held of the budget, the most ever held, and the budget.
    pub memory_bytes: (u64, u64, u64),
    /// Each open link.
    pub links: Vec<LinkStatus>,
}

/// One link's state at one moment.
#[derive(Debug, Clone)]
pub struct LinkStatus {
    /// Which link.
    pub link: LinkId,
    /// Whether batches are served on it.
    pub ready: bool,
    /// Pieces taken and not yet answered.
    pub pieces_in_hand: usize,
    /// Pieces answered.
    pub pieces_served: u64,
    /// Frames received.
    pub frames_received: u64,
    /// Bytes that wait for the socket.
    pub out_bytes: usize,
}

impl Node {
    /// Batches received since the start: whether anybody wants anything, at no cost.
    #[must_use]
    pub fn batches_received(&self) -> u64 {
        self.counters.batches
    }

    /// The state now.
    #[must_use]
    pub fn status(&self) -> NodeStatus {
        let links = self
            .links
            .iter()
            .filter(|(_, l)| l.is_open())
            .map(|(id, l)| LinkStatus {
                link: LinkId(id),
                ready: matches!(l.state, LinkState::Ready),
                pieces_in_hand: l.pieces_in_hand,
                pieces_served: l.pieces_served,
                frames_received: l.frames_received,
                out_bytes: l.out.len(),
            })
            .collect();
        NodeStatus {
            counters: self.counters,
            waiting: self.elevator.len(),
            in_store: self.in_store.len(),
            memory_bytes: (self.budget.used_bytes(), self.budget.peak_bytes(), self.budget.limit_bytes()),
            links,
        }
    }

    /// How long pieces took from stage to stage.
    #[must_use]
    pub fn stages(&mut self) -> &StageHistograms<NodeInterval> {
        self.stages.histograms()
    }
}
