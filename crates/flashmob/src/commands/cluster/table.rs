//! The result as text.

use std::fmt::Write;

use flashmob_core::units::Bytes;
use flashmob_results::cluster::{Attachment, Cluster, Point, Setting};
use flashmob_results::cluster_rebuild::Rebuild;
use flashmob_results::latency::Latency;
use flashmob_results::{Document, Measurement};
use flashmob_text::number;

use super::super::tell::{doubts, harmless, table};

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
    text.push_str(&doubts(&document.warnings, cluster.points.iter().flat_map(|p| &p.warnings)));
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
    let copies = cluster.copies.map(|copies| {
        let of = if copies.home_only { ", read from one" } else { "" };
        let scrub = if copies.scrub { ", scrubbed all the time" } else { "" };
        format!("{} copies{of}{scrub}", copies.copies)
    });
    let weak = cluster.weak.as_ref().map(|weak| format!("weak nodes {weak}"));
    let rebuild = cluster.rebuild.as_ref().map(|rebuild| format!("node {rebuild} made equal again"));
    let parts: Vec<String> =
        [Some(setting.to_string()), air, flash, extents, copies, weak, rebuild].into_iter().flatten().collect();
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
    if has(|p| p.parameters.air_load_percent.is_some()) {
        columns.push(("air", |p| p.parameters.air_load_percent.map_or("-".into(), |percent| format!("{percent}%"))));
    } else {
        columns.push(("out", |p| p.parameters.outstanding.to_string()));
    }
    columns.push(("requests/s", |p| number(p.summary.requests_per_second.median)));
    if has(|p| p.summary.repetitions > 1) {
        columns.push(("spread", |p| {
            if p.summary.repetitions > 1 {
                format!("{}%", number(100.0 * p.summary.requests_per_second.relative()))
            } else {
                "-".into()
            }
        }));
    }
    columns.push(("p50 ms", |p| milliseconds(p, 50.0)));
    columns.push(("p99 ms", |p| milliseconds(p, 99.0)));
    if has(|p| p.repetitions.iter().any(|r| r.rebuild.is_some())) {
        columns.push(("before", |p| {
            rebuilt(p, |r, _| Some(number(r.before_latency_ns.percentile_ns(99.0)? as f64 / 1e6)))
        }));
        columns.push(("times", |p| rebuilt(p, |r, during| Some(format!("{:.2}", r.times_as_long(during, 99.0)?)))));
        columns.push(("copied/s", |p| rebuilt(p, |r, _| Some(Bytes(r.bytes_per_second as u64).to_string()))));
        columns.push(("of left", |p| rebuilt(p, |r, _| Some(format!("{}%", number(100.0 * r.used_of_left))))));
        columns.push(("ETA off", |p| rebuilt(p, |r, _| Some(format!("{}%", number(100.0 * r.eta_error?))))));
    }
    if has(|p| p.repetitions.iter().any(|r| r.hedged.is_some())) {
        columns.push(("hedged", |p| {
            let hedged: u64 = p.repetitions.iter().filter_map(|r| r.hedged).sum();
            number(hedged as f64)
        }));
    }
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
    text.push_str(&table(&cluster.points, &columns, 0));
}

/// A figure of the point's last rebuild; a dash if it has none.
fn rebuilt(point: &Point, figure: fn(&Rebuild, &Latency) -> Option<String>) -> String {
    let last = point.repetitions.iter().rev().find_map(|r| Some((r.rebuild.as_deref()?, &r.latency_ns)));
    last.and_then(|(rebuild, during)| figure(rebuild, during)).unwrap_or_else(|| "-".into())
}

type MaybeSpread = Option<flashmob_results::disk::Spread>;

fn of(spread: MaybeSpread) -> String {
    spread.map_or_else(|| "-".into(), |s| number(s.median))
}

fn percent(fraction: MaybeSpread) -> String {
    fraction.map_or_else(|| "-".into(), |f| format!("{}%", number(100.0 * f.median)))
}

fn milliseconds(point: &Point, percentile: f64) -> String {
    let latency = &point.summary.latency_ns;
    match latency.percentile_ns(percentile).filter(|_| latency.count > 0) {
        Some(ns) => number(ns as f64 / 1e6),
        None => "-".into(),
    }
}
