//! The page: one HTML file, from the summary to the commands that repeat each measurement. Its only script zooms timelines.
//!
//! Text from documents goes through maud, which escapes it; only this crate's CSS, script and figures are inserted verbatim.

mod captures;
mod claims;
mod clusters;
mod devices;
mod figures;
mod inserts;
mod maxima;
mod method;
mod networks;
mod summary;
mod tables;
mod traces;
mod warnings;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::Error;
use crate::claims::Claim;
use crate::comparison;
use crate::entry::Entry;
use crate::{figure, plots, words};

pub(crate) use clusters::setting as cluster_setting;
pub(crate) use networks::setting as net_setting;
pub(crate) use traces::{WIDE_NS, WINDOW_NS, timeline, window};

const STYLE: &str = include_str!("style.css");
/// Results with more points than this have their tables folded up.
const OPEN_POINTS_MAX: usize = 60;

/// The whole page.
pub(crate) fn html(entries: &[Entry], judged: &[Claim]) -> Result<String, Error> {
    let sections = plots::sections(entries);
    let has_clusters = entries.iter().any(|e| e.cluster().is_some());
    let has_networks = entries.iter().any(|e| e.net().is_some());
    let has_captures = entries.iter().any(|e| e.capture().is_some());
    let has_traces = entries.iter().any(|e| e.trace().is_some());
    let has_devices =
        entries.iter().any(Entry::is_device) || !(has_clusters || has_networks || has_captures || has_traces);
    let mut parts: Vec<(&str, &str, Markup)> = Vec::new();
    // No claim is about traced commands.
    if !judged.is_empty() {
        parts.push(("claims", "Claims", claims::section(entries, judged)));
    }
    parts.push(("figures", "Figures", figures::section(&sections)?));
    if has_clusters {
        parts.push(("cluster-points", "All points of clusters", clusters::points(entries)));
        parts.push(("clusters", "Clusters", clusters::side_by_side(entries)));
    }
    if has_networks {
        parts.push(("network-points", "All points of networks", networks::points(entries)));
        parts.push(("networks", "Networks", networks::side_by_side(entries)));
    }
    if has_captures {
        parts.push(("captures", "Captured connections", captures::section(entries)));
    }
    if crate::inserts::has_any(entries) {
        parts.push(("inserts", "Which writes vanish, and what that buys", inserts::section(entries)));
    }
    if has_traces {
        if let Some(comparison) = comparison::compare(entries) {
            parts.push(("side-by-side", "Traces side by side", traces::side_by_side(&comparison)));
        }
        parts.push(("traces", "Traces", traces::section(entries)));
    }
    if has_devices {
        parts.push(("percentiles", "Latency percentiles, all points", tables::percentiles(entries)));
        parts.push(("points", "All points", tables::points(entries)));
        parts.push(("devices", "Devices", devices::section(entries)));
    }
    parts.push(("warnings", "Warnings", warnings::section(entries)));
    parts.push(("method", "How each was measured", method::section(entries)));
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="generator" content=(format!("flashmob {}", env!("CARGO_PKG_VERSION")));
                title { (summary::title(entries)) }
                style { (PreEscaped(figure::CSS)) (PreEscaped(STYLE)) }
            }
            body {
                header {
                    h1 { (summary::title(entries)) }
                    (summary::section(entries, judged))
                    nav aria-label="Sections" {
                        @for (id, heading, _) in &parts { a href=(format!("#{id}")) { (heading) } " " }
                    }
                }
                main {
                    @for (id, heading, body) in &parts {
                        section id=(id) { h2 { (heading) } (body) }
                    }
                }
                footer { "Made by flashmob " (env!("CARGO_PKG_VERSION")) ". This file is complete: it loads nothing." }
            }
        }
    };
    Ok(page.into_string())
}

/// A table of rows under headings, which ` | ` separates.
fn table(class: &str, headings: &str, rows: impl Iterator<Item = Markup>) -> Markup {
    html! {
        table class=[Some(class).filter(|class| !class.is_empty())] {
            thead { tr { @for heading in headings.split(" | ") { th { (heading) } } } }
            tbody { @for row in rows { (row) } }
        }
    }
}

/// A table in a box that scrolls on narrow pages and is reachable by keyboard.
fn scrolling(label: &str, table: Markup) -> Markup {
    html! { div.scroll role="region" aria-label=(label) tabindex="0" { (table) } }
}

/// A table of properties with a column for each result; properties that no result has are left out.
fn side_by_side(
    label: &str,
    entries: &[&Entry],
    rows: impl Iterator<Item = (&'static str, Vec<Option<String>>)>,
) -> Markup {
    let rows: Vec<_> = rows.filter(|(_, values)| values.iter().any(Option::is_some)).collect();
    let cell = |value: &Option<String>| value.as_ref().map_or("–".to_string(), |text| words::plain(text, 400));
    let table = html! {
        table.devices {
            thead { tr { th { "" } @for entry in entries { th scope="col" { (entry.name) (tags(entry)) } } } }
            tbody {
                @for (name, values) in &rows { tr { th scope="row" { (name) } @for value in values { td { (cell(value)) } } } }
            }
        }
    };
    scrolling(label, table)
}

/// A table of points for each result, open if all of them together are short. `count`: points of a result; `None` if it has no table.
fn folded(
    entries: &[Entry],
    what: &str,
    count: fn(&Entry) -> Option<usize>,
    table: impl Fn(usize, &Entry) -> Markup,
) -> Markup {
    let all: usize = entries.iter().filter_map(count).sum();
    html! {
        @for (at, entry) in entries.iter().enumerate() {
            @if let Some(points) = count(entry) {
                details open[all <= OPEN_POINTS_MAX] {
                    summary { (entry.name) (tags(entry)) " · " (words::plural(points as u64, "point")) }
                    @if points > 0 { (scrolling(&format!("{}: {what}", entry.name), table(at, entry))) }
                }
            }
        }
    }
}

/// The machine that measured: its model or processor, and its kernel.
fn host(entry: &Entry) -> Option<String> {
    let device = &entry.document.device;
    let parts = [device.model.clone().or_else(|| device.cpu.clone()), device.kernel.clone()];
    words::joined(parts.into_iter().flatten())
}

/// Text with commands between backticks.
fn with_code(text: &str) -> Markup {
    html! {
        @for (nth, part) in text.split('`').enumerate() {
            @if nth % 2 == 0 { (part) } @else { code { (part) } }
        }
    }
}

/// A mark that leads to the warnings of an entry.
fn doubt(entry: usize) -> Markup {
    html! { " " a.doubt href=(format!("#w{entry}")) title="doubtful: see the warnings" { "⚠" span.hidden { " doubtful" } } }
}

/// Marks of shortened and interrupted results. Modelled results are marked by their names.
fn tags(entry: &Entry) -> Markup {
    let document = &entry.document;
    html! {
        @if document.scale < 1.0 { " " span.tag { "shortened" } }
        @if document.interrupted { " " span.tag { "interrupted" } }
    }
}
