//! The figure: what the simulator, the gateway and a node cost, over the number of nodes.

use flashmob_report::standalone::{Lines, Mark, Scale, Series, tiled};
use flashmob_results::disk::Spread;

use crate::Row;
use crate::size::Load;

/// Draws it.
pub fn svg(rows: &[Row]) -> anyhow::Result<String> {
    let panel = |title: &str, unit: f64, of: fn(&Row) -> Spread, loads: &[Load]| {
        let series: Vec<Series> = loads.iter().map(|&load| series(rows, load, unit, of)).collect();
        let points = || series.iter().flat_map(|s| &s.points);
        let top = points().map(|p| p.range.map_or(p.y, |r| r.1)).fold(0.0, f64::max);
        let told = rows.iter().filter(|r| loads.contains(&r.load));
        let told: Vec<String> =
            told.map(|r| format!("{:.3} with {} nodes, {}", of(r).median / unit, r.nodes, name(r.load))).collect();
        Lines {
            title: title.to_string(),
            description: format!("{}.", told.join("; ")),
            caption: String::new(),
            y_title: title.to_string(),
            x_title: "nodes".to_string(),
            legend: "load".to_string(),
            scale: Scale::linear(top),
            limits: Vec::new(),
            x_ticks: rows
                .iter()
                .filter(|row| row.load == loads[0])
                .map(|row| (place(rows, row.nodes), row.nodes.to_string()))
                .collect(),
            series,
        }
    };
    let both = [Load::Busy, Load::Quiet];
    let panels = [
        panel("simulator, million events/s", 1e6, |r| r.events_per_s, &both),
        panel("gateway, us for each read", 1e3, |r| r.gateway_ns_per_read, &both),
        panel("modelled, reads/s for each node", 1.0, reads_per_node, &[Load::Busy]),
        panel("memory, KiB for each node", 1.0, |r| r.kib_per_node, &both),
    ];
    Ok(tiled(&panels, 2)?)
}

fn reads_per_node(row: &Row) -> Spread {
    let of = |value: f64| value / f64::from(row.nodes);
    Spread { median: of(row.reads_per_s.median), min: of(row.reads_per_s.min), max: of(row.reads_per_s.max) }
}

fn name(load: Load) -> &'static str {
    match load {
        Load::Busy => "64 for each node",
        Load::Quiet => "10 in all",
    }
}

fn series(rows: &[Row], load: Load, unit: f64, of: fn(&Row) -> Spread) -> Series {
    let mark = |row: &Row| {
        let spread = of(row);
        let range = Some((spread.min / unit, spread.max / unit));
        Mark { x: place(rows, row.nodes), y: spread.median / unit, range, doubtful: false }
    };
    let points = rows.iter().filter(|row| row.load == load).map(mark).collect();
    Series { name: name(load).to_string(), look: usize::from(load == Load::Quiet), points }
}

/// Across, in powers of ten.
fn place(rows: &[Row], nodes: u32) -> f64 {
    let log = |nodes: u32| f64::from(nodes.max(1)).ln();
    let least = rows.iter().map(|row| log(row.nodes)).fold(f64::INFINITY, f64::min);
    let most = rows.iter().map(|row| log(row.nodes)).fold(0.0, f64::max);
    if most > least { (log(nodes) - least) / (most - least) } else { 0.5 }
}
