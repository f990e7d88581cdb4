//! Serving a batch: what can be served at once is, the rest goes through the elevator and the store.

use super::at_once::Arrived;
use super::followed::{FOLLOWED_COST_BYTES, Followed};
use super::link::{LinkId, LinkState, NodeLink};
use super::reply::Done;
use super::together::held_bytes_max;
use super::{Host, InStore, LINK_PIECES_MAX, Node, PIECE_COST_BYTES, StoreDone, StoreOp};
use crate::elevator::{Entry, Issue};
use crate::op::{Failure, Op, OpFlags};
use crate::planted::{self, Bug};
use crate::stages::NodeInterval;
use crate::units::{KIB, MIB, Time};
use crate::wire::batch::{WirePiece, decode_sized_batch, is_together};
use crate::wire::frame::WireError;
use crate::wire::trace::{followed as wire_followed, is_followed};

/// Most bytes of buffers in the store at once; further operations wait in the elevator.
const STORE_BYTES_MAX: u64 = 8 * MIB;
/// The load of an operation on the store's depth; that of plain small writes into the page cache is 1.
const STORE_LOAD_FULL: usize = 16;
/// Most bytes of such a small write; the threads of the server's store treat such writes as light, too.
pub const LIGHT_BYTES_MAX: u32 = 64 * KIB as u32;
/// Most bytes of framing and of answers without data that a link queues.
const UNREAD_BYTES_MAX: u64 = MIB;
/// The minimum share of the budget for a link, in bytes: one full batch each way.
const LINK_SHARE_BYTES_MIN: u64 = 2 * MIB + (1 << 19);

/// A batch with unanswered pieces.
#[derive(Debug)]
pub(super) struct Batch {
    pub link: LinkId,
    pub seq: u32,
    pub received: Time,
    pub pieces: Vec<WirePiece>,
    /// The bytes of its writes, in order.
    pub payload: Vec<u8>,
    /// Where each piece's bytes begin in `payload`; empty if there are no writes.
    pub payload_at: Vec<u32>,
    /// Pieces that are neither answered nor dropped.
    pub left: usize,
    /// Bytes of the budget that it holds, without answers.
    pub reserved_bytes: u64,
    /// The gateway wants one frame of answers: they are held until all are ready, or one of the pieces takes much longer.
    pub together: bool,
    /// The held answers, their bytes, and when the first and the last of them were made.
    pub held: Vec<Done>,
    pub held_bytes: usize,
    /// With so many bytes held they are sent without the rest.
    pub held_bytes_max: usize,
    pub held_from: Time,
    pub held_since: Time,
    /// The pieces that the gateway follows; usually none.
    pub followed: Vec<Followed>,
}

/// Identifies a piece of a batch in hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PieceRef {
    pub batch: usize,
    pub index: u16,
}

impl Node {
    /// Accepts a batch within the limits, and serves what can be served at once. False if the limits do not allow it now.
    pub(super) fn accept_batch(
        &mut self,
        now: Time,
        id: LinkId,
        meta: &[u8],
        payload: &[u8],
        host: &mut impl Host,
    ) -> Result<bool, WireError> {
        let mut pieces = self.pieces_pool.pop().unwrap_or_default();
        let (seq, reply_bytes) = decode_sized_batch(meta, payload.len(), &mut pieces)?;
        // Answers are identified by batch number and index. A number reused while its batch is out would make them ambiguous, and more of
        // them equal than one frame can carry.
        let last_seq = self.links.get(id.0).and_then(|l| l.last_seq);
        if last_seq.is_some_and(|last| seq != last.wrapping_add(1)) {
            return Err(WireError::Malformed("batch: sequence number"));
        }
        let mut followed: Vec<Followed> = Vec::new();
        if is_followed(meta) {
            let received = host.now();
            followed.extend(wire_followed(meta).map(|index| Followed::new(index, received)));
        }
        let reserved_bytes =
            pieces.len() as u64 * PIECE_COST_BYTES + payload.len() as u64 + followed.len() as u64 * FOLLOWED_COST_BYTES;
        if !self.reserve(id, pieces.len(), reserved_bytes + reply_bytes) {
            self.pieces_pool.push(pieces);
            return Ok(false);
        }
        if let Some(link) = self.links.get_mut(id.0) {
            link.last_seq = Some(seq);
        }
        self.counters.batches += 1;
        self.counters.pieces += pieces.len() as u64;
        self.counters.write_bytes += payload.len() as u64;
        self.counters.read_bytes += reply_bytes;
        let arrived = Arrived { now, link: id, seq, pieces: &pieces, payload };
        let fast = self.serve_at_once(arrived, &mut followed, host);
        let left = self.fast_missed.len() + pieces.len() - fast;
        if left == 0 {
            self.release(id, pieces.len(), reserved_bytes);
            pieces.clear();
            self.pieces_pool.push(pieces);
            return Ok(true);
        }
        let batch = self.batches.insert(Batch {
            link: id,
            seq,
            received: now,
            payload_at: payload_starts(&pieces),
            payload: payload.to_vec(),
            pieces,
            left,
            reserved_bytes,
            together: is_together(meta),
            held: Vec::new(),
            held_bytes: 0,
            held_bytes_max: held_bytes_max(reply_bytes),
            held_from: now,
            held_since: now,
            followed,
        });
        self.enqueue(batch, fast);
        let scheduled = host.now();
        if let Some(batch) = self.batches.get_mut(batch) {
            batch.followed.iter_mut().for_each(|followed| followed.scheduled = scheduled);
        }
        self.stages.record_n(NodeInterval::Scheduled, scheduled.nanos_since(now), left as u64);
        Ok(true)
    }

    /// Reserves `pieces` and `bytes`, if the node and the link's share of it have room.
    fn reserve(&mut self, id: LinkId, pieces: usize, bytes: u64) -> bool {
        let Some(link) = self.links.get_mut(id.0) else { return false };
        link.blocked_need = (pieces, bytes);
        if !self.links.get(id.0).is_some_and(|link| self.has_room(link)) || !self.budget.try_reserve(bytes) {
            return false;
        }
        let Some(link) = self.links.get_mut(id.0) else { return false };
        link.pieces_in_hand += pieces;
        link.reserved_bytes += bytes;
        true
    }

    /// Whether a link's next batch, as far as it is known, would fit now.
    fn has_room(&self, link: &NodeLink) -> bool {
        let (pieces, bytes) = link.blocked_need;
        let links = self.links.iter().filter(|(_, l)| l.is_open()).count().max(1) as u64;
        let share_bytes = (self.budget.limit_bytes() / links).max(LINK_SHARE_BYTES_MIN);
        // Answers without data are in no other limit.
        let unread_bytes = (link.out.len() as u64).saturating_sub(link.unwritten_reply_bytes);
        unread_bytes <= UNREAD_BYTES_MAX
            && (link.pieces_in_hand == 0 || link.pieces_in_hand + pieces <= LINK_PIECES_MAX)
            && (link.reserved_bytes == 0 || link.reserved_bytes + bytes <= share_bytes)
            && (self.budget.used_bytes() == 0 || self.budget.used_bytes() + bytes <= self.budget.limit_bytes())
    }

    /// Whether a link that was held back could go on now. Saves decoding its batch again in each turn.
    pub(super) fn may_unblock(&self, link: &NodeLink) -> bool {
        link.blocked && matches!(link.state, LinkState::Ready) && self.has_room(link)
    }

    /// Releases the reservation of pieces of a link.
    pub(super) fn release(&mut self, id: LinkId, pieces: usize, bytes: u64) {
        self.budget.release(bytes);
        if let Some(link) = self.links.get_mut(id.0) {
            link.pieces_in_hand -= pieces;
            link.reserved_bytes -= bytes;
        }
    }

    /// Adds the missed reads of a batch, and all pieces behind the fast ones, to the elevator.
    fn enqueue(&mut self, batch: usize, fast: usize) {
        let missed = std::mem::take(&mut self.fast_missed);
        let count = self.batches.get(batch).map_or(0, |b| b.pieces.len());
        for index in missed.iter().copied().chain(fast as u16..count as u16) {
            let tag = PieceRef { batch, index };
            let Some(piece) = self.batches.get(batch).map(|b| b.pieces[usize::from(index)]) else { continue };
            if piece.offset_bytes + u64::from(piece.len_bytes) > self.config.size_bytes {
                self.answer(tag, Err(Failure::Invalid), None, None);
                continue;
            }
            let WirePiece { op, mut flags, offset_bytes, len_bytes } = piece;
            if planted::is(Bug::FlushWithoutStore) && op == Op::Flush {
                self.answer(tag, Ok(()), None, None);
                continue;
            }
            if planted::is(Bug::FuaDropped) {
                flags = OpFlags::NONE;
            }
            self.elevator.push(Entry { op, flags, offset_bytes, len_bytes, tag });
        }
        self.fast_missed = missed;
    }

    /// Moves operations from the elevator to the store while it has room for them.
    pub(super) fn feed_store(&mut self) {
        while self.store_load < STORE_LOAD_FULL * self.config.store_depth && self.store_bytes < STORE_BYTES_MAX {
            let mut parts = self.parts_pool.pop().unwrap_or_default();
            let Some(issue) = self.elevator.next(&mut parts) else {
                self.parts_pool.push(parts);
                return;
            };
            let data = self.buffer_for(&parts, issue.len_bytes);
            self.store_bytes += data.len() as u64;
            let load = self.load_of(&issue);
            self.store_load += load;
            let entry = self.in_store.vacant_entry();
            self.ops.push(StoreOp {
                id: entry.key() as u64,
                op: issue.op,
                flags: issue.flags,
                offset_bytes: issue.offset_bytes,
                len_bytes: issue.len_bytes,
                data,
            });
            entry.insert(InStore { issue, parts, load, is_slow: false });
        }
    }

    /// The load of an operation on the store's depth, up to [`STORE_LOAD_FULL`].
    ///
    /// The depth keeps a device busy; the rest waits in the elevator, which sorts. A plain write into the page cache keeps no device busy,
    /// and the kernel sorts writeback; handing it over costs more than doing it, so many go together. Flushes beside one that is slow wait for
    /// the same bytes.
    fn load_of(&self, issue: &Issue) -> usize {
        if issue.op == Op::Flush && self.slow_flushes > 0 {
            return 0;
        }
        let is_cached = self.config.align_bytes <= 1;
        let is_light = issue.op == Op::Write && !issue.flags.has(OpFlags::FUA) && issue.len_bytes <= LIGHT_BYTES_MAX;
        if is_cached && is_light { 1 } else { STORE_LOAD_FULL }
    }

    /// The buffer of an operation: the joined bytes of a write, or room for a read. Counts its pieces as in the store.
    fn buffer_for(&mut self, parts: &[Entry<PieceRef>], len_bytes: u32) -> Vec<u8> {
        let mut data = Vec::new();
        for part in parts {
            let Some(batch) = self.batches.get(part.tag.batch) else { continue };
            if let Some(link) = self.links.get_mut(batch.link.0) {
                link.pieces_in_store += 1;
            }
            if part.op == Op::Write {
                data.reserve(len_bytes as usize);
                let at = batch.payload_at[usize::from(part.tag.index)] as usize;
                data.extend_from_slice(&batch.payload[at..at + part.len_bytes as usize]);
            }
        }
        if let Some(part) = parts.first().filter(|part| part.op.returns_data()) {
            data.resize(part.op.reply_bytes(len_bytes) as usize, 0);
        }
        data
    }

    /// A read of several pieces hit a block that does not match its checksum: each piece is read alone, as the others may be well.
    pub(super) fn read_apart(&mut self, op: &mut InStore) {
        for part in op.parts.drain(..) {
            let Some(link) = self.batches.get(part.tag.batch).map(|batch| batch.link) else { continue };
            if let Some(link) = self.links.get_mut(link.0) {
                link.pieces_in_store -= 1;
            }
            self.elevator.push(Entry { flags: part.flags.with(OpFlags::ALONE), ..part });
        }
    }

    /// Answers the pieces of an operation that the store has ended.
    pub(super) fn finish_parts(&mut self, op: &mut InStore, mut done: StoreDone) {
        let is_read = op.issue.op.returns_data();
        let single = op.parts.len() == 1;
        for part in op.parts.drain(..) {
            let Some((link, received)) = self.batches.get(part.tag.batch).map(|b| (b.link, b.received)) else {
                continue;
            };
            self.stages.record(NodeInterval::FlashStart, done.started.nanos_since(received));
            if let Some(followed) = self.batches.get_mut(part.tag.batch).and_then(|b| b.follow(part.tag.index)) {
                followed.stored(&op.issue, done.started, done.finished);
            }
            if let Some(link) = self.links.get_mut(link.0) {
                link.pieces_in_store -= 1;
                link.slow_in_store -= usize::from(op.is_slow);
            }
            let data = if !is_read || done.result.is_err() {
                None
            } else if single {
                Some(std::mem::take(&mut done.data))
            } else {
                let is_first = planted::is(Bug::AnswerToWrongRequest);
                let at = if is_first { 0 } else { (part.offset_bytes - op.issue.offset_bytes) as usize };
                Some(done.data[at..at + part.len_bytes as usize].to_vec())
            };
            self.answer(part.tag, done.result, data, Some(done.finished));
        }
    }

    /// Queues the answer of one piece, or drops it if its link has ended.
    fn answer(&mut self, tag: PieceRef, outcome: Result<(), Failure>, data: Option<Vec<u8>>, finished: Option<Time>) {
        let Some(batch) = self.batches.get_mut(tag.batch) else { return };
        let followed = batch.follow(tag.index).map(|followed| Box::new(*followed));
        let (id, piece) = (batch.link, batch.pieces[usize::from(tag.index)]);
        let (seq, received) = (batch.seq, batch.received);
        let done = Done { seq, index: tag.index, outcome, received, finished, data, followed };
        let reply_bytes = u64::from(piece.reply_bytes());
        let mut unused_bytes = reply_bytes;
        if outcome.is_err() {
            self.counters.failures += 1;
        }
        if let Some(link) = self.links.get_mut(id.0)
            && !matches!(link.state, LinkState::Dead)
        {
            if done.data.is_some() {
                unused_bytes = 0;
            }
            if planted::is(Bug::NodeLosesReply) && tag.index == 2 {
                // The third of each batch.
            } else if batch.together {
                self.hold(tag.batch, done);
            } else {
                link.push_answer(done);
            }
        }
        self.forget_piece(tag, unused_bytes);
    }

    /// Removes a piece from its batch, and releases `unused_bytes` that were reserved for its answer.
    fn forget_piece(&mut self, tag: PieceRef, unused_bytes: u64) {
        let Some(batch) = self.batches.get_mut(tag.batch) else { return };
        batch.left -= 1;
        let id = batch.link;
        if unused_bytes > 0 {
            self.release(id, 0, unused_bytes);
        }
        if self.batches[tag.batch].left == 0 {
            self.let_answers_go(tag.batch);
            let mut batch = self.batches.remove(tag.batch);
            self.release(id, batch.pieces.len(), batch.reserved_bytes);
            batch.pieces.clear();
            self.pieces_pool.push(batch.pieces);
        }
    }

    /// Drops all pieces of a link that are not in the store.
    pub(super) fn drop_waiting(&mut self, id: LinkId) {
        // Held answers first: they must not be released when their batch ends below.
        self.drop_held(id);
        let batches = &self.batches;
        let dropped = self.elevator.remove_where(|tag| batches.get(tag.batch).is_some_and(|b| b.link == id));
        for entry in dropped {
            let reply_bytes = u64::from(entry.op.reply_bytes(entry.len_bytes));
            self.forget_piece(entry.tag, reply_bytes);
        }
        if let Some(link) = self.links.get_mut(id.0) {
            link.replies.clear();
        }
    }
}

impl Batch {
    /// The times of a piece, if it is followed.
    fn follow(&mut self, index: u16) -> Option<&mut Followed> {
        self.followed.iter_mut().find(|followed| followed.index == index)
    }
}

/// Where each piece's bytes begin in the payload; empty if no piece has any.
fn payload_starts(pieces: &[WirePiece]) -> Vec<u32> {
    if pieces.iter().all(|p| p.payload_bytes() == 0) {
        return Vec::new();
    }
    let mut at = 0;
    pieces
        .iter()
        .map(|p| {
            let start = at;
            at += p.payload_bytes();
            start
        })
        .collect()
}
