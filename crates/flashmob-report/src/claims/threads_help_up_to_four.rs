//! C2: random reads grow with threads up to about four, and then stay flat.
//!
//! For each block size with rates at 1, 4 and more threads, of which at least one is 8 or more: the rate at 4 is at least 1.5 times that at
//! 1 (the paper's is 2 to 3 times; half of that growth is still growth), and every rate at more than 4 threads is within 20 % of that
//! at 4 (the paper's lines wander by about as much). It is about tablets: Android devices, and models of their flash. A device whose rate grows on, because it has more channels than
//! four threads can use, fails it: the numbers say up to which thread count it grows.

use flashmob_results::disk::{Point, Spread};

use super::{Definition, Finding, Judged, each_set, on_phone, rate};
use crate::entry::{Entry, Medium};
use crate::words;

const KNEE_THREADS: u32 = 4;
const BEYOND_THREADS: u32 = 8;
const GROWTH_MIN: f64 = 1.5;
const FLAT_WITHIN: f64 = 0.20;

pub(super) const CLAIM: Definition = Definition {
    id: "C2",
    source: "P1, Fig. 1",
    words: "Random reads grow with threads up to about 4, then stay flat.",
    short: "Reads grow up to 4 threads",
    criterion: "At every block size, 4 threads do at least 1.5 times the reads of 1, and every rate above 4 threads is within 20 % of that at 4.",
    paper: "ceiling about 2,100/s from 4 threads on",
    command: "flashmob bench disk FILE --preset p1",
    on_phone: on_phone::P1,
    judge: |entries| {
        let all = each_set(entries, Entry::random_reads, |at, (setting, points)| {
            let finding = entries.get(at).filter(|entry| is_tablet(entry)).and_then(|_| judged(at, points))?;
            Some((setting.words(), finding))
        });
        let others = (0..entries.len()).filter(|at| entries[*at].is_device() && !is_tablet(&entries[*at]));
        Judged {
            missing: others.map(|at| (at, "the claim is about tablets, and this is none".into())).collect(),
            ..all
        }
    },
    ..Definition::DEVICE
};

/// An Android device, or a model of flash.
fn is_tablet(entry: &Entry) -> bool {
    entry.is_android() || (entry.model().is_some() && entry.medium() == Medium::Flash)
}

/// One line of the figure: the rates of a block size over threads.
struct Line<'a> {
    points: Vec<&'a Point>,
    growth: f64,
    /// Rates above 4 threads, as parts of that at 4.
    beyond: Spread,
}

impl Line<'_> {
    fn holds(&self) -> bool {
        self.growth >= GROWTH_MIN && self.beyond.min >= 1.0 - FLAT_WITHIN && self.beyond.max <= 1.0 + FLAT_WITHIN
    }

    /// How far the line is from what the claim says; 0 if not at all.
    fn excess(&self) -> f64 {
        (GROWTH_MIN / self.growth).max(self.beyond.max / (1.0 + FLAT_WITHIN)).max((1.0 - FLAT_WITHIN) / self.beyond.min)
    }

    /// The fewest threads beyond which no rate is more than 20 % higher.
    fn grows_to(&self) -> u32 {
        let flat =
            |at: &usize| self.points[*at..].iter().all(|p| rate(p) <= rate(self.points[*at]) * (1.0 + FLAT_WITHIN));
        (0..self.points.len()).find(flat).map_or(0, |at| self.points[at].parameters.threads)
    }

    fn words(&self) -> String {
        let (block, last) = (self.points[0].parameters.block_bytes, self.points[self.points.len() - 1]);
        let at = |threads| self.points.iter().find(|p| p.parameters.threads == threads).map_or(0.0, |p| rate(p));
        format!(
            "{}: {}/s with 1 thread, {}/s with 4 ({} times as many), {}/s with {}; grows up to {}",
            words::bytes(block),
            words::number(at(1)),
            words::number(at(KNEE_THREADS)),
            words::number(self.growth),
            words::number(rate(last)),
            last.parameters.threads,
            words::threads(self.grows_to()),
        )
    }
}

fn judged(entry: usize, points: &[&Point]) -> Option<Finding> {
    let lines: Vec<Line> =
        points.chunk_by(|a, b| a.parameters.block_bytes == b.parameters.block_bytes).filter_map(line).collect();
    let worst = lines.iter().max_by(|a, b| a.excess().total_cmp(&b.excess()))?;
    let failing: Vec<String> =
        lines.iter().filter(|l| !l.holds()).map(|l| words::bytes(l.points[0].parameters.block_bytes)).collect();
    let numbers = match (lines.len(), failing.len()) {
        (1, _) => worst.words(),
        (all, 0) => format!("all of {all} block sizes; nearest to the limits {}", worst.words()),
        (all, failed) if all == failed => format!("none of {all} block sizes; farthest {}", worst.words()),
        (all, _) => format!("not at {} (of {all} block sizes); farthest {}", words::list(&failing), worst.words()),
    };
    let used: Vec<&Point> = lines.iter().flat_map(|l| l.points.iter().copied()).collect();
    Some(Finding::of(entry, failing.is_empty(), numbers, &used))
}

fn line<'a>(points: &[&'a Point]) -> Option<Line<'a>> {
    let at = |threads| points.iter().find(|p| p.parameters.threads == threads).map(|p| rate(p));
    let (one, four) = (at(1)?, at(KNEE_THREADS)?);
    points.iter().find(|p| p.parameters.threads >= BEYOND_THREADS)?;
    let beyond = points.iter().filter(|p| p.parameters.threads > KNEE_THREADS).map(|p| rate(p) / four);
    Some(Line { points: points.to_vec(), growth: four / one, beyond: Spread::of(beyond) })
}
