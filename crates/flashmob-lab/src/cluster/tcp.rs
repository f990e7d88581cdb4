//! Linux's TCP, as far as packets and their times are concerned: one connection between the gateway and a node.
//!
//! Modelled: segments of at most one MSS without Nagle's algorithm, slow start and Reno's growth in a window, acknowledgements that
//! are piggybacked, delayed by up to 40 ms, or immediate if more than a full segment is unacknowledged; selective acknowledgements,
//! fast retransmission and the retransmission timeout. Omitted: the handshake, pacing, and effects of memory limits.
//!
//! The bytes are real, but segments do not carry them: the receiver takes them from the sender's stream when they are due.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use flashmob_core::units::Time;

use super::Acks;

/// MSS: Ethernet's 1,500 less IP's 20 and TCP's 32 with timestamps.
pub(super) const MSS_BYTES: u64 = 1448;
/// The headers of a segment: Ethernet (14), IP (20), TCP with timestamps (32).
const HEADERS_BYTES: u64 = 66;
/// Initial window in segments (RFC 6928).
const INITIAL_WINDOW: f64 = 10.0;
/// Maximum segments in flight: limited by a receive buffer of Linux's default maximum on a short path.
const WINDOW_MAX: f64 = 400.0;
/// Maximum delay of an acknowledgement (Linux's TCP_DELACK_MIN).
const ACK_DELAY: Duration = Duration::from_millis(40);
/// Linux's estimate of the peer's segment size until it has seen a larger one.
const FIRST_RECEIVE_MSS_BYTES: u64 = 536;
/// Minimum retransmission timeout (Linux's TCP_RTO_MIN).
const TIMEOUT_MIN: Duration = Duration::from_millis(200);
/// Maximum retransmission timeout.
const TIMEOUT_MAX: Duration = Duration::from_secs(120);
/// Later segments that must arrive before a missing one counts as lost.
const REORDERING: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Side {
    Gateway,
    Node,
}

impl Side {
    pub(super) fn other(self) -> Side {
        match self {
            Side::Gateway => Side::Node,
            Side::Node => Side::Gateway,
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Segment {
    pub(super) from: Side,
    sequence: u64,
    len_bytes: u64,
    acknowledged: u64,
    /// Ranges received beyond `acknowledged` (SACK).
    selective: Vec<(u64, u64)>,
    pub(super) is_repeated: bool,
}

impl Segment {
    pub(super) fn frame_bytes(&self) -> u32 {
        u32::try_from(self.len_bytes + HEADERS_BYTES).unwrap_or(u32::MAX)
    }

    pub(super) fn data_bytes(&self) -> u64 {
        self.len_bytes
    }
}

/// An unacknowledged segment.
#[derive(Clone, Copy, Debug)]
struct Flying {
    sequence: u64,
    len_bytes: u64,
    sent: Time,
    arrived: bool,
    /// Presumed lost; not in flight until it is retransmitted.
    lost: bool,
    repeated: bool,
}

/// Data in one direction, at the sender and at the receiver.
#[derive(Debug)]
struct Flow {
    // The sender.
    /// Bytes written and not yet taken by the receiving program.
    stream: VecDeque<u8>,
    written: u64,
    next: u64,
    acknowledged: u64,
    flying: VecDeque<Flying>,
    window: f64,
    threshold: f64,
    smoothed_ns: f64,
    variation_ns: f64,
    backoff: u32,
    timeout_at: Option<Time>,
    /// Losses before this sequence number belong to one congestion event.
    recovery_end: u64,
    // The receiver.
    acks: Acks,
    received: u64,
    taken: u64,
    gaps: BTreeMap<u64, u64>,
    unacknowledged_bytes: u64,
    receive_mss_bytes: u64,
    ack_at: Option<Time>,
    ack_now: bool,
}

impl Flow {
    fn new(acks: Acks) -> Flow {
        Flow {
            acks,
            stream: VecDeque::new(),
            written: 0,
            next: 0,
            acknowledged: 0,
            flying: VecDeque::new(),
            window: INITIAL_WINDOW,
            threshold: f64::INFINITY,
            smoothed_ns: 0.0,
            variation_ns: 0.0,
            backoff: 0,
            timeout_at: None,
            recovery_end: 0,
            received: 0,
            taken: 0,
            gaps: BTreeMap::new(),
            unacknowledged_bytes: 0,
            receive_mss_bytes: FIRST_RECEIVE_MSS_BYTES,
            ack_at: None,
            ack_now: false,
        }
    }

    fn in_flight(&self) -> usize {
        self.flying.iter().filter(|f| !f.arrived && !f.lost).count()
    }

    fn timeout(&self) -> Duration {
        let estimate = Duration::from_nanos((self.smoothed_ns + 4.0 * self.variation_ns) as u64);
        (estimate.max(TIMEOUT_MIN) * (1 << self.backoff.min(10))).min(TIMEOUT_MAX)
    }

    /// The next segment allowed by the window: retransmissions first, then new data.
    fn next_segment(&mut self, now: Time) -> Option<(u64, u64, bool)> {
        if self.flying.is_empty() && self.next == self.written {
            return None;
        }
        if self.in_flight() as f64 >= self.window.floor().max(1.0) {
            return None;
        }
        if let Some(lost) = self.flying.iter_mut().find(|f| f.lost) {
            (lost.lost, lost.repeated, lost.sent) = (false, true, now);
            return Some((lost.sequence, lost.len_bytes, true));
        }
        let len_bytes = (self.written - self.next).min(MSS_BYTES);
        if len_bytes == 0 {
            return None;
        }
        let sequence = self.next;
        self.next += len_bytes;
        self.flying.push_back(Flying { sequence, len_bytes, sent: now, arrived: false, lost: false, repeated: false });
        Some((sequence, len_bytes, false))
    }

    /// Handles an acknowledgement from the other side.
    fn acknowledge(&mut self, now: Time, up_to: u64, selective: &[(u64, u64)]) {
        let was_limited = self.in_flight() as f64 >= self.window.floor();
        let mut acknowledged_segments = 0;
        while let Some(first) = self.flying.front().filter(|f| f.sequence + f.len_bytes <= up_to) {
            if !first.repeated && !first.arrived {
                self.backoff = 0;
                let sample_ns = now.nanos_since(first.sent) as f64;
                if self.smoothed_ns == 0.0 {
                    (self.smoothed_ns, self.variation_ns) = (sample_ns, sample_ns / 2.0);
                } else {
                    self.variation_ns += ((sample_ns - self.smoothed_ns).abs() - self.variation_ns) / 4.0;
                    self.smoothed_ns += (sample_ns - self.smoothed_ns) / 8.0;
                }
            }
            acknowledged_segments += 1;
            self.flying.pop_front();
        }
        if up_to > self.acknowledged {
            self.acknowledged = up_to;
            self.timeout_at = None;
            // The window grows immediately after a timeout, but only after the end of recovery following a fast retransmission.
            let in_recovery = up_to < self.recovery_end && self.window >= self.threshold;
            if was_limited && !in_recovery {
                let grown = f64::from(acknowledged_segments);
                self.window += if self.window < self.threshold { grown } else { grown / self.window };
                self.window = self.window.min(WINDOW_MAX);
            }
        }
        self.mark(selective);
    }

    /// Marks segments that arrived out of order, and those that must be lost then.
    fn mark(&mut self, selective: &[(u64, u64)]) {
        if selective.is_empty() {
            return;
        }
        for flying in &mut self.flying {
            let end = flying.sequence + flying.len_bytes;
            flying.arrived |= selective.iter().any(|&(from, to)| from <= flying.sequence && end <= to);
        }
        let mut beyond = 0;
        let mut newly_lost = None;
        for flying in self.flying.iter_mut().rev() {
            if flying.arrived {
                beyond += 1;
            } else if beyond >= REORDERING && !flying.lost && !flying.repeated {
                flying.lost = true;
                newly_lost = Some(flying.sequence);
            }
        }
        if newly_lost.is_some_and(|sequence| sequence >= self.recovery_end) {
            self.threshold = (self.window / 2.0).max(2.0);
            self.window = self.threshold;
            self.recovery_end = self.next;
        }
    }

    /// The retransmission timeout expired: every segment that has not arrived is presumed lost.
    fn time_out(&mut self) {
        self.threshold = (self.window / 2.0).max(2.0);
        self.window = 1.0;
        self.recovery_end = self.next;
        self.backoff += 1;
        self.timeout_at = None;
        for flying in self.flying.iter_mut().filter(|f| !f.arrived) {
            flying.lost = true;
        }
    }

    /// A segment with data arrived.
    fn receive(&mut self, now: Time, sequence: u64, len_bytes: u64) {
        let end = sequence + len_bytes;
        if len_bytes >= self.receive_mss_bytes {
            self.receive_mss_bytes = len_bytes.min(MSS_BYTES);
        }
        if sequence > self.received || end <= self.received {
            // Out of order or duplicate: acknowledge immediately.
            if end > self.received {
                self.gaps.insert(sequence, end);
            }
            self.ack_now = true;
            return;
        }
        self.received = end;
        let filled = !self.gaps.is_empty();
        while let Some((&from, &to)) = self.gaps.first_key_value().filter(|&(&from, _)| from <= self.received) {
            self.gaps.remove(&from);
            self.received = self.received.max(to);
        }
        self.unacknowledged_bytes += len_bytes;
        let most_bytes = match self.acks {
            Acks::Linux => self.receive_mss_bytes,
            Acks::Segments(count) => u64::from(count) * MSS_BYTES,
            Acks::Late => u64::MAX,
        };
        self.ack_now |= filled || self.unacknowledged_bytes > most_bytes;
        if !self.ack_now && self.ack_at.is_none() {
            self.ack_at = Some(now + ACK_DELAY);
        }
    }

    fn selective(&self) -> Vec<(u64, u64)> {
        let mut runs: Vec<(u64, u64)> = Vec::new();
        for (&from, &to) in &self.gaps {
            match runs.last_mut() {
                Some(last) if from <= last.1 => last.1 = last.1.max(to),
                _ => runs.push((from, to)),
            }
        }
        runs
    }
}

/// A connection. The caller sends the segments of [`Connection::take_segment`] until there are none.
#[derive(Debug)]
pub(super) struct Connection {
    /// From the gateway, and to it.
    flows: [Flow; 2],
}

impl Connection {
    pub(super) fn new(acks: Acks) -> Connection {
        Connection { flows: [Flow::new(acks), Flow::new(acks)] }
    }

    /// The program at `side` writes.
    pub(super) fn write(&mut self, side: Side, bytes: &[u8]) {
        let flow = &mut self.flows[side as usize];
        flow.stream.extend(bytes);
        flow.written += bytes.len() as u64;
    }

    /// Passes all data readable by the program at `side` to `take`.
    pub(super) fn read(&mut self, side: Side, mut take: impl FnMut(&[u8])) {
        let flow = &mut self.flows[side.other() as usize];
        let len = (flow.received - flow.taken) as usize;
        let (first, second) = flow.stream.as_slices();
        take(&first[..len.min(first.len())]);
        if len > first.len() {
            take(&second[..len - first.len()]);
        }
        flow.stream.drain(..len);
        flow.taken = flow.received;
    }

    /// Whether the program at `side` has data to read.
    pub(super) fn has_data(&self, side: Side) -> bool {
        let flow = &self.flows[side.other() as usize];
        flow.received > flow.taken
    }

    /// The next packet that `side` sends now.
    pub(super) fn take_segment(&mut self, now: Time, side: Side) -> Option<Segment> {
        let next = self.flows[side as usize].next_segment(now);
        let incoming = &mut self.flows[side.other() as usize];
        if next.is_none() && !incoming.ack_now {
            return None;
        }
        let (sequence, len_bytes, is_repeated) = next.unwrap_or_default();
        let (acknowledged, selective) = (incoming.received, incoming.selective());
        (incoming.ack_now, incoming.ack_at, incoming.unacknowledged_bytes) = (false, None, 0);
        let flow = &mut self.flows[side as usize];
        if len_bytes > 0 && flow.timeout_at.is_none() {
            flow.timeout_at = Some(now + flow.timeout());
        }
        Some(Segment { from: side, sequence, len_bytes, acknowledged, selective, is_repeated })
    }

    /// A packet arrived at the side opposite its sender.
    pub(super) fn arrived(&mut self, now: Time, segment: &Segment) {
        self.flows[segment.from.other() as usize].acknowledge(now, segment.acknowledged, &segment.selective);
        if segment.len_bytes > 0 {
            self.flows[segment.from as usize].receive(now, segment.sequence, segment.len_bytes);
        }
        let answering = &mut self.flows[segment.from.other() as usize];
        if answering.timeout_at.is_none() && answering.acknowledged < answering.next {
            answering.timeout_at = Some(now + answering.timeout());
        }
    }

    /// When a timer of `side` expires.
    pub(super) fn deadline(&self, side: Side) -> Option<Time> {
        let ack_at = self.flows[side.other() as usize].ack_at;
        self.flows[side as usize].timeout_at.into_iter().chain(ack_at).min()
    }

    pub(super) fn handle_timeout(&mut self, now: Time, side: Side) {
        let incoming = &mut self.flows[side.other() as usize];
        if incoming.ack_at.is_some_and(|at| at <= now) {
            incoming.ack_now = true;
        }
        let outgoing = &mut self.flows[side as usize];
        if outgoing.timeout_at.is_some_and(|at| at <= now) {
            outgoing.time_out();
        }
    }
}

#[cfg(test)]
mod tests;
