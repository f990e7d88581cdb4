//! All warnings.

use flashmob_results::warning::Warning;
use maud::{Markup, html};

use crate::entry::Entry;
use crate::groups::grouped;
use crate::{sweep, ways, words};

/// More warnings than this are folded.
const OPEN_WARNINGS_MAX: usize = 12;

pub fn section(entries: &[Entry]) -> Markup {
    html! {
        @for (at, entry) in entries.iter().enumerate() {
            h3 id=(format!("w{at}")) { (entry.name) }
            @let own = &entry.document.warnings;
            @let of_points = by_code(entry);
            @let void = void(entry);
            @if own.is_empty() && of_points.is_empty() && void.is_empty() { p.muted { "None." } }
            @if !void.is_empty() {
                details open[void.len() <= OPEN_WARNINGS_MAX] {
                    summary { "Void repetitions at " (words::plural(void.len() as u64, "point")) span.muted { ": the lab was late, or they were stopped before their end. They count nowhere on this page." } }
                    ul.warnings { @for (point, how_many) in &void { li { strong { (point) } ": " (how_many) } } }
                }
            }
            @if !own.is_empty() { ul.warnings { @for warning in own { li { (text(warning)) } } } }
            @for (code, points) in &of_points {
                details open[of_points.iter().map(|(_, p)| p.len()).sum::<usize>() <= OPEN_WARNINGS_MAX] {
                    summary { code { (code) } " at " (words::plural(points.len() as u64, "point")) span.muted { ", such as: " (words::plain(&points[0].1.message, 160)) } }
                    ul.warnings { @for (point, warning) in points { li { strong { (point) } ": " (words::plain(&warning.message, 600)) } } }
                }
            }
        }
    }
}

/// Points with void repetitions: `2 of 3 repetitions`.
fn void(entry: &Entry) -> Vec<(String, String)> {
    let of_cluster = entry.cluster().into_iter().flat_map(|cluster| &cluster.points);
    let of_cluster =
        of_cluster.map(|p| (words::combination(&p.parameters), p.repetitions.len(), sweep::valid(p).count()));
    let of_net = entry.net().into_iter().flat_map(|net| &net.points);
    let of_net = of_net.map(|p| (words::crossing(&p.parameters), p.repetitions.len(), ways::valid(p).count()));
    let named = of_cluster.chain(of_net).filter(|(_, all, valid)| valid < all).map(|(name, all, valid)| {
        let how_many = format!("{} of {}", all - valid, words::plural(all as u64, "repetition"));
        (words::plain(&name, 200), how_many)
    });
    named.collect()
}

/// Warnings of points by code: many points tend to have the same one.
fn by_code(entry: &Entry) -> Vec<(String, Vec<(String, &Warning)>)> {
    grouped(entry.point_warnings(), |(_, warning)| code(warning))
}

fn text(warning: &Warning) -> Markup {
    html! { (words::plain(&warning.message, 600)) " " code { (code(warning)) } }
}

/// As in the results: `small_file`.
fn code(warning: &Warning) -> String {
    words::snake(&format!("{:?}", warning.code))
}
