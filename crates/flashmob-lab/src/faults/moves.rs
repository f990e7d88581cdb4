//! Somebody has a node drained, changes their mind perhaps, or has the volume balanced.
//!
//! Volumes of which copies move are smaller than their nodes: the extents are enlarged once the volume and its clients are drawn.

use std::collections::BTreeSet;
use std::time::Duration;

use rand::Rng;
use rand::rngs::SmallRng;

use super::fault::Fault;
use super::mapped::InMove;
use super::scenario::{Scenario, pick};
use super::{ClientPlan, Event, World};

/// Draws whether copies move, and how much room there is for that.
pub(super) fn draw_room(rng: &mut SmallRng, scenario: &mut Scenario) {
    let chunks = scenario.new_map().map(|image| image.chunks());
    let Some(plan) = scenario.copies.as_mut().filter(|_| rng.random_ratio(1, 3)) else { return };
    plan.chunks = chunks;
    let most = rng.random_range(1..5);
    for size_bytes in &mut scenario.extents_bytes {
        *size_bytes += plan.chunk_bytes * rng.random_range(1..=most);
    }
}

/// Draws who is drained, and when.
pub(super) fn draw(rng: &mut SmallRng, scenario: &mut Scenario) {
    if scenario.copies.as_ref().is_none_or(|plan| plan.chunks.is_none()) {
        return;
    }
    // All copies lose power beside moves where `blackout::draw_beside_moves` says so; other runs keep their draws.
    if scenario.faults.iter().any(|(_, fault)| matches!(fault, Fault::Blackout(..))) {
        return;
    }
    // Who starts the gateway with another map, or key, does so himself; and one that starts anew knows nothing of flashes that may have lied.
    let is_apart = |fault: &Fault| matches!(fault, Fault::OldMap(..) | Fault::StolenKey(_) | Fault::Lie(..));
    let may_restart = !scenario.faults.iter().any(|(_, fault)| is_apart(fault));
    let in_moves = match rng.random_range(0..3) {
        0 if may_restart => Some(InMove::Kill),
        1 => Some(InMove::Stall),
        _ => None,
    };
    if let Some(plan) = &mut scenario.copies {
        plan.in_moves = in_moves;
        if in_moves == Some(InMove::Kill) {
            plan.commit_ns = plan.commit_ns.max(20_000_000);
        }
    }
    if in_moves == Some(InMove::Stall) {
        scenario.volume.links = scenario.volume.links.max(2);
        // Somebody reads all the time.
        let (requests, depth) = (rng.random_range(200..800), rng.random_range(2..16));
        let think_ns = scenario.span.as_nanos() as u64 / u64::from(requests) * depth as u64 * 2;
        scenario.clients.push(ClientPlan { think_ns, len_max: 64, ..ClientPlan::reader(requests, depth) });
    }
    let span_us = scenario.span.as_micros() as u64;
    // Copies come and go all the time, or now and then.
    let is_restless = rng.random_bool(0.5);
    let count = if is_restless { rng.random_range(8..40) } else { rng.random_range(1..5) };
    for _ in 0..count {
        let at = Duration::from_micros(rng.random_range(0..span_us));
        let node = rng.random_range(0..scenario.extents_bytes.len());
        let longest_us = *pick(rng, &[3_000, 50_000, 1_000_000]);
        let lasts = Duration::from_micros(rng.random_range(1_000..longest_us));
        let fault = match rng.random_range(0..6) {
            0 | 1 => Fault::Balance,
            2 | 3 if !is_restless => Fault::Drain(node, Duration::MAX),
            _ => Fault::Drain(node, lasts),
        };
        scenario.faults.push((at, fault));
        if rng.random_ratio(1, if is_restless { 12 } else { 3 }) && may_restart {
            // In the middle of it.
            let longest_us = *pick(rng, &[2_000, 20_000, 200_000]);
            let soon = Duration::from_micros(rng.random_range(0..longest_us));
            let down = Duration::from_micros(rng.random_range(100..50_000));
            scenario.faults.push((at + soon, Fault::GatewayRestart(down)));
        }
    }
}

impl World {
    /// A node is to have no copies any more; so much later it may have some again.
    pub(super) fn drain(&mut self, node: usize, lasts: Duration) {
        let now = self.ctx.now;
        let Some(core) = &mut self.gateway.core else { return };
        let is_drained = core.drain_node(now, 0, node, true, false).is_ok();
        self.wished.insert(node as u16);
        self.wake_gateway();
        if is_drained && lasts < Duration::MAX {
            self.ctx.at(now + lasts, Event::EndDrain { node });
        }
    }

    pub(super) fn end_drain(&mut self, node: usize) {
        let now = self.ctx.now;
        self.wished.insert(node as u16);
        if self.gateway.core.as_mut().is_some_and(|core| core.drain_node(now, 0, node, false, false).is_ok()) {
            self.wake_gateway();
        }
    }

    pub(super) fn balance(&mut self) {
        let now = self.ctx.now;
        if self.gateway.core.as_mut().is_some_and(|core| core.balance(now, 0, true, false).is_ok()) {
            self.wake_gateway();
        }
    }

    /// The gateway records that a copy has moved, which takes so long: something may happen meanwhile, or soon after.
    pub(super) fn strike_in_move(&mut self, takes_ns: u64) {
        let Some(kind) = self.scenario.copies.as_ref().and_then(|plan| plan.in_moves) else { return };
        if self.is_healed || self.ctx.rng.random_ratio(1, 2) {
            return;
        }
        if kind == InMove::Stall {
            for node in 0..self.nodes.len() {
                let lasts =
                    Duration::from_nanos(takes_ns) + Duration::from_micros(self.ctx.rng.random_range(10_000..150_000));
                self.strike(Fault::Stall(node, lasts));
            }
        } else {
            let after_ns = self.ctx.rng.random_range(0..takes_ns * 3 / 2 + 1);
            let (session, lasts) =
                (self.gateway.session, Duration::from_micros(self.ctx.rng.random_range(100..20_000)));
            self.ctx.after(after_ns, Event::KillInMove { session, lasts });
        }
    }

    pub(super) fn killed_in_move(&mut self, session: u64, lasts: Duration) {
        if session == self.gateway.session && !self.is_healed {
            self.restart_gateway(lasts);
        }
    }

    /// Nothing is left in free slots, unless a flash has lost or misplaced something.
    pub(super) fn check_free_slots(&mut self, dead: &[bool]) {
        let loses = self.scenario.faults.iter().any(|(_, fault)| fault.loses_data());
        let Some(image) = self.gateway.core.as_ref().and_then(|core| core.map(0)) else { return };
        if loses || dead.contains(&true) || self.ctx.violation.is_some() {
            return;
        }
        let chunk_bytes = image.chunk_bytes() as usize;
        for (node, state) in self.nodes.iter().enumerate() {
            let member = node as u16;
            // Nobody looks into extents that are not used yet, or no longer.
            if image.is_joining(member) || image.is_gone(member) {
                continue;
            }
            let taken: BTreeSet<u32> =
                image.chunks_of(member).map(|(chunk, copy)| image.places(chunk)[copy].slot).collect();
            for slot in (0..image.slots(member)).filter(|slot| !taken.contains(slot)) {
                let at = slot as usize * chunk_bytes;
                if state.store.live()[at..at + chunk_bytes].iter().any(|&byte| byte != 0) {
                    return self.ctx.fail(format!("slot {slot} of node {node} has no copy, and holds data"));
                }
            }
        }
    }

    /// Whether all is moved that can be.
    pub(super) fn are_moves_done(&self, dead: &[bool]) -> bool {
        let Some(core) = &self.gateway.core else { return false };
        let Some(moves) = core.copies_status(self.ctx.now, 0).map(|status| status.moves) else { return true };
        let Some(image) = core.map(0) else { return true };
        let is_any_dead = dead.contains(&true);
        let leaving = image.leaving().collect();
        let is_full = || moves.stranded > 0 && image.plan(&leaving, false, &BTreeSet::new()).all_stranded() > 0;
        let is_drained = |member: u16| image.copies_on(member) == 0 || is_full();
        moves.left == 0
            && moves.freed == 0
            && (is_any_dead || moves.is_searched)
            && (is_any_dead || (image.leaving().all(is_drained) && !image.is_balancing()))
    }
}
