//! Scrubs: while other faults happen, by themselves and because somebody asks; and at the end of a run, what they must have found.
//!
//! The promise: once a scrub has gone through, no copy has bytes that do not match their checksum while another copy has the right ones, on the
//! flash either; copies that differ though they match are listed, and none of them was touched; and whatever a scrub wrote, it was never older
//! than what was there.

use std::time::Duration;

use flashmob_core::gateway::{Flaw, ScrubSpec};
use rand::Rng;
use rand::rngs::SmallRng;

use super::World;
use super::fault::Fault;
use super::scenario::{Scenario, pick};
use super::store::BLOCK_BYTES;
use super::trace::What;

/// A block of the volume, of which one copy lost a write: the place in the volume, the node, the block of its extent, and what it has now.
type Lost = (u64, usize, u64, Vec<u8>);

/// Draws whether a volume is scrubbed, and when; and what its flash does meanwhile. The last to be drawn.
pub(super) fn draw(rng: &mut SmallRng, scenario: &mut Scenario) {
    let span_us = scenario.span.as_micros() as u64;
    if rng.random_bool(0.5) {
        for _ in 0..rng.random_range(1..4) {
            scenario.faults.push((Duration::from_micros(rng.random_range(0..span_us)), Fault::Scrub));
        }
    }
    if let Some(plan) = scenario.copies.as_mut().filter(|_| rng.random_ratio(1, 3)) {
        plan.scrub_every = Some(Duration::from_millis(*pick(rng, &[100, 1000, 5000])));
    }
    // Where all copies lose power, one of them must not have lost something else; nor where a node falls behind whose welcome cannot be recorded.
    let needs_all = |fault: &Fault| matches!(fault, Fault::Blackout(..) | Fault::MapFull(_) | Fault::MapSlow(_));
    let are_all_needed = scenario.faults.iter().any(|(_, fault)| needs_all(fault));
    if let Some(&victim) = scenario.victims.first().filter(|_| !are_all_needed) {
        for _ in 0..rng.random_range(0..4) {
            let at = Duration::from_micros(rng.random_range(0..span_us));
            let fault = match rng.random_range(0..3) {
                0 => Fault::Misdirect(victim),
                _ => Fault::ColdRot(victim, rng.random_range(1..4)),
            };
            scenario.faults.push((at, fault));
        }
    }
}

impl World {
    /// Somebody wants the volume scrubbed now.
    pub(super) fn begin_scrub(&mut self) {
        let now = self.ctx.now;
        if let Some(core) = &mut self.gateway.core {
            // A gateway that is not in charge refuses.
            let _ = core.begin_scrub(now, 0, true);
            self.wake_gateway();
        }
    }

    /// How the gateway that starts scrubs. Nothing is planned any more at the end of a run.
    pub(super) fn scrub_spec(&self) -> ScrubSpec {
        let every = self.scenario.copies.as_ref().and_then(|plan| plan.scrub_every).filter(|_| !self.is_healed);
        ScrubSpec { verify_every: every, compare_every: every.map(|every| every * 3), kept: self.scrub_kept.1.clone() }
    }

    /// Keeps what outlives the gateway, as its shell does.
    pub(super) fn keep_scrub(&mut self) {
        let Some(core) = self.gateway.core.as_ref().filter(|_| !self.gateway.is_former) else { return };
        if let Some((news, is_running)) = core.scrub_news(0)
            && (news != self.scrub_kept.0 || is_running)
            && let Some(kept) = core.scrub_kept(self.ctx.now, 0)
        {
            self.scrub_kept = (news, kept);
        }
    }

    /// Scrubs the volume twice: after all that happened, and after each node has lost something more, which no client has read since.
    pub(super) fn check_scrubs(&mut self, dead: &[bool]) {
        if self.ctx.violation.is_some() || dead.contains(&true) {
            return;
        }
        self.ctx.trace(What::Phase("the volume is scrubbed"));
        self.scrub_to_the_end();
        self.check_flash(&[]);
        let lost = self.damage_a_node();
        self.ctx.trace(What::Phase("it is scrubbed again"));
        self.scrub_to_the_end();
        self.check_flash(&lost);
        self.check_lost(&lost);
    }

    fn scrub_to_the_end(&mut self) {
        if let Some(core) = &mut self.gateway.core {
            // One that is under way has not seen what happened behind it.
            let _ = core.stop_scrub(self.ctx.now, 0);
        }
        self.begin_scrub();
        let session = self.gateway.session;
        let is_over = |world: &World| {
            let now = world.ctx.now;
            let Some(core) = &world.gateway.core else { return false };
            let is_scrubbed = core.scrub_status(now, 0).is_some_and(|s| !s.compare.is_running);
            is_scrubbed && core.copies_status(now, 0).is_some_and(|s| s.jobs == 0 && s.decisions.0 == s.decisions.1)
        };
        if self.ctx.violation.is_none() && !self.run_until(is_over, Duration::from_secs(3600)) {
            let status = self.gateway.core.as_ref().and_then(|core| core.scrub_status(self.ctx.now, 0));
            return self.ctx.fail(format!("a scrub does not end: {status:?}, {:?}", self.copies_state()));
        }
        if self.gateway.session != session {
            // What was asked for may be forgotten.
            return self.scrub_to_the_end();
        }
        // A block that could not be mended at once is tried again a second later.
        let later = self.ctx.now + Duration::from_secs(3);
        self.run_until(|world| world.ctx.now > later, Duration::from_secs(10));
        self.nodes.iter_mut().for_each(|node| node.store.write_back());
    }

    /// One node loses bits, writes and places. Returns what differs from other copies though it matches its checksum.
    fn damage_a_node(&mut self) -> Vec<Lost> {
        let Some(image) = self.gateway.core.as_ref().and_then(|core| core.map(0)).cloned() else { return Vec::new() };
        if image.copies() < 2 {
            return Vec::new();
        }
        let node = self.ctx.rng.random_range(0..self.nodes.len());
        let (rng, store) = (&mut self.ctx.rng, &mut self.nodes[node].store);
        let (mut lost, chunk_bytes) = (Vec::new(), image.chunk_bytes());
        for _ in 0..rng.random_range(0..4) {
            match rng.random_range(0..3) {
                0 => store.rot(rng, true),
                1 => store.rot_cold(rng),
                _ => store.misdirect(rng),
            }
        }
        // Of blocks that match: the others are found by their checksums.
        for _ in 0..rng.random_range(0..3) {
            let Some(block) = store.lose_write(rng) else { break };
            let at = block * BLOCK_BYTES;
            let slot = (at / chunk_bytes) as u32;
            let of_copy = |&(chunk, copy): &(u32, usize)| image.places(chunk)[copy].slot == slot;
            if let Some((chunk, _)) = image.chunks_of(node as u16).find(of_copy) {
                let volume_at = u64::from(chunk) * chunk_bytes + at % chunk_bytes;
                lost.push((volume_at, node, block, store.block(block).to_vec()));
            }
        }
        lost
    }

    /// All copies that count match their checksums, on the flash as well, and are what clients may see, but for what was lost unseen.
    fn check_flash(&mut self, lost: &[Lost]) {
        let Some(image) = self.gateway.core.as_ref().and_then(|core| core.map(0)).cloned() else { return };
        let chunk_bytes = image.chunk_bytes();
        for chunk in (0..image.chunks()).filter(|_| self.ctx.violation.is_none()) {
            let marks = image.marks(chunk);
            for (copy, place) in image.places(chunk).iter().enumerate() {
                if (marks.behind | marks.doubtful) & (1 << copy) != 0 {
                    continue;
                }
                let (node, at) = (usize::from(place.member), u64::from(place.slot) * chunk_bytes);
                for from in (0..chunk_bytes).step_by(BLOCK_BYTES as usize) {
                    let (volume_at, block) = (u64::from(chunk) * chunk_bytes + from, (at + from) / BLOCK_BYTES);
                    let store = &self.nodes[node].store;
                    if store.is_rotten(at + from) && self.is_lost_everywhere(&image, chunk, from) {
                        continue;
                    }
                    if store.is_rotten(at + from) {
                        let text =
                            format!("a scrub has left byte {volume_at} of copy {copy} as it was: it does not match");
                        return self.ctx.fail(text);
                    }
                    if lost.iter().any(|(_, of, lost, _)| (*of, *lost) == (node, block)) {
                        continue;
                    }
                    let bytes = store.block(block).to_vec();
                    let asked = self.oracle.asked();
                    if let Err(text) = self.oracle.read_ended(asked, volume_at, &bytes) {
                        return self.ctx.fail(format!("after a scrub, copy {copy} of chunk {chunk}: {text}"));
                    }
                }
            }
        }
    }

    /// What was lost unseen is listed and nothing else is, and it is as it was.
    fn check_lost(&mut self, lost: &[Lost]) {
        let Some(core) = self.gateway.core.as_ref().filter(|_| self.ctx.violation.is_none()) else { return };
        let ranges = core.bad_ranges(0).into_iter().filter(|(_, _, range, _)| range.first.flaw == Flaw::Differs);
        let mut listed: Vec<u64> =
            ranges.flat_map(|(at, len, ..)| (at..at + len).step_by(BLOCK_BYTES as usize)).collect();
        let mut expected: Vec<u64> = lost.iter().map(|(at, ..)| *at).collect();
        listed.sort_unstable();
        expected.sort_unstable();
        expected.dedup();
        if listed != expected {
            return self.ctx.fail(format!("copies differ at {expected:?}, and a scrub has listed {listed:?}"));
        }
        let changed = lost.iter().find(|(_, node, block, bytes)| self.nodes[*node].store.block(*block) != &bytes[..]);
        if let Some((at, ..)) = changed {
            self.ctx.fail(format!("a scrub has changed a copy at {at}, though nobody knows which one is right"));
        }
    }
}
