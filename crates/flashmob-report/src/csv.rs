//! One row for each repetition, with all its parameters: for spreadsheets and statistics. Units stand in the headings; what is unknown is empty.
//!
//! Devices, clusters and networks have a table each: their columns have little in common, and most of a common table would be empty.

pub(crate) mod clusters;
pub(crate) mod networks;

use flashmob_results::disk::{Point, Repetition};
use flashmob_results::latency::{Latency, PERCENTILES};
use flashmob_results::warning::Warning;

use crate::Error;
use crate::entry::Entry;
use crate::words::snake;

/// Heading and value of each column but the percentiles.
type Column = (&'static str, fn(&Row) -> String);

struct Row<'a> {
    entry: &'a Entry,
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
    ("system", |r| text(r.entry.document.device.system.as_ref())),
    ("kernel", |r| text(r.entry.document.device.kernel.as_ref())),
    ("architecture", |r| text(r.entry.document.device.architecture.as_ref())),
    ("emulated", |r| text(r.entry.document.device.emulated.as_ref())),
    ("program_version", |r| r.entry.document.program_version.clone()),
    ("started_unix_s", |r| r.entry.document.started_unix_s.to_string()),
    ("preset", |r| text(r.entry.document.preset.as_ref())),
    ("scale", |r| r.entry.document.scale.to_string()),
    ("seed", |r| r.entry.document.seed.to_string()),
    ("modelled", |r| text(r.entry.model().map(|m| &m.profile))),
    ("rotational", |r| text(r.entry.file().and_then(|f| f.place.rotational))),
    ("filesystem", |r| text(r.entry.file().and_then(|f| f.place.filesystem.as_ref()))),
    ("point", |r| (r.point_at + 1).to_string()),
    ("operation", |r| r.point.parameters.operation.to_string()),
    ("pattern", |r| r.point.parameters.pattern.to_string()),
    ("block_bytes", |r| r.point.parameters.block_bytes.to_string()),
    ("threads", |r| r.point.parameters.threads.to_string()),
    ("depth", |r| r.point.parameters.depth.to_string()),
    ("engine", |r| r.point.parameters.engine.to_string()),
    ("cache", |r| r.point.parameters.cache.to_string()),
    ("sync", |r| text(r.point.parameters.sync)),
    ("scheduler", |r| text(r.point.parameters.scheduler.as_ref())),
    ("range_bytes", |r| r.point.parameters.range_bytes.to_string()),
    ("limit_requests", |r| text(r.point.parameters.requests)),
    ("limit_time_s", |r| text(r.point.parameters.time_s)),
    ("repetition", |r| (r.repetition_at + 1).to_string()),
    ("begin_s", |r| r.repetition.begin_s.to_string()),
    ("elapsed_s", |r| r.repetition.elapsed_s.to_string()),
    ("requests", |r| r.repetition.requests.to_string()),
    ("bytes", |r| r.repetition.bytes.to_string()),
    ("errors", |r| r.repetition.errors.to_string()),
    ("first_error", |r| text(r.repetition.first_error.as_ref())),
    ("requests_per_second", |r| r.repetition.requests_per_second.to_string()),
    ("bytes_per_second", |r| r.repetition.bytes_per_second.to_string()),
    ("cpu_user_s", |r| r.repetition.cpu_user_s.to_string()),
    ("cpu_system_s", |r| r.repetition.cpu_system_s.to_string()),
    ("cached_before_bytes", |r| text(r.repetition.cached_before_bytes)),
    ("cached_after_bytes", |r| text(r.repetition.cached_after_bytes)),
    ("fetched_bytes", |r| text(r.repetition.fetched_bytes)),
    ("foreign_bytes", |r| text(r.repetition.foreign_bytes)),
    ("upward_fraction", |r| text(r.repetition.upward_fraction)),
    ("interrupted", |r| r.repetition.interrupted.to_string()),
    ("document_warnings", |r| codes(&r.entry.document.warnings)),
    ("point_warnings", |r| codes(&r.point.warnings)),
    ("latency_count", |r| r.repetition.latency_ns.count.to_string()),
    ("latency_mean_ns", |r| r.repetition.latency_ns.mean.to_string()),
    ("latency_stdev_ns", |r| r.repetition.latency_ns.stdev.to_string()),
    ("latency_min_ns", |r| r.repetition.latency_ns.min.to_string()),
    ("latency_max_ns", |r| r.repetition.latency_ns.max.to_string()),
];

fn text(value: Option<impl ToString>) -> String {
    value.map(|v| v.to_string()).unwrap_or_default()
}

/// Kinds of doubts, each once, separated by blanks.
fn codes(warnings: &[Warning]) -> String {
    let mut codes: Vec<String> = warnings.iter().map(|w| snake(&format!("{:?}", w.code))).collect();
    codes.sort();
    codes.dedup();
    codes.join(" ")
}

/// The repetitions of devices, with a heading.
pub(crate) fn table(entries: &[Entry]) -> Result<String, Error> {
    let mut rows = Vec::new();
    for entry in entries {
        for (point_at, point) in entry.points().iter().enumerate() {
            for (repetition_at, repetition) in point.repetitions.iter().enumerate() {
                let row = Row { entry, point_at, point, repetition_at, repetition };
                let values: Vec<String> = COLUMNS.iter().map(|c| (c.1)(&row)).collect();
                rows.push((values, &repetition.latency_ns));
            }
        }
    }
    written(COLUMNS.iter().map(|c| c.0), &rows)
}

/// A table with these headings and rows, with the percentiles behind their columns.
fn written<'a>(headings: impl Iterator<Item = &'a str>, rows: &[(Vec<String>, &Latency)]) -> Result<String, Error> {
    let failed = |what: String| Error::Csv(what);
    let mut writer = csv::Writer::from_writer(Vec::new());
    let percentiles = PERCENTILES.iter().map(|percent| format!("latency_p{percent}_ns"));
    let heading: Vec<String> = headings.map(str::to_string).chain(percentiles).collect();
    writer.write_record(&heading).map_err(|e| failed(e.to_string()))?;
    for (values, latency) in rows {
        let times = PERCENTILES.iter().map(|percent| text(latency.percentile_ns(*percent)));
        let record: Vec<String> = values.iter().cloned().chain(times).collect();
        writer.write_record(&record).map_err(|e| failed(e.to_string()))?;
    }
    let bytes = writer.into_inner().map_err(|e| failed(e.to_string()))?;
    String::from_utf8(bytes).map_err(|e| failed(e.to_string()))
}
