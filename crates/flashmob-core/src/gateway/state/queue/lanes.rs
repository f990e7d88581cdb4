//! Lanes: the waiting reads of each client, which batches take in turns.
//!
//! A turn is a few pieces. A client waits for one turn of each other client, not for all that the others have queued. A client that
//! waits alone has no turns: a batch takes all that fits.

use std::collections::VecDeque;

use super::{BatchLimits, Piece, payload_bytes};
use crate::planted::{self, Bug};

/// How many empty lanes are kept for reuse, and for how many pieces each at most.
const SPARE_LANES: usize = 4;
const SPARE_PIECES: usize = 1024;

/// The size of a batch so far, and its limits.
#[derive(Debug)]
pub(super) struct Room {
    limits: BatchLimits,
    pieces: usize,
    bytes: u64,
    /// The limits of one turn while others wait. It ends with the piece that reaches either.
    turn: BatchLimits,
    /// The totals at which this turn ends.
    turn_end: BatchLimits,
}

impl Room {
    pub fn new(limits: BatchLimits, turn: BatchLimits) -> Room {
        Room { limits, pieces: 0, bytes: 0, turn, turn_end: limits }
    }

    /// The turn of another lane begins; it is limited only if others wait.
    pub fn begin_turn(&mut self, is_shared: bool) {
        self.turn_end = if is_shared {
            BatchLimits { pieces: self.pieces + self.turn.pieces, bytes: self.bytes + self.turn.bytes }
        } else {
            BatchLimits { pieces: usize::MAX, bytes: u64::MAX }
        };
    }

    pub fn is_turn_over(&self) -> bool {
        self.pieces >= self.turn_end.pieces || self.bytes >= self.turn_end.bytes
    }

    /// Whether a piece has to wait for the next batch. The first always fits.
    pub fn is_full_for(&self, piece: &Piece) -> bool {
        let is_over = self.bytes + payload_bytes(piece) > self.limits.bytes && self.pieces > 0;
        is_over || self.pieces >= self.limits.pieces
    }

    pub fn take(&mut self, piece: &Piece) {
        self.pieces += 1;
        self.bytes += payload_bytes(piece);
    }
}

/// How a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Turn {
    /// The batch has no room for the next piece.
    pub is_full: bool,
    /// It was the last lane's turn.
    pub is_round_over: bool,
}

fn is_urgent(piece: &Piece) -> bool {
    piece.op.is_urgent(piece.flags)
}

#[derive(Debug)]
struct Lane {
    client: u32,
    pieces: VecDeque<Piece>,
}

/// The lanes of one node's queue. No lane is empty, except that an only one may be, so that a single client keeps its lane.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    lanes: Vec<Lane>,
    /// The lane whose turn is next.
    next: usize,
    /// The lane that was found last: consecutive pieces often belong to one client.
    found: usize,
    spare: Vec<VecDeque<Piece>>,
}

impl Lanes {
    #[inline]
    pub fn push_back(&mut self, piece: Piece) {
        self.lane(piece.client).push_back(piece);
    }

    /// Puts a piece before all others of its client.
    pub fn push_front(&mut self, piece: Piece) {
        self.lane(piece.client).push_front(piece);
    }

    #[inline]
    fn lane(&mut self, client: u32) -> &mut VecDeque<Piece> {
        let client = if planted::is(Bug::FairnessOff) { 0 } else { client };
        if self.lanes.get(self.found).is_none_or(|lane| lane.client != client) {
            self.found = self.find(client);
        }
        &mut self.lanes[self.found].pieces
    }

    /// The index of a client's lane, which is created if there is none.
    #[cold]
    fn find(&mut self, client: u32) -> usize {
        if let Some(at) = self.lanes.iter().position(|lane| lane.client == client) {
            return at;
        }
        if let [only] = &mut self.lanes[..]
            && only.pieces.is_empty()
        {
            only.client = client;
            return 0;
        }
        let pieces = self.spare.pop().unwrap_or_default();
        self.lanes.push(Lane { client, pieces });
        self.lanes.len() - 1
    }

    pub fn len(&self) -> usize {
        self.lanes.iter().map(|lane| lane.pieces.len()).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.lanes.first().is_none_or(|lane| lane.pieces.is_empty())
    }

    pub fn iter(&self) -> impl Iterator<Item = &Piece> {
        self.lanes.iter().flat_map(|lane| &lane.pieces)
    }

    /// Moves one turn of the next lane into `batch`. `is_shared`: others wait beside the lanes.
    pub fn take_turn(&mut self, is_shared: bool, room: &mut Room, batch: &mut Vec<Piece>) -> Turn {
        let (at, count) = (self.next, self.lanes.len());
        let Some(lane) = self.lanes.get_mut(at) else {
            self.next = 0;
            return Turn { is_full: false, is_round_over: true };
        };
        room.begin_turn(is_shared || count > 1);
        let before = batch.len();
        // Every piece is a read here, so its length counts; the sums stay in registers.
        let (mut pieces, mut bytes) = (room.pieces, room.bytes);
        let pieces_end = room.limits.pieces.min(room.turn_end.pieces);
        while let Some(piece) = lane.pieces.front()
            && pieces < pieces_end
            && bytes < room.turn_end.bytes
            && (bytes + u64::from(piece.len_bytes) <= room.limits.bytes || pieces == 0)
        {
            bytes += u64::from(piece.len_bytes);
            pieces += 1;
            batch.push(*piece);
            lane.pieces.pop_front();
        }
        (room.pieces, room.bytes) = (pieces, bytes);
        let is_full = lane.pieces.front().is_some_and(|piece| room.is_full_for(piece));
        if lane.pieces.is_empty() && count > 1 {
            self.remove(at);
        } else if batch.len() > before {
            // A lane that found no room at all keeps its turn for the next batch.
            self.next += 1;
        }
        let is_round_over = self.next >= self.lanes.len();
        if is_round_over {
            self.next = 0;
        }
        Turn { is_full, is_round_over }
    }

    /// Whether an urgent read is the first of its client. Behind another one, from before its client counted as modest, it goes with that.
    pub fn has_urgent(&self) -> bool {
        self.lanes.iter().any(|lane| lane.pieces.front().is_some_and(is_urgent))
    }

    /// Moves the urgent reads of all lanes into `batch`.
    pub fn take_urgent(&mut self, limits: BatchLimits, batch: &mut Vec<Piece>) {
        let unlimited = BatchLimits { pieces: usize::MAX, bytes: u64::MAX };
        let mut room = Room::new(limits, unlimited);
        let mut at = 0;
        while at < self.lanes.len() {
            let pieces = &mut self.lanes[at].pieces;
            while let Some(piece) = pieces.front().filter(|piece| is_urgent(piece) && !room.is_full_for(piece)) {
                room.take(piece);
                batch.push(*piece);
                pieces.pop_front();
            }
            if pieces.is_empty() && self.lanes.len() > 1 {
                self.remove(at);
                self.next -= usize::from(at < self.next);
            } else {
                at += 1;
            }
        }
        if self.next >= self.lanes.len() {
            self.next = 0;
        }
    }

    fn remove(&mut self, at: usize) {
        let lane = self.lanes.remove(at);
        if self.spare.len() < SPARE_LANES && lane.pieces.capacity() <= SPARE_PIECES {
            self.spare.push(lane.pieces);
        }
    }

    /// Drops pieces.
    pub fn retain(&mut self, is_kept: impl Fn(&Piece) -> bool) {
        for lane in &mut self.lanes {
            lane.pieces.retain(&is_kept);
        }
        self.lanes.retain(|lane| !lane.pieces.is_empty());
        if self.next >= self.lanes.len() {
            self.next = 0;
        }
    }
}
