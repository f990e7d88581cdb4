//! A block rots on the only current copy of its chunk, while another copy is behind.
//!
//! The promise: the block is lost at most, and nothing else. The other copy becomes current all the same. It returns what clients may see, or an error:
//! of a block that was struck alone, and only if no copy has the bytes that were there.

use std::time::Duration;

use flashmob_core::copies::{MapImage, replay};
use flashmob_core::op::Op;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::fault::Fault;
use super::scenario::Scenario;
use super::store::BLOCK_BYTES;
use super::trace::What;
use super::{Event, World};

/// How often it is looked for a copy that is behind.
const LOOK_EVERY: Duration = Duration::from_millis(3);

/// Draws whether that happens, and when. Not where all copies may lose power, which makes what they have right; where a map forgets
/// which copies are behind; where slots change hands, whose bytes nobody may miss; or where a node gets another flash, as a rotten copy may fall behind
/// beside it. A node falls behind for it.
pub(super) fn draw(rng: &mut SmallRng, scenario: &mut Scenario) {
    let is_in_the_way = |fault: &Fault| {
        use Fault::{Blackout, Copy, Grow, Join, Lie, Remove, Replace, Shrink, Standby, StoreAway, Swap};
        let is_of_slots = matches!(fault, Grow(_) | Join(_) | Remove(_) | Shrink(..));
        is_of_slots
            || fault.is_of_other_maps()
            || matches!(fault, Blackout(..) | Copy(..) | Lie(..) | Standby(_) | StoreAway(_))
            || matches!(fault, Replace(..) | Swap(..))
    };
    let is_drawn = rng.random_ratio(1, 5);
    let Some(plan) = scenario.copies.as_ref().filter(|plan| is_drawn && plan.copies > 1) else { return };
    if scenario.growth() > 0 || scenario.faults.iter().any(|(_, fault)| is_in_the_way(fault)) {
        return;
    }
    let evict_after_us = plan.evict_after.as_micros() as u64;
    let span_us = scenario.span.as_micros() as u64;
    let node = match scenario.victims.first() {
        Some(&victim) => victim,
        None => rng.random_range(0..scenario.extents_bytes.len()),
    };
    let away_at = Duration::from_micros(rng.random_range(0..span_us.max(2) / 2));
    let lasts = Duration::from_micros(rng.random_range(evict_after_us..evict_after_us * 4 + 100_000));
    scenario.faults.push((away_at, Fault::Kill(node, lasts)));
    let at = Duration::from_micros(rng.random_range(0..span_us));
    scenario.faults.push((at, Fault::RotBehind(rng.random_range(1..4))));
}

impl World {
    /// Bits flip, each in a block of a copy that is the only current one; later, if there is none now.
    pub(super) fn rot_behind(&mut self, times: u32) {
        if self.is_healed {
            return;
        }
        let seed = self.scenario.seed ^ self.ctx.now.as_nanos() ^ u64::from(times);
        let mut rng = SmallRng::seed_from_u64(seed);
        if !self.strike_only_copy(&mut rng) {
            return self.ctx.at(self.ctx.now + LOOK_EVERY, Event::RotBehind { times });
        }
        self.ctx.totals.faults[Fault::RotBehind(times).kind()] += 1;
        if times > 1 {
            self.ctx.at(self.ctx.now + LOOK_EVERY, Event::RotBehind { times: times - 1 });
        }
    }

    fn strike_only_copy(&mut self, rng: &mut SmallRng) -> bool {
        let Some(image) = self.gateway.core.as_ref().and_then(|core| core.map(0)).cloned() else { return false };
        // A gateway that is killed forgets the rest, and a copy that is not behind then may be the one that is lost.
        let Ok(on_record) = replay(self.map.bytes()).map(|replayed| replayed.image) else { return false };
        let only_of = |image: &MapImage, chunk: u32| {
            let marks = image.marks(chunk);
            let is_current = |copy: &usize| (marks.behind | marks.doubtful) & (1 << copy) == 0;
            let mut current = (0..image.copies()).filter(is_current);
            match (current.next(), current.next()) {
                (Some(copy), None) if marks.behind != 0 => Some(image.places(chunk)[copy]),
                _ => None,
            }
        };
        let only = |chunk: u32| only_of(&image, chunk).filter(|place| only_of(&on_record, chunk) == Some(*place));
        let chunks: Vec<_> = (0..image.chunks()).filter_map(|chunk| Some((chunk, only(chunk)?))).collect();
        let Some(&(chunk, place)) = chunks.get(rng.random_range(0..chunks.len().max(1))) else { return false };
        let at = rng.random_range(0..image.chunk_bytes() / BLOCK_BYTES) * BLOCK_BYTES;
        let block = (u64::from(place.slot) * image.chunk_bytes() + at) / BLOCK_BYTES;
        let (byte, flip) = (rng.random_range(0..BLOCK_BYTES as usize), 1 << rng.random_range(0..8));
        let store = &mut self.nodes[usize::from(place.member)].store;
        if !store.rot_block(block, byte, flip) {
            return false;
        }
        self.struck.insert(u64::from(chunk) * image.chunk_bytes() + at);
        self.ctx.trace(What::Phase("the only current copy of a block rots"));
        true
    }

    /// Whether a request may fail as a block was lost that it reads, or changes a part of.
    pub(super) fn is_rot_to_blame(&self, op: Op, spans: &[(u64, u32)]) -> bool {
        let needs = |&at: &u64, &(from, len): &(u64, u32)| {
            let (end, block_end) = (from + u64::from(len), at + BLOCK_BYTES);
            let is_touched = from < block_end && at < end;
            is_touched && (op == Op::Read || from > at || end < block_end)
        };
        op != Op::Flush && op != Op::Map && self.rotten_blocks(op).any(|at| spans.iter().any(|span| needs(at, span)))
    }

    /// Blocks that were struck, and may be missed.
    fn rotten_blocks(&self, op: Op) -> impl Iterator<Item = &u64> {
        let unread = self.unread.iter().filter(move |_| self.is_unread_rot_to_blame(op));
        self.struck.iter().chain(unread)
    }

    /// Whether a block that was struck matches on no copy that counts.
    pub(super) fn is_lost_everywhere(&self, image: &MapImage, chunk: u32, at: u64) -> bool {
        let marks = image.marks(chunk);
        let is_rotten = |(copy, place): (usize, &flashmob_core::copies::Place)| {
            let counts = (marks.behind | marks.doubtful) & (1 << copy) == 0;
            let slot_at = u64::from(place.slot) * image.chunk_bytes();
            !counts || self.nodes[usize::from(place.member)].store.is_rotten(slot_at + at)
        };
        let volume_at = u64::from(chunk) * image.chunk_bytes() + at;
        (self.struck.contains(&volume_at) || self.unread.contains(&volume_at))
            && image.places(chunk).iter().enumerate().all(is_rotten)
    }

    /// Once all is calm: what was struck cost at most these blocks. That no copy is behind for it was waited for.
    pub(super) fn check_rot_behind(&mut self) {
        let has_other_rot = self.scenario.faults.iter().any(|(_, fault)| fault.loses_data());
        let Some(image) = self.gateway.core.as_ref().and_then(|core| core.map(0)).cloned() else { return };
        if self.struck.is_empty() || has_other_rot || self.ctx.violation.is_some() {
            return;
        }
        for chunk in 0..image.chunks() {
            let marks = image.marks(chunk);
            for (copy, place) in image.places(chunk).iter().enumerate() {
                let slot_at = u64::from(place.slot) * image.chunk_bytes();
                for at in (0..image.chunk_bytes()).step_by(BLOCK_BYTES as usize) {
                    let volume_at = u64::from(chunk) * image.chunk_bytes() + at;
                    let is_rotten = self.nodes[usize::from(place.member)].store.is_rotten(slot_at + at);
                    if marks.behind != 0 || (is_rotten && !self.struck.contains(&volume_at)) {
                        let text =
                            format!("byte {volume_at} of copy {copy} is of no use, and was not struck: {marks:?}");
                        return self.ctx.fail(text);
                    }
                }
            }
        }
    }
}
