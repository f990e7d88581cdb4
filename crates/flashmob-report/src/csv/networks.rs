//! The repetitions of networks, a row for each way. Counts are as they were counted; what TCP says is of the sending end at the end, mean over the
//! streams of that way, windows their sum. `is_void` tells repetitions that count for nothing, which whoever computes with the table has to leave out.

use flashmob_results::cluster::Setting;
use flashmob_results::latency::Latency;
use flashmob_results::net::{Flow, Net, Point, Protocol, Repetition, TcpEnd};

use super::{codes, text, written};
use crate::Error;
use crate::entry::Entry;

type Column = (&'static str, fn(&Row) -> String);

struct Row<'a> {
    entry: &'a Entry,
    net: &'a Net,
    point_at: usize,
    point: &'a Point,
    repetition_at: usize,
    repetition: &'a Repetition,
    flow: &'a Flow,
}

impl Row<'_> {
    fn senders(&self) -> impl Iterator<Item = &TcpEnd> {
        self.repetition.streams.iter().filter(|s| s.direction == self.flow.direction).filter_map(|s| s.sender.as_ref())
    }

    /// Mean over the streams.
    fn mean(&self, of: fn(&TcpEnd) -> f64) -> String {
        let values: Vec<f64> = self.senders().map(of).collect();
        text((!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64))
    }

    fn sum(&self, of: fn(&TcpEnd) -> u64) -> String {
        let sum = self.senders().map(of).reduce(u64::saturating_add);
        text(sum)
    }
}

const COLUMNS: &[Column] = &[
    ("name", |r| r.entry.name.clone()),
    ("file", |r| r.entry.file.clone()),
    ("label", |r| text(r.entry.document.label.as_ref())),
    ("device_model", |r| text(r.entry.document.device.model.as_ref())),
    ("kernel", |r| text(r.entry.document.device.kernel.as_ref())),
    ("emulated", |r| text(r.entry.document.device.emulated.as_ref())),
    ("program_version", |r| r.entry.document.program_version.clone()),
    ("started_unix_s", |r| r.entry.document.started_unix_s.to_string()),
    ("seed", |r| r.entry.document.seed.to_string()),
    ("setting", |r| setting(r.net.setting).to_string()),
    ("server", |r| r.net.server.clone()),
    ("peer", |r| r.repetition.peer.clone()),
    ("point", |r| (r.point_at + 1).to_string()),
    ("protocol", |r| protocol(r.point.parameters.protocol).to_string()),
    ("direction", |r| r.point.parameters.direction.to_string()),
    ("streams", |r| r.point.parameters.streams.to_string()),
    ("congestion", |r| text(r.point.parameters.congestion.as_ref())),
    ("rate_bits_per_second", |r| text(r.point.parameters.rate_bits_per_second)),
    ("block_bytes", |r| r.point.parameters.block_bytes.to_string()),
    ("window_bytes", |r| text(r.point.parameters.window_bytes)),
    ("request_bytes", |r| text(r.point.parameters.messages.map(|m| m.request_bytes))),
    ("answer_bytes", |r| text(r.point.parameters.messages.map(|m| m.answer_bytes))),
    ("depth", |r| text(r.point.parameters.messages.map(|m| m.depth))),
    ("path_air", |r| text(r.point.parameters.path.as_ref().map(|p| &p.air))),
    ("path_rtt_ms", |r| text(r.point.parameters.path.as_ref().map(|p| p.rtt_ms))),
    ("path_loss_percent", |r| text(r.point.parameters.path.as_ref().map(|p| p.loss_percent))),
    ("path_rate_bits_per_second", |r| text(r.point.parameters.path.as_ref().and_then(|p| p.rate_bits_per_second))),
    ("client_receive_max_bytes", |r| text(r.point.parameters.client_receive_max_bytes)),
    ("server_receive_max_bytes", |r| text(r.point.parameters.server_receive_max_bytes)),
    ("repetition", |r| (r.repetition_at + 1).to_string()),
    ("is_void", |r| r.repetition.is_void.to_string()),
    ("begin_s", |r| r.repetition.begin_s.to_string()),
    ("elapsed_s", |r| r.repetition.elapsed_s.to_string()),
    ("way", |r| r.flow.direction.to_string()),
    ("sent_bytes", |r| r.flow.sent_bytes.to_string()),
    ("received_bytes", |r| r.flow.received_bytes.to_string()),
    ("sent_bits_per_second", |r| r.flow.sent_bits_per_second.to_string()),
    ("received_bits_per_second", |r| r.flow.received_bits_per_second.to_string()),
    ("retransmissions", |r| text(r.flow.retransmissions)),
    ("datagrams_sent", |r| text(r.flow.udp.map(|u| u.sent))),
    ("datagrams_lost", |r| text(r.flow.udp.map(|u| u.lost))),
    ("datagrams_out_of_order", |r| text(r.flow.udp.map(|u| u.out_of_order))),
    ("jitter_ms", |r| text(r.flow.udp.map(|u| u.jitter_ms))),
    ("rtt_ms", |r| r.mean(|end| end.rtt_ms)),
    ("rtt_variation_ms", |r| r.mean(|end| end.rtt_variation_ms)),
    ("min_rtt_ms", |r| r.mean(|end| end.min_rtt_ms)),
    ("congestion_window_bytes", |r| r.sum(|end| end.congestion_window_bytes)),
    ("send_window_max_bytes", |r| r.sum(|end| end.send_window_max_bytes)),
    ("send_buffer_bytes", |r| r.sum(|end| end.send_buffer_bytes)),
    ("packets_sent", |r| r.sum(|end| end.packets_sent)),
    ("packets_received", |r| r.sum(|end| end.packets_received)),
    ("packet_mean_bytes", |r| r.mean(|end| end.packet_bytes)),
    ("busy_s", |r| r.mean(|end| end.busy_s)),
    ("receiver_limited_s", |r| r.mean(|end| end.receiver_limited_s)),
    ("send_buffer_limited_s", |r| r.mean(|end| end.send_buffer_limited_s)),
    ("requests", |r| text(r.repetition.exchange.as_ref().map(|e| e.requests))),
    ("requests_per_second", |r| text(r.repetition.exchange.as_ref().map(|e| e.requests_per_second))),
    ("cpu_s", |r| r.repetition.cpu_s.to_string()),
    ("peer_cpu_s", |r| text(r.repetition.peer_cpu_s)),
    ("lateness_p50_us", |r| text(r.repetition.lateness.map(|l| l.p50_us))),
    ("lateness_p99_us", |r| text(r.repetition.lateness.map(|l| l.p99_us))),
    ("lateness_max_us", |r| text(r.repetition.lateness.map(|l| l.max_us))),
    ("lateness_late_fraction", |r| text(r.repetition.lateness.map(|l| l.late_fraction))),
    ("document_warnings", |r| codes(&r.entry.document.warnings)),
    ("point_warnings", |r| codes(&r.point.warnings)),
];

fn setting(setting: Setting) -> &'static str {
    match setting {
        Setting::Network => "network",
        Setting::Lab => "lab",
        Setting::Simulator => "simulator",
    }
}

fn protocol(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Tcp => "tcp",
        Protocol::Udp => "udp",
        Protocol::Messages => "messages",
    }
}

/// The repetitions of networks, with a heading. Latencies are those of messages.
pub(crate) fn table(entries: &[Entry]) -> Result<String, Error> {
    let none = Latency::merged(std::iter::empty::<&Latency>());
    let mut rows = Vec::new();
    for entry in entries {
        let Some(net) = entry.net() else { continue };
        for (point_at, point) in net.points.iter().enumerate() {
            for (repetition_at, repetition) in point.repetitions.iter().enumerate() {
                for flow in &repetition.flows {
                    let row = Row { entry, net, point_at, point, repetition_at, repetition, flow };
                    let values: Vec<String> = COLUMNS.iter().map(|c| (c.1)(&row)).collect();
                    rows.push((values, repetition.exchange.as_ref().map_or(&none, |e| &e.latency_ns)));
                }
            }
        }
    }
    written(COLUMNS.iter().map(|c| c.0), &rows)
}
