//! A flash that confirms flushes that it has not done, and then loses power: what was settled in that time is not there.

use std::time::Duration;

use flashmob_core::units::Time;
use rand::Rng;
use rand::rngs::SmallRng;

use super::World;
use super::fault::Fault;
use super::scenario::Scenario;

/// Draws whether the flash of a node lies. The gateway must not be started anew, as it remembers what was settled lately, and nothing may happen to
/// other nodes: a copy that is not linked when the device is back cannot be compared with.
pub(super) fn draw(rng: &mut SmallRng, scenario: &mut Scenario, node: usize) {
    let is_in_the_way = |fault: &Fault| {
        use Fault::{ClientCut, Cut, Doze, Freeze, HalfOpen, Kill, PowerLoss, Stall, StoreStall};
        match *fault {
            ClientCut(_) => false,
            Cut(at) | Doze(at, _) | Freeze(at, _) | HalfOpen(at, _) | Kill(at, _) => at != node,
            PowerLoss(at, _) | Stall(at, _) | StoreStall(at, _) => at != node,
            _ => true,
        }
    };
    if !rng.random_ratio(1, 2) || scenario.faults.iter().any(|(_, fault)| is_in_the_way(fault)) {
        return;
    }
    let span_us = scenario.span.as_micros() as u64;
    let from = Duration::from_micros(rng.random_range(0..span_us / 2));
    let lasts = Duration::from_micros(rng.random_range(span_us / 8..span_us));
    let at = from + lasts.mul_f64(rng.random_range(0.1..1.0));
    let down = Duration::from_micros(rng.random_range(1_000..300_000));
    scenario.faults.push((from, Fault::Lie(node, lasts)));
    scenario.faults.push((at, Fault::PowerLoss(node, down)));
    if let Some(plan) = &mut scenario.copies {
        plan.settle_after = plan.settle_after.min(Duration::from_millis(20));
    }
}

impl World {
    /// All flashes are honest, and have done what they confirmed.
    pub(super) fn lies_end(&mut self) {
        for node in &mut self.nodes {
            if node.store.lies_until != Time::default() {
                node.store.lies_until = self.ctx.now;
                node.store.write_back();
            }
        }
    }

    /// Whether the gateway has heard of all losses of power behind lies. It learns of one when the node is linked again, which a radio that dozes may put
    /// off.
    pub(super) fn are_lies_known(&self) -> bool {
        let Some(image) = self.gateway.core.as_ref().and_then(|core| core.map(0)) else { return true };
        let is_known = |node: usize| {
            let state = &self.nodes[node];
            let known = image.members().get(node).and_then(|member| member.boot_id);
            state.store.lies_until == Time::default() || state.is_dead || !state.is_start_unseen(known)
        };
        (0..self.nodes.len()).all(is_known)
    }
}
