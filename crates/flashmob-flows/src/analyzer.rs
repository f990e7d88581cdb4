//! All connections of a capture.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;

use flashmob_results::capture::Flow;

use crate::connection::Connection;
use crate::limits::Limits;
use crate::packet::{self, LinkType, Packet, Segment};
use crate::reader::Frame;

/// This part of all connections is found at once when room is wanted.
const SILENT_PART: usize = 16;

/// What was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// What packets begin with.
    pub link_types: Vec<String>,
    /// Packets.
    pub packets: u64,
    /// Packets of TCP.
    pub tcp_packets: u64,
    /// Packets that could not be understood.
    pub unreadable_packets: u64,
    /// When the first was captured, in nanoseconds since 1970; 0 if there was none.
    pub begin_ns: i64,
    /// Between the earliest and the latest.
    pub elapsed_ns: i64,
    /// Connections that are not in `flows`.
    pub left_out: u64,
    /// Connections, those with most bytes first.
    pub flows: Vec<Flow>,
}

/// Takes packets in the order in which they were captured.
#[derive(Debug, Default)]
pub struct Analyzer {
    limits: Limits,
    port: Option<u16>,
    /// Connections by their ends, the lesser first.
    open: HashMap<(SocketAddr, SocketAddr), Connection>,
    /// Of those the ones that were silent for the longest when that was last looked at, as they were then; the most silent is the last.
    silent: Vec<(i64, u64, (SocketAddr, SocketAddr))>,
    /// Those that are over, by bytes; at most as many as are told.
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
    /// Nothing yet.
    #[must_use]
    pub fn new(limits: Limits) -> Analyzer {
        Analyzer { limits, ..Analyzer::default() }
    }

    /// From here on TCP packets that go neither from nor to `port` are left out.
    pub fn only_port(&mut self, port: Option<u16>) {
        self.port = port;
    }

    /// Packets so far.
    #[must_use]
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Takes a packet.
    pub fn take(&mut self, frame: &Frame<'_>) {
        // A packet without a time counts with the one before it.
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
        // Distances from the first packet: no sum of them comes near to what 64 bits hold.
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

    /// Makes room. To look through all for each new one would take most of the time where there are many more than are kept.
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
            // One that was heard of meanwhile is not silent any more.
            if self.open.get(&key).is_some_and(|c| (c.last_ns, c.number) == (last_ns, number))
                && let Some(connection) = self.open.remove(&key)
            {
                return self.close(connection);
            }
        }
    }

    /// A connection is over: it is told if it has more bytes than others.
    fn close(&mut self, connection: Connection) {
        let bytes = connection.bytes();
        if self.over.len() >= self.limits.flows_told {
            self.left_out += 1;
            // Of equal ones the earlier stays.
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

    /// What was found.
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
