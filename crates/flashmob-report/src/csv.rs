//! One row per repetition with all its parameters, for spreadsheets and statistics. Headings contain units; unknown values are empty.
//!
//! Devices, clusters and networks have a table each, because they share few columns. Columns are
//! fields of the result format, found by name in the document's JSON; derived values are in columns of their own.
//! `is_void` marks void repetitions: exclude them from any computation.

use std::collections::BTreeSet;

use flashmob_results::cluster::Packets;
use flashmob_results::latency::{Latency, PERCENTILES};
use flashmob_results::net::{self, Flow, TcpEnd};
use flashmob_results::warning::Warning;
use serde::Serialize;
use serde_json::{Value, json};

use crate::Error;
use crate::entry::Entry;
use crate::words::snake;

/// Columns that are fields of one object: the object's path in a row (RFC 6901), the prefix of the headings, and the fields. A field
/// `a=b` has the heading `a`.
type Fields = (&'static str, &'static str, &'static str);

const DEVICES: &[Fields] = &[
    ("", "", "name file"),
    ("/document", "", "label"),
    ("/document/device", "", "device_model=model system kernel architecture emulated"),
    ("/document", "", "program_version started_unix_s preset scale seed"),
    ("/document/measurement/model", "", "modelled=profile"),
    ("/document/measurement/file/place", "", "rotational filesystem"),
    ("", "", "point"),
    ("/parameters", "", "operation pattern block_bytes threads depth engine cache sync scheduler range_bytes"),
    ("/parameters", "limit_", "requests time_s"),
    ("", "", "repetition"),
    (
        "/measured",
        "",
        "begin_s elapsed_s requests bytes errors first_error requests_per_second bytes_per_second cpu_user_s cpu_system_s",
    ),
    ("/measured", "", "cached_before_bytes cached_after_bytes fetched_bytes foreign_bytes upward_fraction interrupted"),
    ("", "", "document_warnings point_warnings"),
    ("/measured/latency_ns", "latency_", "count mean_ns=mean stdev_ns=stdev min_ns=min max_ns=max"),
];

const CLUSTERS: &[Fields] = &[
    ("", "", "name file"),
    ("/document", "", "label"),
    ("/document/device", "", "device_model=model kernel emulated"),
    ("/document", "", "program_version started_unix_s seed"),
    ("/document/measurement", "", "setting"),
    ("/document/measurement/air", "", "air=profile gateway cells"),
    ("/document/measurement/flash", "", "flash=profile"),
    ("", "", "flash_limit_requests_per_second"),
    ("/document/measurement", "", "extent_bytes"),
    ("", "", "point"),
    ("/parameters", "", "nodes links"),
    ("", "", "batch"),
    ("/parameters", "", "order block_bytes read_percent outstanding no_io"),
    ("", "", "repetition"),
    ("/measured", "", "is_void begin_s elapsed_s requests bytes errors requests_per_second"),
    ("/measured/batches", "batches_", "sent pieces replies"),
    ("/measured/packets", "packets_", "sent received data_sent data_received bytes_sent bytes_received retransmitted"),
    ("", "", "packet_mean_bytes"),
    ("/measured/air", "air_", "transmissions frames frame_bytes collisions retries dropped busy_fraction"),
    ("/measured", "", "flash_busy_fraction gateway_cpu_s"),
    ("/measured/lateness", "lateness_", "p50_us p99_us max_us late_fraction"),
    ("", "", "document_warnings point_warnings"),
    ("/measured/latency_ns", "latency_", "count mean_ns=mean stdev_ns=stdev min_ns=min max_ns=max"),
];

const NETWORKS: &[Fields] = &[
    ("", "", "name file"),
    ("/document", "", "label"),
    ("/document/device", "", "device_model=model kernel emulated"),
    ("/document", "", "program_version started_unix_s seed"),
    ("/document/measurement", "", "setting server"),
    ("/measured", "", "peer"),
    ("", "", "point"),
    ("/parameters", "", "protocol direction streams congestion rate_bits_per_second block_bytes window_bytes"),
    ("/parameters/messages", "", "request_bytes answer_bytes depth"),
    ("/parameters/path", "path_", "air rtt_ms loss_percent rate_bits_per_second"),
    ("/parameters", "", "client_receive_max_bytes server_receive_max_bytes"),
    ("", "", "repetition"),
    ("/measured", "", "is_void begin_s elapsed_s"),
    (
        "/flow",
        "",
        "way=direction sent_bytes received_bytes sent_bits_per_second received_bits_per_second retransmissions",
    ),
    ("/flow/udp", "", "datagrams_sent=sent datagrams_lost=lost datagrams_out_of_order=out_of_order jitter_ms"),
    (
        "/senders",
        "",
        "rtt_ms rtt_variation_ms min_rtt_ms congestion_window_bytes send_window_max_bytes send_buffer_bytes",
    ),
    ("/senders", "", "packets_sent packets_received packet_mean_bytes busy_s receiver_limited_s send_buffer_limited_s"),
    ("/measured/exchange", "", "requests requests_per_second"),
    ("/measured", "", "cpu_s peer_cpu_s"),
    ("/measured/lateness", "lateness_", "p50_us p99_us max_us late_fraction"),
    ("", "", "document_warnings point_warnings"),
];

/// The repetitions of devices, with a heading.
pub(crate) fn devices(entries: &[Entry]) -> Result<String, Error> {
    let mut table = Table::new(DEVICES)?;
    for entry in entries {
        let mut row = of_entry(entry)?;
        for (nth, point) in entry.points().iter().enumerate() {
            add_point(&mut row, nth, &point.parameters, &point.warnings)?;
            for (nth, repetition) in point.repetitions.iter().enumerate() {
                add_repetition(&mut row, nth, repetition)?;
                table.write(&row, &repetition.latency_ns)?;
            }
        }
    }
    table.finish()
}

/// The repetitions of clusters, with a heading.
pub(crate) fn clusters(entries: &[Entry]) -> Result<String, Error> {
    let mut table = Table::new(CLUSTERS)?;
    for entry in entries {
        let Some(cluster) = entry.cluster() else { continue };
        let mut row = of_entry(entry)?;
        for (nth, point) in cluster.points.iter().enumerate() {
            let p = &point.parameters;
            add_point(&mut row, nth, p, &point.warnings)?;
            row["batch"] = p.batch.to_string().into();
            row["flash_limit_requests_per_second"] = cluster.flash_limit(p.block_bytes, p.read_percent).into();
            for (nth, repetition) in point.repetitions.iter().enumerate() {
                add_repetition(&mut row, nth, repetition)?;
                row["packet_mean_bytes"] = repetition.packets.map(Packets::mean_bytes).into();
                table.write(&row, &repetition.latency_ns)?;
            }
        }
    }
    table.finish()
}

/// The repetitions of networks, a row per direction, with a heading. TCP's values are those of the sender at the end: means over the streams of
/// that direction, and sums of windows, buffers and packets. Latencies are those of messages.
pub(crate) fn networks(entries: &[Entry]) -> Result<String, Error> {
    let none = Latency::merged(std::iter::empty::<&Latency>());
    let mut table = Table::new(NETWORKS)?;
    for entry in entries {
        let Some(net) = entry.net() else { continue };
        let mut row = of_entry(entry)?;
        for (nth, point) in net.points.iter().enumerate() {
            add_point(&mut row, nth, &point.parameters, &point.warnings)?;
            for (nth, repetition) in point.repetitions.iter().enumerate() {
                add_repetition(&mut row, nth, repetition)?;
                for flow in &repetition.flows {
                    row["flow"] = json(flow)?;
                    row["senders"] = senders(repetition, flow);
                    table.write(&row, repetition.exchange.as_ref().map_or(&none, |exchange| &exchange.latency_ns))?;
                }
            }
        }
    }
    table.finish()
}

/// TCP's values at the senders of one direction.
fn senders(repetition: &net::Repetition, flow: &Flow) -> Value {
    let streams = repetition.streams.iter().filter(|stream| stream.direction == flow.direction);
    let ends: Vec<&TcpEnd> = streams.filter_map(|stream| stream.sender.as_ref()).collect();
    if ends.is_empty() {
        return Value::Null;
    }
    let mean = |of: fn(&TcpEnd) -> f64| ends.iter().map(|end| of(end)).sum::<f64>() / ends.len() as f64;
    let sum = |of: fn(&TcpEnd) -> u64| ends.iter().map(|end| of(end)).fold(0, u64::saturating_add);
    json!({
        "rtt_ms": mean(|end| end.rtt_ms),
        "rtt_variation_ms": mean(|end| end.rtt_variation_ms),
        "min_rtt_ms": mean(|end| end.min_rtt_ms),
        "congestion_window_bytes": sum(|end| end.congestion_window_bytes),
        "send_window_max_bytes": sum(|end| end.send_window_max_bytes),
        "send_buffer_bytes": sum(|end| end.send_buffer_bytes),
        "packets_sent": sum(|end| end.packets_sent),
        "packets_received": sum(|end| end.packets_received),
        "packet_mean_bytes": mean(|end| end.packet_bytes),
        "busy_s": mean(|end| end.busy_s),
        "receiver_limited_s": mean(|end| end.receiver_limited_s),
        "send_buffer_limited_s": mean(|end| end.send_buffer_limited_s),
    })
}

/// The columns of a row that come from the document itself.
fn of_entry(entry: &Entry) -> Result<Value, Error> {
    let mut document = json(&entry.document)?;
    // Each row would copy all points.
    document["measurement"]["points"] = Value::Null;
    Ok(json!({
        "name": entry.name,
        "file": entry.file,
        "document": document,
        "document_warnings": codes(&entry.document.warnings),
    }))
}

fn add_point(row: &mut Value, nth: usize, parameters: &impl Serialize, warnings: &[Warning]) -> Result<(), Error> {
    row["point"] = (nth + 1).into();
    row["parameters"] = json(parameters)?;
    row["point_warnings"] = codes(warnings).into();
    Ok(())
}

fn add_repetition(row: &mut Value, nth: usize, repetition: &impl Serialize) -> Result<(), Error> {
    row["repetition"] = (nth + 1).into();
    row["measured"] = json(repetition)?;
    Ok(())
}

fn json(value: &impl Serialize) -> Result<Value, Error> {
    serde_json::to_value(value).map_err(failed)
}

/// Codes of warnings, without duplicates, separated by blanks.
fn codes(warnings: &[Warning]) -> String {
    let codes: BTreeSet<String> = warnings.iter().map(|warning| snake(&format!("{:?}", warning.code))).collect();
    codes.into_iter().collect::<Vec<_>>().join(" ")
}

fn failed(error: impl ToString) -> Error {
    Error::Csv(error.to_string())
}

struct Table {
    /// The path of each column's value in a row.
    paths: Vec<String>,
    writer: csv::Writer<Vec<u8>>,
}

impl Table {
    /// Writes the heading: the columns, then the percentiles.
    fn new(columns: &[Fields]) -> Result<Table, Error> {
        let (mut headings, mut paths) = (Vec::new(), Vec::new());
        for (path, prefix, fields) in columns {
            for field in fields.split(' ') {
                let (heading, field) = field.split_once('=').unwrap_or((field, field));
                headings.push(format!("{prefix}{heading}"));
                paths.push(format!("{path}/{field}"));
            }
        }
        headings.extend(PERCENTILES.iter().map(|percent| format!("latency_p{percent}_ns")));
        let mut writer = csv::Writer::from_writer(Vec::new());
        writer.write_record(&headings).map_err(failed)?;
        Ok(Table { paths, writer })
    }

    fn write(&mut self, row: &Value, latency: &Latency) -> Result<(), Error> {
        let values = self.paths.iter().map(|path| match row.pointer(path) {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.clone(),
            // The shortest form that round-trips: 5, not 5.0.
            Some(Value::Number(number)) if number.is_f64() => number.as_f64().unwrap_or(f64::NAN).to_string(),
            Some(value) => value.to_string(),
        });
        let times = PERCENTILES
            .iter()
            .map(|percent| latency.percentile_ns(*percent).map_or(String::new(), |ns| ns.to_string()));
        self.writer.write_record(values.chain(times)).map_err(failed)
    }

    fn finish(self) -> Result<String, Error> {
        String::from_utf8(self.writer.into_inner().map_err(failed)?).map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_is_a_field_of_the_result_format() {
        let schema = include_str!("../../../schema/result-1.json");
        for (path, _, fields) in [DEVICES, CLUSTERS, NETWORKS].concat() {
            for field in fields.split(' ').map(|field| field.split_once('=').map_or(field, |(_, field)| field)) {
                let is_derived = path.is_empty() || path == "/senders";
                assert!(is_derived || schema.contains(&format!("\"{field}\": {{")), "{path}/{field}");
            }
        }
    }
}
