//! The node with the only current copies dies while others lack something, and somebody accepts the loss.
//!
//! A chunk may hold older bytes then: a copy that fell behind had everything that was acknowledged or read before, so a write that was superseded by that time
//! stays so. Whatever came later may be lost, and may have reached that copy in part. So a run has to know what the map's file says: which copy is
//! current now, where before only others were. No device loses power in such a run.

use std::time::Duration;

use flashmob_core::copies::{MapImage, Marks, replay};
use flashmob_core::units::Time;
use rand::Rng;
use rand::rngs::SmallRng;

use super::fault::Fault;
use super::oracle::Stamp;
use super::remount::Stop;
use super::scenario::{Scenario, pick};
use super::{Event, World};

/// How often somebody looks whether the loss can be accepted.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Copies that are behind. Only in runs in which a loss is accepted.
#[derive(Debug)]
pub(super) struct Behind {
    /// By chunk and copy: since when it has been behind.
    since: Vec<Vec<Option<Stamp>>>,
    /// By chunk: the marks in the map's file.
    durable: Vec<Marks>,
    /// By chunk: when a loss was accepted last.
    accepted: Vec<Option<Time>>,
    /// When that was decided last, durably or not.
    decided: Stamp,
}

fn all_marks(image: &MapImage) -> Vec<Marks> {
    (0..image.chunks()).map(|chunk| image.marks(chunk)).collect()
}

impl Behind {
    pub fn new(scenario: &Scenario) -> Option<Behind> {
        let is_drawn = scenario.faults.iter().any(|(_, fault)| matches!(fault, Fault::LastCopy(..)));
        let image = scenario.new_map().filter(|_| is_drawn)?;
        let durable = all_marks(&image);
        let chunks = durable.len();
        Some(Behind {
            since: vec![vec![None; image.copies()]; chunks],
            durable,
            accepted: vec![None; chunks],
            decided: Stamp::MAX,
        })
    }
}

/// Draws when a node dies with the only current copies, if all other faults lose nothing, which few runs have: a generator that draws whether it does
/// would make it rare.
pub(super) fn draw(rng: &mut SmallRng, scenario: &mut Scenario) {
    let Some(plan) = scenario.copies.as_ref().filter(|plan| plan.copies > 1) else { return };
    if plan.lease.is_some() || plan.growth > 0 || !plan.spares.is_empty() {
        return;
    }
    let loses_nothing = |(_, fault): &(Duration, Fault)| {
        use Fault::{Balance, ClientCut, Cut, Doze, Drain, Freeze, GatewayRestart, GatewayStall, HalfOpen, Kill};
        use Fault::{MapFull, MapSlow, Measure, Pause, Scrub, SlowFlush, Stall, StoreStall, StuckFlush};
        matches!(
            fault,
            Balance
                | ClientCut(_)
                | Cut(_)
                | Doze(..)
                | Drain(..)
                | Freeze(..)
                | GatewayRestart(_)
                | GatewayStall(_)
                | HalfOpen(..)
                | Kill(..)
                | MapFull(_)
                | MapSlow(_)
                | Measure(..)
                | Pause(..)
                | Scrub
                | SlowFlush(..)
                | Stall(..)
                | StoreStall(..)
                | StuckFlush(..)
        )
    };
    if !scenario.faults.iter().all(loses_nothing) {
        return;
    }
    let (copies, evict_after, settle_after) = (plan.copies, plan.evict_after, plan.settle_after);
    scenario.victims.clear();
    // Ten times that long a node has to be away before it is given up.
    let evict_after = evict_after.min(Duration::from_millis(150));
    if let Some(plan) = &mut scenario.copies {
        plan.evict_after = evict_after;
    }
    let nodes = scenario.extents_bytes.len();
    let dies = rng.random_range(0..nodes);
    let begins = scenario.span.mul_f64(rng.random_range(0.1..0.5));
    let lasts = evict_after.mul_f64(rng.random_range(1.5..6.0)) + settle_after.mul_f64(rng.random_range(0.0..1.0));
    let dies_at = begins + lasts;
    // The others of some chunks are away meanwhile, and are back about when it dies.
    let mut others: Vec<usize> = (0..nodes).filter(|&node| node != dies).collect();
    while others.len() > 1 && others.len() + 1 > copies && rng.random_bool(0.5) {
        others.remove(rng.random_range(0..others.len()));
    }
    for node in others {
        let back = Duration::from_micros(rng.random_range(0..60_000));
        let begins = begins.mul_f64(rng.random_range(0.8..1.0));
        let lasts = dies_at + back - begins;
        let fault = if rng.random() { Fault::Kill(node, lasts) } else { Fault::Freeze(node, lasts) };
        scenario.faults.push((begins, fault));
    }
    // It is gone for good, or somebody was wrong.
    let comes_back = evict_after * 10 + Duration::from_micros(rng.random_range(0..2_000_000));
    let away = if rng.random_bool(0.5) { Duration::MAX } else { comes_back };
    scenario.faults.push((dies_at, Fault::LastCopy(dies, away)));
    let accepted_at = dies_at + evict_after * 10;
    if rng.random_ratio(1, 2) {
        let near = Duration::from_micros(rng.random_range(0..200_000));
        let down = Duration::from_micros(rng.random_range(100..50_000));
        scenario.faults.push((accepted_at + near, Fault::GatewayRestart(down)));
    }
    let span = accepted_at + Duration::from_millis(*pick(rng, &[200, 1000, 3000]));
    let longer = span.as_secs_f64() / scenario.span.as_secs_f64().max(0.001);
    if longer > 1.0 {
        scenario.span = span;
        for client in &mut scenario.clients {
            client.think_ns = (client.think_ns as f64 * longer) as u64;
            client.requests *= 2;
        }
    }
    if rng.random() {
        scenario.clients.iter_mut().for_each(|client| client.mix = [8, 12, 4, 1, 1]);
    }
}

impl World {
    /// A node's process ends, for so long or for good, and somebody accepts the loss of what it alone had.
    pub(super) fn last_copy_dies(&mut self, node: usize, away: Duration) {
        if self.nodes[node].is_dead || self.is_healed {
            return;
        }
        let is_for_good = away == Duration::MAX;
        let down = if is_for_good { Duration::from_secs(1_000_000) } else { away };
        if self.nodes[node].core.is_none() {
            // It is not started again by what has stopped it.
            self.nodes[node].epoch += 1;
            let epoch = self.nodes[node].epoch;
            self.disturb(node, self.ctx.now + down);
            self.ctx.at(self.ctx.now + down, Event::StartNode { node, epoch });
        } else {
            self.stop_node(node, down, Stop::Killed);
        }
        self.nodes[node].is_dead = is_for_good;
        self.ctx.at(self.ctx.now + LOOK_EVERY, Event::AcceptLoss { node });
    }

    /// Somebody accepts the loss, if that is possible. A gateway that is killed may have forgotten it, so that is asked for again.
    pub(super) fn accept_loss(&mut self, node: usize) {
        let now = self.ctx.now;
        if let Some(core) = &mut self.gateway.core
            && core.accept_loss(now, 0, &[node], false).is_ok()
        {
            if let Some(behind) = &mut self.behind {
                behind.decided = self.oracle.moment();
            }
            self.wake_gateway();
            let longest_ns = self.scenario.copies.as_ref().map_or(1, |plan| plan.commit_ns.max(1));
            if !self.is_healed && self.ctx.rng.random_ratio(1, 4) {
                // Before it is durable, or soon after.
                let soon = Duration::from_nanos(self.ctx.rng.random_range(0..longest_ns * 3));
                self.ctx.at(now + soon, Event::KillGateway);
            }
        }
        self.ctx.at(now + LOOK_EVERY, Event::AcceptLoss { node });
    }

    /// The gateway may have decided that copies are behind.
    pub(super) fn note_behind(&mut self) {
        let Some(behind) = &mut self.behind else { return };
        let Some(image) = self.gateway.core.as_ref().and_then(|core| core.map(0)) else { return };
        for (since, marks) in behind.since.iter_mut().zip(all_marks(image)) {
            for (copy, since) in since.iter_mut().enumerate() {
                if marks.behind & (1 << copy) != 0 && since.is_none() {
                    *since = Some(self.oracle.moment());
                }
            }
        }
    }

    /// The map's file has changed, or a gateway has read it: a copy that was behind may be current where only others were.
    pub(super) fn note_accepted(&mut self) {
        let (Some(behind), Ok(replayed)) = (&mut self.behind, replay(self.map.bytes())) else { return };
        let image = replayed.image;
        let all = (1u8 << image.copies()) - 1;
        let mut accepted = Vec::new();
        for (chunk, marks) in (0u32..).zip(all_marks(&image)) {
            let at = chunk as usize;
            let before = std::mem::replace(&mut behind.durable[at], marks);
            let (had, have) = (all & !before.behind, all & !marks.behind);
            if had & have == 0 {
                accepted.push((chunk, have));
                continue;
            }
            let current = behind.since[at].iter_mut().enumerate().filter(|(copy, _)| have & (1 << copy) != 0);
            current.for_each(|(_, since)| *since = None);
        }
        for (chunk, have) in accepted {
            self.loss_accepted(&image, chunk, have);
        }
    }

    fn loss_accepted(&mut self, image: &MapImage, chunk: u32, have: u8) {
        let (at, chunk_bytes) = (chunk as usize, image.chunk_bytes() as usize);
        let copies: Vec<usize> = (0..image.copies()).filter(|copy| have & (1 << copy) != 0).collect();
        let Some(behind) = &mut self.behind else { return };
        behind.accepted[at] = Some(self.ctx.now);
        let decided = behind.decided;
        let since = copies.iter().map(|&copy| behind.since[at][copy].take().unwrap_or(0)).min().unwrap_or(0);
        let places = copies.iter().filter_map(|&copy| image.places(chunk).get(copy));
        let bytes: Vec<&[u8]> = places
            .map(|place| {
                let from = place.slot as usize * chunk_bytes;
                &self.nodes[usize::from(place.member)].store.live()[from..from + chunk_bytes]
            })
            .collect();
        self.oracle.loss_accepted(at, (since, decided), &bytes);
        self.ctx.totals.accepted += 1;
    }

    /// Whether a request for a chunk was asked for before the loss of that was accepted.
    pub(super) fn is_before_acceptance(&self, chunk: u32, asked: Time) -> bool {
        let accepted = self.behind.as_ref().and_then(|behind| *behind.accepted.get(chunk as usize)?);
        accepted.is_some_and(|accepted| asked <= accepted)
    }

    /// Whether each chunk has a copy that may be current on a node that is not dead.
    pub(super) fn is_loss_accepted(&self) -> bool {
        let Some(behind) = &self.behind else { return true };
        let Some(image) = self.gateway.core.as_ref().and_then(|core| core.map(0)) else { return false };
        (0u32..).zip(&behind.durable).all(|(chunk, marks)| {
            let mut places = image.places(chunk).iter().enumerate();
            places
                .any(|(copy, place)| marks.behind & (1 << copy) == 0 && !self.nodes[usize::from(place.member)].is_dead)
        })
    }
}
