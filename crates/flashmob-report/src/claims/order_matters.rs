//! C11: the same addresses in ascending and in random order (`sort`, `shuffle`) are not read equally fast.
//!
//! Same block, threads, range, cache and scheduler: the medians differ by more than 10 %, beyond the spread. In either direction: the
//! claim is that order matters.

use flashmob_results::disk::Point;

use super::{Definition, Finding, each_set, on_phone, rate, sets};
use crate::entry::Setting;
use crate::stats::Comparison;
use crate::words;

pub(super) const CLAIM: Definition = Definition {
    id: "C11",
    source: "P3, Fig. 2",
    words: "The same addresses sorted and shuffled are not read equally fast: order matters on flash too.",
    short: "The order of addresses matters",
    criterion: "The medians of sort and shuffle differ by more than 10 %, beyond the spread.",
    command: "flashmob bench disk FILE --preset p3-order",
    on_phone: on_phone::P3,
    judge: |entries| each_set(entries, sets::orders, judged),
    ..Definition::DEVICE
};

fn judged(entry: usize, group: &[Option<&Point>; 3]) -> Option<(String, Finding)> {
    let [Some(sort), Some(shuffle), _] = *group else { return None };
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
    let p = &sort.parameters;
    let setting = format!("{}, {}, {}", words::bytes(p.block_bytes), words::threads(p.threads), Setting::of(p).words());
    Some((setting, Finding::of(entry, comparison.differ, numbers, &[sort, shuffle])))
}
