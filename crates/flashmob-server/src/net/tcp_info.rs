//! What the kernel counts of a link's TCP connection, as `status` reports it.

use std::os::fd::BorrowedFd;

use crate::net::report::TcpReport;

/// The kernel's counters of the connection; `None` if it gives none.
#[must_use]
pub fn tcp_info(fd: BorrowedFd<'_>) -> Option<TcpReport> {
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
