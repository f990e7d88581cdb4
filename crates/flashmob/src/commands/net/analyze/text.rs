//! The result as text: a block for each connection.

use std::fmt::Write;

use flashmob_results::capture::{Capture, Cause, Doubt, Flow, Premise, Way};
use flashmob_results::{Document, Measurement};
use flashmob_text::Bytes;

use crate::commands::tell::harmless;

/// Sentences are wrapped at this column.
const WIDTH: usize = 100;

/// The whole text. Writing to a String cannot fail.
pub fn render(document: &Document) -> String {
    let Measurement::Capture(capture) = &document.measurement else { return String::new() };
    let mut text = String::new();
    let _ = writeln!(text, "{}", harmless(&heading(capture)));
    for flow in &capture.flows {
        block(&mut text, flow);
    }
    if capture.flows.is_empty() {
        text.push_str("  contains no TCP connections\n");
    }
    if capture.left_out > 0 {
        let _ = writeln!(text, "  {} connections with fewer bytes are left out; --flows shows more", capture.left_out);
    }
    for warning in &document.warnings {
        fold(&mut text, "  note: ", &harmless(&warning.message));
    }
    text
}

fn heading(capture: &Capture) -> String {
    format!(
        "{}: {} packets ({} of TCP) in {:.1} s, {}",
        capture.source,
        capture.packets,
        capture.tcp_packets,
        capture.elapsed_s,
        if capture.link_types.is_empty() {
            capture.form.clone()
        } else {
            format!("{}, {}", capture.form, capture.link_types.join(", "))
        }
    )
}

fn block(text: &mut String, flow: &Flow) {
    let opening = match (flow.has_opening, flow.opening_rtt_ms) {
        (true, Some(ms)) => format!("opened in {ms:.1} ms{}", mark(flow.is_doubtful("opening_rtt_ms"))),
        (true, None) => "opened".into(),
        (false, _) => "handshake not captured".into(),
    };
    let line = format!(
        "{} {} > {}: {:.1} s{}, {opening}",
        flow.number,
        flow.client,
        flow.server,
        flow.elapsed_s,
        mark(flow.is_doubtful("elapsed_s"))
    );
    let _ = writeln!(text, "\n{}", harmless(&line));
    if flow.up.data_packets + flow.down.data_packets == 0 {
        text.push_str("  no data\n");
    }
    for (name, way) in [("up  ", &flow.up), ("down", &flow.down)] {
        if way.data_packets > 0 {
            self::way(text, name, way);
        } else if way.missing_bytes > 0 {
            let _ = writeln!(text, "  {name} no data of it were captured");
            doubts(text, &way.doubts);
        }
    }
}

/// The mark of a doubtful figure; the reason follows below.
fn mark(is_doubtful: bool) -> &'static str {
    if is_doubtful { " (?)" } else { "" }
}

fn doubts(text: &mut String, doubts: &[Doubt]) {
    for doubt in doubts {
        let place = match (doubt.packet, doubt.count) {
            (None, _) => String::new(),
            (Some(packet), 0 | 1) => format!("packet {packet}: "),
            (Some(packet), count) => format!("packet {packet} and {} more: ", count - 1),
        };
        fold(text, "       (?) ", &harmless(&format!("{place}{}", doubt.message)));
    }
}

fn way(text: &mut String, name: &str, way: &Way) {
    let mark = |figure| mark(way.is_doubtful(figure));
    let rtt = match &way.rtt_ms {
        Some(rtt) => match way.sender_rtt_ms.filter(|ms| *ms > rtt.min) {
            // Captured near the receiver: the path that its data waits for is on the other side.
            Some(ms) => {
                format!("rtt at least {:.1} ms{} (captured near the receiver)", ms + rtt.min, mark("rtt_ms"))
            }
            None => format!("rtt {:.1} ms{} (min {:.1}, p99 {:.1})", rtt.median, mark("rtt_ms"), rtt.min, rtt.p99),
        },
        None => "rtt unknown".into(),
    };
    let _ = writeln!(
        text,
        "  {name} {:>9}{}  {}{}  {rtt}  retransmitted {} ({:.2} %){}",
        Bytes(way.unique_bytes).to_string(),
        mark("unique_bytes"),
        flashmob_text::bits_per_second(way.bits_per_second),
        mark("bits_per_second"),
        way.resent,
        100.0 * way.resent as f64 / way.data_packets.max(1) as f64,
        mark("resent")
    );
    let most = |of: &Option<flashmob_results::capture::Quantiles>| {
        of.as_ref().map_or("-".to_string(), |q| format!("{} (max {})", Bytes(q.median as u64), Bytes(q.max as u64)))
    };
    let _ = writeln!(
        text,
        "       in flight {}{}, window {}{}, packets per ACK {:.1}{}, window closed {} times{}",
        most(&way.flight_bytes),
        mark("flight_bytes"),
        most(&way.window_bytes),
        mark("window_bytes"),
        way.segments_per_acknowledgement,
        mark("segments_per_acknowledgement"),
        way.zero_windows,
        mark("zero_windows")
    );
    match &way.verdict {
        None if way.doubts.iter().any(|doubt| doubt.premise == Premise::BothDirections) => {
            text.push_str("       no ACKs for it were captured: the limit is unknown\n");
        }
        None => text.push_str("       too little data to tell the limit\n"),
        Some(verdict) => {
            let _ = writeln!(
                text,
                "       {}, {:.0} % of the time{}",
                self::name(verdict.cause),
                100.0 * verdict.fraction,
                mark("verdict")
            );
            for sentence in &verdict.evidence {
                fold(text, "         - ", &harmless(sentence));
            }
            fold(text, "         > ", &harmless(&verdict.remedy));
        }
    }
    doubts(text, &way.doubts);
}

fn name(cause: Cause) -> &'static str {
    match cause {
        Cause::ReceiverLimited => "RECEIVER-LIMITED",
        Cause::SenderLimited => "SENDER-LIMITED",
        Cause::CongestionLimited => "CONGESTION-LIMITED",
        Cause::ApplicationLimited => "APPLICATION-LIMITED",
    }
}

fn fold(text: &mut String, first: &str, sentence: &str) {
    text.push_str(&flashmob_text::fold(first, sentence, WIDTH));
}
