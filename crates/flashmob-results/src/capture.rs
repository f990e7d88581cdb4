//! TCP connections in captured packets: results of `flashmob net analyze`.
//!
//! A connection has two directions; each is judged by its sender's packets and by the answers. Everything is as seen where the packets were
//! captured: near the sender, acknowledgements show round-trip times; near the receiver they show how long the receiver waits.

use serde::{Deserialize, Serialize};

/// One capture.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Capture {
    /// The file, or the interface that was listened to.
    pub source: String,
    /// `pcap` or `pcapng`.
    pub form: String,
    /// What each packet begins with, such as `ethernet` or `linux_sll2`.
    pub link_types: Vec<String>,
    /// Packets in it.
    pub packets: u64,
    /// Packets of TCP.
    pub tcp_packets: u64,
    /// Packets that could not be understood: cut off before their TCP header's end, broken, or of link types unknown here.
    pub unreadable_packets: u64,
    /// Packets that the capturing program said it had lost; absent if it does not say.
    pub lost_packets: Option<u64>,
    /// When the first packet was captured: seconds since 1970-01-01 UTC.
    pub begun_unix_s: f64,
    /// From the first packet to the last.
    pub elapsed_s: f64,
    /// Why the rest of the file could not be read, if so; what came before counts.
    pub ended_by: Option<String>,
    /// Connections that were left out: more than were asked for, or more than are kept at once. The ones with most bytes are here.
    pub left_out: u64,
    /// Connections, those with most bytes first.
    pub flows: Vec<Flow>,
}

/// One TCP connection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Flow {
    /// Its number in the capture, from 0 in the order of their first packets: Wireshark's `tcp.stream` where nothing was left out.
    pub number: u64,
    /// Address and port of the end that opened it, or sent the first packet.
    pub client: String,
    /// The other end.
    pub server: String,
    /// Its first packet, in seconds after the capture's.
    pub begin_s: f64,
    /// From its first packet to its last.
    pub elapsed_s: f64,
    /// Its opening was captured, so that windows are known in full.
    pub has_opening: bool,
    /// The round trip of its opening; absent if that was not captured.
    pub opening_rtt_ms: Option<f64>,
    /// Data from client to server.
    pub up: Way,
    /// Data from server to client.
    pub down: Way,
}

/// One way of a connection.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Way {
    /// Packets, pure acknowledgements included.
    pub packets: u64,
    /// Packets with data.
    pub data_packets: u64,
    /// Bytes of data, those sent again included.
    pub bytes: u64,
    /// Bytes of data, each once.
    pub unique_bytes: u64,
    /// Those each second, from the way's first data to its last acknowledgement.
    pub bits_per_second: f64,
    /// Largest packet's bytes of data.
    pub largest_packet_bytes: u32,
    /// Mean bytes of data of a packet with data.
    pub packet_bytes: f64,
    /// Packets with data that look sent again, by Wireshark's definitions (`tcp.analysis.retransmission`).
    pub retransmissions: u64,
    /// Packets with data that came after later ones, by Wireshark's definitions (`tcp.analysis.out_of_order`): many of them were sent again
    /// all the same.
    pub out_of_order: u64,
    /// Packets with data that were sent again: their bytes had been captured before, or they fill a gap older than half a round trip.
    pub resent: u64,
    /// Acknowledgements of this way's data that repeat an earlier one with the same window (`tcp.analysis.duplicate_ack`).
    pub duplicate_acknowledgements: u64,
    /// Pure acknowledgements of this way's data.
    pub acknowledgements: u64,
    /// Packets of data for each acknowledgement that acknowledged something new.
    pub segments_per_acknowledgement: f64,
    /// How often the receiver of this way offered a window of nothing.
    pub zero_windows: u64,
    /// Packets with data that went exactly to the end of the offered window (`tcp.analysis.window_full`).
    pub full_windows: u64,
    /// The least time from where it was captured to the sender and back: next to nothing near the sender. Absent if nothing shows it.
    pub sender_rtt_ms: Option<f64>,
    /// From data to its acknowledgement as captured, in milliseconds; data that was sent again does not count.
    pub rtt_ms: Option<Quantiles>,
    /// Bytes under way at each data packet as its sender saw it, wherever it was captured.
    pub flight_bytes: Option<Quantiles>,
    /// Window that the receiver offered, at each of its packets.
    pub window_bytes: Option<Quantiles>,
    /// The limiting factor; absent if too little was sent to tell, or only one direction was captured.
    pub verdict: Option<Verdict>,
    /// Course over time, thinned where there is much data.
    pub series: Series,
}

/// Statistics of a number of values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Quantiles {
    /// How many.
    pub count: u64,
    /// Minimum.
    pub min: f64,
    /// Median.
    pub median: f64,
    /// Mean.
    pub mean: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Maximum.
    pub max: f64,
}

/// The limiting factor of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The receiver's window: its buffer is too small for the path, or its program too slow.
    ReceiverLimited,
    /// The sender's own buffer: bytes in flight stayed below the window and below what the network carries.
    SenderLimited,
    /// The network: loss, or a full path.
    CongestionLimited,
    /// The sending program had nothing to send.
    ApplicationLimited,
}

/// A judgement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Verdict {
    /// The limiting factor for most of the time.
    pub cause: Cause,
    /// Fraction of the time in which it was.
    pub fraction: f64,
    /// Evidence with figures, one sentence each.
    pub evidence: Vec<String>,
    /// Remedy, in one sentence.
    pub remedy: String,
}

/// How a way went: pairs, each series at most some thousand. Times are in seconds after the connection's first packet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Series {
    /// Time, and packets with data until then.
    pub packets: Vec<(f64, f64)>,
    /// Time, and bytes under way.
    pub flight_bytes: Vec<(f64, f64)>,
    /// Bytes since the way's begin, and the round trip in milliseconds of what ends there.
    pub rtt_ms: Vec<(f64, f64)>,
    /// Time, and the window that the receiver offered.
    pub window_bytes: Vec<(f64, f64)>,
}
