//! TCP and UDP with the least added delay and loss (P4's figure 6): between equal hosts and a mixed pair where hosts with different receive maxima were
//! measured, or else in each direction.

use std::cmp::Reverse;

use flashmob_results::net::{Direction, Net, Parameters, Point, Protocol};

use super::{COMMAND, MEGABIT, Place, Section};
use crate::entry::{Entry, is_doubtful};
use crate::figure::bars::{Bar, Bars};
use crate::plots::Figures;
use crate::plots::{how_many, linear_scales};
use crate::{ways, words};

struct Drawing<'a> {
    name: String,
    title: String,
    shown: Vec<(String, Direction, &'a Point)>,
}

pub(super) fn section(entries: &[Entry]) -> Section {
    let drawings: Vec<Drawing> = entries.iter().flat_map(drawings).collect();
    let rates = |d: &Drawing| d.shown.iter().filter_map(|(_, way, p)| ways::rate(p, *way)).collect::<Vec<_>>();
    let highest = |d: &Drawing| rates(d).iter().map(|rate| rate.max / MEGABIT).fold(0.0, f64::max);
    let highest: Vec<f64> = drawings.iter().map(highest).collect();
    let (scales, note) = linear_scales(&highest);
    let mut figures = Figures::new();
    for (drawing, scale) in drawings.iter().zip(scales) {
        let bars: Vec<Bar> = drawing.shown.iter().filter_map(|(name, way, point)| bar(name, *way, point)).collect();
        let values: Vec<String> = bars.iter().map(|b| format!("{} {}", b.name, words::number(b.median))).collect();
        let repetitions = how_many(drawing.shown.iter().map(|(_, _, p)| p.summary.repetitions));
        let hollow = if bars.iter().any(|b| b.doubtful) { " ⚠: doubtful, see the warnings." } else { "" };
        let of = drawing.shown.iter().find_map(|(_, _, p)| conditions(&p.parameters)).unwrap_or_default();
        let bars = Bars {
            title: drawing.title.clone(),
            description: format!("Bars in Mbit/s: {}.", values.join("; ")),
            caption: format!("{of}{repetitions}.{note}{hollow} In P4: TCP 10.8 and 11.4 Mbit/s, UDP 14.1."),
            y_title: "Mbit/s that arrived".into(),
            x_title: String::new(),
            scale,
            bars,
        };
        figures.push((drawing.name.clone(), Box::new(move |nth| bars.draw(nth))));
    }
    Section {
        place: Place::paper(4, 6),
        heading: "TCP and UDP",
        words: "P4, figure 6: what arrives where nothing is added to the path, between two hosts with equal receive maxima and between a mixed pair. Up: the client sends.",
        figures,
        command: COMMAND,
    }
}

const PROTOCOLS: [(Protocol, &str); 2] = [(Protocol::Tcp, "TCP"), (Protocol::Udp, "UDP")];

/// A figure for each protocol with its pairs of hosts, where one of them has such; or one of both protocols, unless it had a single point.
fn drawings(entry: &Entry) -> Vec<Drawing<'_>> {
    let Some(net) = entry.net() else { return Vec::new() };
    let by_pairs = PROTOCOLS.map(|(protocol, name)| pairs(entry, net, protocol, name));
    if by_pairs.iter().any(Option::is_some) {
        // A protocol without pairs is drawn in each direction.
        let each = PROTOCOLS.into_iter().zip(by_pairs).map(|((protocol, name), by_pairs)| {
            by_pairs.unwrap_or_else(|| Drawing {
                name: format!("{} · {name}", entry.name),
                title: format!("{}: {name} in each direction", entry.name),
                shown: each_way(net, protocol, name),
            })
        });
        return each.filter(|drawing| !drawing.shown.is_empty()).collect();
    }
    let shown: Vec<_> = PROTOCOLS.iter().flat_map(|(protocol, name)| each_way(net, *protocol, name)).collect();
    let title = format!("{}: TCP and UDP", entry.name);
    let drawing = (shown.len() > 1).then(|| Drawing { name: entry.name.clone(), title, shown });
    drawing.into_iter().collect()
}

/// Each direction of a protocol by itself.
fn each_way<'a>(net: &'a Net, protocol: Protocol, name: &str) -> Vec<(String, Direction, &'a Point)> {
    let of = |way: Direction| Some((format!("{name} {way}"), way, plainest(net, protocol, way, |_| true)?));
    [Direction::Up, Direction::Down].into_iter().filter_map(of).collect()
}

/// The pairs of equal hosts, and the mixed one both ways.
fn pairs<'a>(entry: &Entry, net: &'a Net, protocol: Protocol, name: &str) -> Option<Drawing<'a>> {
    let maxima = |p: &Parameters| p.client_receive_max_bytes.zip(p.server_receive_max_bytes);
    let all = || net.points.iter().map(|p| &p.parameters).filter(|p| p.protocol == protocol).filter_map(maxima);
    let equal = || all().filter(|(client, server)| client == server).map(|(client, _)| client);
    let (small, large) = (equal().min()?, equal().max()?);
    if small == large {
        return None;
    }
    let mut shown = Vec::new();
    for (pair, way, words) in [
        ((small, small), Direction::Up, words::bytes(small)),
        ((large, large), Direction::Up, words::bytes(large)),
        ((small, large), Direction::Up, "mixed up".into()),
        ((small, large), Direction::Down, "mixed down".into()),
    ] {
        let point = plainest(net, protocol, way, |p| maxima(p) == Some(pair));
        shown.extend(point.map(|point| (words, way, point)));
    }
    let title = format!("{}: {name} between equal hosts and a mixed pair", entry.name);
    (shown.len() > 1).then(|| Drawing { name: format!("{} · {name}", entry.name), title, shown })
}

/// The point with the least added delay and loss, and the fewest options.
fn plainest(net: &Net, protocol: Protocol, way: Direction, of: impl Fn(&Parameters) -> bool) -> Option<&Point> {
    let fit = net.points.iter().filter(|p| {
        p.parameters.protocol == protocol
            && p.parameters.direction == way
            && of(&p.parameters)
            && ways::valid(p).next().is_some()
            && ways::rate(p, way).is_some()
    });
    fit.min_by(|a, b| order(&a.parameters).partial_cmp(&order(&b.parameters)).unwrap_or(std::cmp::Ordering::Equal))
}

/// Sort key: least added loss and delay first, then fewest options, then the largest receive maxima. Of congestion controls
/// the system's own comes first, then cubic, the default of most systems.
fn order(p: &Parameters) -> (f64, f64, u32, bool, Reverse<u64>, u8) {
    let (rtt, loss) = p.path.as_ref().map_or((0.0, 0.0), |path| (path.rtt_ms, path.loss_percent));
    let maximum = |max: Option<u64>| max.unwrap_or(ways::SYSTEM_RECEIVE_MAX_BYTES);
    let least = maximum(p.client_receive_max_bytes).min(maximum(p.server_receive_max_bytes));
    let congestion = match p.congestion.as_deref() {
        None => 0,
        Some("cubic") => 1,
        Some(_) => 2,
    };
    (loss, rtt, p.streams, p.window_bytes.is_some(), Reverse(least), congestion)
}

/// Conditions of the path in words.
fn conditions(p: &Parameters) -> Option<String> {
    let path = p.path.as_ref()?;
    let loss =
        if path.loss_percent > 0.0 { format!(", loss {} %", words::number(path.loss_percent)) } else { String::new() };
    let rate =
        path.rate_bits_per_second.map_or(String::new(), |r| format!(", path {}", words::bits_per_second(r as f64)));
    Some(format!("RTT {} added{loss}{rate}. ", words::time_ms(path.rtt_ms)))
}

fn bar(name: &str, way: Direction, point: &Point) -> Option<Bar> {
    let rate = ways::rate(point, way)?;
    Some(Bar {
        name: name.to_string(),
        median: rate.median / MEGABIT,
        range: (rate.min / MEGABIT, rate.max / MEGABIT),
        values: ways::rates(point, way).into_iter().map(|v| v / MEGABIT).collect(),
        doubtful: is_doubtful(&point.warnings),
    })
}
