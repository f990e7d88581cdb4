//! Somebody adds nodes to the volume, or removes some that have no copies.
//!
//! Nodes that may be added are the last ones of a scenario: the map of a new volume does not have them. The n-th member is always the n-th node.

use std::time::Duration;

use flashmob_core::gateway::NewNode;
use rand::Rng;
use rand::rngs::SmallRng;
use serde::{Deserialize, Serialize};

use super::fault::Fault;
use super::oracle::pattern;
use super::scenario::{Scenario, pick};
use super::{World, mapped};

/// A node that is not in the volume at first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spare {
    /// One of its chunks holds data of somebody else.
    pub holds_data: bool,
}

/// What somebody's data begins with.
const DATA_SEED: u32 = 77;

/// Draws which nodes may be added, and when they are.
pub(super) fn draw(rng: &mut SmallRng, scenario: &mut Scenario) {
    let Some(plan) = scenario.copies.as_mut().filter(|plan| plan.chunks.is_some()) else { return };
    // Those who start the gateway with another map judge by the nodes that the first one has.
    let is_apart =
        |fault: &Fault| matches!(fault, Fault::Blackout(..) | Fault::OldMap(..) | Fault::StolenKey(_) | Fault::Lie(..));
    if scenario.faults.iter().any(|(_, fault)| is_apart(fault)) || rng.random_ratio(1, 2) {
        return;
    }
    let first = scenario.extents_bytes.len();
    for _ in 0..rng.random_range(1..=2) {
        plan.spares.push(Spare { holds_data: rng.random_ratio(1, 3) });
        plan.domains.push(100 + plan.spares.len() as u32);
        scenario.extents_bytes.push(plan.chunk_bytes * rng.random_range(1..5) + *pick(rng, &[0, 0, 512]));
        scenario.slowness.push(1);
        scenario.clocks_ahead_ns.push(rng.random_range(-1_000_000_000..1_000_000_000));
    }
    scenario.local_nodes &= (1 << first) - 1;
    let nodes = scenario.extents_bytes.len();
    let span_us = scenario.span.as_micros() as u64;
    for _ in 0..rng.random_range(1..6) {
        let at = Duration::from_micros(rng.random_range(0..span_us));
        scenario.faults.push((at, Fault::Join(rng.random_ratio(1, 3))));
        if rng.random_ratio(1, 2) {
            // In the middle of it.
            let longest_us = *pick(rng, &[2_000, 20_000, 200_000]);
            let soon = at + Duration::from_micros(rng.random_range(0..longest_us));
            let lasts = Duration::from_micros(rng.random_range(100..50_000));
            let node = rng.random_range(first..nodes);
            let fault = match rng.random_range(0..4) {
                0 => Fault::Cut(node),
                1 => Fault::HalfOpen(node, lasts),
                2 => Fault::Kill(node, lasts),
                _ => Fault::GatewayRestart(lasts),
            };
            scenario.faults.push((soon, fault));
        }
    }
    for _ in 0..rng.random_range(0..4) {
        let at = Duration::from_micros(rng.random_range(0..span_us));
        let node = rng.random_range(0..nodes);
        let longest_us = *pick(rng, &[20_000, 200_000, 1_000_000]);
        if rng.random_bool(0.8) {
            scenario.faults.push((at, Fault::Drain(node, Duration::MAX)));
        }
        for _ in 0..3 {
            let soon = Duration::from_micros(rng.random_range(0..longest_us));
            scenario.faults.push((at + soon, Fault::Remove(node)));
        }
    }
}

impl Scenario {
    /// How many nodes the volume has at first.
    pub(super) fn first_spare(&self) -> usize {
        self.extents_bytes.len() - self.copies.as_ref().map_or(0, |plan| plan.spares.len())
    }

    fn spare(&self, node: usize) -> Option<Spare> {
        self.copies.as_ref()?.spares.get(node.checked_sub(self.first_spare())?).copied()
    }

    /// Where somebody's data is on a node.
    fn foreign(&self, node: usize) -> Option<std::ops::Range<usize>> {
        let chunk_bytes = self.copies.as_ref()?.chunk_bytes as usize;
        self.spare(node).filter(|spare| spare.holds_data)?;
        let chunks = self.extents_bytes[node] as usize / chunk_bytes;
        let at = (self.seed as usize % chunks) * chunk_bytes;
        Some(at..at + chunk_bytes)
    }
}

fn foreign_bytes(len: usize) -> Vec<u8> {
    (0..len as u64).map(|at| pattern(DATA_SEED, at) | 1).collect()
}

impl World {
    /// Puts somebody's data on nodes that are not in the volume.
    pub(super) fn fill_spares(&mut self) {
        for node in 0..self.nodes.len() {
            if let Some(range) = self.scenario.foreign(node) {
                self.nodes[node].store.fill(range.start as u64, &foreign_bytes(range.len()));
            }
        }
    }

    /// The next node is added, or one that is not used is added again, so that it may be overwritten.
    pub(super) fn join(&mut self, overwrites: bool) {
        let now = self.ctx.now;
        let Some(core) = &mut self.gateway.core else { return };
        let Some(image) = core.map(0) else { return };
        let again = (0..image.members().len() as u16).find(|&member| overwrites && image.is_joining(member));
        let node = again.map_or(image.members().len(), usize::from);
        if node >= self.nodes.len() {
            return;
        }
        let new = NewNode {
            address: format!("node{node}"),
            size_bytes: None,
            domain: mapped::domain(&self.scenario, node),
            overwrites,
        };
        let added = core.add_node(now, 0, &new);
        let links = core.links_count();
        match added {
            Ok(_) => {
                self.gateway.links_added(links);
                if overwrites {
                    self.overwritten.insert(node);
                }
            }
            Err(error) => drop(error),
        }
        self.wake_gateway();
    }

    /// A node is removed, if it has no copies.
    pub(super) fn remove(&mut self, node: usize) {
        let now = self.ctx.now;
        let Some(core) = &mut self.gateway.core else { return };
        if core.remove_node(now, 0, node).is_ok() {
            self.ctx.totals.removed += 1;
        }
        self.wake_gateway();
    }

    /// Whether a node is in the volume now.
    pub(super) fn is_member(&self, node: usize) -> bool {
        let image = self.gateway.core.as_ref().and_then(|core| core.map(0));
        image.is_none_or(|image| node < image.members().len() && !image.is_gone(node as u16))
    }

    /// Whether the nodes that were added are used, unless they hold data.
    pub(super) fn have_joined(&self, dead: &[bool]) -> bool {
        let Some(image) = self.gateway.core.as_ref().and_then(|core| core.map(0)) else { return true };
        (self.scenario.first_spare()..image.members().len())
            .all(|node| !image.is_joining(node as u16) || dead[node] || self.scenario.foreign(node).is_some())
    }

    /// Somebody's data is as it was, unless they gave it up.
    pub(super) fn check_foreign(&mut self) {
        for node in self.scenario.first_spare()..self.nodes.len() {
            if let Some(range) = self.scenario.foreign(node).filter(|_| !self.overwritten.contains(&node)) {
                let expected = foreign_bytes(range.len());
                if self.nodes[node].store.live()[range] != expected[..] {
                    return self.ctx.fail(format!("node {node} held data of somebody else, which was overwritten"));
                }
            }
        }
        let Some(image) = self.gateway.core.as_ref().and_then(|core| core.map(0)) else { return };
        let joined = (self.scenario.first_spare()..image.members().len()).filter(|&n| !image.is_joining(n as u16));
        self.ctx.totals.joined += joined.count() as u64;
    }
}
