//! All connections of a capture.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;

use flashmob_results::capture::Flow;

use crate::connection::Connection;
use crate::limits::Limits;
use crate::packet::{self, LinkType, Packet, Segment};
use crate::reader::Frame;

/// When space is needed, one in this many connections is selected for closing at once.
const SILENT_PART: usize = 16;

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
    unreadable_packets: u64,
    begin_ns: Option<i64>,
    first_ns: i64,
    last_ns: i64,
    now_ns: i64,
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
        if self.begin_ns.is_none() {
            (self.begin_ns, self.first_ns, self.last_ns) = (Some(now_ns), now_ns, now_ns);
        }
        self.now_ns = now_ns;
        (self.first_ns, self.last_ns) = (self.first_ns.min(now_ns), self.last_ns.max(now_ns));
        self.packets += 1;
        if self.links.len() < 64 {
            self.links.insert(frame.link);
        }
        // Relative to the first packet and clamped, so that no sum overflows 64 bits.
        let since_ns = now_ns.saturating_sub(self.begin_ns.unwrap_or(now_ns)).clamp(-(1 << 60), 1 << 60);
        match packet::read(frame, since_ns) {
            Packet::Tcp(segment) => {
                self.tcp_packets += 1;
                if self.port.is_none_or(|port| segment.from.port() == port || segment.to.port() == port) {
                    self.segment(&segment);
                }
            }
            Packet::Other => {}
            Packet::Unreadable => self.unreadable_packets += 1,
        }
    }

    fn segment(&mut self, segment: &Segment) {
        let key = if segment.from <= segment.to { (segment.from, segment.to) } else { (segment.to, segment.from) };
        if let Some(connection) = self.open.get_mut(&key) {
            if !connection.is_over_with(segment) {
                return connection.take(segment, &self.limits);
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
        connection.take(segment, &self.limits);
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

    /// The result of an analysis.
    #[must_use]
    pub fn finish(mut self) -> Summary {
        let open: Vec<Connection> = self.open.drain().map(|(_, connection)| connection).collect();
        for connection in open {
            self.close(connection);
        }
        self.over.sort_by_key(|(bytes, flow)| (Reverse(*bytes), flow.number));
        Summary {
            link_types: self.links.iter().map(|link| link.name()).collect(),
            packets: self.packets,
            tcp_packets: self.tcp_packets,
            unreadable_packets: self.unreadable_packets,
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
