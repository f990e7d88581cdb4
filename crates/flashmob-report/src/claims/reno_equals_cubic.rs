//! C15: reno and cubic do not differ visibly, and loss lowers both where the round trip is long.
//!
//! One TCP connection, the way whose receiver has the largest receive maximum that was measured: where a small window holds TCP back, no
//! congestion control has a say. Without loss, at every round-trip time that both were measured at: medians within 10 %, or repetitions that do not lie
//! apart (what a reader sees in a figure with whiskers). With loss, the most that was measured: the ratio of the two, geometric mean over the round-trip
//! times, within 25 %; single points say little, because over a long round trip a handful of lost packets decides a run of some seconds, so each
//! has three repetitions or more. And at the
//! greatest round-trip time, 16 ms or more, loss leaves at most three quarters of each. bbr is shown where it was measured; the paper did not have it.

use flashmob_results::disk::Spread;
use flashmob_results::net::{Direction, Point};

use super::networks::{Groups, common_rtts, each, high, speed};
use super::{Definition, Finding, Missing};
use crate::groups::grouped;
use crate::stats::{DIFFERENCE_MIN, apart};
use crate::ways::{self, RttSeries, Setting};
use crate::words;

const LOSSY_RATIO_MAX: f64 = 1.25;
const LEFT_BY_LOSS_MAX: f64 = 0.75;
/// With loss a run of some seconds is decided by a handful of packets: a median of fewer repetitions is one of them.
const REPETITIONS_MIN: usize = 3;

pub(super) const CLAIM: Definition = Definition {
    id: "C15",
    source: "P4, Fig. 9, 10",
    words: "reno and cubic do not differ visibly here; loss at a long round trip lowers both.",
    short: "reno ≈ cubic; loss lowers both",
    criterion: "One TCP connection: without loss reno and cubic within 10 %, three repetitions or more everywhere, or not apart from their repetitions' spread, at every RTT; with loss within 25 % of each other on average over the RTTs; at the greatest RTT (16 ms or more) loss leaves three quarters or less of each.",
    paper: "no visible difference; both fall with loss at a high RTT (no figures in the text)",
    judge: |entries| each(entries, judged),
    ..Definition::NETWORK
};

fn judged(ways: &[&RttSeries]) -> Result<Groups, Missing> {
    let has = |name: &str| ways.iter().any(|w| w.setting.congestion.as_deref() == Some(name));
    for name in ["reno", "cubic"] {
        if !has(name) {
            return Err(format!("{name} was not measured over several round-trip times").into());
        }
    }
    let bare = |w: &&RttSeries| Setting { congestion: None, loss_percent: 0.0, ..w.setting.clone() };
    let groups = grouped(ways.iter().copied(), bare);
    let mut kept = Vec::new();
    for direction in [Direction::Up, Direction::Down] {
        let both = groups.iter().filter(|(s, group)| s.direction == direction && named(group, "reno", 0.0).is_some());
        let largest = both.clone().map(|(s, _)| s.receive_max_bytes()).max();
        kept.extend(both.filter(|(s, _)| Some(s.receive_max_bytes()) == largest));
    }
    if kept.is_empty() {
        return Err("reno was not measured without loss".into());
    }
    let of = |(setting, group): &(Setting, Vec<&RttSeries>)| {
        let maxima = setting.maxima_words();
        let words = [format!("data {}", setting.direction), maxima].into_iter().filter(|w| !w.is_empty());
        (words.collect::<Vec<_>>().join(", "), of_group(group))
    };
    Ok(kept.into_iter().map(of).collect())
}

fn named<'a, 'b>(group: &[&'b RttSeries<'a>], name: &str, loss: f64) -> Option<&'b RttSeries<'a>> {
    group.iter().copied().find(|w| {
        w.setting.congestion.as_deref() == Some(name) && w.setting.loss_percent.max(0.0).total_cmp(&loss).is_eq()
    })
}

fn of_group(group: &[&RttSeries]) -> Result<Finding, Missing> {
    let of = |name: &str, loss: f64| {
        named(group, name, loss)
            .ok_or_else(|| format!("{name} with {} % loss was not measured as the other was", words::number(loss)))
    };
    let losses = group.iter().map(|w| w.setting.loss_percent).filter(|loss| *loss > 0.0);
    let loss = losses.fold(0.0, f64::max);
    if loss <= 0.0 {
        return Err("nothing was measured with loss".into());
    }
    let (reno, cubic) = (of("reno", 0.0)?, of("cubic", 0.0)?);
    let (lossy_reno, lossy_cubic) = (of("reno", loss)?, of("cubic", loss)?);
    let all = [reno, cubic, lossy_reno, lossy_cubic];
    let rtts = common_rtts(&all);
    let nothing = || "reno and cubic were not measured at the same round-trip times with loss and without".to_string();
    let greatest = high(*rtts.last().ok_or_else(nothing)?)?;

    let ratio = |a: &RttSeries, b: &RttSeries, rtt: f64| Some(a.at(rtt)?.rate.median / b.at(rtt)?.rate.median);
    let ratios = Spread::of(rtts.iter().filter_map(|rtt| ratio(cubic, reno, *rtt)));
    let differing: Vec<String> =
        rtts.iter().filter(|rtt| differ(cubic, reno, **rtt)).map(|rtt| words::time_ms(*rtt)).collect();
    let logs: Vec<f64> = rtts.iter().filter_map(|rtt| Some(ratio(lossy_cubic, lossy_reno, *rtt)?.ln())).collect();
    let mean = (logs.iter().sum::<f64>() / logs.len().max(1) as f64).exp();
    let left = [ratio(lossy_reno, reno, greatest), ratio(lossy_cubic, cubic, greatest)].map(|r| r.unwrap_or(f64::NAN));

    let holds = differing.is_empty()
        && mean.max(mean.recip()) <= LOSSY_RATIO_MAX
        && left.iter().all(|part| *part <= LEFT_BY_LOSS_MAX);
    let (low, high) = (ratios.min, ratios.max);
    let without = if differing.is_empty() {
        format!(
            "without loss cubic does {} to {} of reno at {}",
            words::percent(low),
            words::percent(high),
            words::plural(rtts.len() as u64, "RTT")
        )
    } else {
        format!(
            "without loss they differ at RTT {} (cubic {} to {} of reno)",
            words::list(&differing),
            words::percent(low),
            words::percent(high)
        )
    };
    let numbers = format!(
        "{without}; with {} % loss {} on average; at RTT {} loss leaves {} of reno and {} of cubic{}",
        words::number(loss),
        words::percent(mean),
        words::time_ms(greatest),
        words::percent(left[0]),
        words::percent(left[1]),
        third(group, loss, greatest),
    );
    let points: Vec<&Point> = all.iter().flat_map(|w| rtts.iter().filter_map(|rtt| Some(w.at(*rtt)?.point))).collect();
    Ok(Finding::of_net_needing(REPETITIONS_MIN, &[reno.entry], holds, numbers, &points))
}

/// Medians and repetitions are apart.
fn differ(a: &RttSeries, b: &RttSeries, rtt: f64) -> bool {
    let (Some(first), Some(second)) = (a.at(rtt), b.at(rtt)) else { return false };
    let ratio = first.rate.median / second.rate.median;
    let rates = |way: &RttSeries, point| ways::rates(point, way.setting.direction);
    ratio.max(ratio.recip()) > 1.0 + DIFFERENCE_MIN && apart(&rates(a, first.point), &rates(b, second.point))
}

/// The throughput of bbr.
fn third(group: &[&RttSeries], loss: f64, rtt: f64) -> String {
    let at = |loss: f64| named(group, "bbr", loss)?.at(rtt);
    match (at(0.0), at(loss)) {
        (Some(without), Some(with)) => {
            format!(
                "; bbr there, which the paper did not have: {} without, {} with loss",
                speed(&without),
                speed(&with)
            )
        }
        _ => String::new(),
    }
}
