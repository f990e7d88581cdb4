//! Flushes that take long, with a store that makes progress or without.
//!
//! While it makes progress, nobody may be put out for it, and no flush may fail, however long it takes.

use std::time::Duration;

use flashmob_core::gateway::FLUSH_TIMEOUTS_MAX;
use flashmob_core::node::PROGRESS_EVERY;
use rand::Rng;
use rand::rngs::SmallRng;

use super::fault::Fault;
use super::scenario::{Scenario, pick};
use super::{Event, World};

/// Nodes are given up after four times as long as passes between two reports of progress, or later.
const EVICT_AFTER_MIN: Duration = Duration::from_millis(400);
/// Requests that wait until a flush beside them turns out to be slow have time for that.
const TIMEOUT_MIN: Duration = Duration::from_secs(1);

/// Draws whether flushes take long: now and then, and more often where nothing else happens.
pub(super) fn draw(rng: &mut SmallRng, scenario: &mut Scenario) {
    let is_calm = scenario.faults.is_empty();
    if !rng.random_ratio(if is_calm { 4 } else { 1 }, 12) {
        return;
    }
    let volume = &mut scenario.volume;
    volume.timeout = volume.timeout.max(TIMEOUT_MIN);
    if let Some(plan) = &mut scenario.copies {
        plan.evict_after = plan.evict_after.max(EVICT_AFTER_MIN);
        volume.timeout = volume.timeout.max(plan.evict_after * 3 + Duration::from_secs(1));
    }
    // A node that is stuck falls behind: not where others lose data. A copy of its extent would be taken for it, see `draw_copy`.
    let forbids = |fault: &Fault| fault.loses_data() || matches!(fault, Fault::Copy(..));
    let may_be_stuck = !is_calm && !scenario.faults.iter().any(|(_, fault)| forbids(fault));
    let span_us = scenario.span.as_micros() as u64;
    for _ in 0..rng.random_range(1..4) {
        let at = Duration::from_micros(rng.random_range(0..span_us));
        let longest_us = *pick(rng, &[600_000, 3_000_000, 12_000_000]);
        let lasts = Duration::from_micros(rng.random_range(100_000..longest_us));
        let lasts = lasts.min(scenario.volume.timeout * (FLUSH_TIMEOUTS_MAX - 2));
        let node = rng.random_range(0..scenario.extents_bytes.len());
        let is_stuck = may_be_stuck && rng.random_bool(0.4);
        let fault = if is_stuck { Fault::StuckFlush(node, lasts) } else { Fault::SlowFlush(node, lasts) };
        scenario.faults.push((at, fault));
    }
}

impl World {
    /// Flushes that a node begins from now on end after that time, not earlier.
    pub(super) fn flushes_are_slow(&mut self, node: usize, lasts: Duration, has_progress: bool) {
        let until = self.ctx.now + lasts;
        self.calm_at = self.calm_at.max(until);
        let slow_until = &mut self.nodes[node].store.flushes_slow_until;
        *slow_until = until.max(*slow_until);
        if has_progress {
            self.ctx.at(self.ctx.now + PROGRESS_EVERY, Event::StoreProgress { node });
        } else {
            self.disturb(node, until);
        }
    }

    /// The store of a node makes progress with flushes that are slow.
    pub(super) fn store_progresses(&mut self, node: usize) {
        let store = &self.nodes[node].store;
        if self.ctx.now >= store.flushes_slow_until {
            return;
        }
        if store.is_flushing() {
            self.nodes[node].has_progress = true;
            self.wake_node(node);
        }
        self.ctx.at(self.ctx.now + PROGRESS_EVERY, Event::StoreProgress { node });
    }
}
