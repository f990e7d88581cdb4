//! Settling: a chunk that is idle, and whose current copies are all permanent, is no longer open.

use super::{Copies, Cx, Inner, each};
use crate::copies::Marks;
use crate::op::{Op, OpFlags};
use crate::planted::{self, Bug};
use crate::units::Time;

impl Copies {
    /// Settles the chunks that can be, and has members flushed on which others wait. Returns when to look again.
    pub(super) fn settle(&mut self, cx: &mut Cx<'_>) -> Option<Time> {
        let mut next: Option<Time> = None;
        let mut dirty: Vec<u16> = Vec::new();
        for chunk in self.chunks.keys().copied().collect::<Vec<_>>() {
            let Some(state) = self.chunks.get(&chunk) else { continue };
            let marks = self.image.marks(chunk);
            if !marks.is_open || self.is_on_hold(chunk) || self.jobs.contains_key(&chunk) {
                continue;
            }
            let is_busy = !state.changes.is_empty() || state.is_waited_for() || !self.log.is_durable(state.marks_seq);
            if is_busy && !planted::is(Bug::SettledInFlight) {
                continue;
            }
            let at = state.used + self.settle_after;
            if cx.now < at {
                next = Some(next.map_or(at, |next| next.min(at)));
                continue;
            }
            let sync_after = state.sync_after;
            let unsynced: Vec<u16> = each(self.current(chunk))
                .filter(|&copy| {
                    let node = cx.node(self.member_of(chunk, copy));
                    cx.queues[node].clean_before() <= sync_after[copy] && !planted::is(Bug::SettledWithoutSync)
                })
                .map(|copy| self.member_of(chunk, copy))
                .collect();
            if unsynced.is_empty() {
                self.counters.settled += 1;
                self.lately.note(cx.now, chunk);
                self.reopened.remove(&chunk);
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

    /// A member has flushed, or failed to.
    pub(super) fn synced(&mut self, cx: &mut Cx<'_>, member: u16, is_ok: bool) {
        let Some(state) = self.members.get_mut(usize::from(member)) else { return };
        state.sync = None;
        if !is_ok {
            state.sync_again = cx.now + self.settle_after;
        }
        self.look_at(cx.now);
    }
}
