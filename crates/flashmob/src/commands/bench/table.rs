//! The result of `flashmob bench nbd` for people.

use std::fmt::Write;

use flashmob_text::{Bytes, count, number, sentence};

use super::record::{Record, ResultRecord};

/// The whole text.
pub fn render(record: &Record) -> String {
    let (load, result) = (&record.load, &record.result);
    let mut text = String::new();
    let requests = result.reads + result.writes;
    let what = match load.read_percent {
        100.0 => "reads".to_string(),
        0.0 => "writes".to_string(),
        percent => format!("requests, {percent} % of them reads,"),
    };
    // Writing to a String cannot fail.
    let _ = writeln!(
        text,
        "{} {what} of {} from {}: {} connections x {} outstanding, {}",
        load.pattern,
        Bytes(load.block_bytes.into()),
        record.uri,
        load.connections,
        load.outstanding,
        if result.interrupted { "stopped early" } else { "done" },
    );
    let _ = writeln!(
        text,
        "  {} requests/s   {}/s   ({} requests in {:.2} s)",
        sentence(result.requests_per_second),
        Bytes(result.bytes_per_second as u64),
        count(requests),
        result.elapsed_s
    );
    if requests > 0 {
        latency(&mut text, result);
    }
    let _ = writeln!(text, "  client CPU {:.0} ns per request", result.own_cpu_ns_per_request);
    if let Some(one_of) = load.verified_one_of {
        let _ = writeln!(text, "  verified {} (1/{one_of} of the replies)", Bytes(result.verified_bytes));
    }
    if result.wrong_bytes > 0 {
        let first = result.first_wrong_offset_bytes.map_or(String::new(), |at| format!(", the first at offset {at}"));
        let _ = writeln!(text, "  WRONG: {} bytes{first}", result.wrong_bytes);
    }
    for error in &result.errors {
        let name = error.name.map_or_else(|| format!("errno {}", error.errno), str::to_string);
        let _ = writeln!(text, "  ERROR: {} requests failed with {name}", error.count);
    }
    if let Some(first) = &result.first_error {
        let _ = writeln!(text, "  first error: {first}");
    }
    for warning in &record.warnings {
        let _ = writeln!(text, "  note: {warning}");
    }
    text
}

fn latency(text: &mut String, result: &ResultRecord) {
    let latency = &result.latency_ns;
    let us = |ns: f64| number(ns / 1000.0);
    let _ = writeln!(
        text,
        "  latency us: min {}, mean {}, stdev {}, max {}",
        us(latency.min as f64),
        us(latency.mean),
        us(latency.stdev),
        us(latency.max as f64)
    );
    for row in latency.percentiles.chunks(6) {
        text.push_str("   ");
        for percentile in row {
            let _ = write!(text, " {:>6} % {:>9}", percentile.percent, us(percentile.ns as f64));
        }
        text.push('\n');
    }
}
