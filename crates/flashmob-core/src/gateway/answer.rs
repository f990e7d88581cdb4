//! The end of a request: its client is answered.

use super::state::{Client, ClientKind, InHand, RequestKey};
use super::{Action, Completion, Gateway};
use crate::op::{Failure, Op};
use crate::planted::{self, Bug};
use crate::stages::GatewayInterval;
use crate::units::Time;

impl Gateway {
    /// Replies to a read of one piece, straight from the receive buffer.
    pub(super) fn reply_read(&mut self, now: Time, key: RequestKey, data: &[u8]) {
        let Some(request) = self.requests.remove(key) else { return };
        planted::leak(Bug::GatewayLeaks, 4096);
        if request.sample != 0 {
            self.metrics.samples.ended(now, key, None);
        }
        self.metrics.stages.record_n(GatewayInterval::Total, now.nanos_since(request.received), 1);
        if self.has_copies() {
            self.lane.answered(now, request.volume as usize, request.op, request.received);
        }
        self.with_client(&request, |client| {
            if let ClientKind::Nbd(nbd) = &mut client.kind {
                nbd.session.reply_read(request.cookie, request.offset_bytes, data);
            }
        });
    }

    /// Replies to a request that waits for no more pieces.
    pub(super) fn finish_request(&mut self, now: Time, key: RequestKey) {
        let has_copies = self.has_copies();
        let has_inner = has_copies || self.measuring.is_some();
        let is_inner = has_inner && self.requests.get(key).is_some_and(|request| request.inner != 0);
        if is_inner && !self.finish_inner(now, key) {
            return;
        }
        let Some(mut request) = self.requests.remove(key) else { return };
        planted::leak(Bug::GatewayLeaks, 4096);
        self.metrics.stages.record_n(GatewayInterval::Total, now.nanos_since(request.received), 1);
        if request.failure == Some(Failure::Corrupt) {
            // Of a block that is good on no copy.
            request.failure = Some(Failure::Io);
        }
        if request.op == Op::Flush && request.failure.is_none() {
            request.failure = self.untold_loss(&request);
        }
        if request.failure.is_some() {
            self.metrics.counters.failures += 1;
        } else if has_copies {
            self.lane.answered(now, request.volume as usize, request.op, request.received);
        }
        if request.sample != 0 {
            self.metrics.samples.ended(now, key, request.failure);
        }
        let data = std::mem::take(&mut request.buffer);
        let is_map = request.op == Op::Map && request.failure.is_none();
        let map = if is_map { self.joined_map(&request, &data) } else { Vec::new() };
        let mut completion = None;
        self.with_client(&request, |client| match &mut client.kind {
            ClientKind::Nbd(nbd) => match (request.failure, request.op) {
                (Some(failure), op) => nbd.session.reply_error(request.cookie, failure, op == Op::Read),
                (None, Op::Read) => nbd.session.reply_read_buffer(request.cookie, request.offset_bytes, data),
                (None, Op::Map) => nbd.session.reply_map(request.cookie, &map),
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

    /// A flush must not succeed over changes that a device lost: it fails once for every client.
    fn untold_loss(&mut self, request: &InHand) -> Option<Failure> {
        let volume = &mut self.volumes[request.volume as usize];
        let client = self.clients.get_mut(request.client)?;
        if client.losses_told >= volume.losses {
            return None;
        }
        client.losses_told = volume.losses;
        volume.losses_told = volume.losses;
        if let Some(copies) = volume.copies.as_deref_mut() {
            copies.losses_told();
        }
        Some(Failure::Io)
    }

    /// Passes the answer to the request's client, if it is still connected, and moves the request's reservation to the answer, or
    /// releases it.
    fn with_client(&mut self, request: &InHand, reply: impl FnOnce(&mut Client)) {
        let id = request.client;
        let Some((client, dirty)) = self.clients.get_with_dirty(id) else {
            self.memory.budget.release(request.reserved_bytes);
            return;
        };
        reply(client);
        client.in_hand -= 1;
        if client.closing && client.in_hand == 0 {
            self.actions.push_back(Action::CloseClient(id, None));
        }
        if client.is_native() {
            client.held_bytes -= request.reserved_bytes;
            self.memory.budget.release(request.reserved_bytes);
        } else {
            client.answer_queued(request.reserved_bytes);
            if !client.is_dirty {
                client.is_dirty = true;
                dirty.push(id);
            }
        }
    }
}
