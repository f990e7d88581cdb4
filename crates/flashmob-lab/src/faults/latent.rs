//! Blocks have rotted on one copy each, and nobody has read them, when the node with another copy is paused, or has its copies made equal to others.
//!
//! The promise: no block is lost, as the other node has it. Reads of it, and changes of a part of it, wait until it is healed; they fail only where
//! that node is not linked.

use std::time::Duration;

use flashmob_core::copies::{MapImage, Place};
use flashmob_core::op::Op;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::fault::Fault;
use super::scenario::{Scenario, pick};
use super::store::BLOCK_BYTES;
use super::trace::What;
use super::{Event, World};

/// How often it is looked for a block that both have.
const LOOK_EVERY: Duration = Duration::from_millis(3);

/// Draws whether that happens, and when. Then no node loses what it has flushed, and none has what is not its own.
pub(super) fn draw(rng: &mut SmallRng, scenario: &mut Scenario) {
    let is_in_the_way = |fault: &Fault| {
        use Fault::{Grow, Join, MapFull, MapRot, Remove, RotBehind, Shrink, Standby, StoreAway};
        let is_of_slots = matches!(fault, Grow(_) | Join(_) | Remove(_) | Shrink(..));
        is_of_slots
            || fault.loses_data()
            || fault.is_of_other_maps()
            || matches!(fault, MapFull(_) | MapRot(..) | RotBehind(_) | Standby(_) | StoreAway(_))
    };
    let has_copies = scenario.copies.as_ref().is_some_and(|plan| plan.copies > 1);
    if !rng.random_ratio(1, 12) || !has_copies || scenario.growth() > 0 {
        return;
    }
    // Few scenarios have none of these.
    scenario.faults.retain(|(_, fault)| !is_in_the_way(fault));
    if rng.random_bool(0.7) {
        scenario.faults.retain(|(_, fault)| !matches!(fault, Fault::GatewayRestart(_)));
    }
    let span_us = scenario.span.as_micros() as u64;
    let victim = scenario.victims.first().copied();
    let node = victim.unwrap_or_else(|| rng.random_range(0..scenario.extents_bytes.len()));
    for _ in 0..rng.random_range(1..4) {
        let at = Duration::from_micros(rng.random_range(0..span_us));
        let longest_us = *pick(rng, &[20_000, 300_000, 3_000_000]);
        let lasts = Duration::from_micros(rng.random_range(1_000..longest_us));
        let lasts = Some(lasts).filter(|_| rng.random_bool(0.6));
        scenario.faults.push((at, Fault::Latent(node, rng.random_range(1..6), lasts)));
    }
}

impl World {
    /// Bits flip, each in a block of a copy that is not on this node, while another is current there: later, if there is none now. Then the node is
    /// paused for so long, or its copies are made equal.
    pub(super) fn rot_unread(&mut self, node: usize, times: u32, lasts: Option<Duration>) {
        let Some(image) = self.gateway.core.as_ref().and_then(|core| core.map(0)).cloned() else { return };
        let mut rng = SmallRng::seed_from_u64(self.scenario.seed ^ self.ctx.now.as_nanos() ^ 0x1a7e);
        let struck = (0..times).filter(|_| self.rot_one_unread(&image, &mut rng, node)).count();
        if struck == 0 {
            if !self.is_healed {
                self.ctx.at(self.ctx.now + LOOK_EVERY, Event::RotUnread { node, times, lasts });
            }
            return;
        }
        self.ctx.totals.faults[Fault::Latent(node, times, lasts).kind()] += 1;
        match lasts {
            Some(lasts) => self.pause(node, lasts),
            None => self.resync(node),
        }
    }

    fn rot_one_unread(&mut self, image: &MapImage, rng: &mut SmallRng, node: usize) -> bool {
        let chunk = rng.random_range(0..image.chunks());
        let at = rng.random_range(0..image.chunk_bytes() / BLOCK_BYTES) * BLOCK_BYTES;
        let (byte, flip) = (rng.random_range(0..BLOCK_BYTES as usize), 1 << rng.random_range(0..8));
        let (marks, places) = (image.marks(chunk), image.places(chunk).to_vec());
        let block = |slot: u32| (u64::from(slot) * image.chunk_bytes() + at) / BLOCK_BYTES;
        let store = |place: &Place| &self.nodes[usize::from(place.member)].store;
        let bytes = |place: &Place| store(place).block(block(place.slot));
        let is_good = |place: &Place| {
            let is_rotten = store(place).is_rotten(block(place.slot) * BLOCK_BYTES);
            !is_rotten && store(place).is_settled(block(place.slot)) && bytes(place) == bytes(&places[0])
        };
        // A change may be under way that one of them has.
        if marks.behind | marks.doubtful != 0 || !places.iter().all(is_good) {
            return false;
        }
        let others: Vec<_> = places.iter().filter(|place| usize::from(place.member) != node).collect();
        let place = others[rng.random_range(0..others.len())];
        let is_struck = others.len() < places.len()
            && self.nodes[usize::from(place.member)].store.rot_block(block(place.slot), byte, flip);
        if is_struck {
            self.unread.insert(u64::from(chunk) * image.chunk_bytes() + at);
            self.ctx.trace(What::Phase("a block of a copy rots, and nobody has read it"));
        }
        is_struck
    }

    /// Whether requests may fail for what rotted unread: if nodes may be away meanwhile, and changes if others of the same bytes are under way.
    pub(super) fn is_unread_rot_to_blame(&self, op: Op) -> bool {
        let is_harmless = |fault: &Fault| matches!(fault, Fault::Latent(..) | Fault::Pause(..) | Fault::Resync(_));
        op.mutates() || !self.scenario.faults.iter().all(|(_, fault)| is_harmless(fault))
    }

    /// Once all is calm: each block that rotted unread is on a copy still. A gateway that is killed takes along what it knew of changes that were under
    /// way when the node's copies fell behind: then the block may be lost. So it may if the node is away while its copies move.
    pub(super) fn check_unread(&mut self) {
        let faults = || self.scenario.faults.iter().map(|(_, fault)| fault);
        let is_struck = |node: usize| faults().any(|fault| matches!(fault, Fault::Latent(of, ..) if *of == node));
        let may_lose = |fault: &Fault| match fault {
            Fault::GatewayRestart(_) | Fault::Balance => true,
            Fault::Drain(node, _) => is_struck(*node),
            _ => false,
        };
        if faults().any(may_lose) {
            return;
        }
        let Some(image) = self.gateway.core.as_ref().and_then(|core| core.map(0)).cloned() else { return };
        for at in self.unread.clone() {
            let (chunk, within) = ((at / image.chunk_bytes()) as u32, at % image.chunk_bytes());
            let places = image.places(chunk).iter();
            let is_rotten = |place: &Place| {
                let slot_at = u64::from(place.slot) * image.chunk_bytes();
                self.nodes[usize::from(place.member)].store.is_rotten(slot_at + within)
            };
            let marks = image.marks(chunk);
            if places.enumerate().all(|(copy, place)| marks.behind & (1 << copy) != 0 || is_rotten(place)) {
                let text = format!("byte {at} is on no copy, though it rotted on one alone: {marks:?}");
                return self.ctx.fail(text);
            }
        }
    }
}
