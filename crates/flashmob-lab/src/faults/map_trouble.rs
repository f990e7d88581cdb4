//! The disk under the map is full for a while, or slow.
//!
//! While decisions cannot be recorded, changes that need one fail or wait; reads go on, nothing is lost, and nothing waits for ever once the disk
//! has room again.

use std::time::Duration;

use flashmob_core::op::{Failure, Op};
use flashmob_core::units::Time;
use rand::Rng;
use rand::rngs::SmallRng;

use super::fault::Fault;
use super::scenario::{Scenario, pick};
use super::{Event, World};

/// How long after the end its effects may last: the gateway tries again after a second.
const AFTERMATH: Duration = Duration::from_millis(2500);
/// The longest that an append takes while the disk is slow.
const SLOW_COMMIT: Duration = Duration::from_secs(3);

/// What the disk under the map suffers from.
#[derive(Debug, Default)]
pub(super) struct MapTrouble {
    full_until: Time,
    slow_until: Time,
    /// When it began first.
    since: Option<Time>,
}

/// Draws whether the disk under the map is full, or slow. Not where data is lost: a node whose welcome cannot be recorded for long falls behind,
/// so that the copy that is left may be the one that loses it.
pub(super) fn draw(rng: &mut SmallRng, scenario: &mut Scenario) {
    let is_lossy = scenario.faults.iter().any(|(_, fault)| fault.loses_data());
    if !rng.random_ratio(1, 6) || is_lossy {
        return;
    }
    let span_us = scenario.span.as_micros() as u64;
    for _ in 0..rng.random_range(1..3) {
        let at = Duration::from_micros(rng.random_range(0..span_us));
        let longest_us = *pick(rng, &[20_000, 300_000, 2_000_000]);
        let lasts = Duration::from_micros(rng.random_range(5_000..longest_us));
        let is_full = rng.random_ratio(2, 3);
        scenario.faults.push((at, if is_full { Fault::MapFull(lasts) } else { Fault::MapSlow(lasts) }));
    }
}

impl World {
    pub(super) fn map_suffers(&mut self, is_full: bool, lasts: Duration) {
        let (now, trouble) = (self.ctx.now, &mut self.map_trouble);
        trouble.since.get_or_insert(now);
        let until = if is_full { &mut trouble.full_until } else { &mut trouble.slow_until };
        *until = (*until).max(now + lasts);
        self.calm_at = self.calm_at.max(now + lasts);
    }

    /// The disk has room, and is fast.
    pub(super) fn map_recovers(&mut self) {
        let (now, trouble) = (self.ctx.now, &mut self.map_trouble);
        trouble.full_until = trouble.full_until.min(now);
        trouble.slow_until = trouble.slow_until.min(now);
    }

    pub(super) fn is_map_full(&self) -> bool {
        self.ctx.now < self.map_trouble.full_until
    }

    /// How much longer an append takes, in nanoseconds.
    pub(super) fn map_delay_ns(&mut self) -> u64 {
        if self.ctx.now >= self.map_trouble.slow_until {
            return 0;
        }
        self.ctx.rng.random_range(0..SLOW_COMMIT.as_nanos() as u64)
    }

    /// A gateway that cannot record its start does not begin: it is started again later. True if it was put off.
    pub(super) fn is_start_put_off(&mut self) -> bool {
        let until = self.map_trouble.full_until;
        let is_full = self.is_map_full();
        if is_full {
            self.ctx.at(until, Event::StartGateway);
        }
        is_full
    }

    /// An append fails: what it was to leave may be in the file all the same, whole or in part.
    pub(super) fn commit_fails(&mut self, number: u64) {
        if let Some(core) = &mut self.gateway.core {
            core.committed(self.ctx.now, 0, number, Err(Failure::NoSpace));
            self.wake_gateway();
        }
    }

    /// Whether a request that was asked for then may fail because decisions cannot be recorded. Reads may not, unless a node was away, or its copies were
    /// declared behind though it was there: a read waits with a change of its bytes.
    pub(super) fn is_map_to_blame(&self, op: Op, asked: Time) -> bool {
        let trouble = &self.map_trouble;
        let until = trouble.full_until.max(trouble.slow_until + SLOW_COMMIT) + AFTERMATH;
        let falls_behind = |fault: &Fault| matches!(fault, Fault::Latent(..) | Fault::Pause(..) | Fault::Resync(_));
        let is_of_nodes = (0..self.nodes.len()).any(|n| self.is_excused(n, asked))
            || self.scenario.faults.iter().any(|(_, fault)| falls_behind(fault));
        let needs_it = op.mutates() || op == Op::Flush || is_of_nodes;
        needs_it && trouble.since.is_some_and(|since| since <= self.ctx.now) && asked < until
    }
}
