//! Making copies equal: after a crash of the gateway, and for copies that are behind.
//!
//! The ranges of a job that *mends* are those in which a copy was found not to match its checksums ([`super::mend`]).
//!
//! A job ([`super::jobs`]) that *compares* makes the current copies of a chunk in doubt equal, and all requests to the chunk wait for it. It asks
//! first where there is anything: ranges that are holes on all copies are equal. One that *resyncs* makes copies current that are behind: in the end they
//! are flushed, and their mark is cleared.

use super::change::At;
use super::jobs::{Goal, Step};
use super::log::Waiter;
use super::mend::PAUSE;
use super::{Copies, Cx, PLACES_MAX, bit, each};
use crate::copies::Marks;
use crate::op::{Failure, Op, OpFlags};
use crate::planted::{self, Bug};

impl Copies {
    /// All ranges are equal.
    pub(super) fn finish_job(&mut self, cx: &mut Cx<'_>, chunk: u32) {
        let Some(job) = self.jobs.get_mut(&chunk) else { return };
        let (goal, targets) = (job.goal, job.targets);
        match goal {
            Goal::Mend => return self.end_mend(cx, chunk),
            Goal::Heal => return self.end_heal(cx, chunk),
            Goal::Scrub => {
                self.scrub.last_job = self.jobs.remove(&chunk).map(|job| job.serial);
                self.unlock(cx, chunk);
                return self.forget_if_idle(chunk);
            }
            Goal::Compare => {
                self.set_step(chunk, Step::Commit);
                let seq = self.marks_seq(chunk);
                if self.log.is_durable(seq) {
                    return self.end_compare(cx, chunk);
                }
                return self.log.wait(seq, Waiter::Job(chunk));
            }
            Goal::Resync | Goal::Move => {}
        }
        let state = self.chunks.entry(chunk).or_default();
        if state.voided & targets != 0 || state.joined & targets != targets {
            return self.give_up(cx, chunk);
        }
        // From now on changes wait for them.
        state.decided |= targets;
        self.set_step(chunk, Step::Flush);
        if goal == Goal::Move && planted::is(Bug::MovedUnflushed) {
            return self.end_move(cx, chunk);
        }
        for copy in each(targets) {
            self.ask(cx, chunk, copy, (Op::Flush, OpFlags::NONE), (0, 0), Vec::new());
        }
    }

    fn end_compare(&mut self, cx: &mut Cx<'_>, chunk: u32) {
        self.jobs.remove(&chunk);
        self.counters.compared += 1;
        self.doubt.remove(&chunk);
        let marks = self.image.marks(chunk);
        self.mark(chunk, Marks { is_torn: false, ..marks });
        // What the copies have may not be permanent.
        let serials = self.serials(cx, chunk);
        let state = self.chunks.entry(chunk).or_default();
        (state.lock, state.sync_after, state.used) = (None, serials, cx.now);
        self.release(cx, chunk);
        self.look_at(cx.now);
    }

    /// The last serial of the queue of each copy's node.
    fn serials(&self, cx: &Cx<'_>, chunk: u32) -> [u64; PLACES_MAX] {
        let mut serials = [0; PLACES_MAX];
        for (copy, place) in self.image.places(chunk).iter().enumerate() {
            serials[copy] = cx.queues[cx.node(place.member)].last_serial();
        }
        serials
    }

    /// The targets have what the source has, permanently: they are current.
    pub(super) fn clear_behind(&mut self, cx: &mut Cx<'_>, chunk: u32) {
        let Some(job) = self.jobs.get(&chunk) else { return };
        let targets = job.targets;
        let state = self.chunks.entry(chunk).or_default();
        if state.voided & targets != 0 || state.decided & targets != targets {
            return self.give_up(cx, chunk);
        }
        if job.goal == Goal::Move {
            return self.end_move(cx, chunk);
        }
        let Some(job) = self.jobs.remove(&chunk) else { return };
        self.counters.resynced += 1;
        self.pace.made(cx.now, targets.count_ones(), job.pieces.cost_bytes);
        let marks = self.image.marks(chunk);
        let seq = self.mark(chunk, Marks { behind: marks.behind & !job.targets, ..marks });
        if !self.flushes.is_empty() {
            // One may wait until enough copies are current.
            self.log.wait(seq, Waiter::Flushes);
        }
        self.leave(chunk, targets);
        for place in self.chunks.get(&chunk).map(|c| c.changes.clone()).unwrap_or_default() {
            if let Some(change) = self.changes.get_mut(place) {
                for copy in each(targets) {
                    if change.copies[copy] != At::Sent {
                        change.copies[copy] = At::Done;
                    }
                }
            }
        }
        self.unlock(cx, chunk);
        self.review_chunk(cx, chunk);
        self.forget_if_idle(chunk);
        self.look_at(cx.now);
    }

    /// A copy has failed a piece of a job.
    pub(super) fn job_failed(&mut self, cx: &mut Cx<'_>, chunk: u32, copy: usize, failure: Failure) {
        let Some(job) = self.jobs.get(&chunk) else { return };
        self.counters.failed_copies += 1;
        let (goal, left) = (job.goal, self.current(chunk) & !bit(copy));
        if matches!(job.step, Step::Flush) {
            self.flush_failed(cx, self.member_of(chunk, copy));
        }
        // A node that shuts down comes back.
        let is_at_fault = failure != Failure::ShuttingDown;
        if goal == Goal::Mend && failure != Failure::Corrupt && is_at_fault {
            // A copy that cannot be read or written is found out by what clients do.
            self.forget_rot(chunk);
        }
        if goal == Goal::Compare && is_at_fault && left != 0 {
            self.fall_behind(chunk, bit(copy));
            self.give_up(cx, chunk);
            return self.compare_soon(cx, chunk);
        }
        if goal == Goal::Move {
            self.move_failed(cx, chunk, copy, failure);
        }
        self.give_up(cx, chunk);
        if goal.is_copying() {
            self.stuck_for(cx, chunk, PAUSE);
        }
        self.look_at(cx.now + PAUSE);
    }

    /// What a job waited for is durable.
    pub(super) fn job_durable(&mut self, cx: &mut Cx<'_>, chunk: u32) {
        if self.jobs.get(&chunk).is_some_and(|job| job.goal == Goal::Compare && matches!(job.step, Step::Commit)) {
            self.end_compare(cx, chunk);
        }
    }
}
