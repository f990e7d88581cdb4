//! Syncs of a node fail and leave bytes that its kernel takes for written; then its process alone is started again.
//!
//! The next process must not believe its own syncs before these bytes are gone, and must not be taken for one that lost nothing.

use std::time::Duration;

use flashmob_core::node::FailedSyncs;
use rand::Rng;
use rand::rngs::SmallRng;

use super::fault::Fault;
use super::remount::Stop;
use super::scenario::{Scenario, pick};
use super::{Event, World};

/// Draws whether syncs of one of these nodes fail; not where its flash lies, or a copy of it appears.
pub(super) fn draw(rng: &mut SmallRng, scenario: &mut Scenario, nodes: std::ops::Range<usize>) {
    let is_in_the_way = |fault: &Fault| matches!(fault, Fault::Lie(..) | Fault::Copy(..));
    if !rng.random_ratio(1, 6) || scenario.faults.iter().any(|(_, fault)| is_in_the_way(fault)) {
        return;
    }
    let span_us = scenario.span.as_micros() as u64;
    let at = Duration::from_micros(rng.random_range(0..span_us));
    let longest_us = *pick(rng, &[30_000, 300_000, 2_000_000]);
    let lasts = Duration::from_micros(rng.random_range(1_000..longest_us));
    scenario.faults.push((at, Fault::FailedSyncs(rng.random_range(nodes), lasts)));
}

impl World {
    /// Syncs of a node fail from now on, until its process is started again.
    pub(super) fn syncs_fail(&mut self, node: usize, lasts: Duration) {
        let until = self.ctx.now + lasts;
        self.disturb(node, until + self.scenario.volume.timeout);
        self.calm_at = self.calm_at.max(until);
        self.nodes[node].store.syncs_fail = true;
        self.ctx.at(until, Event::SyncsRecover { node });
    }

    /// Somebody starts the process anew, if that has not happened yet.
    pub(super) fn syncs_recover(&mut self, node: usize) {
        if self.nodes[node].store.syncs_fail {
            let down = Duration::from_micros(self.ctx.rng.random_range(500..20_000));
            self.stop_node(node, down, Stop::Killed);
        }
    }

    /// A process starts, and looks at what the one before has recorded. Returns the start of the device that it shows.
    pub(super) fn reopen_store(&mut self, n: usize, boot_id: [u8; 16]) -> [u8; 16] {
        let node = &mut self.nodes[n];
        let start = node.cache.begin(boot_id, node.start);
        node.start = start;
        let store = &mut node.store;
        (store.syncs_fail, store.is_sync_broken) = (false, false);
        let mut syncs = FailedSyncs::at_start(Some(boot_id), &[store.recorded]);
        let must_drop = syncs.must_drop();
        let changed = if must_drop { store.drop_cached() } else { Vec::new() };
        syncs.note_dropped();
        store.recorded = syncs;
        if must_drop && self.scenario.copies.is_none() {
            let changed: Vec<_> = changed.into_iter().flat_map(|run| self.to_volume(n, run)).collect();
            self.oracle.power_lost(n, &changed);
        }
        syncs.shown_boot_id(start)
    }
}
