//! C17: it is the receive buffer's maximum that holds the throughput back; with a larger one it no longer falls with the round trip.
//!
//! One TCP connection without loss to the same end, once with a small receive maximum and once with at least four times that (P4: ten times), in one result or in
//! two, at the same round-trip times. With the small one throughput stays under window / RTT everywhere (the RTT that was added; 5 % more are tolerated: see
//! `ABOVE_BOUND_MAX`), and reaches 90 % of it wherever that binds, by the RTT that TCP itself measured there, which has the packets' own time on the
//! path in it. It binds where window / RTT is at most three quarters of what the larger maximum carries at the least RTT: closer to that, queue and window
//! share the blame. The greatest RTT (16 ms or more) must be such a place. With the larger maximum at least three quarters are left there of what arrives
//! at the least RTT. A window is used in whole packets, and acknowledged every second: a tenth is what that costs windows of ten packets and more.

use super::networks::{ABOVE_BOUND_MAX, KEPT_MIN, common_rtts, high, is_like_p4, much_smaller, speed, window};
use super::{Definition, Finding, Judged, Missing, tell_apart};
use crate::entry::Entry;
use crate::ways::{self, RttSeries, bound_bits_per_second, measured_rtt_ms};
use crate::words;

const BINDS_MAX: f64 = 0.75;
const REACHED_MIN: f64 = 0.90;

pub(super) const CLAIM: Definition = Definition {
    id: "C17",
    source: "P4, Table 2, Fig. 15",
    words: "The cause is the receive buffer's maximum: with a larger one throughput no longer falls with the round trip.",
    short: "The receive maximum is the cause",
    criterion: "One TCP connection without loss, receiving with a small maximum and with one at least four times that: the small one stays under window / RTT at every RTT and reaches 90 % of it where that binds, as it does at the greatest (16 ms or more); the larger one keeps three quarters or more from the least RTT to the greatest.",
    paper: "with a maximum ten times as large throughput no longer falls (no figures in the text)",
    judge: judged,
    ..Definition::NETWORK
};

fn judged(entries: &[Entry]) -> Judged {
    let mut judged = Judged::default();
    let mut found = Vec::new();
    let all = ways::all(entries);
    let like: Vec<&RttSeries> = all.iter().filter(|w| is_like_p4(w) && w.setting.loss_percent <= 0.0).collect();
    let mut missing: Vec<(usize, Missing)> = Vec::new();
    for small in &like {
        let Some(large) = larger(small, &like) else { continue };
        match of_pair(small, large) {
            Ok(finding) => {
                let (setting, max) = (&small.setting, small.setting.receive_max_bytes());
                let congestion = setting.congestion_words();
                let words =
                    format!("data {}, congestion control {congestion}, {}", setting.direction, words::bytes(max));
                found.push((words, finding));
            }
            Err(what) => missing.extend([small.entry, large.entry].map(|entry| (entry, what.clone()))),
        }
    }
    for at in (0..entries.len()).filter(|at| entries[*at].net().is_some()) {
        if found.iter().any(|(_, f)| f.entries.contains(&at)) {
            continue;
        }
        let what = missing.iter().find(|(entry, _)| *entry == at).map(|(_, what)| what.clone());
        let nothing = "receiving at one end over several round-trip times was not measured with two receive maxima, one at least four times the other";
        judged.missing.push((at, what.unwrap_or_else(|| nothing.into())));
    }
    judged.findings = tell_apart(found);
    judged
}

/// The same with a larger maximum: of the same result if there is one, and the one closest to ten times as large.
fn larger<'a, 'b>(small: &RttSeries, all: &[&'b RttSeries<'a>]) -> Option<&'b RttSeries<'a>> {
    let max = small.setting.receive_max_bytes();
    let far = |way: &RttSeries| (way.setting.receive_max_bytes() as f64 / max as f64 / 10.0).ln().abs();
    let others = all.iter().copied().filter(|way| {
        way.setting.direction == small.setting.direction
            && way.setting.alike(&small.setting)
            && much_smaller(max, way.setting.receive_max_bytes())
    });
    others.min_by(|a, b| (a.entry != small.entry).cmp(&(b.entry != small.entry)).then(far(a).total_cmp(&far(b))))
}

fn of_pair(small: &RttSeries, large: &RttSeries) -> Result<Finding, Missing> {
    let rtts = common_rtts(&[small, large]);
    let nothing = || "the two receive maxima were not measured at the same round-trip times".to_string();
    let (least, greatest) = rtts.first().zip(rtts.last()).ok_or_else(nothing)?;
    let greatest = high(*greatest)?;
    let (near, far) = large.at(*least).zip(large.at(greatest)).ok_or_else(nothing)?;
    let mut points = vec![near.point, far.point];
    let (mut reached, mut above): (Vec<f64>, Vec<f64>) = (Vec::new(), Vec::new());
    let mut binds_last = false;
    for rtt in &rtts {
        let place = small.at(*rtt).ok_or_else(nothing)?;
        points.push(place.point);
        let offered = window(small, &place)?;
        let Some(bound) = bound_bits_per_second(offered, *rtt) else { continue };
        above.push(place.rate.median / bound);
        binds_last = bound <= near.rate.median * BINDS_MAX;
        if binds_last {
            let rtt_ms = measured_rtt_ms(place.point, small.setting.direction).unwrap_or(*rtt);
            reached.push(place.rate.median / bound_bits_per_second(offered, rtt_ms).unwrap_or(bound));
        }
    }
    if !binds_last {
        return Err(
            "even at the greatest round-trip time the small receive maximum's window lets nearly all through".into()
        );
    }
    let highest = above.iter().copied().fold(0.0, f64::max);
    let lowest = reached.iter().copied().fold(f64::INFINITY, f64::min);
    let kept = far.rate.median / near.rate.median;
    let holds = highest <= ABOVE_BOUND_MAX && lowest >= REACHED_MIN && kept >= KEPT_MIN;
    let last = small.at(greatest).ok_or_else(nothing)?;
    let numbers = format!(
        "receive maximum {}: at most {} of window / RTT, and {} of it or more at the {} where it binds, {} at RTT {}; {}: {} at RTT {}, {} at {}: {} is left",
        words::bytes(small.setting.receive_max_bytes()),
        words::percent(highest),
        words::percent(lowest),
        words::plural(reached.len() as u64, "RTT"),
        speed(&last),
        words::time_ms(greatest),
        words::bytes(large.setting.receive_max_bytes()),
        speed(&near),
        words::time_ms(*least),
        speed(&far),
        words::time_ms(greatest),
        words::percent(kept),
    );
    let mut entries = vec![small.entry, large.entry];
    entries.dedup();
    Ok(Finding::of_net(&entries, holds, numbers, &points))
}
