//! Counts of a stream at one moment, and differences between two of them.

use std::sync::atomic::Ordering;

use flashmob_path::buffers::{self, Buffer};
use flashmob_path::congestion;
use flashmob_path::tcp_info::{TcpInfo, tcp_info};
use flashmob_results::net::{TcpEnd, Udp};

use super::stream::{Socket, Stream};

/// Counts of a stream at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Look {
    pub bytes: u64,
    pub answer_bytes: u64,
    pub packets: u64,
    pub lost: u64,
    pub out_of_order: u64,
    pub jitter_s: f64,
    pub tcp: Option<TcpInfo>,
}

impl Look {
    pub fn at(stream: &Stream) -> Look {
        let counters = &stream.counters;
        let tcp = match &stream.socket {
            Socket::Tcp(_) => tcp_info(stream.socket.fd()),
            Socket::Udp(_) => None,
        };
        Look {
            bytes: counters.bytes.load(Ordering::Relaxed),
            answer_bytes: counters.answer_bytes.load(Ordering::Relaxed),
            packets: counters.packets.load(Ordering::Relaxed),
            lost: counters.lost.load(Ordering::Relaxed),
            out_of_order: counters.out_of_order.load(Ordering::Relaxed),
            jitter_s: counters.jitter_s(),
            tcp,
        }
    }

    /// A count that increases as long as the other end is there.
    pub fn moved(&self, is_sender: bool) -> u64 {
        match &self.tcp {
            Some(tcp) if is_sender => tcp.bytes_acknowledged.wrapping_add(self.answer_bytes),
            _ => self.bytes.wrapping_add(self.answer_bytes),
        }
    }

    /// Data is in flight, or waits to be sent.
    pub fn is_waiting(&self) -> bool {
        self.tcp.as_ref().is_some_and(|tcp| tcp.unacknowledged_segments > 0 || tcp.not_sent_bytes > 0)
    }

    /// Datagrams since an earlier look. Losses that turn out to be reordering are not counted.
    pub fn udp(&self, since: &Look) -> Udp {
        Udp {
            sent: self.packets.saturating_sub(since.packets),
            lost: self.lost.saturating_sub(since.lost),
            out_of_order: self.out_of_order.saturating_sub(since.out_of_order),
            jitter_ms: 1000.0 * self.jitter_s,
        }
    }

    /// TCP's counters since an earlier look; `None` for datagrams, or if the kernel has none.
    pub fn tcp_end(&self, since: &Look, stream: &Stream, send_window_max_bytes: u64) -> Option<TcpEnd> {
        let (now, before) = (self.tcp?, since.tcp.unwrap_or_default());
        let data_packets = u64::from(now.data_segments_out.wrapping_sub(before.data_segments_out))
            + u64::from(now.data_segments_in.wrapping_sub(before.data_segments_in));
        let data_bytes =
            now.bytes_sent.saturating_sub(before.bytes_sent) + now.bytes_received.saturating_sub(before.bytes_received);
        let seconds = |now_us: u64, before_us: u64| now_us.saturating_sub(before_us) as f64 / 1e6;
        let buffer = |which| buffers::of_socket(stream.socket.fd(), which).unwrap_or(0);
        Some(TcpEnd {
            congestion: congestion::of_socket(stream.socket.fd()),
            retransmissions: u64::from(now.retransmissions.wrapping_sub(before.retransmissions)),
            congestion_window_bytes: u64::from(now.congestion_window_segments) * u64::from(now.mss_bytes),
            rtt_ms: f64::from(now.rtt_us) / 1000.0,
            rtt_variation_ms: f64::from(now.rtt_variation_us) / 1000.0,
            // The largest number stands for none.
            min_rtt_ms: if now.min_rtt_us == u32::MAX { 0.0 } else { f64::from(now.min_rtt_us) / 1000.0 },
            delivery_rate_bits_per_second: 8.0 * now.delivery_rate_bytes_per_second as f64,
            send_window_bytes: now.send_window_bytes.into(),
            send_window_max_bytes: send_window_max_bytes.max(now.send_window_bytes.into()),
            receive_window_bytes: now.receive_window_bytes.into(),
            receive_buffer_bytes: buffer(Buffer::Receive),
            send_buffer_bytes: buffer(Buffer::Send),
            packets_sent: now.segments_out.wrapping_sub(before.segments_out).into(),
            packets_received: now.segments_in.wrapping_sub(before.segments_in).into(),
            packet_bytes: if data_packets > 0 { data_bytes as f64 / data_packets as f64 } else { 0.0 },
            busy_s: seconds(now.busy_us, before.busy_us),
            receiver_limited_s: seconds(now.receiver_limited_us, before.receiver_limited_us),
            send_buffer_limited_s: seconds(now.send_buffer_limited_us, before.send_buffer_limited_us),
        })
    }
}
