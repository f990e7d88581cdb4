//! Requests that need a block which matches its checksum on no current copy. They wait while copies that are behind are asked for it.
//!
//! ```text
//!  a read, or a change of a part of the block, is answered *corrupt* by each current copy
//!     └▶ is a copy behind there, or on a node that is paused? ── no ──▶ an error
//!          └▶ the request waits ─▶ the block is rescued ([`super::rescue`]) ─▶ the request is sent once more
//! ```
//!
//! Without that, a change of a part of it would fail, and reach the copy that is behind once that is used again: then no copy would have the bytes that
//! the checksum of the current one expects. For the same reason a copy that is made from another gets changes only as far as that one was hashed
//! ([`Copies::front`]).
//!
//! A node that answers *corrupt* to a change has written nothing of it, so the change can be sent again; not once a copy has a later one that
//! overlaps, as its client may have left, and another one may have been told of the later.

use std::collections::BTreeSet;

use super::change::{At, Change};
use super::chunk::Waiting;
use super::jobs::{Goal, Step};
use super::repair::RunKind;
use super::{Copies, Cx, Inner, PLACES_MAX, each};
use crate::gateway::state::RequestKey;
use crate::op::Failure;
use crate::planted::{self, Bug};
use crate::units::{Time, bring_forward};
use crate::wire::digest::DIGEST_BLOCK_BYTES;

/// How many jobs are begun for a request.
const TRIES_MAX: u32 = 3;

/// Most chunks with blocks that are known to be on no copy.
const HOPELESS_MAX: usize = 1024;

/// Blocks of a chunk that were looked for in vain.
#[derive(Debug, Default)]
pub struct Hopeless {
    /// The copies behind that were asked.
    asked: u8,
    /// Where in the chunk they begin.
    blocks: BTreeSet<u32>,
}

/// A request that waits for blocks.
#[derive(Debug)]
pub struct Held {
    waiting: Waiting,
    /// The whole blocks that have all of it.
    blocks: (u32, u32),
    since: Time,
    tries: u32,
    /// All current copies have answered it with *corrupt*. Otherwise it was not sent.
    is_ill: bool,
    /// The job under way has gone past its blocks: the next one is for it.
    is_missed: bool,
}

impl Held {
    fn is_within(&self, range: (u32, u32)) -> bool {
        range.0 <= self.blocks.0 && self.blocks.1 <= range.1
    }
}

/// Whole blocks that have all of a range.
fn blocks_of((at, len): (u32, u32)) -> (u32, u32) {
    (at / DIGEST_BLOCK_BYTES * DIGEST_BLOCK_BYTES, (at + len).next_multiple_of(DIGEST_BLOCK_BYTES))
}

/// Whether a change begins or ends within a block of a range.
fn changes_a_part_of((at, len): (u32, u32), (from, to): (u32, u32)) -> bool {
    let is_within = |edge: u32| !edge.is_multiple_of(DIGEST_BLOCK_BYTES) && (from..to).contains(&edge);
    is_within(at) || is_within(at + len)
}

impl Copies {
    /// A joined copy gets changes before this offset in the chunk. The job hashes what is behind it later, with all changes of until then.
    pub(super) fn front(&self, chunk: u32) -> u32 {
        let job = self.jobs.get(&chunk).filter(|job| job.goal.is_copying());
        job.filter(|_| !planted::is(Bug::JoinedChangedUnhashed)).map_or(u32::MAX, |job| job.range.1)
    }

    /// Whether a member is there, or may be again soon: links break and come back, that of a paused node at its pause.
    pub(super) fn may_come(&self, cx: &Cx<'_>, member: u16) -> bool {
        let Some(state) = self.members.get(usize::from(member)) else { return false };
        let patience = if state.is_paused { self.timeout / 2 } else { self.evict_after };
        cx.is_linked(member) || cx.now - state.unlinked_at < patience
    }

    /// Whether blocks of a range were looked for on all copies behind that can be used now, and are on none.
    fn is_hopeless(&self, cx: &Cx<'_>, chunk: u32, range: (u32, u32)) -> bool {
        let Some(hopeless) = self.hopeless.get(&chunk) else { return false };
        let (from, to) = blocks_of(range);
        let is_any = hopeless.blocks.range(from..to).next().is_some();
        is_any && self.usable_of(cx, chunk, self.image.marks(chunk).behind) & !hopeless.asked == 0
    }

    /// A block is on no copy that can be used now.
    pub(super) fn note_hopeless(&mut self, cx: &Cx<'_>, chunk: u32, at: u32) {
        let asked = self.usable_of(cx, chunk, self.image.marks(chunk).behind);
        if self.hopeless.len() >= HOPELESS_MAX && !self.hopeless.contains_key(&chunk) {
            self.hopeless.clear();
        }
        let hopeless = self.hopeless.entry(chunk).or_default();
        if hopeless.asked != asked {
            *hopeless = Hopeless { asked, blocks: BTreeSet::new() };
        }
        hopeless.blocks.insert(at);
    }

    /// Whether a copy that is behind may have a block that no current one has, and is there, or was lately.
    fn may_heal(&self, cx: &Cx<'_>, chunk: u32) -> bool {
        let behind = self.image.marks(chunk).behind;
        let current = self.current(chunk);
        current != 0
            && !self.is_on_hold(chunk)
            && each(behind).any(|copy| self.may_come(cx, self.member_of(chunk, copy)))
            && self.know_marks(cx, chunk, self.usable_of(cx, chunk, current))
            && !planted::is(Bug::CorruptNotHeld)
    }

    fn hold(&mut self, cx: &Cx<'_>, chunk: u32, range: (u32, u32), (waiting, is_ill): (Waiting, bool)) {
        let blocks = blocks_of(range);
        let job = self.jobs.get(&chunk).filter(|job| job.goal == Goal::Heal);
        let is_missed = is_ill && job.is_some_and(|job| blocks.0 < job.range.1);
        let held = Held { waiting, blocks, since: cx.now, tries: 0, is_ill, is_missed };
        self.heals.entry(chunk).or_default().push(held);
        self.look_at(cx.now);
        if self.jobs.get(&chunk).is_some_and(|job| job.waits_for_lane()) {
            bring_forward(&mut self.lane_due, cx.now);
        }
    }

    /// Holds a part of a read that all current copies have answered with *corrupt*. False if that is final.
    pub(super) fn hold_read(
        &mut self,
        cx: &mut Cx<'_>,
        request: RequestKey,
        (chunk, at, len): (u32, u32, u32),
        buffer_at: u32,
    ) -> bool {
        let was_held = self.read(cx, request).is_none_or(|read| read.healed.contains(&(chunk, at)));
        if was_held || self.is_hopeless(cx, chunk, (at, len)) || !self.may_heal(cx, chunk) {
            return false;
        }
        self.counters.corrupt += 1;
        self.hold(cx, chunk, (at, len), (Waiting::Read { request, at, len, buffer_at }, true));
        true
    }

    /// Holds a change that all current copies have answered with *corrupt*. False if that is final, or one has answered something else.
    pub(super) fn hold_change(&mut self, cx: &mut Cx<'_>, place: usize) -> bool {
        let Some(change) = self.changes.get(place) else { return false };
        let (chunk, at, len, old) = (change.chunk, change.at, change.len, change.key);
        let what = (change.op, change.flags);
        let is_corrupt = |copy: usize| change.copies[copy] == At::Failed(Failure::Corrupt);
        if !each(self.current(chunk)).all(is_corrupt) {
            return false;
        }
        let is_final = change.was_held || change.is_overtaken;
        self.want_kept(place);
        if is_final || self.is_hopeless(cx, chunk, (at, len)) || !self.may_heal(cx, chunk) {
            return false;
        }
        // One that is made equal may have what its source refused.
        self.void_joined(chunk);
        // Copies that are being made equal may still answer it: that must not count for what is sent again.
        let taken = cx.requests.get_mut(old).map(|own| (std::mem::take(&mut own.buffer), own.reserved_bytes));
        let Some((bytes, reserved_bytes)) = taken else { return false };
        if let Some(own) = cx.requests.get_mut(old) {
            own.reserved_bytes = 0;
        }
        cx.has_dead_pieces = true;
        self.remove_inner(cx, old);
        let key = self.insert_inner(cx, Inner::Change(place), what.0, what.1, bytes);
        if let Some(own) = cx.requests.get_mut(key) {
            own.reserved_bytes = reserved_bytes;
        }
        if let Some(change) = self.changes.get_mut(place) {
            (change.key, change.is_sent, change.was_held) = (key, false, true);
            change.copies = [At::NotSent; PLACES_MAX];
        }
        if let Some(state) = self.chunks.get_mut(&chunk) {
            state.take_back(place);
        }
        self.counters.corrupt += 1;
        self.hold(cx, chunk, (at, len), (Waiting::Change(place), true));
        self.poke_job(cx, chunk);
        true
    }

    /// Holds a change that is to be sent, if it changes a part of a block that is being looked for, or what a change that waits does.
    pub(super) fn hold_unsent(&mut self, cx: &Cx<'_>, place: usize) -> bool {
        let Some(change) = self.changes.get(place) else { return false };
        let (chunk, range) = (change.chunk, (change.at, change.len));
        let is_held = (self.needs_rescued(change) || self.is_after_held(change)) && !planted::is(Bug::CorruptNotHeld);
        if is_held {
            self.hold(cx, chunk, range, (Waiting::Change(place), false));
        }
        is_held
    }

    fn needs_rescued(&self, change: &Change) -> bool {
        let runs = self.jobs.get(&change.chunk).map(|job| job.runs.as_slice()).unwrap_or_default();
        let rescues = runs.iter().filter(|run| run.kind == RunKind::Rescue).map(|run| (run.at, run.at + run.len));
        let mut ill = self.ill(change.chunk).map(|held| held.blocks).chain(rescues);
        ill.any(|blocks| changes_a_part_of((change.at, change.len), blocks))
    }

    /// Whether an earlier change that overlaps waits.
    fn is_after_held(&self, change: &Change) -> bool {
        let is_after = |held: &Held| match held.waiting {
            Waiting::Change(other) => {
                let other = self.changes.get(other).filter(|other| other.serial < change.serial);
                other.is_some_and(|other| other.overlaps(change.at, change.len))
            }
            Waiting::Read { .. } => false,
        };
        self.held(change.chunk).iter().any(is_after)
    }

    /// A copy has answered a change: earlier ones that overlap, and wait or may have to, cannot be sent after it any more.
    pub(super) fn note_overtaken(&mut self, place: usize) {
        let Some(change) = self.changes.get(place) else { return };
        let (chunk, serial, at, len) = (change.chunk, change.serial, change.at, change.len);
        if !change.has_reached(self.holders(chunk)) {
            return;
        }
        let held = self.held(chunk).iter().filter_map(|held| match held.waiting {
            Waiting::Change(other) => Some(other),
            Waiting::Read { .. } => None,
        });
        let under_way = self.chunks.get(&chunk).map(|state| state.partial.as_slice()).unwrap_or_default();
        for other in held.chain(under_way.iter().copied()).collect::<Vec<_>>() {
            let other = self.changes.get_mut(other).filter(|other| other.serial < serial && other.overlaps(at, len));
            if let Some(other) = other {
                other.is_overtaken = true;
            }
        }
    }

    /// A change has ended: nothing of it waits.
    pub(super) fn forget_held(&mut self, chunk: u32, place: usize) {
        if let Some(held) = self.heals.get_mut(&chunk) {
            held.retain(|held| !matches!(held.waiting, Waiting::Change(other) if other == place));
        }
    }

    fn held(&self, chunk: u32) -> &[Held] {
        self.heals.get(&chunk).map(Vec::as_slice).unwrap_or_default()
    }

    /// Requests that wait and whose blocks are corrupt on all current copies.
    fn ill(&self, chunk: u32) -> impl Iterator<Item = &Held> {
        self.held(chunk).iter().filter(|held| held.is_ill)
    }

    /// The parts of clients' reads that wait for blocks.
    pub(super) fn reads_held(&self) -> impl Iterator<Item = RequestKey> {
        self.heals.values().flatten().filter_map(|held| match held.waiting {
            Waiting::Read { request, .. } => Some(request),
            Waiting::Change(_) => None,
        })
    }

    /// Whether the job on a chunk is about to rescue what its requests wait for.
    fn is_being_rescued(&self, chunk: u32) -> bool {
        self.jobs.get(&chunk).is_some_and(|job| match job.goal {
            Goal::Heal | Goal::Compare => true,
            Goal::Resync | Goal::Move => {
                let is_in_hand = matches!(job.step, Step::Lock | Step::Digest(_) | Step::Rescue(_));
                let is_near = is_in_hand || job.runs.iter().any(|run| run.kind == RunKind::Rescue);
                is_near && self.ill(chunk).all(|held| held.is_within(job.range))
            }
            Goal::Mend | Goal::Scrub => false,
        })
    }

    /// Looks for blocks that requests wait for, where copies can be asked, and lets the others go.
    pub(super) fn search_heals(&mut self, cx: &mut Cx<'_>) {
        for chunk in self.heals.keys().copied().collect::<Vec<_>>() {
            if self.is_on_hold(chunk) || self.is_being_rescued(chunk) {
                continue;
            }
            let (now, patience, may_heal) = (cx.now, self.timeout / 2, self.may_heal(cx, chunk));
            let is_over =
                |held: &Held| !held.is_ill || !may_heal || now - held.since >= patience || held.tries >= TRIES_MAX;
            self.release_held(cx, chunk, is_over);
            let current = self.usable_of(cx, chunk, self.current(chunk));
            let behind = self.usable_of(cx, chunk, self.image.marks(chunk).behind);
            let Some(source) = each(current).next().filter(|_| behind != 0) else { continue };
            if self.ill(chunk).next().is_none() {
                continue;
            }
            // It begins anew later. Nobody waits for it.
            self.give_up(cx, chunk);
            let Some(held) = self.heals.get_mut(&chunk).filter(|_| !self.jobs.contains_key(&chunk)) else { continue };
            held.iter_mut().for_each(|held| (held.tries, held.is_missed) = (held.tries + 1, false));
            self.begin_job(cx, chunk, Goal::Heal, source, 0);
        }
    }

    /// Where a job that heals goes on after `done`: the rest of the next range. At the end of the last it is empty.
    pub(super) fn next_heal(&self, chunk: u32, done: u32) -> (u32, u32) {
        let left = self.ill(chunk).filter(|held| !held.is_missed && held.blocks.1 > done);
        let next = left.map(|held| (held.blocks.0.max(done), held.blocks.1)).min();
        next.unwrap_or((u32::MAX, u32::MAX))
    }

    /// All blocks were gone through.
    pub(super) fn end_heal(&mut self, cx: &mut Cx<'_>, chunk: u32) {
        self.jobs.remove(&chunk);
        self.unlock(cx, chunk);
        self.release_held(cx, chunk, |held| !held.is_missed);
        for held in self.heals.get_mut(&chunk).into_iter().flatten() {
            held.is_missed = false;
        }
        self.forget_if_idle(chunk);
        self.look_at(cx.now);
    }

    /// A job that makes copies has rescued a block, or no copy has it. Once it was the last, what waits for it is sent again.
    pub(super) fn rescued(&mut self, cx: &mut Cx<'_>, chunk: u32) {
        let Some(job) = self.jobs.get(&chunk).filter(|job| job.goal.is_copying()) else { return };
        let range = job.range;
        if !job.runs.iter().any(|run| run.kind == RunKind::Rescue) {
            self.release_held(cx, chunk, |held| !held.is_ill || held.is_within(range));
        }
    }

    /// Sends requests once more that wait. A block that is still corrupt fails them.
    fn release_held(&mut self, cx: &mut Cx<'_>, chunk: u32, is_over: impl Fn(&Held) -> bool) {
        let Some(held) = self.heals.remove(&chunk) else { return };
        let (over, left): (Vec<_>, Vec<_>) = held.into_iter().partition(is_over);
        if !left.is_empty() {
            self.heals.insert(chunk, left);
        }
        let mut changes = Vec::new();
        for held in over {
            match held.waiting {
                Waiting::Change(place) => changes.push(place),
                Waiting::Read { request, at, len, buffer_at } => {
                    if let Some(read) = self.read_mut(cx, request) {
                        read.avoid.retain(|part| (part.0, part.1) != (chunk, at));
                        read.healed.push((chunk, at));
                        self.counters.rereads += 1;
                        self.route_read(cx, request, (chunk, at, len), buffer_at, None);
                    }
                }
            }
        }
        let is_overtaken = |copies: &Copies, place: usize| copies.changes.get(place).is_some_and(|c| c.is_overtaken);
        let (overtaken, mut changes): (Vec<_>, Vec<_>) =
            changes.into_iter().partition(|&place| is_overtaken(self, place));
        for place in overtaken {
            if self.current(chunk).count_ones() > 1 {
                self.doubt.insert(chunk);
            }
            self.void_joined(chunk);
            self.refuse_change(cx, place, Failure::Corrupt);
        }
        if !changes.is_empty() {
            // In the order in which they came, and before those that came later.
            changes.sort_by_key(|&place| self.changes.get(place).map(|change| change.serial));
            let launching = &mut self.chunks.entry(chunk).or_default().launching;
            changes.into_iter().rev().for_each(|place| launching.push_front(place));
            self.launch_waiting(cx, chunk);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_a_part_begins_or_ends_within_a_block() {
        let block = DIGEST_BLOCK_BYTES;
        let ill = (block, 2 * block);
        for (at, len, expected) in [
            (0, block, false),
            (0, block + 1, true),
            (block, block, false),
            (block, block - 1, true),
            (block + 1, block - 1, true),
            (2 * block - 1, 1, true),
            (2 * block, 1, false),
            (0, 3 * block, false),
            (1, 3 * block, false),
        ] {
            assert_eq!(changes_a_part_of((at, len), ill), expected, "{at}, {len}");
        }
        assert_eq!(blocks_of((block + 1, 1)), (block, 2 * block));
        assert_eq!(blocks_of((block - 1, 2)), (0, 2 * block));
    }
}
