//! Captured connections: the capture, and each direction's properties, limiting cause and remedy.

use flashmob_results::capture::{Capture, Quantiles, Verdict};
use maud::{Markup, html};

use super::{scrolling, tags};
use crate::entry::Entry;
use crate::flows::{self, CapturedWay};
use crate::words;

/// Directions of each capture with evidence for their verdicts, and with a row.
const VERDICTS_MAX: usize = 5;
const ROWS_MAX: usize = 50;
/// Doubts of each direction.
const DOUBTS_MAX: usize = 8;

/// The main finding.
pub fn found(capture: &Capture) -> String {
    let connections = (capture.flows.len() as u64).saturating_add(capture.left_out);
    let all = format!("{} in {}", words::plural(connections, "connection"), words::plural(capture.packets, "packet"));
    match flows::main(capture) {
        Some(main) => {
            let rate = words::bits_per_second(main.way.bits_per_second);
            let mark = if main.way.is_doubtful("bits_per_second") { " ⚠ (doubtful)" } else { "" };
            format!("{all}; most data: {}, {rate}{mark}{}", ends(&main), held(&main))
        }
        None => format!("{all}; none carried much data"),
    }
}

fn held(main: &CapturedWay) -> String {
    let verdict = main.way.verdict.as_ref();
    let mark = if main.way.is_doubtful("verdict") { " ⚠ (doubtful)" } else { "" };
    verdict.map_or(String::new(), |v| {
        format!(", {} for {} of the time{mark}", flows::cause(v.cause), words::percent(v.fraction))
    })
}

fn ends(main: &CapturedWay) -> String {
    let (from, to) = main.ends();
    format!("{} → {}", words::plain(from, 60), words::plain(to, 60))
}

/// The capture in a sentence.
pub fn paragraph(entry: &Entry, capture: &Capture) -> Markup {
    html! {
        (words::plain(&capture.source, 120)) " (" (words::plain(&capture.form, 20)) "), "
        (words::number(capture.elapsed_s)) " s; " (words::count(capture.tcp_packets)) " of " (words::plural(capture.packets, "packet")) " of TCP"
        @if capture.unreadable_packets > 0 { ", " strong { (words::count(capture.unreadable_packets)) " not understood" } }
        @if let Some(lost) = capture.lost_packets { @if lost > 0 { ", " strong { (words::count(lost)) " lost by the capturing program" } } }
        @if let Some(why) = &capture.ended_by { "; " strong { "the rest could not be read: " (words::plain(why, 200)) } }
        @if entry.document.interrupted { ", " strong { "interrupted before its end" } }
        "."
    }
}

pub fn section(entries: &[Entry]) -> Markup {
    html! {
        p {
            "Each way of each connection that carried data, those with most data first. Round trips are from data to its acknowledgement, as seen where the packets were captured. "
            "Sent again, duplicate acknowledgements, and how often a window was full or closed show what limited the sender."
        }
        @for entry in entries {
            @if let Some(capture) = entry.capture() {
                @let ways = flows::ways(capture);
                h3 { (entry.name) (tags(entry)) }
                p.muted { (paragraph(entry, capture)) }
                @if ways.is_empty() { p { "No connection carried more than a few packets of data." } }
                @else { (scrolling(&format!("{}: connections", entry.name), table(&ways))) }
                @if ways.len() > ROWS_MAX { p.muted { "The other " (words::count((ways.len() - ROWS_MAX) as u64)) " ways are in the result." } }
                @if capture.left_out > 0 { p.muted { (words::plural(capture.left_out, "connection")) " more with less data are not in the result." } }
                @if ways.iter().take(ROWS_MAX).any(|main| !doubts(main).is_empty()) {
                    p { "⚠: doubtful, because the capture breaks a premise of the figure." }
                    ul.warnings { @for main in ways.iter().take(ROWS_MAX) { @for doubt in doubts(main) { li { strong { (ends(main)) } ": " (doubt) } } } }
                }
                ul.warnings { @for main in ways.iter().take(VERDICTS_MAX) { @if let Some(v) = &main.way.verdict { li { (verdict(main, v)) } } } }
            }
        }
    }
}

fn verdict(main: &CapturedWay, verdict: &Verdict) -> Markup {
    let sentence = |text: &str| words::plain(text, 300).trim_end_matches('.').to_string();
    html! {
        strong { (ends(main)) } ": " (flows::cause(verdict.cause)) ", " (words::percent(verdict.fraction)) " of the time. "
        @for evidence in verdict.evidence.iter().take(8) { (words::capital(&sentence(evidence))) ". " }
        @if !verdict.remedy.is_empty() { span.muted { "Remedy: " (sentence(&verdict.remedy)) "." } }
    }
}

fn table(ways: &[CapturedWay]) -> Markup {
    let columns = "from → to | held back by | bytes | throughput | packets | bytes/packet | sent again | out of order | \
        dup. ACKs | packets/ACK | RTT p50 | RTT p99 | in flight p50 | most | window | window full | window 0";
    super::table("dense named", columns, ways.iter().take(ROWS_MAX).map(row))
}

/// The doubts about a direction: which packet breaks which premise.
fn doubts(main: &CapturedWay) -> Vec<String> {
    let way = main.way;
    let mut all: Vec<String> = (way.doubts.iter().take(DOUBTS_MAX))
        .map(|doubt| {
            let message = words::plain(&doubt.message, 300);
            doubt.packet.map_or_else(|| message.clone(), |packet| format!("Packet {packet}: {message}"))
        })
        .collect();
    if way.doubts.is_empty() && way.is_doubtful("rtt_ms") {
        all.push("A round trip is negative: the clock of the capture stepped. Analyze the capture again.".into());
    }
    all
}

fn row(main: &CapturedWay) -> Markup {
    let way = main.way;
    let mark = |figure| if way.is_doubtful(figure) { " ⚠" } else { "" };
    let of = |q: Option<Quantiles>, part: fn(&Quantiles) -> f64| q.map(|q| part(&q)).filter(|v| v.is_finite());
    let bytes = |value: Option<f64>| words::or_dash(value.map(|v| words::bytes(v.max(0.0) as u64)));
    let time = |value: Option<f64>| words::or_dash(value.map(words::time_ms));
    html! {
        tr {
            th { (ends(main)) }
            td { (way.verdict.as_ref().map_or("–", |v| flows::cause(v.cause))) (mark("verdict")) }
            td { (words::bytes(way.unique_bytes)) (mark("unique_bytes")) }
            td { (words::bits_per_second(way.bits_per_second)) (mark("bits_per_second")) }
            td { (words::count(way.data_packets)) (mark("data_packets")) }
            td { (words::number(way.packet_bytes)) }
            td { (words::count(way.resent)) (mark("resent")) }
            td { (words::count(way.out_of_order)) (mark("out_of_order")) }
            td { (words::count(way.duplicate_acknowledgements)) (mark("duplicate_acknowledgements")) }
            td { (words::number(way.segments_per_acknowledgement)) (mark("segments_per_acknowledgement")) }
            td { (time(of(way.rtt_ms, |q| q.median))) (mark("rtt_ms")) }
            td { (time(of(way.rtt_ms, |q| q.p99))) (mark("rtt_ms")) }
            td { (bytes(of(way.flight_bytes, |q| q.median))) (mark("flight_bytes")) }
            td { (bytes(of(way.flight_bytes, |q| q.max))) (mark("flight_bytes")) }
            td { (bytes(of(way.window_bytes, |q| q.max))) (mark("window_bytes")) }
            td { (words::count(way.full_windows)) (mark("full_windows")) }
            td { (words::count(way.zero_windows)) (mark("zero_windows")) }
        }
    }
}
