//! C3: below the file system's block of 4 KiB, a smaller read gives no more reads each second.
//!
//! Every rate of a smaller block is at most 15 % above that of 4,096 bytes at equal threads (medians): the page is what is
//! fetched, so the rates should be equal, and 15 % is what lines of equal work wander by in the paper's figures. A smaller read that is
//! slower does not contradict the claim. Through O_DIRECT the kernel fetches what was asked for, which is another question: judged
//! apart.

use flashmob_results::disk::Point;

use super::{Definition, Finding, each_set, on_phone, rate};
use crate::entry::Entry;
use crate::words;

const FILESYSTEM_BLOCK_BYTES: u64 = 4_096;
const ABOVE_MAX: f64 = 0.15;

pub(super) const CLAIM: Definition = Definition {
    id: "C3",
    source: "P1, Fig. 1 and 2",
    words: "Below 4 KiB, the file system's block, a smaller read gives no more reads per second.",
    short: "No gain below 4 KiB",
    criterion: "At equal threads, no block size below 4 KiB does more than 1.15 times the reads of 4 KiB.",
    command: "flashmob bench disk FILE --preset p1",
    on_phone: on_phone::P1,
    judge: |entries| {
        each_set(entries, Entry::random_reads, |at, (setting, points)| Some((setting.words(), judged(at, points)?)))
    },
    ..Definition::DEVICE
};

fn judged(entry: usize, points: &[&Point]) -> Option<Finding> {
    let full: Vec<&Point> =
        points.iter().copied().filter(|p| p.parameters.block_bytes == FILESYSTEM_BLOCK_BYTES).collect();
    let pairs: Vec<(&Point, &Point)> = points
        .iter()
        .copied()
        .filter(|p| p.parameters.block_bytes < FILESYSTEM_BLOCK_BYTES)
        .filter_map(|small| full.iter().find(|f| f.parameters.threads == small.parameters.threads).map(|f| (small, *f)))
        .collect();
    let ratio = |(small, full): &(&Point, &Point)| rate(small) / rate(full);
    let highest = pairs.iter().max_by(|x, y| ratio(x).total_cmp(&ratio(y)))?;
    let above = pairs.iter().filter(|pair| ratio(pair) > 1.0 + ABOVE_MAX).count();
    let numbers = format!(
        "{}; highest ratio {}: {}/s at {} against {}/s at 4 KiB with {}",
        if above == 0 {
            format!("{} compared", words::plural(pairs.len() as u64, "pair"))
        } else {
            format!("above the limit in {above} of {} pairs", pairs.len())
        },
        words::number(ratio(highest)),
        words::number(rate(highest.0)),
        words::bytes(highest.0.parameters.block_bytes),
        words::number(rate(highest.1)),
        words::threads(highest.0.parameters.threads),
    );
    let used: Vec<&Point> = pairs.iter().flat_map(|(a, b)| [*a, *b]).collect();
    Some(Finding::of(entry, above == 0, numbers, &used))
}
