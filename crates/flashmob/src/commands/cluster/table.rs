//! The result for people.

use std::fmt::Write;

use flashmob_core::units::Bytes;
use flashmob_results::cluster::{Attachment, Cluster, Point, Setting};
use flashmob_results::warning::Warning;
use flashmob_results::{Document, Measurement};

use super::super::tell::harmless;
use super::figures::number;

/// The whole text.
pub fn render(document: &Document) -> String {
    let Measurement::Cluster(cluster) = &document.measurement else { return String::new() };
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{}", harmless(&heading(document, cluster)));
    if cluster.points.is_empty() {
        text.push_str("  nothing was measured\n");
    } else {
        points(&mut text, cluster);
    }
    notes(&mut text, document, cluster);
    text
}

fn heading(document: &Document, cluster: &Cluster) -> String {
    let setting = match cluster.setting {
        Setting::Network => "measured over the network",
        Setting::Lab => "measured in the lab: real processes and TCP, MODELLED air and flash",
        Setting::Simulator => "SIMULATED in virtual time",
    };
    let air = cluster.air.as_ref().map(|air| {
        let attachment = match air.gateway {
            Attachment::Wireless => "wireless",
            Attachment::Wired => "wired",
        };
        let cells = if air.cells > 1 { format!(", {} cells", air.cells) } else { String::new() };
        format!("air {}, gateway {attachment}{cells}", air.profile)
    });
    let no_io = cluster.points.iter().any(|p| p.parameters.no_io);
    let flash = match &cluster.flash {
        _ if no_io => Some("no I/O".to_string()),
        Some(flash) => Some(format!("flash {}", flash.profile)),
        None => None,
    };
    let extents = (cluster.extent_bytes > 0).then(|| format!("{} each", Bytes(cluster.extent_bytes)));
    let parts: Vec<String> = [Some(setting.to_string()), air, flash, extents].into_iter().flatten().collect();
    format!("{}: {}", document.name(), parts.join(", "))
}

/// A column: its title, and its text for a point.
type Column = (&'static str, fn(&Point) -> String);

fn points(text: &mut String, cluster: &Cluster) {
    let has = |of: fn(&Point) -> bool| cluster.points.iter().any(of);
    let mut columns: Vec<Column> = vec![
        ("nodes", |p| p.parameters.nodes.to_string()),
        ("links", |p| p.parameters.links.to_string()),
        ("batch", |p| p.parameters.batch.to_string()),
        ("block", |p| Bytes(p.parameters.block_bytes.into()).to_string().replace(' ', "")),
    ];
    if has(|p| p.parameters.read_percent < 100.0) {
        columns.push(("reads", |p| format!("{}%", p.parameters.read_percent)));
    }
    columns.push(("out", |p| p.parameters.outstanding.to_string()));
    columns.push(("requests/s", |p| number(p.summary.requests_per_second.median)));
    if has(|p| p.summary.repetitions > 1) {
        columns.push(("spread", |p| {
            if p.summary.repetitions > 1 {
                format!("{:.0}%", 100.0 * p.summary.requests_per_second.relative())
            } else {
                "-".into()
            }
        }));
    }
    columns.push(("p50 ms", |p| milliseconds(p, 50.0)));
    columns.push(("p99 ms", |p| milliseconds(p, 99.0)));
    if has(|p| p.summary.flash_fraction.is_some()) {
        columns.push(("of flash", |p| percent(p.summary.flash_fraction)));
    }
    if has(|p| p.summary.packets_per_second.is_some()) {
        columns.push(("packets/s", |p| of(p.summary.packets_per_second)));
        columns.push(("B/packet", |p| of(p.summary.packet_bytes)));
    }
    if has(|p| p.summary.frames_per_request.is_some()) {
        columns.push(("frames/rq", |p| of(p.summary.frames_per_request)));
    }
    columns.push(("", |p| if p.warnings.is_empty() { String::new() } else { "!".into() }));
    let mut rows: Vec<Vec<String>> = vec![columns.iter().map(|(title, _)| (*title).to_string()).collect()];
    rows.extend(cluster.points.iter().map(|point| columns.iter().map(|(_, text)| text(point)).collect()));
    let widths: Vec<usize> =
        (0..columns.len()).map(|at| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0)).collect();
    for row in &rows {
        let mut line = String::from(" ");
        for (cell, &width) in row.iter().zip(&widths) {
            let _ = write!(line, " {cell:>width$}");
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
}

type MaybeSpread = Option<flashmob_results::disk::Spread>;

fn of(spread: MaybeSpread) -> String {
    spread.map_or_else(|| "-".into(), |s| number(s.median))
}

fn percent(fraction: MaybeSpread) -> String {
    fraction.map_or_else(|| "-".into(), |f| format!("{:.0}%", 100.0 * f.median))
}

fn milliseconds(point: &Point, percentile: f64) -> String {
    let latency = &point.summary.latency_ns;
    match latency.percentile_ns(percentile).filter(|_| latency.count > 0) {
        Some(ns) => number(ns as f64 / 1e6),
        None => "-".into(),
    }
}

/// Doubts: those of the whole, and those of points, each kind once, with how many points it concerns.
fn notes(text: &mut String, document: &Document, cluster: &Cluster) {
    for warning in &document.warnings {
        let _ = writeln!(text, "  note: {}", harmless(&warning.message));
    }
    let mut seen: Vec<(&Warning, usize)> = Vec::new();
    for warning in cluster.points.iter().flat_map(|p| &p.warnings) {
        match seen.iter_mut().find(|(other, _)| other.code == warning.code) {
            Some((_, count)) => *count += 1,
            None => seen.push((warning, 1)),
        }
    }
    for (warning, count) in seen {
        let more = if count > 1 { format!(" (and {} more rows)", count - 1) } else { String::new() };
        let _ = writeln!(text, "  ! {}{more}", harmless(&warning.message));
    }
}
