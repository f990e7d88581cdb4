//! Somebody pauses a node and has it used again later, or has one measured.
//!
//! A paused node costs redundancy as one that is away does, so only one of those is paused that may fail.

use std::time::Duration;

use flashmob_core::gateway::{Aspect, PauseError};
use rand::Rng;
use rand::rngs::SmallRng;

use super::fault::Fault;
use super::scenario::{Scenario, pick};
use super::{Event, World};

/// How often a pause is asked for that is not granted yet.
const ASK_EVERY: Duration = Duration::from_millis(5);

/// Draws whether a node is paused, and whether one is measured.
pub(super) fn draw(rng: &mut SmallRng, scenario: &mut Scenario) {
    let span_us = scenario.span.as_micros() as u64;
    if rng.random_ratio(1, 6)
        && let Some(&node) = scenario.victims.first()
    {
        for _ in 0..rng.random_range(1..4) {
            let at = Duration::from_micros(rng.random_range(0..span_us));
            let longest_us = *pick(rng, &[20_000, 300_000, 3_000_000]);
            let lasts = Duration::from_micros(rng.random_range(1_000..longest_us));
            scenario.faults.push((at, Fault::Pause(node, lasts)));
        }
    }
    if rng.random_ratio(1, 32) {
        let at = Duration::from_micros(rng.random_range(0..span_us));
        let node = rng.random_range(0..scenario.extents_bytes.len());
        scenario.faults.push((at, Fault::Measure(node, rng.random_bool(0.5))));
    }
}

impl World {
    /// A node is paused, if the gateway lets it, and used again so much later.
    pub(super) fn pause(&mut self, node: usize, lasts: Duration) {
        let now = self.ctx.now;
        let Some(core) = &mut self.gateway.core else { return };
        match core.pause_node(now, 0, node, true) {
            Ok(()) => {
                self.disturb(node, now + lasts);
                self.ctx.at(now + lasts, Event::Resume { node });
            }
            // Others show meanwhile that they are alive.
            Err(PauseError::NotHeard(_)) if lasts > ASK_EVERY && !self.is_healed => {
                self.ctx.at(now + ASK_EVERY, Event::Pause { node, lasts: lasts - ASK_EVERY });
            }
            Err(_) => {}
        }
        self.wake_gateway();
    }

    pub(super) fn resume(&mut self, node: usize) {
        let now = self.ctx.now;
        // Another start of the gateway knows nothing of it.
        if self.gateway.core.as_mut().is_some_and(|core| core.pause_node(now, 0, node, false).is_ok()) {
            self.wake_gateway();
        }
    }

    pub(super) fn measure(&mut self, node: usize, is_flash: bool) {
        let now = self.ctx.now;
        let aspect = if is_flash { Aspect::Flash } else { Aspect::Way };
        if self.gateway.core.as_mut().is_some_and(|core| core.measure_node(now, 0, node, aspect).is_ok()) {
            self.wake_gateway();
        }
    }
}
