//! A change of one chunk: sent to every copy, and over when each has done it or is behind.
//!
//! It owns its bytes until then, though its client has left or was told of an error. Changes that overlap are sent to all copies in one order:
//! each is put into the queues of all its nodes at once, and a node's queue keeps the order of what overlaps.

use super::chunk::Waiting;
use super::log::Waiter;
use super::{Copies, Cx, Inner, PLACES_MAX, bit, each, mask};
use crate::gateway::state::RequestKey;
use crate::op::{Failure, Op, OpFlags};
use crate::planted::{self, Bug};
use crate::units::Time;
use crate::wire::digest::DIGEST_BLOCK_BYTES;

/// What one copy has of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// It was not sent there: that copy is behind.
    NotSent,
    /// It was sent, and is not answered.
    Sent,
    Done,
    Failed(Failure),
}

#[derive(Debug)]
pub struct Change {
    pub serial: u64,
    /// The client's request that it is a part of, until that is told.
    pub request: Option<RequestKey>,
    /// The request that holds its bytes.
    pub key: RequestKey,
    pub chunk: u32,
    /// The offset in the chunk.
    pub at: u32,
    pub len: u32,
    pub op: Op,
    pub flags: OpFlags,
    /// When it was asked for.
    pub begun: Time,
    pub is_sent: bool,
    /// The change has waited for a corrupt block to be healed.
    pub was_held: bool,
    /// A current copy has a later change that overlaps, so that this one cannot be sent again.
    pub is_overtaken: bool,
    /// When it was sent: its copies are silent from then on.
    pub sent: Time,
    pub copies: [At; PLACES_MAX],
    /// The copies that were sent its first part alone: they are made from another, and the rest is not hashed yet.
    pub cut: u8,
    /// A copy that was sent it lies elsewhere now.
    pub has_left: bool,
    /// Reads whose answers may show it.
    pub held: Vec<RequestKey>,
}

impl Change {
    pub fn overlaps(&self, at: u32, len: u32) -> bool {
        self.at < at + len && at < self.at + self.len
    }

    /// Copies, of some, that were sent the change and have not answered.
    fn unanswered(&self, copies: u8) -> u8 {
        mask(each(copies).filter(|&copy| self.copies[copy] == At::Sent))
    }

    /// The copies that were sent it.
    pub fn sent_to(&self) -> u8 {
        mask((0..PLACES_MAX).filter(|&copy| self.copies[copy] != At::NotSent))
    }

    /// Whether some of these copies have it or will have it, or a part of it perhaps.
    pub fn may_have_reached(&self, copies: u8) -> bool {
        let has_nothing = |copy: usize| matches!(self.copies[copy], At::NotSent | At::Failed(Failure::Corrupt));
        self.has_left || !each(copies).all(has_nothing)
    }

    /// Whether some of these copies have it by now, or a part of it perhaps.
    pub fn has_reached(&self, copies: u8) -> bool {
        let has_nothing =
            |copy: usize| matches!(self.copies[copy], At::NotSent | At::Sent | At::Failed(Failure::Corrupt));
        !each(copies).all(has_nothing)
    }

    /// Whether it changes a part of a block.
    fn is_partial(&self) -> bool {
        !(self.at | self.len).is_multiple_of(DIGEST_BLOCK_BYTES)
    }
}

impl Copies {
    /// Takes in hand a client's write, or its zeros. Returns the number of its parts.
    pub(super) fn begin_changes(&mut self, cx: &mut Cx<'_>, key: RequestKey, spans: &[(u64, u32)]) -> u32 {
        let Some(request) = cx.requests.get_mut(key) else { return 0 };
        // A trim leaves zeros on every copy: otherwise copies would differ, and reads alternate.
        let op = if request.op == Op::Trim && !planted::is(Bug::TrimIsAdvice) { Op::WriteZeroes } else { request.op };
        let flags = OpFlags(request.flags.0 & OpFlags::KNOWN);
        let mut buffer = std::mem::take(&mut request.buffer);
        let parts: Vec<_> = spans.iter().flat_map(|&(offset, len)| self.parts(offset, len.into())).collect();
        let mut at_byte = 0;
        let mut places = Vec::with_capacity(parts.len());
        for &(chunk, at, len) in &parts {
            let bytes = match op {
                Op::Write if parts.len() == 1 => std::mem::take(&mut buffer),
                Op::Write => buffer[at_byte..at_byte + len as usize].to_vec(),
                _ => Vec::new(),
            };
            at_byte += len as usize;
            self.next_serial += 1;
            let entry = self.changes.vacant_entry();
            let place = entry.key();
            entry.insert(Change {
                serial: self.next_serial,
                request: Some(key),
                key: RequestKey::default(),
                chunk,
                at,
                len,
                op,
                flags,
                begun: cx.now,
                is_sent: false,
                was_held: false,
                is_overtaken: false,
                sent: Time::default(),
                copies: [At::NotSent; PLACES_MAX],
                cut: 0,
                has_left: false,
                held: Vec::new(),
            });
            self.untold.insert(self.next_serial);
            let own = self.insert_inner(cx, Inner::Change(place), op, flags, bytes);
            self.changes[place].key = own;
            places.push(place);
        }
        for place in places {
            self.begin_change(cx, place);
        }
        self.look_at(cx.now + super::watch::WATCH_INTERVAL);
        parts.len() as u32
    }

    fn begin_change(&mut self, cx: &mut Cx<'_>, place: usize) {
        let Some(change) = self.changes.get(place) else { return };
        let (chunk, at, len) = (change.chunk, change.at, change.len);
        let is_on_hold = self.is_on_hold(chunk);
        let state = self.chunks.entry(chunk).or_default();
        if is_on_hold || state.is_waited_for() || state.is_locked(at, len) {
            state.waiting.push_back(Waiting::Change(place));
            if is_on_hold {
                self.compare_soon(cx, chunk);
            } else {
                self.release(cx, chunk);
            }
        } else {
            self.launch(cx, place);
        }
    }

    /// Sends a change once its chunk is durably open, and those before it are sent.
    pub(super) fn launch(&mut self, cx: &mut Cx<'_>, place: usize) {
        let Some(chunk) = self.changes.get(place).map(|change| change.chunk) else { return };
        self.chunks.entry(chunk).or_default().launching.push_back(place);
        self.launch_waiting(cx, chunk);
    }

    /// Sends the changes of a chunk that wait for it to be open, as many as may go, in order.
    pub(super) fn launch_waiting(&mut self, cx: &mut Cx<'_>, chunk: u32) {
        while !self.is_on_hold(chunk) {
            let Some(state) = self.chunks.get_mut(&chunk) else { return };
            let Some(&place) = state.launching.front() else { return };
            let Some(change) = self.changes.get(place) else {
                state.launching.pop_front();
                continue;
            };
            if state.is_locked(change.at, change.len) {
                return;
            }
            if self.hold_unsent(cx, place) {
                if let Some(state) = self.chunks.get_mut(&chunk) {
                    state.launching.pop_front();
                }
                continue;
            }
            // It also declares copies behind on members that are out.
            let seq = self.open_chunk(cx, chunk);
            if self.unborn(chunk) != 0 {
                return;
            }
            let may_go = self.log.is_durable(seq) || planted::is(Bug::SentBeforeOpen);
            if !may_go && self.log.trouble().is_none() {
                return self.log.wait(seq, Waiter::Launch(chunk));
            }
            if let Some(state) = self.chunks.get_mut(&chunk) {
                state.launching.pop_front();
            }
            match self.log.trouble().filter(|_| !may_go) {
                Some(failure) => self.refuse_change(cx, place, failure),
                None => {
                    self.note_change(cx);
                    self.send_change(cx, place);
                }
            }
        }
    }

    /// The map cannot be written: a change that needs it has not been sent, and fails.
    pub(super) fn refuse_change(&mut self, cx: &mut Cx<'_>, place: usize, failure: Failure) {
        self.tell_change(cx, place, Some(failure));
        self.end_change(cx, place);
    }

    fn send_change(&mut self, cx: &mut Cx<'_>, place: usize) {
        let Some(change) = self.changes.get(place) else { return };
        let (chunk, at, len, key) = (change.chunk, change.at, change.len, change.key);
        let what = (change.op, change.flags);
        self.reopened.remove(&chunk);
        self.count_start();
        let front = self.front(chunk);
        let state = self.chunks.entry(chunk).or_default();
        let marks = self.image.marks(chunk);
        let guest = Some(self.image.copies()).filter(|&guest| state.joined & bit(guest) != 0);
        let guest = guest.filter(|_| !planted::is(Bug::GuestMissesChanges));
        let copies = (0..self.image.copies()).filter(|&copy| (marks.behind & !state.joined) & bit(copy) == 0);
        let copies = copies.chain(guest);
        let joined = state.joined;
        let (mut sent, mut cut, whole_len) = ([At::NotSent; PLACES_MAX], 0, len);
        for copy in copies.collect::<Vec<_>>() {
            let len = if joined & bit(copy) == 0 { len } else { len.min(front.saturating_sub(at)) };
            let Some((member, offset_bytes)) = self.locate(chunk, copy, at).filter(|_| len > 0) else { continue };
            self.send(cx, key, member, what, (offset_bytes, len));
            sent[copy] = At::Sent;
            cut |= if len < whole_len { bit(copy) } else { 0 };
            let serial = cx.queues[cx.node(member)].last_change();
            if let Some(state) = self.chunks.get_mut(&chunk) {
                state.sync_after[copy] = serial;
            }
        }
        let is_partial = self.changes[place].is_partial();
        if let Some(state) = self.chunks.get_mut(&chunk) {
            state.changes.push(place);
            state.partial.extend(is_partial.then_some(place));
            state.used = cx.now;
        }
        (self.changes[place].is_sent, self.changes[place].sent) = (true, cx.now);
        (self.changes[place].copies, self.changes[place].cut) = (sent, cut);
        self.look_at(cx.now + super::watch::WATCH_INTERVAL);
    }

    /// A copy has answered a change.
    pub(super) fn change_answered(
        &mut self,
        cx: &mut Cx<'_>,
        (place, key): (usize, RequestKey),
        place_at_member: (u16, u64),
        result: Result<(), Failure>,
    ) {
        let Some((chunk, Some(copy))) = self.chunk_at(place_at_member.0, place_at_member.1) else { return };
        // What was sent to a place that another chunk has by now is none of its own.
        let is_it = |change: &&mut Change| change.key == key && change.chunk == chunk;
        let Some(change) = self.changes.get_mut(place).filter(is_it) else { return };
        change.copies[copy] = match result {
            Ok(()) => At::Done,
            Err(failure) => At::Failed(failure),
        };
        if result.is_err() {
            self.note_failed(cx);
            self.counters.failed_copies += 1;
            if let Some(state) = self.chunks.get_mut(&chunk).filter(|state| state.joined & bit(copy) != 0) {
                state.voided |= if planted::is(Bug::FailedTargetEqual) { 0 } else { bit(copy) };
                state.decided &= !bit(copy);
                if let Err(failure) = result
                    && copy == self.guest_copy()
                    && failure != Failure::ShuttingDown
                {
                    self.guest_failed(cx, chunk, failure);
                }
            }
        }
        self.note_overtaken(place);
        self.review_change(cx, place);
        self.poke_job(cx, chunk);
    }

    /// A member's device has restarted: what it did of changes that are not told is lost there, and must not count when they are.
    pub(super) fn undo_changes(&mut self, member: u16) {
        let untold = self.changes.iter().filter(|(_, change)| change.request.is_some());
        let copies = untold.filter_map(|(place, change)| Some((place, self.copy_on(change.chunk, member)?)));
        for (place, copy) in copies.collect::<Vec<_>>() {
            let at = &mut self.changes[place].copies[copy];
            if *at == At::Done {
                *at = At::Failed(Failure::Io);
            }
        }
    }

    /// Looks whether a change can be told, and whether it is over.
    pub(super) fn review_change(&mut self, cx: &mut Cx<'_>, place: usize) {
        let Some(change) = self.changes.get(place).filter(|c| c.is_sent) else { return };
        let (chunk, copies) = (change.chunk, change.copies);
        if change.request.is_some() {
            let decided = self.chunks.get(&chunk).map_or(0, |c| c.decided);
            let (current, holders) = (self.current(chunk), self.holders(chunk));
            let of = |wanted: fn(At) -> bool| -> u8 { mask(each(holders).filter(|&copy| wanted(copies[copy]))) };
            let done = of(|at| at == At::Done) & current;
            let failed = of(|at| matches!(at, At::Failed(_)));
            let is_awaited = |copy: usize| copies[copy] == At::Sent && (holders | decided) & bit(copy) != 0;
            let is_first = planted::is(Bug::AckAfterFirstCopy) && done != 0;
            if (0..PLACES_MAX).any(is_awaited) && !is_first {
                return;
            }
            if done == 0 {
                if self.hold_change(cx, place) {
                    return;
                }
                // Each copy may have all of it, some of it or nothing.
                let failure = each(failed).find_map(|copy| match copies[copy] {
                    At::Failed(failure) => Some(failure),
                    _ => None,
                });
                if current.count_ones() > 1 {
                    self.doubt.insert(chunk);
                }
                // Copies that are being made equal may have it.
                self.void_joined(chunk);
                self.tell_change(cx, place, Some(failure.unwrap_or(Failure::Io)));
            } else {
                if self.image.marks(chunk).doubtful != 0 && !self.is_any_sure(cx, chunk, done) {
                    // What the others did counts only if their devices have not restarted since.
                    return;
                }
                if failed != 0 {
                    self.fall_behind(chunk, failed);
                    self.keep(chunk, of(|at| at == At::Failed(Failure::Corrupt)));
                }
                let seq = self.marks_seq(chunk);
                if !self.log.is_durable(seq) && !planted::is(Bug::AckBeforeBehind) {
                    return self.log.wait(seq, Waiter::Review(chunk));
                }
                let needed = if planted::is(Bug::MinCurrentIgnored) { 1 } else { self.min_current };
                if (done.count_ones() as usize) < needed.min(self.image.copies()) && !is_first {
                    // It waits for another copy to become current.
                    return;
                }
                self.tell_change(cx, place, None);
            }
        }
        self.end_if_over(cx, place);
    }

    /// Looks at all changes of a chunk: its marks are durable, or were changed.
    pub(super) fn review_chunk(&mut self, cx: &mut Cx<'_>, chunk: u32) {
        for place in self.chunks.get(&chunk).map(|c| c.changes.clone()).unwrap_or_default() {
            self.review_change(cx, place);
        }
        self.poke_job(cx, chunk);
    }

    /// Tells the client's request that this part has ended, and lets the reads go that wait for it.
    fn tell_change(&mut self, cx: &mut Cx<'_>, place: usize, failure: Option<Failure>) {
        let Some(change) = self.changes.get_mut(place) else { return };
        self.untold.remove(&change.serial);
        if failure.is_none() {
            // What could not be mended is written anew.
            let block = DIGEST_BLOCK_BYTES;
            let blocks = change.at.div_ceil(block)..(change.at + change.len) / block;
            self.scrub.bad.clear(change.chunk, blocks, |_| true);
        }
        let held = std::mem::take(&mut change.held);
        if let Some(request) = change.request.take() {
            let is_over = !change.is_sent || !change.copies.contains(&At::Sent);
            let (key, len) = (change.key, if change.op == Op::Write { u64::from(change.len) } else { 0 });
            if !is_over {
                take_over(cx, request, key, len);
            }
            cx.ended.push_back((request, failure));
        }
        for read in held {
            if failure.is_some() {
                self.read_again(cx, read);
            }
            cx.ended.push_back((read, None));
        }
        self.review_flushes(cx);
    }

    /// The copies that were sent a change, have not answered it, and matter: they are not behind, or are being made current.
    pub(super) fn awaited(&self, change: &Change) -> u8 {
        let joined = self.chunks.get(&change.chunk).map_or(0, |state| state.joined);
        change.unanswered(self.holders(change.chunk) | joined)
    }

    /// Awaited copies, and those that have fallen behind since and are there: their answers tell whether they have what the others have.
    pub(super) fn awaited_or_kept(&self, cx: &Cx<'_>, change: &Change) -> u8 {
        self.awaited(change) | change.unanswered(self.kept_there(cx, change.chunk))
    }

    /// Whether current copies differ in what became of a change, and its client is not told yet: those that failed it will be behind.
    pub(super) fn is_undecided(&self, change: &Change) -> bool {
        let has = |wanted: fn(At) -> bool| each(self.current(change.chunk)).any(|copy| wanted(change.copies[copy]));
        change.request.is_some() && has(|at| at == At::Done) && has(|at| matches!(at, At::Failed(_)))
    }

    /// Ends a change that no copy can answer any more, or only such as are behind.
    pub(super) fn end_if_over(&mut self, cx: &mut Cx<'_>, place: usize) {
        let told = self.changes.get(place).filter(|change| change.is_sent && change.request.is_none());
        if told.is_some_and(|change| self.awaited_or_kept(cx, change) == 0) {
            self.end_change(cx, place);
        }
    }

    pub(super) fn end_change(&mut self, cx: &mut Cx<'_>, place: usize) {
        let Some(change) = self.changes.try_remove(place) else { return };
        self.note_reached(&change);
        self.untold.remove(&change.serial);
        // Pieces at copies behind may be left: they have no bytes any more.
        cx.has_dead_pieces |= change.copies.contains(&At::Sent) || change.has_left;
        self.remove_inner(cx, change.key);
        self.forget_held(change.chunk, place);
        if let Some(state) = self.chunks.get_mut(&change.chunk) {
            state.take_back(place);
            if !change.is_sent {
                state.launching.retain(|&other| other != place);
                state.waiting.retain(|waiting| !matches!(waiting, Waiting::Change(other) if *other == place));
            }
        }
        for read in change.held {
            cx.ended.push_back((read, None));
        }
        self.poke_job(cx, change.chunk);
        self.forget_if_idle(change.chunk);
    }

    /// A client's request is dropped before it is answered, or fails early. Its changes go on; returns how many bytes they hold.
    pub(super) fn orphan(&mut self, cx: &mut Cx<'_>, key: RequestKey) -> u64 {
        let mut bytes = 0;
        let of_it: Vec<usize> =
            self.changes.iter().filter(|(_, c)| c.request == Some(key)).map(|(place, _)| place).collect();
        for place in of_it {
            if planted::is(Bug::LeavingClientDropsChange) {
                self.changes[place].request = None;
                self.end_change(cx, place);
                continue;
            }
            let change = &mut self.changes[place];
            if change.op == Op::Write
                && let Some(own) = cx.requests.get_mut(change.key)
            {
                own.reserved_bytes = change.len.into();
                bytes += u64::from(change.len);
            }
            // It is told to nobody.
            change.request = Some(RequestKey::default());
        }
        bytes
    }
}

/// Moves the reservation for a change's bytes from its client's request, which ends, to the change, which goes on.
fn take_over(cx: &mut Cx<'_>, from: RequestKey, to: RequestKey, len_bytes: u64) {
    let Some(request) = cx.requests.get_mut(from) else { return };
    let taken = len_bytes.min(request.reserved_bytes);
    request.reserved_bytes -= taken;
    let client = request.client;
    if let Some(own) = cx.requests.get_mut(to) {
        own.reserved_bytes += taken;
    }
    cx.taken.push((client, taken));
}
