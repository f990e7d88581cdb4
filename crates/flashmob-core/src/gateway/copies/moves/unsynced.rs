//! Free slots that were cleared, or found to be holes, though their flash may not have written that: after a loss of power they have their old bytes again.
//!
//! A copy that is made there is proven and flushed, so it may take such a slot. A new chunk of a volume that grows may not: clients would find in it what
//! another chunk had, once all of its copies have lost power.

use std::collections::BTreeSet;

use super::super::{Copies, Cx};
use crate::copies::Place;
use crate::planted::{self, Bug};

impl Copies {
    /// Whether a slot may have a new chunk.
    pub(in super::super) fn takes_chunk(&self, cx: &Cx<'_>, member: u16, slot: u32) -> bool {
        let is_early = planted::is(Bug::GrownIntoQuarantine) && self.moves.freed.contains_key(&(member, slot));
        is_early || self.is_free(member, slot) && self.is_synced(cx, (member, slot))
    }

    /// Whether a slot that was cleared is so permanently.
    fn is_synced(&self, cx: &Cx<'_>, (member, slot): (u16, u32)) -> bool {
        let cleared = self.moves.unsynced.get(&(member, slot));
        cleared.is_none_or(|&last| cx.queues[cx.node(member)].clean_before() > last) || planted::is(Bug::GrownUnsynced)
    }

    /// A slot has only zeros, or that failed.
    pub(super) fn note_cleared(&mut self, cx: &Cx<'_>, place: Place, is_ok: bool) {
        let key = (place.member, place.slot);
        if is_ok {
            self.moves.unsynced.insert(key, cx.queues[cx.node(place.member)].last_change());
        } else {
            self.moves.unsynced.remove(&key);
        }
    }

    /// Whether the free slots of a member were looked through, and what was found is permanent.
    pub(in super::super) fn is_searched_for_good(&self, cx: &Cx<'_>, member: u16) -> bool {
        self.is_searched(member) && !self.has_unsynced_search(cx, member)
    }

    /// Whether holes that were found on a member may be those of a former gateway that its flash has not written.
    fn has_unsynced_search(&self, cx: &Cx<'_>, member: u16) -> bool {
        let clean_before = cx.queues[cx.node(member)].clean_before();
        let ended = self.moves.searches.get(usize::from(member)).and_then(|search| search.ended);
        let is_unsynced = ended.is_some_and(|ended| clean_before <= ended);
        is_unsynced && !self.keeps_bytes(member) && !planted::is(Bug::GrownUnsynced)
    }

    /// A member that is not closed, and has a slot that may not be permanently clear.
    pub(in super::super) fn unsynced_slot(&self, cx: &Cx<'_>, closed: &BTreeSet<u16>) -> Option<u16> {
        let open = self.moves.unsynced.keys().filter(|(member, _)| !closed.contains(member));
        open.copied().find(|&key| !self.is_synced(cx, key)).map(|(member, _)| member)
    }

    /// Members that are to be flushed for it: those that were looked through, or all of whose slots in quarantine were cleared.
    pub(in super::super) fn members_to_sync(&mut self, cx: &Cx<'_>) -> Vec<u16> {
        let mut unsynced = std::mem::take(&mut self.moves.unsynced);
        unsynced.retain(|&key, last| cx.queues[cx.node(key.0)].clean_before() <= *last);
        let cleared: BTreeSet<u16> = unsynced.keys().map(|(member, _)| *member).collect();
        self.moves.unsynced = unsynced;
        let is_quarantined = |member: u16| self.moves.freed.range((member, 0)..=(member, u32::MAX)).next().is_some();
        let is_wanted = |&member: &u16| {
            !self.image.is_gone(member)
                && self.is_searched(member)
                && (self.has_unsynced_search(cx, member) || cleared.contains(&member))
                && !is_quarantined(member)
                && !planted::is(Bug::GrownUnsynced)
        };
        // At most MEMBERS_MAX.
        (0..self.members.len() as u16).filter(is_wanted).collect()
    }
}
