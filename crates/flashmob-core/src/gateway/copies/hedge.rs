//! Reads that are late: another copy is asked as well, and the first answer counts.
//!
//! ```text
//!  a read is out for longer than 19 of 20 answers of its node take ─▶ at most 1 of 20, and not where others queue, too
//!     ─▶ the copy that is expected to answer first ─▶ its answer first: the late piece is forgotten where it is out
//!                                                  ─▶ second: dropped
//! ```
//!
//! The second copy is asked by a read of the gateway's own, so the answer to a client's piece is never counted twice.

use std::time::Duration;

use super::speed::FEW;
use super::{Copies, Cx, Inner, bit};
use crate::gateway::state::queue::Piece;
use crate::gateway::state::{ClientId, RequestKey};
use crate::op::{Failure, Op, OpFlags};
use crate::planted::{self, Bug};
use crate::units::{KIB, Time, bring_forward};

/// One read in so many may be sent twice.
const SHARE: u32 = 20;
/// Credit for so many is kept: as many may follow each other when a node falls silent, however few reads begin meanwhile.
const CREDIT_MAX: u32 = 64 * SHARE;
/// Longer reads are for throughput, and a second answer would cost others much.
const BYTES_MAX: u32 = 64 * KIB as u32;
/// Bytes of the budget that one holds, beside the room for its bytes.
const COST_BYTES: u64 = 256;
/// How soon is looked again for what could not be sent twice.
const AGAIN: Duration = Duration::from_millis(5);
/// A member that is silent for so long, and eight times what is late, does not only wait for its turn on a full air.
const STUCK_MIN: Duration = Duration::from_millis(250);

/// A late read, asked of another copy.
#[derive(Debug, Clone, Copy)]
pub struct Hedge {
    /// The client's read, and how often it had begun anew.
    of: RequestKey,
    round: u32,
    /// Where the late piece is out, and its place in the buffer.
    member: u16,
    buffer_at: u32,
    /// What is read: chunk, offset in it, length, and the copy that is asked.
    chunk: u32,
    at: u32,
    len: u32,
    copy: usize,
}

/// What is left of the share that may be sent twice, and when to look for late reads.
#[derive(Debug, Default)]
pub struct Hedging {
    credit: u32,
    pub due: Option<Time>,
}

impl Copies {
    /// Parts of a client's read were begun.
    pub(super) fn add_credit(&mut self, parts: u32) {
        self.hedging.credit = self.hedging.credit.saturating_add(parts).min(CREDIT_MAX);
    }

    /// Whether late reads are asked of another copy at all.
    fn is_hedging(&self) -> bool {
        let may_choose = !self.is_home_only() && self.image.copies() > 1 && self.deposed.is_none();
        may_choose && !planted::is(Bug::LateReadsWait)
    }

    /// A part of a client's read was given to a member.
    pub(super) fn expect_answer(&mut self, cx: &Cx<'_>, member: u16) {
        let Some(state) = self.members.get_mut(usize::from(member)) else { return };
        state.speed.try_now(cx.now);
        let late_after = state.speed.late_after();
        if self.is_hedging() {
            self.hedge_at(cx.now + late_after);
        }
    }

    fn hedge_at(&mut self, at: Time) {
        bring_forward(&mut self.hedging.due, at);
    }

    /// Looks for late reads. Call it when [`Hedging::due`] says so, after received bytes were processed.
    pub(super) fn hedge(&mut self, cx: &mut Cx<'_>) {
        self.hedging.due = None;
        if !self.is_hedging() {
            return;
        }
        let is_full = self.is_full(cx);
        for member in 0..self.members.len() as u16 {
            let late_after = self.members[usize::from(member)].speed.late_after();
            let Some(since) = cx.reads_wait_since(member) else { continue };
            if cx.now - since < late_after {
                self.hedge_at(since + late_after);
                continue;
            }
            let is_stuck = cx.silence(member) >= STUCK_MIN.max(8 * late_after);
            if is_full && !is_stuck {
                // Waiting is queueing there, and more reads would make it longer.
                self.hedge_at(cx.now + AGAIN.max(late_after / 4));
                continue;
            }
            // What it was not sent yet goes elsewhere, if that is faster.
            let waiting = cx.queues.take_reads(cx.node(member));
            self.reroute_reads(cx, member, waiting, false);
            let mut is_any_left = false;
            for (piece, sent) in cx.late_reads(member, late_after) {
                is_any_left |= !self.ask_another(cx, member, &piece, cx.now - sent);
            }
            if is_any_left || cx.has_reads_after(member, late_after) {
                self.hedge_at(cx.now + AGAIN.max(late_after / 4));
            }
        }
    }

    /// Whether most members have more than a few pieces to answer: the air between is full, or all are slow.
    fn is_full(&self, cx: &Cx<'_>) -> bool {
        let usable = (0..self.members.len() as u16).filter(|&member| self.is_usable(cx, member));
        let (mut all, mut queued) = (0, 0);
        for member in usable {
            all += 1;
            queued += u32::from(cx.pieces_given(member) as u64 > FEW);
        }
        2 * queued > all
    }

    /// Asks another copy for what a member is late with: it `waited` so long for it. False if that may be tried again later.
    fn ask_another(&mut self, cx: &mut Cx<'_>, member: u16, piece: &Piece, waited: Duration) -> bool {
        let Some((chunk, Some(copy))) = self.chunk_at(member, piece.offset_bytes) else { return true };
        let is_small = piece.len_bytes <= BYTES_MAX;
        let Some(read) = self.read(cx, piece.request) else { return true };
        if !is_small
            || read.hedged.contains(&piece.buffer_at)
            || self.is_on_hold(chunk)
            || self.scrub.bad.has_differing(chunk)
        {
            return true;
        }
        let round = read.round;
        let at = (piece.offset_bytes % self.image.chunk_bytes()) as u32;
        let avoid = self.avoided(cx, piece.request, (chunk, at)) | bit(copy);
        let others = self.usable_of(cx, chunk, self.current(chunk) & !avoid);
        let Some((copy, _)) = self.fastest(cx, chunk, others).filter(|(_, expected)| *expected < waited / 2) else {
            return others == 0;
        };
        let len = piece.len_bytes;
        let Some((other, offset_bytes)) = self.locate(chunk, copy, at) else { return true };
        let reserved_bytes = COST_BYTES + u64::from(len);
        if self.hedging.credit < SHARE || !cx.budget.try_reserve(reserved_bytes) {
            return false;
        }
        self.hedging.credit -= SHARE;
        self.counters.hedged_reads += 1;
        let hedge = Hedge { of: piece.request, round, member, buffer_at: piece.buffer_at, chunk, at, len, copy };
        if let Some(read) = self.read_mut(cx, piece.request) {
            read.hedged.push(piece.buffer_at);
        }
        let buffer = vec![0; len as usize];
        let flags = if piece.op.is_urgent(piece.flags) { OpFlags::URGENT } else { OpFlags::NONE };
        let key = self.insert_inner(cx, Inner::Hedge(hedge), Op::Read, flags, buffer);
        if let Some(own) = cx.requests.get_mut(key) {
            own.reserved_bytes = reserved_bytes;
        }
        self.send(cx, key, other, (Op::Read, flags), (offset_bytes, len));
        if let Some(state) = self.members.get_mut(usize::from(other)) {
            state.speed.try_now(cx.now);
        }
        true
    }

    /// The other copy has answered.
    pub(super) fn hedge_answered(&mut self, cx: &mut Cx<'_>, hedge: Hedge, result: Result<Vec<u8>, Failure>) {
        let Hedge { of, round, member, buffer_at, chunk, at, len, copy } = hedge;
        let data = match result {
            Ok(data) => data,
            Err(Failure::Corrupt) => return self.found_corrupt(cx, chunk, copy, (at, len)),
            // The copy that was asked first answers, or fails.
            Err(_) => return,
        };
        let is_of_round = self.read(cx, of).is_some_and(|read| read.round == round);
        if !is_of_round || !cx.supersede(member, of, buffer_at) {
            return;
        }
        self.counters.hedges_first += 1;
        if let Some(read) = self.read_mut(cx, of) {
            read.note_asked(chunk, copy);
        }
        if let Some(request) = cx.requests.get_mut(of) {
            request.buffer[buffer_at as usize..][..data.len()].copy_from_slice(&data);
            cx.ended.push_back((of, None));
        }
    }

    /// Forgets a hedge whose member can answer it no more. False if the request is something else.
    pub(super) fn end_hedge(&mut self, cx: &mut Cx<'_>, key: RequestKey) -> bool {
        let Some(request) = cx.requests.get(key).filter(|r| r.client == ClientId::GATEWAY) else { return false };
        let is_hedge = matches!(self.inner.get((request.inner as usize).wrapping_sub(1)), Some(Inner::Hedge(_)));
        if is_hedge {
            self.remove_inner(cx, key);
        }
        is_hedge
    }
}
