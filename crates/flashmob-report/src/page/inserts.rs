//! INSERTs side by side: their cost in calls, commands and bytes, and the savings of other settings.

use flashmob_results::trace::{Layer, Role, Run};
use maud::{Markup, html};

use super::{scrolling, tags};
use crate::comparison::difference;
use crate::entry::Entry;
use crate::inserts::{self, Cost, Kind, LEVEL, MODE};
use crate::words;

/// Layers whose share of the time has a column.
const LAYERS: [Layer; 8] = [
    Layer::Application,
    Layer::Sqlite,
    Layer::SystemCall,
    Layer::FileSystem,
    Layer::PageCache,
    Layer::Block,
    Layer::Driver,
    Layer::Processor,
];

pub fn section(entries: &[Entry]) -> Markup {
    let of: Vec<&Entry> = entries.iter().filter(|entry| inserts::runs(entry).next().is_some()).collect();
    html! {
        p {
            "Counts are for each INSERT, which is a transaction of its own: calls to the system that change something, commands that the driver received because of them, from any issuer "
            "(the file system's journal has a thread of its own), and the share of an insert's time in which each layer was the lowest active one (processor: ready, and waiting for one). Rates are those without tracing where that was measured."
        }
        @for entry in &of {
            h3 { (entry.name) (tags(entry)) }
            @for system in systems(entry) { p.muted { (system) } }
            (scrolling(&format!("{}: what each insert costs", entry.name), table(entry)))
            (scrolling(&format!("{}: time by layers", entry.name), times(entry)))
            ul.warnings { @for (name, text) in within(entry) { li { strong { (name) } ": " (text) } } }
            @for remark in missing(entry) { p.muted { (remark) } }
        }
        @let across = across(&of);
        @if !across.is_empty() {
            h3 { "System against system" }
            p.muted { "Journal mode " (MODE) ", synchronous " (LEVEL) "." }
            ul.warnings { @for (name, text) in across { li { strong { (name) } ": " (text) } } }
        }
    }
}

/// The systems, without duplicates.
fn systems(entry: &Entry) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for run in inserts::runs(entry) {
        let system = &run.system;
        let parts = [
            Some(inserts::system(run)),
            system.device.as_ref().map(|device| format!("on {}", words::plain(device, 40))),
            system.driver.as_ref().map(|driver| format!("driver {}", words::plain(driver, 40))),
            system.scheduler.as_ref().map(|scheduler| format!("scheduler {}", words::plain(scheduler, 40))),
            Some(format!("kernel {}", words::plain(&system.kernel, 60))),
        ];
        let text = words::capital(&parts.into_iter().flatten().collect::<Vec<_>>().join(", "));
        if !all.contains(&text) {
            all.push(text);
        }
    }
    all
}

fn table(entry: &Entry) -> Markup {
    let columns = "journal, synchronous | inserts/s | p50 | p99 | writes: journal | database | log | syncs | \
        removals | truncations | commands | file system's own | flushes | bytes";
    super::table("dense named settings", columns, inserts::runs(entry).map(row))
}

fn row(run: &Run) -> Markup {
    let cost = Cost::of(run).unwrap_or_default();
    let time = |percent: f64| words::or_dash(words::percentile(&run.operations.latency_ns, percent));
    let writes = |role: Role| words::number(cost.calls(Kind::Write, role));
    let own = cost.commands.as_ref().map(|commands| {
        let of = |command: &&(Role, f64)| matches!(command.0, Role::FilesystemJournal | Role::Metadata);
        commands.iter().filter(of).fold(0.0, |sum, command| sum + command.1)
    });
    let seen = |value: Option<f64>| words::or_dash(value.map(words::number));
    html! {
        tr {
            th { (words::plain(&run.name, 40)) }
            td { (words::number(inserts::rate(run))) }
            td { (time(50.0)) }
            td { (time(99.0)) }
            td { (writes(Role::Journal)) }
            td { (writes(Role::Database)) }
            td { (writes(Role::Wal)) }
            td { (words::number(cost.total(Kind::Sync))) }
            td { (words::number(cost.total(Kind::Remove))) }
            td { (words::number(cost.total(Kind::Truncate))) }
            td { (seen(cost.all_commands())) }
            td { (seen(own)) }
            td { (seen(cost.commands.as_ref().map(|_| cost.flushes))) }
            td { (words::or_dash(cost.commands.as_ref().map(|_| words::bytes(cost.bytes.round() as u64)))) }
        }
    }
}

/// Time of an insert by layers.
fn times(entry: &Entry) -> Markup {
    let layers: Vec<Layer> =
        LAYERS.into_iter().filter(|layer| inserts::runs(entry).any(|run| share(run, *layer) > 0.0)).collect();
    html! {
        table.dense.named.settings {
            thead { tr { th { "time of an insert" } th { "mean" } @for layer in &layers { th { (layer.name()) } } th { "unattributed" } } }
            tbody {
                @for run in inserts::runs(entry) {
                    tr {
                        th { (words::plain(&run.name, 40)) }
                        td { (words::time_ns(run.operations.total_ns as f64 / run.operations.count.max(1) as f64)) }
                        @for layer in &layers { td { (words::percent(share(run, *layer))) } }
                        td { (words::percent(run.operations.unattributed_ns as f64 / run.operations.total_ns.max(1) as f64)) }
                    }
                }
            }
        }
    }
}

/// This layer's part of the inserts' time.
fn share(run: &Run, layer: Layer) -> f64 {
    let time_ns = run.layers.iter().filter(|total| total.layer == layer).map(|total| total.time_ns as f64).sum::<f64>();
    time_ns / run.operations.total_ns.max(1) as f64
}

/// Other journal modes against DELETE, other levels against FULL.
fn within(entry: &Entry) -> Vec<(String, String)> {
    let mut all = Vec::new();
    let Some(base) = inserts::find(entry, MODE, LEVEL) else { return all };
    for run in inserts::runs(entry) {
        let Some((mode, level)) = inserts::setting(run) else { continue };
        let (other_mode, other_level) = (!mode.eq_ignore_ascii_case(MODE), !level.eq_ignore_ascii_case(LEVEL));
        // Runs that differ in both settings are not compared: the cause would be ambiguous.
        if other_mode != other_level {
            let (what, from) = if other_mode { (mode, MODE) } else { (level, LEVEL) };
            let name = format!("{} instead of {from}", words::plain(what, 20));
            all.push((name, difference((&base.name, base), (&run.name, run))));
        }
    }
    all
}

/// Each system's INSERTs against those of the first.
fn across(entries: &[&Entry]) -> Vec<(String, String)> {
    let mut runs = entries.iter().filter_map(|entry| Some((*entry, inserts::find(entry, MODE, LEVEL)?)));
    let Some((first, base)) = runs.next() else { return Vec::new() };
    let compared = runs.map(|(entry, run)| {
        let text = difference((&first.name, base), (&entry.name, run));
        (format!("{} against {}", entry.name, first.name), text)
    });
    compared.collect()
}

/// Missing sources, without duplicates.
fn missing(entry: &Entry) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for source in inserts::runs(entry).flat_map(|run| &run.sources) {
        let Some(why) = &source.why else { continue };
        let text =
            format!("Missing of {}: {}.", words::plain(&source.name, 40), words::plain(why, 300).trim_end_matches('.'));
        if !all.contains(&text) {
            all.push(text);
        }
    }
    all
}
