//! How much a batch may hold, and whether its answers come together.

use std::time::Duration;

use super::state::queue::BatchLimits;
use super::{BatchMode, Gateway};
use crate::units::{KIB, Time};

/// Fewer bytes of writes are on their way so soon that a second frame would cost more.
const SHARED_BYTES_MIN: u64 = 32 * KIB;

/// Pieces that were answered.
#[derive(Debug, Clone, Copy)]
pub(super) struct Answered {
    pub sent: Time,
    pub count: usize,
    pub is_urgent: bool,
}

impl Gateway {
    /// Whether a batch for this node is to be answered in one frame, as P1's slaves do, rather than as its pieces are done. In automatic
    /// mode only where frames are expensive, and a batch with changes not beside a modest client, which would wait for others' pieces in it.
    /// Beside a greedy one its reads have batches of their own.
    pub(super) fn wants_answers_together(&self, now: Time, node: usize, are_reads: bool) -> bool {
        let state = &self.nodes[node];
        if state.is_local {
            return false;
        }
        match self.volumes[state.volume].spec.batch {
            BatchMode::Fixed(_) => true,
            BatchMode::Auto => state.way.has_dear_frames() && (are_reads || !self.clients.modest.is_there(now)),
        }
    }

    /// How much a batch for this node may hold now. No pieces: nothing may be sent until answers come.
    pub(super) fn batch_limits(&self, now: Time, node: usize) -> BatchLimits {
        let state = &self.nodes[node];
        if !self.is_paced(now, node) {
            return self.clients.modest.batch_limits(now, state.limits, &state.way);
        }
        let room = state.pace.room(self.queues[node].ready_len(), self.pieces_out(now, node));
        BatchLimits { pieces: state.limits.pieces.min(room), ..state.limits }
    }

    /// Whether the pieces under way to a node are limited for a modest client: where frames are expensive. Elsewhere batches are kept small.
    fn is_paced(&self, now: Time, node: usize) -> bool {
        self.clients.modest.divides_turns(now) && !self.nodes[node].is_local && self.links_are_one_way(node)
    }

    /// Pieces under way to a node and back: without urgent ones, which nothing waits for, and those that a stuck link has.
    fn pieces_out(&self, now: Time, node: usize) -> usize {
        self.one_way(now, node).flat_map(|(_, link)| link.in_the_way()).map(|batch| batch.left).sum()
    }

    /// Pieces of a batch that was sent then were answered, after a way there and back that took so long.
    pub(super) fn note_pace(&mut self, now: Time, node: usize, batch: Answered, way: Duration) {
        if !self.is_paced(now, node) {
            return self.nodes[node].pace.note_free(now, way);
        }
        if batch.is_urgent {
            return self.nodes[node].pace.note_urgent(now, way);
        }
        let out = self.pieces_out(now, node);
        self.nodes[node].pace.note(now, (batch.sent, batch.count, out), way);
    }

    /// How many pieces a batch may have while nothing but changes waits, so that another is on its way while the node works: if their answers are held to
    /// the end of their batch, one batch with all that there is would let the node wait for the way, and the way for the node. Answers of reads are
    /// not held for so long.
    pub(super) fn share_of_writes(&self, now: Time, node: usize) -> usize {
        let (queue, window) = (&self.queues[node], self.volumes[self.nodes[node].volume].spec.outstanding_batches);
        let is_shared = window > 1
            && self.links_are_one_way(node)
            && self.wants_answers_together(now, node, false)
            && queue.reads_len() == 0
            && queue.begins_with_writes_of(SHARED_BYTES_MIN);
        if !is_shared {
            return usize::MAX;
        }
        let (ready, out) = (queue.ready_len(), self.pieces_out(now, node));
        let half = ((ready + out) / 2).max(1);
        // Of an odd number none is left behind.
        if out > 0 && ready == half + 1 { ready } else { half }
    }
}
