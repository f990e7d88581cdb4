//! One direction of a connection: its data and their acknowledgements.
//!
//! Definitions are those that Wireshark documents for `tcp.analysis`, so that counts are comparable; docs/analyzing-packets.md lists them.

pub mod known;
mod lacking;
mod round_trips;
pub mod rounds;

use flashmob_results::capture::{self, Doubt};

use self::known::Knowledge;
use self::lacking::Lacking;
use self::round_trips::RoundTrips;
use self::rounds::{Rounds, Sent};
use crate::limits::Limits;
use crate::packet::Segment;
use crate::premise::{self, Broken};
use crate::samples::Samples;
use crate::sequence::Seen;
use crate::series::Thinned;
use crate::verdict;

/// Maximum payload of a packet on Ethernet.
const ETHERNET_BYTES: u32 = 1460;

/// The classification of a packet, which depends on the connection's state.
#[derive(Clone, Copy, Debug, Default)]
pub struct Kind {
    /// A retransmission.
    pub is_retransmission: bool,
    /// Reordered.
    pub is_out_of_order: bool,
    /// A zero-window probe.
    pub is_probe: bool,
    /// Ends exactly at the end of the window.
    pub fills_window: bool,
}

/// One direction.
#[derive(Clone, Debug)]
pub struct Way {
    /// The counters; the other fields are set at the end.
    pub counts: capture::Way,
    /// Packets that were captured more than once.
    pub copied: Broken,
    /// Acknowledgements of new data.
    pub advances: u64,
    pub begin_ns: Option<i64>,
    pub end_ns: i64,
    /// Data of a full packet, if the handshake showed it.
    pub full_bytes: Option<u32>,
    /// Sequence number of its first data.
    origin: i64,
    sent_end: i64,
    acknowledged: Option<i64>,
    seen: Seen,
    lacking: Lacking,
    round_trips: RoundTrips,
    pub knowledge: Knowledge,
    pub rounds: Rounds,
    pub rtt_ms: Samples,
    /// Round trip from here to the sender, if its packets show it.
    pub behind_ms: Samples,
    pub flight_bytes: Samples,
    pub window_bytes: Samples,
    packet_series: Thinned,
    flight_series: Thinned,
    rtt_series: Thinned,
    window_series: Thinned,
}

impl Way {
    pub fn new(limits: &Limits) -> Way {
        let (samples, series) = (Samples::new(limits.samples), Thinned::new(limits.points));
        Way {
            counts: capture::Way::default(),
            copied: Broken::default(),
            advances: 0,
            begin_ns: None,
            end_ns: 0,
            full_bytes: None,
            origin: 0,
            sent_end: 0,
            acknowledged: None,
            seen: Seen::default(),
            lacking: Lacking::default(),
            round_trips: RoundTrips::default(),
            knowledge: Knowledge::default(),
            rounds: Rounds::new(limits.samples),
            rtt_ms: samples.clone(),
            behind_ms: samples.clone(),
            flight_bytes: samples.clone(),
            window_bytes: samples,
            packet_series: series.clone(),
            flight_series: series.clone(),
            rtt_series: series.clone(),
            window_series: series,
        }
    }

    /// Adds a data packet from `begin` to `end`, which includes a FIN. `since_s` is the time since the connection's begin.
    pub fn sent(&mut self, segment: &Segment, begin: i64, end: i64, kind: Kind, since_s: f64, limits: &Limits) {
        let now_ns = segment.time_ns;
        if self.begin_ns.is_none() {
            self.begin_ns = Some(now_ns);
            if !self.seen.is_open() {
                (self.origin, self.sent_end) = (begin, begin);
            }
        }
        self.end_ns = self.end_ns.max(now_ns);
        let data_end = begin + i64::from(segment.data_bytes);
        self.counts.data_packets += 1;
        self.counts.bytes += u64::from(segment.data_bytes);
        self.counts.largest_packet_bytes = self.counts.largest_packet_bytes.max(segment.data_bytes);
        self.counts.retransmissions += u64::from(kind.is_retransmission);
        self.counts.out_of_order += u64::from(kind.is_out_of_order);
        self.counts.full_windows += u64::from(kind.fills_window);
        self.packet_series.add(since_s, self.counts.data_packets as f64);

        let added = self.seen.add(begin, data_end, now_ns, limits.gaps);
        self.counts.unique_bytes += added.new_bytes;
        // Data for a gap older than half a round trip are retransmitted, for a younger one reordered.
        let half_ns = self.least_round_trip_ns() / 2;
        let is_resent = added.new_bytes == 0 || added.gap_since_ns.is_some_and(|since| now_ns - since > half_ns);
        let is_resent = is_resent && !kind.is_probe && (begin < self.sent_end);
        self.counts.resent += u64::from(is_resent);

        let (known, behind_ns) = self.knowledge.at(now_ns, segment.options.timestamps.map(|(_, echoed)| echoed));
        if let Some(behind_ns) = behind_ns.filter(|_| known.is_some_and(|known| known.acknowledged < self.sent_end)) {
            self.behind_ms.add(behind_ns as f64 / 1e6);
        }
        if kind.is_probe {
            return;
        }
        self.round_trips.sent(begin, end, now_ns, is_resent, limits.waiting_segments);
        self.rounds.sent(&Sent {
            now_ns,
            begin,
            end: data_end,
            is_resent,
            is_pushed: segment.is_pushed,
            full_bytes: self.packet_bytes().into(),
            is_short: self.is_short(segment.data_bytes),
            known,
        });
        self.sent_end = self.sent_end.max(data_end);
        // Without captured acknowledgements, the bytes in flight are unknown.
        if let Some(known) = known {
            let flight = (self.sent_end - known.acknowledged).max(0) as f64;
            self.flight_bytes.add(flight);
            self.flight_series.add(since_s, flight);
        }
    }

    /// Sets the sequence number of the first byte, which the handshake shows.
    pub fn opened(&mut self, first: i64) {
        if !self.seen.is_open() {
            (self.origin, self.sent_end) = (first, first);
            self.seen.open(first);
            self.lacking.opened();
        }
    }

    /// The clock of the capture stepped: no time spans the step.
    pub fn stepped(&mut self) {
        self.round_trips.forget();
        self.knowledge.forget_times();
    }

    /// Notes a packet without data and with number `next`: its sender sent all data before that.
    pub fn reached(&mut self, next: i64, now_ns: i64) {
        if self.seen.is_open() && next > self.sent_end {
            self.seen.reached(next, now_ns);
            self.rounds.reached(next);
            self.sent_end = next;
        }
    }

    /// Notes a FIN, which has the number `at` and no data.
    pub fn ended(&mut self, at: i64) {
        self.lacking.ended(at);
    }

    /// Premises of the figures that the capture breaks, without those of the connection.
    fn broken(&self, is_handshake_known: bool, seconds: f64) -> Vec<Doubt> {
        let mut doubts = Vec::new();
        let carries = self.counts.data_packets > 0;
        if self.counts.missing_bytes > 0 {
            doubts.push(premise::missing(&self.counts, &self.lacking.broken, seconds));
        }
        if self.counts.copies > 0 {
            doubts.push(premise::copies(self.counts.copies, &self.copied));
        }
        if carries && self.acknowledged.is_none() {
            doubts.push(premise::one_direction());
        } else if carries && !is_handshake_known {
            doubts.push(premise::no_handshake());
        }
        doubts
    }

    /// Adds an acknowledgement with its window (`None` if the scale is unknown).
    pub fn acknowledged(
        &mut self,
        segment: &Segment,
        acknowledged: i64,
        window: Option<i64>,
        since_s: f64,
        limits: &Limits,
    ) {
        let now_ns = segment.time_ns;
        let is_plain = segment.is_plain();
        if segment.data_bytes == 0 && is_plain {
            self.counts.acknowledgements += 1;
        }
        // Packets of several queues may be captured after those that answer them.
        if let Some(round_trip_ns) = self.round_trips.acknowledged(acknowledged, now_ns).filter(|ns| *ns >= 0) {
            let ms = round_trip_ns as f64 / 1e6;
            self.rtt_ms.add(ms);
            self.rtt_series.add((acknowledged - self.origin) as f64, ms);
        }
        let is_new = self.acknowledged.is_none_or(|before| acknowledged > before) && acknowledged > self.origin;
        if self.begin_ns.is_some() && is_new {
            self.advances += 1;
            self.end_ns = self.end_ns.max(now_ns);
        }
        self.acknowledged = Some(self.acknowledged.map_or(acknowledged, |before| before.max(acknowledged)));
        if segment.is_reset {
            return;
        }
        self.lacking.acknowledged(&mut self.seen, acknowledged, now_ns, segment.number);
        let stamp = segment.options.timestamps.map(|(own, _)| own);
        self.knowledge.told(now_ns, stamp, acknowledged, window, limits.unseen_acknowledgements);
        if is_plain {
            let shown = window.unwrap_or(segment.window.into()) as f64;
            self.window_bytes.add(shown);
            self.window_series.add(since_s, shown);
        }
    }

    /// Data of a full packet.
    pub fn packet_bytes(&self) -> u32 {
        self.full_bytes.unwrap_or(self.counts.largest_packet_bytes.min(ETHERNET_BYTES)).max(1)
    }

    /// True if the last packet on the wire is not full.
    fn is_short(&self, bytes: u32) -> bool {
        match self.full_bytes {
            Some(full) => !bytes.is_multiple_of(full.max(1)),
            // The segmentation of larger packets is unknown.
            None => self.counts.largest_packet_bytes <= ETHERNET_BYTES && bytes < self.counts.largest_packet_bytes,
        }
    }

    /// The minimum round trip: from here to the receiver plus from here to the sender.
    pub fn least_round_trip_ns(&self) -> i64 {
        let there_ns = self.rtt_ms.min().map_or(0, |ms| (ms * 1e6) as i64);
        there_ns + self.knowledge.distance_ns().unwrap_or(0)
    }

    /// Converts it to the form of results. `doubts` are those of the whole connection.
    pub fn finish(mut self, are_windows_known: bool, mut doubts: Vec<Doubt>) -> capture::Way {
        self.rounds.end(self.end_ns);
        self.counts.missing_bytes = self.lacking.finish(&mut self.seen);
        let seconds = self.begin_ns.map_or(0.0, |begin| (self.end_ns - begin) as f64 / 1e9);
        doubts.extend(self.broken(are_windows_known, seconds));
        doubts.retain(|_| self.counts.data_packets > 0 || self.counts.missing_bytes > 0);
        let part = |a: u64, b: u64| if b == 0 { 0.0 } else { a as f64 / b as f64 };
        capture::Way {
            bits_per_second: if seconds > 0.0 { self.counts.unique_bytes as f64 * 8.0 / seconds } else { 0.0 },
            packet_bytes: part(self.counts.bytes, self.counts.data_packets),
            sender_rtt_ms: self.knowledge.distance_ns().map(|ns| ns as f64 / 1e6),
            segments_per_acknowledgement: part(self.counts.data_packets, self.advances),
            rtt_ms: self.rtt_ms.quantiles(),
            flight_bytes: self.flight_bytes.quantiles(),
            window_bytes: self.window_bytes.quantiles(),
            verdict: verdict::judge(&self, seconds, are_windows_known),
            series: capture::Series {
                packets: self.packet_series.points(),
                flight_bytes: self.flight_series.points(),
                rtt_ms: self.rtt_series.points(),
                window_bytes: self.window_series.points(),
            },
            doubts,
            ..self.counts
        }
    }
}
