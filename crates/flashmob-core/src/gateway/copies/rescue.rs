//! A block that does not match its checksum on the copy that others are made from. The loss stays that block: no copy stays behind for it.
//!
//! ```text
//!  hashed on all copies ─▶ a current copy has it ───────────────────────────▶ written to those that lack it ─▶ hashed again
//!   (what should it be?)   └▶ none: a copy that is behind has its bytes, proven ▶ written there, and healed      ─▶
//!                               └▶ none: the copies that are made current have it marked as unreadable         ─▶
//! ```
//!
//! The bytes of a copy that is behind count if all of the block has the CRC-32 that the source's checksum expects, or if the copy has kept the block since it
//! fell behind ([`super::kept`]). A CRC-32 proves the bytes against rot, and does not choose a version: so the block is locked from the look at the source's checksum to the last look, and no change of it is
//! under way. It must never be taken from a digest that was made under another lock.

use super::jobs::{Goal, Step};
use super::mend::PAUSE;
use super::{Copies, Cx, PLACES_MAX, bit, each, mask};
use crate::checksum::checksum;
use crate::op::{Failure, Op, OpFlags};
use crate::planted::{self, Bug};
use crate::wire::digest::{
    Corrupt, DIGEST_BLOCK_BYTES, DIGEST_BYTES, digest_of, digests, is_corrupt, unreadable_payload,
};

/// The state of a rescue.
#[derive(Debug)]
pub struct Rescue {
    phase: Phase,
    /// Current copies beside the source that are there.
    pub witnesses: u8,
    /// The answer of each copy to a digest of the block.
    hashes: [Option<u64>; PLACES_MAX],
    /// CRC-32 that the source's checksum expects.
    expected: u32,
    /// The copy that is read.
    pub reading: u8,
    /// Copies whose bytes are still to be tried.
    candidates: u8,
    /// Copies whose bytes are believed without the proof by CRC-32.
    believed: u8,
    /// Copies behind that are believed likewise: see [`super::kept`].
    kept: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The copies are hashed.
    Digest,
    /// The block is read from a copy.
    Read,
    /// The block is written: the number is what the copies should answer to a digest then.
    Write(u64),
    /// The copies are hashed again.
    Check(u64),
}

impl Copies {
    /// The block of a run is locked, and no change of it is under way.
    pub(super) fn begin_rescue(&mut self, cx: &mut Cx<'_>, chunk: u32) {
        let Some(job) = self.jobs.get(&chunk) else { return };
        let (goal, source, of_job) = (job.goal, job.source, job.targets | bit(job.source));
        let others = self.current(chunk) & !of_job;
        let witnesses = self.usable_of(cx, chunk, others);
        // A copy that moves is given up in the end. It may be the only one that has the block.
        let leaving = if goal == Goal::Move { self.leaving_copy(chunk).map_or(0, bit) } else { 0 };
        let is_behind = leaving & self.image.marks(chunk).behind != 0;
        let may_come =
            !is_behind || self.leaving_copy(chunk).is_some_and(|copy| self.may_come(cx, self.member_of(chunk, copy)));
        let is_away = leaving & !of_job & !self.usable_of(cx, chunk, leaving) != 0 && may_come;
        if is_away {
            // A paused node may be needed.
            self.note_failed(cx);
        }
        if is_away || !self.know_marks(cx, chunk, of_job) {
            return self.source_is_corrupt(cx, chunk);
        }
        let rescue = Rescue {
            reading: 0,
            phase: Phase::Digest,
            witnesses,
            hashes: [None; PLACES_MAX],
            expected: 0,
            candidates: 0,
            believed: 0,
            kept: 0,
        };
        self.set_step(chunk, Step::Rescue(Box::new(rescue)));
        self.hash_block(cx, chunk, of_job | witnesses);
        debug_assert!(others & bit(source) == 0);
    }

    /// Whether the nodes of some copies know blocks that are marked as unreadable.
    pub(super) fn know_marks(&self, cx: &Cx<'_>, chunk: u32, copies: u8) -> bool {
        each(copies).all(|copy| cx.knows_marks(self.member_of(chunk, copy)))
    }

    fn rescue(&mut self, chunk: u32) -> Option<&mut Rescue> {
        match &mut self.jobs.get_mut(&chunk)?.step {
            Step::Rescue(rescue) => Some(rescue),
            _ => None,
        }
    }

    /// The block of the run: its offset in the chunk, and its length.
    fn block_of_run(&self, chunk: u32) -> Option<(u32, u32)> {
        self.jobs.get(&chunk)?.runs.last().map(|run| (run.at, DIGEST_BLOCK_BYTES))
    }

    fn hash_block(&mut self, cx: &mut Cx<'_>, chunk: u32, copies: u8) {
        let Some(block) = self.block_of_run(chunk) else { return };
        for copy in each(copies) {
            let flags = if self.know_marks(cx, chunk, bit(copy)) { OpFlags::EXPECTED } else { OpFlags::NONE };
            self.ask(cx, chunk, copy, (Op::Digest, flags), block, vec![0; DIGEST_BYTES]);
        }
    }

    /// A copy has answered a piece of it.
    pub(super) fn rescue_answered(
        &mut self,
        cx: &mut Cx<'_>,
        (chunk, copy): (u32, usize),
        result: Result<Vec<u8>, Failure>,
    ) {
        let leaving = self.leaving_copy(chunk);
        let Some(job) = self.jobs.get_mut(&chunk) else { return };
        let is_over = job.open.is_empty();
        let is_target = job.targets & bit(copy) != 0;
        let is_needed = is_target || copy == job.source || (job.goal == Goal::Move && leaving == Some(copy));
        let Step::Rescue(rescue) = &mut job.step else { return };
        match (rescue.phase, result) {
            (Phase::Digest, Err(failure)) if is_needed => return self.job_failed(cx, chunk, copy, failure),
            (Phase::Check(_), Err(failure)) if is_target => return self.job_failed(cx, chunk, copy, failure),
            (Phase::Write(_), Err(failure)) if is_target => return self.job_failed(cx, chunk, copy, failure),
            (Phase::Digest | Phase::Check(_), Err(_)) => rescue.hashes[copy] = None,
            (Phase::Digest | Phase::Check(_), Ok(digest)) => rescue.hashes[copy] = digests(&digest).next(),
            // That a copy cannot be healed is no reason to leave another one behind.
            (Phase::Write(_), _) => {}
            (Phase::Read, Ok(bytes)) => return self.block_read(cx, chunk, copy, &bytes),
            (Phase::Read, Err(failure)) if rescue.believed & bit(copy) != 0 => {
                return self.job_failed(cx, chunk, copy, failure);
            }
            // It may have the block: a mark in its place would be for good.
            (Phase::Read, Err(failure)) if failure != Failure::Corrupt && is_target => {
                return self.job_failed(cx, chunk, copy, failure);
            }
            (Phase::Read, Err(_)) => return self.try_next(cx, chunk),
        }
        if !is_over {
            return;
        }
        match rescue.phase {
            Phase::Digest => self.look_for_bytes(cx, chunk),
            Phase::Write(hash) => {
                (rescue.phase, rescue.hashes) = (Phase::Check(hash), [None; PLACES_MAX]);
                let all = rescue.witnesses | job.targets | bit(job.source);
                self.hash_block(cx, chunk, all);
            }
            Phase::Check(hash) => self.check_rescued(cx, chunk, hash),
            Phase::Read => {}
        }
    }

    /// All copies are hashed: whose bytes are to be tried?
    fn look_for_bytes(&mut self, cx: &mut Cx<'_>, chunk: u32) {
        let current = self.current(chunk);
        let all = mask(0..self.image.copies()) | self.jobs.get(&chunk).map_or(0, |job| job.targets);
        let behind = self.usable_of(cx, chunk, all & !current);
        let kept = self.block_of_run(chunk).map_or(0, |(at, _)| self.kept(chunk, at / DIGEST_BLOCK_BYTES));
        let Some(job) = self.jobs.get_mut(&chunk) else { return };
        let source = job.source;
        let Step::Rescue(rescue) = &mut job.step else { return };
        let hashes = rescue.hashes;
        let is_good = |copy: &usize| hashes[*copy].is_some_and(|hash| !is_corrupt(hash));
        let good = [source].into_iter().chain(each(rescue.witnesses)).find(is_good);
        let Some(corrupt) =
            hashes[source].and_then(Corrupt::of).or(good.map(|_| Corrupt { expected: 0, is_marked: false }))
        else {
            return self.give_up(cx, chunk);
        };
        let is_known_corrupt = |copy: &usize| hashes[*copy].is_some_and(is_corrupt);
        (rescue.expected, rescue.kept) = (corrupt.expected, kept);
        rescue.believed = good.map_or(0, bit);
        rescue.candidates =
            if good.is_some() { rescue.believed } else { mask(each(behind).filter(|copy| !is_known_corrupt(copy))) };
        self.try_next(cx, chunk);
    }

    /// Reads the block from the next copy that may have it. Without one it is lost.
    fn try_next(&mut self, cx: &mut Cx<'_>, chunk: u32) {
        let Some(block) = self.block_of_run(chunk) else { return };
        let Some(rescue) = self.rescue(chunk) else { return };
        let Some(copy) = each(rescue.candidates).next() else { return self.mark_unreadable(cx, chunk) };
        rescue.candidates &= !bit(copy);
        (rescue.phase, rescue.reading) = (Phase::Read, bit(copy));
        self.ask(cx, chunk, copy, (Op::Read, OpFlags::NONE), block, vec![0; DIGEST_BLOCK_BYTES as usize]);
    }

    /// The bytes of a copy are here. If they are right, those get them that lack them.
    fn block_read(&mut self, cx: &mut Cx<'_>, chunk: u32, copy: usize, bytes: &[u8]) {
        let Some(job) = self.jobs.get_mut(&chunk) else { return };
        let (targets, source) = (job.targets, bit(job.source));
        let Step::Rescue(rescue) = &mut job.step else { return };
        let is_believed = (rescue.believed | rescue.kept) & bit(copy) != 0 || planted::is(Bug::HealedUnproven);
        if !is_believed && checksum(bytes) != rescue.expected {
            return self.try_next(cx, chunk);
        }
        let (hash, hashes) = (digest_of(bytes), rescue.hashes);
        // A current copy that matches its checksum is left as it is, whatever it has.
        let is_given = |copy: &usize| match hashes[*copy] {
            Some(has) if targets & bit(*copy) == 0 => is_corrupt(has),
            has => has != Some(hash),
        };
        let lacking = mask(each(targets | source | rescue.witnesses).filter(is_given));
        self.write_block(cx, chunk, lacking, OpFlags::NONE, (bytes, hash));
    }

    /// No copy has the block. Those that are made current have it marked, as they must not return what they have.
    fn mark_unreadable(&mut self, cx: &mut Cx<'_>, chunk: u32) {
        let Some(job) = self.jobs.get_mut(&chunk) else { return };
        let targets = job.targets;
        let Step::Rescue(rescue) = &mut job.step else { return };
        let mark = Corrupt { expected: rescue.expected, is_marked: true };
        let (hash, hashes) = (mark.code(), rescue.hashes);
        let lacking = mask(each(targets).filter(|&copy| hashes[copy] != Some(hash)));
        let lacking = if planted::is(Bug::LostBlockUnmarked) { 0 } else { lacking };
        let payload = unreadable_payload(mark.expected);
        self.write_block(cx, chunk, lacking, OpFlags::UNREADABLE, (&payload, hash));
    }

    fn write_block(&mut self, cx: &mut Cx<'_>, chunk: u32, copies: u8, flags: OpFlags, (bytes, hash): (&[u8], u64)) {
        let Some(block) = self.block_of_run(chunk) else { return };
        let Some(rescue) = self.rescue(chunk) else { return };
        (rescue.phase, rescue.reading) = (Phase::Write(hash), 0);
        if copies == 0 {
            return self.end_rescue(cx, chunk, hash);
        }
        self.counters.copied_bytes += u64::from(DIGEST_BLOCK_BYTES) * u64::from(copies.count_ones());
        for copy in each(copies) {
            self.ask(cx, chunk, copy, (Op::Write, flags), block, bytes.to_vec());
        }
    }

    /// The copies are hashed again: each that is made current has to have what it got.
    fn check_rescued(&mut self, cx: &mut Cx<'_>, chunk: u32, hash: u64) {
        let Some(job) = self.jobs.get(&chunk) else { return };
        let (targets, current) = (job.targets, self.current(chunk));
        let Step::Rescue(rescue) = &job.step else { return };
        let hashes = rescue.hashes;
        if each(targets).any(|copy| hashes[copy] != Some(hash)) {
            // It did not take.
            self.give_up(cx, chunk);
            return self.stuck_for(cx, chunk, PAUSE);
        }
        let still_corrupt = mask(each(current).filter(|&copy| hashes[copy].is_some_and(is_corrupt)));
        let Some(block) = self.block_of_run(chunk) else { return };
        for copy in each(if is_corrupt(hash) { 0 } else { still_corrupt }) {
            // It is tried again once this one is current.
            self.remember_rot(cx, chunk, copy, block);
        }
        self.end_rescue(cx, chunk, hash);
    }

    /// The copies that are made current have the block, or its mark.
    fn end_rescue(&mut self, cx: &mut Cx<'_>, chunk: u32, hash: u64) {
        let Some((at, _)) = self.block_of_run(chunk) else { return };
        let block = at / DIGEST_BLOCK_BYTES;
        if is_corrupt(hash) {
            self.note_hopeless(cx, chunk, at);
            self.tell_unreadable(cx, chunk, at);
        } else {
            self.counters.mended += 1;
            self.scrub.bad.clear(chunk, block..block + 1, |flaw| flaw == super::scrub::Flaw::Unreadable);
        }
        if let Some(job) = self.jobs.get_mut(&chunk) {
            job.runs.pop();
        }
        self.piece_ended(cx, chunk);
        self.rescued(cx, chunk);
        self.next_run(cx, chunk);
    }
}
