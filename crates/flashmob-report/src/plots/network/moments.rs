//! Throughput over time, as seen by the measuring end. Sweeps have too many points and are in the table only.

use flashmob_results::net::{Direction, Point, Repetition};

use super::{MEGABIT, Place, Section};
use crate::entry::Entry;
use crate::figure::axes::Scale;
use crate::figure::traces::{Kind, Trace, Traces};
use crate::plots::Figures;
use crate::{ways, words};

/// Results with more points are sweeps.
const POINTS_MAX: usize = 6;
/// Repetitions that are drawn of each point.
const REPETITIONS_MAX: usize = 5;
/// Intervals that make a line worth looking at.
const INTERVALS_MIN: usize = 3;

pub(super) fn section(entries: &[Entry]) -> Section {
    let mut figures = Figures::new();
    for entry in entries {
        let Some(net) = entry.net().filter(|net| net.points.len() <= POINTS_MAX) else { continue };
        for point in &net.points {
            let traces = traces(point);
            let all = || traces.iter().flat_map(|trace| &trace.points);
            let (end, top) = all().fold((0.0_f64, 0.0_f64), |(x, y), p| (x.max(p.0), y.max(p.1)));
            if traces.is_empty() || top <= 0.0 {
                continue;
            }
            let what = words::plain(&words::crossing(&point.parameters), 120);
            let figure = Traces {
                title: format!("{}: throughput over time, {what}", entry.name),
                description: format!("Lines over {} s; at most {} Mbit/s.", words::number(end), words::number(top)),
                caption: format!("{}All streams together; what is omitted at the begin is drawn.", drawn(point)),
                y_title: "Mbit/s".into(),
                x_title: "time, s".into(),
                across: Scale::linear(end),
                scale: Scale::linear(top),
                traces,
            };
            figures.push((format!("{} · {what}", entry.name), Box::new(move |nth| figure.draw(nth))));
        }
    }
    Section {
        place: Place::BEYOND,
        heading: "Throughput over time",
        words: "From second to second, a line for each repetition.",
        figures,
        command: "",
    }
}

fn drawn(point: &Point) -> String {
    match ways::valid(point).count() {
        1 => "One repetition. ".into(),
        all if all <= REPETITIONS_MAX => format!("{all} repetitions. "),
        all => format!("The first {REPETITIONS_MAX} of {all} repetitions. "),
    }
}

/// Each direction of each repetition; only the first of a direction has a name.
fn traces(point: &Point) -> Vec<Trace> {
    let mut traces: Vec<Trace> = Vec::new();
    for (look, direction) in [Direction::Up, Direction::Down].into_iter().enumerate() {
        let lines = ways::valid(point).take(REPETITIONS_MAX).map(|r| line(r, direction));
        for (nth, points) in lines.filter(|points| points.len() >= INTERVALS_MIN).enumerate() {
            let name = if nth == 0 { direction.to_string() } else { String::new() };
            traces.push(Trace { name, look, kind: Kind::Line, points });
        }
    }
    traces
}

/// The middle of each interval with the sum over all streams of the n-th interval.
fn line(repetition: &Repetition, direction: Direction) -> Vec<(f64, f64)> {
    let begin = repetition.intervals.iter().map(|i| i.begin_s).filter(|s| s.is_finite()).fold(0.0, f64::min);
    let mut seen: std::collections::HashMap<u32, usize> = std::collections::HashMap::new();
    let mut sums: Vec<(f64, f64)> = Vec::new();
    for interval in repetition.intervals.iter().filter(|i| i.direction == direction) {
        let nth = seen.entry(interval.stream).or_default();
        let middle = f64::midpoint(interval.begin_s, interval.end_s) - begin;
        let rate = interval.bits_per_second / MEGABIT;
        match sums.get_mut(*nth) {
            Some(sum) => sum.1 += rate,
            None => sums.push((middle, rate)),
        }
        *nth += 1;
    }
    sums.retain(|(x, y)| x.is_finite() && y.is_finite() && *x >= 0.0 && *y >= 0.0);
    sums
}
