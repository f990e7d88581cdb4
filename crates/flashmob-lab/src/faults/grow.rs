//! Somebody makes the volume larger.
//!
//! The oracle knows from the beginning what may come: zeros behind the volume's end.

use std::time::Duration;

use rand::Rng;
use rand::rngs::SmallRng;

use super::World;
use super::fault::Fault;
use super::scenario::{Scenario, pick};

/// Draws by how much the volume may grow, and when it does.
pub(super) fn draw(rng: &mut SmallRng, scenario: &mut Scenario) {
    // What is lost by all copies together is judged by the chunks that the volume has at first.
    let is_apart =
        |fault: &Fault| matches!(fault, Fault::Blackout(..) | Fault::OldMap(..) | Fault::StolenKey(_) | Fault::Lie(..));
    if scenario.faults.iter().any(|(_, fault)| is_apart(fault)) || rng.random_ratio(1, 2) {
        return;
    }
    let Some(plan) = scenario.copies.as_mut().filter(|plan| plan.chunks.is_some()) else { return };
    plan.growth = rng.random_range(1..8);
    let span_us = scenario.span.as_micros() as u64;
    for _ in 0..rng.random_range(1..6) {
        let at = Duration::from_micros(rng.random_range(0..span_us));
        scenario.faults.push((at, Fault::Grow(*pick(rng, &[1, 1, 2, 4]))));
        if rng.random_ratio(1, 2) {
            // In the middle of it.
            let longest_us = *pick(rng, &[2_000, 20_000, 200_000]);
            let soon = at + Duration::from_micros(rng.random_range(0..longest_us));
            let lasts = Duration::from_micros(rng.random_range(100..50_000));
            scenario.faults.push((soon, Fault::GatewayRestart(lasts)));
        }
    }
}

impl Scenario {
    pub(super) fn growth(&self) -> u32 {
        self.copies.as_ref().map_or(0, |plan| plan.growth)
    }

    pub(super) fn growth_bytes(&self) -> u64 {
        self.copies.as_ref().map_or(0, |plan| u64::from(plan.growth) * plan.chunk_bytes)
    }

    /// By how many chunks a volume of that size has grown.
    pub(super) fn grown_chunks(&self, size_bytes: u64) -> u64 {
        let plan = self.copies.as_ref().filter(|plan| plan.growth > 0);
        plan.map_or(0, |plan| size_bytes.saturating_sub(self.first_bytes()) / plan.chunk_bytes)
    }

    fn first_bytes(&self) -> u64 {
        self.new_map().map_or(0, |image| image.size_bytes())
    }
}

impl World {
    /// The volume gets so many chunks more, if there is room, and the oracle knows of them.
    pub(super) fn grow(&mut self, chunks: u32) {
        let now = self.ctx.now;
        let most_bytes = self.scenario.first_bytes() + self.scenario.growth_bytes();
        let Some(core) = &mut self.gateway.core else { return };
        let Some(image) = core.map(0) else { return };
        let size_bytes = u64::from(image.chunks() + chunks) * image.chunk_bytes();
        if size_bytes <= most_bytes && core.resize(now, 0, size_bytes, false).is_ok() {
            self.wake_gateway();
        }
    }

    /// The volume may have another size for those who use it.
    pub(super) fn note_size(&mut self) {
        let layout = self.gateway.core.as_ref().filter(|_| !self.gateway.is_former).and_then(|core| core.layout(0));
        let Some(size_bytes) = layout.map(|layout| layout.size_bytes()) else { return };
        if self.scenario.growth() > 0 {
            self.note_shrunk(size_bytes);
            if size_bytes != self.size_bytes {
                self.sizes.push((self.ctx.now, size_bytes));
            }
        }
        self.size_bytes = size_bytes;
    }

    /// Whether the volume has or had a size.
    pub(super) fn has_had_size(&self, size_bytes: u64) -> bool {
        if self.scenario.growth() == 0 {
            return size_bytes == self.size_bytes;
        }
        self.sizes.iter().any(|&(_, had)| had == size_bytes) || self.is_for_clients_of_former(size_bytes)
    }

    /// The size of the volume for a client: NBD clients keep to the one that they were told.
    pub(super) fn size_for(&self, client: usize) -> u64 {
        let state = &self.clients[client];
        let is_native = state.is_native() && self.scenario.growth() > 0;
        let layout = self.gateway.core.as_ref().filter(|_| is_native).and_then(|core| core.layout(0));
        match layout {
            Some(layout) => layout.size_bytes(),
            None if is_native || state.size_bytes == 0 => self.size_bytes.min(self.first_size()),
            None => state.size_bytes,
        }
    }

    fn first_size(&self) -> u64 {
        if self.scenario.growth() == 0 { self.size_bytes } else { self.scenario.first_bytes() }
    }

    /// A client that was told an earlier size comes anew.
    pub(super) fn knows_size(&mut self, client: usize) {
        let state = &self.clients[client];
        if !state.is_native() && state.size_bytes != 0 && state.size_bytes != self.size_bytes {
            self.client_leaves(client);
        }
    }
}
