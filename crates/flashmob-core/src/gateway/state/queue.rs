//! One node's queue: pieces wait here until a link has room for a batch (P1's per-slave queue).
//!
//! It also keeps order. A change (write, trim, write zeroes) is not sent while an overlapping one is in flight, so that resending a
//! change after a lost link never undoes a later one. A map of holes counts as a change in that, so it never shows a hole where an earlier
//! write is under way. A flush is not sent before every earlier change has ended. Reads pass freely: those of each client wait in a lane of
//! their own, all else in one lane, and batches take from the lanes in turn.

mod lanes;
mod ranges;

use std::collections::{BTreeSet, VecDeque};

use super::clients::ClientId;
use super::requests::RequestKey;
use crate::op::{Op, OpFlags};
use crate::planted::{self, Bug};
use crate::units::Time;
use crate::wire::batch::WirePiece;
use lanes::{Lanes, Room};
use ranges::Ranges;

/// How many of the changes that wait are looked at to tell whether they are large.
const LOOKED_AT_MAX: usize = 64;

/// A piece: the part of a request that one node serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    pub request: RequestKey,
    /// The slot of its client, which is also that of its lane.
    pub client: u32,
    /// Its number among all pieces ever queued for this node.
    pub serial: u64,
    pub op: Op,
    pub flags: OpFlags,
    /// First byte of the extent.
    pub offset_bytes: u64,
    pub len_bytes: u32,
    /// Its offset in the request's buffer.
    pub buffer_at: u32,
    /// When its request was received.
    pub received: Time,
    /// Answered already; it stays in its batch until the rest is.
    pub answered: bool,
    /// The slot of its request's sample, from 1; 0 without one.
    pub sample: u8,
}

impl Piece {
    /// The piece of a request of the gateway's own.
    pub fn of_gateway(
        request: RequestKey,
        (op, flags): (Op, OpFlags),
        (offset_bytes, len_bytes): (u64, u32),
        now: Time,
    ) -> Piece {
        Piece {
            request,
            client: ClientId::GATEWAY.index as u32,
            serial: 0,
            op,
            flags,
            offset_bytes,
            len_bytes,
            buffer_at: 0,
            received: now,
            answered: false,
            sample: 0,
        }
    }

    /// Its form on the wire.
    #[inline]
    pub fn wire(&self) -> WirePiece {
        let Piece { op, flags, offset_bytes, len_bytes, .. } = *self;
        WirePiece { op, flags, offset_bytes, len_bytes }
    }
}

/// How much one batch may hold.
#[derive(Debug, Clone, Copy, Default)]
pub struct BatchLimits {
    pub pieces: usize,
    /// Bytes of payload, each way.
    pub bytes: u64,
}

/// The queue of one node.
#[derive(Debug, Default)]
pub struct NodeQueue {
    /// Reads, in lanes.
    reads: Lanes,
    /// Changes, maps, digests and flushes, by serial. A batch takes those that the rules above allow and holds the others.
    ordered: VecDeque<Piece>,
    /// The next turn is a lane of reads, not the ordered ones.
    is_turn_of_reads: bool,
    /// Changes and maps that wait for an overlapping one, by serial.
    held: VecDeque<Piece>,
    held_ranges: Ranges,
    /// Flushes that wait for earlier changes.
    held_flushes: VecDeque<Piece>,
    /// Changes and maps that were sent and have not ended, even if their request is gone.
    open_ranges: Ranges,
    /// Serials of the changes that have left `ordered` and neither ended nor were dropped.
    unfinished: BTreeSet<u64>,
    next_serial: u64,
    /// Serial of the last change queued.
    last_change: u64,
    /// Every change with a smaller serial is permanent.
    clean_before: u64,
}

impl NodeQueue {
    /// Appends a piece and gives it its serial.
    pub fn push(&mut self, mut piece: Piece) {
        self.next_serial += 1;
        piece.serial = self.next_serial;
        if piece.op == Op::Read {
            self.reads.push_back(piece);
            return;
        }
        if piece.op.mutates() {
            self.last_change = piece.serial;
        }
        self.ordered.push_back(piece);
    }

    /// Pieces in the queue, held ones included.
    pub fn len(&self) -> usize {
        self.ready_len() + self.held.len() + self.held_flushes.len()
    }

    /// The requests of these pieces.
    pub fn waiting_requests(&self) -> impl Iterator<Item = RequestKey> + '_ {
        self.waiting().map(|piece| piece.request)
    }

    /// All of them.
    pub fn waiting(&self) -> impl Iterator<Item = &Piece> + '_ {
        self.reads.iter().chain(&self.ordered).chain(&self.held).chain(&self.held_flushes)
    }

    /// The requests of held pieces.
    pub fn held_requests(&self) -> impl Iterator<Item = RequestKey> + '_ {
        self.held.iter().chain(&self.held_flushes).map(|piece| piece.request)
    }

    /// Pieces that a batch could take now.
    pub fn ready_len(&self) -> usize {
        self.reads.len() + self.ordered.len()
    }

    /// Whether the first changes that wait write so many bytes.
    pub fn begins_with_writes_of(&self, bytes: u64) -> bool {
        let first = self.ordered.iter().take(LOOKED_AT_MAX);
        let writes = first.filter(|piece| piece.op == Op::Write).map(|piece| u64::from(piece.len_bytes));
        writes.sum::<u64>() >= bytes
    }

    /// Reads in the queue.
    pub fn reads_len(&self) -> usize {
        self.reads.len()
    }

    /// Whether a batch could be made now.
    pub fn has_ready(&self) -> bool {
        !self.reads.is_empty() || !self.ordered.is_empty()
    }

    /// Whether an urgent read waits.
    pub fn has_urgent(&self) -> bool {
        self.reads.has_urgent()
    }

    /// Moves the urgent reads into `batch`.
    pub fn take_urgent(&mut self, limits: BatchLimits, batch: &mut Vec<Piece>) {
        self.reads.take_urgent(limits, batch);
    }

    /// Moves pieces for one batch into `batch`, from each lane in turn; `turn` limits one turn while several wait.
    pub fn take_batch(&mut self, limits: BatchLimits, turn: BatchLimits, batch: &mut Vec<Piece>) {
        let mut room = Room::new(limits, turn);
        while self.has_ready() {
            if self.ordered.is_empty() {
                self.is_turn_of_reads = true;
            } else if self.reads.is_empty() {
                self.is_turn_of_reads = false;
            }
            if !self.is_turn_of_reads {
                let before = batch.len();
                let is_full = self.take_ordered(&mut room, batch);
                // A lane that found no room at all has its turn in the next batch.
                self.is_turn_of_reads = !is_full || batch.len() > before;
                if is_full {
                    return;
                }
            } else {
                // The ordered ones have their turn after that of the last lane.
                let turn = self.reads.take_turn(!self.ordered.is_empty(), &mut room, batch);
                self.is_turn_of_reads = !turn.is_round_over;
                if turn.is_full {
                    return;
                }
            }
        }
    }

    /// The turn of the ordered ones. True if the next of them does not fit the batch.
    fn take_ordered(&mut self, room: &mut Room, batch: &mut Vec<Piece>) -> bool {
        room.begin_turn(!self.reads.is_empty());
        while let Some(&piece) = self.ordered.front() {
            if room.is_full_for(&piece) {
                return true;
            }
            if room.is_turn_over() {
                return false;
            }
            self.ordered.pop_front();
            if self.may_go(piece) {
                room.take(&piece);
                batch.push(piece);
            }
        }
        false
    }

    /// Whether a change, map or flush may be sent now. If not, it is held until those before it have ended.
    fn may_go(&mut self, piece: Piece) -> bool {
        if piece.op.excludes_changes(piece.flags) && !(piece.op == Op::Map && planted::is(Bug::MapOvertakesWrite)) {
            if piece.op.mutates() {
                self.unfinished.insert(piece.serial);
            }
            if self.open_ranges.overlaps(&piece) || self.overlaps_held(&piece) {
                self.held_ranges.insert(&piece);
                // One that was released before returns to its old place.
                let at = self.held.partition_point(|held| held.serial < piece.serial);
                self.held.insert(at, piece);
                return false;
            }
            self.open_ranges.insert(&piece);
        } else if piece.op == Op::Flush && self.has_unfinished_before(&piece) {
            self.held_flushes.push_back(piece);
            return false;
        }
        true
    }

    /// Whether an earlier held change or map overlaps this one.
    fn overlaps_held(&self, piece: &Piece) -> bool {
        let has_earlier = self.held.front().is_some_and(|held| held.serial < piece.serial);
        has_earlier && self.held_ranges.overlaps_earlier(piece)
    }

    fn has_unfinished_before(&self, flush: &Piece) -> bool {
        self.unfinished.first().is_some_and(|&serial| serial < flush.serial) && !planted::is(Bug::FlushOvertakesWrite)
    }

    /// A change or map has ended, or will never be executed: releases those that waited for it.
    pub fn change_ended(&mut self, piece: &Piece) {
        self.open_ranges.remove(piece);
        self.release_overlapping(piece);
        self.forget(piece);
    }

    /// A change is over: flushes need not wait for it.
    fn forget(&mut self, piece: &Piece) {
        if self.unfinished.remove(&piece.serial) {
            self.release_flushes();
        }
    }

    fn release_flushes(&mut self) {
        while let Some(&flush) = self.held_flushes.front()
            && !self.has_unfinished_before(&flush)
        {
            self.held_flushes.pop_front();
            self.put_in_order(flush);
        }
    }

    /// Returns a held piece to its place in `ordered`, where earlier ones may still wait: overlapping changes must keep their order.
    fn put_in_order(&mut self, piece: Piece) {
        let at = self.ordered.partition_point(|other| other.serial < piece.serial);
        self.ordered.insert(at, piece);
    }

    /// Releases the held changes that overlap `ended`, but no other change that is open or held before them.
    fn release_overlapping(&mut self, ended: &Piece) {
        if self.held.is_empty() || !self.held_ranges.overlaps(ended) {
            return;
        }
        let ended_end = ended.offset_bytes + u64::from(ended.len_bytes);
        let mut earlier = Ranges::default();
        let mut index = 0;
        while let Some(&piece) = self.held.get(index) {
            let end = piece.offset_bytes + u64::from(piece.len_bytes);
            let overlaps = piece.offset_bytes < ended_end && ended.offset_bytes < end;
            let waits = !overlaps || self.open_ranges.overlaps(&piece) || earlier.overlaps(&piece);
            earlier.insert(&piece);
            if waits {
                index += 1;
            } else {
                self.held.remove(index);
                self.held_ranges.remove(&piece);
                self.put_in_order(piece);
            }
            if piece.offset_bytes <= ended.offset_bytes && end >= ended_end {
                // All others that overlap `ended` wait for this one.
                break;
            }
        }
    }

    /// Drops pieces whose request is gone, so that they do not pile up while their node is away. Releases those that waited for them.
    pub fn drop_dead(&mut self, is_live: impl Fn(&Piece) -> bool) {
        self.reads.retain(&is_live);
        let mut dropped = Vec::new();
        for pieces in [&mut self.ordered, &mut self.held, &mut self.held_flushes] {
            pieces.retain(|piece| {
                let lives = is_live(piece);
                if !lives {
                    dropped.push(*piece);
                }
                lives
            });
        }
        if dropped.is_empty() {
            return;
        }
        self.release_all_held();
        for piece in &dropped {
            self.forget(piece);
        }
    }

    /// A flush has succeeded.
    pub fn flushed(&mut self, piece: &Piece) {
        self.clean_before = self.clean_before.max(piece.serial);
    }

    /// Returns pieces in their old order, to be sent again. The earlier attempts at changes among them must be over. They stay
    /// unfinished: no flush passes them.
    pub fn requeue(&mut self, mut pieces: Vec<Piece>) {
        pieces.sort_unstable_by_key(|p| p.serial);
        for piece in pieces.iter().filter(|p| p.op.excludes_changes(p.flags)) {
            self.open_ranges.remove(piece);
        }
        let is_ordered = pieces.iter().any(|piece| piece.op != Op::Read);
        if is_ordered {
            // Held pieces must stay behind those that they waited for.
            self.release_all_held();
        }
        for mut piece in pieces.into_iter().rev() {
            piece.answered = false;
            if piece.op == Op::Read {
                self.reads.push_front(piece);
            } else {
                self.ordered.push_front(piece);
            }
        }
        if is_ordered {
            self.sort_ordered();
        }
    }

    /// Returns every held change to `ordered`.
    fn release_all_held(&mut self) {
        self.held_ranges.clear();
        while let Some(piece) = self.held.pop_back() {
            self.ordered.push_front(piece);
        }
        self.sort_ordered();
    }

    /// Restores the order after pieces were put in front. It consists of few sorted runs, which this sort merges fast.
    fn sort_ordered(&mut self) {
        self.ordered.make_contiguous().sort_by_key(|piece| piece.serial);
    }

    /// Takes out the waiting reads, in the order of their serials.
    pub fn take_reads(&mut self) -> Vec<Piece> {
        let mut reads: Vec<Piece> = self.reads.iter().copied().collect();
        self.reads.retain(|_| false);
        reads.sort_unstable_by_key(|piece| piece.serial);
        reads
    }

    /// The serial of the last change that was queued.
    pub fn last_change(&self) -> u64 {
        self.last_change
    }

    /// The serial of the last piece that was queued.
    pub fn last_serial(&self) -> u64 {
        self.next_serial
    }

    /// Every change with a smaller serial is permanent.
    pub fn clean_before(&self) -> u64 {
        self.clean_before
    }

    /// Whether the node may have changes that are not permanent yet.
    pub fn is_dirty(&self) -> bool {
        self.last_change >= self.clean_before
    }

    /// Whether a change was queued here and not flushed since.
    pub fn has_unflushed_changes(&self) -> bool {
        self.last_change > 0 && self.is_dirty()
    }
}

/// The bytes that a piece adds to the payload of its batch or of the answer.
fn payload_bytes(piece: &Piece) -> u64 {
    match piece.op {
        Op::Read | Op::Write => u64::from(piece.len_bytes),
        op => u64::from(op.reply_bytes(piece.len_bytes)),
    }
}

#[cfg(test)]
mod tests;
