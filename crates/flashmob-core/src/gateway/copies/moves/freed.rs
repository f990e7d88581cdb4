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

/// To give back a slot is to the lane like copying so many bytes.
const CLEARED_COST_BYTES: u32 = 4096;

/// A slot in quarantine.
#[derive(Debug)]
pub struct Freed {
    /// The decision that must be durable.
    after: u64,
    /// What makes its bytes zeros.
    clear: Option<RequestKey>,
    /// That was tried, and has done it.
    is_tried: bool,
    is_clean: bool,
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
        let freed = Freed { after, clear: None, is_tried: false, is_clean: false };
        self.moves.freed.insert((place.member, place.slot), freed);
    }

    /// Whether a slot may have a new chunk.
    pub(in super::super) fn takes_chunk(&self, member: u16, slot: u32) -> bool {
        let is_early = planted::is(Bug::GrownIntoQuarantine) && self.moves.freed.contains_key(&(member, slot));
        is_early || self.is_free(member, slot)
    }

    /// Whether slots are in quarantine.
    pub(in super::super) fn has_freed(&self) -> bool {
        !self.moves.freed.is_empty()
    }

    /// Looks which slots may be used again.
    pub(in super::super) fn look_at_freed(&mut self, cx: &mut Cx<'_>) {
        let waiting = self.moves.freed.iter().filter(|(_, freed)| freed.clear.is_none());
        let over: Vec<(u16, u32, bool, bool)> = waiting
            .filter(|((member, slot), freed)| {
                let range = self.range_of(Place { member: *member, slot: *slot });
                (self.log.is_durable(freed.after) || planted::is(Bug::SlotFreedBeforeCommit))
                    && (!cx.is_addressed(*member, range) || planted::is(Bug::SlotReusedEarly))
            })
            .map(|(&(member, slot), freed)| (member, slot, freed.is_tried, freed.is_clean))
            .collect();
        for (member, slot, is_tried, is_clean) in over {
            let is_other_cleared =
                || self.moves.freed.range((member, 0)..=(member, u32::MAX)).any(|(_, f)| f.clear.is_some());
            if is_tried || !self.is_usable(cx, member) || self.keeps_bytes(member) {
                if !is_clean {
                    self.search_again(member, slot);
                }
                self.moves.freed.remove(&(member, slot));
                let slots = self.slots.get_mut(usize::from(member));
                if let Some(chunk) = slots.and_then(|slots| slots.get_mut(slot as usize)) {
                    *chunk = u32::MAX;
                }
            } else if !is_other_cleared() {
                self.clear(cx, Place { member, slot });
            }
        }
    }

    /// Has the bytes of a slot given back.
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
        }
    }

    /// A slot has only zeros, or that failed.
    pub(in super::super) fn cleared(&mut self, cx: &mut Cx<'_>, place: Place, result: Result<(), Failure>) {
        if let Some(freed) = self.moves.freed.get_mut(&(place.member, place.slot)) {
            (freed.clear, freed.is_tried, freed.is_clean) = (None, true, result.is_ok());
            // Others may feel it, and it says nothing about how long copying takes.
            cx.lane.works(cx.now);
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
        let of_member = self.moves.freed.range_mut((member, 0)..=(member, u32::MAX));
        let keys: Vec<RequestKey> = of_member
            .filter_map(|(_, freed)| {
                let key = freed.clear.take();
                freed.is_tried |= key.is_some();
                key
            })
            .collect();
        for key in keys {
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

    /// Whether a member has no copies, durably, nothing is left of them, and none is being made there.
    pub(in super::super) fn is_empty(&self, member: u16) -> bool {
        let is_left = || self.moves.freed.range((member, 0)..=(member, u32::MAX)).next().is_some();
        let is_coming = || self.moves.guests.values().any(|guest| guest.to.member == member);
        self.image.copies_on(member) == 0 && !is_left() && !is_coming()
    }
}
