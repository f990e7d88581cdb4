//! Bytes in slots that no chunk has: a gateway was killed, or a node was away, before they were given back.
//!
//! Nothing reads them, but they take room on a flash. After each start of the gateway the free slots of each member are looked through once, a
//! map of holes at a time, beside all else. Where a slot still holds data once it was cleared, the member's store cannot give bytes back, as
//! a block device without discards, and the rest is left as it is.

use super::super::{Copies, Cx, Inner};
use std::time::Duration;

use crate::copies::Place;
use crate::gateway::Event;
use crate::gateway::state::RequestKey;
use crate::op::{Failure, Op, OpFlags};
use crate::planted::{self, Bug};
use crate::units::{GIB, Time};
use crate::wire::map::{MAP_BYTES, Map};

/// Most bytes of a map.
const LOOKED_AT_MAX: u64 = GIB;

/// How soon a member's free slots are looked at again after a failure; sooner if somebody waits for it.
const TRY_AGAIN: Duration = Duration::from_secs(60);
const TRY_JOINING_AGAIN: Duration = Duration::from_secs(10);

/// How far a member's free slots are looked through.
#[derive(Debug, Default)]
pub struct Search {
    /// The next slot.
    at: u32,
    /// The map that is being asked for: of how many slots from which on.
    asked: Option<(RequestKey, u32, u32)>,
    /// A slot that was cleared, and is to be looked at again.
    cleared: Option<u32>,
    /// It can give back bytes, or cannot.
    gives_back: Option<bool>,
    is_over: bool,
    /// The last change when it was over, if there were free slots: what it found to be holes is permanent once the member was flushed after that.
    pub(super) ended: Option<u64>,
    /// The last slot that was given back because of it.
    found: Option<u32>,
    /// It goes on then, after a failure.
    again: Time,
    /// Its extent holds data, or cannot tell, while it is not known that it may be used.
    holds_data: bool,
}

impl Search {
    /// Of a member that was removed.
    pub fn of_gone() -> Search {
        Search { is_over: true, ..Search::default() }
    }

    pub fn is_over(&self) -> bool {
        self.is_over
    }
}

impl Copies {
    /// Whether a slot has no chunk, and is not in quarantine.
    pub(in super::super) fn is_free(&self, member: u16, slot: u32) -> bool {
        let chunk = self.slots.get(usize::from(member)).and_then(|slots| slots.get(slot as usize));
        chunk.is_none_or(|chunk| *chunk == u32::MAX) && !self.moves.freed.contains_key(&(member, slot))
    }

    /// Whether the free slots of a member were looked through.
    pub(in super::super) fn is_searched(&self, member: u16) -> bool {
        self.moves.searches.get(usize::from(member)).is_some_and(Search::is_over)
    }

    /// Whether free slots are still to be looked through, of members that are there.
    pub(in super::super) fn has_orphans(&self, cx: &Cx<'_>) -> bool {
        let mut searches = (0u16..).zip(&self.moves.searches);
        searches.any(|(member, search)| !search.is_over && self.is_usable(cx, member))
    }

    /// Looks for orphans on members where nothing else is under way.
    pub(in super::super) fn search_orphans(&mut self, cx: &mut Cx<'_>) {
        self.take_in_unsearched(cx);
        for member in 0..self.moves.searches.len() as u16 {
            let search = &self.moves.searches[usize::from(member)];
            let is_busy = || self.moves.freed.range((member, 0)..=(member, u32::MAX)).next().is_some();
            if search.is_over
                || search.asked.is_some()
                || cx.now < search.again
                || is_busy()
                || !self.is_usable(cx, member)
            {
                continue;
            }
            self.look_for_orphans(cx, member);
        }
    }

    fn look_for_orphans(&mut self, cx: &mut Cx<'_>, member: u16) {
        let slots = self.image.slots(member);
        let search = &self.moves.searches[usize::from(member)];
        let from = search.cleared.or_else(|| (search.at..slots).find(|&slot| self.is_free(member, slot)));
        let Some(from) = from else {
            // That it may be used cannot be recorded now.
            if self.image.is_joining(member) && self.may_decide().is_err() {
                return;
            }
            let is_any_free = (0..slots).any(|slot| self.is_free(member, slot));
            let ended = is_any_free.then(|| cx.queues[cx.node(member)].last_change());
            let search = &mut self.moves.searches[usize::from(member)];
            (search.is_over, search.ended) = (true, ended);
            return self.found_empty(cx, member);
        };
        let most = if search.cleared.is_some() { 1 } else { (LOOKED_AT_MAX / self.image.chunk_bytes()).max(1) as u32 };
        let free = (from..slots).take(most as usize).take_while(|&slot| self.is_free(member, slot)).count() as u32;
        if free == 0 {
            // A chunk lies there by now.
            self.moves.searches[usize::from(member)].cleared = None;
            return;
        }
        let what = (Op::Map, OpFlags::NONE);
        let key = self.insert_inner(cx, Inner::Orphans { member }, what.0, what.1, vec![0; MAP_BYTES]);
        let range = self.range_of(Place { member, slot: from });
        // At most LOOKED_AT_MAX or one chunk.
        self.send(cx, key, member, what, (range.start, (u64::from(free) * self.image.chunk_bytes()) as u32));
        let search = &mut self.moves.searches[usize::from(member)];
        (search.at, search.asked) = (from + free, Some((key, from, free)));
    }

    /// A member has told which of some free slots hold data.
    pub(in super::super) fn orphans_found(&mut self, cx: &mut Cx<'_>, member: u16, result: Result<Vec<u8>, Failure>) {
        let Some(search) = self.moves.searches.get_mut(usize::from(member)) else { return };
        let Some((_, from, count)) = search.asked.take() else { return };
        let chunk_bytes = self.image.chunk_bytes();
        let len_bytes = (u64::from(count) * chunk_bytes) as u32;
        let bytes = match result {
            Ok(bytes) => bytes,
            Err(failure) => return self.end_search(cx, member, from, failure),
        };
        let Ok(map) = Map::decode(&bytes, len_bytes) else {
            return self.end_search(cx, member, from, Failure::Invalid);
        };
        let mut at = 0u64;
        let mut first = None;
        for (run_bytes, is_hole) in map.runs() {
            if !is_hole && first.is_none() {
                first = Some(from + (at / chunk_bytes) as u32);
            }
            at += u64::from(run_bytes);
        }
        if first.is_some() && self.image.is_joining(member) && !planted::is(Bug::JoinedUnsearched) {
            return self.found_in_use(cx, member);
        }
        let is_free = first.is_some_and(|slot| self.is_free(member, slot));
        let Some(search) = self.moves.searches.get_mut(usize::from(member)) else { return };
        let was_cleared = search.cleared.take().is_some();
        match first {
            // A copy is made there by now, or that does not help with this one.
            Some(slot) if !is_free || (search.found == Some(slot) && !was_cleared) => {
                search.at = search.at.min(slot + 1);
            }
            Some(_) if was_cleared => (search.gives_back, search.is_over) = (Some(false), true),
            // All before it are holes, as far as the map goes.
            Some(slot) => {
                (search.at, search.found) = (search.at.min(slot), Some(slot));
                search.cleared = search.gives_back.is_none().then_some(slot);
                self.counters.orphans += 1;
                self.free(Place { member, slot }, 0);
            }
            None => {
                if was_cleared {
                    search.gives_back = Some(true);
                }
                // A map may end before its range does: the rest of a slot is looked at with the whole of it.
                search.at = search.at.min(from + ((at / chunk_bytes) as u32).max(1));
            }
        }
        self.look_at(cx.now);
    }

    /// A member's node has failed to look at a slot, or to give it back: that is tried again after a while, or once it is linked anew, unless it cannot do
    /// that.
    pub(super) fn end_search(&mut self, cx: &mut Cx<'_>, member: u16, slot: u32, failure: Failure) {
        let is_joining = self.image.is_joining(member);
        let Some(search) = self.moves.searches.get_mut(usize::from(member)) else { return };
        if failure == Failure::NotSupported {
            (search.gives_back, search.is_over) = (Some(false), true);
            if is_joining {
                self.found_in_use(cx, member);
            }
            return;
        }
        search.again = cx.now + if is_joining { TRY_JOINING_AGAIN } else { TRY_AGAIN };
        self.search_again(member, slot);
        if is_joining {
            let text =
                format!("it is not used yet: its extent cannot be looked through: {failure}; that is tried again");
            cx.tell(Event::NodeWarning(cx.name(member), text));
        }
    }

    /// A member's device was started anew, or has another extent: what is known of its free slots counts no more.
    pub(in super::super) fn search_anew(&mut self, member: u16) {
        if let Some(search) = self.moves.searches.get_mut(usize::from(member)) {
            *search = Search { asked: search.asked.take(), ..Search::default() };
        }
    }

    /// The extent of a member that is joining holds data: whose, only a person can say.
    fn found_in_use(&mut self, cx: &mut Cx<'_>, member: u16) {
        if let Some(search) = self.moves.searches.get_mut(usize::from(member)) {
            (search.holds_data, search.is_over) = (true, true);
        }
        let text = "it is not used: its extent holds data, or cannot show that it does not; add it again with --overwrite to \
                    give that data up, or remove it, and add it anew with an empty file";
        cx.tell(Event::NodeWarning(cx.name(member), text.to_string()));
    }

    /// Whether a member is not used since its extent holds data, or cannot show that it does not.
    pub(in super::super) fn holds_data(&self, member: u16) -> bool {
        let search = self.moves.searches.get(usize::from(member));
        self.image.is_joining(member) && search.is_some_and(|search| search.holds_data)
    }

    /// Whether a member's store cannot give bytes back, as far as is known.
    pub(super) fn keeps_bytes(&self, member: u16) -> bool {
        let search = self.moves.searches.get(usize::from(member));
        search.is_some_and(|search| search.gives_back == Some(false))
    }

    /// A slot may hold data that nobody could give back: it is looked for again.
    pub(in super::super) fn search_again(&mut self, member: u16, slot: u32) {
        if let Some(search) = self.moves.searches.get_mut(usize::from(member))
            && search.gives_back != Some(false)
        {
            // What was not cleared says nothing about that.
            (search.at, search.cleared, search.found, search.is_over) = (search.at.min(slot), None, None, false);
        }
    }

    /// A member has no link any more: what it was asked is asked again.
    pub(super) fn drop_search(&mut self, cx: &mut Cx<'_>, member: u16) {
        let Some(search) = self.moves.searches.get_mut(usize::from(member)) else { return };
        let asked = search.asked.take();
        search.again = Time::default();
        if let Some((key, from, _)) = asked {
            self.search_again(member, from);
            self.remove_inner(cx, key);
            cx.has_dead_pieces = true;
        }
    }
}
