//! Points of a network for claims and figures: one direction of data over the added round-trip time, all other parameters equal.
//!
//! A point of which every repetition is void is not here, nor is a way that nothing arrived on. Where a combination was measured twice, the first
//! counts. Paths that nobody modelled have no round-trip time that was added: their points are here with none, each alone.

use flashmob_results::disk::Spread;
use flashmob_results::net::{Direction, Messages, Net, Parameters, Point, Protocol, Repetition, Stream, TcpEnd};

use crate::entry::Entry;
use crate::stats::usable;
use crate::words;

/// What Linux lets receive buffers grow to unless told otherwise: the third value of `tcp_rmem` on most machines.
pub const SYSTEM_RECEIVE_MAX_BYTES: u64 = 6 << 20;

/// What all points of a way have in common.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// What was measured.
    pub protocol: Protocol,
    /// Which way: `up` or `down`.
    pub direction: Direction,
    /// The other way was used at the same time.
    pub both: bool,
    /// Connections or flows of datagrams.
    pub streams: u32,
    /// Congestion control, if it was chosen.
    pub congestion: Option<String>,
    /// Each stream sends no faster.
    pub rate_bits_per_second: Option<u64>,
    /// Bytes of each write or datagram.
    pub block_bytes: u32,
    /// Socket buffers that were asked for.
    pub window_bytes: Option<u64>,
    /// Size and number of messages.
    pub messages: Option<Messages>,
    /// Of 100 packets so many are lost, each way.
    pub loss_percent: f64,
    /// What the path carries.
    pub path_bits_per_second: Option<u64>,
    /// What receive buffers grow to at most in the client's host.
    pub client_receive_max_bytes: Option<u64>,
    /// The same in the server's host.
    pub server_receive_max_bytes: Option<u64>,
}

/// One point of a way.
#[derive(Clone, Copy, Debug)]
pub struct RttPoint<'a> {
    /// Round-trip time that was added; absent if nobody modelled the path.
    pub rtt_ms: Option<f64>,
    /// The point.
    pub point: &'a Point,
    /// Bits each second that arrived.
    pub rate: Spread,
}

/// One way over the round-trip time.
#[derive(Clone, Debug)]
pub struct RttSeries<'a> {
    /// Which result it is from, as a position among the entries.
    pub entry: usize,
    /// What all points have in common.
    pub setting: Setting,
    /// Sorted by round-trip time, each once.
    pub places: Vec<RttPoint<'a>>,
}

/// All ways of all results, in the order of their first points.
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

/// What arrived this way, if anything did.
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

    /// What receive buffers grow to at most where this way ends.
    pub fn receive_max_bytes(&self) -> u64 {
        let chosen = match self.direction {
            Direction::Down => self.client_receive_max_bytes,
            Direction::Up | Direction::Both => self.server_receive_max_bytes,
        };
        chosen.unwrap_or(SYSTEM_RECEIVE_MAX_BYTES)
    }

    /// Nothing but the way differs, and which host has which receive maximum.
    pub fn alike(&self, other: &Setting) -> bool {
        let bare = |s: &Setting| Setting {
            direction: Direction::Up,
            client_receive_max_bytes: None,
            server_receive_max_bytes: None,
            ..s.clone()
        };
        bare(self) == bare(other)
    }

    /// One TCP connection in one direction that sends as fast as it can: what P4 measured.
    pub fn is_one_stream(&self) -> bool {
        self.protocol == Protocol::Tcp
            && self.streams == 1
            && !self.both
            && self.rate_bits_per_second.is_none()
            && self.window_bytes.is_none()
    }

    /// Congestion control as it is called on the page.
    pub fn congestion_words(&self) -> String {
        self.congestion.as_ref().map_or_else(|| "the system's".into(), |name| words::plain(name, 24))
    }

    /// `receive maxima 32 KiB (client), 320 KiB (server)`; empty if both were left to the systems.
    pub fn maxima_words(&self) -> String {
        if self.client_receive_max_bytes.is_none() && self.server_receive_max_bytes.is_none() {
            return String::new();
        }
        let of = |bytes: Option<u64>| bytes.map_or_else(|| "the system's".to_string(), words::bytes);
        format!(
            "receive maxima {} (client), {} (server)",
            of(self.client_receive_max_bytes),
            of(self.server_receive_max_bytes)
        )
    }
}

impl<'a> RttSeries<'a> {
    /// At the least round-trip time and at the greatest, if there are several.
    pub fn ends(&self) -> Option<(RttPoint<'a>, RttPoint<'a>)> {
        let (first, last) = (self.places.first()?, self.places.last()?);
        (first.rtt_ms? < last.rtt_ms?).then_some((*first, *last))
    }

    /// At this round-trip time.
    pub fn at(&self, rtt_ms: f64) -> Option<RttPoint<'a>> {
        self.places.iter().copied().find(|p| p.rtt_ms == Some(rtt_ms))
    }

    /// The window that the receiver offered at most, all streams together, whenever it was looked at.
    pub fn window_bytes(&self, place: &RttPoint) -> Option<f64> {
        window_bytes(place.point, self.setting.direction)
    }
}

/// The same of a point.
pub fn window_bytes(point: &Point, direction: Direction) -> Option<f64> {
    let of_stream = |s: &Stream| {
        let sent = s.sender.as_ref().map_or(0, |end| end.send_window_max_bytes);
        let offered = s.receiver.as_ref().map_or(0, |end| end.receive_window_bytes);
        // What the sender saw holds it back; what the receiver says stands in where the sender's end says nothing.
        Some(if sent > 0 { sent } else { offered }).filter(|bytes| *bytes > 0).map(|bytes| bytes as f64)
    };
    let of_repetition = |r: &Repetition| -> Option<f64> {
        let mut streams = r.streams.iter().filter(|s| s.direction == direction).peekable();
        streams.peek()?;
        streams.map(of_stream).sum()
    };
    valid(point).filter_map(of_repetition).reduce(f64::max)
}

/// What the senders' TCP says at the end, this way or both: median over the repetitions of the mean over the streams. Zero is what a kernel does not say.
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

/// What a window lets through each second at a round-trip time; absent where there is none to wait for.
pub fn bound_bits_per_second(window_bytes: f64, rtt_ms: f64) -> Option<f64> {
    (rtt_ms > 0.0).then(|| window_bytes * 8.0 * 1_000.0 / rtt_ms).filter(|bound| bound.is_finite())
}

/// Bits each second of the repetitions that count.
pub fn rates(point: &Point, direction: Direction) -> Vec<f64> {
    let flows = valid(point).filter_map(|r| r.flows.iter().find(|f| f.direction == direction));
    flows.map(|f| f.received_bits_per_second).filter(|v| v.is_finite()).collect()
}
