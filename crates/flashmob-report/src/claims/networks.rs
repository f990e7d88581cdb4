//! Common to the claims about networks: the series that they use, and what is missing if one cannot be judged.
//!
//! P4 sent over one TCP connection at a time, one way at a time, over a path with a round-trip time that was added. Only such points are looked at.

use flashmob_results::net::Point;

use super::{Finding, Judged, Missing};
use crate::entry::Entry;
use crate::ways::{self, RttPoint, RttSeries, Setting};
use crate::words;

/// P4's packets were captured at this round-trip time; below it a small window hardly matters.
pub(super) const RTT_HIGH_MS: f64 = 16.0;
/// P4's receive maxima were ten times apart; about half of that on a logarithmic scale still distinguishes two buffers.
pub(super) const MAXIMA_RATIO_MIN: f64 = 4.0;
/// At the longest round trip so much must be left of what arrives at the shortest before throughput is said to be kept. A quarter is what slow start takes
/// of runs of a few seconds over P4's longest round trips.
pub(super) const KEPT_MIN: f64 = 0.75;
/// Throughput has collapsed if at most this part is left; less of a drop is hardly visible in a figure.
pub(super) const COLLAPSED_MAX: f64 = 0.50;
/// Tolerance above window / RTT: windows are sampled and may have been slightly larger in between, and
/// bytes in flight at the begin of the measurement arrive within it.
pub(super) const ABOVE_BOUND_MAX: f64 = 1.05;

/// What is missing from a network without a series to judge.
const NOTHING: &str = "one TCP connection was not measured over several round-trip times that were added";

/// The setting and result of each group of series.
pub(super) type Groups = Vec<(String, Result<Finding, Missing>)>;

/// Judges every group of ways of every network, of those like P4's.
pub(super) fn each(entries: &[Entry], of: fn(&[&RttSeries]) -> Result<Groups, Missing>) -> Judged {
    each_of(entries, is_like_p4, of)
}

/// The same of other ways.
pub(super) fn each_of(
    entries: &[Entry],
    like: fn(&RttSeries) -> bool,
    of: fn(&[&RttSeries]) -> Result<Groups, Missing>,
) -> Judged {
    let mut judged = Judged::default();
    let all = ways::all(entries);
    for at in (0..entries.len()).filter(|at| entries[*at].net().is_some()) {
        let own: Vec<&RttSeries> = all.iter().filter(|w| w.entry == at && like(w)).collect();
        match if own.is_empty() { Ok(Groups::new()) } else { of(&own) } {
            Ok(groups) => judged.add(at, groups, NOTHING),
            Err(what) => judged.missing.push((at, what)),
        }
    }
    judged
}

/// One TCP connection over several round-trip times that were added.
pub(super) fn is_like_p4(way: &RttSeries) -> bool {
    way.setting.is_one_stream() && way.ends().is_some()
}

/// The greatest round-trip time, which must be great enough.
pub(super) fn high(rtt_ms: f64) -> Result<f64, Missing> {
    if rtt_ms >= RTT_HIGH_MS {
        Ok(rtt_ms)
    } else {
        Err(format!("no round-trip time of {RTT_HIGH_MS} ms or more was measured").into())
    }
}

/// The window that was offered at a place.
pub(super) fn window(way: &RttSeries, place: &RttPoint) -> Result<f64, Missing> {
    way.window_bytes(place)
        .ok_or_else(|| "the window that the receiver offered is not known: the sender's end does not say".into())
}

/// Round-trip times that all of these have, from the least up.
pub(super) fn common_rtts(ways: &[&RttSeries]) -> Vec<f64> {
    let Some((first, rest)) = ways.split_first() else { return Vec::new() };
    let rtts = first.places.iter().filter_map(|p| p.rtt_ms);
    rtts.filter(|rtt| rest.iter().all(|way| way.at(*rtt).is_some())).collect()
}

/// One of these maxima is so much smaller than the other that it is another buffer.
pub(super) fn much_smaller(small: u64, large: u64) -> bool {
    small > 0 && small as f64 * MAXIMA_RATIO_MIN <= large as f64
}

/// Of several congestion controls the system's own counts first, then cubic, the default of most systems.
pub(super) fn congestion_rank(setting: &Setting) -> u8 {
    match setting.congestion.as_deref() {
        None => 0,
        Some("cubic") => 1,
        Some(_) => 2,
    }
}

/// `10.6 Mbit/s`.
pub(super) fn speed(place: &RttPoint) -> String {
    words::bits_per_second(place.rate.median)
}

/// The points of places.
pub(super) fn points<'a>(places: &[RttPoint<'a>]) -> Vec<&'a Point> {
    places.iter().map(|p| p.point).collect()
}
