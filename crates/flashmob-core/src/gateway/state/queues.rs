//! The queues of all nodes, and which of them to check: those that got pieces this turn, and those that wait for more to gather.

use std::ops::{Index, IndexMut};

use super::queue::{NodeQueue, Piece};
use crate::units::Time;

/// The queue of one node.
#[derive(Debug, Default)]
struct Place {
    queue: NodeQueue,
    /// In [`Queues::fed`] already.
    is_fed: bool,
    /// In [`Queues::held`] already.
    is_held: bool,
}

/// The queues of all nodes, counted over all volumes.
#[derive(Debug, Default)]
pub struct Queues {
    places: Vec<Place>,
    /// Nodes whose queue got pieces this turn.
    fed: Vec<usize>,
    /// Nodes whose queue waits for more pieces, and when the first of these waits ends.
    held: Vec<usize>,
    hold_end: Option<Time>,
}

impl Queues {
    pub fn new(nodes: usize) -> Queues {
        Queues { places: (0..nodes).map(|_| Place::default()).collect(), ..Queues::default() }
    }

    /// One more node.
    pub fn add(&mut self) {
        self.places.push(Place::default());
    }

    /// Queues a piece for a node.
    #[inline]
    pub fn give(&mut self, node: usize, piece: Piece) {
        let place = &mut self.places[node];
        place.queue.push(piece);
        if !place.is_fed {
            place.is_fed = true;
            self.fed.push(node);
        }
    }

    /// Returns pieces of a lost link to their old places.
    pub fn requeue(&mut self, node: usize, pieces: Vec<Piece>) {
        self.places[node].queue.requeue(pieces);
        self.feed(node);
    }

    /// Takes out the reads that wait for a node.
    pub fn take_reads(&mut self, node: usize) -> Vec<Piece> {
        self.places[node].queue.take_reads()
    }

    /// Marks a node whose queue may have pieces for its links.
    #[inline]
    pub fn feed(&mut self, node: usize) {
        let place = &mut self.places[node];
        if !place.is_fed {
            place.is_fed = true;
            self.fed.push(node);
        }
    }

    /// The same, if its queue has pieces that a batch could take.
    #[inline]
    pub fn feed_if_ready(&mut self, node: usize) {
        if self.places[node].queue.has_ready() {
            self.feed(node);
        }
    }

    /// Whether a queue got pieces since its links were last checked.
    pub fn is_any_fed(&self) -> bool {
        !self.fed.is_empty()
    }

    /// The nodes whose queues got pieces. Call [`Queues::begin`] for each, and return the list with [`Queues::end_round`] for reuse.
    pub fn begin_round(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.fed)
    }

    /// This node's links are being checked.
    #[inline]
    pub fn begin(&mut self, node: usize) {
        self.places[node].is_fed = false;
    }

    pub fn end_round(&mut self, list: Vec<usize>) {
        self.fed = list;
    }

    /// Has a node checked again at `end`, when its links have waited long enough for more pieces.
    pub fn hold(&mut self, node: usize, end: Time) {
        self.hold_end = Some(self.hold_end.map_or(end, |first| first.min(end)));
        let place = &mut self.places[node];
        if !place.is_held {
            place.is_held = true;
            self.held.push(node);
        }
    }

    /// When the first of these waits ends.
    pub fn hold_end(&self) -> Option<Time> {
        self.hold_end
    }

    /// Marks the waiting nodes, once the first wait has ended.
    pub fn release(&mut self, now: Time) {
        if self.hold_end.is_some_and(|end| now >= end) {
            self.hold_end = None;
            for node in std::mem::take(&mut self.held) {
                self.places[node].is_held = false;
                self.feed(node);
            }
        }
    }

    /// Drops the pieces from all queues whose request is gone.
    pub fn drop_dead(&mut self, is_live: impl Fn(&Piece) -> bool) {
        for node in 0..self.places.len() {
            let queue = &mut self.places[node].queue;
            if queue.len() > 0 {
                queue.drop_dead(&is_live);
                self.feed(node);
            }
        }
    }
}

impl Index<usize> for Queues {
    type Output = NodeQueue;

    #[inline]
    fn index(&self, node: usize) -> &NodeQueue {
        &self.places[node].queue
    }
}

impl IndexMut<usize> for Queues {
    #[inline]
    fn index_mut(&mut self, node: usize) -> &mut NodeQueue {
        &mut self.places[node].queue
    }
}
