//! C10: sequential reads are far faster than random ones (readahead, merging).
//!
//! Reads of 4 KiB by one thread, same range, cache and scheduler: sequential ones carry at least twice the bytes of random ones,
//! beyond the spread. The paper's are 4 to 10 times as fast; twice is the least that one would call "far".

use flashmob_results::disk::Point;

use super::{Definition, Finding, each_set, on_phone, sets};
use crate::entry::Setting;
use crate::stats::Comparison;
use crate::words;

const RATIO_MIN: f64 = 2.0;

pub(super) const CLAIM: Definition = Definition {
    id: "C10",
    source: "P3, Fig. 1",
    words: "Sequential reads are far faster than random ones.",
    short: "Sequential far faster than random",
    criterion: "4 KiB, one thread: sequential reads carry at least twice the bytes per second of random ones, beyond the spread.",
    command: "flashmob bench disk FILE --preset p3-basic",
    on_phone: on_phone::P3,
    judge: |entries| each_set(entries, sets::sequential_and_random, judged),
    ..Definition::DEVICE
};

fn judged(entry: usize, &(sequential, random): &(&Point, &Point)) -> Option<(String, Finding)> {
    // Blocks are equal, so the ratio of requests is that of bytes.
    let comparison = Comparison::of(sequential, random);
    let numbers = format!(
        "sequential {}, random {}: {} times as fast{}",
        words::bytes_per_second(sequential.summary.bytes_per_second.median),
        words::bytes_per_second(random.summary.bytes_per_second.median),
        words::number(comparison.ratio),
        if comparison.ratio >= RATIO_MIN && !comparison.differ { ", but within the spread" } else { "" },
    );
    let holds = comparison.first_is_faster() && comparison.ratio >= RATIO_MIN;
    let setting = Setting::of(&sequential.parameters).words();
    Some((setting, Finding::of(entry, holds, numbers, &[sequential, random])))
}
