//! Throughput over the round-trip time that was added: both ways of both systems (P4's figures 7 and 8), congestion controls without loss and with it of
//! each system (9 and 10), and receiving with different receive maxima (15); beyond P4, other congestion controls.

use std::collections::BTreeSet;

use flashmob_results::disk::Spread;
use flashmob_results::net::{Direction, Protocol};

use super::axis::RttAxis;
use super::{COMMAND, MEGABIT, Place, Section};
use crate::entry::{Entry, is_doubtful};
use crate::figure::HUES;
use crate::figure::lines::{Limit, Mark};
use crate::groups::grouped;
use crate::plots::drawing::{Axis, Drawing, Line, drawn};
use crate::ways::{self, RttSeries, Setting, bound_bits_per_second};
use crate::words;

const AXIS: Axis =
    Axis { y_title: "Mbit/s that arrived", x_title: "RTT that was added, ms", legend: "", may_be_logarithmic: false };
/// Figures of one section: more combinations are in the table.
const FIGURES_MAX: usize = 12;
/// P4's congestion controls.
const P4S: [&str; 2] = ["reno", "cubic"];
/// Lines that can be told apart in one figure.
const LINES_MAX: usize = 8;

pub(super) fn tcp(entries: &[Entry]) -> Section {
    Section {
        place: Place::paper(4, 7),
        heading: "TCP over the round-trip time",
        words: "P4, figure 7: a host with a small receive maximum sends as before where the round trip is long, and hardly receives. Up: the client sends.",
        figures: drawn(both_ways(entries, Protocol::Tcp, 7), &AXIS),
        command: COMMAND,
    }
}

pub(super) fn udp(entries: &[Entry]) -> Section {
    Section {
        place: Place::paper(4, 8),
        heading: "UDP over the round-trip time",
        words: "P4, figure 8: datagrams do not wait for acknowledgements.",
        figures: drawn(both_ways(entries, Protocol::Udp, 8), &AXIS),
        command: COMMAND,
    }
}

/// Figures 9 and 10: one for each sending system, which its receive maximum tells apart, the smaller first; reno and cubic without loss and with the most
/// of it.
pub(super) fn congestion(entries: &[Entry]) -> Section {
    let all = ways::all(entries);
    let of_p4 = |w: &&RttSeries| {
        w.setting.protocol == Protocol::Tcp && w.setting.congestion.as_deref().is_some_and(|name| P4S.contains(&name))
    };
    let tcp: Vec<&RttSeries> = all.iter().filter(of_p4).collect();
    let mut groups = similar(&tcp, |s| Setting { congestion: None, loss_percent: 0.0, ..s.clone() });
    groups.retain(|group| group.len() > 1);
    groups.sort_by_key(|group| (group[0].entry, client_max_bytes(&group[0].setting)));
    let mut drawings: Vec<Drawing> = Vec::new();
    for group in &groups {
        let setting = &group[0].setting;
        let most = group.iter().map(|w| w.setting.loss_percent).fold(0.0, f64::max);
        let parts = [format!("data {}", setting.direction), both(setting), setting.maxima_words()];
        let shown = group.iter().filter(|w| w.setting.loss_percent <= 0.0 || w.setting.loss_percent >= most);
        let lines = shown.map(|way| {
            let (name, loss) = (way.setting.congestion_words(), way.setting.loss_percent);
            let look = look(&name, 0) + if loss > 0.0 { HUES } else { 0 };
            let name = if loss > 0.0 { format!("{name}, loss {} %", words::number(loss)) } else { name };
            (look, name, *way)
        });
        drawings.push(drawing(entries, lines.collect(), &parts, of_sender(group[0], &all)));
    }
    drawings.truncate(FIGURES_MAX);
    Section {
        place: Place::paper(4, 9),
        heading: "Congestion controls over the round-trip time",
        words: "P4, figures 9 and 10: reno and cubic without loss and with it, sent by the host with the small receive maximum (9) and by the one with the large (10).",
        figures: drawn(drawings, &AXIS),
        command: COMMAND,
    }
}

/// P4's figure of what the client sends: 9 for the smaller receive maximum of a result, 10 for the larger. A result with one maximum alone is compared with
/// its server. `None` if neither maximum was set, or if the server sends.
fn of_sender(way: &RttSeries, all: &[RttSeries]) -> Option<u32> {
    let setting = &way.setting;
    let is_set = setting.client_receive_max_bytes.is_some() || setting.server_receive_max_bytes.is_some();
    if setting.direction == Direction::Down || !is_set {
        return None;
    }
    let own = all.iter().filter(|other| other.entry == way.entry && other.setting.protocol == Protocol::Tcp);
    let clients: BTreeSet<u64> = own.map(|other| client_max_bytes(&other.setting)).collect();
    let client = client_max_bytes(setting);
    let is_smaller =
        if clients.len() > 1 { clients.first() == Some(&client) } else { client < setting.receive_max_bytes() };
    Some(if is_smaller { 9 } else { 10 })
}

/// Maximum of receive buffers on the client's host.
fn client_max_bytes(setting: &Setting) -> u64 {
    setting.client_receive_max_bytes.unwrap_or(ways::SYSTEM_RECEIVE_MAX_BYTES)
}

/// All congestion controls, where others than P4's were chosen: one figure for each loss.
pub(super) fn other_congestion(entries: &[Entry]) -> Section {
    let all = ways::all(entries);
    let tcp: Vec<&RttSeries> = all.iter().filter(|w| w.setting.protocol == Protocol::Tcp).collect();
    let groups = similar(&tcp, |s| Setting { congestion: None, ..s.clone() });
    let mut several: Vec<Vec<&RttSeries>> = groups.into_iter().filter(|group| group.len() > 1).collect();
    for group in &mut several {
        // The system's own equals one of several chosen ones.
        let chosen = group.iter().filter(|w| w.setting.congestion.is_some()).count();
        group.retain(|w| w.setting.congestion.is_some() || chosen < 2);
    }
    let is_other = |w: &&RttSeries| w.setting.congestion.as_deref().is_some_and(|name| !P4S.contains(&name));
    several.retain(|group| group.iter().any(is_other));
    let mut drawings: Vec<Drawing> = Vec::new();
    for group in &several {
        let setting = &group[0].setting;
        let loss = match setting.loss_percent {
            none if none <= 0.0 => "no loss".to_string(),
            loss => format!("loss {} %", words::number(loss)),
        };
        let parts = [loss, format!("data {}", setting.direction), both(setting), setting.maxima_words()];
        let lines = group.iter().enumerate().map(|(nth, way)| {
            let name = way.setting.congestion_words();
            (look(&name, nth), name, *way)
        });
        drawings.push(drawing(entries, lines.collect(), &parts, None));
    }
    drawings.truncate(FIGURES_MAX);
    Section {
        place: Place::BEYOND,
        heading: "Other congestion controls",
        words: "Beside those of P4 the ones that it did not have, such as bbr.",
        figures: drawn(drawings, &AXIS),
        command: "",
    }
}

pub(super) fn receiving(entries: &[Entry]) -> Section {
    let all = ways::all(entries);
    let tcp = plain(&all, Protocol::Tcp);
    // The sender's maximum does not matter.
    let bare = |s: &Setting| Setting { client_receive_max_bytes: None, server_receive_max_bytes: None, ..s.clone() };
    let mut drawings: Vec<Drawing> = Vec::new();
    for mut group in similar(&tcp, bare) {
        group.sort_by_key(|w| w.setting.receive_max_bytes());
        group.dedup_by_key(|w| w.setting.receive_max_bytes());
        if group.len() < 2 {
            continue;
        }
        let setting = &group[0].setting;
        let who = if setting.direction == Direction::Down { "the client receives" } else { "the server receives" };
        let parts = [who.to_string(), both(setting), congestion_of(setting)];
        let lines =
            group.iter().enumerate().map(|(nth, w)| (nth, words::bytes(w.setting.receive_max_bytes()), *w)).collect();
        let mut drawing = drawing(entries, lines, &parts, Some(15));
        let top = highest(&drawing);
        let axis = axis(&group);
        drawing.limits = group.iter().filter_map(|way| limit(way, &axis, top)).collect();
        if !drawing.limits.is_empty() {
            drawing.caption.push_str("Dashed: the window that was offered / RTT. ");
        }
        drawings.push(drawing);
    }
    drawings.truncate(FIGURES_MAX);
    let axis = Axis { legend: "receive maximum", ..AXIS };
    Section {
        place: Place::paper(4, 15),
        heading: "Receiving with different receive maxima",
        words: "P4, figure 15: with a larger maximum throughput no longer falls with the round trip.",
        figures: drawn(drawings, &axis),
        command: COMMAND,
    }
}

/// Both directions of each combination, with the congestion control and loss chosen by [`plain`]. Clients with different receive maxima and the same
/// server share a figure, as P4's Android and Ubuntu do.
fn both_ways(entries: &[Entry], protocol: Protocol, figure: u32) -> Vec<Drawing> {
    let all = ways::all(entries);
    let some = plain(&all, protocol);
    let bare = |s: &Setting| Setting { direction: Direction::Up, client_receive_max_bytes: None, ..s.clone() };
    let of = |group: &Vec<&RttSeries>| {
        let setting = &group[0].setting;
        let streams = match setting.streams {
            1 => String::new(),
            many => words::plural(u64::from(many), "stream"),
        };
        let rate =
            setting.rate_bits_per_second.map_or(String::new(), |r| format!("at {}", words::bits_per_second(r as f64)));
        let mut clients: Vec<Option<u64>> = group.iter().map(|w| w.setting.client_receive_max_bytes).collect();
        clients.sort_unstable();
        clients.dedup();
        let (maxima, several) = match clients.len() {
            1 => (setting.maxima_words(), false),
            _ => (
                format!(
                    "receive maxima of the client; server {}",
                    words::receive_max(setting.server_receive_max_bytes)
                ),
                true,
            ),
        };
        let parts = [both(setting), streams, rate, congestion_of(setting), maxima];
        let lines = group.iter().map(|way| {
            let client = way.setting.client_receive_max_bytes;
            let (nth, word) = match way.setting.direction {
                Direction::Down => (1, "down"),
                Direction::Up | Direction::Both => (0, "up"),
            };
            let place = clients.iter().position(|c| *c == client).unwrap_or_default();
            let name = if several { format!("{} {word}", words::receive_max(client)) } else { word.to_string() };
            (2 * place + nth, name, *way)
        });
        drawing(entries, lines.collect(), &parts, Some(figure))
    };
    similar(&some, bare).iter().take(FIGURES_MAX).map(of).collect()
}

/// Series over several round-trip times with the least loss of their result and its most frequent congestion control.
fn plain<'a, 'b>(all: &'b [RttSeries<'a>], protocol: Protocol) -> Vec<&'b RttSeries<'a>> {
    let like = |w: &&RttSeries| w.setting.protocol == protocol && w.ends().is_some();
    let mut kept = Vec::new();
    let entries: BTreeSet<usize> = all.iter().map(|w| w.entry).collect();
    for entry in entries {
        let own: Vec<&RttSeries> = all.iter().filter(|w| w.entry == entry).filter(like).collect();
        let loss = own.iter().map(|w| w.setting.loss_percent).fold(f64::INFINITY, f64::min);
        let own: Vec<&RttSeries> = own.into_iter().filter(|w| w.setting.loss_percent <= loss).collect();
        let how_many = |name: &Option<String>| own.iter().filter(|w| w.setting.congestion == *name).count();
        // Of equally frequent ones the system's own, then cubic, the default of most systems.
        let rank = |name: &Option<String>| (how_many(name), name.is_none(), name.as_deref() == Some("cubic"));
        let Some(most) = own.iter().map(|w| &w.setting.congestion).max_by_key(|name| rank(name)) else { continue };
        kept.extend(own.iter().copied().filter(|w| w.setting.congestion == *most));
    }
    kept
}

/// Series of one result with several round-trip times whose settings are equal after `bare`.
fn similar<'a, 'b>(series: &[&'b RttSeries<'a>], bare: impl Fn(&Setting) -> Setting) -> Vec<Vec<&'b RttSeries<'a>>> {
    let several = series.iter().copied().filter(|s| s.ends().is_some());
    grouped(several, |s| (s.entry, bare(&s.setting))).into_iter().map(|(_, group)| group).collect()
}

fn axis(group: &[&RttSeries]) -> RttAxis {
    RttAxis::of(group.iter().flat_map(|w| &w.places).filter_map(|p| p.rtt_ms))
}

/// One figure; `figure` is its number in P4, if it has one.
fn drawing(
    entries: &[Entry],
    lines: Vec<(usize, String, &RttSeries)>,
    parts: &[String],
    figure: Option<u32>,
) -> Drawing {
    let ways: Vec<&RttSeries> = lines.iter().map(|(_, _, way)| *way).collect();
    let axis = axis(&ways);
    let entry = ways.first().and_then(|way| entries.get(way.entry)).map_or("", |e| &e.name);
    let parts: Vec<&str> = parts.iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
    let what = parts.join(", ");
    let line = |(look, name, way): (usize, String, &RttSeries)| {
        let marks = way.places.iter().filter_map(|p| Some((axis.part(p.rtt_ms?), p)));
        Line {
            name,
            look,
            marks: marks.map(|(x, p)| mark(x, p.rate, is_doubtful(&p.point.warnings))).collect(),
            repetitions: way.places.iter().map(|p| p.point.summary.repetitions).collect(),
        }
    };
    Drawing {
        name: if what.is_empty() { entry.to_string() } else { format!("{entry} · {what}") },
        title: format!("{entry}: throughput over RTT, {what}"),
        caption: figure.map_or_else(String::new, |number| format!("P4's figure {number}. ")),
        lines: lines.into_iter().take(LINES_MAX).map(line).collect(),
        limits: Vec::new(),
        x_ticks: axis.ticks(),
    }
}

fn mark(x: f64, rate: Spread, doubtful: bool) -> Mark {
    Mark { x, y: rate.median / MEGABIT, range: Some((rate.min / MEGABIT, rate.max / MEGABIT)), doubtful }
}

fn highest(drawing: &Drawing) -> f64 {
    drawing.lines.iter().flat_map(|l| &l.marks).map(|m| m.range.map_or(m.y, |r| r.1)).fold(0.0, f64::max)
}

/// Window / RTT, from the round-trip time at which it falls to the measured maximum.
fn limit(way: &RttSeries, axis: &RttAxis, top: f64) -> Option<Limit> {
    let (_, last) = way.ends()?;
    let window = way.window_bytes(&last)?;
    let from = window * 8_000.0 / (top * MEGABIT);
    let bound = |rtt: f64| Some((axis.part(rtt), bound_bits_per_second(window, rtt)? / MEGABIT));
    let points: Vec<(f64, f64)> =
        axis.steps_from(from).into_iter().filter_map(bound).filter(|p| p.1 <= top * 1.01).collect();
    (!points.is_empty()).then(|| Limit { name: words::bytes(way.setting.receive_max_bytes()), points })
}

fn both(setting: &Setting) -> String {
    if setting.both { "both ways at once".into() } else { String::new() }
}

fn congestion_of(setting: &Setting) -> String {
    setting.congestion.as_ref().map_or(String::new(), |_| setting.congestion_words())
}

/// reno, cubic and bbr look the same in all figures.
fn look(name: &str, nth: usize) -> usize {
    ["reno", "cubic", "bbr"].iter().position(|known| *known == name).unwrap_or(3 + nth)
}
