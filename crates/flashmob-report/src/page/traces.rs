//! Traces: a comparison of several runs, and each run's timeline, files, hand-overs and missing sources.
//!
//! - `timeline`: the drawn operations and their spans

mod timeline;

use flashmob_results::trace::{FileTotal, Handover, Layer, Operation, Run, System, Trace, Workload};
use maud::{Markup, PreEscaped, html};

use super::scrolling;
use crate::comparison::{self, Comparison};
use crate::entry::Entry;
use crate::figure::Figure;
use crate::figure::timeline::SCRIPT;
use crate::words;

pub use timeline::{WIDE_NS, WINDOW_NS, timeline, window};
use timeline::{heading, shown, window_heading};

/// Rows of a run's table of files.
const FILES_MAX: usize = 80;
/// Drawn operations per run if there are few runs; else one.
const TIMELINES_MAX: usize = 3;
const RUNS_WITH_SEVERAL_MAX: usize = 3;
/// Timelines are numbered from here, beyond all other figures.
const FIRST_NUMBER: usize = 100_000;

/// The main finding.
pub fn found(trace: &Trace) -> String {
    let of = |run: &Run| {
        let p50 = words::or_dash(words::percentile(&run.operations.latency_ns, 50.0));
        let rate = words::number(run.operations.per_second);
        format!(
            "{} {rate} {}s/s while traced{} (p50 {p50})",
            words::plain(&run.name, 40),
            words::plain(&run.operations.name, 30),
            super::summary::doubt_words(&run.warnings)
        )
    };
    let mut parts: Vec<String> = trace.runs.iter().take(4).map(of).collect();
    if trace.runs.len() > 4 {
        parts.push(format!("and {} more runs", trace.runs.len() - 4));
    }
    if parts.is_empty() { "nothing was traced".into() } else { parts.join("; ") }
}

/// The measurement in a sentence.
pub fn paragraph(entry: &Entry, trace: &Trace) -> Markup {
    html! {
        @if let Some(run) = trace.runs.first() {
            (words::capital(&workload(&run.workload))) ", through the layers below, on " (system(&run.system))
        } @else { "Nothing was traced" }
        ", " (words::date(entry.document.started_unix_s))
        @if entry.document.interrupted { ", " strong { "interrupted before its end" } }
        "."
    }
}

fn workload(workload: &Workload) -> String {
    match workload {
        Workload::Sqlite { version, inserts, string_bytes, .. } => format!(
            "{} of {} into SQLite {}, each its own transaction",
            words::plural(*inserts, "INSERT"),
            words::bytes(*string_bytes),
            words::plain(version, 20)
        ),
        Workload::Command { command, .. } => format!("the command {}", words::plain(&command.join(" "), 200)),
        Workload::Cluster { nodes, sampled_one_in } => format!(
            "requests of a volume of {}, one in {} followed",
            words::plural(u64::from(*nodes), "node"),
            words::count(*sampled_one_in)
        ),
    }
}

fn system(system: &System) -> String {
    let of = |text: &Option<String>| text.as_ref().map(|text| words::plain(text, 60));
    let options = of(&system.filesystem_options).map_or(String::new(), |options| format!(" ({options})"));
    let parts = [
        of(&system.filesystem).map(|name| format!("{name}{options}")),
        of(&system.device).map(|name| format!("device {name}")),
        of(&system.driver).map(|name| format!("driver {name}")),
        of(&system.scheduler).map(|name| format!("scheduler {name}")),
        (!system.kernel.is_empty()).then(|| format!("Linux {}", words::plain(&system.kernel, 40))),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() { "an unknown system".into() } else { parts.join(", ") }
}

pub fn section(entries: &[Entry]) -> Markup {
    let mut numbers = FIRST_NUMBER..;
    let runs: Vec<(&Entry, &Run)> = entries
        .iter()
        .flat_map(|e| e.trace().into_iter().flat_map(move |t| t.runs.iter().map(move |r| (e, r))))
        .collect();
    let timelines = if runs.len() <= RUNS_WITH_SEVERAL_MAX { TIMELINES_MAX } else { 1 };
    html! {
        p {
            "An operation's time belongs at every moment to the lowest layer that was at work for it, or is unattributed. Kernel work of unknown origin is shown as such. "
            "Timelines zoom by the keys + and −, Ctrl and the wheel, or the buttons above each; they are complete without."
        }
        @for (entry, run) in &runs {
            h3 { (entry.name) " · " (words::plain(&run.name, 60)) }
            p.muted { (sentence(run)) }
            @for time_ns in [WINDOW_NS, WIDE_NS] {
                @if let (Some(what), Some(figure)) = (window_heading(run, time_ns), window(run, time_ns, numbers.next().unwrap_or_default())) {
                    h4.over { (what) }
                    div.scroll.wide role="region" aria-label={ (words::plain(&run.name, 60)) ": " (what) } tabindex="0" { (PreEscaped(&figure.svg)) }
                    p.muted { (figure.caption) }
                }
            }
            @for (nth, operation) in shown(run).into_iter().take(timelines).enumerate() {
                @let figure = timeline(run, operation, numbers.next().unwrap_or_default());
                @if nth == 0 { h4.over { (heading(run, operation)) } (drawn(run, operation, &figure)) }
                @else { details { summary { (heading(run, operation)) } (drawn(run, operation, &figure)) } }
            }
            @if !run.handovers.is_empty() { details { summary { "Hand-overs between layers" } (handovers(run)) } }
            @if !run.files.is_empty() { details { summary { "What was done to which file" } (files(run)) } }
            @let missing: Vec<_> = run.sources.iter().filter(|source| !source.is_used || source.why.is_some()).collect();
            @if !missing.is_empty() {
                ul.warnings {
                    @for source in missing.iter().take(20) {
                        li {
                            strong { (if source.is_used { "Incomplete: " } else { "Missing: " }) (words::plain(&source.name, 60)) }
                            @if let Some(why) = &source.why { ": " (words::plain(why, 400)) }
                        }
                    }
                }
            }
        }
        script { (PreEscaped(SCRIPT)) }
    }
}

fn sentence(run: &Run) -> String {
    let operations = &run.operations;
    let name = words::plain(&operations.name, 30);
    let mut parts = vec![format!(
        "{}, {}/s while traced",
        words::plural(operations.count, &name),
        words::number(operations.per_second)
    )];
    parts.extend(words::p50_and_p99(&operations.latency_ns));
    parts.push(format!(
        "{} unattributed",
        words::percent(operations.unattributed_ns as f64 / operations.total_ns.max(1) as f64)
    ));
    parts.extend(run.overhead.as_ref().map(|o| format!("tracing cost {}", words::percent(o.slowdown_percent / 100.0))));
    parts.push(format!(
        "{} of the kernel, {} lost",
        words::plural(run.losses.events, "event"),
        words::count(run.losses.lost)
    ));
    format!("{}.", parts.join("; "))
}

fn drawn(run: &Run, operation: &Operation, figure: &Figure) -> Markup {
    html! {
        div.scroll.wide role="region" aria-label=(heading(run, operation)) tabindex="0" { (PreEscaped(&figure.svg)) }
        p.muted { (figure.caption) }
    }
}

/// Average per operation. For a command's system calls, which are unlike each other, the sum.
fn each(run: &Run, value: u64) -> f64 {
    if is_of_all(run) { value as f64 } else { value as f64 / run.operations.count.max(1) as f64 }
}

fn is_of_all(run: &Run) -> bool {
    run.operations.name == Layer::SystemCall.name()
}

fn of_what(run: &Run) -> &'static str {
    if is_of_all(run) { "Of all system calls" } else { "For each operation" }
}

fn handovers(run: &Run) -> Markup {
    let row = |h: &Handover| {
        html! {
            tr {
                th { (h.from.name()) " → " (h.to.name()) }
                td { (words::number(each(run, h.count))) }
                td { (words::number(each(run, h.total_ns) / 1e3)) }
                td { (words::number(h.total_ns as f64 / h.count.max(1) as f64 / 1e3)) }
                td { (words::number(h.longest_ns as f64 / 1e3)) }
            }
        }
    };
    let table = super::table("", "from → to | count | us | us each | longest, us", run.handovers.iter().map(row));
    html! {
        p.muted { (of_what(run)) ": between an event of one layer and the next event, if that is of another layer." }
        (scrolling(&format!("{}: hand-overs", words::plain(&run.name, 60)), table))
    }
}

fn files(run: &Run) -> Markup {
    let row = |total: &FileTotal| {
        let role = comparison::role(total.role);
        html! {
            tr {
                th { (words::plain(&total.file, 80)) @if let Some(role) = role { " " span.muted { (role) } } }
                td { (total.layer.name()) }
                td { (words::plain(&total.work, 40)) }
                td { (words::number(each(run, total.count))) }
                td { (words::bytes(each(run, total.bytes).round() as u64)) }
                td { (words::number(each(run, total.time_ns) / 1e3)) }
            }
        }
    };
    let rows = run.files.iter().take(FILES_MAX).map(row);
    let table = super::table("named", "file | layer | work | count | bytes | us", rows);
    html! {
        p.muted { (of_what(run)) @if !is_of_all(run) { ", on average" } "." }
        (scrolling(&format!("{}: files", words::plain(&run.name, 60)), table))
        @if run.files.len() > FILES_MAX { p.muted { "The other " (words::count((run.files.len() - FILES_MAX) as u64)) " rows are in the result." } }
    }
}

/// Runs side by side.
pub fn side_by_side(comparison: &Comparison) -> Markup {
    let columns = &comparison.columns;
    let row = |name: &str, of: &dyn Fn(&comparison::Column) -> String| {
        html! { tr { th { (name) } @for column in columns { td { (of(column)) } } } }
    };
    let us = |value: Option<f64>| value.map_or_else(|| "–".to_string(), words::number);
    let head = |first: &str| html! { thead { tr { th { (first) } @for column in columns { th { (column.name) } } } } };
    let rates = html! {
        table.named {
            (head("for each operation"))
            tbody {
                @if columns.iter().any(|c| c.untraced_per_second.is_some()) {
                    (row("operations/s without tracing", &|c| us(c.untraced_per_second)))
                }
                (row("operations/s, traced", &|c| words::number(c.per_second)))
                (row("median, us", &|c| us(c.p50_us)))
                (row("p99, us", &|c| us(c.p99_us)))
                (row("tracing cost, %", &|c| us(c.slowdown_percent)))
                (row("events lost", &|c| words::count(c.lost)))
                @for layer in &comparison.layers {
                    tr { th { (layer.layer.map_or("unattributed", Layer::name)) ", us" } @for us in &layer.us { td { (words::number(*us)) } } }
                }
            }
        }
    };
    let work = html! {
        table.named {
            (head("for each operation"))
            tbody {
                @for row in comparison.work.iter().filter(|row| row.differs()) {
                    tr {
                        th { (row.file) ": " (row.work) " " span.muted { (row.layer.name()) } }
                        @for (count, bytes) in row.counts.iter().zip(&row.bytes) {
                            td { @if *count > 0.0 { (words::number(*count)) @if *bytes >= 1.0 { " (" (words::bytes(bytes.round() as u64)) ")" } } @else { "–" } }
                        }
                    }
                }
            }
        }
    };
    let equal = comparison.work.iter().filter(|row| !row.differs()).count();
    html! {
        @for (column, sentences) in columns.iter().skip(1).zip(&comparison.sentences) {
            p { strong { (column.name) } ": " (sentences.join(" ")) }
        }
        (scrolling("traced runs side by side", rates))
        p.muted { "Layers stand in the order of how much they differ." }
        details open[comparison.work.iter().filter(|row| row.differs()).count() <= 30] {
            summary { "Work that differs" @if equal > 0 { span.muted { "; " (words::plural(equal as u64, "kind")) " of work are the same" } } }
            (scrolling("work that differs", work))
        }
        @if comparison.left_out > 0 { p.muted { (words::plural(comparison.left_out as u64, "further run")) " are not compared here." } }
    }
}
