//! The end of a piece, which its queue and its request learn here.
//!
//! A piece ends when its node answers it. If its link breaks, it returns to the queue instead: a read, map or flush at once, a change when
//! the link's next welcome confirms that the earlier attempt is over. A piece whose request is gone is dropped.

use super::Gateway;
use super::state::queue::Piece;
use super::state::{ClientId, LinkId};
use crate::op::{Failure, Op};
use crate::planted::{self, Bug};
use crate::units::Time;

impl Gateway {
    /// A node has answered a piece; `data` is what it read.
    pub(super) fn complete_piece(&mut self, now: Time, node: usize, piece: &Piece, result: Result<&[u8], Failure>) {
        if let Err(failure) = result {
            self.nodes[node].failures.note(now, piece.op, failure);
        }
        if piece.op != Op::Read {
            self.settle_change(node, piece, result.is_ok());
        }
        if planted::is(Bug::GatewayLosesReply) && piece.serial % 61 == 60 {
            return;
        }
        let Some(request) = self.requests.get_mut(piece.request) else { return };
        let request = if request.inner == 0 {
            request
        } else {
            if self.copy_answered(now, node, piece, result.map(drop)) {
                return;
            }
            let Some(request) = self.requests.get_mut(piece.request) else { return };
            request
        };
        match result {
            Err(failure) => {
                // What the gateway asks for itself goes on by what a node says.
                let failure = if request.client == ClientId::GATEWAY { failure } else { failure.behind_the_gateway() };
                request.failure = request.failure.or(Some(failure));
            }
            Ok(data) if piece.op.returns_data() => {
                if request.buffer.is_empty() {
                    return self.reply_read(now, piece.request, data);
                }
                let at = piece.buffer_at as usize;
                request.buffer[at..at + data.len()].copy_from_slice(data);
            }
            Ok(_) => {}
        }
        request.pieces_left -= 1;
        if request.pieces_left == 0 {
            self.finish_request(now, piece.request);
        }
    }

    /// Completes the pieces of a successful run, taking their bytes from the front of `rest`, as long as they are unanswered reads with
    /// enough bytes. Returns how many those were, and whether they were all.
    pub(super) fn complete_reads(&mut self, now: Time, pieces: &mut [Piece], rest: &mut &[u8]) -> (usize, bool) {
        let mut count = 0;
        for of_one in pieces.chunk_by_mut(|a, b| a.request == b.request) {
            let is_plain = |p: &Piece| p.op == Op::Read && !p.answered;
            let bytes: usize = of_one.iter().map(|p| p.len_bytes as usize).sum();
            if bytes > rest.len() || !of_one.iter().all(is_plain) {
                return (count, false);
            }
            let (mut data, later) = rest.split_at(bytes);
            *rest = later;
            count += of_one.len();
            of_one.iter_mut().for_each(|p| p.answered = true);
            let key = of_one[0].request;
            let Some(request) = self.requests.get_mut(key) else { continue };
            if request.buffer.is_empty() {
                // It is this one piece.
                self.reply_read(now, key, data);
                continue;
            }
            for piece in of_one.iter() {
                let (at, len) = (piece.buffer_at as usize, piece.len_bytes as usize);
                let (head, tail) = data.split_at(len);
                match head {
                    // A call to copy one byte costs more than all the rest.
                    [byte] => request.buffer[at] = *byte,
                    bytes => request.buffer[at..at + len].copy_from_slice(bytes),
                }
                data = tail;
            }
            request.pieces_left -= of_one.len() as u32;
            if request.pieces_left == 0 {
                self.finish_request(now, key);
            }
        }
        (count, true)
    }

    /// A change, map or flush has ended at its node.
    fn settle_change(&mut self, node: usize, piece: &Piece, succeeded: bool) {
        if piece.op.is_background(piece.flags) {
            return;
        }
        let queue = &mut self.queues[node];
        if piece.op.excludes_changes(piece.flags) {
            queue.change_ended(piece);
        } else if succeeded {
            queue.flushed(piece);
            self.nodes[node].failures.flushed();
        } else if self.volumes[self.nodes[node].volume].copies.is_none() {
            // After a device failed to keep changes, a later flush may succeed without them: every client gets an error.
            let volume = self.nodes[node].volume;
            self.volumes[volume].losses += 1;
        }
        self.queues.feed_if_ready(node);
    }

    /// A link is lost: its pieces return to the queue, or wait for the link's next welcome.
    pub(super) fn give_back(&mut self, now: Time, node: usize, id: LinkId) {
        let link = &mut self.links[id];
        self.batches.out -= link.sent.len();
        let open: Vec<Piece> = link.sent.drain(..).flat_map(|b| b.pieces).filter(|p| !p.answered).collect();
        // Reads, maps and flushes may be resent at once, on any link; changes only after this link's next welcome.
        let (changes, others): (Vec<Piece>, Vec<Piece>) =
            open.into_iter().partition(|p| p.op.mutates() && !planted::is(Bug::ChangesResentAtOnce));
        let (others, gone): (Vec<Piece>, Vec<Piece>) =
            others.into_iter().partition(|p| self.requests.get(p.request).is_some());
        // A map or digest whose request is gone can be forgotten: executed late it changes nothing.
        gone.iter().filter(|p| p.op.excludes_changes(p.flags)).for_each(|p| self.queues[node].change_ended(p));
        link.unresolved.extend(changes);
        link.counters.resent += others.len() as u64;
        let volume = self.nodes[node].volume;
        let reads = |p: &Piece| p.op == Op::Read && self.volumes[volume].copies.is_some();
        let (reads, others): (Vec<Piece>, Vec<Piece>) = others.into_iter().partition(reads);
        self.queues.requeue(node, others);
        self.lost_reads(now, node, reads);
    }

    /// A link is welcomed again: the changes that were out on it are over. Those whose request still waits are resent.
    pub(super) fn resolve(&mut self, node: usize, id: LinkId) {
        let link = &mut self.links[id];
        let unresolved = std::mem::take(&mut link.unresolved);
        link.counters.resent += unresolved.len() as u64;
        let (live, gone): (Vec<Piece>, Vec<Piece>) =
            unresolved.into_iter().partition(|p| self.requests.get(p.request).is_some());
        for piece in &gone {
            self.queues[node].change_ended(piece);
        }
        self.queues.requeue(node, live);
    }

    /// Removes the pieces of requests that are gone from all queues.
    pub(super) fn drop_dead_pieces(&mut self) {
        let requests = &self.requests;
        self.queues.drop_dead(|piece| requests.get(piece.request).is_some());
    }
}
