//! C12: DEADLINE beats CFQ and NOOP.
//!
//! Today's kernels have `mq-deadline`, `bfq` (CFQ's successor) and `none` (NOOP), and `kyber` besides. Random reads with several schedulers and
//! otherwise equal parameters: mq-deadline is faster than every other that was measured, by more than 10 % and the spread. The
//! mechanism that P3 found is told where it was counted and is no part of the criterion: more steps upward in the address.

use flashmob_results::disk::Point;

use super::{Definition, Finding, each_set, on_phone, rate, sets};
use crate::stats::Comparison;
use crate::words;

pub(super) const CLAIM: Definition = Definition {
    id: "C12",
    source: "P3, Fig. 3",
    words: "The DEADLINE scheduler (now mq-deadline) beats CFQ (now bfq) and NOOP (now none).",
    short: "DEADLINE is the fastest scheduler",
    criterion: "mq-deadline does more than 1.1 times the random reads of every other scheduler that was measured, beyond the spread.",
    command: "flashmob bench disk FILE --preset p3-scheduler",
    measured_on: " as root, on a disk with schedulers",
    on_phone: on_phone::P3_AS_ROOT,
    judge: |entries| each_set(entries, sets::schedulers, judged),
    ..Definition::DEVICE
};

fn name(point: &Point) -> &str {
    point.parameters.scheduler.as_deref().unwrap_or_default()
}

fn judged(entry: usize, group: &Vec<&Point>) -> Option<(String, Finding)> {
    let deadline = group.iter().find(|p| sets::DEADLINE.contains(&name(p)))?;
    let others: Vec<&Point> = group.iter().copied().filter(|p| !sets::DEADLINE.contains(&name(p))).collect();
    if others.is_empty() {
        return None;
    }
    let unbeaten: Vec<String> = others
        .iter()
        .filter(|other| !Comparison::of(deadline, other).first_is_faster())
        .map(|other| words::plain(name(other), 24))
        .collect();
    let reason = if unbeaten.is_empty() {
        String::new()
    } else {
        format!("; mq-deadline is not faster than {} by 10 % and the spread", words::list(&unbeaten))
    };
    let rates: Vec<String> =
        group.iter().map(|p| format!("{} {}/s", words::plain(name(p), 24), words::number(rate(p)))).collect();
    let numbers = format!("{}{reason}{}", words::list(&rates), mechanism(deadline, &others));
    let p = &group[0].parameters;
    let range = words::bytes(p.range_bytes);
    let setting = format!("{}, {}, range {range}", words::bytes(p.block_bytes), words::threads(p.threads));
    Some((setting, Finding::of(entry, unbeaten.is_empty(), numbers, group)))
}

/// The mean fraction of steps upward over the repetitions; absent for real disks.
fn upward(point: &Point) -> Option<f64> {
    let known: Vec<f64> =
        point.repetitions.iter().filter_map(|r| r.upward_fraction).filter(|f| f.is_finite()).collect();
    (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
}

fn mechanism(deadline: &Point, others: &[&Point]) -> String {
    let Some(of_deadline) = upward(deadline) else { return String::new() };
    let known: Vec<(&str, f64)> = others.iter().filter_map(|p| upward(p).map(|f| (name(p), f))).collect();
    let percent = |f: f64| format!("{}\u{a0}%", words::number(f * 100.0));
    let rest: Vec<String> =
        known.iter().map(|(name, f)| format!("{} {}", words::plain(name, 24), percent(*f))).collect();
    if rest.is_empty() {
        return String::new();
    }
    let more = known.iter().all(|(_, f)| of_deadline > *f);
    let verdict =
        if more { "more than under every other, as P3 found" } else { "not more than under every other, unlike P3" };
    format!(". Steps upward in the address: mq-deadline {}, {} ({verdict})", percent(of_deadline), words::list(&rest))
}
