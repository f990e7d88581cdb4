//! One node's queue: pieces wait here until a link has room for a batch (P1's per-slave queue).
//!
//! It also keeps the order that matters. A change (write, trim, write zeroes) is not sent while another one
//! that overlaps it is on its way, so that sending a change again after a lost link can never undo a
//! later one; and a flush is not sent before every change that was queued earlier has ended. Reads pass freely.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::request::RequestKey;
use crate::op::{Op, OpFlags};
use crate::units::Time;
use crate::wire::batch::WirePiece;

/// The part of a request that one node serves, while the gateway has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece {
    pub request: RequestKey,
    /// Its place among all pieces that were ever queued for this node.
    pub serial: u64,
    pub op: Op,
    pub flags: OpFlags,
    /// First byte of the extent.
    pub offset_bytes: u64,
    pub len_bytes: u32,
    /// Where its bytes lie in the request's buffer.
    pub buffer_at: u32,
    /// When its request was received.
    pub received: Time,
    /// Answered already; kept in its batch until the rest is.
    pub answered: bool,
}

impl Piece {
    /// What travels of it.
    #[inline]
    pub fn wire(&self) -> WirePiece {
        let Piece { op, flags, offset_bytes, len_bytes, .. } = *self;
        WirePiece { op, flags, offset_bytes, len_bytes }
    }
}

/// How much one batch may hold.
#[derive(Debug, Clone, Copy)]
pub(super) struct BatchLimits {
    pub pieces: usize,
    /// Bytes of payload, each way.
    pub bytes: u64,
}

/// Ranges longer than this are kept apart, so that the search for overlaps among the others looks back no further.
const LONG_BYTES: u32 = 1 << 20;

/// Ranges of the extent, to be asked for overlaps.
#[derive(Debug, Default)]
struct Ranges {
    /// (first byte, serial) to length, up to [`LONG_BYTES`].
    short: BTreeMap<(u64, u64), u32>,
    /// The same, of longer ones.
    long: BTreeMap<(u64, u64), u32>,
}

impl Ranges {
    fn of_length(&mut self, len_bytes: u32) -> &mut BTreeMap<(u64, u64), u32> {
        if len_bytes <= LONG_BYTES { &mut self.short } else { &mut self.long }
    }

    fn insert(&mut self, piece: &Piece) {
        self.of_length(piece.len_bytes).insert((piece.offset_bytes, piece.serial), piece.len_bytes);
    }

    fn remove(&mut self, piece: &Piece) {
        self.of_length(piece.len_bytes).remove(&(piece.offset_bytes, piece.serial));
    }

    fn clear(&mut self) {
        self.short.clear();
        self.long.clear();
    }

    /// Whether a range of another piece overlaps this one's.
    fn overlaps(&self, piece: &Piece) -> bool {
        self.serials_over(piece).next().is_some()
    }

    /// Whether a range of a piece that came before this one overlaps it.
    fn overlaps_earlier(&self, piece: &Piece) -> bool {
        self.serials_over(piece).any(|serial| serial < piece.serial)
    }

    fn serials_over(&self, piece: &Piece) -> impl Iterator<Item = u64> + '_ {
        let (start, end) = (piece.offset_bytes, piece.offset_bytes + u64::from(piece.len_bytes));
        let short = self.short.range((start.saturating_sub(u64::from(LONG_BYTES)), 0)..(end, 0));
        let long = self.long.range(..(end, 0));
        let over = short.chain(long).filter(move |&(&(offset, _), &len)| offset + u64::from(len) > start);
        over.map(|(&(_, serial), _)| serial)
    }
}

/// The queue of one node.
#[derive(Debug, Default)]
pub(super) struct NodeQueue {
    ready: VecDeque<Piece>,
    /// Changes that wait for another one that they overlap, in the order of their serials.
    held: VecDeque<Piece>,
    held_ranges: Ranges,
    /// Flushes that wait for earlier changes.
    held_flushes: VecDeque<Piece>,
    /// Changes that were sent and whose fate is open, even if their request is gone.
    open_ranges: Ranges,
    /// Serials of the changes that have left `ready` once and neither ended nor were dropped.
    unfinished: BTreeSet<u64>,
    next_serial: u64,
    /// Serial of the last change queued.
    last_change: u64,
    /// Every change with a smaller serial is on the flash.
    clean_before: u64,
}

impl NodeQueue {
    /// Appends a piece and gives it its serial.
    pub fn push(&mut self, mut piece: Piece) {
        self.next_serial += 1;
        piece.serial = self.next_serial;
        if piece.op.mutates() {
            self.last_change = piece.serial;
        }
        self.ready.push_back(piece);
    }

    /// Pieces that wait, held ones included.
    pub fn len(&self) -> usize {
        self.ready.len() + self.held.len() + self.held_flushes.len()
    }

    /// The requests whose pieces wait here.
    pub fn waiting_requests(&self) -> impl Iterator<Item = RequestKey> + '_ {
        self.ready.iter().chain(&self.held).chain(&self.held_flushes).map(|piece| piece.request)
    }

    /// Those of them that wait for the end of a change that was sent.
    pub fn held_requests(&self) -> impl Iterator<Item = RequestKey> + '_ {
        self.held.iter().chain(&self.held_flushes).map(|piece| piece.request)
    }

    /// Pieces that a batch could take now.
    pub fn ready_len(&self) -> usize {
        self.ready.len()
    }

    /// Whether a batch could be made now.
    pub fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Moves what fits one batch into `batch`.
    pub fn take_batch(&mut self, limits: BatchLimits, batch: &mut Vec<Piece>) {
        let mut bytes = 0;
        while batch.len() < limits.pieces {
            let Some(&piece) = self.ready.front() else { return };
            let payload = payload_bytes(&piece);
            if bytes + payload > limits.bytes && !batch.is_empty() {
                return;
            }
            self.ready.pop_front();
            if self.may_go(piece) {
                bytes += payload;
                batch.push(piece);
            }
        }
    }

    /// Whether a piece may be sent now. If not it is held until what it waits for has ended.
    fn may_go(&mut self, piece: Piece) -> bool {
        if piece.op.mutates() {
            self.unfinished.insert(piece.serial);
            if self.open_ranges.overlaps(&piece) || self.overlaps_held(&piece) {
                self.held_ranges.insert(&piece);
                // One that was let go and comes back has its old place.
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

    /// Whether a change that is held and came before this one overlaps it.
    fn overlaps_held(&self, piece: &Piece) -> bool {
        let has_earlier = self.held.front().is_some_and(|held| held.serial < piece.serial);
        has_earlier && self.held_ranges.overlaps_earlier(piece)
    }

    fn has_unfinished_before(&self, flush: &Piece) -> bool {
        self.unfinished.first().is_some_and(|&serial| serial < flush.serial)
    }

    /// A change has ended, or is known never to be executed: what waited for it may go on.
    pub fn change_ended(&mut self, piece: &Piece) {
        self.open_ranges.remove(piece);
        self.release_overlapping(piece);
        self.forget(piece);
    }

    /// A change is over, in whatever way: flushes need not wait for it.
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
            self.ready.push_front(flush);
        }
    }

    /// Lets go the held changes that overlap `ended` and nothing else that is open or came before them. They go to
    /// the front, in their order.
    fn release_overlapping(&mut self, ended: &Piece) {
        if self.held.is_empty() || !self.held_ranges.overlaps(ended) {
            return;
        }
        let ended_end = ended.offset_bytes + u64::from(ended.len_bytes);
        let mut earlier = Ranges::default();
        let mut released = Vec::new();
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
                released.push(piece);
            }
            if piece.offset_bytes <= ended.offset_bytes && end >= ended_end {
                // Whatever else overlaps waits for this one.
                break;
            }
        }
        for piece in released.into_iter().rev() {
            self.ready.push_front(piece);
        }
    }

    /// Drops pieces whose request is gone, so that they do not pile up while their node is away. What waited for
    /// them may go on.
    pub fn drop_dead(&mut self, is_live: impl Fn(&Piece) -> bool) {
        let mut dropped = Vec::new();
        for pieces in [&mut self.ready, &mut self.held, &mut self.held_flushes] {
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

    /// Puts pieces back in front, in their old order, to be sent again. Changes among them must be known not
    /// to be executed any more by whoever had them. They stay unfinished: no flush passes them.
    pub fn requeue(&mut self, mut pieces: Vec<Piece>) {
        pieces.sort_unstable_by_key(|p| p.serial);
        for piece in pieces.iter().filter(|p| p.op.mutates()) {
            self.open_ranges.remove(piece);
        }
        // What was held must stay behind what it waited for.
        self.release_all_held();
        for mut piece in pieces.into_iter().rev() {
            piece.answered = false;
            self.ready.push_front(piece);
        }
    }

    /// Lets every held change be looked at again, before anything that came later.
    fn release_all_held(&mut self) {
        self.held_ranges.clear();
        while let Some(piece) = self.held.pop_back() {
            self.ready.push_front(piece);
        }
    }

    /// Whether the node may hold changes that are not on its flash yet.
    pub fn is_dirty(&self) -> bool {
        self.last_change >= self.clean_before
    }

    /// Whether a change was ever queued here and not flushed since.
    pub fn has_unflushed_changes(&self) -> bool {
        self.last_change > 0 && self.is_dirty()
    }
}

/// The bytes that a piece adds to its batch's payload, or to that of the answer.
fn payload_bytes(piece: &Piece) -> u64 {
    if matches!(piece.op, Op::Read | Op::Write) { u64::from(piece.len_bytes) } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: BatchLimits = BatchLimits { pieces: 100, bytes: 1 << 20 };

    fn piece(op: Op, offset_bytes: u64, len_bytes: u32) -> Piece {
        let request = RequestKey::default();
        Piece {
            request,
            serial: 0,
            op,
            flags: OpFlags::NONE,
            offset_bytes,
            len_bytes,
            buffer_at: 0,
            received: Time::default(),
            answered: false,
        }
    }

    fn take(queue: &mut NodeQueue, limits: BatchLimits) -> Vec<Piece> {
        let mut batch = Vec::new();
        queue.take_batch(limits, &mut batch);
        batch
    }

    fn offsets(batch: &[Piece]) -> Vec<u64> {
        batch.iter().map(|p| p.offset_bytes).collect()
    }

    #[test]
    fn batches_keep_to_count_and_bytes() {
        let mut queue = NodeQueue::default();
        (0..10).for_each(|i| queue.push(piece(Op::Read, i, 100)));
        assert_eq!(take(&mut queue, BatchLimits { pieces: 3, bytes: 10_000 }).len(), 3, "at the count");
        assert_eq!(take(&mut queue, BatchLimits { pieces: 9, bytes: 299 }).len(), 2, "below the bytes");
        assert_eq!(take(&mut queue, BatchLimits { pieces: 9, bytes: 300 }).len(), 3, "at the bytes");
        assert_eq!(take(&mut queue, BatchLimits { pieces: 9, bytes: 1 }).len(), 1, "one always goes");
    }

    #[test]
    fn overlapping_changes_go_one_after_the_other_and_reads_pass() {
        let mut queue = NodeQueue::default();
        queue.push(piece(Op::Write, 0, 10));
        queue.push(piece(Op::Write, 5, 10));
        queue.push(piece(Op::Trim, 12, 10));
        queue.push(piece(Op::Write, 40, 10));
        queue.push(piece(Op::Read, 6, 1));
        let first = take(&mut queue, LIMITS);
        assert_eq!(offsets(&first), [0, 40, 6]);
        assert!(take(&mut queue, LIMITS).is_empty());
        queue.change_ended(&first[0]);
        let second = take(&mut queue, LIMITS);
        assert_eq!(offsets(&second), [5], "the trim overlaps it and came later");
        queue.change_ended(&second[0]);
        assert_eq!(offsets(&take(&mut queue, LIMITS)), [12]);
        assert_eq!(queue.len(), 0);
    }

    #[test]
    fn a_flush_waits_for_earlier_changes_only() {
        let mut queue = NodeQueue::default();
        queue.push(piece(Op::Write, 0, 10));
        queue.push(piece(Op::Write, 0, 10));
        queue.push(piece(Op::Flush, 0, 0));
        queue.push(piece(Op::Write, 50, 10));
        let first = take(&mut queue, LIMITS);
        assert_eq!(offsets(&first), [0, 50]);
        queue.change_ended(&first[0]);
        let second = take(&mut queue, LIMITS);
        assert_eq!(offsets(&second), [0]);
        queue.change_ended(&second[0]);
        let third = take(&mut queue, LIMITS);
        assert_eq!(third.iter().map(|p| p.op).collect::<Vec<_>>(), [Op::Flush], "the later write is still open");
        assert!(queue.is_dirty());
        queue.flushed(&third[0]);
        assert!(queue.is_dirty(), "the later write is not covered");
    }

    #[test]
    fn a_node_is_dirty_until_a_flush_covers_every_change() {
        let mut queue = NodeQueue::default();
        assert!(queue.is_dirty() && !queue.has_unflushed_changes(), "what an earlier session left is not known");
        queue.push(piece(Op::Flush, 0, 0));
        let flush = take(&mut queue, LIMITS)[0];
        queue.flushed(&flush);
        assert!(!queue.is_dirty());
        queue.push(piece(Op::Trim, 0, 1));
        assert!(queue.is_dirty() && queue.has_unflushed_changes());
    }

    #[test]
    fn what_is_sent_again_keeps_its_place() {
        let mut queue = NodeQueue::default();
        for offset in [0, 0, 20] {
            queue.push(piece(Op::Write, offset, 10));
        }
        let lost = take(&mut queue, LIMITS);
        assert_eq!(offsets(&lost), [0, 20]);
        queue.requeue(lost.into_iter().rev().collect());
        let again = take(&mut queue, LIMITS);
        assert_eq!(again.iter().map(|p| p.serial).collect::<Vec<_>>(), [1, 3]);
    }

    #[test]
    fn what_is_gone_leaves_the_queue_without_a_batch_and_holds_up_nobody() {
        let mut queue = NodeQueue::default();
        for (offset, len) in [(0, 10), (5, 10), (12, 10), (40, 10)] {
            queue.push(piece(Op::Write, offset, len));
        }
        let first = take(&mut queue, BatchLimits { pieces: 1, bytes: 1 << 20 });
        assert_eq!(offsets(&first), [0]);
        assert_eq!(offsets(&take(&mut queue, LIMITS)), [40]);
        queue.drop_dead(|p| p.offset_bytes != 5);
        assert_eq!(queue.len(), 1);
        assert_eq!(offsets(&take(&mut queue, LIMITS)), [12], "it waited only for what is gone");
    }

    #[test]
    fn pieces_of_requests_that_are_gone_are_dropped() {
        let mut queue = NodeQueue::default();
        (0..4).for_each(|i| queue.push(piece(Op::Write, i * 10, 10)));
        queue.drop_dead(|p| p.offset_bytes != 10);
        assert_eq!(offsets(&take(&mut queue, LIMITS)), [0, 20, 30]);
    }
}
