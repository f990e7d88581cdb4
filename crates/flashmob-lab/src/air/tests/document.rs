//! `docs/models.md` lists the numbers of the built-in profiles and the model's results with them; they must match
//! the code.

use super::*;
use crate::air::bianchi::saturation;

const DOCUMENT: &str = include_str!("../../../../../docs/models.md");
const CELLS: [&str; 6] = ["11a", "11g", "11n-2014", "11n", "11ac", "11ax"];

/// Microseconds, without a fraction if it is 0.
fn us(ns: u64) -> String {
    format!("{:.3}", ns as f64 / 1000.0).trim_end_matches('0').trim_end_matches('.').to_string()
}

/// A number with a comma as thousands separator.
fn thousands(number: f64) -> String {
    let number = number.round() as u64;
    if number < 1000 { number.to_string() } else { format!("{},{:03}", number / 1000, number % 1000) }
}

/// Reports all missing rows at once, so that they can be added to the document.
fn has_rows(rows: &[(&str, Vec<String>)]) {
    let rows = rows.iter().map(|(name, cells)| format!("| {name} | {} |", cells.join(" | ")));
    let missing: Vec<String> = rows.filter(|row| !DOCUMENT.contains(row)).collect();
    assert!(missing.is_empty(), "docs/models.md lacks these rows:\n{}", missing.join("\n"));
}

#[test]
fn the_table_of_cells_is_that_of_the_code() {
    let row = |name: &'static str, of: &dyn Fn(&Dcf) -> String| (name, CELLS.map(|text| of(&cell(text))).to_vec());
    has_rows(&[
        ("air", CELLS.map(|text| format!("`{text}`")).to_vec()),
        row("rate of data, Mbit/s", &|d| format!("{:.0}", d.rate_bps as f64 / 1e6)),
        row("slot, us", &|d| us(d.slot_ns)),
        row("before an acknowledgement (SIFS), us", &|d| us(d.sifs_ns)),
        row("idle before backoff goes on (DIFS or AIFS), us", &|d| us(d.aifs_ns())),
        row("first window of backoff (CWmin), slots", &|d| d.cw_min.to_string()),
        row("last window (CWmax), slots", &|d| d.cw_max.to_string()),
        row("sent again, at most", &|d| d.retries.to_string()),
        row("preamble of data, us", &|d| us(d.preamble_ns)),
        row("symbol, us", &|d| us(d.symbol_ns)),
        row("silence that belongs to each frame, us", &|d| us(d.signal_extension_ns)),
        row("headers and checksum, bytes", &|d| d.overhead_bytes.to_string()),
        row("acknowledgement, us", &|d| us(d.ack_ns(1))),
        row("acknowledgement of several frames, us", &|d| us(d.ack_ns(2))),
        row("frames in one transmission", &|d| d.ampdu_frames.to_string()),
        row("frames beyond the first not acknowledged", &|d| d.window_frames.to_string()),
        row("bytes of several in one transmission", &|d| d.ampdu_bytes.to_string()),
        row("time of several in one transmission, us", &|d| us(d.ampdu_ns)),
        row("frames lost, %", &|d| (f64::from(d.loss_ppm) / 1e4).to_string()),
        row("queue of a station, and for one receiver, frames", &|d| d.queue_frames.to_string()),
        row("queue of the access point, frames", &|d| d.ap_queue_frames.to_string()),
        row("rate of beacons and broadcasts, Mbit/s", &|d| (d.basic_rate_bps / 1_000_000).to_string()),
        row("from beacon to beacon, us", &|d| us(d.beacon_every_ns)),
        row("a beacon, us", &|d| us(d.beacon_ns())),
        row("cable, us", &|d| us(d.wire_ns)),
    ]);
}

#[test]
fn the_table_of_lines_is_that_of_the_code() {
    let Medium::Lines(line) = profile("wan").medium else { panic!("a line") };
    has_rows(&[
        ("`wan`: rate, Mbit/s", vec![(line.rate_bps / 1_000_000).to_string()]),
        ("`wan`: delay, us", vec![us(line.delay_ns)]),
        ("`wan`: jitter, us", vec![us(line.jitter_ns)]),
        ("`wan`: frames lost, %", vec![line.loss_ppm.to_string()]),
        ("`wan`: queue, frames", vec![line.queue_frames.to_string()]),
    ]);
    assert!(matches!(profile("ideal").medium, Medium::Ideal { delay_ns: 1_000 }));
}

#[test]
fn the_tables_of_what_it_gives_are_what_it_gives() {
    let exchange = |len_bytes| CELLS.map(|text| us(profile(text).exchange_ns(1, len_bytes))).to_vec();
    let frames =
        |len_bytes, seconds| CELLS.map(|text| thousands(saturated_per_second(text, 9, len_bytes, seconds))).to_vec();
    has_rows(&[
        ("one frame of 100 B and its acknowledgement, us", exchange(100)),
        ("one frame of 1,514 B and its acknowledgement, us", exchange(1514)),
        ("frames of 100 B per second, 9 stations", frames(100, 5)),
        ("frames of 1,514 B per second, 9 stations", frames(1514, 5)),
    ]);
    let lone = |count: u32| thousands(saturated_per_second(&format!("11n,ampdu={count}"), 9, 100, 10));
    has_rows(&[("`11n`, 9 stations, 100 B: frames per second", [1, 2, 4, 16, 64].map(lone).to_vec())]);
}

#[test]
fn the_table_of_published_figures_is_what_the_model_gives() {
    let of = |stations: u32, published: &str| {
        let closed = saturation(&profile("11a"), stations, 1514).unwrap().payload_bits_per_second / 1e6;
        let modelled = saturated_per_second("11a", stations as usize, 1514, 20) * 12_000.0 / 1e6;
        vec![published.to_string(), format!("{closed:.2}"), format!("{modelled:.2}")]
    };
    has_rows(&[
        ("1", of(1, "none")),
        ("5", of(5, "29.29")),
        ("10", of(10, "27.38")),
        ("15", of(15, "26.21")),
        ("20", of(20, "25.33")),
    ]);
}
