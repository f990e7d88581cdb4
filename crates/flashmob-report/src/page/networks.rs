//! Networks: what was found in a sentence, side by side, and every point of each.

use std::collections::BTreeSet;

use flashmob_results::cluster::Setting;
use flashmob_results::disk::Spread;
use flashmob_results::net::{Direction, Net, Point, Protocol};
use maud::{Markup, html};

use super::summary::doubt_words;
use super::{doubt, folded, host};
use crate::entry::Entry;
use crate::words::{joined, or_dash};
use crate::{ways, words};

type Row = (&'static str, fn(&Entry, &Net) -> Option<String>);

const ROWS: [Row; 13] = [
    ("What was real", |_, n| Some(setting(n.setting).into())),
    ("Server", |_, n| Some(n.server.clone())),
    ("Other end", |_, n| {
        let peers: BTreeSet<&str> = n.points.iter().flat_map(|p| &p.repetitions).map(|r| r.peer.as_str()).collect();
        joined(peers.into_iter().map(str::to_string))
    }),
    ("Ran on", |e, _| host(e)),
    ("Processors", |e, _| Some(e.document.device.cpus.to_string())),
    ("RTT added", |_, n| numbers(n.points.iter().map(|p| p.parameters.path.as_ref().map(|path| path.rtt_ms)), "ms")),
    ("Loss", |_, n| numbers(n.points.iter().map(|p| p.parameters.path.as_ref().map(|path| path.loss_percent)), "%")),
    ("Path carries", |_, n| {
        let rates: BTreeSet<u64> =
            n.points.iter().filter_map(|p| p.parameters.path.as_ref()?.rate_bits_per_second).collect();
        joined(rates.into_iter().map(|r| words::bits_per_second(r as f64)))
    }),
    ("Most by TCP", |_, n| most(n, Protocol::Tcp)),
    ("Most by UDP", |_, n| most(n, Protocol::Udp)),
    ("Most requests/s", |_, n| fastest(n).map(|(rate, p)| format!("{}/s ({})", words::number(rate), named(p)))),
    ("Points, repetitions, void ones", |_, n| {
        let all: usize = n.points.iter().map(|p| p.repetitions.len()).sum();
        Some(format!("{}, {all}, {}", n.points.len(), void(n)))
    }),
    ("Warnings", |e, _| Some((e.document.warnings.len() + e.point_warnings().len()).to_string())),
];

/// Each value once, in order.
fn numbers(values: impl Iterator<Item = Option<f64>>, unit: &str) -> Option<String> {
    let mut values: Vec<f64> = values.flatten().collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    joined(values.into_iter().map(words::number)).map(|all| format!("{all} {unit}"))
}

/// The real parts of the setting in words.
pub fn setting(setting: Setting) -> &'static str {
    match setting {
        Setting::Network => "everything: two devices and the network between them",
        Setting::Lab => "programs and TCP of both ends; the path was modelled",
        Setting::Simulator => "nothing: it was simulated",
    }
}

fn void(net: &Net) -> usize {
    net.points.iter().flat_map(|p| &p.repetitions).filter(|r| r.is_void).count()
}

fn named(point: &Point) -> String {
    words::plain(&words::crossing(&point.parameters), 160)
}

/// The point with the highest rate in this direction.
fn best(net: &Net, protocol: Protocol, way: Direction) -> Option<(f64, &Point)> {
    let all = net.points.iter().filter(|p| p.parameters.protocol == protocol && ways::valid(p).next().is_some());
    let rates = all.filter_map(|p| Some((ways::rate(p, way)?.median, p)));
    rates.reduce(|best, next| if next.0 > best.0 { next } else { best })
}

fn fastest(net: &Net) -> Option<(f64, &Point)> {
    let all = net.points.iter().filter(|p| ways::valid(p).next().is_some());
    let rates = all.filter_map(|p| Some((p.summary.requests_per_second.filter(crate::stats::usable)?.median, p)));
    rates.reduce(|best, next| if next.0 > best.0 { next } else { best })
}

/// `up 10.6 Mbit/s (TCP up, RTT 0 ms), down 10.5 Mbit/s (...)`.
fn most(net: &Net, protocol: Protocol) -> Option<String> {
    let of = |way: Direction| {
        best(net, protocol, way).map(|(rate, p)| {
            format!("{way} {}{} ({})", words::bits_per_second(rate), doubt_words(&p.warnings), named(p))
        })
    };
    joined([of(Direction::Up), of(Direction::Down)].into_iter().flatten())
}

/// The main finding.
pub fn found(net: &Net) -> String {
    let mut parts: Vec<String> = Vec::new();
    for (protocol, name) in [(Protocol::Tcp, "TCP"), (Protocol::Udp, "UDP")] {
        let of = |way: Direction| {
            best(net, protocol, way)
                .map(|(rate, p)| format!("{} {way}{}", words::bits_per_second(rate), doubt_words(&p.warnings)))
        };
        let both: Vec<String> = [of(Direction::Up), of(Direction::Down)].into_iter().flatten().collect();
        if !both.is_empty() {
            parts.push(format!("at most {} by {name}", words::list(&both)));
        }
    }
    if let Some((rate, point)) = fastest(net) {
        parts.push(format!("up to {}/s{} of {}", words::number(rate), doubt_words(&point.warnings), named(point)));
    }
    if parts.is_empty() { "nothing arrived".into() } else { parts.join("; ") }
}

/// The measurement in a sentence.
pub fn paragraph(entry: &Entry, net: &Net) -> Markup {
    let document = &entry.document;
    let repetitions = net.points.iter().map(|p| p.repetitions.len() as u64).sum();
    html! {
        (words::plural(net.points.len() as u64, "point")) ", " (words::plural(repetitions, "repetition")) " in all"
        @if void(net) > 0 { ", " strong { (words::count(void(net) as u64)) " of them void and not counted" } }
        "; server " (words::plain(&net.server, 80)) "; real were " (setting(net.setting)) "; " (words::date(document.started_unix_s))
        @if let Some(preset) = &document.preset { ", preset " (words::plain(preset, 40)) }
        @if document.interrupted { ", " strong { "interrupted before its end" } }
        "."
    }
}

/// Every value that each parameter took.
pub fn parameters(net: &Net) -> String {
    let all = || net.points.iter().map(|p| &p.parameters);
    let streams: BTreeSet<u32> = all().map(|p| p.streams).collect();
    let blocks: BTreeSet<u32> = all().map(|p| p.block_bytes).collect();
    let controls: BTreeSet<String> = all().filter_map(|p| p.congestion.clone()).collect();
    let repetitions: BTreeSet<usize> = net.points.iter().map(|p| p.repetitions.len()).collect();
    let parts = [
        joined(streams.iter().map(u32::to_string)).map(|all| format!("streams {all}")),
        joined(blocks.iter().map(|b| words::bytes(u64::from(*b)))).map(|all| format!("bytes of a write {all}")),
        joined(controls).map(|all| format!("congestion control {all}")),
        numbers(all().map(|p| p.path.as_ref().map(|path| path.rtt_ms)), "ms").map(|all| format!("RTT {all}")),
        numbers(all().map(|p| p.path.as_ref().map(|path| path.loss_percent)), "%").map(|all| format!("loss {all}")),
        joined(repetitions.iter().map(usize::to_string)).map(|all| format!("repetitions {all}")),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

pub fn side_by_side(entries: &[Entry]) -> Markup {
    let (of, nets): (Vec<&Entry>, Vec<&Net>) = entries.iter().filter_map(|e| Some((e, e.net()?))).unzip();
    let values = |row: &Row| of.iter().zip(&nets).map(|(entry, net)| (row.1)(entry, net)).collect();
    html! {
        (super::side_by_side("Networks side by side", &of, ROWS.iter().map(|row| (row.0, values(row)))))
        (super::maxima::receive_maxima(entries))
    }
}

pub fn points(entries: &[Entry]) -> Markup {
    html! {
        p {
            "Medians over the repetitions that are not void, of what arrived; up is from the client to the server, and of two receive maxima the first is the client's. Retransmissions are of a repetition. RTT, congestion window (cwnd), largest window offered and "
            "bytes of a packet are the sender's, at the end, mean over the streams."
        }
        (folded(entries, "points", |e| e.net().map(|n| n.points.len()), |at, e| html! { @if let Some(n) = e.net() { (table(at, n)) } }))
    }
}

fn table(at: usize, net: &Net) -> Markup {
    let rate = |p: &Point| p.parameters.path.as_ref().and_then(|path| path.rate_bits_per_second);
    // A rate that all paths share is in the other table.
    let is_shared = net.points.iter().all(|p| rate(p) == net.points.first().and_then(rate));
    let columns = "point | reps | void | Mbit/s up | min – max | Mbit/s down | min – max | sent again | lost | \
        jitter | RTT | cwnd | window | bytes/packet | requests/s | p50 | p99";
    super::table("dense named", columns, net.points.iter().map(|point| row(at, point, is_shared)))
}

fn row(at: usize, point: &Point, is_shared: bool) -> Markup {
    let mut parameters = point.parameters.clone();
    if let Some(path) = parameters.path.as_mut().filter(|_| is_shared) {
        path.rate_bits_per_second = None;
    }
    let name = words::plain(&words::crossing(&parameters), 160);
    let counted = ways::valid(point).count();
    let void = point.repetitions.len() - counted;
    let summary = &point.summary;
    let number = |spread: Option<Spread>| or_dash(spread.map(|s| words::number(s.median)));
    let sender = |of: fn(&flashmob_results::net::TcpEnd) -> f64| ways::at_senders(point, None, of);
    let bytes = |value: Option<f64>| or_dash(value.map(|v| words::bytes(v as u64)));
    let windows: Vec<f64> =
        [Direction::Up, Direction::Down].into_iter().filter_map(|way| ways::window_bytes(point, way)).collect();
    let latency = summary.latency_ns.as_ref().filter(|l| l.count > 0);
    let at_percent = |percent| or_dash(latency.and_then(|latency| words::percentile(latency, percent)));
    html! {
        tr {
            th { (name) @if !point.warnings.is_empty() || void > 0 { (doubt(at)) } }
            td { (counted) }
            td { (void) }
            @if counted == 0 {
                // Values of void repetitions are not shown.
                @for _ in 0..14 { td { "–" } }
            } @else {
                (rate(summary.up_bits_per_second))
                (rate(summary.down_bits_per_second))
                td { (number(summary.retransmissions)) }
                td { (or_dash(summary.lost_fraction.map(|s| s.median).filter(|v| v.is_finite()).map(words::percent))) }
                td { (or_dash(summary.jitter_ms.map(|s| words::time_ms(s.median)))) }
                td { (or_dash(sender(|end| end.rtt_ms).map(words::time_ms))) }
                td { (bytes(sender(|end| end.congestion_window_bytes as f64))) }
                td { (bytes(windows.into_iter().reduce(f64::max))) }
                td { (or_dash(sender(|end| end.packet_bytes).map(words::number))) }
                td { (number(summary.requests_per_second)) }
                td { (at_percent(50.0)) }
                td { (at_percent(99.0)) }
            }
        }
    }
}

/// Median, minimum and maximum, all in Mbit/s so that rows are comparable.
fn rate(spread: Option<Spread>) -> Markup {
    let of = |bits: f64| words::number(bits / 1e6);
    html! {
        @match spread {
            Some(s) => { td { (of(s.median)) } td { (of(s.min)) " – " (of(s.max)) } },
            None => { td { "–" } td { "–" } },
        }
    }
}
