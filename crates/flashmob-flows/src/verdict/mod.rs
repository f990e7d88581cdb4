//! Determines what limited a direction from how its time was spent. The decision table is in docs/analyzing-packets.md.

#[cfg(test)]
mod tests;
mod words;

use flashmob_results::capture::{Cause, Verdict};

use crate::way::Way;

/// Minimum of data packets for a verdict.
const DATA_PACKETS_MIN: u64 = 20;
/// Minimum of round trips for a verdict.
const ROUNDS_MIN: u64 = 4;
/// Part of retransmitted packets from which a path is lossy.
const LOSSY: f64 = 0.002;
/// Minimum of losses; fewer may be chance.
const LOSSES_MIN: u64 = 3;
/// Ratio of a round trip to the minimum from which a queue dominates it,
const QUEUED: f64 = 1.5;
/// if the delay in the queue exceeds scheduling delays of hosts.
const QUEUED_MS_MIN: f64 = 2.0;
/// A path has no queue if its median round trip is at most this factor times the minimum, plus `EMPTY_MS`.
const EMPTY: f64 = 1.15;
const EMPTY_MS: f64 = 0.5;
/// Packets are paced if three quarters of the gaps are at least this part of the mean,
const STEADY: f64 = 0.5;
/// and a round has at least this many.
const STEADY_PACKETS_MIN: u64 = 16;
/// The capture is near the sender if the round trip to it is below this part of the whole.
const NEAR: f64 = 0.1;
/// Minimum of packets in a queue.
const QUEUED_PACKETS_MIN: f64 = 4.0;
/// Bytes in flight have a ceiling if half of the rounds reach this part of the 98th percentile.
const CEILING: f64 = 0.7;

/// Properties of a direction apart from its times.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Signs {
    /// The path loses packets.
    pub is_lossy: bool,
    /// A queue dominates the round trips.
    pub is_queued: bool,
    /// Round trips are near the minimum: there is no queue.
    pub is_empty: bool,
    /// Packets are paced, by the path or by the sender.
    pub is_steady: bool,
    /// Bytes in flight have a ceiling.
    pub has_ceiling: bool,
    /// Minimum and median round trip between both ends.
    pub least_rtt_ms: f64,
    pub rtt_ms: f64,
}

/// Parts of the time by cause.
#[derive(Clone, Copy, Debug)]
struct Parts {
    receiver: f64,
    sender: f64,
    congestion: f64,
    application: f64,
}

/// Judges a direction that took `seconds`; `None` with too few data.
pub(crate) fn judge(way: &Way, seconds: f64, are_windows_known: bool) -> Option<Verdict> {
    let total_ns = way.rounds.times.total_ns();
    let idle = way.rounds.idle_ms.count();
    if way.counts.data_packets < DATA_PACKETS_MIN
        || way.rounds.count + idle < ROUNDS_MIN
        || total_ns <= 0
        || seconds <= 0.0
    {
        return None;
    }
    // Without the other direction in the capture, acknowledgements are unknown.
    if way.flight_bytes.count() == 0 {
        return None;
    }
    let signs = signs(way);
    let parts = parts(way, &signs);
    let all = [
        (Cause::ReceiverLimited, parts.receiver),
        (Cause::CongestionLimited, parts.congestion),
        (Cause::SenderLimited, parts.sender),
        (Cause::ApplicationLimited, parts.application),
    ];
    let (cause, fraction) = all.into_iter().reduce(|best, next| if next.1 > best.1 { next } else { best })?;
    Some(Verdict {
        cause,
        fraction,
        evidence: words::evidence(way, cause, fraction, &signs, are_windows_known),
        remedy: words::remedy(way, cause, &signs),
    })
}

fn signs(way: &Way) -> Signs {
    let least_rtt_ms = way.least_round_trip_ns() as f64 / 1e6;
    // Delays in the sender are not delays of the path: near the sender there is no queue of the path before it, and elsewhere the faster
    // packets show the path.
    let distance_ms = way.knowledge.distance_ns().map_or(0.0, |ns| ns as f64 / 1e6);
    let is_near = way.behind_ms.count() == 0 || distance_ms < NEAR * least_rtt_ms;
    let behind_ms = if is_near { distance_ms } else { way.behind_ms.quantile(0.25) };
    let rtt_ms = way.rtt_ms.quantile(0.5) + behind_ms;
    let lost = way.counts.resent as f64 / way.counts.data_packets.max(1) as f64;
    let flight = if way.rounds.clocked_flight.count() >= way.rounds.full_flight.count() {
        &way.rounds.clocked_flight
    } else {
        &way.rounds.full_flight
    };
    let is_several = flight.quantile(0.5) >= QUEUED_PACKETS_MIN * f64::from(way.packet_bytes());
    let (clocked, gaps) = (&way.rounds.clocked_flight, &way.rounds.gap_ns);
    Signs {
        is_lossy: way.counts.resent >= LOSSES_MIN && lost >= LOSSY,
        is_queued: is_several && rtt_ms >= QUEUED * least_rtt_ms && rtt_ms - least_rtt_ms >= QUEUED_MS_MIN,
        is_empty: rtt_ms <= EMPTY * least_rtt_ms + EMPTY_MS,
        is_steady: gaps.count() >= STEADY_PACKETS_MIN * way.rounds.count && gaps.quantile(0.25) >= STEADY * gaps.mean(),
        has_ceiling: clocked.quantile(0.5) >= CEILING * clocked.quantile(0.98),
        least_rtt_ms,
        rtt_ms,
    }
}

fn parts(way: &Way, signs: &Signs) -> Parts {
    let times = &way.rounds.times;
    let part = |ns: i64| ns as f64 / times.total_ns() as f64;
    let mut parts = Parts {
        receiver: part(times.receiver_ns),
        sender: 0.0,
        congestion: part(times.loss_ns),
        application: part(times.application_ns),
    };
    let mut clocked_ns = times.clocked_ns;
    if signs.is_steady {
        parts.congestion += part(times.unprompted_ns);
    } else if signs.is_empty && !signs.is_lossy {
        parts.application += part(times.unprompted_ns);
    } else {
        clocked_ns += times.unprompted_ns;
    }
    if signs.is_lossy || signs.is_queued || !signs.has_ceiling {
        parts.congestion += part(clocked_ns);
    } else {
        parts.sender += part(clocked_ns);
    }
    // With a full window and a queue on the path, a larger window would only lengthen the queue.
    if signs.is_queued && way.counts.zero_windows == 0 {
        parts.congestion += parts.receiver;
        parts.receiver = 0.0;
    }
    parts
}
