//! Received replies: each answer in them ends a piece.

use std::time::Duration;

use super::Gateway;
use super::limits::Answered;
use super::state::LinkId;
use crate::op::Op;
use crate::stages::GatewayInterval;
use crate::units::Time;
use crate::wire::frame::WireError;
use crate::wire::map::Map;
use crate::wire::replies::{RepliesDecoder, Run};
use crate::wire::trace::TimesDecoder;

impl Gateway {
    pub(super) fn handle_replies(
        &mut self,
        now: Time,
        id: LinkId,
        meta: &[u8],
        payload: &[u8],
    ) -> Result<(), WireError> {
        let mut runs = RepliesDecoder::new(meta)?;
        let mut rest = payload;
        let link = &mut self.links[id];
        let node = link.node;
        link.answered = now;
        link.counters.reply_frames += 1;
        while let Some(run) = runs.next_run()? {
            self.handle_run(now, id, node, &run, &mut rest)?;
        }
        if !rest.is_empty() {
            return Err(WireError::Malformed("replies: more payload than pieces"));
        }
        self.queues.feed_if_ready(node);
        Ok(())
    }

    /// A node reports when followed pieces passed its stages.
    pub(super) fn handle_times(&mut self, id: LinkId, meta: &[u8]) -> Result<(), WireError> {
        let mut decoder = TimesDecoder::new(meta)?;
        let clock = &mut self.nodes[self.links[id].node].clock;
        while let Some(times) = decoder.next_piece()? {
            self.metrics.samples.told(id, times, clock);
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
        let batches = &mut self.links[id].sent;
        let at = batches.iter().position(|b| b.seq == run.seq).ok_or(unknown.clone())?;
        let batch = &mut batches[at];
        // The pieces leave the link while they complete: completing one needs the whole gateway.
        let mut pieces = std::mem::take(&mut batch.pieces);
        let sent = batch.sent;
        if self.metrics.samples.is_active() {
            self.metrics.samples.returned(now, id, run);
        }
        let is_read = pieces.get(usize::from(run.first)).is_some_and(|piece| piece.op == Op::Read);
        let mut result = Ok(());
        let range = usize::from(run.first)..usize::from(run.first) + usize::from(run.span);
        let whole = pieces.get_mut(range).filter(|_| run.is_dense() && run.outcome.is_ok());
        let (done, is_done) = match whole {
            Some(run) => self.complete_reads(now, run, rest),
            None => (0, false),
        };
        let (mut count, mut reads) = (done, done);
        let others = (!is_done).then(|| run.indices().skip(done)).into_iter().flatten();
        for index in others {
            match pieces.get_mut(usize::from(index)).filter(|p| !p.answered) {
                Some(piece) => {
                    let len = if run.outcome.is_ok() { piece.wire().reply_bytes() as usize } else { 0 };
                    let Some((data, later)) = rest.split_at_checked(len) else {
                        result = Err(WireError::Malformed("replies: less payload than pieces"));
                        break;
                    };
                    if piece.op == Op::Map && run.outcome.is_ok() {
                        result = Map::decode(data, piece.len_bytes).map(drop);
                        if result.is_err() {
                            break;
                        }
                    }
                    piece.answered = true;
                    let piece = *piece;
                    *rest = later;
                    count += 1;
                    reads += usize::from(piece.op == Op::Read);
                    self.complete_piece(now, node, &piece, run.outcome.map(|()| data));
                }
                None => {
                    result = Err(unknown);
                    break;
                }
            }
        }
        let (took_nanos, node_nanos) = (now.nanos_since(sent), u64::from(run.node_time_us) * 1000);
        self.metrics.stages.record_n(GatewayInterval::Replied, took_nanos, count as u64);
        let took = Duration::from_nanos(took_nanos);
        // A measurement reads what is in the page cache, which says little of other reads.
        let is_measured = self.measuring.is_some() && self.is_measured(node, now);
        if self.has_copies() && run.outcome.is_ok() && is_read && !is_measured {
            self.note_speed(now, node, took);
        }
        let way_nanos = took_nanos.saturating_sub(node_nanos);
        let way = Duration::from_nanos(way_nanos);
        self.nodes[node].way.note(now, way);
        self.metrics.live.answered_n(node, [way_nanos, node_nanos], count);
        let of_run = pieces.get(usize::from(run.first)..usize::from(run.first) + usize::from(run.span));
        match of_run.filter(|_| self.metrics.live.is_on()) {
            // Of different ages: reads of several clients.
            Some(of_run @ [first, .., last]) if first.received != last.received && count == of_run.len() => {
                for of_one_time in of_run.chunk_by(|a, b| a.received == b.received) {
                    let total_nanos = now.nanos_since(of_one_time[0].received);
                    self.metrics.live.ended_n(node, total_nanos, of_one_time.len());
                }
            }
            Some([first, ..]) => self.metrics.live.ended_n(node, now.nanos_since(first.received), count),
            _ => {}
        }
        let link = &mut self.links[id];
        link.counters.node_nanos = link.counters.node_nanos.saturating_add(node_nanos * count as u64);
        link.counters.failures += if run.outcome.is_err() { count as u64 } else { 0 };
        let batch = &mut link.sent[at];
        batch.left -= count;
        batch.reads_left -= reads;
        batch.pieces = pieces;
        let (is_urgent, is_over) = (batch.is_urgent, batch.left == 0);
        if is_over && let Some(mut batch) = link.sent.remove(at) {
            self.batches.out -= 1;
            self.nodes[node].way.note_batch(took);
            batch.pieces.clear();
            self.batches.pool.push(batch.pieces);
        }
        self.note_pace(now, node, Answered { sent, count, is_urgent }, way);
        result
    }
}
