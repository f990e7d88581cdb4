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
    /// Packets that were not analyzed, by what they are; those of most packets first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_analyzed: Vec<NotAnalyzed>,
    /// Premises that the capture as a whole breaks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<Doubt>,
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
    /// Premises of this connection's figures that the capture breaks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<Doubt>,
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
    /// Bytes of data that were acknowledged and never captured: the capture lost their packets.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub missing_bytes: u64,
    /// Packets that were captured more than once; only the first of each is analyzed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub copies: u64,
    /// Premises of this way's figures that the capture breaks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<Doubt>,
    /// The limiting factor; absent if too little was sent to tell, or only one direction was captured.
    pub verdict: Option<Verdict>,
    /// Course over time, thinned where there is much data.
    pub series: Series,
}

/// Packets that were not analyzed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct NotAnalyzed {
    /// Protocol, link type, or damage of these packets.
    pub what: String,
    /// How many.
    pub packets: u64,
    /// Number of the first in the capture, from 1.
    pub first_packet: u64,
    /// Whether these packets count as unreadable: TCP may be among them.
    pub is_unreadable: bool,
}

/// A condition that figures rest on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Premise {
    /// The clock of the capture never steps.
    Clock,
    /// Every packet that passed was captured.
    Complete,
    /// Every packet was captured once.
    Once,
    /// The handshake was captured: without it, the scale of windows is unknown.
    Handshake,
    /// Packets of both directions were captured.
    BothDirections,
    /// All packets between two ports belong to one connection: there is no second SYN-ACK with another number.
    OneConnection,
    /// Every packet could be read.
    Readable,
}

impl Premise {
    /// Fields of a [`Way`] that rest on it.
    #[must_use]
    pub fn figures(self) -> &'static [&'static str] {
        match self {
            Premise::Clock => &[
                "bits_per_second",
                "retransmissions",
                "out_of_order",
                "resent",
                "sender_rtt_ms",
                "rtt_ms",
                "verdict",
                "series",
            ],
            Premise::Complete => &[
                "packets",
                "data_packets",
                "bytes",
                "unique_bytes",
                "bits_per_second",
                "retransmissions",
                "out_of_order",
                "resent",
                "duplicate_acknowledgements",
                "acknowledgements",
                "segments_per_acknowledgement",
                "zero_windows",
                "full_windows",
                "flight_bytes",
                "verdict",
                "series",
            ],
            Premise::Once => {
                &["retransmissions", "resent", "duplicate_acknowledgements", "sender_rtt_ms", "rtt_ms", "verdict"]
            }
            Premise::Handshake => &["window_bytes", "full_windows", "verdict"],
            Premise::BothDirections => &["rtt_ms", "flight_bytes", "segments_per_acknowledgement", "verdict"],
            Premise::OneConnection => &["window_bytes", "full_windows", "flight_bytes", "verdict"],
            Premise::Readable => &[],
        }
    }

    /// Fields of a [`Flow`] that rest on it.
    #[must_use]
    pub fn flow_figures(self) -> &'static [&'static str] {
        match self {
            Premise::Clock => &["begin_s", "elapsed_s", "opening_rtt_ms"],
            Premise::OneConnection => &["opening_rtt_ms"],
            _ => &[],
        }
    }
}

/// A premise that the capture breaks: figures that rest on it are doubtful.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Doubt {
    /// The premise.
    pub premise: Premise,
    /// Number of the first packet that breaks it, from 1 as in Wireshark; absent if no single packet does.
    pub packet: Option<u64>,
    /// How many packets break it; 0 if no single packet does.
    pub count: u64,
    /// Fields beside this list that rest on it.
    pub figures: Vec<String>,
    /// Finding, as a sentence.
    pub message: String,
}

impl Flow {
    /// True if a field of this name is doubtful.
    #[must_use]
    pub fn is_doubtful(&self, figure: &str) -> bool {
        self.doubts.iter().any(|doubt| doubt.figures.iter().any(|name| name == figure))
    }
}

impl Way {
    /// True if a field of this name is doubtful: a premise of it is broken, or it cannot be (an analysis of an older version may have
    /// saved a negative round trip).
    #[must_use]
    pub fn is_doubtful(&self, figure: &str) -> bool {
        let cannot_be = self.rtt_ms.is_some_and(|rtt| rtt.min < 0.0) && Premise::Clock.figures().contains(&figure);
        cannot_be || self.doubts.iter().any(|doubt| doubt.figures.iter().any(|name| name == figure))
    }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_that_may_be_doubtful_is_a_field() {
        let doubt = Doubt {
            premise: Premise::Clock,
            packet: Some(3),
            count: 1,
            figures: vec!["rtt_ms".into()],
            message: "The clock stepped.".into(),
        };
        let way = Way { missing_bytes: 1, copies: 1, doubts: vec![doubt], ..Way::default() };
        assert!(way.is_doubtful("rtt_ms") && !way.is_doubtful("bytes"));
        let fields = serde_json::to_value(&way).unwrap();
        for premise in [
            Premise::Clock,
            Premise::Complete,
            Premise::Once,
            Premise::Handshake,
            Premise::BothDirections,
            Premise::OneConnection,
            Premise::Readable,
        ] {
            for name in premise.figures() {
                assert!(fields.get(name).is_some(), "{premise:?}: {name}");
            }
        }
    }

    #[test]
    fn a_round_trip_that_cannot_be_is_doubtful_whoever_saved_it() {
        let saved = |min| Way { rtt_ms: Some(Quantiles { min, ..Quantiles::default() }), ..Way::default() };
        assert!(saved(-480.0).is_doubtful("rtt_ms") && saved(-480.0).is_doubtful("bits_per_second"));
        assert!(!saved(0.0).is_doubtful("rtt_ms") && !saved(-480.0).is_doubtful("bytes"));
    }
}
