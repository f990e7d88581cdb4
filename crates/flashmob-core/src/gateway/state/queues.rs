//! The queues of all nodes, and which of them are to be looked at: those that got something this turn, and those that wait
//! for more to gather.
//!
//! This is all that a node knows of requests: pieces come in by [`Queues::give`], leave in batches, and come back by
//! [`Queues::requeue`].

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
    /// Nodes whose queue got something this turn.
    fed: Vec<usize>,
    /// Nodes whose queue waits for more to gather, and when the first of them need not any longer.
    held: Vec<usize>,
    hold_end: Option<Time>,
}

impl Queues {
    pub fn new(nodes: usize) -> Queues {
        Queues { places: (0..nodes).map(|_| Place::default()).collect(), ..Queues::default() }
    }

    /// A node gets a piece. It goes with the next batch that has room for it.
    #[inline]
    pub fn give(&mut self, node: usize, piece: Piece) {
        let place = &mut self.places[node];
        place.queue.push(piece);
        if !place.is_fed {
            place.is_fed = true;
            self.fed.push(node);
        }
    }

    /// Pieces that a link had out stand in their old places again.
    pub fn requeue(&mut self, node: usize, pieces: Vec<Piece>) {
        self.places[node].queue.requeue(pieces);
        self.feed(node);
    }

    /// Marks a node whose queue may have something for its links.
    #[inline]
    pub fn feed(&mut self, node: usize) {
        let place = &mut self.places[node];
        if !place.is_fed {
            place.is_fed = true;
            self.fed.push(node);
        }
    }

    /// The same, if its queue has something that may go.
    #[inline]
    pub fn feed_if_ready(&mut self, node: usize) {
        if self.places[node].queue.has_ready() {
            self.feed(node);
        }
    }

    /// Whether a queue got something since its links were last looked at.
    pub fn is_any_fed(&self) -> bool {
        !self.fed.is_empty()
    }

    /// The nodes whose queues got something. Say [`Queues::begin`] of each in turn, and hand the list back: its memory is used again.
    pub fn begin_round(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.fed)
    }

    /// This node's links are looked at now.
    #[inline]
    pub fn begin(&mut self, node: usize) {
        self.places[node].is_fed = false;
    }

    pub fn end_round(&mut self, list: Vec<usize>) {
        self.fed = list;
    }

    /// Has a node looked at again then, when its links have waited long enough for more.
    pub fn hold(&mut self, node: usize, end: Time) {
        self.hold_end = Some(self.hold_end.map_or(end, |first| first.min(end)));
        let place = &mut self.places[node];
        if !place.is_held {
            place.is_held = true;
            self.held.push(node);
        }
    }

    /// When the first node has waited long enough.
    pub fn hold_end(&self) -> Option<Time> {
        self.hold_end
    }

    /// Has those that waited looked at, if the first of them waited long enough.
    pub fn release(&mut self, now: Time) {
        if self.hold_end.is_some_and(|end| now >= end) {
            self.hold_end = None;
            for node in std::mem::take(&mut self.held) {
                self.places[node].is_held = false;
                self.feed(node);
            }
        }
    }

    /// Drops the pieces whose request is gone from all queues.
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
