//! `docs/models.md` lists the numbers of the built-in devices; they must match the code.

use super::*;

const DOCUMENT: &str = include_str!("../../../../../docs/models.md");

/// Microseconds, without a fraction if it is 0.
fn us(ns: u64) -> String {
    if ns.is_multiple_of(1000) { (ns / 1000).to_string() } else { format!("{:.3}", ns as f64 / 1000.0) }
}

fn has_row(name: &str, cells: impl IntoIterator<Item = String>) {
    let row = format!("| {name} | {} |", cells.into_iter().collect::<Vec<_>>().join(" | "));
    assert!(DOCUMENT.contains(&row), "docs/models.md lacks this row:\n{row}");
}

#[test]
fn the_table_of_devices_is_that_of_the_code() {
    let row = |name: &str, cell: &dyn Fn(&Profile) -> String| has_row(name, Profile::ALL.iter().map(cell));
    row("device", &|p| format!("`{}`", p.name));
    row("slots", &|p| p.slots.to_string());
    row("read, elsewhere, us", &|p| us(p.read.access_ns));
    row("read, sequential, us", &|p| us(p.read.sequential_ns));
    row("read, each further block, us", &|p| us(p.read.block_ns));
    row("write, elsewhere, us", &|p| us(p.write.access_ns));
    row("write, sequential, us", &|p| us(p.write.sequential_ns));
    row("write, each further block, us", &|p| us(p.write.block_ns));
    row("flush after writes, us", &|p| us(p.flush_ns));
    row("flush, nothing written, us", &|p| us(p.flush_clean_ns));
    row("downward costs more by, %", &|p| p.backward_percent.to_string());
    row("all of that from a distance of, MiB", &|p| (p.backward_full_at_bytes / MIB).to_string());
    row("jitter, at most, %", &|p| p.jitter_percent.to_string());
}

#[test]
fn the_table_of_the_disk_is_that_of_the_code() {
    let rotation = profile("hdd").rotation.unwrap();
    let row = |name: &str, cell: String| has_row(name, [cell]);
    row("one turn, us", us(rotation.turn_ns));
    row("a track, bytes", rotation.track_bytes.to_string());
    row("shortest move of the arm, us", us(rotation.seek_min_ns));
    row("longest move of the arm, us", us(rotation.seek_max_ns));
    row("the whole disk, bytes", rotation.stroke_bytes.to_string());
    row("requests that the drive holds, besides the one it serves", rotation.queue.to_string());
}
