//! The document of a capture, with reasons to doubt its figures.

use flashmob_host::device;
use flashmob_results::capture::{Capture, Flow};
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
    if capture.unreadable_packets * 100 > capture.packets {
        let text = "capture at least 128 bytes of each (tcpdump -s 128)";
        add(Code::Incomplete, format!("{} packets could not be read: {text}", capture.unreadable_packets));
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
