//! What held a way back, by how its time was spent. The table of decisions is in docs/analyzing-packets.md.

#[cfg(test)]
mod tests;
mod words;

use flashmob_results::capture::{Cause, Verdict};

use crate::way::Way;

/// With less data than this nothing can be said.
const DATA_PACKETS_MIN: u64 = 20;
/// Nor with fewer round trips.
const ROUNDS_MIN: u64 = 4;
/// From this part of the packets on, what was sent again says that the path loses.
const LOSSY: f64 = 0.002;
/// Fewer losses than this may be chance.
const LOSSES_MIN: u64 = 3;
/// A round trip of so many times the least is mostly waiting in a queue,
const QUEUED: f64 = 1.5;
/// if the queue holds it for longer than machines are late.
const QUEUED_MS_MIN: f64 = 2.0;
/// A path on which the usual round trip is at most so many times the least and a bit has no queue.
const EMPTY: f64 = 1.15;
const EMPTY_MS: f64 = 0.5;
/// Packets come evenly if three of four gaps are at least this part of the mean,
const STEADY: f64 = 0.5;
/// and if there are many in a round.
const STEADY_PACKETS_MIN: u64 = 16;
/// Captured near the sender, if the way from there is this part of the whole.
const NEAR: f64 = 0.1;
/// A queue is one of several packets.
const QUEUED_PACKETS_MIN: f64 = 4.0;
/// Most that was under way in a round, as a part of what it was in others: a ceiling if half of the rounds are above this.
const CEILING: f64 = 0.7;

/// What is known of a way beside its time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Signs {
    /// It loses packets all the time.
    pub is_lossy: bool,
    /// Round trips are mostly waiting.
    pub is_queued: bool,
    /// Round trips are hardly longer than the least: no queue anywhere.
    pub is_empty: bool,
    /// Packets came evenly all the time: something on the way, or the sender's own pace, spread them.
    pub is_steady: bool,
    /// What was under way had a ceiling.
    pub has_ceiling: bool,
    /// Round trip to both ends, as it was at least and mostly.
    pub least_rtt_ms: f64,
    pub rtt_ms: f64,
}

/// Parts of the time, by cause.
#[derive(Clone, Copy, Debug)]
struct Parts {
    receiver: f64,
    sender: f64,
    congestion: f64,
    application: f64,
}

/// Judges a way that took so long; `None` if there is too little to say.
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
    // Only this way was captured: what its sender waited for did not pass.
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
    // What a packet waits before it is sent is the sender's affair: near the sender no queue of the path is behind, and elsewhere the quicker
    // packets tell.
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
    // A window that is full while packets wait in a queue on the path: a larger one would only make the queue longer.
    if signs.is_queued && way.counts.zero_windows == 0 {
        parts.congestion += parts.receiver;
        parts.receiver = 0.0;
    }
    parts
}
