//! What differs in a range of a chunk is found by digests, read from one copy and written to the others.
//!
//! A block that does not match its checksum equals nothing. It is taken from another copy that may be believed: when copies are compared or mended
//! any current one. Where a copy is made from another, [`super::rescue`] has what becomes of such a block of that one.

use super::jobs::{Goal, Step};
use super::mend::TELL_EVERY;
use super::scrub::{BadBlock, Flaw};
use super::{Copies, Cx, bit, each, mask};
use crate::copies::COPIES_MAX;
use crate::op::{Op, OpFlags};
use crate::planted::{self, Bug};
use crate::wire::digest::{CORRUPT, Corrupt, DIGEST_BLOCK_BYTES, are_equal, digests, is_corrupt};

/// Most bytes that are copied at once.
const RUN_BYTES: u32 = 64 << 10;

/// Bytes that differ on some copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// The offset in the chunk.
    pub at: u32,
    pub len: u32,
    /// The copy that is right.
    pub source: usize,
    /// The copies that are not.
    pub targets: u8,
    pub kind: RunKind,
}

/// The treatment of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunKind {
    /// The bytes are copied.
    Copy,
    /// No copy matches its checksum: what the source has is taken for right.
    Adopt,
    /// The source does not match its checksum: see [`super::rescue`]. A block.
    Rescue,
}

impl Copies {
    /// All copies have hashed the range: finds the blocks that are to be written again.
    pub(super) fn find_differences(&mut self, cx: &mut Cx<'_>, chunk: u32) {
        let Some(job) = self.jobs.get_mut(&chunk) else { return };
        let Step::Digest(answers) = std::mem::replace(&mut job.step, Step::Fetch) else { return };
        let (goal, preferred, all, from) = (job.goal, job.source, job.targets | bit(job.source), job.range.0);
        let (is_told, targets_of_job) = (job.is_told, job.targets);
        let is_torn = goal == Goal::Compare && self.image.marks(chunk).is_torn;
        let believed = if goal.is_copying() { bit(preferred) } else { all };
        let can_rescue = goal.can_rescue() && is_told && !planted::is(Bug::RottenChunkGivenUp);
        let hash = |copy: usize, index: usize| {
            digests(answers[copy].as_deref().unwrap_or_default()).nth(index).unwrap_or(CORRUPT)
        };
        let blocks = answers[preferred].as_deref().map_or(0, |digest| digests(digest).len());
        let (mut runs, mut has_unreadable): (Vec<Run>, bool) = (Vec::new(), false);
        for index in 0..blocks {
            let is_good = |copy: &usize| !is_corrupt(hash(*copy, index));
            let good = mask(each(all).filter(is_good));
            let mut hashes = each(good).map(|copy| hash(copy, index));
            let first = hashes.next();
            if goal.is_of_flash() && hashes.any(|hash| Some(hash) != first) && !planted::is(Bug::ScrubMendsByGuess) {
                // Nothing says which of them is right: none is made equal to another, nor one that does not match to either.
                let mut hashes = [0; COPIES_MAX];
                each(good).for_each(|copy| hashes[copy] = hash(copy, index));
                self.tell_differs(cx, (chunk, from + index as u32 * DIGEST_BLOCK_BYTES), good, hashes);
                continue;
            }
            let number = from / DIGEST_BLOCK_BYTES + index as u32;
            if goal == Goal::Compare && self.scrub.bad.differs_as_listed(chunk, number, all, |copy| hash(copy, index)) {
                // No change of it was under way when the gateway was killed: it is as a scrub has found it.
                continue;
            }
            let source = Some(preferred).filter(is_good).or_else(|| each(believed).find(is_good));
            if source.is_none() && can_rescue {
                let (at, len) = (from + index as u32 * DIGEST_BLOCK_BYTES, DIGEST_BLOCK_BYTES);
                runs.push(Run { at, len, source: preferred, targets: targets_of_job, kind: RunKind::Rescue });
                continue;
            }
            // After all copies lost power, a block may be torn on each; not one that was known to be lost before. One that is behind has nothing
            // that would have to be kept.
            let is_marked = |copy: usize| is_told && Corrupt::of(hash(copy, index)).is_some_and(|c| c.is_marked);
            let is_adopted = source.is_none() && is_torn && !each(all).any(is_marked);
            let Some(source) = source.or(is_adopted.then_some(preferred)) else {
                has_unreadable |= goal.is_copying();
                if !goal.is_copying() {
                    self.tell_unreadable(cx, chunk, from + index as u32 * DIGEST_BLOCK_BYTES);
                }
                continue;
            };
            let expected = hash(source, index);
            let differs = |copy: &usize| *copy != source && !are_equal(hash(*copy, index), expected);
            let targets = mask(each(all).filter(differs));
            if !goal.is_copying() {
                let is_whole = goal == Goal::Compare || all == self.current(chunk);
                self.scrub.bad.clear(chunk, number..number + 1, |flaw| is_whole || flaw == Flaw::Unreadable);
            }
            if targets == 0 && !is_adopted {
                continue;
            }
            if is_adopted {
                self.tell_adopted(cx, chunk, from + index as u32 * DIGEST_BLOCK_BYTES);
            }
            self.counters.mended += each(targets).filter(|&copy| is_corrupt(hash(copy, index))).count() as u64;
            let (at, len) = (from + index as u32 * DIGEST_BLOCK_BYTES, DIGEST_BLOCK_BYTES);
            let kind = if is_adopted { RunKind::Adopt } else { RunKind::Copy };
            let same = |run: &&mut Run| {
                (run.source, run.targets, run.kind) == (source, targets, kind)
                    && run.at + run.len == at
                    && run.len + len <= RUN_BYTES
            };
            match runs.last_mut().filter(same) {
                Some(run) => run.len += len,
                None => runs.push(Run { at, len, source, targets, kind }),
            }
        }
        if has_unreadable {
            return self.source_is_corrupt(cx, chunk);
        }
        runs.reverse();
        // Clients may wait for these.
        runs.sort_by_key(|run| run.kind == RunKind::Rescue);
        if let Some(job) = self.jobs.get_mut(&chunk) {
            job.runs = runs;
        }
        self.next_run(cx, chunk);
    }

    /// Copies the next run; without one, the range is equal. That of a resync waits for its turn, without a lock: what was equal stays so.
    pub(super) fn next_run(&mut self, cx: &mut Cx<'_>, chunk: u32) {
        let Some(job) = self.jobs.get_mut(&chunk) else { return };
        if !job.runs.is_empty() && !job.goal.is_copying() {
            let is_rescue = job.runs.last().is_some_and(|run| run.kind == RunKind::Rescue);
            return if is_rescue { self.begin_rescue(cx, chunk) } else { self.fetch(cx, chunk) };
        }
        job.step = Step::Next;
        self.unlock(cx, chunk);
        self.advance(cx, chunk);
    }

    /// Reads a run from its source.
    pub(super) fn fetch(&mut self, cx: &mut Cx<'_>, chunk: u32) {
        let Some(job) = self.jobs.get_mut(&chunk) else { return };
        let Some(&Run { at, len, source, kind, .. }) = job.runs.last() else { return };
        job.step = Step::Fetch;
        let flags = if kind == RunKind::Adopt { OpFlags::UNVERIFIED } else { OpFlags::NONE };
        let goal = job.goal;
        self.ask(cx, chunk, source, (Op::Read, flags), (at, len), vec![0; len as usize]);
        if goal.is_copying() && planted::is(Bug::RunFreeTooEarly) {
            self.unlock(cx, chunk);
        }
    }

    /// Writes what was read from the source to the copies that differ there.
    pub(super) fn repair(&mut self, cx: &mut Cx<'_>, chunk: u32, data: Vec<u8>) {
        let Some(job) = self.jobs.get_mut(&chunk) else { return };
        job.step = Step::Repair;
        let Some(&Run { at, len, source, targets, .. }) = job.runs.last() else { return };
        let targets = targets & (job.targets | bit(job.source)) & !bit(source);
        if targets == 0 {
            job.runs.pop();
            return self.next_run(cx, chunk);
        }
        let goal = job.goal;
        self.counters.copied_bytes += u64::from(len) * u64::from(targets.count_ones());
        for copy in each(targets) {
            self.ask(cx, chunk, copy, (Op::Write, OpFlags::NONE), (at, len), data.clone());
        }
        if goal.is_copying() {
            // Changes that come now are behind it in the targets' queues.
            self.unlock(cx, chunk);
        }
    }

    fn tell_adopted(&mut self, cx: &mut Cx<'_>, chunk: u32, at: u32) {
        self.counters.adopted += 1;
        let text = format!(
            "the block at byte {} matches its checksum on no copy, after all of them lost power; what is there is kept",
            self.volume_offset(chunk, at)
        );
        cx.tell_of_volume(text);
    }

    /// No current copy has a block. Told now and then, as clients may read it as often as they like.
    pub(super) fn tell_unreadable(&mut self, cx: &mut Cx<'_>, chunk: u32, at: u32) {
        self.counters.unreadable += 1;
        let (block, copies) = (at / DIGEST_BLOCK_BYTES, self.current(chunk));
        self.scrub.bad.note(BadBlock { chunk, block, flaw: Flaw::Unreadable, copies, hashes: [0; COPIES_MAX] });
        if cx.now < self.tell_unreadable_at {
            return;
        }
        self.tell_unreadable_at = cx.now + TELL_EVERY;
        let text = format!(
            "the block at byte {} matches its checksum on no current copy: reads of it fail until it is written again",
            self.volume_offset(chunk, at)
        );
        cx.tell_of_volume(text);
    }

    pub(super) fn volume_offset(&self, chunk: u32, at: u32) -> u64 {
        u64::from(chunk) * self.image.chunk_bytes() + u64::from(at)
    }
}
