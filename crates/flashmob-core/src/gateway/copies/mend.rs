//! Blocks that do not match their checksums: found by reads, and written again with what another current copy has.
//!
//! Nothing is recorded: a gateway that starts anew finds them again when they are read or scrubbed.

use std::time::Duration;

use super::jobs::Goal;
use super::{Copies, Cx, bit, each};
use crate::gateway::Event;
use crate::units::Time;
use crate::wire::digest::DIGEST_BLOCK_BYTES;

/// Most ranges of a chunk that are remembered. More are found again.
const RANGES_MAX: usize = 64;
/// Most chunks with such ranges.
const CHUNKS_MAX: usize = 1024;
/// When a range that could not be mended, or a job that failed, is tried again.
pub(super) const PAUSE: Duration = Duration::from_secs(1);
/// When copies are made equal again of a chunk whose only source is corrupt, where nodes do not know marks.
const STUCK_FOR: Duration = Duration::from_secs(60);
/// How often the owner is told.
pub(super) const TELL_EVERY: Duration = Duration::from_secs(10);

/// What is known of a chunk's corrupt blocks.
#[derive(Debug, Default)]
pub struct Rot {
    /// Ranges of whole blocks, in order, and the copies that are corrupt there.
    ranges: Vec<(u32, u32, u8)>,
    /// Found where the job under way has been: for the next one.
    missed: Vec<(u32, u32, u8)>,
    try_at: Time,
}

impl Rot {
    /// Forgets the ranges of other copies.
    fn keep_of(&mut self, copies: u8) {
        self.ranges.iter_mut().for_each(|range| range.2 &= copies);
        self.ranges.retain(|range| range.2 != 0);
    }

    /// No job is under way: the next one goes through all ranges.
    fn take_missed(&mut self) {
        self.ranges.append(&mut self.missed);
        self.ranges.sort_unstable();
        self.ranges.dedup_by(|next, range| {
            let is_same = (next.0, next.1) == (range.0, range.1);
            range.2 |= if is_same { next.2 } else { 0 };
            is_same
        });
    }
}

impl Copies {
    /// A copy has answered that a range does not match its checksums.
    pub(super) fn found_corrupt(&mut self, cx: &mut Cx<'_>, chunk: u32, copy: usize, (at, len): (u32, u32)) {
        self.counters.corrupt += 1;
        if self.current(chunk) & !bit(copy) == 0 {
            // Nothing to mend it with. It is found again when it is read.
            return self.tell_unreadable(cx, chunk, at / DIGEST_BLOCK_BYTES * DIGEST_BLOCK_BYTES);
        }
        self.remember_rot(cx, chunk, copy, (at, len));
    }

    /// A range of a copy does not match, and others are current: has it mended. False if too much is remembered already.
    pub(super) fn remember_rot(&mut self, cx: &mut Cx<'_>, chunk: u32, copy: usize, (at, len): (u32, u32)) -> bool {
        let member = self.member_of(chunk, copy);
        if cx.now >= self.tell_rot_at {
            self.tell_rot_at = cx.now + TELL_EVERY;
            let text =
                "its flash returned other bytes than were written; they are taken from another copy, and written again";
            cx.tell(Event::NodeWarning(cx.name(member), text.to_string()));
        }
        let block = DIGEST_BLOCK_BYTES;
        let (from, to) = (at / block * block, (at + len).next_multiple_of(block));
        if self.rot.len() >= CHUNKS_MAX && !self.rot.contains_key(&chunk) {
            return false;
        }
        let done = self.jobs.get(&chunk).filter(|job| job.goal == Goal::Mend).map_or(0, |job| job.range.1);
        let rot = self.rot.entry(chunk).or_default();
        let ranges = if from < done { &mut rot.missed } else { &mut rot.ranges };
        let known = ranges.iter().position(|range| (range.0, range.1) == (from, to));
        if let Some(range) = known.and_then(|at| ranges.get_mut(at)) {
            range.2 |= bit(copy);
        } else if ranges.len() < RANGES_MAX {
            ranges.push((from, to, bit(copy)));
            ranges.sort_unstable();
        } else {
            return false;
        }
        self.mend(cx, chunk);
        self.look_at(cx.now + PAUSE);
        true
    }

    /// Begins to mend a chunk, if copies are there to do it with.
    fn mend(&mut self, cx: &mut Cx<'_>, chunk: u32) {
        let is_due = self.rot.get(&chunk).is_some_and(|rot| cx.now >= rot.try_at);
        if !is_due || self.is_on_hold(chunk) || self.jobs.contains_key(&chunk) || self.heals.contains_key(&chunk) {
            return;
        }
        if let Some(rot) = self.rot.get_mut(&chunk) {
            rot.try_at = cx.now + PAUSE;
        }
        let current = self.current(chunk);
        if let Some(rot) = self.rot.get_mut(&chunk) {
            rot.take_missed();
            rot.keep_of(current);
        }
        if current.count_ones() < 2 || self.corrupt_of(chunk) == 0 {
            // Nothing to mend it with: it is found again when it is read. Or the copies are behind by now: a resync writes them anew.
            return self.forget_rot(chunk);
        }
        let present = self.usable_of(cx, chunk, current);
        if present.count_ones() < 2 || self.corrupt_of(chunk) & present == 0 {
            return;
        }
        let Some(source) = each(present).next() else { return };
        self.begin_job(cx, chunk, Goal::Mend, source, present & !bit(source));
    }

    /// Begins to mend chunks whose time has come.
    pub(super) fn search_rot(&mut self, cx: &mut Cx<'_>) {
        for chunk in self.rot.keys().copied().collect::<Vec<_>>() {
            if self.jobs.len() >= super::search::JOBS_MAX {
                return;
            }
            self.mend(cx, chunk);
        }
    }

    /// Where a job that mends goes on after `done`: the rest of the next range. At the end of the last it is empty.
    pub(super) fn next_rot(&self, chunk: u32, done: u32) -> (u32, u32) {
        let ranges = self.rot.get(&chunk).map(|rot| rot.ranges.as_slice()).unwrap_or_default();
        let next = ranges.iter().find(|range| range.1 > done);
        next.map_or((u32::MAX, u32::MAX), |range| (range.0.max(done), range.1))
    }

    /// The copies of a chunk that are known to be corrupt somewhere.
    pub(super) fn corrupt_of(&self, chunk: u32) -> u8 {
        self.rot.get(&chunk).map_or(0, |rot| rot.ranges.iter().fold(0, |mask, range| mask | range.2))
    }

    /// All ranges were gone through. Those of copies that were away are kept until they are back.
    pub(super) fn end_mend(&mut self, cx: &mut Cx<'_>, chunk: u32) {
        let mended = self.jobs.remove(&chunk).map_or(0, |job| job.targets | bit(job.source));
        let away = self.current(chunk) & !mended;
        if let Some(rot) = self.rot.get_mut(&chunk) {
            rot.keep_of(away);
            if rot.ranges.is_empty() {
                rot.try_at = cx.now;
            }
            rot.take_missed();
            if rot.ranges.is_empty() {
                self.forget_rot(chunk);
            }
        }
        self.unlock(cx, chunk);
        self.forget_if_idle(chunk);
        self.look_at(cx.now);
    }

    /// A copy of a chunk lies elsewhere now, and was proven there.
    pub(super) fn forget_rot_of(&mut self, chunk: u32, copy: usize) {
        if let Some(rot) = self.rot.get_mut(&chunk) {
            rot.take_missed();
            rot.keep_of(!bit(copy));
            if rot.ranges.is_empty() {
                self.forget_rot(chunk);
            }
        }
    }

    /// A chunk's corrupt blocks are left until they are found again.
    pub(super) fn forget_rot(&mut self, chunk: u32) {
        self.rot.remove(&chunk);
    }

    /// The source of a copy is corrupt, and the block cannot be rescued: a node knows no marks, or a copy that would be given up may be the only one
    /// that has it. Another current copy has to mend the source first.
    pub(super) fn source_is_corrupt(&mut self, cx: &mut Cx<'_>, chunk: u32) {
        let Some((source, range)) = self.jobs.get(&chunk).map(|job| (job.source, job.range)) else { return };
        let others = self.current(chunk) & !bit(source) & !self.corrupt_of(chunk);
        if self.usable_of(cx, chunk, others) == 0 {
            self.move_unreadable(chunk);
        }
        self.give_up(cx, chunk);
        let has_others = self.current(chunk).count_ones() > 1;
        self.stuck_for(cx, chunk, if has_others { PAUSE } else { STUCK_FOR });
        self.found_corrupt(cx, chunk, source, (range.0, range.1 - range.0));
    }

    /// No resync of a chunk is begun for so long.
    pub(super) fn stuck_for(&mut self, cx: &Cx<'_>, chunk: u32, time: Duration) {
        let until = self.stuck.entry(chunk).or_default();
        *until = (*until).max(cx.now + time);
    }

    /// Whether copies of a chunk cannot be made equal for now: a job failed, or their only source is corrupt.
    pub(super) fn is_stuck(&mut self, cx: &Cx<'_>, chunk: u32) -> bool {
        if self.heals.contains_key(&chunk) {
            // Clients wait for another job.
            return true;
        }
        let is_stuck = self.stuck.get(&chunk).is_some_and(|&until| cx.now < until);
        if !is_stuck {
            self.stuck.remove(&chunk);
        }
        is_stuck
    }
}
