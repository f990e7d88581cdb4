//! Decisions: recorded, durable in the map and in mirrors, and then let go what waited for them.

use std::time::Duration;

use super::log::Waiter;
use super::{Copies, Cx};
use crate::copies::{Marks, Record};
use crate::op::Failure;
use crate::planted::{self, Bug};

/// How long is waited after a start for nodes that may keep a mirror, while none that is there does.
const MIRROR_PATIENCE: Duration = Duration::from_secs(60);

impl Copies {
    /// Records a decision. Returns the number after which it is durable.
    pub(super) fn decide(&mut self, record: Record) -> u64 {
        self.note_counts(&record);
        let is_held = self.is_held(&record);
        match &record {
            Record::Marks { first_chunk, count, marks } => self.limit_kept_of(*first_chunk, *count, marks.behind),
            Record::Moved { chunk, copy, .. } => self.forget_kept_copy(*chunk, usize::from(*copy)),
            _ => {}
        }
        match self.image.apply(&record) {
            Ok(()) => self.log.push(record, is_held),
            Err(error) => {
                debug_assert!(false, "{error}: {record:?}");
                self.log.wanted()
            }
        }
    }

    /// Whether mirrors must have a record before it takes effect: without it, a copy would be believed that lacks something, or a loss would not be
    /// told. Whoever recovers the map takes all chunks for open.
    fn is_held(&self, record: &Record) -> bool {
        match record {
            Record::Marks { first_chunk, count: 1, marks } => {
                let now = self.image.marks(*first_chunk);
                let is_torn = marks.is_torn && !now.is_torn;
                is_torn || (marks.behind & !now.behind) | (marks.doubtful & !now.doubtful) != 0
            }
            // Without it, the old place would be believed, which others may use by then.
            Record::Moved { .. } => true,
            Record::Marks { .. } | Record::Loss { .. } | Record::Extent { .. } => true,
            // Without them, what clients have written there would be lost.
            Record::Places { .. } | Record::Shown { .. } => true,
            // Without it, chunks that are gone would be believed to lie where others do by then.
            Record::Shrunk { .. } => true,
            // Without it, what was copied to the member meanwhile would be taken for somebody else's.
            Record::Joining { .. } => true,
            // Without it, a device would seem to have restarted that has not: with one that has, all copies would seem to have lost power.
            Record::Boot { .. } => true,
            _ => false,
        }
    }

    /// Sets a chunk's marks, if they differ. Returns the number after which they are durable.
    pub(super) fn mark(&mut self, chunk: u32, marks: Marks) -> u64 {
        let before = self.image.marks(chunk);
        if before != marks {
            self.note_behind(chunk, before.behind, marks.behind);
            let seq = self.decide(Record::Marks { first_chunk: chunk, count: 1, marks });
            self.chunks.entry(chunk).or_default().marks_seq = seq;
            if marks.doubtful == 0 {
                self.doubtful.remove(&chunk);
            } else {
                self.doubtful.insert(chunk);
            }
        }
        self.marks_seq(chunk)
    }

    /// A chunk's marks are durable from this number on.
    pub(super) fn marks_seq(&self, chunk: u32) -> u64 {
        self.chunks.get(&chunk).map_or(0, |c| c.marks_seq).max(self.bulk_seq)
    }

    /// Declares copies of a chunk behind: they lack something. Returns the number after which that is durable.
    pub(super) fn fall_behind(&mut self, chunk: u32, copies: u8) -> u64 {
        let marks = self.image.marks(chunk);
        let news = copies & !marks.behind;
        self.counters.evicted_copies += u64::from(news.count_ones());
        if self.jobs.get(&chunk).is_some_and(|job| job.copies() & news != 0) {
            self.void_jobs.insert(chunk);
        }
        self.mark(chunk, Marks { behind: marks.behind | copies, doubtful: marks.doubtful & !copies, ..marks })
    }

    /// Ends the jobs that have lost a copy that they worked with. Call it after each event.
    pub(super) fn end_void_jobs(&mut self, cx: &mut Cx<'_>) {
        while let Some(chunk) = self.void_jobs.pop_first() {
            self.give_up(cx, chunk);
        }
    }

    /// Decisions up to this number are durable, or the batch failed.
    pub fn committed(&mut self, cx: &mut Cx<'_>, number: u64, result: Result<(), Failure>) {
        let result = if planted::is(Bug::RefusedCommitBelieved) { Ok(()) } else { result };
        self.mirrors.committed(cx.now, result.is_ok());
        match result {
            Ok(()) => {
                self.log.committed(number);
                self.take_effect(cx);
            }
            Err(failure) => {
                self.retry_at = cx.now + Duration::from_secs(1);
                self.look_at(self.retry_at);
                // It refuses them.
                for launch in self.log.failed(failure) {
                    self.wake(cx, launch);
                }
            }
        }
    }

    /// Whether mirrors have all that the map had at the start. If the map were lost before, what it says of slots and chunks would be others' again.
    pub(super) fn is_mirrored(&self) -> bool {
        self.inherited.is_none()
    }

    /// Looks whether that is so by now: a mirror has it, or nobody keeps one. `reached`: what decisions wait for.
    fn note_mirrored(&mut self, cx: &mut Cx<'_>, reached: u64) {
        let Some(version) = self.inherited else { return };
        let is_used =
            |member: &u16| !self.image.is_gone(*member) && !self.image.is_joining(*member) && !self.is_out(*member);
        // At most MEMBERS_MAX.
        let mut used = (0..self.members.len() as u16).filter(is_used).peekable();
        let is_any = used.peek().is_some();
        let are_all_there = is_any && used.all(|member| cx.is_linked(member));
        // Those that are away might keep one. They are not waited for without end.
        let is_late = cx.now - self.unstalled_since >= MIRROR_PATIENCE
            && (0..self.members.len() as u16).any(|member| cx.is_linked(member));
        if self.mirrors.have(version) || reached == u64::MAX && (are_all_there || is_late) {
            self.inherited = None;
            self.resume_growth(cx);
        }
    }

    /// Lets go what waited for decisions that are durable now.
    pub(super) fn take_effect(&mut self, cx: &mut Cx<'_>) {
        let mirrored = self.mirrors.reached(|member| self.is_out(member), |member| cx.is_linked(member));
        self.note_mirrored(cx, mirrored);
        for waiter in self.log.release(mirrored) {
            self.wake(cx, waiter);
        }
    }

    fn wake(&mut self, cx: &mut Cx<'_>, waiter: Waiter) {
        match waiter {
            Waiter::Launch(chunk) => self.launch_waiting(cx, chunk),
            Waiter::Review(chunk) => self.review_chunk(cx, chunk),
            Waiter::Member(member) => self.usable(cx, member),
            Waiter::Flushes => self.review_flushes(cx),
            Waiter::Job(chunk) => self.job_durable(cx, chunk),
            Waiter::Freed => self.look_at_freed(cx),
            Waiter::Grown => self.show_chunks(cx),
        }
    }
}
