//! One TCP connection: two ends, and a direction from each to the other.

use std::net::SocketAddr;

use flashmob_results::capture;

use crate::clock::Steps;
use crate::copies::Copies;
use crate::limits::Limits;
use crate::packet::Segment;
use crate::premise::{self, Broken};
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
    has_open_keep_alive: bool,
    was_probe: bool,
    copies: Copies,
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
    /// A SYN-ACK with another number than the first, until the client acknowledges one of them.
    rival: Option<Segment>,
    rivals: Broken,
    /// Steps of the clock before its last packet, and those between its packets.
    steps: u64,
    stepped: Broken,
    largest_step_ns: i64,
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
            rival: None,
            rivals: Broken::default(),
            steps: 0,
            stepped: Broken::default(),
            largest_step_ns: 0,
        }
    }

    /// Bytes of data in both directions.
    pub fn bytes(&self) -> u64 {
        self.ways[0].counts.bytes + self.ways[1].counts.bytes
    }

    /// True if this packet opens another connection between the same ports.
    pub fn is_over_with(&self, segment: &Segment) -> bool {
        if !segment.is_syn {
            return false;
        }
        let (from, to) = self.sides(segment);
        let Some(first) = self.ends[from].first_number else {
            // An end with packets but no captured SYN was open before the capture began.
            return self.ways[from].counts.packets > 0;
        };
        // A SYN-ACK that acknowledges this connection's SYN does not open another one.
        let answers = segment.is_ack
            && self.ends[to].first_number.is_none_or(|syn| segment.acknowledgement == syn.wrapping_add(1));
        first != segment.sequence && !answers
    }

    fn sides(&self, segment: &Segment) -> (usize, usize) {
        if segment.from == self.client { (0, 1) } else { (1, 0) }
    }

    /// Analyzes its next packet; `steps` are those of the capture's clock so far.
    pub fn take(&mut self, segment: &Segment, steps: &Steps, limits: &Limits) {
        let (from, _) = self.sides(segment);
        if self.steps < steps.count && self.ways.iter().any(|way| way.counts.packets > 0) {
            self.stepped.by(steps.last_packet);
            self.largest_step_ns = self.largest_step_ns.max(steps.largest_ns);
            self.ways.iter_mut().for_each(Way::stepped);
        }
        self.steps = steps.count;
        self.last_ns = self.last_ns.max(segment.time_ns);
        self.ways[from].counts.packets += 1;
        if self.ends[from].copies.is_copy(segment) {
            self.ways[from].counts.copies += 1;
            return self.ways[from].copied.by(segment.number);
        }
        let is_rival = segment.is_syn && self.ends[from].first_number.is_some_and(|first| first != segment.sequence);
        if is_rival {
            self.rivals.by(segment.number);
            self.rival = Some(*segment).filter(|_| self.ends[1 - from].acknowledged.is_none());
            return;
        }
        if let Some(rival) = self.rival.take_if(|rival| rival.from == segment.to && segment.is_ack)
            && segment.acknowledgement == rival.sequence.wrapping_add(1)
        {
            self.replace(1 - from, &rival, limits);
        }
        self.analyze(segment, limits);
    }

    /// Forgets what an end opened with, in favour of a SYN-ACK that the other end acknowledged.
    fn replace(&mut self, end: usize, syn_ack: &Segment, limits: &Limits) {
        let packets = self.ways[end].counts.packets;
        (self.ends[end], self.ways[end]) = (End::default(), Way::new(limits));
        self.ways[end].counts.packets = packets;
        self.analyze(syn_ack, limits);
    }

    fn analyze(&mut self, segment: &Segment, limits: &Limits) {
        let now_ns = segment.time_ns;
        let (from, to) = self.sides(segment);
        let since_s = (now_ns - self.begin_ns) as f64 / 1e9;
        self.opening(segment, from);

        let begin = self.ends[from].numbers.unwrap(segment.sequence);
        let end = begin + i64::from(segment.span());
        let acknowledged = segment.is_ack.then(|| self.ends[to].numbers.unwrap(segment.acknowledgement));
        let scale = self.scale(from);
        let window_bytes = i64::from(segment.window) << if segment.is_syn { 0 } else { scale.unwrap_or(0) };

        if segment.is_syn {
            self.ways[from].opened(begin + 1);
            if let Some(acknowledged) = acknowledged {
                self.ways[to].opened(acknowledged);
            }
        } else if segment.is_fin {
            self.ways[from].ended(end - 1);
        }
        // A packet without data shows that all data before its number were sent.
        let is_bare = segment.span() == 0 && segment.is_plain();

        let kind = self.kind(segment, from, begin, end);
        let is_keep_alive = self.is_keep_alive(segment, from, begin);
        if segment.window == 0 && segment.is_plain() && !kind.is_probe {
            self.ways[to].counts.zero_windows += 1;
        }
        let repeats = !is_keep_alive && self.repeats(segment, from, begin, acknowledged);
        // The answer to a keep-alive repeats the last acknowledgement as well.
        let answers = repeats && std::mem::take(&mut self.ends[to].has_open_keep_alive);
        let repeats = repeats && !answers;
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

        if is_bare {
            self.ways[from].reached(begin, now_ns);
        }

        let near = self.ends[to].next;
        let sender = &mut self.ends[from];
        if (segment.span() > 0 || is_bare) && !kind.is_probe && sender.next.is_none_or(|next| end > next) {
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
        sender.was_probe = kind.is_probe;
        // Unanswered until its receiver repeats itself, or data followed.
        sender.has_open_keep_alive = is_keep_alive || (sender.has_open_keep_alive && segment.data_bytes == 0);
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
        let (next, acknowledged) = (self.ends[from].next, self.ends[1 - from].acknowledged);
        // If the first captured packet is one, acknowledgements alone show the number that follows.
        let is_before_all =
            next == Some(begin + 1) || (acknowledged == Some(begin + 1) && next.is_none_or(|next| next <= begin + 1));
        segment.data_bytes <= 1 && segment.is_plain() && is_before_all
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
        let sender = &self.ends[from];
        segment.data_bytes == 0
            && segment.is_plain()
            && segment.window != 0
            && sender.has_window
            && segment.window == sender.window
            && sender.next == Some(begin)
            && acknowledged.is_some()
            && acknowledged == sender.acknowledged
    }

    /// Converts it to the form of results, with times relative to `capture_begin_ns`.
    pub fn finish(self, capture_begin_ns: i64) -> capture::Flow {
        let known = [self.scale(1).is_some(), self.scale(0).is_some()];
        let mut broken = Vec::new();
        if self.stepped.count > 0 {
            broken.push(premise::clock(&self.stepped, self.largest_step_ns));
        }
        if self.rivals.count > 0 {
            broken.push(premise::second_server(&self.rivals));
        }
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
            doubts: broken.iter().map(premise::of_flow).collect(),
            up: up.finish(known[0], broken.clone()),
            down: down.finish(known[1], broken),
        }
    }
}
