//! All connections of a capture.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::SocketAddr;

use flashmob_results::capture::{Doubt, Flow, NotAnalyzed};

use crate::clock::Clock;
use crate::connection::Connection;
use crate::limits::Limits;
use crate::packet::{self, Fragments, LinkType, NoHeader, Packet, Protocol, Reason, Segment};
use crate::premise::{self, Broken};
use crate::reader::Frame;

/// When space is needed, one in this many connections is selected for closing at once.
const SILENT_PART: usize = 16;
/// Link types in the result.
const LINKS_MAX: usize = 64;
/// Kinds of packets that are not analyzed; further protocols count as one.
const NOT_ANALYZED_MAX: usize = 32;

/// The result of an analysis.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// Link types of the packets.
    pub link_types: Vec<String>,
    /// Number of packets.
    pub packets: u64,
    /// Number of TCP packets.
    pub tcp_packets: u64,
    /// Number of packets that could not be parsed.
    pub unreadable_packets: u64,
    /// Time of the first packet in nanoseconds since 1970; 0 without packets.
    pub begin_ns: i64,
    /// From the earliest to the latest packet.
    pub elapsed_ns: i64,
    /// Packets that were not analyzed, those of most packets first.
    pub not_analyzed: Vec<NotAnalyzed>,
    /// Premises that the capture breaks.
    pub doubts: Vec<Doubt>,
    /// Number of connections that are not in `flows`.
    pub left_out: u64,
    /// The connections, those with most bytes first.
    pub flows: Vec<Flow>,
}

/// Analyzes packets in the order of their capture.
#[derive(Debug, Default)]
pub struct Analyzer {
    limits: Limits,
    port: Option<u16>,
    /// Open connections by their endpoints, the lesser one first.
    open: HashMap<(SocketAddr, SocketAddr), Connection>,
    /// The longest idle ones of these at the last scan, with their state at that time; the longest idle one is last.
    silent: Vec<(i64, u64, (SocketAddr, SocketAddr))>,
    /// Closed connections with their bytes; at most `limits.flows_told`.
    over: Vec<(u64, Flow)>,
    left_out: u64,
    next_number: u64,
    links: BTreeSet<LinkType>,
    packets: u64,
    tcp_packets: u64,
    fragments: Fragments,
    not_analyzed: BTreeMap<Unanalyzed, Broken>,
    begin_ns: Option<i64>,
    clock: Clock,
    first_ns: i64,
    last_ns: i64,
    now_ns: i64,
}

/// The kind of a packet that is not TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Unanalyzed {
    Unreadable(Reason),
    Other(Protocol),
}

impl Analyzer {
    /// An analyzer without packets.
    #[must_use]
    pub fn new(limits: Limits) -> Analyzer {
        Analyzer { limits, ..Analyzer::default() }
    }

    /// Ignores further TCP packets that are neither from nor to `port`.
    pub fn only_port(&mut self, port: Option<u16>) {
        self.port = port;
    }

    /// The number of packets so far.
    #[must_use]
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Analyzes the next packet.
    pub fn take(&mut self, frame: &Frame<'_>) {
        // A packet without a time has that of the previous one.
        let now_ns = frame.time_ns.unwrap_or(self.now_ns);
        let begin_ns = *self.begin_ns.get_or_insert(now_ns);
        self.now_ns = now_ns;
        self.packets += 1;
        let number = self.packets;
        // Relative to the first packet.
        let since_ns = self.clock.at(now_ns.saturating_sub(begin_ns), number);
        (self.first_ns, self.last_ns) = (self.first_ns.min(since_ns), self.last_ns.max(since_ns));
        if self.links.len() < LINKS_MAX {
            self.links.insert(frame.link);
        }
        match packet::read(frame, since_ns, number) {
            Packet::Tcp(segment) => self.tcp(&segment),
            Packet::Fragment(fragment) => match self.fragments.take(&fragment, since_ns, number) {
                Ok(Some(segment)) => self.tcp(&segment),
                Ok(None) => {}
                Err(NoHeader) => self.unanalyzed(Unanalyzed::Unreadable(Reason::Cut), number),
            },
            Packet::Other(protocol) => self.unanalyzed(Unanalyzed::Other(protocol), number),
            Packet::Unreadable(reason) => self.unanalyzed(Unanalyzed::Unreadable(reason), number),
        }
    }

    fn unanalyzed(&mut self, what: Unanalyzed, number: u64) {
        let is_full = self.not_analyzed.len() >= NOT_ANALYZED_MAX && !self.not_analyzed.contains_key(&what);
        let what = match what {
            Unanalyzed::Other(_) if is_full => Unanalyzed::Other(Protocol::Named("other protocols")),
            Unanalyzed::Unreadable(Reason::LinkType(_)) if is_full => {
                Unanalyzed::Unreadable(Reason::LinkType(LinkType(u32::MAX)))
            }
            what => what,
        };
        self.not_analyzed.entry(what).or_default().by(number);
    }

    fn tcp(&mut self, segment: &Segment) {
        self.tcp_packets += 1;
        if self.port.is_none_or(|port| segment.from.port() == port || segment.to.port() == port) {
            self.segment(segment);
        }
    }

    fn segment(&mut self, segment: &Segment) {
        let key = if segment.from <= segment.to { (segment.from, segment.to) } else { (segment.to, segment.from) };
        if let Some(connection) = self.open.get_mut(&key) {
            if !connection.is_over_with(segment) {
                return connection.take(segment, &self.clock.steps, &self.limits);
            }
            if let Some(connection) = self.open.remove(&key) {
                self.close(connection);
            }
        }
        if self.open.len() >= self.limits.flows_at_once.max(1) {
            self.close_most_silent();
        }
        let mut connection = Connection::new(self.next_number, segment, &self.limits);
        self.next_number += 1;
        connection.take(segment, &self.clock.steps, &self.limits);
        self.open.insert(key, connection);
    }

    /// Closes the longest idle connection. Scanning all of them for each new one would take most of the time if there are many more than the limit.
    fn close_most_silent(&mut self) {
        loop {
            let Some((last_ns, number, key)) = self.silent.pop() else {
                let mut all: Vec<_> = self.open.iter().map(|(key, c)| (c.last_ns, c.number, *key)).collect();
                all.sort_unstable_by_key(|(last_ns, number, _)| Reverse((*last_ns, *number)));
                self.silent = all.split_off(all.len() - all.len().div_ceil(SILENT_PART));
                if self.silent.is_empty() {
                    return;
                }
                continue;
            };
            // A connection with later packets is not idle any more.
            if self.open.get(&key).is_some_and(|c| (c.last_ns, c.number) == (last_ns, number))
                && let Some(connection) = self.open.remove(&key)
            {
                return self.close(connection);
            }
        }
    }

    /// Keeps a closed connection if it has more bytes than others.
    fn close(&mut self, connection: Connection) {
        let bytes = connection.bytes();
        if self.over.len() >= self.limits.flows_told {
            self.left_out += 1;
            // Of equal ones the earlier is kept.
            let least = self.over.iter().enumerate().min_by_key(|(_, (bytes, flow))| (*bytes, u64::MAX - flow.number));
            match least.map(|(at, (least, flow))| (at, *least, flow.number)) {
                Some((at, least, number)) if (least, u64::MAX - number) < (bytes, u64::MAX - connection.number) => {
                    self.over.swap_remove(at);
                }
                _ => return,
            }
        }
        self.over.push((bytes, connection.finish(0)));
    }

    /// The packets that were not analyzed, and the unreadable ones among them.
    fn told(&self) -> (Vec<NotAnalyzed>, Broken) {
        let mut unreadable = Broken::default();
        let mut told: Vec<NotAnalyzed> = (self.not_analyzed.iter())
            .map(|(what, packets)| {
                let (name, is_unreadable) = match what {
                    Unanalyzed::Other(protocol) => (protocol.name(), false),
                    Unanalyzed::Unreadable(reason) => (reason.name(), true),
                };
                let first = packets.first.unwrap_or(0);
                if is_unreadable {
                    unreadable.first = Some(unreadable.first.map_or(first, |least| least.min(first)));
                    unreadable.count += packets.count;
                }
                NotAnalyzed { what: name, packets: packets.count, first_packet: first, is_unreadable }
            })
            .collect();
        told.sort_by_key(|one| Reverse(one.packets));
        (told, unreadable)
    }

    /// The result of an analysis.
    #[must_use]
    pub fn finish(mut self) -> Summary {
        let open: Vec<Connection> = self.open.drain().map(|(_, connection)| connection).collect();
        for connection in open {
            self.close(connection);
        }
        self.over.sort_by_key(|(bytes, flow)| (Reverse(*bytes), flow.number));
        if let Some((count, first)) = std::mem::take(&mut self.fragments).lost() {
            let lost = self.not_analyzed.entry(Unanalyzed::Unreadable(Reason::Fragment)).or_default();
            *lost = Broken { first: Some(first), count };
        }
        let (not_analyzed, unreadable) = self.told();
        Summary {
            link_types: self.links.iter().map(|link| link.name()).collect(),
            packets: self.packets,
            tcp_packets: self.tcp_packets,
            unreadable_packets: unreadable.count,
            not_analyzed,
            doubts: premise::of_capture(&self.clock.steps, &unreadable),
            begin_ns: self.begin_ns.unwrap_or(0),
            elapsed_ns: self.last_ns.saturating_sub(self.first_ns),
            left_out: self.left_out,
            flows: self.over.into_iter().map(|(_, flow)| flow).collect(),
        }
    }
}

#[cfg(test)]
#[path = "analyzer_tests.rs"]
mod tests;
