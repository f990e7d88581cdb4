//! Clusters: side by side, and every point of each.

use std::collections::BTreeSet;

use flashmob_results::cluster::{Attachment, Cluster, Point, Setting};
use flashmob_results::disk::Spread;
use maud::{Markup, html};

use super::{doubt, folded, host};
use crate::entry::Entry;
use crate::{sweep, words};

type Row = (&'static str, fn(&Entry, &Cluster) -> Option<String>);

const ROWS: [Row; 13] = [
    ("What was real", |_, c| Some(setting(c.setting).into())),
    ("Air", |_, c| c.air.as_ref().map(|air| format!("modelled, {}: {}", air.profile, air.description))),
    ("Gateway", |_, c| c.air.as_ref().map(|air| attached(air.gateway).into())),
    ("Cells", |_, c| c.air.as_ref().map(|air| air.cells.to_string())),
    ("Flash of each node", |_, c| c.flash.as_ref().map(|f| format!("modelled, {}: {}", f.profile, f.description))),
    ("What one node's flash does alone", |_, c| {
        let limits = c.flash.as_ref()?.limits.iter().map(|l| {
            let reads = if l.read_percent >= 100.0 { String::new() } else { format!(", read {} %", l.read_percent) };
            let rate = words::number(l.requests_per_second);
            format!("{rate}/s ({}{reads})", words::bytes(u64::from(l.block_bytes)))
        });
        words::joined(limits)
    }),
    ("Extent of each node", |_, c| Some(words::bytes(c.extent_bytes))),
    ("Disks of the extents", |_, c| disks(c)),
    ("Ran on", |e, _| host(e)),
    ("Processors", |e, _| Some(e.document.device.cpus.to_string())),
    ("Most requests/s", |_, c| {
        let most = sweep::fastest(c.points.iter().filter(|p| sweep::counts(p)))?;
        Some(format!("{}/s ({})", words::number(sweep::rate(most)), words::combination(&most.parameters)))
    }),
    ("Points, repetitions, void ones", |_, c| {
        let all = c.points.iter().map(|p| p.repetitions.len()).sum::<usize>();
        let void = c.points.iter().flat_map(|p| &p.repetitions).filter(|r| r.is_void).count();
        Some(format!("{}, {all}, {void}", c.points.len()))
    }),
    ("Warnings", |e, _| Some((e.document.warnings.len() + e.point_warnings().len()).to_string())),
];

/// How many disks the nodes' extents are on: `1 disk for the extents of 8 nodes`.
fn disks(cluster: &Cluster) -> Option<String> {
    let known: Vec<&String> = cluster.disk_ids.iter().flatten().collect();
    let different: BTreeSet<&String> = known.iter().copied().collect();
    let disks = words::plural(different.len() as u64, "disk");
    (!known.is_empty()).then(|| format!("{disks} for the extents of {}", words::plural(known.len() as u64, "node")))
}

/// The real parts of the setting in words.
pub fn setting(setting: Setting) -> &'static str {
    match setting {
        Setting::Network => "everything: devices over their own network",
        Setting::Lab => "processes and TCP stacks; air and flash were modelled",
        Setting::Simulator => "the state machines of gateway and nodes; time, TCP, air and flash were modelled",
    }
}

fn attached(attachment: Attachment) -> &'static str {
    match attachment {
        Attachment::Wireless => "a station: what it sends crosses the air twice",
        Attachment::Wired => "by a cable",
    }
}

pub fn side_by_side(entries: &[Entry]) -> Markup {
    let (of, clusters): (Vec<&Entry>, Vec<&Cluster>) = entries.iter().filter_map(|e| Some((e, e.cluster()?))).unzip();
    let values = |row: &Row| of.iter().zip(&clusters).map(|(entry, cluster)| (row.1)(entry, cluster)).collect();
    super::side_by_side("Clusters side by side", &of, ROWS.iter().map(|row| (row.0, values(row))))
}

pub fn points(entries: &[Entry]) -> Markup {
    html! {
        p {
            "Medians over the repetitions that are not void; latencies from a request's entry into the gateway to its answer. "
            "Share: of what the flash of so many nodes does, unsorted. Packets are TCP's, both directions together; frames are those on the air."
        }
        (folded(entries, "points", |e| e.cluster().map(|c| c.points.len()), |at, e| html! { @if let Some(c) = e.cluster() { (table(at, c)) } }))
    }
}

fn table(at: usize, cluster: &Cluster) -> Markup {
    let columns = "point | reps | void | requests/s | min – max | p50 | p99 | share | packets/s | bytes/packet | \
        frames/request | air busy | errors";
    super::table("dense", columns, cluster.points.iter().map(|point| row(at, point)))
}

fn row(at: usize, point: &Point) -> Markup {
    let counted = sweep::valid(point).count();
    let void = point.repetitions.len() - counted;
    let errors = sweep::valid(point).fold(0u64, |sum, r| sum.saturating_add(r.errors));
    let summary = &point.summary;
    let median = |spread: Option<Spread>| words::or_dash(spread.map(|s| words::number(s.median)));
    let latency = Some(&summary.latency_ns).filter(|latency| latency.count > 0);
    let at_percent = |percent| words::or_dash(latency.and_then(|latency| words::percentile(latency, percent)));
    let fraction = |part: Option<f64>| words::or_dash(part.filter(|v| v.is_finite()).map(words::percent));
    let rate = summary.requests_per_second;
    html! {
        tr {
            th { (words::plain(&words::combination(&point.parameters), 120)) @if !point.warnings.is_empty() || void > 0 { (doubt(at)) } }
            td { (counted) }
            td { (void) }
            @if counted == 0 {
                // Values of void repetitions are not shown.
                @for _ in 0..10 { td { "–" } }
            } @else {
                td { (words::number(rate.median)) }
                td { (words::number(rate.min)) " – " (words::number(rate.max)) }
                td { (at_percent(50.0)) }
                td { (at_percent(99.0)) }
                td { (fraction(summary.flash_fraction.map(|s| s.median))) }
                td { (median(summary.packets_per_second)) }
                td { (median(summary.packet_bytes)) }
                td { (median(summary.frames_per_request)) }
                td { (fraction(sweep::air_busy(point))) }
                td { (words::count(errors)) }
            }
        }
    }
}
