//! The way back: an answered piece completes its request, and a completed request is replied to.

use super::client::ClientKind;
use super::queue::Piece;
use super::request::{InHand, RequestKey};
use super::{Action, Completion, Gateway};
use crate::op::{Failure, Op};
use crate::planted::{self, Bug};
use crate::stages::GatewayInterval;
use crate::units::Time;

impl Gateway {
    /// A node has answered a piece; `data` is what it read.
    pub(super) fn complete_piece(&mut self, now: Time, node: usize, piece: &Piece, result: Result<&[u8], Failure>) {
        if piece.op != Op::Read {
            self.settle_change(node, piece, result.is_ok());
        }
        if planted::is(Bug::GatewayLosesReply) && piece.serial % 61 == 60 {
            return;
        }
        let Some(request) = self.requests.get_mut(piece.request) else { return };
        match result {
            Err(failure) => request.failure = request.failure.or(Some(failure)),
            Ok(data) if piece.op == Op::Read => {
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

    /// Answers pieces that a node has answered in one run with success, taking their bytes off the front of `rest`, as
    /// long as they are reads that nobody has answered and for which there are bytes. Returns how many those were, and
    /// whether they were all.
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

    /// A change or flush has ended at its node.
    fn settle_change(&mut self, node: usize, piece: &Piece, succeeded: bool) {
        let queue = &mut self.nodes[node].queue;
        if piece.op.mutates() {
            queue.change_ended(piece);
        } else if succeeded {
            queue.flushed(piece);
        } else {
            // Once a device failed to keep what it had taken, a later success says nothing of it: every client is told.
            let volume = self.nodes[node].volume;
            self.volumes[volume].losses += 1;
        }
        let queue = &mut self.nodes[node].queue;
        if queue.has_ready() {
            self.feed(node);
        }
    }

    /// Replies to a read that was one piece, straight from where it was received.
    fn reply_read(&mut self, now: Time, key: RequestKey, data: &[u8]) {
        let Some(request) = self.requests.remove(key) else { return };
        planted::leak(Bug::GatewayLeaks, 4096);
        if request.sample != 0 {
            self.samples.ended(now, key, None);
        }
        self.stages.record_n(GatewayInterval::Total, now.nanos_since(request.received), 1);
        self.with_client(&request, |client| {
            if let ClientKind::Nbd(nbd) = &mut client.kind {
                nbd.session.reply_read(request.cookie, request.offset_bytes, data);
            }
        });
    }

    /// Replies to a request none of whose pieces is awaited any more.
    pub(super) fn finish_request(&mut self, now: Time, key: RequestKey) {
        let Some(mut request) = self.requests.remove(key) else { return };
        planted::leak(Bug::GatewayLeaks, 4096);
        self.stages.record_n(GatewayInterval::Total, now.nanos_since(request.received), 1);
        if request.op == Op::Flush && request.failure.is_none() {
            request.failure = self.untold_loss(&request);
        }
        if request.failure.is_some() {
            self.counters.failures += 1;
        }
        if request.sample != 0 {
            self.samples.ended(now, key, request.failure);
        }
        let data = std::mem::take(&mut request.buffer);
        let mut completion = None;
        self.with_client(&request, |client| match &mut client.kind {
            ClientKind::Nbd(nbd) => match (request.failure, request.op) {
                (Some(failure), op) => nbd.session.reply_error(request.cookie, failure, op == Op::Read),
                (None, Op::Read) => nbd.session.reply_read_buffer(request.cookie, request.offset_bytes, data),
                (None, _) => nbd.session.reply_done(request.cookie),
            },
            ClientKind::Native(_) => {
                let read = if request.op == Op::Read { data } else { Vec::new() };
                let result = request.failure.map_or(Ok(read), Err);
                completion = Some(Completion { client: request.client, cookie: request.cookie, result });
            }
        });
        self.completions.extend(completion);
    }

    /// A flush must not succeed over changes that a device lost: every client hears of that once.
    fn untold_loss(&mut self, request: &InHand) -> Option<Failure> {
        let volume = &mut self.volumes[request.volume as usize];
        let client = self.clients.get_mut(request.client.index).filter(|c| c.serial == request.client.serial)?;
        if client.losses_told >= volume.losses {
            return None;
        }
        client.losses_told = volume.losses;
        volume.losses_told = volume.losses;
        Some(Failure::Io)
    }

    /// Lets a request's client take its answer, if it is still there, and moves what the request held of the
    /// budget to the answer, or gives it back.
    fn with_client(&mut self, request: &InHand, reply: impl FnOnce(&mut super::client::Client)) {
        let id = request.client;
        let Some(client) = self.clients.get_mut(id.index).filter(|c| c.serial == id.serial) else {
            self.budget.release(request.reserved_bytes);
            return;
        };
        reply(client);
        client.in_hand -= 1;
        if client.closing && client.in_hand == 0 {
            self.actions.push_back(Action::CloseClient(id, None));
        }
        if client.is_native() {
            client.held_bytes -= request.reserved_bytes;
            self.budget.release(request.reserved_bytes);
        } else {
            client.answer_queued(request.reserved_bytes);
            if !client.is_dirty {
                client.is_dirty = true;
                self.dirty_clients.push(id);
            }
        }
    }
}
