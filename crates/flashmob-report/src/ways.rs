//! Points of a network for claims and figures: one direction of data over the added round-trip time, all other parameters equal.
//!
//! Points with only void repetitions are left out, as are directions in which nothing arrived. Of a combination that was measured twice, the first
//! counts. Unmodelled paths have no added round-trip time: each of their points is a series of its own.

use flashmob_results::disk::Spread;
use flashmob_results::net::{Direction, Messages, Net, Parameters, Point, Protocol, Repetition, Stream, TcpEnd};

use crate::entry::Entry;
use crate::stats::usable;
use crate::words;

/// Linux's default maximum of a receive buffer: the third value of `tcp_rmem` on most machines.
pub const SYSTEM_RECEIVE_MAX_BYTES: u64 = 6 << 20;

/// The parameters that all points of a series share.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    pub protocol: Protocol,
    /// `up` or `down`.
    pub direction: Direction,
    /// Both directions carried data at the same time.
    pub both: bool,
    pub streams: u32,
    /// `None`: the system's own.
    pub congestion: Option<String>,
    /// Limit of each stream.
    pub rate_bits_per_second: Option<u64>,
    /// Size of each write or datagram.
    pub block_bytes: u32,
    /// Requested size of the socket buffers.
    pub window_bytes: Option<u64>,
    pub messages: Option<Messages>,
    /// In each direction.
    pub loss_percent: f64,
    pub path_bits_per_second: Option<u64>,
    /// Maximum of receive buffers on the client's host; `None`: the system's default.
    pub client_receive_max_bytes: Option<u64>,
    pub server_receive_max_bytes: Option<u64>,
}

/// One point of a series.
#[derive(Clone, Copy, Debug)]
pub struct RttPoint<'a> {
    /// Added round-trip time; `None` without a modelled path.
    pub rtt_ms: Option<f64>,
    pub point: &'a Point,
    /// Received bits per second.
    pub rate: Spread,
}

/// One direction over the round-trip time.
#[derive(Clone, Debug)]
pub struct RttSeries<'a> {
    /// Index of its result among the entries.
    pub entry: usize,
    pub setting: Setting,
    /// Sorted by round-trip time, without duplicates.
    pub places: Vec<RttPoint<'a>>,
}

/// All series of all results, in the order of their first points.
pub fn all(entries: &[Entry]) -> Vec<RttSeries<'_>> {
    entries.iter().enumerate().filter_map(|(at, e)| Some(of(at, e.net()?))).flatten().collect()
}

fn of(entry: usize, net: &Net) -> Vec<RttSeries<'_>> {
    let mut ways: Vec<RttSeries> = Vec::new();
    for point in net.points.iter().filter(|p| valid(p).next().is_some()) {
        for direction in [Direction::Up, Direction::Down] {
            let Some(rate) = rate(point, direction) else { continue };
            let setting = Setting::of(&point.parameters, direction);
            let rtt_ms = point.parameters.path.as_ref().map(|path| path.rtt_ms);
            if rtt_ms.is_some_and(|ms| !ms.is_finite() || ms < 0.0) {
                continue;
            }
            let place = RttPoint { rtt_ms, point, rate };
            match ways.iter_mut().find(|w| w.setting == setting) {
                Some(way) if way.places.iter().any(|p| p.rtt_ms == rtt_ms) => {}
                Some(way) => way.places.push(place),
                None => ways.push(RttSeries { entry, setting, places: vec![place] }),
            }
        }
    }
    for way in &mut ways {
        way.places.sort_by(|a, b| a.rtt_ms.unwrap_or(-1.0).total_cmp(&b.rtt_ms.unwrap_or(-1.0)));
    }
    ways
}

/// The repetitions that are not void.
pub fn valid(point: &Point) -> impl Iterator<Item = &Repetition> {
    point.repetitions.iter().filter(|r| !r.is_void)
}

/// The received rate in this direction, if it is usable.
pub fn rate(point: &Point, direction: Direction) -> Option<Spread> {
    let spread = match direction {
        Direction::Up => point.summary.up_bits_per_second,
        Direction::Down => point.summary.down_bits_per_second,
        Direction::Both => None,
    };
    spread.filter(usable)
}

impl Setting {
    fn of(p: &Parameters, direction: Direction) -> Setting {
        Setting {
            protocol: p.protocol,
            direction,
            both: p.direction == Direction::Both,
            streams: p.streams,
            congestion: p.congestion.clone(),
            rate_bits_per_second: p.rate_bits_per_second,
            block_bytes: p.block_bytes,
            window_bytes: p.window_bytes,
            messages: p.messages,
            loss_percent: p.path.as_ref().map_or(0.0, |path| path.loss_percent),
            path_bits_per_second: p.path.as_ref().and_then(|path| path.rate_bits_per_second),
            client_receive_max_bytes: p.client_receive_max_bytes,
            server_receive_max_bytes: p.server_receive_max_bytes,
        }
    }

    /// Maximum of receive buffers at the receiving end.
    pub fn receive_max_bytes(&self) -> u64 {
        let chosen = match self.direction {
            Direction::Down => self.client_receive_max_bytes,
            Direction::Up | Direction::Both => self.server_receive_max_bytes,
        };
        chosen.unwrap_or(SYSTEM_RECEIVE_MAX_BYTES)
    }

    /// Equal but for the direction and the receive maxima.
    pub fn alike(&self, other: &Setting) -> bool {
        let bare = |s: &Setting| Setting {
            direction: Direction::Up,
            client_receive_max_bytes: None,
            server_receive_max_bytes: None,
            ..s.clone()
        };
        bare(self) == bare(other)
    }

    /// One TCP connection in one direction at full speed, as P4 measured.
    pub fn is_one_stream(&self) -> bool {
        self.protocol == Protocol::Tcp
            && self.streams == 1
            && !self.both
            && self.rate_bits_per_second.is_none()
            && self.window_bytes.is_none()
    }

    /// One TCP connection at full speed, or one stream of datagrams, in one direction.
    pub fn is_plain_load(&self) -> bool {
        let is_datagrams = self.protocol == Protocol::Udp && self.streams == 1 && !self.both;
        self.is_one_stream() || is_datagrams
    }

    /// Receive maxima of client and server, if both were set.
    pub fn receive_maxima(&self) -> Option<(u64, u64)> {
        self.client_receive_max_bytes.zip(self.server_receive_max_bytes)
    }

    /// The congestion control's name on the page.
    pub fn congestion_words(&self) -> String {
        self.congestion.as_ref().map_or_else(|| "the system's".into(), |name| words::plain(name, 24))
    }

    /// `receive maxima 32 KiB (client), 320 KiB (server)`; empty if neither was set.
    pub fn maxima_words(&self) -> String {
        if self.client_receive_max_bytes.is_none() && self.server_receive_max_bytes.is_none() {
            return String::new();
        }
        let [client, server] = [self.client_receive_max_bytes, self.server_receive_max_bytes].map(words::receive_max);
        format!("receive maxima {client} (client), {server} (server)")
    }
}

impl<'a> RttSeries<'a> {
    /// The points with the lowest and the highest round-trip time, if these differ.
    pub fn ends(&self) -> Option<(RttPoint<'a>, RttPoint<'a>)> {
        let (first, last) = (self.places.first()?, self.places.last()?);
        (first.rtt_ms? < last.rtt_ms?).then_some((*first, *last))
    }

    pub fn at(&self, rtt_ms: f64) -> Option<RttPoint<'a>> {
        self.places.iter().copied().find(|p| p.rtt_ms == Some(rtt_ms))
    }

    /// The largest window that the receiver offered at any sample, summed over all streams.
    pub fn window_bytes(&self, place: &RttPoint) -> Option<f64> {
        window_bytes(place.point, self.setting.direction)
    }
}

/// The largest window that the receiver offered at any sample, summed over all streams.
pub fn window_bytes(point: &Point, direction: Direction) -> Option<f64> {
    let of_stream = |s: &Stream| {
        let sent = s.sender.as_ref().map_or(0, |end| end.send_window_max_bytes);
        let offered = s.receiver.as_ref().map_or(0, |end| end.receive_window_bytes);
        // The window that the sender saw is what limits it; the receiver's own is the fallback.
        Some(if sent > 0 { sent } else { offered }).filter(|bytes| *bytes > 0).map(|bytes| bytes as f64)
    };
    let of_repetition = |r: &Repetition| -> Option<f64> {
        let mut streams = r.streams.iter().filter(|s| s.direction == direction).peekable();
        streams.peek()?;
        streams.map(of_stream).sum()
    };
    valid(point).filter_map(of_repetition).reduce(f64::max)
}

/// A value of the senders' TCP at the end, in one direction or both: the median over the repetitions of the mean over the streams. Zero means unknown.
pub fn at_senders(point: &Point, direction: Option<Direction>, of: impl Fn(&TcpEnd) -> f64) -> Option<f64> {
    let of_repetition = |r: &Repetition| {
        let streams = r.streams.iter().filter(|s| direction.is_none_or(|way| s.direction == way));
        let values = streams.filter_map(|s| s.sender.as_ref()).map(&of).filter(|v| v.is_finite() && *v > 0.0);
        let values: Vec<f64> = values.collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    };
    let values: Vec<f64> = valid(point).filter_map(of_repetition).collect();
    (!values.is_empty()).then(|| Spread::of(values).median)
}

/// The round-trip time that the senders' TCP measured, in milliseconds.
pub fn measured_rtt_ms(point: &Point, direction: Direction) -> Option<f64> {
    at_senders(point, Some(direction), |end| end.rtt_ms)
}

/// Window / RTT in bits per second; `None` for a round-trip time of 0.
pub fn bound_bits_per_second(window_bytes: f64, rtt_ms: f64) -> Option<f64> {
    (rtt_ms > 0.0).then(|| window_bytes * 8.0 * 1_000.0 / rtt_ms).filter(|bound| bound.is_finite())
}

/// Received bits per second of each valid repetition.
pub fn rates(point: &Point, direction: Direction) -> Vec<f64> {
    let flows = valid(point).filter_map(|r| r.flows.iter().find(|f| f.direction == direction));
    flows.map(|f| f.received_bits_per_second).filter(|v| v.is_finite()).collect()
}
