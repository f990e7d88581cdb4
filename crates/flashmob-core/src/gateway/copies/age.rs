//! How old extents are known to be, so that an older state of one is noticed that comes back, with or without its identity.
//!
//! An extent's age is the last state of the map that its mirror had durably, stored with its checksums (`node/mirror.rs`). While clients change the
//! volume, all mirrors get a state durably once in a while, though nothing waits for it: so each extent grows older, and what was copied from it
//! before is told from it. The map records how old each one is known to be, for the next start of the gateway, a period later.

use super::{Copies, Cx};
use crate::copies::Record;
use crate::units::{Time, bring_forward};
use crate::wire::mirror::MirrorState;

/// When extents are to grow older.
#[derive(Debug, Default)]
pub struct Ages {
    /// Something was changed since they did.
    is_changed: bool,
    /// The last decision that they had then.
    last: u64,
    due: Option<Time>,
}

impl Copies {
    /// A change is sent: what was copied from its extents before is older from now on.
    pub(super) fn note_change(&mut self, cx: &Cx<'_>) {
        if !self.ages.is_changed {
            self.ages.is_changed = true;
            let at = cx.now + self.settle_after;
            bring_forward(&mut self.ages.due, at);
            self.look_at(at);
        }
    }

    /// Has extents grow older if that is due, and records how old they are known to be. Returns when to look again.
    pub(super) fn grow_older(&mut self, cx: &Cx<'_>) -> Option<Time> {
        if self.log.wanted() != self.ages.last && self.ages.due.is_none() {
            self.ages.due = Some(cx.now + self.settle_after);
        }
        if self.ages.due.is_none_or(|due| cx.now < due) {
            return self.ages.due;
        }
        if self.log.trouble().is_some() {
            self.ages.due = Some(cx.now + self.settle_after);
            return self.ages.due;
        }
        self.ages.due = None;
        let is_news = std::mem::take(&mut self.ages.is_changed) || self.log.wanted() != self.ages.last;
        if self.mirrors.keepers().next().is_some() {
            if !self.record_ages() && is_news {
                self.record_age_again();
            }
            // The last time, too: so there is something to record the next time, and mirrors get that.
            self.mirrors.have_durably(self.log.wanted());
            if is_news {
                // What they confirm is recorded then.
                self.ages.due = Some(cx.now + self.settle_after);
            }
        }
        self.ages.last = self.log.wanted();
        self.ages.due
    }

    /// Returns whether there was something to record.
    fn record_ages(&mut self) -> bool {
        let before = self.log.wanted();
        // At most MEMBERS_MAX.
        for member in 0..self.members.len() as u16 {
            let known = self.image.members().get(usize::from(member)).and_then(|known| known.seen);
            let age = self.members[usize::from(member)].age.filter(|age| Some(*age) > known);
            if let Some((epoch, version)) = age {
                self.decide(Record::Seen { member, epoch, version });
            }
        }
        self.log.wanted() != before
    }

    /// Mirrors may have all that was decided, though not durably, and get nothing more then: one age is recorded once more, which they get durably.
    fn record_age_again(&mut self) {
        let seen = self.image.members().iter().map(|known| known.seen);
        let of = |(member, (state, seen)): (u16, (&super::Member, Option<_>))| {
            seen.filter(|_| state.keeps_age).map(|seen| (member, seen))
        };
        if let Some((member, (epoch, version))) = (0..).zip(self.members.iter().zip(seen)).find_map(of) {
            self.decide(Record::Seen { member, epoch, version });
        }
    }

    /// A node has a state of the map durably in its mirror.
    pub(super) fn note_age(&mut self, member: u16, state: MirrorState) {
        if let Some(known) = self.members.get_mut(usize::from(member)).filter(|known| known.keeps_age) {
            known.age = known.age.max(Some(state.age()));
        }
    }
}
