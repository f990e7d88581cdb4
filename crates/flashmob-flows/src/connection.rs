//! One TCP connection: two ends, and a direction from each to the other.

use std::net::SocketAddr;

use flashmob_results::capture;

use crate::limits::Limits;
use crate::packet::Segment;
use crate::sequence::Unwrapper;
use crate::way::{Kind, Way};

/// Maximum time from the last duplicate acknowledgement to the fast retransmission that it caused.
const FAST_NS: i64 = 20_000_000;
/// Packets up to this time after the highest sequence number count as reordered, if the handshake did not show the round trip.
const OVERTAKEN_NS: i64 = 3_000_000;

/// Size of the timestamps option in each packet.
const STAMPS_BYTES: u32 = 12;

/// One end, as seen from its packets.
#[derive(Clone, Debug, Default)]
struct End {
    numbers: Unwrapper,
    first_number: Option<u32>,
    /// The sequence number after all data that it sent.
    next: Option<i64>,
    /// When it sent `next`.
    next_ns: i64,
    acknowledged: Option<i64>,
    acknowledged_ns: i64,
    /// In its last packet: unscaled, and scaled.
    window: u16,
    window_bytes: i64,
    has_window: bool,
    /// Number of duplicates of its last acknowledgement.
    repeats: u32,
    /// The window scale of its SYN; `None` if that was not captured.
    scale: Option<Option<u8>>,
    /// The maximum segment size of its SYN, which includes options.
    largest_data_bytes: Option<u16>,
    was_keep_alive: bool,
    was_probe: bool,
}

/// One connection.
#[derive(Clone, Debug)]
pub struct Connection {
    pub number: u64,
    client: SocketAddr,
    server: SocketAddr,
    begin_ns: i64,
    pub last_ns: i64,
    /// The client and the server.
    ends: [End; 2],
    /// From the client, and from the server.
    ways: [Way; 2],
    syn_ns: Option<i64>,
    syn_ack_ns: Option<i64>,
    opening_ns: Option<i64>,
}

impl Connection {
    /// Creates the connection of this first packet, which must be passed to [`Connection::take`] as well.
    pub fn new(number: u64, first: &Segment, limits: &Limits) -> Connection {
        // A SYN-ACK comes from the server.
        let is_from_server = first.is_syn && first.is_ack;
        let (client, server) = if is_from_server { (first.to, first.from) } else { (first.from, first.to) };
        Connection {
            number,
            client,
            server,
            begin_ns: first.time_ns,
            last_ns: first.time_ns,
            ends: [End::default(), End::default()],
            ways: [Way::new(limits), Way::new(limits)],
            syn_ns: None,
            syn_ack_ns: None,
            opening_ns: None,
        }
    }

    /// Bytes of data in both directions.
    pub fn bytes(&self) -> u64 {
        self.ways[0].counts.bytes + self.ways[1].counts.bytes
    }

    /// True if this packet opens another connection between the same ports.
    pub fn is_over_with(&self, segment: &Segment) -> bool {
        let (from, _) = self.sides(segment);
        // An end with packets but no captured SYN was open before the capture began.
        let is_other =
            self.ends[from].first_number.map_or(self.ways[from].counts.packets > 0, |first| first != segment.sequence);
        segment.is_syn && is_other
    }

    fn sides(&self, segment: &Segment) -> (usize, usize) {
        if segment.from == self.client { (0, 1) } else { (1, 0) }
    }

    /// Analyzes its next packet.
    pub fn take(&mut self, segment: &Segment, limits: &Limits) {
        let now_ns = segment.time_ns;
        let (from, to) = self.sides(segment);
        let since_s = (now_ns - self.begin_ns) as f64 / 1e9;
        self.last_ns = self.last_ns.max(now_ns);
        self.ways[from].counts.packets += 1;
        self.opening(segment, from);

        let begin = self.ends[from].numbers.unwrap(segment.sequence);
        let end = begin + i64::from(segment.span());
        let acknowledged = segment.is_ack.then(|| self.ends[to].numbers.unwrap(segment.acknowledgement));
        let scale = self.scale(from);
        let window_bytes = i64::from(segment.window) << if segment.is_syn { 0 } else { scale.unwrap_or(0) };

        let kind = self.kind(segment, from, begin, end);
        let is_keep_alive = self.is_keep_alive(segment, from, begin);
        if segment.window == 0 && segment.is_plain() && !kind.is_probe {
            self.ways[to].counts.zero_windows += 1;
        }
        let repeats = self.repeats(segment, from, begin, acknowledged);
        if repeats {
            self.ways[to].counts.duplicate_acknowledgements += 1;
        }
        if segment.data_bytes > 0 && !is_keep_alive {
            let first = begin + i64::from(segment.is_syn);
            self.ways[from].sent(segment, first, end, kind, since_s, limits);
        }
        if let Some(acknowledged) = acknowledged {
            let window = scale.map(|_| window_bytes);
            self.ways[to].acknowledged(segment, acknowledged, window, since_s, limits);
        }

        let near = self.ends[to].next;
        let sender = &mut self.ends[from];
        if segment.span() > 0 && !kind.is_probe && sender.next.is_none_or(|next| end > next) {
            (sender.next, sender.next_ns) = (Some(end), now_ns);
            sender.numbers.note(end);
        }
        sender.next.get_or_insert(end);
        if acknowledged != sender.acknowledged {
            sender.repeats = 0;
        }
        sender.repeats += u32::from(repeats);
        if acknowledged.is_some() {
            (sender.acknowledged, sender.acknowledged_ns) = (acknowledged, now_ns);
        }
        (sender.window, sender.window_bytes, sender.has_window) = (segment.window, window_bytes, true);
        (sender.was_keep_alive, sender.was_probe) = (is_keep_alive, kind.is_probe);
        // Acknowledged data was sent even if it was not captured.
        if let Some(acknowledged) = acknowledged
            && near.is_none_or(|near| acknowledged > near)
        {
            self.ends[to].numbers.note(acknowledged);
        }
    }

    /// Evaluates the packets of the handshake.
    fn opening(&mut self, segment: &Segment, from: usize) {
        let now_ns = segment.time_ns;
        if segment.is_syn {
            self.ends[from].first_number = Some(segment.sequence);
            self.ends[from].scale = Some(segment.options.window_scale);
            self.ends[from].largest_data_bytes = segment.options.largest_data_bytes;
            let stamps_bytes = if segment.options.timestamps.is_some() { STAMPS_BYTES } else { 0 };
            if let (Some(one), Some(two)) = (self.ends[0].largest_data_bytes, self.ends[1].largest_data_bytes) {
                let full = u32::from(one.min(two)).saturating_sub(stamps_bytes);
                self.ways.iter_mut().for_each(|way| way.full_bytes = (full > 0).then_some(full));
            }
            if segment.is_ack {
                self.syn_ack_ns = Some(now_ns);
                if let Some(syn_ns) = self.syn_ns {
                    self.ways[from].knowledge.opening(now_ns - syn_ns);
                }
            } else {
                self.syn_ns = Some(now_ns);
            }
        } else if segment.is_ack && from == 0 && self.opening_ns.is_none() && !segment.is_reset {
            if let Some(syn_ack_ns) = self.syn_ack_ns {
                self.ways[0].knowledge.opening(now_ns - syn_ack_ns);
            }
            if let (Some(syn_ns), Some(_)) = (self.syn_ns, self.syn_ack_ns) {
                self.opening_ns = Some(now_ns - syn_ns);
            }
        }
    }

    /// The window scale of an end; `None` if the handshake was not captured.
    fn scale(&self, end: usize) -> Option<u8> {
        match (self.ends[end].scale, self.ends[1 - end].scale) {
            // Both have to offer it (RFC 7323, section 2.2).
            (Some(None), _) | (_, Some(None)) => Some(0),
            (Some(Some(own)), Some(Some(_))) => Some(own),
            // A SYN-ACK offers it only if the SYN did.
            (Some(Some(own)), None) if end == 1 => Some(own),
            _ => None,
        }
    }

    fn is_keep_alive(&self, segment: &Segment, from: usize, begin: i64) -> bool {
        segment.data_bytes <= 1 && segment.is_plain() && self.ends[from].next == Some(begin + 1)
    }

    /// Classifies a packet with data.
    fn kind(&self, segment: &Segment, from: usize, begin: i64, end: i64) -> Kind {
        let (sender, receiver) = (&self.ends[from], &self.ends[1 - from]);
        let mut kind = Kind::default();
        if segment.data_bytes == 0 {
            return kind;
        }
        if segment.data_bytes == 1 && sender.next == Some(begin) && receiver.has_window && receiver.window == 0 {
            kind.is_probe = true;
            return kind;
        }
        kind.fills_window = segment.is_plain()
            && self.scale(1 - from).is_some()
            && receiver.acknowledged.is_some_and(|acknowledged| acknowledged + receiver.window_bytes == end);
        let Some(next) = sender.next.filter(|next| begin < *next) else { return kind };
        if self.is_keep_alive(segment, from, begin) {
            return kind;
        }
        let since_ns = segment.time_ns - receiver.acknowledged_ns;
        let is_asked_for = receiver.repeats >= 2 && since_ns < FAST_NS;
        let overtaken_ns = self.opening_ns.unwrap_or(OVERTAKEN_NS);
        if receiver.acknowledged.is_some_and(|acknowledged| end <= acknowledged) {
            kind.is_retransmission = true;
        } else if segment.data_bytes > 1 && begin == next - 1 {
            // The byte before was a probe.
        } else if is_asked_for && receiver.acknowledged == Some(begin) {
            kind.is_retransmission = true;
        } else if segment.time_ns - sender.next_ns < overtaken_ns && next != end {
            kind.is_out_of_order = true;
        } else {
            kind.is_retransmission = true;
        }
        kind
    }

    /// True for a duplicate acknowledgement: no data, and its sender's last acknowledgement, window and sequence number.
    fn repeats(&self, segment: &Segment, from: usize, begin: i64, acknowledged: Option<i64>) -> bool {
        let (sender, receiver) = (&self.ends[from], &self.ends[1 - from]);
        segment.data_bytes == 0
            && segment.is_plain()
            && segment.window != 0
            && sender.has_window
            && segment.window == sender.window
            && sender.next == Some(begin)
            && acknowledged.is_some()
            && acknowledged == sender.acknowledged
            // Else it answers a keep-alive.
            && !receiver.was_keep_alive
    }

    /// Converts it to the form of results, with times relative to `capture_begin_ns`.
    pub fn finish(self, capture_begin_ns: i64) -> capture::Flow {
        let known = [self.scale(1).is_some(), self.scale(0).is_some()];
        let [up, down] = self.ways;
        let seconds = |ns: i64| ns as f64 / 1e9;
        capture::Flow {
            number: self.number,
            client: self.client.to_string(),
            server: self.server.to_string(),
            begin_s: seconds(self.begin_ns - capture_begin_ns),
            elapsed_s: seconds(self.last_ns - self.begin_ns),
            has_opening: self.syn_ns.is_some() && self.syn_ack_ns.is_some(),
            opening_rtt_ms: self.opening_ns.map(|ns| ns as f64 / 1e6),
            up: up.finish(known[0]),
            down: down.finish(known[1]),
        }
    }
}
