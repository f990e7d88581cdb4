//! The state of a node for `/status` and `/metrics`: counters and stage histograms.

use super::Node;
use crate::counters::counters;
use crate::stages::{NodeInterval, StageHistograms};

counters! {
    /// Counters of a node since its start.
    pub struct NodeCounters {
        batches: "Batches received",
        pieces: "Pieces received",
        fast_reads: "Reads served from the page cache without blocking",
        fast_writes: "Writes into the page cache by the loop itself, without a thread",
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
    /// Its counters.
    pub counters: NodeCounters,
    /// Pieces waiting in the elevator.
    pub waiting: usize,
    /// Operations in the store.
    pub in_store: usize,
    /// Bytes of the budget that are reserved, the most that ever were, and the budget.
    pub memory_bytes: (u64, u64, u64),
    /// Open links.
    pub links: usize,
}

impl Node {
    /// Batches received since the start: a cheap sign of activity.
    #[must_use]
    pub fn batches_received(&self) -> u64 {
        self.counters.batches
    }

    /// The state now.
    #[must_use]
    pub fn status(&self) -> NodeStatus {
        NodeStatus {
            counters: self.counters,
            waiting: self.elevator.len(),
            in_store: self.in_store.len(),
            memory_bytes: (self.budget.used_bytes(), self.budget.peak_bytes(), self.budget.limit_bytes()),
            links: self.links.iter().filter(|(_, link)| link.is_open()).count(),
        }
    }

    /// Histograms of the time between stages.
    #[must_use]
    pub fn stages(&mut self) -> &StageHistograms<NodeInterval> {
        self.stages.histograms()
    }
}
