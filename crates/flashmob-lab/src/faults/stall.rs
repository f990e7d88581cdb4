//! The gateway's loop stands still for a while and goes on, as after SIGSTOP, or on a laptop that was suspended.
//!
//! What arrived meanwhile is read only then. Nobody may be declared behind for it, however long it was.

use std::time::Duration;

use rand::Rng;
use rand::rngs::SmallRng;

use super::fault::Fault;
use super::scenario::{Scenario, pick};
use super::{Event, World};

/// Draws whether the gateway stalls: now and then, and more often where nothing else happens.
pub(super) fn draw(rng: &mut SmallRng, scenario: &mut Scenario) {
    let is_calm = scenario.faults.is_empty();
    if !rng.random_ratio(if is_calm { 4 } else { 1 }, 12) {
        return;
    }
    let volume = &mut scenario.volume;
    if let Some(plan) = scenario.copies.as_mut().filter(|_| is_calm) {
        // A stall breaks links that are being made. Their nodes are back before they are declared behind.
        plan.evict_after += volume.reconnect_max + volume.connect_timeout * 2 + Duration::from_millis(200);
        volume.timeout = volume.timeout.max(plan.evict_after * 3 + Duration::from_secs(1));
    }
    let span_us = scenario.span.as_micros() as u64;
    for _ in 0..rng.random_range(1..5) {
        // Links that are being made break; whoever is not linked then is put out at the first change.
        let first_us = if is_calm { 20_000 } else { 0 };
        let at = Duration::from_micros(rng.random_range(first_us..span_us));
        let longest_us = *pick(rng, &[150_000, 700_000, 10_000_000]);
        let lasts = Duration::from_micros(rng.random_range(100_000..longest_us));
        scenario.faults.push((at, Fault::GatewayStall(lasts)));
    }
}

impl World {
    /// The gateway does nothing for so long. Requests may be late, or fail for it.
    pub(super) fn gateway_stalls(&mut self, lasts: Duration) {
        let until = self.ctx.now + lasts;
        self.gateway.stalled_until = self.gateway.stalled_until.max(until);
        self.calm_at = self.calm_at.max(until);
        if !self.has_only_stalls() {
            (0..self.nodes.len()).for_each(|node| self.disturb(node, until));
        }
    }

    /// The gateway goes on at once.
    pub(super) fn stall_ends(&mut self) {
        let (now, session) = (self.ctx.now, self.gateway.session);
        if self.gateway.stalled_until > now {
            // What was put off is planned for the old end.
            self.gateway.stalled_until = now;
            self.ctx.at(now, Event::GatewayTurn { session });
            self.ctx.at(now, Event::Committed { session });
        }
    }

    /// Whether the gateway stands still now and then.
    pub(super) fn has_stalls(&self) -> bool {
        self.scenario.faults.iter().any(|(_, fault)| matches!(fault, Fault::GatewayStall(_)))
    }

    /// Whether nothing else happens to the cluster but flushes with which stores make progress.
    fn has_only_stalls(&self) -> bool {
        let is_stall = |fault: &Fault| matches!(fault, Fault::GatewayStall(_) | Fault::SlowFlush(..));
        self.scenario.faults.iter().all(|(_, fault)| is_stall(fault)) && self.scenario.slowness.iter().all(|&s| s == 1)
    }

    /// Where the gateway alone stalled, or flushes took long, all copies have stayed current.
    pub(super) fn check_stalls(&mut self, evictions: u64) {
        if evictions > 0 && self.has_only_stalls() {
            let text = "nodes were put out, though only the gateway stood still or flushes made progress";
            self.ctx.fail(format!("{evictions} {text}"));
        }
    }
}
