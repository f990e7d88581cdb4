//! P3's figures 1 to 3: a few ways to read, side by side as bars.

use flashmob_results::disk::{Point, Spread};

use super::{Place, Section, hollow, linear_scales, repetitions};
use crate::claims::sets as measured;
use crate::entry::{Entry, Setting, is_doubtful};
use crate::figure::bars::{Bar, Bars, DOTS_MAX};
use crate::plots::Figures;
use crate::stats;
use crate::words;

/// One figure.
struct Set<'a> {
    name: String,
    setting: String,
    bars: Vec<(String, &'a Point)>,
}

pub(super) fn sequential_and_random(entries: &[Entry]) -> Section {
    let sets = sets(entries, |entry| {
        let pairs = measured::sequential_and_random(entry).into_iter();
        pairs.map(|(s, r)| vec![("sequential".to_string(), s), ("random".to_string(), r)]).collect()
    });
    Section {
        place: Place::paper(3, 1),
        heading: "Sequential against random",
        words: "P3, figure 1: reads of 4 KiB by one thread.",
        figures: drawn(&sets, Measure::MegabytesPerSecond),
        command: "flashmob bench disk FILE --preset p3-basic",
    }
}

pub(super) fn orders(entries: &[Entry]) -> Section {
    let sets = sets(entries, |entry| measured::orders(entry).into_iter().map(named).collect());
    let slowest = sets.iter().flat_map(|s| &s.bars).map(|b| b.1.summary.requests_per_second.median);
    // One unit for all, so that devices can be compared.
    let measure = if slowest.fold(f64::INFINITY, f64::min) < 1e3 {
        Measure::TimePerRead { per_second: 1e3, unit: "ms per read" }
    } else {
        Measure::TimePerRead { per_second: 1e6, unit: "us per read" }
    };
    Section {
        place: Place::paper(3, 2),
        heading: "The order of addresses",
        words: "P3, figure 2: the heads of 1 MiB blocks in ascending order (sort), the same in random order (shuffle), and any byte (rand). Lower is faster.",
        figures: drawn(&sets, measure),
        command: "flashmob bench disk FILE --preset p3-order",
    }
}

/// The present ones of `sort`, `shuffle` and `rand`.
fn named(group: [Option<&Point>; 3]) -> Vec<(String, &Point)> {
    let names = ["sort", "shuffle", "rand"];
    names.into_iter().zip(group).filter_map(|(name, point)| Some((name.to_string(), point?))).collect()
}

pub(super) fn schedulers(entries: &[Entry]) -> Section {
    let sets = sets(entries, |entry| {
        let name = |p: &Point| words::plain(p.parameters.scheduler.as_deref().unwrap_or_default(), 12);
        let groups = measured::schedulers(entry).into_iter();
        groups.map(|group| group.into_iter().map(|p| (name(p), p)).collect()).collect()
    });
    Section {
        place: Place::paper(3, 3),
        heading: "I/O schedulers",
        words: "P3, figure 3: the same random reads under each scheduler. NOOP is now none, DEADLINE mq-deadline, CFQ's successor bfq.",
        figures: drawn(&sets, Measure::ReadsPerSecond),
        command: "flashmob bench disk FILE --preset p3-scheduler",
    }
}

fn sets<'a>(entries: &'a [Entry], of: impl Fn(&'a Entry) -> Vec<Vec<(String, &'a Point)>>) -> Vec<Set<'a>> {
    let mut sets = Vec::new();
    for entry in entries {
        for bars in of(entry) {
            let Some((_, first)) = bars.first() else { continue };
            let p = &first.parameters;
            // The bars have different schedulers.
            let setting = Setting { scheduler: None, ..Setting::of(p) }.words();
            let setting = format!("{}, {}, {setting}", words::bytes(p.block_bytes), words::threads(p.threads));
            sets.push(Set { name: entry.name.clone(), setting, bars });
        }
    }
    sets
}

/// The value of the bars.
#[derive(Clone, Copy)]
enum Measure {
    MegabytesPerSecond,
    ReadsPerSecond,
    /// As in P3: time of a repetition / reads, with the units per second and their name.
    TimePerRead {
        per_second: f64,
        unit: &'static str,
    },
}

impl Measure {
    fn unit(self) -> &'static str {
        match self {
            Measure::MegabytesPerSecond => "MB/s (1,000,000 bytes)",
            Measure::ReadsPerSecond => "reads/s",
            Measure::TimePerRead { unit, .. } => unit,
        }
    }

    /// The value of each valid repetition.
    fn values(self, point: &Point) -> Vec<f64> {
        match self {
            Measure::MegabytesPerSecond => stats::byte_rates(point).iter().map(|rate| rate / 1e6).collect(),
            Measure::ReadsPerSecond => stats::rates(point),
            Measure::TimePerRead { per_second, .. } => {
                stats::rates(point).iter().filter(|r| **r > 0.0).map(|rate| per_second / rate).collect()
            }
        }
    }

    fn spread(self, point: &Point) -> Spread {
        let scaled = |s: Spread, by: f64| Spread { median: s.median * by, min: s.min * by, max: s.max * by };
        match self {
            Measure::MegabytesPerSecond => scaled(point.summary.bytes_per_second, 1e-6),
            Measure::ReadsPerSecond => point.summary.requests_per_second,
            Measure::TimePerRead { .. } => Spread::of(self.values(point)),
        }
    }
}

fn drawn(sets: &[Set], measure: Measure) -> Figures {
    let y_title = measure.unit();
    let top = |s: Spread| [s.max, s.median].into_iter().filter(|v| v.is_finite()).fold(0.0, f64::max);
    let highest: Vec<f64> =
        sets.iter().map(|s| s.bars.iter().map(|b| top(measure.spread(b.1))).fold(0.0, f64::max)).collect();
    let (scales, note) = linear_scales(&highest);
    let mut figures = Figures::new();
    for (set, scale) in sets.iter().zip(scales) {
        let points: Vec<&Point> = set.bars.iter().map(|b| b.1).collect();
        let bars: Vec<Bar> = set
            .bars
            .iter()
            .map(|(name, point)| {
                let Spread { median, min, max } = measure.spread(point);
                Bar {
                    name: name.clone(),
                    median,
                    range: (min, max),
                    values: measure.values(point),
                    doubtful: is_doubtful(&point.warnings),
                }
            })
            .collect();
        let values: Vec<String> = bars.iter().map(|b| format!("{} {}", b.name, words::number(b.median))).collect();
        let dots = if bars.iter().all(|b| b.values.len() <= DOTS_MAX) { ", a dot each" } else { "" };
        let figure = Bars {
            title: format!("{}: {y_title}", set.name),
            description: format!("Bars of medians in {y_title}: {}.", words::list(&values)),
            caption: format!(
                "{}. {}{dots}.{note}{}",
                words::capital(&set.setting),
                repetitions(&points),
                hollow(&points)
            ),
            y_title: y_title.into(),
            x_title: String::new(),
            scale,
            bars,
        };
        figures.push((set.name.clone(), Box::new(move |nth| figure.draw(nth))));
    }
    figures
}
