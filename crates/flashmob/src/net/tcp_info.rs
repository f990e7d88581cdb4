//! TCP_INFO: what the kernel counts of a TCP connection.
//!
//! Read as bytes at the offsets of Linux's `struct tcp_info` (include/uapi/linux/tcp.h), which only ever grows: an
//! older kernel fills in less, and what it does not know stays zero.

use std::os::fd::{AsRawFd, BorrowedFd};

use crate::admin::report::TcpReport;

/// Bytes of the structure up to and with `tcpi_bytes_retrans` and what lies between.
const INFO_BYTES: usize = 232;

/// The kernel's counters of the connection; `None` if it gives none.
#[must_use]
pub fn tcp_info(fd: BorrowedFd<'_>) -> Option<TcpReport> {
    let mut info = [0u8; INFO_BYTES];
    let mut len = INFO_BYTES as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes, which is the size of `info`, and the descriptor is open.
    let status = unsafe {
        libc::getsockopt(fd.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, info.as_mut_ptr().cast(), &raw mut len)
    };
    (status == 0).then(|| decode(&info))
}

fn decode(info: &[u8; INFO_BYTES]) -> TcpReport {
    let u32_at = |at: usize| u64::from(u32::from_ne_bytes([info[at], info[at + 1], info[at + 2], info[at + 3]]));
    let u64_at = |at: usize| u64::from_ne_bytes(std::array::from_fn(|i| info[at + i]));
    let mean = |bytes: u64, segments: u64| if segments == 0 { 0.0 } else { bytes as f64 / segments as f64 };
    let (bytes_in, bytes_out) = (u64_at(128), u64_at(200));
    let (data_segments_in, data_segments_out) = (u32_at(152), u32_at(156));
    TcpReport {
        mss_bytes: u32_at(16),
        rtt_us: u32_at(68),
        rtt_variation_us: u32_at(72),
        congestion_window_segments: u32_at(80),
        retransmissions: u32_at(100),
        bytes_in,
        segments_out: u32_at(136),
        segments_in: u32_at(140),
        min_rtt_us: u32_at(148),
        data_segments_in,
        data_segments_out,
        bytes_out,
        mean_segment_out_bytes: mean(bytes_out, data_segments_out),
        mean_segment_in_bytes: mean(bytes_in, data_segments_in),
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
        assert_eq!((info.bytes_out, info.bytes_in, info.data_segments_in), (5000, 300, 1));
        assert!(info.data_segments_out >= 1 && info.segments_out > info.data_segments_out);
        assert!(info.mss_bytes >= 500 && info.rtt_us > 0 && info.congestion_window_segments > 0);
        assert!((info.mean_segment_in_bytes - 300.0).abs() < 0.1);
    }

    #[test]
    fn what_is_not_tcp_has_none() {
        let (socket, _) = std::os::unix::net::UnixStream::pair().unwrap();
        assert!(tcp_info(socket.as_fd()).is_none());
    }
}
