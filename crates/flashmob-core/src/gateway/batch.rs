//! Sending batches: which link takes the pieces of a node's queue, and when.

use std::time::Duration;

use super::state::live::Cause;
use super::state::queue::{BatchLimits, Piece};
use super::state::{Link, LinkId, Node, SentBatch, State};
use super::{BatchMode, Gateway, VolumeSpec};
use crate::op::Op;
use crate::planted::{self, Bug};
use crate::stages::GatewayInterval;
use crate::units::{KIB, Time};
use crate::wire::batch::{ask_together, put_groups};
use crate::wire::frame::{FrameKind, frame_bytes, put_frame};
use crate::wire::trace::mark;

/// Urgent batches that a link may have out beside the others.
const URGENT_BATCHES_MAX: usize = 4;
/// The limits of one: the most that a modest client has outstanding, some times.
const URGENT_LIMITS: BatchLimits = BatchLimits { pieces: 32, bytes: 256 * KIB };

/// What goes into a batch.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Which {
    All,
    Urgent,
}

impl Gateway {
    /// Sends batches from the queues on every link with room.
    pub(super) fn pump(&mut self, now: Time) {
        let mut fed = self.queues.begin_round();
        let is_divided = self.clients.modest.divides_turns(now);
        for node in fed.drain(..) {
            self.queues.begin(node);
            if is_divided && self.queues[node].has_urgent() {
                self.send_urgent(now, node);
            }
            while self.queues[node].has_ready() {
                let Some(link) = self.free_link(now, node) else {
                    // It is checked again when its links have waited long enough for more.
                    if let Some(end) = self.hold_end(now, node).filter(|&end| end > now) {
                        self.queues.hold(node, end);
                    }
                    break;
                };
                if !self.send_batch(now, link, Which::All) {
                    break;
                }
            }
        }
        self.queues.end_round(fed);
    }

    /// Sends urgent reads in a batch of their own, beside those that are out.
    fn send_urgent(&mut self, now: Time, node: usize) {
        let links = self.one_way(now, node).filter(|(_, link)| link.urgent_len() < URGENT_BATCHES_MAX);
        // Where all links are one way, the first; elsewhere the one with the least before it.
        let is_one_way = self.links_are_one_way(node);
        let link = links.min_by_key(|(_, link)| if is_one_way { 0 } else { link.out.len() }).map(|(id, _)| id);
        if let Some(id) = link {
            self.send_batch(now, id, Which::Urgent);
        }
    }

    /// A ready link of a node with room for a batch, in turn.
    ///
    /// An idle link takes whatever waits. One with batches out takes another only when as many pieces have gathered as the last of them
    /// still has unanswered: under load batches double until few are out, instead of many small ones following each other; and a single
    /// piece behind a single piece is sent at once. Behind a slow batch (a cold read, a write that the device delays) nothing waits for
    /// longer than its [`Way`](super::state::fairness::Way) allows.
    fn free_link(&mut self, now: Time, node: usize) -> Option<LinkId> {
        let window = self.volumes[self.nodes[node].volume].spec.outstanding_batches.max(1);
        let limits = self.batch_limits(now, node);
        if limits.pieces == 0 {
            return None;
        }
        if self.links_are_one_way(node) {
            return self.one_way_link(now, node, window, limits);
        }
        let state = &mut self.nodes[node];
        let links = state.links.clone();
        let waiting = self.queues[node].ready_len();
        let hold = state.way.hold_time();
        let has_room = |link: &Link| match link.in_the_way().next_back() {
            _ if link.state != State::Ready => false,
            _ if link.sent.is_empty() => true,
            None => true,
            Some(last) => {
                let is_enough = waiting >= last.left.min(limits.pieces) || now >= last.sent + hold;
                is_enough && link.in_the_way().count() < window
            }
        };
        let mut at = state.next_link;
        for _ in links.clone() {
            let next = if at + 1 < links.end { at + 1 } else { links.start };
            if has_room(&self.links[LinkId(at)]) {
                state.next_link = next;
                return Some(LinkId(at));
            }
            at = next;
        }
        None
    }

    /// The same where all links of a node count as one: always the first of them, so that TCP's acknowledgements travel with data.
    fn one_way_link(&self, now: Time, node: usize, window: usize, limits: BatchLimits) -> Option<LinkId> {
        let state = &self.nodes[node];
        if self.one_way(now, node).map(|(_, link)| link.in_the_way().count()).sum::<usize>() >= window {
            return None;
        }
        let is_enough = match self.last_batch_out(now, node) {
            Some(last) => {
                self.queues[node].ready_len() >= last.left.min(limits.pieces)
                    || now >= last.sent + state.way.hold_time()
            }
            None => true,
        };
        self.one_way(now, node).next().filter(|_| is_enough).map(|(id, _)| id)
    }

    /// The links of a node that count as one: those that are ready, without those that are stuck while others are not. A connection that
    /// lost a packet several times may be silent for many seconds while its node works.
    pub(super) fn one_way(&self, now: Time, node: usize) -> impl Iterator<Item = (LinkId, &Link)> {
        let links = self.nodes[node].links.clone().map(|at| (LinkId(at), &self.links[LinkId(at)]));
        let ready = links.filter(|(_, link)| link.state == State::Ready);
        let is_stuck = move |link: &Link| link.stuck_from().is_some_and(|at| now >= at);
        let all_are = ready.clone().all(|(_, link)| is_stuck(link));
        ready.filter(move |(_, link)| all_are || !is_stuck(link))
    }

    fn last_batch_out(&self, now: Time, node: usize) -> Option<&SentBatch> {
        self.one_way(now, node).filter_map(|(_, link)| link.in_the_way().next_back()).max_by_key(|batch| batch.sent)
    }

    pub(super) fn links_are_one_way(&self, node: usize) -> bool {
        let state = &self.nodes[node];
        are_links_one_way(&self.volumes[state.volume].spec, state)
    }

    /// When a link of this node with room will take whatever has gathered; or when one without room counts as stuck, so that others may.
    fn hold_end(&self, now: Time, node: usize) -> Option<Time> {
        let state = &self.nodes[node];
        let window = self.volumes[state.volume].spec.outstanding_batches.max(1);
        if self.links_are_one_way(node) {
            let out: usize = self.one_way(now, node).map(|(_, link)| link.in_the_way().count()).sum();
            if out < window && self.batch_limits(now, node).pieces > 0 {
                return self.last_batch_out(now, node).map(|last| last.sent + state.way.hold_time());
            }
            return self.one_way(now, node).filter_map(|(_, link)| link.stuck_from()).filter(|&at| at > now).min();
        }
        let links = self.links.of(state).iter();
        let holding = links.filter(|link| link.state == State::Ready && link.in_the_way().count() < window);
        holding.filter_map(|link| link.in_the_way().next_back()).map(|last| last.sent + state.way.hold_time()).min()
    }

    /// The condition of [`Bug::SilentNodeHoldsOthers`].
    fn is_another_silent(&self, now: Time, node: usize) -> bool {
        let mut others = (0..self.links.len()).map(|at| &self.links[LinkId(at)]).filter(|link| link.node != node);
        let is_awaited = |link: &Link| link.state != State::Ready || !link.sent.is_empty();
        others.any(|link| is_awaited(link) && link.is_unanswering(now, Duration::from_millis(200)))
    }

    /// Sends a batch from the node's queue on the link. False if there was nothing to send.
    fn send_batch(&mut self, now: Time, id: LinkId, which: Which) -> bool {
        let node = self.links[id].node;
        if planted::is(Bug::SilentNodeHoldsOthers) && self.is_another_silent(now, node) {
            return false;
        }
        let mut pieces = self.batches.pool.pop().unwrap_or_default();
        match which {
            Which::All => {
                let (mut limits, turn) = (self.batch_limits(now, node), self.clients.modest.lane_turn(now));
                limits.pieces = limits.pieces.min(self.share_of_writes(now, node));
                self.queues[node].take_batch(limits, turn, &mut pieces);
            }
            Which::Urgent => {
                let BatchLimits { pieces: most, bytes } = self.nodes[node].limits;
                let limits =
                    BatchLimits { pieces: most.min(URGENT_LIMITS.pieces), bytes: bytes.min(URGENT_LIMITS.bytes) };
                self.queues[node].take_urgent(limits, &mut pieces);
            }
        }
        if pieces.is_empty() {
            self.batches.pool.push(pieces);
            return false;
        }
        let requests = &self.requests;
        let (mut payload_bytes, mut reads) = (0, 0);
        for of_one_time in pieces.chunk_by(|a, b| a.received == b.received) {
            for piece in of_one_time {
                payload_bytes += piece.wire().payload_bytes() as usize;
                reads += usize::from(piece.op == Op::Read);
            }
            let waited_nanos = now.nanos_since(of_one_time[0].received);
            self.metrics.stages.record_n(GatewayInterval::Batched, waited_nanos, of_one_time.len() as u64);
            self.metrics.live.record_n(node, Cause::Queue, waited_nanos, of_one_time.len());
        }
        let is_together =
            which == Which::All && pieces.len() > 1 && self.wants_answers_together(now, node, reads == pieces.len());
        let link = &mut self.links[id];
        link.next_seq = link.next_seq.wrapping_add(1);
        let seq = link.next_seq;
        self.batches.meta.clear();
        put_groups(&mut self.batches.meta, seq, &pieces, Piece::wire);
        if is_together {
            ask_together(&mut self.batches.meta);
        }
        if self.metrics.samples.is_active() {
            mark(&mut self.batches.meta, self.metrics.samples.batched(now, id, seq, node, &pieces));
        }
        let meta = &self.batches.meta;
        link.out.append_with(frame_bytes(meta.len(), payload_bytes), |room| {
            put_frame(room, FrameKind::Batch, meta, |mut payload| {
                for piece in pieces.iter().filter(|p| p.op == Op::Write) {
                    let at = piece.buffer_at as usize;
                    let (to, rest) = std::mem::take(&mut payload).split_at_mut(piece.len_bytes as usize);
                    if let Some(request) = requests.get(piece.request) {
                        to.copy_from_slice(&request.buffer[at..at + to.len()]);
                    } else {
                        to.fill(0);
                    }
                    payload = rest;
                }
            });
            room.len()
        });
        if link.sent.is_empty() {
            link.progress = now;
        }
        let is_resting = link.alive.due.is_none();
        link.counters.batches += 1;
        link.counters.batches_together += u64::from(is_together);
        link.counters.pieces += pieces.len() as u64;
        let (left, is_urgent) = (pieces.len(), which == Which::Urgent);
        link.sent.push_back(SentBatch { seq, pieces, left, reads_left: reads, sent: now, written: false, is_urgent });
        self.batches.out += 1;
        if is_resting {
            self.begin_to_keep_alive(now, id);
        }
        self.links.mark(id);
        true
    }
}

/// Whether all links of a node count as one when batches are made: where frames are expensive, as few as possible are sent.
pub(super) fn are_links_one_way(spec: &VolumeSpec, node: &Node) -> bool {
    spec.batch == BatchMode::Auto && node.way.has_dear_frames()
}
