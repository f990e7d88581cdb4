//! Points that P3 sets against each other: found by their parameters, for the claims and for the figures.

use flashmob_results::disk::{Operation, Pattern, Point};

use crate::entry::{Entry, Setting};
use crate::groups::grouped;

/// DEADLINE's names, then and now.
pub(crate) const DEADLINE: [&str; 2] = ["mq-deadline", "deadline"];

/// Block size of P3's sequential and random reads.
const BASIC_BLOCK_BYTES: u64 = 4_096;

/// Sequential and random reads of 4 KiB by one thread, otherwise alike.
pub(crate) fn sequential_and_random(entry: &Entry) -> Vec<(&Point, &Point)> {
    let of = |pattern| {
        entry.reads().filter(move |p| {
            p.parameters.pattern == pattern
                && p.parameters.block_bytes == BASIC_BLOCK_BYTES
                && p.parameters.threads == 1
        })
    };
    of(Pattern::Sequential)
        .filter_map(|s| {
            of(Pattern::Random).find(|r| Setting::of(&r.parameters) == Setting::of(&s.parameters)).map(|r| (s, r))
        })
        .collect()
}

/// `sort`, `shuffle` and `rand` reads that are otherwise alike; at least one of the first two is there.
pub(crate) fn orders(entry: &Entry) -> Vec<[Option<&Point>; 3]> {
    let mut groups: Vec<[Option<&Point>; 3]> = Vec::new();
    for (nth, pattern) in [Pattern::Sort, Pattern::Shuffle, Pattern::Rand].into_iter().enumerate() {
        for point in entry.reads().filter(|p| p.parameters.pattern == pattern) {
            let of = |other: &Point| {
                let (a, b) = (&point.parameters, &other.parameters);
                (a.block_bytes, a.threads) == (b.block_bytes, b.threads) && Setting::of(a) == Setting::of(b)
            };
            match groups.iter_mut().find(|group| group.iter().flatten().any(|other| of(other))) {
                Some(group) => group[nth] = group[nth].or(Some(point)),
                None => {
                    let mut group = [None; 3];
                    group[nth] = Some(point);
                    groups.push(group);
                }
            }
        }
    }
    groups.retain(|group| group[0].is_some() || group[1].is_some());
    groups
}

/// Random reads with at least two schedulers and otherwise alike.
pub(crate) fn schedulers(entry: &Entry) -> Vec<Vec<&Point>> {
    let random = |p: &&Point| {
        matches!(p.parameters.pattern, Pattern::Random | Pattern::Rand) && p.parameters.scheduler.is_some()
    };
    let mut groups = by_scheduler(entry.reads().filter(random));
    groups.retain(|group| group.len() > 1);
    groups
}

/// Reads in random order whose commands were seen, in groups within which only the scheduler differs. A depth above 1 counts here: what is looked at is
/// the device.
pub(crate) fn stepping(entry: &Entry) -> Vec<Vec<&Point>> {
    let of = |p: &&Point| {
        p.parameters.operation == Operation::Read
            && matches!(p.parameters.pattern, Pattern::Random | Pattern::Shuffle | Pattern::Rand)
            && p.commands.is_some()
    };
    by_scheduler(entry.points().iter().filter(of))
}

fn by_scheduler<'a>(points: impl Iterator<Item = &'a Point>) -> Vec<Vec<&'a Point>> {
    let groups = grouped(points, |point| {
        let p = &point.parameters;
        (p.pattern, p.block_bytes, p.threads, p.depth, p.cache, p.range_bytes)
    });
    // Measured twice under one scheduler: the first counts.
    let once = |(_, points)| grouped(points, |p: &&Point| &p.parameters.scheduler).into_iter().map(|(_, p)| p[0]);
    groups.into_iter().map(|group| once(group).collect()).collect()
}
