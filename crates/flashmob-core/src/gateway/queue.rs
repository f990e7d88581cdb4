//! One node's queue: pieces wait here until a link has room for a batch (P1's per-slave queue).
//!
//! It also keeps the order that matters. A change (write, trim, write zeroes) is not sent while another one
//! that overlaps it is on its way, so that sending a change again after a lost link can never undo a
//! later one; and a flush is not sent before every change that was queued earlier has ended. Reads pass freely.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::request::RequestKey;
use crate::op::{Op, OpFlags};

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
    /// Answered already; kept in its batch until the rest is.
    pub answered: bool,
}

/// How much one batch may hold.
#[derive(Debug, Clone, Copy)]
pub(super) struct BatchLimits {
    pub pieces: usize,
    /// Bytes of payload, each way.
    pub bytes: u64,
}

/// Ranges of the extent, to be asked for overlaps.
#[derive(Debug, Default)]
struct Ranges {
    /// (first byte, serial) to length.
    by_offset: BTreeMap<(u64, u64), u32>,
    /// No range here is longer than this, in bytes.
    longest: u32,
}

impl Ranges {
    fn insert(&mut self, piece: &Piece) {
        self.longest = self.longest.max(piece.len_bytes);
        self.by_offset.insert((piece.offset_bytes, piece.serial), piece.len_bytes);
    }

    fn remove(&mut self, piece: &Piece) {
        self.by_offset.remove(&(piece.offset_bytes, piece.serial));
        if self.by_offset.is_empty() {
            self.longest = 0;
        }
    }

    fn clear(&mut self) {
        self.by_offset.clear();
        self.longest = 0;
    }

    fn overlaps(&self, piece: &Piece) -> bool {
        let end = piece.offset_bytes + u64::from(piece.len_bytes);
        let first = piece.offset_bytes.saturating_sub(u64::from(self.longest));
        self.by_offset
            .range((first, 0)..(end, 0))
            .any(|(&(offset, _), &len)| offset + u64::from(len) > piece.offset_bytes)
    }
}

/// The queue of one node.
#[derive(Debug, Default)]
pub(super) struct NodeQueue {
    ready: VecDeque<Piece>,
    /// Pieces that wait for a change to end, in the order of their serials.
    held: VecDeque<Piece>,
    held_ranges: Ranges,
    /// Changes that were sent and whose fate is open, even if their request is gone.
    open_ranges: Ranges,
    open_serials: BTreeSet<u64>,
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
        self.ready.len() + self.held.len()
    }

    /// The requests whose pieces wait here.
    pub fn waiting_requests(&self) -> impl Iterator<Item = RequestKey> + '_ {
        self.ready.iter().chain(&self.held).map(|piece| piece.request)
    }

    /// Whether a batch could be made now.
    pub fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Moves what fits one batch into `batch`. Pieces whose request is gone are dropped on the way.
    pub fn take_batch(&mut self, limits: BatchLimits, is_live: impl Fn(&Piece) -> bool, batch: &mut Vec<Piece>) {
        let mut bytes = 0;
        while batch.len() < limits.pieces {
            let Some(piece) = self.ready.front() else { return };
            let (piece, payload) = (*piece, payload_bytes(piece));
            if is_live(&piece) {
                if bytes + payload > limits.bytes && !batch.is_empty() {
                    return;
                }
                if self.must_wait(&piece) {
                    self.hold(piece);
                } else {
                    if piece.op.mutates() {
                        self.open_ranges.insert(&piece);
                        self.open_serials.insert(piece.serial);
                    }
                    bytes += payload;
                    batch.push(piece);
                }
            }
            self.ready.pop_front();
        }
    }

    /// Drops pieces whose request is gone, so that they do not pile up while their node is away. What waited for
    /// them may go on.
    pub fn drop_dead(&mut self, is_live: impl Fn(&Piece) -> bool) {
        self.ready.retain(&is_live);
        let held = self.held.len();
        self.held.retain(&is_live);
        if self.held.len() < held {
            self.release_held();
        }
    }

    fn must_wait(&self, piece: &Piece) -> bool {
        if piece.op.mutates() {
            self.open_ranges.overlaps(piece) || self.held_ranges.overlaps(piece)
        } else if piece.op == Op::Flush {
            let oldest_open = self.open_serials.first().is_some_and(|&serial| serial < piece.serial);
            oldest_open || self.held.iter().any(|held| held.op.mutates() && held.serial < piece.serial)
        } else {
            false
        }
    }

    fn hold(&mut self, piece: Piece) {
        if piece.op.mutates() {
            self.held_ranges.insert(&piece);
        }
        self.held.push_back(piece);
    }

    /// A change has ended, or is known never to be executed: what waited for it may go on.
    pub fn change_ended(&mut self, piece: &Piece) {
        self.open_ranges.remove(piece);
        self.open_serials.remove(&piece.serial);
        self.release_held();
    }

    /// A flush has succeeded.
    pub fn flushed(&mut self, piece: &Piece) {
        self.clean_before = self.clean_before.max(piece.serial);
    }

    /// Puts pieces back in front, in their old order, to be sent again. Changes among them must be known not
    /// to be executed any more by whoever had them.
    pub fn requeue(&mut self, mut pieces: Vec<Piece>) {
        pieces.sort_unstable_by_key(|p| p.serial);
        for piece in &pieces {
            if piece.op.mutates() {
                self.open_ranges.remove(piece);
                self.open_serials.remove(&piece.serial);
            }
        }
        self.release_held();
        for mut piece in pieces.into_iter().rev() {
            piece.answered = false;
            self.ready.push_front(piece);
        }
    }

    /// Lets everything that was held be looked at again, before anything that came later.
    fn release_held(&mut self) {
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
        Piece { request, serial: 0, op, flags: OpFlags::NONE, offset_bytes, len_bytes, buffer_at: 0, answered: false }
    }

    fn take(queue: &mut NodeQueue, limits: BatchLimits) -> Vec<Piece> {
        let mut batch = Vec::new();
        queue.take_batch(limits, |_| true, &mut batch);
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
        let mut batch = Vec::new();
        queue.take_batch(LIMITS, |p| p.offset_bytes != 10, &mut batch);
        assert_eq!(offsets(&batch), [0, 20, 30]);
    }
}
