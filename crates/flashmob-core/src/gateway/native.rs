//! Native clients: calls from inside the process, each with many spans.

use std::collections::VecDeque;

use super::client::CLIENT_REQUESTS_MAX;
use super::local::LocalExtents;
use super::request::Incoming;
use super::state::{Client, ClientId, ClientKind};
use super::{Completion, Gateway};
use crate::op::{Failure, Op, OpFlags};
use crate::request::REQUEST_BYTES_MAX;
use crate::units::Time;

/// Memory of a native call beside its data: itself and its request.
const NATIVE_CALL_COST_BYTES: u64 = 256;
/// Most spans of one native call.
pub const SPANS_MAX: usize = 65_536;
/// Memory of a span of a native call beside its data: its piece in the queue and in a batch.
const SPAN_COST_BYTES: u64 = 96;

/// One call of a native client.
#[derive(Debug)]
pub struct NativeCall {
    /// The client's name for it.
    pub cookie: u64,
    /// The operation.
    pub op: Op,
    /// Modifiers.
    pub flags: OpFlags,
    /// Offset and length of each span, in bytes. A flush has none.
    pub spans: Vec<(u64, u32)>,
    /// A write's bytes, span after span.
    pub payload: Vec<u8>,
}

impl Gateway {
    /// Adds a native client of a volume; `None` if there is no such volume or the gateway is draining.
    pub fn native_opened(&mut self, volume: usize) -> Option<ClientId> {
        self.volumes.get(volume)?;
        self.insert_client(ClientKind::Native(VecDeque::new()), Some(volume), None)
    }

    /// Starts a call of a native client. Its result will be in [`Gateway::completions`].
    pub fn submit(&mut self, now: Time, id: ClientId, call: NativeCall, local: &mut impl LocalExtents) {
        self.advance_live(now);
        if let Some(failure) = self.check_call(id, &call) {
            self.completions.push(Completion { client: id, cookie: call.cookie, result: Err(failure) });
            return;
        }
        if let Some(Client { kind: ClientKind::Native(calls), .. }) = self.clients.get_mut(id) {
            calls.push_back(call);
        }
        self.start_native(now, id, local);
    }

    fn check_call(&self, id: ClientId, call: &NativeCall) -> Option<Failure> {
        let volume = &self.volumes[self.clients.get(id)?.volume?];
        let Some(layout) = &volume.layout else { return Some(Failure::Io) };
        if self.draining {
            return Some(Failure::ShuttingDown);
        }
        if call.op.mutates() && volume.spec.read_only {
            return Some(Failure::NotPermitted);
        }
        if matches!(call.op, Op::Map | Op::Digest) {
            return Some(Failure::NotSupported);
        }
        let total: u64 = call.spans.iter().map(|s| u64::from(s.1)).sum();
        let carries = matches!(call.op, Op::Read | Op::Write);
        if (carries && total > u64::from(REQUEST_BYTES_MAX)) || call.spans.len() > SPANS_MAX {
            return Some(Failure::TooLarge);
        }
        let outside = |&(offset, len): &(u64, u32)| {
            len == 0 || offset.checked_add(u64::from(len)).is_none_or(|end| end > layout.size_bytes())
        };
        let wrong_payload = call.op == Op::Write && call.payload.len() as u64 != total;
        let unknown_flags = call.flags.0 & !OpFlags::KNOWN != 0;
        let no_spans = call.spans.is_empty() != (call.op == Op::Flush);
        (no_spans || wrong_payload || unknown_flags || call.spans.iter().any(outside)).then_some(Failure::Invalid)
    }

    /// Starts calls of a native client within the limits.
    pub(super) fn start_native(&mut self, now: Time, id: ClientId, local: &mut impl LocalExtents) {
        let (is_turn_of_another, share_bytes) =
            (self.memory.is_turn_of_another(id, &self.clients), self.memory.share_bytes(self.clients.len()));
        let mut spans = 0;
        loop {
            let Some(client) = self.clients.get_mut(id) else { return };
            let ClientKind::Native(calls) = &mut client.kind else { return };
            let Some(call) = calls.front() else {
                client.blocked = false;
                return;
            };
            let data_bytes: u64 = if matches!(call.op, Op::Read | Op::Write) {
                call.spans.iter().map(|s| u64::from(s.1)).sum()
            } else {
                0
            };
            let reserved_bytes = NATIVE_CALL_COST_BYTES + call.spans.len() as u64 * SPAN_COST_BYTES + data_bytes;
            client.is_short = false;
            client.blocked =
                client.in_hand >= CLIENT_REQUESTS_MAX || is_turn_of_another || client.held_bytes > share_bytes;
            if !client.blocked && !self.memory.budget.try_reserve(reserved_bytes) {
                client.blocked = true;
                client.is_short = true;
            }
            if client.blocked {
                return;
            }
            // Its time starts now: before, it waited for its caller's earlier calls.
            let Some(call) = calls.pop_front() else { return };
            client.in_hand += 1;
            let is_sampled = self.metrics.samples.is_due();
            client.held_bytes += reserved_bytes;
            let volume = client.volume.unwrap_or_default();
            let incoming = Incoming {
                client: id,
                cookie: call.cookie,
                volume,
                op: call.op,
                flags: call.flags,
                spans: &call.spans,
                payload: call.payload,
                reserved_bytes,
                received: now,
                is_sampled,
            };
            self.start_request(now, incoming, local);
            spans += call.spans.len() as u64;
            self.clients.note_demand(now, id, spans);
        }
    }
}
