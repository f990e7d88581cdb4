//! Requests in hand: checked, cut into pieces, queued; and those that took too long.

use std::collections::HashSet;
use std::time::Duration;

use slab::Slab;

use super::client::ClientId;
use super::local::LocalExtents;
use super::queue::Piece;
use super::samples::{AtOnce, Sample};
use super::{Event, Gateway};
use crate::node::TryRead;
use crate::op::{Failure, Op, OpFlags};
use crate::planted::{self, Bug};
use crate::stages::GatewayInterval;
use crate::units::Time;
use crate::wire::PIECE_BYTES_MAX;

/// Names a request in hand; a later request in the same place has another serial.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) struct RequestKey {
    pub index: u32,
    pub serial: u32,
}

/// A request fails after so many timeouts even if its node answers others: nothing may take for ever.
pub const LATENESS_MAX: u32 = 20;
/// Silence of a node, and waiting of a request to it, after which that gives way to others when memory is short.
const SHED_PATIENCE: Duration = Duration::from_secs(1);

/// A request in hand.
#[derive(Debug)]
pub(super) struct InHand {
    pub serial: u32,
    pub client: ClientId,
    pub cookie: u64,
    pub op: Op,
    pub volume: u32,
    /// First byte of the volume.
    pub offset_bytes: u64,
    /// Pieces not yet answered.
    pub pieces_left: u32,
    /// The first failure of a piece.
    pub failure: Option<Failure>,
    /// A write's bytes; or where the pieces of a read are put together, if there are several.
    pub buffer: Vec<u8>,
    /// What it holds of the budget.
    pub reserved_bytes: u64,
    pub received: Time,
    /// Under which number it is followed; 0: it is not.
    pub sample: u8,
}

/// All requests in hand.
#[derive(Debug, Default)]
pub(super) struct Requests {
    slots: Slab<InHand>,
    next_serial: u32,
}

impl Requests {
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    pub fn len(&self) -> usize {
        self.slots.len()
    }

    pub fn insert(&mut self, mut request: InHand) -> RequestKey {
        self.next_serial = self.next_serial.wrapping_add(1);
        request.serial = self.next_serial;
        RequestKey { index: self.slots.insert(request) as u32, serial: self.next_serial }
    }

    pub fn get(&self, key: RequestKey) -> Option<&InHand> {
        self.slots.get(key.index as usize).filter(|r| r.serial == key.serial)
    }

    pub fn get_mut(&mut self, key: RequestKey) -> Option<&mut InHand> {
        self.slots.get_mut(key.index as usize).filter(|r| r.serial == key.serial)
    }

    pub fn remove(&mut self, key: RequestKey) -> Option<InHand> {
        self.get(key)?;
        self.slots.try_remove(key.index as usize)
    }

    fn keys_where(&self, wanted: impl Fn(&InHand) -> bool) -> Vec<RequestKey> {
        self.slots
            .iter()
            .filter(|(_, r)| wanted(r))
            .map(|(index, r)| RequestKey { index: index as u32, serial: r.serial })
            .collect()
    }
}

/// A request whose form is checked, on its way to be cut.
#[derive(Debug)]
pub(super) struct Incoming<'a> {
    pub client: ClientId,
    pub cookie: u64,
    pub volume: usize,
    pub op: Op,
    pub flags: OpFlags,
    /// What it concerns: offset and length of each part, all within the volume.
    pub spans: &'a [(u64, u32)],
    /// A write's bytes.
    pub payload: Vec<u8>,
    pub reserved_bytes: u64,
    pub received: Time,
    /// It is to be followed.
    pub is_sampled: bool,
}

impl Gateway {
    /// Cuts a request into pieces and queues them: the one way in.
    pub(super) fn start_request(&mut self, now: Time, incoming: Incoming<'_>, local: &mut impl LocalExtents) {
        let Incoming { client, cookie, volume, op, flags, spans, payload, reserved_bytes, received, is_sampled } =
            incoming;
        // Several parts are put together; what is one piece goes on from where it is received.
        let is_joined = op == Op::Read && self.clients[client.index].is_native();
        let payload = if is_joined { vec![0; spans.iter().map(|s| s.1 as usize).sum()] } else { payload };
        let key = self.requests.insert(InHand {
            serial: 0,
            client,
            cookie,
            op,
            volume: volume as u32,
            offset_bytes: spans.first().map_or(0, |s| s.0),
            pieces_left: 0,
            failure: None,
            buffer: payload,
            reserved_bytes,
            received,
            sample: 0,
        });
        if is_sampled {
            self.begin_sample(now, key, spans);
        }
        self.counters.requests[op as usize] += 1;
        self.stages.record(GatewayInterval::Queued, now.nanos_since(received));
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
        };
        let Some(request) = self.requests.get_mut(key) else { return };
        request.pieces_left = pieces;
        if pieces == 0 {
            self.finish_request(now, key);
        } else if op == Op::Read && pieces > 1 && request.buffer.is_empty() {
            // Old bytes in it do no harm: it is sent only when every piece has filled its part.
            request.buffer = self.buffers.take(spans.iter().map(|s| s.1 as usize).sum());
        }
    }

    /// Follows a request from here on, if there is room for one more.
    #[cold]
    fn begin_sample(&mut self, now: Time, key: RequestKey, spans: &[(u64, u32)]) {
        let Some(request) = self.requests.get_mut(key) else { return };
        let bytes = spans.iter().map(|s| u64::from(s.1)).sum();
        let place = (request.offset_bytes, bytes);
        let mut sample = Sample::new(request.op, request.volume as usize, place, request.received);
        sample.queued = now;
        request.sample = self.samples.begin(key, sample);
    }

    /// Fills the parts of a native read that local extents have at once, and queues the others.
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
                self.counters.read_at_once += 1;
                first_node = first_node.or(place);
            } else {
                let span = std::slice::from_ref(span);
                count += self.queue_data(key, volume, (Op::Read, flags), span, at);
            }
            at += len_bytes;
        }
        if let (Some(started), Some((node, _)), Some(finished)) = (started, first_node, local.now()) {
            self.samples.read_parts(sample, key, AtOnce { node, started, finished });
        }
        if let Some(request) = self.requests.get_mut(key) {
            request.buffer = buffer;
        }
        count
    }

    /// Queues the pieces of a read or write: cut where extents end and where pieces would be too long.
    fn queue_data(
        &mut self,
        key: RequestKey,
        volume: usize,
        (op, flags): (Op, OpFlags),
        spans: &[(u64, u32)],
        mut buffer_at: u32,
    ) -> u32 {
        let Some(layout) = &self.volumes[volume].layout else { return 0 };
        let Some(&InHand { client, received, sample, .. }) = self.requests.get(key) else { return 0 };
        let first_node = self.volumes[volume].first_node;
        let mut count = 0;
        let (nodes, fed, samples) = (&mut self.nodes, &mut self.fed, &mut self.samples);
        let mut push = |extent: u32, offset_bytes: u64, len_bytes: u32| {
            let node = first_node + extent as usize;
            let state = &mut nodes[node];
            let piece = Piece {
                request: key,
                client: client.index as u32,
                serial: 0,
                op,
                flags,
                offset_bytes,
                len_bytes,
                buffer_at,
                received,
                answered: false,
                sample,
            };
            state.queue.push(piece);
            if sample != 0 {
                samples.queued((sample, key), node, offset_bytes, len_bytes);
            }
            if !state.is_fed {
                state.is_fed = true;
                fed.push(node);
            }
            buffer_at += len_bytes - u32::from(planted::is(Bug::BufferPlaceOffByOne));
            count += 1;
        };
        for &(offset, len) in spans {
            // Nearly always it is one piece.
            if len <= PIECE_BYTES_MAX
                && let Some((extent, extent_offset_bytes)) = layout.locate_whole(offset, u64::from(len))
            {
                push(extent, extent_offset_bytes, len);
                continue;
            }
            for span in layout.split(offset, u64::from(len)) {
                let (mut at, end) = (span.extent_offset_bytes, span.extent_offset_bytes + span.len_bytes);
                while at < end {
                    let len_bytes = (end - at).min(u64::from(PIECE_BYTES_MAX)) as u32;
                    push(span.extent, at, len_bytes);
                    at += u64::from(len_bytes);
                }
            }
        }
        count
    }

    /// Queues a flush for every node that may hold something unflushed.
    fn queue_flush(&mut self, key: RequestKey, volume: usize) -> u32 {
        let first = self.volumes[volume].first_node;
        let mut count = 0;
        for node in first..first + self.volumes[volume].spec.extents.len() {
            if self.nodes[node].queue.is_dirty() {
                self.queue_piece(node, key, Op::Flush, OpFlags::NONE, 0, 0);
                count += 1;
            }
        }
        count
    }

    /// Queues the pieces of a request without payload, which may be long: one for each extent, or few.
    fn queue_ranges(&mut self, key: RequestKey, volume: usize, op: Op, flags: OpFlags, spans: &[(u64, u32)]) -> u32 {
        let Some(layout) = &self.volumes[volume].layout else { return 0 };
        let first_node = self.volumes[volume].first_node;
        let ranges: Vec<(u32, u64, u64)> =
            spans.iter().flat_map(|&(offset, len)| layout.ranges(offset, u64::from(len))).collect();
        let mut count = 0;
        for (extent, mut at, mut left) in ranges {
            while left > 0 {
                let len = left.min(u64::from(u32::MAX));
                self.queue_piece(first_node + extent as usize, key, op, flags, at, len as u32);
                (at, left, count) = (at + len, left - len, count + 1);
            }
        }
        count
    }

    fn queue_piece(
        &mut self,
        node: usize,
        request: RequestKey,
        op: Op,
        flags: OpFlags,
        offset_bytes: u64,
        len_bytes: u32,
    ) {
        let Some(&InHand { client, received, sample, .. }) = self.requests.get(request) else { return };
        let piece = Piece {
            request,
            client: client.index as u32,
            serial: 0,
            op,
            flags,
            offset_bytes,
            len_bytes,
            buffer_at: 0,
            received,
            answered: false,
            sample,
        };
        if sample != 0 {
            self.samples.queued((sample, request), node, offset_bytes, len_bytes);
        }
        self.nodes[node].queue.push(piece);
        self.feed(node);
    }

    /// Fails every request that has taken longer than its volume allows and has a piece at a node, or on a link, that
    /// answered nothing for so long. One that only waits for its turn at a slow node goes on. What was sent of it stays where it
    /// is and comes to nothing; a change that was sent keeps others from overlapping it until its fate is known.
    pub(super) fn fail_late_requests(&mut self, now: Time) {
        let timeout_of = |r: &InHand| self.volumes[r.volume as usize].spec.timeout;
        let late = self.requests.keys_where(|r| now - r.received >= timeout_of(r));
        if late.is_empty() {
            return;
        }
        let stuck = self.stuck_requests(now);
        let is_over = |key: &RequestKey| {
            let age = self.requests.get(*key).map(|r| (now - r.received, timeout_of(r)));
            stuck.contains(key) || age.is_some_and(|(age, timeout)| age >= timeout * LATENESS_MAX)
        };
        let late: Vec<RequestKey> = late.into_iter().filter(is_over).collect();
        let mut per_volume = vec![0usize; self.volumes.len()];
        for key in late {
            if let Some(request) = self.requests.get_mut(key) {
                request.failure = Some(Failure::Io);
                per_volume[request.volume as usize] += 1;
            }
            self.finish_request(now, key);
        }
        if per_volume.iter().any(|&count| count > 0) {
            self.drop_dead_pieces();
        }
        for (volume, count) in per_volume.into_iter().enumerate().filter(|(_, count)| *count > 0) {
            self.counters.timeouts += count as u64;
            let event = Event::TimedOut(self.volumes[volume].spec.name.clone(), count);
            self.tell(event);
        }
    }

    /// The requests with a piece that waits for a node, or a link, that answered nothing for its volume's timeout.
    fn stuck_requests(&self, now: Time) -> HashSet<RequestKey> {
        let mut stuck = HashSet::new();
        for node in &self.nodes {
            let timeout = self.volumes[node.volume].spec.timeout;
            let links = &self.links[node.links.clone()];
            let silent = |link: &&super::Link| link.is_unanswering(now, timeout);
            for link in links.iter().filter(silent) {
                // What is held may wait for what is out on this very link.
                let waiting = link.sent_requests().chain(link.unresolved_requests());
                stuck.extend(waiting.chain(node.queue.held_requests()));
            }
            if links.iter().all(|link| silent(&link)) {
                stuck.extend(node.queue.waiting_requests());
            }
        }
        stuck
    }

    /// Where memory keeps clients waiting, requests to nodes that do not answer give way, oldest first, until half of
    /// the memory is free: they hold up only themselves.
    pub(super) fn shed_unanswered(&mut self, now: Time) {
        let limit_bytes = self.budget.limit_bytes();
        if self.budget.used_bytes() < limit_bytes - limit_bytes / 4 {
            return;
        }
        // Only if somebody can gain from it, and not for a short pause of a node that is there.
        let is_silent = |node: &super::Node| {
            let patience = self.volumes[node.volume].spec.timeout / 2;
            self.links[node.links.clone()].iter().all(|link| link.is_silent(now, SHED_PATIENCE, patience))
        };
        if self.nodes.iter().all(is_silent) {
            return;
        }
        let mut keys: Vec<(Time, RequestKey)> = Vec::new();
        for node in &self.nodes {
            if is_silent(node) {
                let links = &self.links[node.links.clone()];
                let sent = links.iter().flat_map(super::Link::sent_requests);
                let waiting = node.queue.waiting_requests().chain(sent);
                let waited = waiting.filter_map(|key| self.requests.get(key).map(|r| (r.received, key)));
                keys.extend(waited.filter(|&(received, _)| now - received >= SHED_PATIENCE));
            }
        }
        keys.sort_unstable_by_key(|&(received, key)| (received, key.serial));
        let mut freed_bytes = 0;
        let mut count = 0;
        for (_, key) in keys {
            if freed_bytes >= limit_bytes / 2 {
                break;
            }
            if let Some(request) = self.requests.get_mut(key) {
                request.failure = Some(Failure::Io);
                freed_bytes += request.reserved_bytes;
                count += 1;
                self.finish_request(now, key);
            }
        }
        if count > 0 {
            self.counters.timeouts += count as u64;
            self.tell(Event::GaveWay(count));
            self.drop_dead_pieces();
        }
    }

    /// Drops the requests of a client that is gone.
    pub(super) fn drop_requests_of(&mut self, client: ClientId) {
        let keys = self.requests.keys_where(|r| r.client == client);
        for &key in &keys {
            if let Some(request) = self.requests.remove(key) {
                self.budget.release(request.reserved_bytes);
                if request.sample != 0 {
                    self.samples.forgotten(key);
                }
            }
        }
        if !keys.is_empty() {
            self.drop_dead_pieces();
        }
    }

    /// Takes the pieces of requests that are gone out of all queues.
    fn drop_dead_pieces(&mut self) {
        for node in 0..self.nodes.len() {
            let (queue, requests) = (&mut self.nodes[node].queue, &self.requests);
            if queue.len() > 0 {
                queue.drop_dead(|p| requests.get(p.request).is_some());
                self.feed(node);
            }
        }
    }
}
