//! Measurements between two devices: by `flashmob bench net` over a real network or in the lab.

use serde::{Deserialize, Serialize};

use crate::cluster::{Lateness, Setting};
use crate::disk::Spread;
use crate::latency::Latency;
use crate::warning::Warning;

/// A client, a server, and what went between them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Net {
    /// What was real of it: `network`, or `lab` if the path was modelled.
    pub setting: Setting,
    /// The server as the user named it, with its port.
    pub server: String,
    /// One for each combination of parameters, in the order in which they were measured first.
    pub points: Vec<Point>,
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// As much as TCP moves.
    Tcp,
    /// Datagrams at a rate.
    Udp,
    /// Requests and answers over TCP, a fixed number of them outstanding on each stream.
    Messages,
}

/// Which way data goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// From the client to the server.
    Up,
    /// From the server to the client.
    Down,
    /// Both at once, each with all streams.
    Both,
}

impl std::fmt::Display for Direction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Direction::Up => "up",
            Direction::Down => "down",
            Direction::Both => "both",
        })
    }
}

/// One combination of what can be chosen. What is `null` was left to the system.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Parameters {
    /// What is measured.
    pub protocol: Protocol,
    /// Which way; of messages always `up`, as it is the client that asks.
    pub direction: Direction,
    /// Connections or flows of datagrams at once, each way.
    pub streams: u32,
    /// Congestion control of each socket.
    pub congestion: Option<String>,
    /// Each stream sends no faster.
    pub rate_bits_per_second: Option<u64>,
    /// Bytes of each write, or of each datagram.
    pub block_bytes: u32,
    /// Socket buffers that were asked for, at both ends and for both ways (iperf3's `-w`).
    pub window_bytes: Option<u64>,
    /// Size and number of messages, if that is what was measured.
    pub messages: Option<Messages>,
    /// The modelled path; absent on a real network.
    pub path: Option<Path>,
    /// What receive buffers grow to at most in the client's host (the third value of its `tcp_rmem`), if it was set for this.
    pub client_receive_max_bytes: Option<u64>,
    /// The same in the server's host.
    pub server_receive_max_bytes: Option<u64>,
}

/// Requests and their answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Messages {
    /// Bytes of a request.
    pub request_bytes: u32,
    /// Bytes of an answer.
    pub answer_bytes: u32,
    /// Requests outstanding on each stream.
    pub depth: u32,
}

/// A modelled path between two hosts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Path {
    /// The air as the lab names it, such as `wan,rate=11Mbit,delay=8ms`.
    pub air: String,
    /// Round-trip time that was added: twice the delay of each way.
    pub rtt_ms: f64,
    /// Packet loss each way, in percent.
    pub loss_percent: f64,
    /// What the path carries each way.
    pub rate_bits_per_second: Option<u64>,
}

/// What was measured with one combination of parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Point {
    /// The combination.
    pub parameters: Parameters,
    /// In the order in which they were made, void ones included.
    pub repetitions: Vec<Repetition>,
    /// Those that count, together.
    pub summary: Summary,
    /// Warnings about this point.
    pub warnings: Vec<Warning>,
}

/// One run with one combination of parameters. Counts are of the measured time alone: what was omitted at its beginning is not in them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Repetition {
    /// Begin, in seconds after the document's.
    pub begin_s: f64,
    /// Measured time.
    pub elapsed_s: f64,
    /// What the other end is: `flashmob 0.1.0` or `iperf3`.
    pub peer: String,
    /// All streams of one way together; one, or two if both were measured at once.
    pub flows: Vec<Flow>,
    /// Every stream.
    pub streams: Vec<Stream>,
    /// How it went from second to second, stream by stream, as this end saw it.
    pub intervals: Vec<Interval>,
    /// Requests and answers, if that is what was measured.
    pub exchange: Option<Exchange>,
    /// Processor time of this end.
    pub cpu_s: f64,
    /// Processor time of the other end; absent if it does not say.
    pub peer_cpu_s: Option<f64>,
    /// Lateness of the lab; absent elsewhere.
    pub lateness: Option<Lateness>,
    /// It does not count: the lab was late, or the repetition was stopped early.
    pub is_void: bool,
}

/// All streams of one way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Flow {
    /// `up` or `down`.
    pub direction: Direction,
    /// Bytes that the sender gave to its system.
    pub sent_bytes: u64,
    /// Bytes that the receiver got.
    pub received_bytes: u64,
    /// Bits each second, of what was sent.
    pub sent_bits_per_second: f64,
    /// Bits each second, of what was received.
    pub received_bits_per_second: f64,
    /// Packets that TCP sent again; absent for datagrams, or if the sender does not say.
    pub retransmissions: Option<u64>,
    /// Datagrams.
    pub udp: Option<Udp>,
}

/// Counts of datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Udp {
    /// Sent.
    pub sent: u64,
    /// Lost, as far as the receiver can tell.
    pub lost: u64,
    /// Arrived after a later one.
    pub out_of_order: u64,
    /// Smoothed difference of transit times (RFC 3550, section 6.4.1), mean over the streams.
    pub jitter_ms: f64,
}

impl Udp {
    /// Fraction that was lost; 0 if nothing was sent.
    #[must_use]
    pub fn lost_fraction(&self) -> f64 {
        if self.sent == 0 { 0.0 } else { self.lost as f64 / self.sent as f64 }
    }
}

/// One connection, or one flow of datagrams.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Stream {
    /// Its number in this repetition, from 1.
    pub id: u32,
    /// `up` or `down`.
    pub direction: Direction,
    /// Bytes that the sender gave to its system.
    pub sent_bytes: u64,
    /// Bytes that the receiver got.
    pub received_bytes: u64,
    /// TCP at the sender, at the end; absent for datagrams, or if that end does not say.
    pub sender: Option<TcpEnd>,
    /// TCP at the receiver, at the end.
    pub receiver: Option<TcpEnd>,
    /// Datagrams.
    pub udp: Option<Udp>,
}

/// What TCP_INFO says at one end. Counts are since the measured time began; what a kernel does not say is zero.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TcpEnd {
    /// Congestion control.
    pub congestion: Option<String>,
    /// Packets sent again.
    pub retransmissions: u64,
    /// Congestion window.
    pub congestion_window_bytes: u64,
    /// Smoothed round-trip time.
    pub rtt_ms: f64,
    /// Its mean deviation.
    pub rtt_variation_ms: f64,
    /// The least that the kernel remembers.
    pub min_rtt_ms: f64,
    /// How fast data arrived, as the kernel estimated last.
    pub delivery_rate_bits_per_second: f64,
    /// Window that the other end offered.
    pub send_window_bytes: u64,
    /// The largest that it offered whenever it was looked at.
    pub send_window_max_bytes: u64,
    /// Window that this end offered; zero before Linux 6.2.
    pub receive_window_bytes: u64,
    /// What this end's receive buffer is, as the kernel counts it.
    pub receive_buffer_bytes: u64,
    /// What this end's send buffer is, as the kernel counts it.
    pub send_buffer_bytes: u64,
    /// Packets sent, pure acknowledgements included.
    pub packets_sent: u64,
    /// Packets that came, pure acknowledgements included.
    pub packets_received: u64,
    /// Mean bytes of data in a packet that carried some, both ways together; zero if none did.
    pub packet_bytes: f64,
    /// How long something was under way.
    pub busy_s: f64,
    /// How long of it the other end's window held it back.
    pub receiver_limited_s: f64,
    /// How long of it the send buffer held it back.
    pub send_buffer_limited_s: f64,
}

/// One stream during one interval, as this end saw it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Interval {
    /// Which stream.
    pub stream: u32,
    /// `up` or `down`.
    pub direction: Direction,
    /// Begin, in seconds after the repetition's.
    pub begin_s: f64,
    /// End.
    pub end_s: f64,
    /// Bytes that this end sent, or received, in it.
    pub bytes: u64,
    /// The same as bits each second.
    pub bits_per_second: f64,
    /// In the time that is omitted.
    pub omitted: bool,
    /// TCP at its end; counts are of this interval.
    pub tcp: Option<TcpEnd>,
    /// Datagrams; of a sender only how many.
    pub udp: Option<Udp>,
}

/// Requests and answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Exchange {
    /// Requests that were answered.
    pub requests: u64,
    /// Requests per second.
    pub requests_per_second: f64,
    /// From a request's write to its answer's last byte, in nanoseconds.
    pub latency_ns: Latency,
}

/// All repetitions of a point that count.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Summary {
    /// How many there are.
    pub repetitions: u32,
    /// Bits per second that arrived at the server: median, minimum and maximum.
    pub up_bits_per_second: Option<Spread>,
    /// Bits each second that arrived at the client.
    pub down_bits_per_second: Option<Spread>,
    /// Packets that TCP sent again, both ways together.
    pub retransmissions: Option<Spread>,
    /// Fraction of the datagrams that were lost, both ways together.
    pub lost_fraction: Option<Spread>,
    /// Jitter of the datagrams, mean over both ways.
    pub jitter_ms: Option<Spread>,
    /// Requests that were answered each second.
    pub requests_per_second: Option<Spread>,
    /// Of all their requests together, in nanoseconds.
    pub latency_ns: Option<Latency>,
}

impl Point {
    /// A point of these repetitions; void ones count only if there are no others.
    #[must_use]
    pub fn new(parameters: Parameters, repetitions: Vec<Repetition>) -> Point {
        let valid: Vec<&Repetition> = repetitions.iter().filter(|r| !r.is_void).collect();
        let counted: Vec<&Repetition> = if valid.is_empty() { repetitions.iter().collect() } else { valid };
        let spread = |of: &dyn Fn(&Repetition) -> Option<f64>| {
            let values: Vec<f64> = counted.iter().filter_map(|r| of(r)).filter(|v| v.is_finite()).collect();
            (!values.is_empty()).then(|| Spread::of(values))
        };
        let arrived = |direction: Direction| {
            move |r: &Repetition| r.flows.iter().find(|f| f.direction == direction).map(|f| f.received_bits_per_second)
        };
        let exchanges: Vec<&Exchange> = counted.iter().filter_map(|r| r.exchange.as_ref()).collect();
        let summary = Summary {
            repetitions: u32::try_from(counted.len()).unwrap_or(u32::MAX),
            up_bits_per_second: spread(&arrived(Direction::Up)),
            down_bits_per_second: spread(&arrived(Direction::Down)),
            retransmissions: spread(&|r| {
                let counts: Vec<u64> = r.flows.iter().filter_map(|f| f.retransmissions).collect();
                (!counts.is_empty()).then(|| counts.iter().map(|&n| n as f64).sum())
            }),
            lost_fraction: spread(&|r| {
                let all: Vec<Udp> = r.flows.iter().filter_map(|f| f.udp).collect();
                let sent: f64 = all.iter().map(|u| u.sent as f64).sum();
                (sent > 0.0).then(|| all.iter().map(|u| u.lost as f64).sum::<f64>() / sent)
            }),
            jitter_ms: spread(&|r| {
                let all: Vec<f64> = r.flows.iter().filter_map(|f| f.udp).map(|u| u.jitter_ms).collect();
                (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64)
            }),
            requests_per_second: spread(&|r| r.exchange.as_ref().map(|e| e.requests_per_second)),
            latency_ns: (!exchanges.is_empty()).then(|| Latency::merged(exchanges.iter().map(|e| &e.latency_ns))),
        };
        Point { parameters, repetitions, summary, warnings: Vec::new() }
    }
}
