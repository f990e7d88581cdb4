//! C11: the same addresses in ascending and in random order (`sort`, `shuffle`) are not read equally fast.
//!
//! Same block, threads, range, cache and scheduler: the medians differ by more than 10 %, beyond the spread. In either direction: the
//! claim is that order matters.

use flashmob_results::disk::Point;

use super::{Claim, Finding, Subject, rate, sets, tell_apart};
use crate::entry::{Entry, Setting};
use crate::stats::Comparison;
use crate::words;

pub(super) fn claim(entries: &[Entry]) -> Claim {
    let mut findings = Vec::new();
    for (at, entry) in entries.iter().enumerate() {
        for group in sets::orders(entry) {
            if let [Some(sort), Some(shuffle), _] = group {
                let p = &sort.parameters;
                let setting = format!(
                    "{}, {}, {}",
                    words::bytes(p.block_bytes),
                    words::threads(p.threads),
                    Setting::of(p).words()
                );
                findings.push((setting, judged(at, sort, shuffle)));
            }
        }
    }
    Claim {
        subject: Subject::Device,
        id: "C11",
        source: "P3, Fig. 2",
        words: "The same addresses sorted and shuffled are not read equally fast: order matters on flash too.",
        short: "The order of addresses matters",
        criterion: "The medians of sort and shuffle differ by more than 10 %, beyond the spread.",
        paper: "",
        command: "flashmob bench disk FILE --preset p3-order",
        measured_on: "",
        findings: tell_apart(findings),
        without: Vec::new(),
        lacking: Vec::new(),
    }
}

fn judged(entry: usize, sort: &Point, shuffle: &Point) -> Finding {
    let comparison = Comparison::of(sort, shuffle);
    let numbers = format!(
        "sort {}/s, {} each, shuffle {}/s, {} each: {} times as fast{}",
        words::number(rate(sort)),
        words::time_ns(1e9 / rate(sort)),
        words::number(rate(shuffle)),
        words::time_ns(1e9 / rate(shuffle)),
        words::number(comparison.ratio),
        if comparison.differ { "" } else { ", which is within 10 % or within the spread" },
    );
    Finding::of(entry, comparison.differ, numbers, &[sort, shuffle])
}
