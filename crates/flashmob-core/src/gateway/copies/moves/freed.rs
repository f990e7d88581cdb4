//! Slots that a copy has left, or was not made in: when they may be used again.
//!
//! A slot is in *quarantine* until the new place is durable, and everything was answered or fenced that was sent to the old one: an answer from there
//! would be taken for one of the chunk that left, with the bytes of the chunk that came. Then its bytes are given back to the flash.

use std::collections::BTreeSet;
use std::ops::Range;

use super::super::{Copies, Cx, Inner};
use crate::copies::Place;
use crate::gateway::Event;
use crate::gateway::state::RequestKey;
use crate::op::{Failure, Op, OpFlags};
use crate::planted::{self, Bug};

/// Slots of a member that are looked at at a time: after a volume has shrunk there are many.
const LOOKED_AT_MAX: usize = 64;

/// To give back a slot is to the lane like copying so many bytes.
const CLEARED_COST_BYTES: u32 = 4096;

/// A slot in quarantine.
#[derive(Debug)]
pub struct Freed {
    /// The decision that must be durable.
    after: u64,
    /// What makes its bytes zeros.
    clear: Option<RequestKey>,
}

impl Copies {
    /// Where a slot lies in its member's extent.
    pub(super) fn range_of(&self, place: Place) -> Range<u64> {
        let chunk_bytes = self.image.chunk_bytes();
        let from = u64::from(place.slot) * chunk_bytes;
        from..from + chunk_bytes
    }

    /// A slot is in quarantine from now on.
    pub(in super::super) fn free(&mut self, place: Place, after: u64) {
        self.moves.freed.insert((place.member, place.slot), Freed { after, clear: None });
        self.moves.tried.remove(&(place.member, place.slot));
    }

    /// Whether slots are in quarantine.
    pub(in super::super) fn has_freed(&self) -> bool {
        !self.moves.freed.is_empty()
    }

    /// Looks which slots may be used again: of each member those that were cleared, and the first ones of the others.
    pub(in super::super) fn look_at_freed(&mut self, cx: &mut Cx<'_>) {
        let mut next = 0;
        while let Some((&(member, _), _)) = self.moves.freed.range((next, 0)..).next() {
            self.look_at_tried(cx, member);
            self.look_at_untried(cx, member);
            let Some(after) = member.checked_add(1) else { return };
            next = after;
        }
    }

    /// Whether nothing that was sent to a slot is under way, and the chunk that left it is elsewhere durably.
    fn may_go(&self, cx: &Cx<'_>, place: Place, freed: &Freed) -> bool {
        (self.log.is_durable(freed.after) || planted::is(Bug::SlotFreedBeforeCommit))
            && (!cx.is_addressed(place.member, self.range_of(place)) || planted::is(Bug::SlotReusedEarly))
    }

    fn look_at_tried(&mut self, cx: &Cx<'_>, member: u16) {
        let tried = self.moves.tried.range((member, 0)..=(member, u32::MAX));
        let over: Vec<(Place, bool)> = tried
            .map(|(&(member, slot), &is_clean)| (Place { member, slot }, is_clean))
            .filter(|(place, _)| {
                let freed = self.moves.freed.get(&(place.member, place.slot));
                freed.is_some_and(|freed| self.may_go(cx, *place, freed))
            })
            .collect();
        over.into_iter().for_each(|(place, is_clean)| self.let_go(place, is_clean));
    }

    fn look_at_untried(&mut self, cx: &mut Cx<'_>, member: u16) {
        let is_kept = !self.is_usable(cx, member) || self.keeps_bytes(member);
        if self.moves.clearing.contains(&member) && !is_kept {
            return;
        }
        let of_member = self.moves.freed.range((member, 0)..=(member, u32::MAX));
        let untried = of_member.filter(|(key, freed)| freed.clear.is_none() && !self.moves.tried.contains_key(key));
        let first = untried.take(LOOKED_AT_MAX).map(|(&(member, slot), freed)| (Place { member, slot }, freed));
        let mut over = first.filter(|(place, freed)| self.may_go(cx, *place, freed)).map(|(place, _)| place);
        if !is_kept {
            if let Some(place) = over.next() {
                self.clear(cx, place);
            }
            return;
        }
        let over: Vec<Place> = over.collect();
        let is_any = !over.is_empty();
        over.into_iter().for_each(|place| self.let_go(place, false));
        if is_any {
            // There may be more.
            self.look_at(cx.now);
        }
    }

    /// A slot may be used again.
    fn let_go(&mut self, place: Place, is_clean: bool) {
        let Place { member, slot } = place;
        if !is_clean {
            self.search_again(member, slot);
        }
        self.moves.freed.remove(&(member, slot));
        self.moves.tried.remove(&(member, slot));
        let slots = self.slots.get_mut(usize::from(member));
        if let Some(chunk) = slots.and_then(|slots| slots.get_mut(slot as usize)) {
            *chunk = u32::MAX;
        }
    }

    /// Has the bytes of a slot given back, unless that has to wait.
    fn clear(&mut self, cx: &mut Cx<'_>, place: Place) {
        if let Err(at) = cx.lane.may_start(cx.now, 0, CLEARED_COST_BYTES) {
            return self.look_at(at);
        }
        let inner = Inner::Clear { member: place.member, slot: place.slot };
        let what = (Op::WriteZeroes, OpFlags::NONE);
        let key = self.insert_inner(cx, inner, what.0, what.1, Vec::new());
        let range = self.range_of(place);
        // At most CHUNK_BYTES_MAX.
        self.send(cx, key, place.member, what, (range.start, self.image.chunk_bytes() as u32));
        if let Some(freed) = self.moves.freed.get_mut(&(place.member, place.slot)) {
            freed.clear = Some(key);
            self.moves.clearing.insert(place.member);
        }
    }

    /// A slot has only zeros, or that failed.
    pub(in super::super) fn cleared(&mut self, cx: &mut Cx<'_>, place: Place, result: Result<(), Failure>) {
        self.moves.clearing.remove(&place.member);
        if let Some(freed) = self.moves.freed.get_mut(&(place.member, place.slot)) {
            freed.clear = None;
            self.moves.tried.insert((place.member, place.slot), result.is_ok());
            // Others may feel it, and it says nothing about how long copying takes.
            cx.lane.works(cx.now);
            self.note_cleared(cx, place, result.is_ok());
            self.counters.freed += u64::from(result.is_ok());
        }
        if let Err(failure) = result {
            self.end_search(cx, place.member, place.slot, failure);
        }
        self.look_at(cx.now);
    }

    /// A member has no link any more: its slots are not cleared.
    pub(in super::super) fn drop_clears(&mut self, cx: &mut Cx<'_>, member: u16) {
        self.drop_search(cx, member);
        self.moves.clearing.remove(&member);
        let of_member = self.moves.freed.range_mut((member, 0)..=(member, u32::MAX));
        let out = of_member.filter_map(|(place, freed)| Some((*place, freed.clear.take()?)));
        for (place, key) in out.collect::<Vec<_>>() {
            self.moves.tried.insert(place, false);
            self.remove_inner(cx, key);
            cx.has_dead_pieces = true;
        }
    }

    /// Tells the owner of members that have no copies any more.
    pub(super) fn tell_empty(&mut self, cx: &mut Cx<'_>) {
        if self.image.leaving().next().is_none() && self.moves.told_empty.is_empty() {
            return;
        }
        let is_empty = |&member: &u16| self.is_empty(member);
        let empty: BTreeSet<u16> = self.image.leaving().filter(is_empty).collect();
        for &member in empty.difference(&self.moves.told_empty) {
            let text = "it has no copies any more: it can be switched off".to_string();
            cx.tell(Event::NodeWarning(cx.name(member), text));
        }
        self.moves.told_empty = empty;
    }

    /// Whether slots of a member without a copy are in use all the same, or may be soon: its size must not shrink then.
    pub(in crate::gateway) fn has_work_beyond_copies(&self, member: u16) -> bool {
        self.uses_other_slots(member) || self.shrink.is_some() || self.image.shown() < self.image.chunks()
    }

    /// Whether something is left of a copy of the member that is gone, or one is being made there.
    fn uses_other_slots(&self, member: u16) -> bool {
        let is_left = self.moves.freed.range((member, 0)..=(member, u32::MAX)).next().is_some();
        is_left || self.moves.guests.values().any(|guest| guest.to.member == member)
    }

    /// Whether a member has no copies, durably, nothing is left of them, and none is being made there.
    pub(in super::super) fn is_empty(&self, member: u16) -> bool {
        self.image.copies_on(member) == 0 && !self.uses_other_slots(member)
    }
}
