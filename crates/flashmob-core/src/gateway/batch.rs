//! Batches out and replies in: how pieces leave a node's queue on a link, and how their answers come back.

use std::time::Duration;

use super::link::{Link, LinkId, SentBatch, State};
use super::queue::{BatchLimits, Piece};
use super::{BatchMode, Gateway};
use crate::op::Op;
use crate::planted::{self, Bug};
use crate::stages::GatewayInterval;
use crate::units::Time;
use crate::wire::batch::{ask_together, put_groups};
use crate::wire::frame::{FrameKind, WireError, frame_bytes, put_frame};
use crate::wire::replies::{RepliesDecoder, Run};
use crate::wire::trace::{TimesDecoder, mark};

impl Gateway {
    /// A ready link of a node with room for a batch, taking them in turn.
    ///
    /// A link that is idle takes whatever waits. One that has batches out takes another only when as much has gathered
    /// as the last of them still has unanswered: under load batches double until few are out, instead of many small
    /// ones following each other; and a single piece behind a single piece goes at once. That is for batches that are
    /// answered soon: behind one that is slow (a cold read, a write that the device holds up) nothing waits for longer
    /// than its [`Way`](super::fairness::Way) says.
    pub(super) fn free_link(&mut self, now: Time, node: usize) -> Option<LinkId> {
        let window = self.volumes[self.nodes[node].volume].spec.outstanding_batches.max(1);
        let limits = self.batch_limits(now, node);
        if self.links_are_one_way(node) {
            return self.one_way_link(now, node, window, limits);
        }
        let state = &mut self.nodes[node];
        let links = state.links.clone();
        let waiting = state.queue.ready_len();
        let hold = state.way.hold_time();
        let has_room = |link: &Link| match link.sent.back() {
            _ if link.state != State::Ready => false,
            None => true,
            Some(last) => {
                link.sent.len() < window && (waiting >= last.left.min(limits.pieces) || now >= last.sent + hold)
            }
        };
        let mut order = (state.next_link..links.end).chain(links.start..state.next_link);
        let found = order.find(|&i| has_room(&self.links[i]))?;
        state.next_link = if found + 1 < links.end { found + 1 } else { links.start };
        Some(LinkId(found))
    }

    /// The same where all links of a node count as one: the first of them, so that TCP's acknowledgements find data to ride on.
    fn one_way_link(&self, now: Time, node: usize, window: usize, limits: BatchLimits) -> Option<LinkId> {
        let state = &self.nodes[node];
        if self.one_way(now, node).map(|(_, link)| link.sent.len()).sum::<usize>() >= window {
            return None;
        }
        let is_enough = match self.last_batch_out(now, node) {
            Some(last) => {
                state.queue.ready_len() >= last.left.min(limits.pieces) || now >= last.sent + state.way.hold_time()
            }
            None => true,
        };
        self.one_way(now, node).next().filter(|_| is_enough).map(|(id, _)| id)
    }

    /// The links of a node that count as one: those that are ready, without those that are stuck while others are not. A connection on
    /// which a packet was lost again and again may say nothing for many seconds, and the node is there all the same.
    fn one_way(&self, now: Time, node: usize) -> impl Iterator<Item = (LinkId, &Link)> {
        let links = self.nodes[node].links.clone().map(|at| (LinkId(at), &self.links[at]));
        let ready = links.filter(|(_, link)| link.state == State::Ready);
        let is_stuck = move |link: &Link| link.stuck_from().is_some_and(|at| now >= at);
        let all_are = ready.clone().all(|(_, link)| is_stuck(link));
        ready.filter(move |(_, link)| all_are || !is_stuck(link))
    }

    fn last_batch_out(&self, now: Time, node: usize) -> Option<&SentBatch> {
        self.one_way(now, node).filter_map(|(_, link)| link.sent.back()).max_by_key(|batch| batch.sent)
    }

    /// Whether all links of a node count as one when it is decided what to send: where frames are dear, as few as possible shall go,
    /// by whichever link.
    fn links_are_one_way(&self, node: usize) -> bool {
        let state = &self.nodes[node];
        self.volumes[state.volume].spec.batch == BatchMode::Auto && state.way.has_dear_frames()
    }

    /// When a link of this node that could take another batch takes it whatever has gathered; or when one that cannot counts as stuck, so that
    /// others may.
    pub(super) fn hold_end(&self, now: Time, node: usize) -> Option<Time> {
        let state = &self.nodes[node];
        let window = self.volumes[state.volume].spec.outstanding_batches.max(1);
        if self.links_are_one_way(node) {
            let out: usize = self.one_way(now, node).map(|(_, link)| link.sent.len()).sum();
            if out < window {
                return self.last_batch_out(now, node).map(|last| last.sent + state.way.hold_time());
            }
            return self.one_way(now, node).filter_map(|(_, link)| link.stuck_from()).filter(|&at| at > now).min();
        }
        let links = self.links[state.links.clone()].iter();
        let holding = links.filter(|link| link.state == State::Ready && link.sent.len() < window);
        holding.filter_map(|link| link.sent.back()).map(|last| last.sent + state.way.hold_time()).min()
    }

    /// What [`Bug::SilentNodeHoldsOthers`] waits for.
    fn is_another_silent(&self, now: Time, node: usize) -> bool {
        let mut others =
            self.links.iter().filter(|l| l.node != node && (l.state != State::Ready || !l.sent.is_empty()));
        others.any(|l| l.is_unanswering(now, Duration::from_millis(200)))
    }

    /// Takes a batch from the node's queue and sends it on the link. False if there was nothing to send.
    pub(super) fn send_batch(&mut self, now: Time, id: LinkId) -> bool {
        let mut pieces = self.pieces_pool.pop().unwrap_or_default();
        let node = self.links[id.0].node;
        if planted::is(Bug::SilentNodeHoldsOthers) && self.is_another_silent(now, node) {
            return false;
        }
        let (limits, turn) = (self.batch_limits(now, node), self.lane_turn(now));
        self.nodes[node].queue.take_batch(limits, turn, &mut pieces);
        if pieces.is_empty() {
            self.pieces_pool.push(pieces);
            return false;
        }
        let is_together = pieces.len() > 1 && self.wants_answers_together(now, node);
        let requests = &self.requests;
        let mut payload_bytes = 0;
        for of_one_time in pieces.chunk_by(|a, b| a.received == b.received) {
            payload_bytes += of_one_time.iter().map(|p| p.wire().payload_bytes() as usize).sum::<usize>();
            let waited_nanos = now.nanos_since(of_one_time[0].received);
            self.stages.record_n(GatewayInterval::Batched, waited_nanos, of_one_time.len() as u64);
        }
        let link = &mut self.links[id.0];
        link.next_seq = link.next_seq.wrapping_add(1);
        let seq = link.next_seq;
        self.meta.clear();
        put_groups(&mut self.meta, seq, &pieces, Piece::wire);
        if is_together {
            ask_together(&mut self.meta);
        }
        if self.samples.is_active() {
            mark(&mut self.meta, self.samples.batched(now, id, seq, node, &pieces));
        }
        let meta = &self.meta;
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
        let is_resting = link.alive.is_resting();
        link.counters.batches += 1;
        link.counters.batches_together += u64::from(is_together);
        link.counters.pieces += pieces.len() as u64;
        let left = pieces.len();
        link.sent.push_back(SentBatch { seq, pieces, left, sent: now, written: false });
        self.batches_out += 1;
        if is_resting {
            self.begin_to_keep_alive(now, id);
        }
        self.mark_link(id);
        true
    }

    pub(super) fn handle_replies(
        &mut self,
        now: Time,
        id: LinkId,
        meta: &[u8],
        payload: &[u8],
    ) -> Result<(), WireError> {
        let mut runs = RepliesDecoder::new(meta)?;
        let mut rest = payload;
        let node = self.links[id.0].node;
        self.links[id.0].answered = now;
        self.links[id.0].counters.reply_frames += 1;
        while let Some(run) = runs.next_run()? {
            self.handle_run(now, id, node, &run, &mut rest)?;
        }
        if !rest.is_empty() {
            return Err(WireError::Malformed("replies: more payload than pieces"));
        }
        if self.nodes[node].queue.has_ready() {
            self.feed(node);
        }
        Ok(())
    }

    /// A node tells when followed pieces passed its stages.
    pub(super) fn handle_times(&mut self, id: LinkId, meta: &[u8]) -> Result<(), WireError> {
        let mut decoder = TimesDecoder::new(meta)?;
        let clock = &mut self.nodes[self.links[id.0].node].clock;
        while let Some(times) = decoder.next_piece()? {
            self.samples.told(id, times, clock);
        }
        Ok(())
    }

    fn handle_run(
        &mut self,
        now: Time,
        id: LinkId,
        node: usize,
        run: &Run<'_>,
        rest: &mut &[u8],
    ) -> Result<(), WireError> {
        let unknown = WireError::Malformed("replies: unknown batch or piece");
        let at = self.links[id.0].sent.iter().position(|b| b.seq == run.seq).ok_or(unknown.clone())?;
        // The batch leaves the link while its pieces complete: completing one may look at the whole gateway.
        let mut pieces = std::mem::take(&mut self.links[id.0].sent[at].pieces);
        let sent = self.links[id.0].sent[at].sent;
        if self.samples.is_active() {
            self.samples.returned(now, id, run);
        }
        let mut count = 0;
        let mut result = Ok(());
        let range = usize::from(run.first)..usize::from(run.first) + usize::from(run.span);
        let whole = pieces.get_mut(range).filter(|_| run.is_dense() && run.outcome.is_ok());
        let (done, is_done) = match whole {
            Some(run) => self.complete_reads(now, run, rest),
            None => (0, false),
        };
        count += done;
        let others = (!is_done).then(|| run.indices().skip(done)).into_iter().flatten();
        for index in others {
            match pieces.get_mut(usize::from(index)).filter(|p| !p.answered) {
                Some(piece) => {
                    let len = if piece.op == Op::Read && run.outcome.is_ok() { piece.len_bytes as usize } else { 0 };
                    let Some((data, later)) = rest.split_at_checked(len) else {
                        result = Err(WireError::Malformed("replies: less payload than pieces"));
                        break;
                    };
                    piece.answered = true;
                    let piece = *piece;
                    *rest = later;
                    count += 1;
                    self.complete_piece(now, node, &piece, run.outcome.map(|()| data));
                }
                None => {
                    result = Err(unknown);
                    break;
                }
            }
        }
        self.stages.record_n(GatewayInterval::Replied, now.nanos_since(sent), count as u64);
        let node_nanos = &mut self.links[id.0].counters.node_nanos;
        *node_nanos = node_nanos.saturating_add(u64::from(run.node_time_us) * 1000 * count as u64);
        let took = Duration::from_nanos(now.nanos_since(sent));
        self.nodes[node].way.note(now, took.saturating_sub(Duration::from_micros(run.node_time_us.into())));
        let link = &mut self.links[id.0];
        link.counters.failures += if run.outcome.is_err() { count as u64 } else { 0 };
        link.sent[at].left -= count;
        link.sent[at].pieces = pieces;
        if link.sent[at].left == 0
            && let Some(mut batch) = link.sent.remove(at)
        {
            self.batches_out -= 1;
            self.nodes[node].way.note_batch(took);
            batch.pieces.clear();
            self.pieces_pool.push(batch.pieces);
        }
        result
    }
}
