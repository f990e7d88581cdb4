//! The paths of a process's links as data.

use std::os::fd::BorrowedFd;

use serde::{Deserialize, Serialize};

/// From the kernel's TCP_INFO, of the present connection, as seen from this end.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct TcpReport {
    /// Smoothed round-trip time.
    pub rtt_us: u64,
    /// Its variation.
    pub rtt_variation_us: u64,
    /// Minimum round-trip time.
    pub min_rtt_us: u64,
    /// Segments sent, acknowledgements included.
    pub segments_out: u64,
    /// Segments received, acknowledgements included.
    pub segments_in: u64,
    /// Segments sent with data in them.
    pub data_segments_out: u64,
    /// Segments received with data in them.
    pub data_segments_in: u64,
    /// Bytes of data sent, retransmitted ones included.
    pub bytes_out: u64,
    /// Bytes of data received.
    pub bytes_in: u64,
    /// Mean bytes of data in a segment sent that has any.
    pub mean_segment_out_bytes: f64,
    /// Mean bytes of data in a segment received that has any.
    pub mean_segment_in_bytes: f64,
    /// Segments sent again.
    pub retransmissions: u64,
    /// Congestion window, in segments.
    pub congestion_window_segments: u64,
    /// Maximum segment size for sending.
    pub mss_bytes: u64,
}

impl TcpReport {
    /// The kernel's counters of the connection; `None` if it gives none.
    #[must_use]
    pub fn of(fd: BorrowedFd<'_>) -> Option<TcpReport> {
        let info = flashmob_path::tcp_info::tcp_info(fd)?;
        let mean = |bytes: u64, segments: u32| if segments == 0 { 0.0 } else { bytes as f64 / f64::from(segments) };
        Some(TcpReport {
            mss_bytes: info.mss_bytes.into(),
            rtt_us: info.rtt_us.into(),
            rtt_variation_us: info.rtt_variation_us.into(),
            congestion_window_segments: info.congestion_window_segments.into(),
            retransmissions: info.retransmissions.into(),
            bytes_in: info.bytes_received,
            segments_out: info.segments_out.into(),
            segments_in: info.segments_in.into(),
            min_rtt_us: info.min_rtt_us.into(),
            data_segments_in: info.data_segments_in.into(),
            data_segments_out: info.data_segments_out.into(),
            bytes_out: info.bytes_sent,
            mean_segment_out_bytes: mean(info.bytes_sent, info.data_segments_out),
            mean_segment_in_bytes: mean(info.bytes_received, info.data_segments_in),
        })
    }
}

/// A link's path as seen by this end's socket. Rates and fractions (0 to 1) cover the time between the last two looks, a second
/// or more.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PathReport {
    /// The congestion control of this end.
    pub congestion: Option<String>,
    /// The kernel's latest estimate of the delivery rate.
    pub delivery_rate_bytes_per_second: u64,
    /// Bytes received.
    pub in_bytes_per_second: f64,
    /// Bytes that the other end acknowledged.
    pub out_bytes_per_second: f64,
    /// The largest window that this end offers.
    pub receive_window_bytes: u64,
    /// The window that the other end offers.
    pub send_window_bytes: u64,
    /// This end's receive buffer, as the kernel counts it.
    pub receive_buffer_bytes: u64,
    /// This end's send buffer, as the kernel counts it.
    pub send_buffer_bytes: u64,
    /// Used fraction of this end's window per minimum round trip; near 1 the window limits the other end.
    pub receive_window_used_fraction: f64,
    /// Time with data of this end in flight.
    pub busy_fraction: f64,
    /// Time in which the other end's window limited this end.
    pub receiver_limited_fraction: f64,
    /// Time in which this end's send buffer limited it.
    pub send_buffer_limited_fraction: f64,
    /// Segments that were lost either way in the last four looks, as far as this end can tell: those sent again, and those received behind a gap.
    #[serde(default)]
    pub lost_segments: u64,
    /// All segments with data in that time.
    #[serde(default)]
    pub carried_segments: u64,
    /// How many of those looks found lost ones.
    #[serde(default)]
    pub lossy_looks: u64,
    /// The other end's window limited this end for much of its busy time: see the other end's status.
    pub is_limited_by_peer: bool,
    /// Buffers of this end that limit the link and that this process cannot enlarge.
    pub limits: Vec<PathLimit>,
}

impl PathReport {
    /// The buffers that limit it, as short text; `-` if none.
    #[must_use]
    pub fn held_back(&self) -> String {
        let here = self.limits.iter().map(|limit| format!("{} here", limit.buffer));
        let there = self.is_limited_by_peer.then(|| "receive there".to_string());
        let all: Vec<String> = here.chain(there).collect();
        if all.is_empty() { "-".to_string() } else { all.join(", ") }
    }
}

/// A buffer that is too small for its path.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathLimit {
    /// `receive` or `send`.
    pub buffer: String,
    /// Its size, as the kernel counts it.
    pub buffer_bytes: u64,
    /// The minimum that the path needs.
    pub wanted_bytes: u64,
    /// The remedy, a command if there is one.
    pub remedy: String,
}

impl PathLimit {
    /// The message for operators.
    #[must_use]
    pub fn sentence(&self) -> String {
        format!("{}; {}", self.found(), self.remedy)
    }

    /// The message without the remedy.
    #[must_use]
    pub fn found(&self) -> String {
        let PathLimit { buffer, buffer_bytes, wanted_bytes, .. } = self;
        format!(
            "the link is {}-limited: its {buffer} buffer of {buffer_bytes} bytes is too small for the path, which needs at least {wanted_bytes}",
            if buffer == "receive" { "receiver" } else { "sender" }
        )
    }
}

/// A gateway's link as seen by the node.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct NodeLinkReport {
    /// The gateway's end.
    pub peer: String,
    /// The kernel's counters of the connection.
    pub tcp: TcpReport,
    /// Its path.
    pub path: PathReport,
}
