//! The document of a capture, with reasons to doubt its figures.

use flashmob_flows::packet::Reason;
use flashmob_host::device;
use flashmob_results::capture::{Capture, Flow, NotAnalyzed, Premise};
use flashmob_results::warning::{Code, Warning};
use flashmob_results::{Document, Measurement};

use super::Heard;
use crate::commands::tell::Begun;

/// The whole document.
pub fn document(heard: Heard, begun: Begun, label: Option<String>) -> Document {
    let summary = heard.summary;
    let capture = Capture {
        source: heard.source,
        form: heard.form.into(),
        link_types: summary.link_types,
        packets: summary.packets,
        tcp_packets: summary.tcp_packets,
        unreadable_packets: summary.unreadable_packets,
        lost_packets: heard.lost_packets,
        begun_unix_s: summary.begin_ns as f64 / 1e9,
        elapsed_s: summary.elapsed_ns as f64 / 1e9,
        ended_by: heard.ended_by,
        not_analyzed: summary.not_analyzed,
        doubts: summary.doubts,
        left_out: summary.left_out,
        flows: summary.flows,
    };
    let mut warnings = warnings(&capture);
    if heard.is_modelled {
        warnings.push(Warning::new(
            Code::Modelled,
            "captured in the lab: the air is modelled, and no figure comes from a real device",
        ));
    }
    if heard.is_interrupted {
        warnings.push(Warning::new(Code::Interrupted, "stopped early: later packets are missing"));
    }
    let document = begun.document(device::describe(), Measurement::Capture(capture), warnings);
    Document { interrupted: heard.is_interrupted, label, ..document }
}

fn warnings(capture: &Capture) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let mut add = |code, text: String| warnings.push(Warning::new(code, text));
    if let Some(why) = &capture.ended_by {
        add(Code::Interrupted, format!("the capture ends early ({why}); packets before that were analyzed"));
    }
    if let Some(lost) = capture.lost_packets.filter(|lost| *lost > 0) {
        let text = "they look like losses and distort windows; capture less of each packet (tcpdump -s 128), filter by port, or use a larger buffer (-B)";
        add(Code::Incomplete, format!("{lost} packets were not captured because the machine was too busy: {text}"));
    }
    for packets in capture.not_analyzed.iter().filter(|packets| packets.is_unreadable) {
        let NotAnalyzed { what, packets, first_packet, .. } = packets;
        let remedy = remedy(what);
        let text = format!("{packets} packets could not be read, the first is packet {first_packet}: {what}{remedy}");
        add(Code::Incomplete, text);
    }
    // Nothing of TCP: what was there instead says why.
    if capture.tcp_packets == 0 {
        let others = capture.not_analyzed.iter().filter(|packets| !packets.is_unreadable);
        let names: Vec<_> = others.map(|other| format!("{} {}", other.packets, other.what)).collect();
        if !names.is_empty() {
            add(Code::Incomplete, format!("no packet of TCP was found; the packets are: {}", names.join(", ")));
        }
    }
    if let Some(doubt) = capture.doubts.iter().find(|doubt| doubt.premise == Premise::Clock) {
        let packet = doubt.packet.unwrap_or(0);
        let text = "capture with a clock that is not set meanwhile (tcpdump -j host_hiprec, or no NTP step)";
        add(Code::ClockStepped, format!("packet {packet}: {} Remedy: {text}", doubt.message));
    }
    let ways = || capture.flows.iter().flat_map(|flow| [&flow.up, &flow.down]);
    let missing_bytes = ways().map(|way| way.missing_bytes).fold(0, u64::saturating_add);
    if missing_bytes > 0 {
        let text = "capture less of each packet (tcpdump -s 128), filter by port, or use a larger buffer (-B)";
        let missing = flashmob_text::Bytes(missing_bytes);
        add(Code::Incomplete, format!("{missing} were acknowledged and not captured: {text}"));
    }
    let copies = ways().map(|way| way.copies).fold(0, u64::saturating_add);
    if copies > 0 {
        add(Code::Copies, format!("{copies} packets were captured more than once: capture on one interface (-i NAME)"));
    }
    let has_data = |flow: &&Flow| flow.up.data_packets + flow.down.data_packets > 0;
    let (with_data, without): (usize, usize) = (
        capture.flows.iter().filter(has_data).count(),
        capture.flows.iter().filter(has_data).filter(|flow| !flow.has_opening).count(),
    );
    if without > 0 {
        let text = "their windows are known only up to a factor; start the capture before the connections";
        add(
            Code::Incomplete,
            format!("the handshakes of {without} of {with_data} connections were not captured: {text}"),
        );
    }
    warnings
}

/// Advice about packets that could not be read.
fn remedy(what: &str) -> &'static str {
    if *what == *Reason::Cut.name() {
        "; capture at least 128 bytes of each (tcpdump -s 128)"
    } else if what.starts_with("link type") {
        "; capture on an interface of another type, or convert the capture"
    } else {
        ""
    }
}
