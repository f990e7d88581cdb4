//! C10: sequential reads are far faster than random ones (readahead, merging).
//!
//! Reads of 4 KiB by one thread, same range, cache and scheduler: sequential ones carry at least twice the bytes of random ones,
//! beyond the spread. The paper's are 4 to 10 times as fast; twice is the least that one would call "far".

use flashmob_results::disk::Point;

use super::{Claim, Finding, Subject, sets, tell_apart};
use crate::entry::{Entry, Setting};
use crate::stats::Comparison;
use crate::words;

const RATIO_MIN: f64 = 2.0;

pub(super) fn claim(entries: &[Entry]) -> Claim {
    let mut findings = Vec::new();
    for (at, entry) in entries.iter().enumerate() {
        for (sequential, random) in sets::sequential_and_random(entry) {
            let setting = Setting::of(&sequential.parameters).words();
            findings.push((setting, judged(at, sequential, random)));
        }
    }
    Claim {
        subject: Subject::Device,
        id: "C10",
        source: "P3, Fig. 1",
        words: "Sequential reads are far faster than random ones.",
        short: "Sequential far faster than random",
        criterion: "4 KiB, one thread: sequential reads carry at least twice the bytes per second of random ones, beyond the spread.",
        paper: "",
        command: "flashmob bench disk FILE --preset p3-basic",
        measured_on: "",
        findings: tell_apart(findings),
        without: Vec::new(),
        lacking: Vec::new(),
    }
}

fn judged(entry: usize, sequential: &Point, random: &Point) -> Finding {
    // Blocks are equal, so the ratio of requests is that of bytes.
    let comparison = Comparison::of(sequential, random);
    let numbers = format!(
        "sequential {}, random {}: {} times as fast{}",
        words::bytes_per_second(sequential.summary.bytes_per_second.median),
        words::bytes_per_second(random.summary.bytes_per_second.median),
        words::number(comparison.ratio),
        if comparison.ratio >= RATIO_MIN && !comparison.differ { ", but within the spread" } else { "" },
    );
    Finding::of(entry, comparison.first_is_faster() && comparison.ratio >= RATIO_MIN, numbers, &[sequential, random])
}
