//! Copies move to other members while clients use them: away from members that are leaving, and from full ones to empty ones.
//!
//! ```text
//!  planned ─▶ a slot is reserved ─▶ made equal there as a copy is that is behind ─▶ flushed ─▶ the new place is decided ─▶ the old slot is freed
//!             (memory alone)         (jobs.rs: it gets changes meanwhile)                     (durable before any change
//!                                                                                             of the chunk is sent)
//! ```
//!
//! While it is made, the copy on the new member, the *guest*, is one more than the chunk has, with the number behind those of the others. It is never
//! read, and counts for nothing: whatever ends the move before the decision leaves the chunk as it was. What reserved the slot is forgotten by a
//! gateway that is killed, so no slot is lost; the bytes there are found by [`orphans`].
//!
//! The old slot must not be used for another chunk before the decision is durable, and before everything has ended that was addressed to it: see
//! [`freed`].

mod freed;
mod orphans;
mod unsynced;
mod wishes;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use super::change::At;
use super::jobs::Goal;
use super::log::Waiter;
use super::pace::Pace;
use super::{Copies, Cx, Inner, bit, each};
use crate::copies::{MapImage, Place, Record, Step};
use crate::gateway::Event;
use crate::op::Failure;
use crate::planted::{self, Bug};
use crate::units::Time;

use freed::Freed;
use orphans::Search;
pub(super) use wishes::unheard;
pub use wishes::{MoveError, MovesStatus, Outlook};

/// How often is planned anew while nothing can be done.
const PLAN_EVERY: Duration = Duration::from_secs(10);
/// The same when other members can be used than before.
const PLAN_AGAIN: Duration = Duration::from_secs(1);
/// The owner is told again of a device that no copies can be moved to after so long.
const TELL_AGAIN: Duration = Duration::from_secs(600);
/// For how long nothing is moved to a member that failed it.
const NO_GUESTS_FOR: Duration = Duration::from_secs(30);
/// How many steps are tried at a time that may have to wait.
const TRIED_MAX: usize = 64;

/// A copy that is being made on another member.
#[derive(Debug, Clone, Copy)]
pub struct Guest {
    /// The copy whose place it will take.
    copy: usize,
    /// The member that has that one.
    from: u16,
    to: Place,
}

/// Copies that move.
#[derive(Debug, Default)]
pub struct Moves {
    /// By chunk.
    guests: BTreeMap<u32, Guest>,
    /// What is to be done.
    steps: VecDeque<Step>,
    /// When it was planned last, to which members nothing could be copied then, and when it may be planned anew.
    planned: Time,
    closed: BTreeSet<u16>,
    plan_at: Time,
    /// Copies of leaving members for which there is no room.
    stranded: u32,
    /// Slots that may not be used yet: by member and slot.
    freed: BTreeMap<(u16, u32), Freed>,
    /// Those of them that were cleared, or could not be, and whether they are clean.
    tried: BTreeMap<(u16, u32), bool>,
    /// Slots that were cleared, perhaps not permanently: the last change by then, by member and slot.
    unsynced: BTreeMap<(u16, u32), u64>,
    /// Members one of whose slots is being cleared.
    clearing: BTreeSet<u16>,
    /// Of each member, how far its free slots are looked through.
    searches: Vec<Search>,
    /// Chunks whose copy on the member that it leaves could not be read.
    distrusted: BTreeSet<u32>,
    /// Chunks that cannot be moved, as their only current copy has blocks that do not match their checksums.
    unreadable: BTreeSet<u32>,
    /// Chunks that cannot be moved now, as no current copy is there.
    without_source: BTreeSet<u32>,
    /// Somebody wants nodes no longer to be filled evenly.
    was_cancelled: bool,
    /// Drained members that were empty at the last look: the owner was told.
    told_empty: BTreeSet<u16>,
    pub(super) pace: Pace,
}

impl Moves {
    /// `move_time`: how long a copy took before this gateway.
    pub fn new(image: &MapImage, move_time: Option<Duration>) -> Moves {
        // At most MEMBERS_MAX.
        let members = 0..image.members().len() as u16;
        let search = |member| if image.is_gone(member) { Search::of_gone() } else { Search::default() };
        Moves { searches: members.map(search).collect(), pace: Pace::resumed(move_time), ..Moves::default() }
    }

    /// Chunks from this one on are gone. None of them moves.
    pub fn forget_behind(&mut self, chunks: u32) {
        for set in [&mut self.distrusted, &mut self.unreadable, &mut self.without_source] {
            set.split_off(&chunks);
        }
    }

    /// One more member.
    pub fn add(&mut self) {
        self.searches.push(Search::default());
    }
}

/// What became of a step.
enum Begun {
    Now,
    /// It has to wait for others.
    Later,
    /// It does not fit any more.
    Never,
}

impl Copies {
    /// The copy that is made of a chunk on another member.
    pub(super) fn guest(&self, chunk: u32) -> Option<Place> {
        self.moves.guests.get(&chunk).map(|guest| guest.to)
    }

    /// The copy of a chunk whose place another takes, if it is being moved.
    pub(super) fn leaving_copy(&self, chunk: u32) -> Option<usize> {
        self.moves.guests.get(&chunk).map(|guest| guest.copy)
    }

    /// The number of a copy that is made on another member.
    pub(super) fn guest_copy(&self) -> usize {
        self.image.copies()
    }

    /// Whether copies are to move.
    pub(super) fn is_moving(&self) -> bool {
        self.image.is_balancing() || self.image.leaving().any(|member| self.image.copies_on(member) > 0)
    }

    /// Begins to move copies, as many as may at a time. Those that are behind come first.
    pub(super) fn search_moves(&mut self, cx: &mut Cx<'_>) {
        self.tell_empty(cx);
        if !self.is_moving() {
            self.moves.steps.clear();
            self.moves.unreadable.clear();
            self.moves.without_source.clear();
            return;
        }
        if self.log.trouble().is_some() || !self.is_mirrored() {
            return;
        }
        self.plan(cx);
        let mut room = self.targets_with_room(cx);
        for _ in 0..self.moves.steps.len().min(TRIED_MAX) {
            if self.jobs.len() >= super::search::JOBS_MAX {
                return;
            }
            let Some(step) = self.moves.steps.pop_front() else { return };
            match self.begin_move(cx, step, &room) {
                Begun::Now => room = self.targets_with_room(cx),
                Begun::Never if self.has_other_step(step.chunk) => self.moves.steps.push_back(step),
                Begun::Never => self.plan_again(cx),
                Begun::Later => self.moves.steps.push_back(step),
            }
        }
    }

    /// Whether another copy of a chunk is to move, or does: a step that does not fit before may do so behind it.
    fn has_other_step(&self, chunk: u32) -> bool {
        self.moves.guests.contains_key(&chunk) || self.moves.steps.iter().any(|other| other.chunk == chunk)
    }

    /// A step was dropped. If it was the last one, what it was for is planned anew.
    fn plan_again(&mut self, cx: &Cx<'_>) {
        if self.moves.steps.is_empty() && self.moves.guests.is_empty() {
            self.moves.plan_at = self.moves.plan_at.min(cx.now.max(self.moves.planned + PLAN_AGAIN));
            self.look_at(self.moves.plan_at);
        }
    }

    /// Members to which nothing can be copied now.
    pub(super) fn closed(&self, cx: &Cx<'_>) -> BTreeSet<u16> {
        let is_closed = |&member: &u16| {
            let is_in = self.has_joined(member) && !self.image.is_joining(member) && !self.image.is_gone(member);
            !is_in || !self.is_usable(cx, member) || !self.members[usize::from(member)].takes_guests(cx.now)
        };
        (0..self.members.len() as u16).filter(is_closed).collect()
    }

    /// The names of members that could take copies if they were linked, apart from those that are `leaving`. `None` if there are none.
    pub(super) fn names_of_unlinked(&self, cx: &Cx<'_>, leaving: &BTreeSet<u16>) -> Option<String> {
        let could =
            |member: &u16| !leaving.contains(member) && !self.image.is_gone(*member) && !self.image.is_joining(*member);
        let is_away = |member: &u16| could(member) && !cx.is_linked(*member);
        let away: Vec<u16> = (0..self.members.len() as u16).filter(is_away).collect();
        (!away.is_empty()).then(|| cx.names(&away))
    }

    /// Whether it is on record that a member may have copies.
    fn has_joined(&self, member: u16) -> bool {
        let from = self.members.get(usize::from(member)).map_or(0, |state| state.joined_from);
        self.log.is_durable(from) || planted::is(Bug::GuestBeforeJoined)
    }

    /// Plans what is left to be done, once all is done that was planned before, or nothing of it could be done for some time.
    fn plan(&mut self, cx: &mut Cx<'_>) {
        if !self.moves.guests.is_empty() {
            return;
        }
        let closed = self.closed(cx);
        let is_news = closed != self.moves.closed && cx.now >= self.moves.planned + PLAN_AGAIN;
        if cx.now < self.moves.plan_at && !is_news {
            return;
        }
        (self.moves.planned, self.moves.plan_at) = (cx.now, cx.now + PLAN_EVERY);
        let leaving = self.image.leaving().collect();
        let plan = self.image.plan(&leaving, self.image.is_balancing(), &closed);
        self.moves.stranded = plan.all_stranded();
        let are_stuck = plan.steps.iter().all(|step| self.moves.unreadable.contains(&step.chunk));
        if are_stuck && self.image.is_balancing() && closed.iter().all(|&member| self.image.takes_no_copies(member)) {
            self.decide(Record::Balance { is_wanted: false });
        }
        let planned: BTreeSet<u32> = plan.steps.iter().map(|step| step.chunk).collect();
        self.moves.unreadable.retain(|chunk| planned.contains(chunk));
        self.moves.without_source.clear();
        (self.moves.steps, self.moves.closed) = (plan.steps.into(), closed);
    }

    /// What is wished has changed: it is planned anew. What is under way goes on.
    pub(super) fn plan_anew(&mut self, cx: &Cx<'_>) {
        self.moves.steps.clear();
        self.moves.plan_at = cx.now;
        self.look_at(cx.now);
    }

    /// `room`: the members to which one more copy may be made.
    fn begin_move(&mut self, cx: &mut Cx<'_>, step: Step, room: &[u16]) -> Begun {
        let Step { chunk, from, to } = step;
        let Some(copy) = self.image.places(chunk).iter().position(|place| place.member == from) else {
            return Begun::Never;
        };
        let domain = |member: u16| self.image.members().get(usize::from(member)).map(|member| &member.domain);
        let is_beside = |(other, place): (usize, &Place)| other != copy && domain(place.member) == domain(to);
        let mut places = self.image.places(chunk).iter().enumerate();
        if self.image.takes_no_copies(to) || from == to || places.any(is_beside) {
            return Begun::Never;
        }
        if self.is_on_hold(chunk)
            || self.jobs.contains_key(&chunk)
            || self.is_stuck(cx, chunk)
            || !room.contains(&to)
            || !self.has_joined(to)
            || !self.members[usize::from(to)].takes_guests(cx.now)
        {
            return Begun::Later;
        }
        if self.usable_of(cx, chunk, self.current(chunk)) == 0 {
            self.moves.without_source.insert(chunk);
            return Begun::Later;
        }
        self.moves.without_source.remove(&chunk);
        let (Some(slot), Some(source)) = (self.free_slot(to), self.source_of_move(cx, chunk, copy)) else {
            return Begun::Later;
        };
        let to = Place { member: to, slot };
        self.reserve(chunk, to);
        self.moves.guests.insert(chunk, Guest { copy, from, to });
        self.forget_guest_changes(chunk);
        self.begin_job(cx, chunk, Goal::Move, source, bit(self.guest_copy()));
        Begun::Now
    }

    /// The copy that is read for a move: the one that is to move, so that its new place has what the old one had; another if that is not there.
    fn source_of_move(&mut self, cx: &Cx<'_>, chunk: u32, copy: usize) -> Option<usize> {
        let current = self.current(chunk);
        let usable = self.usable_of(cx, chunk, current);
        let (corrupt, is_distrusted) = (self.corrupt_of(chunk), self.moves.distrusted.contains(&chunk));
        let itself = bit(copy) & usable & !corrupt & if is_distrusted { 0 } else { u8::MAX };
        let sources = [itself, usable & !corrupt, usable].into_iter().find(|sources| *sources != 0)?;
        each(sources).find(|&source| self.has_room_from(self.member_of(chunk, source)))
    }

    /// A slot that no chunk has, and that nothing is addressed to.
    fn free_slot(&self, member: u16) -> Option<u32> {
        let slots = self.slots.get(usize::from(member))?;
        let free = |&slot: &u32| self.is_free(member, slot);
        (0..=slots.len() as u32).find(free).filter(|&slot| slot < self.image.slots(member))
    }

    pub(super) fn reserve(&mut self, chunk: u32, place: Place) {
        let slots = &mut self.slots[usize::from(place.member)];
        let slot = place.slot as usize;
        if slots.len() <= slot {
            slots.resize(slot + 1, u32::MAX);
        }
        slots[slot] = chunk;
    }

    /// What a guest has of changes means nothing any more.
    fn forget_guest_changes(&mut self, chunk: u32) {
        let guest = self.guest_copy();
        for place in self.chunks.get(&chunk).map(|state| state.changes.clone()).unwrap_or_default() {
            if let Some(change) = self.changes.get_mut(place) {
                change.has_left |= change.copies[guest] == At::Sent;
                change.copies[guest] = At::NotSent;
            }
        }
    }

    /// The move of a chunk was given up. It is tried again later.
    pub(super) fn drop_guest(&mut self, cx: &Cx<'_>, chunk: u32) {
        let Some(Guest { from, to, .. }) = self.moves.guests.remove(&chunk) else { return };
        self.forget_guest_changes(chunk);
        self.free(to, 0);
        // Another may be found for one that fails.
        if self.members[usize::from(to.member)].takes_guests(cx.now) {
            self.moves.steps.push_back(Step { chunk, from, to: to.member });
        }
    }

    /// A copy failed a piece of a move: that which is to move may be unreadable, or the new place cannot be written.
    pub(super) fn move_failed(&mut self, cx: &mut Cx<'_>, chunk: u32, copy: usize, failure: Failure) {
        if failure == Failure::ShuttingDown {
            return;
        }
        if copy == self.guest_copy() {
            self.guest_failed(cx, chunk, failure);
        } else {
            self.moves.distrusted.insert(chunk);
        }
    }

    /// A member fails what is written for a copy that moves there: nothing is copied to it for a while.
    pub(super) fn guest_failed(&mut self, cx: &mut Cx<'_>, chunk: u32, failure: Failure) {
        let Some(to) = self.guest(chunk) else { return };
        let Some(state) = self.members.get_mut(usize::from(to.member)) else { return };
        state.no_guests_until = cx.now + NO_GUESTS_FOR;
        if cx.now >= state.tell_guests_at {
            state.tell_guests_at = cx.now + TELL_AGAIN;
            let text = format!("no copies can be moved to it: {failure}; see its log, and whether its flash is full");
            cx.tell(Event::NodeWarning(cx.name(to.member), text));
        }
    }

    /// No copy that is there has blocks of a chunk that is to move.
    pub(super) fn move_unreadable(&mut self, chunk: u32) {
        if self.guest(chunk).is_some() {
            self.moves.unreadable.insert(chunk);
        }
    }

    /// A member was removed: what is known of its slots means nothing any more.
    pub(super) fn forget_slots_of(&mut self, member: u16) {
        self.moves.freed.retain(|&(of, _), _| of != member);
        self.moves.tried.retain(|&(of, _), _| of != member);
        self.moves.unsynced.retain(|&(of, _), _| of != member);
        self.moves.clearing.remove(&member);
        if let Some(search) = self.moves.searches.get_mut(usize::from(member)) {
            *search = Search::of_gone();
        }
    }

    /// A member is to have no copies any more: none is made there.
    fn drop_guests_on(&mut self, cx: &mut Cx<'_>, member: u16) {
        let there = self.moves.guests.iter().filter(|(_, guest)| guest.to.member == member);
        for chunk in there.map(|(&chunk, _)| chunk).collect::<Vec<_>>() {
            self.give_up(cx, chunk);
        }
    }

    /// The guest has what its source has, permanently: it takes the place of the copy that was to move.
    pub(super) fn end_move(&mut self, cx: &mut Cx<'_>, chunk: u32) {
        let guest_copy = self.guest_copy();
        let is_leaving = self.guest(chunk).is_none_or(|to| self.image.is_leaving(to.member));
        let is_given_up = is_leaving || self.is_on_hold(chunk) || self.log.trouble().is_some();
        let Some(&Guest { copy, from, to }) = self.moves.guests.get(&chunk).filter(|_| !is_given_up) else {
            return self.give_up(cx, chunk);
        };
        let Some(&old) = self.image.places(chunk).get(copy).filter(|old| old.member == from) else {
            return self.give_up(cx, chunk);
        };
        let Some(job) = self.jobs.remove(&chunk) else { return };
        self.moves.guests.remove(&chunk);
        self.counters.moved += 1;
        self.moves.pace.made(cx.now, 1, job.pieces.cost_bytes);
        let was_behind = self.image.marks(chunk).behind & bit(copy) != 0;
        // At most COPIES_MAX.
        let seq = self.decide(Record::Moved { chunk, copy: copy as u8, to });
        let state = self.chunks.entry(chunk).or_default();
        if !planted::is(Bug::MovedNotAwaited) {
            // Until that is durable nothing is sent that the old place would lack.
            state.marks_seq = seq;
        }
        state.sync_after[copy] = std::mem::take(&mut state.sync_after[guest_copy]);
        for place in state.changes.clone() {
            if let Some(change) = self.changes.get_mut(place) {
                let at = std::mem::replace(&mut change.copies[guest_copy], At::NotSent);
                change.has_left |= change.copies[copy] == At::Sent;
                change.copies[copy] = if at == At::Sent { At::Sent } else { At::Done };
            }
        }
        self.leave(chunk, bit(guest_copy));
        self.moves.distrusted.remove(&chunk);
        self.moves.unreadable.remove(&chunk);
        self.forget_rot_of(chunk, copy);
        if planted::is(Bug::MovedTakenForSettled) {
            self.reopened.insert(chunk);
        }
        if job.source != copy {
            // What a scrub has found to differ there is gone.
            self.scrub.bad.clear(chunk, 0..u32::MAX, |_| true);
        }
        if !self.image.marks(chunk).is_open {
            // The flash of the new place may have lied.
            self.lately.note(cx.now, chunk);
        }
        self.free(old, seq);
        if was_behind {
            self.void_reads(chunk, copy);
        }
        self.reads_move(cx, old);
        if !self.flushes.is_empty() {
            self.log.wait(seq, Waiter::Flushes);
        }
        self.log.wait(seq, Waiter::Review(chunk));
        self.log.wait(seq, Waiter::Freed);
        self.unlock(cx, chunk);
        self.review_chunk(cx, chunk);
        self.forget_if_idle(chunk);
        let is_over = self.moves.steps.is_empty() && self.moves.guests.is_empty();
        self.moves.plan_at = if is_over { cx.now } else { cx.now + PLAN_EVERY };
        self.look_at(cx.now);
    }

    /// Reads that were sent to a copy that had fallen behind are read anew: see [`Copies::review_read`].
    fn void_reads(&mut self, chunk: u32, copy: usize) {
        for (_, inner) in &mut self.inner {
            if let Inner::Read(read) = inner
                && read.asked.contains(&(chunk, copy))
            {
                read.is_void = true;
            }
        }
    }

    /// Reads that wait for the old place of a copy go elsewhere. Those that are out are answered there: it has all that clients were shown until
    /// now, and the slot has nothing else before they are.
    fn reads_move(&mut self, cx: &mut Cx<'_>, old: Place) {
        let node = cx.node(old.member);
        let range = self.range_of(old);
        let reads = cx.queues.take_reads(node);
        let (there, others) = reads.into_iter().partition(|piece| range.contains(&piece.offset_bytes));
        cx.queues.requeue(node, others);
        self.reroute_reads(cx, old.member, there, true);
    }
}
