//! Rates and percentiles of every point.

use flashmob_results::disk::{Point, Spread};
use flashmob_results::latency::PERCENTILES;
use maud::{Markup, html};

use super::{doubt, folded};
use crate::entry::Entry;
use crate::words;

pub fn points(entries: &[Entry]) -> Markup {
    folded(entries, "points", count, |at, entry| {
        // Only models count it.
        let upward = entry.points().iter().flat_map(|p| &p.repetitions).any(|r| r.upward_fraction.is_some());
        let columns = "point | range | reps | requests/s | min – max | KB/s | requests | errors | CPU, us each";
        let columns = if upward { format!("{columns} | upward") } else { columns.into() };
        super::table("", &columns, entry.points().iter().map(|point| row(at, point, upward)))
    })
}

fn row(at: usize, point: &Point, has_upward: bool) -> Markup {
    let Spread { median, min, max } = point.summary.requests_per_second;
    let sum = |of: fn(&flashmob_results::disk::Repetition) -> u64| {
        point.repetitions.iter().fold(0u64, |sum, r| sum.saturating_add(of(r)))
    };
    let (requests, errors) = (sum(|r| r.requests), sum(|r| r.errors));
    let cpu_s: f64 = point.repetitions.iter().map(|r| r.cpu_user_s + r.cpu_system_s).sum();
    let upward: Vec<f64> = point.repetitions.iter().filter_map(|r| r.upward_fraction).collect();
    html! {
        tr {
            th { (words::plain(&words::parameters(&point.parameters), 120)) @if !point.warnings.is_empty() { (doubt(at)) } }
            td { (words::bytes(point.parameters.range_bytes)) }
            td { (point.summary.repetitions) }
            td { (words::number(median)) }
            td { (words::number(min)) " – " (words::number(max)) }
            td { (words::number(point.summary.bytes_per_second.median / 1e3)) }
            td { (words::count(requests)) }
            td { (words::count(errors)) }
            td { @if requests > 0 { (words::number(cpu_s * 1e6 / requests as f64)) } }
            @if has_upward { td { @if !upward.is_empty() { (words::number(upward.iter().sum::<f64>() / upward.len() as f64 * 100.0)) " %" } } }
        }
    }
}

pub fn percentiles(entries: &[Entry]) -> Markup {
    let explained = html! {
        p {
            "Microseconds from the call to its return, over all requests of all repetitions together. "
            em { "In italics" } ": less than one request was slower, so that it is no more than the slowest one."
        }
    };
    let tables = folded(entries, "percentiles", count, |at, entry| {
        let percents = PERCENTILES.map(|percent| format!("p{percent}")).join(" | ");
        let columns = format!("point; times in us | count | mean | min | {percents} | max");
        super::table("dense", &columns, entry.points().iter().map(|point| percentile_row(at, point)))
    });
    html! { (explained) (tables) }
}

fn percentile_row(at: usize, point: &Point) -> Markup {
    let latency = &point.summary.latency_ns;
    let us = |ns: f64| words::number(ns / 1e3);
    html! {
        tr {
            th { (words::plain(&words::parameters(&point.parameters), 120)) @if !point.warnings.is_empty() { (doubt(at)) } }
            td { (words::count(latency.count)) }
            @if latency.count > 0 {
                td { (us(latency.mean)) }
                td { (us(latency.min as f64)) }
                @for percent in PERCENTILES {
                    @let text = words::or_dash(latency.percentile_ns(percent).map(|ns| us(ns as f64)));
                    @if latency.count as f64 * (100.0 - percent) / 100.0 < 1.0 { td.few { (text) } } @else { td { (text) } }
                }
                td { (us(latency.max as f64)) }
            } @else {
                @for _ in 0..PERCENTILES.len() + 3 { td { "–" } }
            }
        }
    }
}

fn count(entry: &Entry) -> Option<usize> {
    entry.is_device().then(|| entry.points().len())
}
