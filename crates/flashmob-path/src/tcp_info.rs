//! TCP_INFO: the kernel's counters of a TCP connection.
//!
//! Read as bytes at the offsets of Linux's `struct tcp_info` (include/uapi/linux/tcp.h), which only ever grows: an
//! older kernel fills in less, and the rest stays zero.

use std::os::fd::{AsRawFd, BorrowedFd};

/// Bytes of the structure up to and with `tcpi_rcv_wnd` (Linux 6.2).
const INFO_BYTES: usize = 236;

/// The kernel's counters of one connection; those that an older kernel does not have are zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// Bytes of data in a full packet.
    pub mss_bytes: u32,
    /// Smoothed round-trip time.
    pub rtt_us: u32,
    /// Its mean deviation.
    pub rtt_variation_us: u32,
    /// Minimum within the kernel's window of some minutes.
    pub min_rtt_us: u32,
    /// Round-trip time as the receiver estimates it, from the duration of a window.
    pub receiver_rtt_us: u32,
    /// Congestion window, in packets.
    pub congestion_window_segments: u32,
    /// Packets sent and not acknowledged yet.
    pub unacknowledged_segments: u32,
    /// Packets retransmitted.
    pub retransmissions: u32,
    /// Segments that the other end says it had already: they were retransmitted in vain (Linux 4.19).
    pub needless_retransmissions: u32,
    /// Segments received out of their order, behind a gap (Linux 5.4).
    pub out_of_order_segments: u32,
    /// Bytes written and not sent yet.
    pub not_sent_bytes: u32,
    /// Bytes sent, including retransmissions (Linux 4.19).
    pub bytes_sent: u64,
    /// Bytes acknowledged by the other end.
    pub bytes_acknowledged: u64,
    /// Bytes received.
    pub bytes_received: u64,
    /// Packets sent, including pure acknowledgements.
    pub segments_out: u32,
    /// Packets received, including pure acknowledgements.
    pub segments_in: u32,
    /// Those of `segments_out` that carried data.
    pub data_segments_out: u32,
    /// Those of `segments_in` that carried data.
    pub data_segments_in: u32,
    /// The latest estimate of the delivery rate (Linux 4.9).
    pub delivery_rate_bytes_per_second: u64,
    /// That estimate is a lower bound, because there was too little to send.
    pub is_application_limited: bool,
    /// Time with data in flight (Linux 4.10).
    pub busy_us: u64,
    /// The part of it limited by the other end's window.
    pub receiver_limited_us: u64,
    /// The part of it limited by the send buffer.
    pub send_buffer_limited_us: u64,
    /// The window that the other end offers (Linux 5.4).
    pub send_window_bytes: u32,
    /// The window that this end offers (Linux 6.2).
    pub receive_window_bytes: u32,
    /// The kernel's estimate of the bytes that the application reads per round trip, by which it sizes the receive buffer.
    pub receive_space_bytes: u32,
    /// Largest window that this end will currently offer.
    pub receive_threshold_bytes: u32,
}

/// The kernel's counters of the connection; `None` if it gives none.
#[must_use]
pub fn tcp_info(fd: BorrowedFd<'_>) -> Option<TcpInfo> {
    let mut info = [0u8; INFO_BYTES];
    let mut len = INFO_BYTES as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes, which is the size of `info`, and the descriptor is open.
    let status = unsafe {
        libc::getsockopt(fd.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, info.as_mut_ptr().cast(), &raw mut len)
    };
    (status == 0).then(|| decode(&info))
}

fn decode(info: &[u8; INFO_BYTES]) -> TcpInfo {
    let u32_at = |at: usize| u32::from_ne_bytes(std::array::from_fn(|i| info[at + i]));
    let u64_at = |at: usize| u64::from_ne_bytes(std::array::from_fn(|i| info[at + i]));
    // A C bit field: its first member is the lowest bit on little-endian machines, else the highest.
    let first_bit = if cfg!(target_endian = "little") { 0x01 } else { 0x80 };
    TcpInfo {
        is_application_limited: info[7] & first_bit != 0,
        mss_bytes: u32_at(16),
        unacknowledged_segments: u32_at(24),
        receive_threshold_bytes: u32_at(64),
        rtt_us: u32_at(68),
        rtt_variation_us: u32_at(72),
        congestion_window_segments: u32_at(80),
        receiver_rtt_us: u32_at(92),
        receive_space_bytes: u32_at(96),
        retransmissions: u32_at(100),
        bytes_acknowledged: u64_at(120),
        bytes_received: u64_at(128),
        segments_out: u32_at(136),
        segments_in: u32_at(140),
        not_sent_bytes: u32_at(144),
        min_rtt_us: u32_at(148),
        data_segments_in: u32_at(152),
        data_segments_out: u32_at(156),
        delivery_rate_bytes_per_second: u64_at(160),
        busy_us: u64_at(168),
        receiver_limited_us: u64_at(176),
        send_buffer_limited_us: u64_at(184),
        bytes_sent: u64_at(200),
        needless_retransmissions: u32_at(216),
        out_of_order_segments: u32_at(224),
        send_window_bytes: u32_at(228),
        receive_window_bytes: u32_at(232),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    #[test]
    fn counts_what_went_over_a_real_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        near.write_all(&[1; 5000]).unwrap();
        far.read_exact(&mut [0; 5000]).unwrap();
        far.write_all(&[2; 300]).unwrap();
        near.read_exact(&mut [0; 300]).unwrap();
        let info = tcp_info(near.as_fd()).unwrap();
        assert_eq!((info.bytes_sent, info.bytes_received, info.data_segments_in), (5000, 300, 1));
        assert_eq!(info.bytes_acknowledged, 5000 + 1, "the connection's first byte is one of them");
        assert!(info.data_segments_out >= 1 && info.segments_out > info.data_segments_out);
        assert!(info.mss_bytes >= 500 && info.rtt_us > 0 && info.congestion_window_segments > 0);
        assert!(info.send_window_bytes >= 20_000, "{info:?}");
    }

    #[test]
    fn what_is_not_tcp_has_none() {
        let (socket, _) = std::os::unix::net::UnixStream::pair().unwrap();
        assert!(tcp_info(socket.as_fd()).is_none());
    }
}
