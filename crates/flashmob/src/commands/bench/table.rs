//! The result of `flashmob bench nbd` as text.

use std::fmt::Write;

use flashmob_bench::{Load, LoadResult, Uri};
use flashmob_results::latency::PERCENTILES;
use flashmob_text::{Bytes, count, number, sentence};

use super::record::{bytes_per_second, pattern, warnings};

/// The whole text.
pub fn render(uri: &Uri, load: &Load, result: &LoadResult, interrupted: bool) -> String {
    let mut text = String::new();
    let requests = result.reads + result.writes;
    let what = match load.read_fraction * 100.0 {
        100.0 => "reads".to_string(),
        0.0 => "writes".to_string(),
        percent => format!("requests, {percent} % of them reads,"),
    };
    // Writing to a String cannot fail.
    let _ = writeln!(
        text,
        "{} {what} of {} from {}: {} connections x {} outstanding, {}",
        pattern(load),
        Bytes(load.block_bytes.into()),
        uri,
        load.connections,
        load.outstanding,
        if interrupted { "stopped early" } else { "done" },
    );
    let _ = writeln!(
        text,
        "  {} requests/s   {}/s   ({} requests in {:.2} s)",
        sentence(result.requests_per_second()),
        Bytes(bytes_per_second(result) as u64),
        count(requests),
        result.elapsed.as_secs_f64()
    );
    if requests > 0 {
        latency(&mut text, result);
    }
    let _ = writeln!(text, "  client CPU {:.0} ns per request", result.cpu_ns_per_request());
    if load.verify.is_some() {
        let one_of = load.verify_one_of;
        let _ = writeln!(text, "  verified {} (1/{one_of} of the replies)", Bytes(result.verified_bytes));
    }
    if result.mismatched_bytes > 0 {
        let first =
            result.first_mismatch_offset_bytes.map_or(String::new(), |at| format!(", the first at offset {at}"));
        let _ = writeln!(text, "  WRONG: {} bytes{first}", result.mismatched_bytes);
    }
    for (errno, count) in &result.errors {
        let name = errno.name().map_or_else(|| format!("errno {}", errno.0), str::to_string);
        let _ = writeln!(text, "  ERROR: {count} requests failed with {name}");
    }
    if let Some(first) = &result.first_error {
        let _ = writeln!(text, "  first error: {first}");
    }
    for warning in warnings(load, result) {
        let _ = writeln!(text, "  note: {warning}");
    }
    text
}

fn latency(text: &mut String, result: &LoadResult) {
    let latency = &result.latency_ns;
    let us = |ns: f64| number(ns / 1000.0);
    let _ = writeln!(
        text,
        "  latency us: min {}, mean {}, stdev {}, max {}",
        us(latency.min() as f64),
        us(latency.mean()),
        us(latency.stdev()),
        us(latency.max() as f64)
    );
    for row in PERCENTILES.chunks(6) {
        text.push_str("   ");
        for &percent in row {
            let _ = write!(text, " {percent:>6} % {:>9}", us(latency.value_at_percentile(percent) as f64));
        }
        text.push('\n');
    }
}
