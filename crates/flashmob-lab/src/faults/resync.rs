//! Somebody has a node's copies made equal to others, though they may be right: they are behind from then on, as those of a node that was put out.
//!
//! That costs redundancy until they are equal again, so it is a node that may fail, where one may lose what it has.

use std::time::Duration;

use rand::Rng;
use rand::rngs::SmallRng;

use super::World;
use super::fault::Fault;
use super::scenario::Scenario;

/// Draws whether that happens, how often, and when. What takes place where the map says that a copy lacks something is left alone.
pub(super) fn draw(rng: &mut SmallRng, scenario: &mut Scenario) {
    let is_drawn = rng.random_ratio(1, 6);
    let is_apart = |fault: &Fault| {
        matches!(fault, Fault::HotBackup(..) | Fault::LastCopy(..) | Fault::MapRot(..) | Fault::RotBehind(_))
    };
    let has_copies = scenario.copies.as_ref().is_some_and(|plan| plan.copies > 1);
    if !is_drawn || !has_copies || scenario.faults.iter().any(|(_, fault)| is_apart(fault)) {
        return;
    }
    let nodes = scenario.extents_bytes.len();
    let is_lossless = !scenario.faults.iter().any(|(_, fault)| fault.loses_data());
    let victim = scenario.victims.first().copied();
    let Some(node) = victim.or_else(|| is_lossless.then(|| rng.random_range(0..nodes))) else { return };
    let span_us = scenario.span.as_micros() as u64;
    for _ in 0..rng.random_range(1..5) {
        let at = Duration::from_micros(rng.random_range(0..span_us));
        scenario.faults.push((at, Fault::Resync(node)));
    }
}

impl World {
    /// Has a node's copies made equal to others, if the gateway does it.
    pub(super) fn resync(&mut self, node: usize) {
        let now = self.ctx.now;
        if self.gateway.core.as_mut().is_some_and(|core| core.resync_node(now, 0, node).is_ok()) {
            self.ctx.totals.faults[Fault::Resync(node).kind()] += 1;
            self.wake_gateway();
        }
    }
}
