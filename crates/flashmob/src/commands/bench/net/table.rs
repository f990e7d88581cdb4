//! The result of a sweep as text.

use std::fmt::Write;

use flashmob_results::Document;
use flashmob_results::cluster::Setting;
use flashmob_results::disk::Spread;
use flashmob_results::net::{Net, Path, Point};
use flashmob_text::number;

use super::lines::{bits, transfer};
use crate::commands::tell::{self, harmless, table};

/// The whole text.
pub fn render(document: &Document) -> String {
    let Some(net) = document.net() else { return String::new() };
    let setting = match net.setting {
        Setting::Network => "measured over the network",
        Setting::Lab => "measured in the lab: real TCP, MODELLED path",
        Setting::Simulator => "SIMULATED",
    };
    let mut text = format!("{}\n", harmless(&format!("{}: {setting}, server {}", document.name(), net.server)));
    if let Some(path) = net.points.first().and_then(|p| p.parameters.path.as_ref())
        && net.points.iter().all(|p| p.parameters.path.as_ref() == Some(path))
    {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  path: {}", harmless(&path.air));
    }
    if net.points.is_empty() {
        text.push_str("  nothing was measured\n");
    } else {
        points(&mut text, net);
    }
    text.push_str(&doubts(document));
    text
}

/// A column: its title, and its text for a point.
type Column = (&'static str, fn(&Point) -> String);

fn points(text: &mut String, net: &Net) {
    let has = |of: fn(&Point) -> bool| net.points.iter().any(of);
    let mut columns: Vec<Column> = Vec::new();
    // A path that all points share is shown above.
    if net.points.iter().any(|p| p.parameters.path != net.points[0].parameters.path) {
        columns.push(("added RTT", |p| of_path(p, |path| format!("{} ms", path.rtt_ms))));
        columns.push(("loss", |p| of_path(p, |path| format!("{}%", path.loss_percent))));
    }
    if has(|p| p.parameters.messages.is_some()) {
        columns.push(("messages", |p| {
            p.parameters.messages.map_or("-".into(), |m| format!("{}:{}:{}", m.request_bytes, m.answer_bytes, m.depth))
        }));
    } else {
        columns.push(("way", |p| p.parameters.direction.to_string()));
    }
    columns.push(("streams", |p| p.parameters.streams.to_string()));
    if has(|p| p.parameters.congestion.is_some()) {
        columns.push(("congestion", |p| p.parameters.congestion.clone().unwrap_or("-".into())));
    }
    if has(|p| p.parameters.window_bytes.is_some()) {
        columns.push(("window", |p| p.parameters.window_bytes.map_or("-".into(), transfer)));
    }
    if has(|p| p.parameters.rate_bits_per_second.is_some()) {
        columns.push(("rate", |p| p.parameters.rate_bits_per_second.map_or("-".into(), |r| bits(r as f64))));
    }
    if has(|p| p.summary.up_bits_per_second.is_some()) {
        columns.push(("up", |p| rate(p.summary.up_bits_per_second)));
    }
    if has(|p| p.summary.down_bits_per_second.is_some()) {
        columns.push(("down", |p| rate(p.summary.down_bits_per_second)));
    }
    if has(|p| p.summary.repetitions > 1) {
        columns.push(("spread", spread));
    }
    if has(|p| p.summary.requests_per_second.is_some()) {
        columns.push(("requests/s", |p| p.summary.requests_per_second.map_or("-".into(), |s| number(s.median))));
        columns.push(("p50 ms", |p| milliseconds(p, 50.0)));
        columns.push(("p99 ms", |p| milliseconds(p, 99.0)));
    }
    if has(|p| p.summary.retransmissions.is_some()) {
        columns.push(("retr", |p| p.summary.retransmissions.map_or("-".into(), |s| number(s.median))));
        columns.push(("RTT ms", |p| round_trip(p).map_or("-".into(), number)));
    }
    if has(|p| p.summary.lost_fraction.is_some()) {
        columns.push(("lost", |p| {
            p.summary.lost_fraction.map_or("-".into(), |s| format!("{}%", number(100.0 * s.median)))
        }));
        columns.push(("jitter ms", |p| p.summary.jitter_ms.map_or("-".into(), |s| number(s.median))));
    }
    columns.push(("", |p| if p.warnings.is_empty() { String::new() } else { "!".into() }));
    text.push_str(&table(&net.points, &columns, 0));
}

fn of_path(point: &Point, text: impl FnOnce(&Path) -> String) -> String {
    point.parameters.path.as_ref().map_or_else(|| "-".into(), text)
}

fn rate(spread: Option<Spread>) -> String {
    spread.map_or_else(|| "-".into(), |s| bits(s.median))
}

fn spread(point: &Point) -> String {
    let summary = &point.summary;
    let main = summary.requests_per_second.or(summary.up_bits_per_second).or(summary.down_bits_per_second);
    match main.filter(|_| summary.repetitions > 1) {
        Some(main) => format!("{}%", number(100.0 * main.relative())),
        None => "-".into(),
    }
}

fn milliseconds(point: &Point, percent: f64) -> String {
    let latency = point.summary.latency_ns.as_ref().filter(|latency| latency.count > 0);
    match latency.and_then(|latency| latency.percentile_ns(percent)) {
        Some(ns) => number(ns as f64 / 1e6),
        None => "-".into(),
    }
}

/// The mean of the senders' values at the end.
fn round_trip(point: &Point) -> Option<f64> {
    let senders = point.repetitions.iter().flat_map(|r| &r.streams).filter_map(|s| s.sender.as_ref());
    let (sum, count) = senders.fold((0.0, 0), |(sum, count), tcp| (sum + tcp.rtt_ms, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}

/// Warnings: those of the whole result, and those of points.
pub fn doubts(document: &Document) -> String {
    tell::doubts(&document.warnings, document.net().into_iter().flat_map(|net| &net.points).flat_map(|p| &p.warnings))
}
