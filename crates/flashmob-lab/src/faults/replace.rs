//! A node loses its flash, or is started with an empty file, and somebody puts that in the place of its extent. Later the old one may be back
//! for a while: nothing may be read from it.

use std::time::Duration;

use rand::Rng;
use rand::rngs::SmallRng;

use super::fault::Fault;
use super::node::Extent;
use super::remount::Stop;
use super::scenario::Scenario;
use super::{Event, World};

/// How often somebody looks whether the fresh extent can be taken, or is.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Draws whether a node is started with an empty file, unless data is lost otherwise on it. Its device goes on, so that its restart does not
/// show what the old file lacks when that is back; and decisions take long, so that the gateway may be killed before they are durable.
pub(super) fn draw_swap(rng: &mut SmallRng, scenario: &mut Scenario, node: usize) {
    let takes_extent = |fault: &Fault| matches!(fault, Fault::Death(_) | Fault::Replace(..) | Fault::Restore(..));
    if !rng.random_ratio(1, 8) || scenario.faults.iter().any(|(_, fault)| takes_extent(fault)) {
        return;
    }
    if let Some(plan) = &mut scenario.copies {
        plan.commit_ns = 30_000_000;
    }
    let at = Duration::from_micros(rng.random_range(0..scenario.span.as_micros() as u64));
    let lasts = Duration::from_micros(rng.random_range(5_000..100_000));
    scenario.faults.push((at, Fault::Swap(node, lasts)));
}

impl World {
    /// The node's device is gone with its flash, or `is_file`: its process ends. After so long its node is back with an empty extent.
    pub(super) fn lose_flash(&mut self, node: usize, lasts: Duration, is_file: bool) {
        if self.nodes[node].is_dead || self.nodes[node].other.is_some() {
            return;
        }
        self.stop_node(node, lasts, if is_file { Stop::Killed } else { Stop::PowerLost });
        let state = &mut self.nodes[node];
        state.has_files = is_file;
        let mut id = state.extent_id();
        id[15] ^= 0x80;
        let fresh = Extent::empty(id, &state.store);
        let old = state.exchange(fresh);
        state.other = Some(old);
        self.ctx.at(self.ctx.now + lasts, Event::Replace { node });
        if !is_file && self.scenario.change.is_none() && self.ctx.rng.random_bool(0.5) {
            let at = self.ctx.now + lasts * self.ctx.rng.random_range(2..6);
            self.ctx.at(at, Event::SwapExtents { node, is_old: true });
        }
    }

    /// The device is switched off, and its extent copied with its identity. The copy takes its place so much later.
    pub(super) fn back_up(&mut self, node: usize, lasts: Duration) {
        if self.nodes[node].is_dead || self.nodes[node].other.is_some() {
            return;
        }
        // Nobody copies a flash faster than the map is written.
        self.stop_node(node, Duration::from_millis(100), Stop::PowerLost);
        self.nodes[node].backup = Some(self.nodes[node].copy_of_extent());
        self.ctx.at(self.ctx.now + Duration::from_millis(100) + lasts, Event::Restore { node });
    }

    pub(super) fn restore(&mut self, node: usize) {
        let state = &self.nodes[node];
        if state.is_dead || state.other.is_some() || self.is_healed {
            return;
        }
        let down = Duration::from_micros(self.ctx.rng.random_range(1_000..50_000));
        self.stop_node(node, down, Stop::PowerLost);
        self.calm_at = self.calm_at.max(self.ctx.now + down);
        let state = &mut self.nodes[node];
        if let Some(backup) = state.backup.take() {
            state.exchange(backup);
        }
    }

    /// Somebody gives up the node's old extent, unless that is done.
    pub(super) fn replace(&mut self, node: usize) {
        let now = self.ctx.now;
        if !self.is_extent_known(node) {
            if let Some(core) = &mut self.gateway.core
                && !self.nodes[node].has_old
            {
                // It waits until the extent was seen, and until other copies are current.
                let replaced = core.replace_extent(now, 0, node, Some(self.nodes[node].extent_id()), false);
                self.wake_gateway();
                let often = if self.nodes[node].has_files { 3 } else { 1 };
                if replaced.is_ok()
                    && !self.is_healed
                    && self.scenario.change.is_none()
                    && self.ctx.rng.random_ratio(often, 3)
                {
                    // The gateway is killed before, or soon after, that is durable, and the old extent is found again.
                    let longest_ns = self.scenario.copies.as_ref().map_or(1, |plan| plan.commit_ns.max(1));
                    let soon = Duration::from_nanos(self.ctx.rng.random_range(0..longest_ns * 2) / u64::from(often));
                    self.ctx.at(now + soon, Event::KillGateway);
                    self.ctx.at(now + soon, Event::SwapExtents { node, is_old: true });
                }
            }
            self.disturb(node, now + LOOK_EVERY);
        }
        // A gateway that is killed may have forgotten it.
        self.ctx.at(now + LOOK_EVERY, Event::Replace { node });
    }

    /// Whether the node with a name has lost its extent.
    pub(super) fn is_replaced(&self, name: &str) -> bool {
        let node = name.strip_prefix("node").and_then(|number| number.parse::<usize>().ok());
        node.and_then(|node| self.nodes.get(node)).is_some_and(|node| node.other.is_some())
    }

    /// Whether the map has the node's last extent.
    pub(super) fn is_extent_known(&self, node: usize) -> bool {
        let state = &self.nodes[node];
        let mut fresh = state.extent_id();
        fresh[15] ^= if state.has_old { 0x80 } else { 0 };
        let map = self.gateway.core.as_ref().and_then(|core| core.map(0));
        state.is_dead
            || state.other.is_none()
            || map.is_some_and(|map| map.members().get(node).is_some_and(|member| member.extent_id == fresh))
    }

    /// The old extent is back at the node's address, or goes again.
    pub(super) fn swap_extents(&mut self, node: usize, is_old: bool) {
        let state = &self.nodes[node];
        if state.is_dead || state.has_old == is_old || (is_old && self.is_healed) {
            return;
        }
        let down = Duration::from_micros(self.ctx.rng.random_range(1_000..50_000));
        self.stop_node(node, down, if state.has_files { Stop::Killed } else { Stop::PowerLost });
        // The gateway may learn of it only then.
        self.calm_at = self.calm_at.max(self.ctx.now + down);
        let state = &mut self.nodes[node];
        if let Some(other) = state.other.take() {
            let used = state.exchange(other);
            (state.other, state.has_old) = (Some(used), is_old);
        }
        let lasts = Duration::from_micros(self.ctx.rng.random_range(10_000..1_000_000));
        if is_old {
            self.disturb(node, self.ctx.now + lasts);
            self.ctx.at(self.ctx.now + lasts, Event::SwapExtents { node, is_old: false });
        }
    }

    /// Old extents that are back go.
    pub(super) fn old_extents_go(&mut self) {
        for node in 0..self.nodes.len() {
            self.swap_extents(node, false);
        }
    }
}
