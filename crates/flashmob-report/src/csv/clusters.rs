//! The repetitions of clusters. Counts are as they were counted, and what is computed from them stands beside; `is_void` tells
//! repetitions that count for nothing, which whoever computes with the table has to leave out.

use flashmob_results::cluster::{Attachment, Cluster, Packets, Point, Repetition, Setting};

use super::{codes, text, written};
use crate::Error;
use crate::entry::Entry;

type Column = (&'static str, fn(&Row) -> String);

struct Row<'a> {
    entry: &'a Entry,
    cluster: &'a Cluster,
    point_at: usize,
    point: &'a Point,
    repetition_at: usize,
    repetition: &'a Repetition,
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
    ("setting", |r| setting(r.cluster.setting).to_string()),
    ("air", |r| text(r.cluster.air.as_ref().map(|a| &a.profile))),
    ("gateway", |r| text(r.cluster.air.as_ref().map(|a| attached(a.gateway)))),
    ("cells", |r| text(r.cluster.air.as_ref().map(|a| a.cells))),
    ("flash", |r| text(r.cluster.flash.as_ref().map(|f| &f.profile))),
    ("flash_limit_requests_per_second", |r| {
        let p = &r.point.parameters;
        text(r.cluster.flash_limit(p.block_bytes, p.read_percent))
    }),
    ("extent_bytes", |r| r.cluster.extent_bytes.to_string()),
    ("point", |r| (r.point_at + 1).to_string()),
    ("nodes", |r| r.point.parameters.nodes.to_string()),
    ("links", |r| r.point.parameters.links.to_string()),
    ("batch", |r| r.point.parameters.batch.to_string()),
    ("block_bytes", |r| r.point.parameters.block_bytes.to_string()),
    ("read_percent", |r| r.point.parameters.read_percent.to_string()),
    ("outstanding", |r| r.point.parameters.outstanding.to_string()),
    ("no_io", |r| r.point.parameters.no_io.to_string()),
    ("repetition", |r| (r.repetition_at + 1).to_string()),
    ("is_void", |r| r.repetition.is_void.to_string()),
    ("begin_s", |r| r.repetition.begin_s.to_string()),
    ("elapsed_s", |r| r.repetition.elapsed_s.to_string()),
    ("requests", |r| r.repetition.requests.to_string()),
    ("bytes", |r| r.repetition.bytes.to_string()),
    ("errors", |r| r.repetition.errors.to_string()),
    ("requests_per_second", |r| r.repetition.requests_per_second.to_string()),
    ("batches_sent", |r| r.repetition.batches.sent.to_string()),
    ("batches_pieces", |r| r.repetition.batches.pieces.to_string()),
    ("batches_replies", |r| r.repetition.batches.replies.to_string()),
    ("packets_sent", |r| text(r.repetition.packets.map(|p| p.sent))),
    ("packets_received", |r| text(r.repetition.packets.map(|p| p.received))),
    ("packets_data_sent", |r| text(r.repetition.packets.map(|p| p.data_sent))),
    ("packets_data_received", |r| text(r.repetition.packets.map(|p| p.data_received))),
    ("packets_bytes_sent", |r| text(r.repetition.packets.map(|p| p.bytes_sent))),
    ("packets_bytes_received", |r| text(r.repetition.packets.map(|p| p.bytes_received))),
    ("packets_retransmitted", |r| text(r.repetition.packets.map(|p| p.retransmitted))),
    ("packet_mean_bytes", |r| text(r.repetition.packets.map(Packets::mean_bytes).filter(|b| b.is_finite()))),
    ("air_transmissions", |r| text(r.repetition.air.map(|a| a.transmissions))),
    ("air_frames", |r| text(r.repetition.air.map(|a| a.frames))),
    ("air_frame_bytes", |r| text(r.repetition.air.map(|a| a.frame_bytes))),
    ("air_collisions", |r| text(r.repetition.air.map(|a| a.collisions))),
    ("air_retries", |r| text(r.repetition.air.map(|a| a.retries))),
    ("air_dropped", |r| text(r.repetition.air.map(|a| a.dropped))),
    ("air_busy_fraction", |r| text(r.repetition.air.map(|a| a.busy_fraction))),
    ("flash_busy_fraction", |r| text(r.repetition.flash_busy_fraction)),
    ("gateway_cpu_s", |r| r.repetition.gateway_cpu_s.to_string()),
    ("lateness_p50_us", |r| text(r.repetition.lateness.map(|l| l.p50_us))),
    ("lateness_p99_us", |r| text(r.repetition.lateness.map(|l| l.p99_us))),
    ("lateness_max_us", |r| text(r.repetition.lateness.map(|l| l.max_us))),
    ("lateness_late_fraction", |r| text(r.repetition.lateness.map(|l| l.late_fraction))),
    ("document_warnings", |r| codes(&r.entry.document.warnings)),
    ("point_warnings", |r| codes(&r.point.warnings)),
    ("latency_count", |r| r.repetition.latency_ns.count.to_string()),
    ("latency_mean_ns", |r| r.repetition.latency_ns.mean.to_string()),
    ("latency_stdev_ns", |r| r.repetition.latency_ns.stdev.to_string()),
    ("latency_min_ns", |r| r.repetition.latency_ns.min.to_string()),
    ("latency_max_ns", |r| r.repetition.latency_ns.max.to_string()),
];

fn setting(setting: Setting) -> &'static str {
    match setting {
        Setting::Network => "network",
        Setting::Lab => "lab",
        Setting::Simulator => "simulator",
    }
}

fn attached(attachment: Attachment) -> &'static str {
    match attachment {
        Attachment::Wireless => "wireless",
        Attachment::Wired => "wired",
    }
}

/// The repetitions of clusters, with a heading.
pub(crate) fn table(entries: &[Entry]) -> Result<String, Error> {
    let mut rows = Vec::new();
    for entry in entries {
        let Some(cluster) = entry.cluster() else { continue };
        for (point_at, point) in cluster.points.iter().enumerate() {
            for (repetition_at, repetition) in point.repetitions.iter().enumerate() {
                let row = Row { entry, cluster, point_at, point, repetition_at, repetition };
                let values: Vec<String> = COLUMNS.iter().map(|c| (c.1)(&row)).collect();
                rows.push((values, &repetition.latency_ns));
            }
        }
    }
    written(COLUMNS.iter().map(|c| c.0), &rows)
}
