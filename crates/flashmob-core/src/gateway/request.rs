//! The start of a request: it is registered, read at once where a local extent can, and cut into pieces.

use super::Gateway;
use super::local::LocalExtents;
use super::state::samples::{AtOnce, Sample};
use super::state::{Client, ClientId, InHand, RequestKey};
use crate::node::TryRead;
use crate::op::{Op, OpFlags};
use crate::stages::GatewayInterval;
use crate::units::Time;

/// A checked request.
#[derive(Debug)]
pub(super) struct Incoming<'a> {
    pub client: ClientId,
    pub cookie: u64,
    pub volume: usize,
    pub op: Op,
    pub flags: OpFlags,
    /// Offset and length of each part, all within the volume.
    pub spans: &'a [(u64, u32)],
    /// A write's bytes.
    pub payload: Vec<u8>,
    pub reserved_bytes: u64,
    pub received: Time,
    /// Whether to sample it.
    pub is_sampled: bool,
}

impl Gateway {
    /// Cuts a request into pieces and queues them. Inlined into its two callers, so that [`Incoming`] stays in registers.
    #[inline(always)]
    pub(super) fn start_request(&mut self, now: Time, incoming: Incoming<'_>, local: &mut impl LocalExtents) {
        let Incoming { client, cookie, volume, op, flags, spans, payload, reserved_bytes, received, is_sampled } =
            incoming;
        let flags = if op == Op::Read { self.clients.read_flags(now, client, flags, spans.len()) } else { flags };
        // The parts of a native read are joined in a buffer; an NBD read of one piece is answered from the receive buffer.
        let is_joined = op == Op::Read && self.clients.get(client).is_some_and(Client::is_native);
        let payload = if is_joined { vec![0; spans.iter().map(|s| s.1 as usize).sum()] } else { payload };
        let key = self.requests.insert(InHand {
            serial: 0,
            client,
            cookie,
            op,
            flags,
            volume: volume as u32,
            len_bytes: 0,
            offset_bytes: spans.first().map_or(0, |s| s.0),
            pieces_left: 0,
            failure: None,
            buffer: payload,
            reserved_bytes,
            received,
            inner: 0,
            sample: 0,
        });
        if is_sampled {
            self.begin_sample(now, key, spans);
        }
        self.metrics.requests[op as usize] += 1;
        self.metrics.stages.record(GatewayInterval::Queued, now.nanos_since(received));
        if self.requests.len() == 1 {
            self.next_sweep = self.next_sweep.max(now);
        }
        let pieces = match op {
            Op::Read if is_joined && self.volumes[volume].has_local => {
                self.queue_local(key, volume, flags, spans, local)
            }
            Op::Read | Op::Write => self.queue_data(key, volume, (op, flags), spans, 0),
            Op::Flush => self.queue_flush(key, volume),
            Op::Trim | Op::WriteZeroes => self.queue_ranges(key, volume, op, flags, spans),
            Op::Map => self.queue_map(key, volume, spans),
            // No client can ask for it.
            Op::Digest => 0,
        };
        let Some(request) = self.requests.get_mut(key) else { return };
        request.pieces_left = pieces;
        if pieces == 0 {
            self.finish_request(now, key);
        } else if op == Op::Read && pieces > 1 && request.buffer.is_empty() {
            // Old bytes in it are harmless: it is sent only when every piece has filled its part.
            request.buffer = self.memory.buffers.take(spans.iter().map(|s| s.1 as usize).sum());
        }
    }

    /// Samples a request, if there is room for one more.
    #[cold]
    fn begin_sample(&mut self, now: Time, key: RequestKey, spans: &[(u64, u32)]) {
        let Some(request) = self.requests.get_mut(key) else { return };
        let bytes = spans.iter().map(|s| u64::from(s.1)).sum();
        let place = (request.offset_bytes, bytes);
        let mut sample = Sample::new(request.op, request.volume as usize, place, request.received);
        sample.queued = now;
        request.sample = self.metrics.samples.begin(key, sample);
    }

    /// Fills the parts of a native read that local extents can answer at once, and queues the others.
    fn queue_local(
        &mut self,
        key: RequestKey,
        volume: usize,
        flags: OpFlags,
        spans: &[(u64, u32)],
        local: &mut impl LocalExtents,
    ) -> u32 {
        let Some(request) = self.requests.get_mut(key) else { return 0 };
        let mut buffer = std::mem::take(&mut request.buffer);
        let sample = request.sample;
        let started = if sample == 0 { None } else { local.now() };
        let mut first_node = None;
        let (mut count, mut at) = (0, 0);
        for span @ &(offset_bytes, len_bytes) in spans {
            let into = &mut buffer[at as usize..(at + len_bytes) as usize];
            let place = self.local_place(volume, offset_bytes, len_bytes);
            let is_read = place.is_some_and(|(node, offset)| local.try_read(node, offset, into) == TryRead::Hit);
            if is_read {
                self.metrics.counters.read_at_once += 1;
                first_node = first_node.or(place);
                place.iter().for_each(|(node, _)| self.nodes[*node].read_here += 1);
            } else {
                let span = std::slice::from_ref(span);
                count += self.queue_data(key, volume, (Op::Read, flags), span, at);
            }
            at += len_bytes;
        }
        if let (Some(started), Some((node, _)), Some(finished)) = (started, first_node, local.now()) {
            self.metrics.samples.read_parts(sample, key, AtOnce { node, started, finished });
        }
        if let Some(request) = self.requests.get_mut(key) {
            request.buffer = buffer;
        }
        count
    }
}
