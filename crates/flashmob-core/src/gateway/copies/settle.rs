//! Settling: a chunk that is idle, and whose current copies are all permanent, is no longer open.
//!
//! If more chunks are open than there may be, the longest idle ones settle early. No change waits for that.

use std::time::Duration;

use super::jobs::Job;
use super::log::Waiter;
use super::mend::PAUSE;
use super::{Copies, Cx, Inner, bit, each};
use crate::copies::Marks;
use crate::gateway::Event;
use crate::op::{Failure, Op, OpFlags};
use crate::planted::{self, Bug};
use crate::units::Time;

/// With more chunks in use they are looked at now and then only.
const FEW_CHUNKS: usize = 256;

/// How many chunks are to be settled early. A quarter of those that may be open at a time, so that one flush of each member serves many.
fn surplus(open: usize, open_max: usize) -> usize {
    if open > open_max { open - open_max / 4 * 3 } else { 0 }
}

/// The owner is told again of a device that fails flushes after so long.
const TELL_AGAIN: Duration = Duration::from_secs(600);

impl Copies {
    /// Settles the chunks that can be, and has members flushed on which others wait. Returns when to look again.
    pub(super) fn settle(&mut self, cx: &mut Cx<'_>) -> Option<Time> {
        // It looks at all chunks in use, and is called in each turn while something is under way.
        if cx.now < self.settle_again {
            return Some(self.settle_again);
        }
        if self.chunks.len() > FEW_CHUNKS {
            self.settle_again = cx.now + super::watch::WATCH_INTERVAL;
        }
        self.forget_settled();
        let mut next: Option<Time> = None;
        let mut dirty = self.members_to_sync(cx);
        let (open, idle) = self.open_and_idle();
        let early = if planted::is(Bug::OpenUnbounded) { 0 } else { surplus(open, self.open_max) };
        for (place, (used, chunk)) in idle.into_iter().enumerate() {
            let at = used + self.settle_after;
            if cx.now < at && place >= early {
                // The others were used later.
                next = Some(at);
                break;
            }
            let Some(state) = self.chunks.get(&chunk) else { continue };
            let (marks, sync_after) = (self.image.marks(chunk), state.sync_after);
            // A change under way is behind no flush either.
            let is_forced = planted::is(Bug::SettledInFlight) && !state.changes.is_empty()
                || planted::is(Bug::SettledEarlyUnsynced) && cx.now < at;
            let unsynced: Vec<u16> = each(self.current(chunk))
                .filter(|&copy| {
                    let node = cx.node(self.member_of(chunk, copy));
                    cx.queues[node].clean_before() <= sync_after[copy]
                        && !is_forced
                        && !planted::is(Bug::SettledWithoutSync)
                })
                .map(|copy| self.member_of(chunk, copy))
                .collect();
            if unsynced.is_empty() {
                self.counters.settled += 1;
                self.lately.note(cx.now, chunk);
                self.reopened.remove(&chunk);
                self.counters.settled_early += u64::from(cx.now < at);
                self.mark(chunk, Marks { is_open: false, ..marks });
                self.forget_if_idle(chunk);
            } else {
                dirty.extend(unsynced);
            }
        }
        dirty.sort_unstable();
        dirty.dedup();
        for member in dirty {
            let state = &self.members[usize::from(member)];
            if state.sync.is_some() || !self.is_usable(cx, member) {
                continue;
            }
            if cx.now < state.sync_again {
                next = Some(next.map_or(state.sync_again, |next| next.min(state.sync_again)));
                continue;
            }
            let key = self.insert_inner(cx, Inner::Sync { member }, Op::Flush, OpFlags::NONE, Vec::new());
            self.members[usize::from(member)].sync = Some(key);
            self.send(cx, key, member, (Op::Flush, OpFlags::NONE), (0, 0));
        }
        next
    }

    /// Forgets the state of chunks that were settled, once that is durable.
    fn forget_settled(&mut self) {
        let settled = self.chunks.iter().filter(|(chunk, state)| state.is_idle() && !self.image.marks(**chunk).is_open);
        for chunk in settled.map(|(&chunk, _)| chunk).collect::<Vec<_>>() {
            self.forget_if_idle(chunk);
        }
    }

    /// How many chunks in use are open, and those of them that may be settled with when they were last used: the longest idle first.
    fn open_and_idle(&self) -> (usize, Vec<(Time, u32)>) {
        let (mut open, mut idle) = (0, Vec::new());
        for (&chunk, state) in &self.chunks {
            if !self.image.marks(chunk).is_open {
                continue;
            }
            open += 1;
            let is_busy = !state.changes.is_empty() || state.is_waited_for() || !self.log.is_durable(state.marks_seq);
            let may_settle = !is_busy || planted::is(Bug::SettledInFlight);
            if may_settle && !self.is_on_hold(chunk) && !self.jobs.contains_key(&chunk) {
                idle.push((state.used, chunk));
            }
        }
        idle.sort_unstable();
        (open, idle)
    }

    /// A member has flushed, or failed to.
    pub(super) fn synced(&mut self, cx: &mut Cx<'_>, member: u16, result: Result<(), Failure>) {
        let Some(state) = self.members.get_mut(usize::from(member)) else { return };
        state.sync = None;
        if result.is_err() {
            state.sync_again = cx.now + self.settle_after;
        }
        // A node that shuts down comes back.
        if let Err(Failure::Io | Failure::NoSpace) = result {
            self.counters.failed_copies += 1;
            self.flush_failed(cx, member);
            self.settle_without(cx, member);
            self.members[usize::from(member)].sync_again = cx.now + PAUSE;
        }
        self.look_at(cx.now);
    }

    /// Declares a member behind in the open chunks of which another copy is there: they could not be settled with it, and more would be
    /// opened. The others stay open.
    fn settle_without(&mut self, cx: &Cx<'_>, member: u16) {
        for (chunk, copy) in self.image.chunks_of(member).collect::<Vec<_>>() {
            let left = self.current(chunk) & !bit(copy);
            // Members that are away and were not asked anything are not out.
            let is_any_there = self.usable_of(cx, chunk, left) != 0;
            let is_held = self.image.marks(chunk).is_open && self.current(chunk) & bit(copy) != 0;
            if is_held && is_any_there && left.count_ones() as usize >= self.min_current {
                let seq = self.fall_behind(chunk, bit(copy));
                self.log.wait(seq, Waiter::Review(chunk));
            }
        }
    }

    /// A member's device fails flushes, and may for long: nothing is copied to it for a while.
    pub(super) fn flush_failed(&mut self, cx: &mut Cx<'_>, member: u16) {
        self.note_failed(cx);
        self.forget_kept(member);
        let until = cx.now + self.settle_after;
        let Some(state) = self.members.get_mut(usize::from(member)) else { return };
        state.has_failed_flush = true;
        state.calm_until = state.calm_until.max(until);
        if cx.now >= state.tell_flush_at {
            state.tell_flush_at = cx.now + TELL_AGAIN;
            let text = "its device fails flushes; its copies fall behind where others are left. See its log: replace the device, or make room on it and restart the node";
            cx.tell(Event::NodeWarning(cx.name(member), text.to_string()));
        }
        let is_target = |(&chunk, job): (&u32, &Job)| {
            let copy = self.copy_on(chunk, member).filter(|_| job.goal.is_copying());
            copy.is_some_and(|copy| job.targets & bit(copy) != 0).then_some(chunk)
        };
        for chunk in self.jobs.iter().filter_map(is_target).collect::<Vec<_>>() {
            self.give_up(cx, chunk);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::surplus;

    #[test]
    fn a_quarter_is_settled_once_there_are_too_many() {
        assert_eq!([0, 99, 100, 101, 200].map(|open| surplus(open, 100)), [0, 0, 0, 26, 125]);
        assert_eq!([0, 1, 2].map(|open| surplus(open, 1)), [0, 0, 2], "one that is used lately is settled too");
    }
}
