//! One link's path as its socket knows it: looked at now and then, and its buffers fitted to it.
//!
//! A look costs some system calls, so it is taken at most once a second and never for a request. Each end knows and can enlarge
//! only its own buffers, so each reports and adjusts its own; nothing of this travels over the link.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use flashmob_core::planted::{self, Bug};
use flashmob_path::buffers::rule::{
    Advice, Room, Seen, advise, is_buffer_full, is_window_used_up, remedy, window_used_fraction,
};
use flashmob_path::buffers::{self, Buffer};
use flashmob_path::congestion;
use flashmob_path::tcp_info::{TcpInfo, tcp_info};

use super::report::{PathLimit, PathReport};

/// Minimum interval between two looks at a path. Shorter ones would take a burst for a rate.
pub const LOOK_EVERY: Duration = Duration::from_secs(1);

/// So many looks are summed up for the lost segments.
const LOOKS_OF_LOSS: usize = 4;
/// One that comes later after the one before it is not among them.
const LOSS_LOOK_MAX: Duration = Duration::from_secs(3);

/// How link buffers are sized.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Sizing {
    /// By the kernel, and by this process if the kernel's maximum is too small for a path.
    #[default]
    Path,
    /// By the kernel alone, or as configured.
    Kernel,
}

/// Limits on adjusting a link's buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Means {
    /// How they are sized.
    pub sizing: Sizing,
    /// The configuration sets the receive buffer.
    pub is_receive_set: bool,
    /// The configuration sets the send buffer.
    pub is_send_set: bool,
    /// Limit of each of the two, as counted by the kernel.
    pub share_bytes: u64,
}

impl Means {
    fn is_set(&self, buffer: Buffer) -> bool {
        match buffer {
            Buffer::Receive => self.is_receive_set,
            Buffer::Send => self.is_send_set,
        }
    }
}

/// The last state of a path, and the adjustments of its buffers.
#[derive(Debug, Default)]
pub struct PathWatch {
    last: Option<(Instant, TcpInfo)>,
    /// Segments lost and carried, of the last looks, oldest first.
    lost: VecDeque<(u64, u64)>,
    report: PathReport,
    /// This process set a size: receive, send.
    was_set: [bool; 2],
    /// The most that the kernel granted.
    given_bytes: [Option<u64>; 2],
    /// Logged, once for each of the two.
    was_told: [bool; 2],
}

impl PathWatch {
    /// The last state.
    #[must_use]
    pub fn report(&self) -> &PathReport {
        &self.report
    }

    /// Looks, if the last look is long enough ago. `name` is the other end in messages.
    pub fn look(&mut self, fd: BorrowedFd<'_>, name: &str, means: &Means) {
        let now = Instant::now();
        if self.last.is_some_and(|(at, _)| now - at < LOOK_EVERY) {
            return;
        }
        let Some(info) = tcp_info(fd) else { return };
        let before = self.last.replace((now, info));
        let size = |buffer| buffers::of_socket(fd, buffer).unwrap_or(0);
        let (receive_bytes, send_bytes) = (size(Buffer::Receive), size(Buffer::Send));
        self.report = PathReport {
            congestion: congestion::of_socket(fd),
            delivery_rate_bytes_per_second: info.delivery_rate_bytes_per_second,
            receive_window_bytes: info.receive_window_bytes.max(info.receive_threshold_bytes).into(),
            send_window_bytes: info.send_window_bytes.into(),
            receive_buffer_bytes: receive_bytes,
            send_buffer_bytes: send_bytes,
            ..PathReport::default()
        };
        let Some((at, before)) = before else { return };
        self.compare(now - at, &before, &info);
        let (incoming, outgoing) = seen(&self.report, &info, self.was_set);
        for (index, buffer, seen) in [(0, Buffer::Receive, incoming), (1, Buffer::Send, outgoing)] {
            if let Some(limit) = self.fit(fd, index, buffer, seen, name, means) {
                self.report.limits.push(limit);
            }
        }
    }

    /// Rates and fractions since the look before.
    fn compare(&mut self, time: Duration, before: &TcpInfo, info: &TcpInfo) {
        // Where nobody has looked for long, what happened in that time is no longer news.
        if time > LOSS_LOOK_MAX {
            self.lost.clear();
        } else {
            self.lost.push_back(lost_segments(before, info));
        }
        while self.lost.len() > LOOKS_OF_LOSS {
            self.lost.pop_front();
        }
        (self.report.lost_segments, self.report.carried_segments) =
            self.lost.iter().fold((0, 0), |sum, look| (sum.0 + look.0, sum.1 + look.1));
        self.report.lossy_looks = self.lost.iter().filter(|(lost, _)| *lost > 0).count() as u64;
        let seconds = time.as_secs_f64();
        let rate = |now: u64, then: u64| now.saturating_sub(then) as f64 / seconds;
        let fraction = |now: u64, then: u64| (rate(now, then) / 1e6).min(1.0);
        let report = &mut self.report;
        report.in_bytes_per_second = rate(info.bytes_received, before.bytes_received);
        report.out_bytes_per_second = rate(info.bytes_acknowledged, before.bytes_acknowledged);
        report.busy_fraction = fraction(info.busy_us, before.busy_us);
        report.receiver_limited_fraction = fraction(info.receiver_limited_us, before.receiver_limited_us);
        report.send_buffer_limited_fraction = fraction(info.send_buffer_limited_us, before.send_buffer_limited_us);
        let min_rtt_s = f64::from(info.min_rtt_us) / 1e6;
        report.receive_window_used_fraction =
            window_used_fraction(report.in_bytes_per_second, min_rtt_s, report.receive_window_bytes);
        report.is_limited_by_peer = is_buffer_full(report.receiver_limited_fraction, report.busy_fraction);
    }

    /// Leaves a buffer alone, enlarges it, or returns what limits it.
    fn fit(
        &mut self,
        fd: BorrowedFd<'_>,
        index: usize,
        buffer: Buffer,
        mut seen: Seen,
        name: &str,
        means: &Means,
    ) -> Option<PathLimit> {
        if !seen.is_held_back {
            return None;
        }
        let kernel = buffers::autotuning(buffer);
        let is_configured = means.is_set(buffer);
        seen.is_set |= is_configured;
        let limit_bytes = buffers::limit_bytes(buffer).or_else(|| buffers::tried_limit_bytes(buffer));
        let room = Room {
            autotuning_max_bytes: kernel.map(|kernel| kernel.max_bytes),
            limit_bytes: limit_bytes.into_iter().chain(self.given_bytes[index]).min(),
            share_bytes: if is_configured || means.sizing == Sizing::Kernel { 0 } else { means.share_bytes },
        };
        let wanted_bytes = match advise(&seen, &room) {
            Advice::Leave => return None,
            Advice::Set(_) if planted::is(Bug::BufferNeverSet) => return None,
            Advice::Set(bytes) => return self.raise(fd, index, buffer, bytes, &seen, name),
            Advice::Limited(bytes) => bytes,
        };
        let what = match buffer {
            Buffer::Receive => "receive",
            Buffer::Send => "send",
        };
        let is_share =
            room.share_bytes > 0 && room.limit_bytes.is_none_or(|limit| limit.saturating_mul(2) > room.share_bytes);
        let remedy = if is_configured {
            format!("remove {what}_buffer from [volume.socket], or set it to at least {wanted_bytes}")
        } else if is_share {
            "give this process more memory ('memory' of a gateway, --memory of a node), or fewer links".to_string()
        } else {
            remedy(buffer, kernel, wanted_bytes)
        };
        let limit = PathLimit { buffer: what.to_string(), buffer_bytes: seen.buffer_bytes, wanted_bytes, remedy };
        if !std::mem::replace(&mut self.was_told[index], true) {
            log::warn!("{name}: {}", limit.sentence());
        }
        Some(limit)
    }

    fn raise(
        &mut self,
        fd: BorrowedFd<'_>,
        index: usize,
        buffer: Buffer,
        bytes: u64,
        seen: &Seen,
        name: &str,
    ) -> Option<PathLimit> {
        match buffers::raise(fd, buffer, bytes) {
            Ok(has_bytes) => {
                self.was_set[index] = true;
                if has_bytes < bytes.saturating_mul(2) {
                    self.given_bytes[index] = Some(has_bytes / 2);
                }
                let (had, option) = (seen.buffer_bytes, buffer.autotuning_name());
                log::info!(
                    "{name}: a buffer of {had} bytes limited the link ({:.1} ms, {:.1} MB/s); {option} lets the kernel grow it no further, so it was set to {has_bytes}",
                    seen.min_rtt_s * 1e3,
                    seen.bytes_per_second / 1e6
                );
            }
            Err(error) => {
                self.given_bytes[index] = Some(seen.buffer_bytes / 2);
                log::warn!("{name}: cannot enlarge the link's buffer: {error}");
            }
        }
        None
    }
}

/// Segments with data between two looks: those that were lost, both ways, and all. Those to the other end are lost if they were sent again and it
/// did not have them; of those from it only the ones behind a gap are seen, which are more than those lost in it.
fn lost_segments(before: &TcpInfo, info: &TcpInfo) -> (u64, u64) {
    let since = |of: fn(&TcpInfo) -> u32| u64::from(of(info).saturating_sub(of(before)));
    let sent_again = since(|info| info.retransmissions).saturating_sub(since(|info| info.needless_retransmissions));
    let lost = sent_again + since(|info| info.out_of_order_segments);
    (lost, since(|info| info.data_segments_out) + since(|info| info.data_segments_in))
}

/// Both directions of the report: in, out.
fn seen(report: &PathReport, info: &TcpInfo, was_set: [bool; 2]) -> (Seen, Seen) {
    let min_rtt_s = f64::from(info.min_rtt_us) / 1e6;
    let incoming = Seen {
        bytes_per_second: report.in_bytes_per_second,
        min_rtt_s,
        is_held_back: is_window_used_up(report.in_bytes_per_second, min_rtt_s, report.receive_window_bytes),
        buffer_bytes: report.receive_buffer_bytes,
        is_set: was_set[0],
    };
    let outgoing = Seen {
        bytes_per_second: report.out_bytes_per_second,
        is_held_back: is_buffer_full(report.send_buffer_limited_fraction, report.busy_fraction),
        buffer_bytes: report.send_buffer_bytes,
        is_set: was_set[1],
        ..incoming
    };
    (incoming, outgoing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sent_again_in_vain_is_not_lost() {
        let before = TcpInfo { data_segments_out: 100, data_segments_in: 50, retransmissions: 7, ..TcpInfo::default() };
        let info = |again: u32, needless: u32, behind_gaps: u32| TcpInfo {
            data_segments_out: 160,
            data_segments_in: 90,
            retransmissions: 7 + again,
            needless_retransmissions: needless,
            out_of_order_segments: behind_gaps,
            ..before
        };
        assert_eq!(lost_segments(&before, &info(0, 0, 0)), (0, 100));
        assert_eq!(lost_segments(&before, &info(5, 2, 4)), (7, 100));
        assert_eq!(lost_segments(&before, &info(2, 5, 0)), (0, 100), "reported later than they were sent");
        assert_eq!(lost_segments(&info(5, 2, 4), &before), (0, 0), "counters of another connection");
    }

    #[test]
    fn losses_are_those_of_the_last_looks() {
        let mut watch = PathWatch::default();
        let mut before = TcpInfo::default();
        for lost in [1, 0, 0, 0, 0] {
            let retransmissions = before.retransmissions + lost;
            let info = TcpInfo { retransmissions, data_segments_out: before.data_segments_out + 10, ..before };
            watch.compare(LOOK_EVERY, &before, &info);
            before = info;
        }
        assert_eq!((watch.report.lost_segments, watch.report.carried_segments), (0, 40), "the first look is forgotten");
        let lossy = TcpInfo { retransmissions: before.retransmissions + 3, ..before };
        watch.compare(LOOK_EVERY, &before, &lossy);
        assert_eq!((watch.report.lost_segments, watch.report.lossy_looks), (3, 1));
        watch.compare(LOSS_LOOK_MAX, &lossy, &lossy);
        assert_eq!(watch.report.lost_segments, 3);
        watch.compare(LOSS_LOOK_MAX + Duration::from_millis(1), &before, &lossy);
        assert_eq!((watch.report.lost_segments, watch.report.lossy_looks), (0, 0), "nobody has looked for long");
    }
}
