//! C16: a receiver that collapses gets fewer packets at once, and acknowledges them at once in small clumps.
//!
//! Two captures of the same transfer: with the small receive maximum and with ten times that. They are told apart by the words `small` and `tenfold` in
//! their labels; without such labels by the windows that were offered, if those lie at least four times apart. Of each the way that carried most data is
//! looked at. With the small maximum
//! - the bytes under way, median and most, are at most three quarters of those with the tenfold one (P4's maxima were ten times apart, but a path's own
//!   queue may bound the larger one);
//! - the most under way is at least 80 % of the largest window offered: TCP sends whole packets only, and of a window of a few packets a
//!   fifth may stay empty;
//! - acknowledgements come at once: the median round trip of data is at most one and a half times the least, so nothing waited for long;
//! - they are for small clumps: the bytes of at most 2.5 full packets each (an acknowledgement for every second packet is what TCP does, RFC 1122), and
//!   no more than 10 % more bytes than with the tenfold one. Bytes and not packets, because a sender's own capture shows several packets as one where
//!   the interface cuts them up (segmentation offload).

use flashmob_results::capture::{Capture, Quantiles, Way};

use super::networks::MAXIMA_RATIO_MIN;
use super::{Definition, Finding, Judged, Missing};
use crate::entry::Entry;
use crate::flows::{self, CapturedWay};
use crate::words;

const FLIGHT_MAX: f64 = 0.75;
const WINDOW_USED_MIN: f64 = 0.80;
const RTT_OVER_LEAST_MAX: f64 = 1.5;
const CLUMP_MAX: f64 = 2.5;
const CLUMP_RATIO_MAX: f64 = 1.1;
/// Maximum payload of an Ethernet packet; larger ones are segmented.
const FULL_PACKET_BYTES: f64 = 1_460.0;

pub(super) const CLAIM: Definition = Definition {
    id: "C16",
    source: "P4, Fig. 11 to 14",
    words: "The collapsing receiver gets fewer packets in flight, and acknowledges at once in small clumps.",
    short: "Collapsing: few packets in flight, acknowledged at once",
    criterion: "Captures with the small receive maximum and with the tenfold one: with the small one median and most bytes in flight are three quarters or less, the most is 80 % or more of the window offered, the median ACK round trip is at most 1.5 times the least, and an ACK is for the bytes of at most 2.5 full packets and for no more than 10 % more than with the tenfold one.",
    paper: "fewer packets over time, acknowledged in small clumps, at RTT 16 ms (no figures in the text)",
    judge: judged,
    ..Definition::NETWORK
};

fn judged(entries: &[Entry]) -> Judged {
    let mut judged = Judged::default();
    let pairs = pairs(entries);
    for (small, tenfold) in &pairs {
        match of_pair(entries, *small, *tenfold) {
            Ok(finding) => judged.findings.push(finding),
            Err(what) => judged.missing.push((*small, what)),
        }
    }
    let paired = |at: usize| pairs.iter().any(|(small, tenfold)| *small == at || *tenfold == at);
    let is_own = labelled(entries, "own");
    let alone = |at: &usize| entries[*at].capture().is_some() && !paired(*at) && !is_own.contains(at);
    for at in (0..entries.len()).filter(alone) {
        let what = "there is no capture beside it with a receive maximum ten times as large, or as small (labels with 'small' and 'tenfold' tell)";
        judged.missing.push((at, what.into()));
    }
    judged
}

/// Captures with this word in their labels.
pub(super) fn labelled(entries: &[Entry], word: &str) -> Vec<usize> {
    let says = |at: &usize| {
        let label = entries[*at].document.label.as_deref().unwrap_or_default().to_lowercase();
        label.split(|c: char| !c.is_alphanumeric()).any(|part| part == word)
    };
    (0..entries.len()).filter(|at| entries[*at].capture().is_some()).filter(says).collect()
}

/// Captures with a small receive maximum, each with one of a tenfold one.
fn pairs(entries: &[Entry]) -> Vec<(usize, usize)> {
    let captures: Vec<usize> = (0..entries.len()).filter(|at| entries[*at].capture().is_some()).collect();
    let (small, tenfold) = (labelled(entries, "small"), labelled(entries, "tenfold"));
    if let Some(last) = tenfold.last()
        && !small.is_empty()
    {
        // In the order in which they were given; the last serves the rest.
        return small.iter().enumerate().map(|(nth, at)| (*at, *tenfold.get(nth).unwrap_or(last))).collect();
    }
    if !small.is_empty() || !tenfold.is_empty() {
        return Vec::new();
    }
    let window = |at: usize| Some((at, flows::main(entries[at].capture()?)?.way.window_bytes?.max));
    let mut windows: Vec<(usize, f64)> = captures.iter().filter_map(|at| window(*at)).collect();
    windows.sort_by(|a, b| a.1.total_cmp(&b.1));
    match (windows.first(), windows.last()) {
        (Some((small, low)), Some((tenfold, high))) if *low > 0.0 && low * MAXIMA_RATIO_MIN <= *high => {
            vec![(*small, *tenfold)]
        }
        _ => Vec::new(),
    }
}

/// The compared values.
pub(super) struct Seen<'a> {
    pub way: &'a Way,
    pub flight: Quantiles,
    pub window: Quantiles,
    pub rtt: Quantiles,
}

pub(super) fn seen<'a>(capture: Option<&'a Capture>, which: &str) -> Result<Seen<'a>, Missing> {
    let lacks = |what: &str| format!("in the capture with the {which} receive maximum {what}");
    let CapturedWay { way, .. } = capture.and_then(flows::main).ok_or_else(|| lacks("no connection carried data"))?;
    let known = |quantiles: Option<Quantiles>, what: &str| {
        let numbers = |q: &Quantiles| [q.min, q.median, q.max].iter().all(|v| v.is_finite() && *v >= 0.0);
        quantiles.filter(numbers).filter(|q| q.max > 0.0).ok_or_else(|| lacks(what))
    };
    Ok(Seen {
        way,
        flight: known(way.flight_bytes, "the bytes in flight are not known")?,
        window: known(way.window_bytes, "the window offered is not known")?,
        rtt: known(way.rtt_ms, "no acknowledgement's round trip is known: capture at the sender")?,
    })
}

/// Bytes for each acknowledgement that acknowledged something new.
fn clump_bytes(way: &Way) -> f64 {
    way.segments_per_acknowledgement * way.packet_bytes
}

fn of_pair(entries: &[Entry], small: usize, tenfold: usize) -> Result<Finding, Missing> {
    let few = seen(entries[small].capture(), "small")?;
    let many = seen(entries[tenfold].capture(), "tenfold")?;
    let used = few.flight.max / few.window.max;
    let (clump, other_clump) = (clump_bytes(few.way), clump_bytes(many.way));
    let full = f64::from(few.way.largest_packet_bytes).clamp(1.0, FULL_PACKET_BYTES);
    let holds = few.flight.median <= many.flight.median * FLIGHT_MAX
        && few.flight.max <= many.flight.max * FLIGHT_MAX
        && used >= WINDOW_USED_MIN
        && few.rtt.median <= few.rtt.min * RTT_OVER_LEAST_MAX
        && clump <= full * CLUMP_MAX
        && clump <= other_clump * CLUMP_RATIO_MAX;
    let bytes = |value: f64| words::bytes(value as u64);
    let numbers = format!(
        "in flight {}, at most {} ({} of the window of {}), against {}, at most {}; ACK round trip {} (least {}) against {}; an ACK for {} bytes against {}",
        bytes(few.flight.median),
        bytes(few.flight.max),
        words::percent(used),
        bytes(few.window.max),
        bytes(many.flight.median),
        bytes(many.flight.max),
        words::time_ms(few.rtt.median),
        words::time_ms(few.rtt.min),
        words::time_ms(many.rtt.median),
        words::number(clump),
        words::number(other_clump),
    );
    Ok(Finding::of_captures(entries, [small, tenfold], holds, numbers))
}
