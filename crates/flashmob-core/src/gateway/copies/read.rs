//! Reads: from one current copy each; another is asked if that one fails or is lost.
//!
//! An answer is passed on only when no change that it may show is under way: otherwise a reader could see new bytes that are on one copy alone,
//! and old ones again when that copy is lost.

use super::chunk::Waiting;
use super::places::cut;
use super::{Copies, Cx, Inner, bit, mask};
use crate::gateway::state::queue::Piece;
use crate::gateway::state::{ClientId, RequestKey};
use crate::op::{Failure, Op, OpFlags};
use crate::planted::{self, Bug};

/// How often each copy is asked on average, while some have not answered.
const TRIES_MAX: usize = 3;

/// A client's read.
#[derive(Debug, Default)]
pub struct Read {
    pub spans: Vec<(u64, u32)>,
    /// How often copies were tried that failed.
    pub failures: u32,
    /// The copies that its parts were sent to: chunk and copy.
    pub asked: Vec<(u32, usize)>,
    /// Copies that answered a part of it with bytes that do not match their checksums: chunk, offset in it, copies.
    pub avoid: Vec<(u32, u32, u8)>,
    /// Copies that failed a part of it otherwise.
    pub failed: Vec<(u32, u32, u8)>,
    /// It has waited for the changes that its bytes may show.
    pub was_held: bool,
    /// One of those failed: its bytes may be on no copy that stays.
    pub is_void: bool,
    /// Parts that have waited for a corrupt block to be healed: chunk, offset in it.
    pub healed: Vec<(u32, u32)>,
    /// How often it was read anew from the beginning.
    pub round: u32,
    /// Its parts that were sent to another copy as well, by their places in the buffer.
    pub hedged: Vec<u32>,
}

impl Read {
    /// A copy was asked for a part of it.
    pub(super) fn note_asked(&mut self, chunk: u32, copy: usize) {
        if !self.asked.contains(&(chunk, copy)) {
            self.asked.push((chunk, copy));
        }
    }
}

/// What becomes of a read whose pieces have all been answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The client gets the answer.
    Answer,
    /// It waits, or is read again.
    Wait,
}

impl Copies {
    /// Takes in hand a client's read. Returns the number of its pieces.
    pub(super) fn begin_read(&mut self, cx: &mut Cx<'_>, key: RequestKey, spans: &[(u64, u32)]) -> u32 {
        let read = Read { spans: spans.to_vec(), ..Read::default() };
        let place = self.inner.insert(Inner::Read(read)) as u32 + 1;
        if let Some(request) = cx.requests.get_mut(key) {
            request.inner = place;
        }
        let count = self.give_reads(cx, key, spans);
        self.add_credit(count);
        count
    }

    fn give_reads(&mut self, cx: &mut Cx<'_>, key: RequestKey, spans: &[(u64, u32)]) -> u32 {
        let (mut count, mut buffer_at) = (0, 0);
        for &(offset, len) in spans {
            for (chunk, at, len) in self.parts(offset, len.into()) {
                self.route_read(cx, key, (chunk, at, len), buffer_at, None);
                buffer_at += len;
                count += 1;
            }
        }
        count
    }

    /// Sends a part of a read to one of the current copies, once the chunk may be read. Returns the member that was given it.
    pub(super) fn route_read(
        &mut self,
        cx: &mut Cx<'_>,
        request: RequestKey,
        (chunk, at, len): (u32, u32, u32),
        buffer_at: u32,
        failed: Option<usize>,
    ) -> Option<u16> {
        if self.is_on_hold(chunk) {
            let state = self.chunks.entry(chunk).or_default();
            state.waiting.push_back(Waiting::Read { request, at, len, buffer_at });
            self.compare_soon(cx, chunk);
            return None;
        }
        self.give_read(cx, request, (chunk, at, len), buffer_at, failed)
    }

    /// Queues a part of a read for one of the current copies. Returns its member.
    pub(super) fn give_read(
        &mut self,
        cx: &mut Cx<'_>,
        key: RequestKey,
        (chunk, at, len): (u32, u32, u32),
        buffer_at: u32,
        failed: Option<usize>,
    ) -> Option<u16> {
        let request = cx.requests.get(key)?;
        let (client, received, sample) = (request.client, request.received, request.sample);
        let is_urgent = request.op == Op::Read && request.flags.has(OpFlags::URGENT);
        let avoid = self.avoided(cx, key, (chunk, at));
        let asked = if failed.is_some() { self.asked(cx, key, chunk) } else { 0 };
        let copy = self.choose(cx, chunk, avoid, (failed, asked))?;
        let (member, offset_bytes) = self.locate(chunk, copy, at)?;
        let piece = Piece {
            request: key,
            client: client.index as u32,
            serial: 0,
            op: Op::Read,
            flags: if is_urgent { OpFlags::URGENT } else { OpFlags::NONE },
            offset_bytes,
            len_bytes: len,
            buffer_at,
            received,
            answered: false,
            sample,
        };
        let node = cx.node(member);
        cx.queues.give(node, piece);
        if let Some(read) = self.read_mut(cx, key) {
            read.note_asked(chunk, copy);
        }
        self.expect_answer(cx, member);
        self.look_at(cx.now + super::watch::WATCH_INTERVAL);
        Some(member)
    }

    /// What is known of a client's read.
    pub(super) fn read(&self, cx: &Cx<'_>, key: RequestKey) -> Option<&Read> {
        match self.inner.get((cx.requests.get(key)?.inner as usize).wrapping_sub(1)) {
            Some(Inner::Read(read)) => Some(read),
            _ => None,
        }
    }

    pub(super) fn read_mut(&mut self, cx: &Cx<'_>, key: RequestKey) -> Option<&mut Read> {
        match self.inner.get_mut((cx.requests.get(key)?.inner as usize).wrapping_sub(1)) {
            Some(Inner::Read(read)) => Some(read),
            _ => None,
        }
    }

    /// The copies that a part of a read must not be sent to again.
    pub(super) fn avoided(&self, cx: &Cx<'_>, key: RequestKey, (chunk, at): (u32, u32)) -> u8 {
        let Some(read) = self.read(cx, key) else { return 0 };
        let of_part = read.avoid.iter().filter(|part| (part.0, part.1) == (chunk, at));
        of_part.fold(0, |mask, part| mask | part.2)
    }

    /// The copies of a chunk that a read was sent to.
    pub(super) fn asked(&self, cx: &Cx<'_>, key: RequestKey, chunk: u32) -> u8 {
        let Some(read) = self.read(cx, key) else { return 0 };
        mask(read.asked.iter().filter(|asked| asked.0 == chunk).map(|asked| asked.1))
    }

    /// All pieces of a client's read have been answered.
    pub(super) fn review_read(&mut self, cx: &mut Cx<'_>, key: RequestKey) -> Verdict {
        let Some(request) = cx.requests.get_mut(key) else { return Verdict::Answer };
        let place = (request.inner as usize).wrapping_sub(1);
        let Some(Inner::Read(read)) = self.inner.get_mut(place) else { return Verdict::Answer };
        if request.failure.is_some() {
            return Verdict::Answer;
        }
        let spans = read.spans.clone();
        let was_held = std::mem::replace(&mut read.was_held, true);
        let (is_void, asked) = (std::mem::take(&mut read.is_void), read.asked.clone());
        // A copy that fell behind meanwhile may have shown a part of a change that failed.
        let is_behind = |&(chunk, copy): &(u32, usize)| self.current(chunk) & bit(copy) == 0;
        let is_void = is_void || (asked.iter().any(is_behind) && !planted::is(Bug::ReadFromBehind));
        let chunk_bytes = self.image.chunk_bytes();
        let parts: Vec<_> = spans.iter().flat_map(|&(offset, len)| cut(chunk_bytes, offset, len.into())).collect();
        let is_held = parts.iter().any(|&(chunk, ..)| self.is_on_hold(chunk));
        if is_held || is_void {
            // What was read may be on a copy that will not be taken for the right one.
            if let Some(Inner::Read(read)) = self.inner.get_mut(place) {
                (read.was_held, read.failures) = (false, 0);
                read.avoid.clear();
                read.failed.clear();
                read.asked.clear();
                read.hedged.clear();
                read.round += 1;
            }
            self.counters.rereads += 1;
            request.pieces_left = parts.len() as u32;
            self.give_reads(cx, key, &spans);
            return Verdict::Wait;
        }
        if was_held {
            return Verdict::Answer;
        }
        let mut holds = 0;
        for (chunk, at, len) in parts {
            let Some(state) = self.chunks.get(&chunk) else { continue };
            for place in state.changes.clone() {
                if let Some(change) = self.changes.get_mut(place)
                    && change.request.is_some()
                    && change.overlaps(at, len)
                    && !planted::is(Bug::AnswerNotHeld)
                {
                    change.held.push(key);
                    holds += 1;
                }
            }
        }
        if holds == 0 {
            return Verdict::Answer;
        }
        self.counters.held_answers += 1;
        if let Some(request) = cx.requests.get_mut(key) {
            request.pieces_left = holds;
        }
        Verdict::Wait
    }

    /// A change that a read may show has failed: what was read may be on no copy that stays.
    pub(super) fn read_again(&mut self, cx: &mut Cx<'_>, key: RequestKey) {
        if let Some(read) = self.read_mut(cx, key) {
            read.is_void = true;
        }
    }

    /// A copy has failed a piece of a client's read: another is asked. False if enough were.
    pub(super) fn read_failed(&mut self, cx: &mut Cx<'_>, member: u16, piece: &Piece, failure: Failure) -> bool {
        self.note_failed(cx);
        let Some((chunk, copy)) = self.chunk_at(member, piece.offset_bytes) else { return false };
        let Some(copy) = copy else {
            // The copy has moved meanwhile.
            self.counters.rereads += 1;
            let at = (piece.offset_bytes % self.image.chunk_bytes()) as u32;
            self.route_read(cx, piece.request, (chunk, at, piece.len_bytes), piece.buffer_at, None);
            return true;
        };
        if failure == Failure::Corrupt {
            let (at, len) = ((piece.offset_bytes % self.image.chunk_bytes()) as u32, piece.len_bytes);
            let others = self.current(chunk) & !(self.avoided(cx, piece.request, (chunk, at)) | bit(copy));
            if others == 0 && self.hold_read(cx, piece.request, (chunk, at, len), piece.buffer_at) {
                return true;
            }
            self.found_corrupt(cx, chunk, copy, (at, len));
            let Some(read) = self.read_mut(cx, piece.request) else { return false };
            read.avoid.push((chunk, at, bit(copy)));
            if self.current(chunk) & !self.avoided(cx, piece.request, (chunk, at)) == 0 {
                return false;
            }
            self.counters.rereads += 1;
            self.route_read(cx, piece.request, (chunk, at, len), piece.buffer_at, Some(copy));
            return true;
        }
        let (chunk_bytes, current, copies) = (self.image.chunk_bytes(), self.current(chunk), self.image.copies());
        let at = (piece.offset_bytes % chunk_bytes) as u32;
        let Some(read) = self.read_mut(cx, piece.request) else { return false };
        let parts: usize = read.spans.iter().map(|s| cut(chunk_bytes, s.0, s.1.into()).len()).sum();
        read.failures += 1;
        read.failed.push((chunk, at, bit(copy)));
        let of_part = read.failed.iter().filter(|part| (part.0, part.1) == (chunk, at));
        // One that was late, or had just been linked, may have been passed over for one that fails it again.
        let is_left = current & !of_part.fold(0, |mask, part| mask | part.2) != 0;
        if !is_left || read.failures as usize > copies * parts * TRIES_MAX {
            return false;
        }
        self.counters.rereads += 1;
        self.route_read(cx, piece.request, (chunk, at, piece.len_bytes), piece.buffer_at, Some(copy));
        true
    }

    /// A node has lost its last link, is out, or is late: its waiting reads go to other copies, where there are some and they are to be chosen.
    /// If it `has_lost` bytes, all are routed anew.
    pub(super) fn reroute_reads(&mut self, cx: &mut Cx<'_>, member: u16, pieces: Vec<Piece>, has_lost: bool) {
        let can_answer = !has_lost && self.is_usable(cx, member);
        let mut stay = Vec::new();
        for piece in pieces {
            if !can_answer && self.end_hedge(cx, piece.request) {
                continue;
            }
            let place = self.chunk_at(member, piece.offset_bytes);
            let is_own = cx.requests.get(piece.request).is_none_or(|r| r.client == ClientId::GATEWAY);
            let another = place.filter(|_| !is_own).and_then(|(chunk, copy)| {
                let at = (piece.offset_bytes % self.image.chunk_bytes()) as u32;
                let avoid = self.avoided(cx, piece.request, (chunk, at));
                let is_any_usable = || self.usable_of(cx, chunk, self.current(chunk) & !avoid) != 0;
                // A copy that was asked before may have failed, and this one may be the only one that can answer.
                let asked = || self.asked(cx, piece.request, chunk) | copy.map_or(0, bit);
                let chosen = || self.choose(cx, chunk, avoid, (None, 0));
                let is_faster = || !can_answer || chosen().is_some_and(|to| asked() & bit(to) == 0);
                (has_lost || copy.is_none() || (is_any_usable() && is_faster())).then_some((chunk, at))
            });
            match another {
                Some((chunk, at)) => {
                    let to = self.route_read(cx, piece.request, (chunk, at, piece.len_bytes), piece.buffer_at, None);
                    self.counters.rerouted_reads += u64::from(to.is_some_and(|to| to != member));
                }
                None => stay.push(piece),
            }
        }
        if !stay.is_empty() {
            let node = cx.node(member);
            cx.queues.requeue(node, stay);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_that_is_asked_again_is_listed_once() {
        let mut read = Read::default();
        [(7, 0), (7, 1), (7, 0), (8, 0), (7, 1)].into_iter().for_each(|(chunk, copy)| read.note_asked(chunk, copy));
        assert_eq!(read.asked, [(7, 0), (7, 1), (8, 0)]);
    }
}
