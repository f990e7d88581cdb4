//! One run: its operations, layers, handovers and files, and what is missing.

use std::fmt::Write;

use flashmob_core::units::Bytes;
use flashmob_results::trace::{FileTotal, Layer, Run, Workload};

use crate::commands::tell::harmless;
use crate::commands::trace::table::{WIDTH, aligned, bar, file_name, fold, number, shortened, time};

/// Most rows of handovers: those with the longest total time.
const HANDOVERS_MAX: usize = 6;
/// Most files that are shown.
const FILES_MAX: usize = 8;
/// Width of bars.
const BAR: usize = 30;

pub fn block(text: &mut String, run: &Run) {
    let operations = &run.operations;
    let at = |percent| operations.latency_ns.percentile_ns(percent).map_or("-".into(), |ns| time(ns as f64));
    // The heading has the command.
    let name = match run.workload {
        Workload::Command { .. } => String::new(),
        _ => format!("{}: ", run.name),
    };
    let line = format!(
        "{name}{} {}{}, {}/s, p50 {}, p99 {}{}; {}",
        operations.count,
        operations.name,
        if operations.count == 1 { "" } else { "s" },
        number(operations.per_second),
        at(50.0),
        at(99.0),
        run.overhead.as_ref().map_or(String::new(), |o| format!("; tracing cost {} %", number(o.slowdown_percent))),
        losses(run)
    );
    fold(text, "", &line);
    if operations.count > 0 {
        layers(text, run);
        handovers(text, run);
        files(text, run);
    }
    for source in run.sources.iter().filter(|source| !source.is_used || source.why.is_some()) {
        let layers: Vec<&str> = source.layers.iter().map(|layer| layer.name()).collect();
        let shows = if layers.is_empty() { String::new() } else { format!(" ({})", layers.join(", ")) };
        let missing = if source.is_used { "incomplete" } else { "missing" };
        let why = source.why.as_ref().map_or(String::new(), |why| format!(": {why}"));
        fold(text, &format!("  {missing}: "), &format!("{}{shows}{why}", source.name));
    }
}

pub fn losses(run: &Run) -> String {
    let losses = &run.losses;
    match losses.lost {
        0 if losses.events == 0 => "no kernel events".into(),
        0 => format!("{} events, none lost", losses.events),
        lost => format!("{} events, {lost} LOST", losses.events),
    }
}

/// The divisor of figures, and its name. System calls that are not marked as operations are too different for a mean to say anything about
/// the command, so totals are shown.
fn of_each(run: &Run) -> (f64, String) {
    if run.operations.name == Layer::SystemCall.name() {
        (1.0, "in total".into())
    } else {
        (run.operations.count.max(1) as f64, format!("per {}", harmless(&run.operations.name)))
    }
}

fn layers(text: &mut String, run: &Run) {
    let (count, one) = of_each(run);
    let total_ns = run.operations.total_ns.max(1) as f64;
    let header = ["layer", "", "spans", "bytes", "us", "%"];
    let mut rows = vec![header.map(String::from).to_vec()];
    rows[0][1] = format!("{:<BAR$}", shortened(&one, BAR));
    let share = |ns: u64| (bar(ns as f64 / total_ns, BAR), number(ns as f64 / count / 1e3), percent(ns, total_ns));
    for layer in &run.layers {
        let (bar, us, percent) = share(layer.time_ns);
        let bytes = if layer.bytes > 0 { Bytes((layer.bytes as f64 / count) as u64).to_string() } else { "-".into() };
        rows.push(vec![layer.layer.name().into(), bar, number(layer.spans as f64 / count), bytes, us, percent]);
    }
    let (bar, us, percent) = share(run.operations.unattributed_ns);
    rows.push(vec!["unattributed".into(), bar, "-".into(), "-".into(), us, percent]);
    aligned(text, &rows, 2);
}

fn percent(ns: u64, total_ns: f64) -> String {
    format!("{:.1}", 100.0 * ns as f64 / total_ns)
}

fn handovers(text: &mut String, run: &Run) {
    let mut longest: Vec<_> = run.handovers.iter().filter(|handover| handover.total_ns > 0).collect();
    longest.sort_by_key(|handover| std::cmp::Reverse(handover.total_ns));
    let (count, _) = of_each(run);
    let mut rows = vec![["hand-over", "", "", "count", "us", "us each", "longest"].map(String::from).to_vec()];
    rows.extend(longest.iter().take(HANDOVERS_MAX).map(|handover| {
        vec![
            handover.from.name().into(),
            ">".into(),
            handover.to.name().into(),
            number(handover.count as f64 / count),
            number(handover.total_ns as f64 / count / 1e3),
            number(handover.total_ns as f64 / handover.count.max(1) as f64 / 1e3),
            number(handover.longest_ns as f64 / 1e3),
        ]
    }));
    if rows.len() > 1 {
        aligned(text, &rows, 3);
    }
}

/// The work of layers on each file or device, a line for each file and layer.
fn files(text: &mut String, run: &Run) {
    let has_driver = run.files.iter().any(|row| row.layer == Layer::Driver);
    let is_told = |layer: Layer| match layer {
        Layer::SystemCall | Layer::Driver => true,
        Layer::Block => !has_driver,
        _ => false,
    };
    let mut files: Vec<(&str, Vec<&FileTotal>)> = Vec::new();
    for row in run.files.iter().filter(|row| is_told(row.layer)) {
        match files.iter_mut().find(|(name, _)| *name == row.file) {
            Some((_, rows)) => rows.push(row),
            None => files.push((&row.file, vec![row])),
        }
    }
    // With many files, those with the most bytes come first.
    if files.len() > FILES_MAX {
        files.sort_by_key(|(_, rows)| std::cmp::Reverse(rows.iter().map(|row| row.bytes).sum::<u64>()));
    }
    let width = files.iter().map(|(name, _)| file_name(name).chars().count()).max().unwrap_or(0).min(WIDTH / 3);
    let (count, _) = of_each(run);
    for (name, rows) in files.iter().take(FILES_MAX) {
        let mut shown = shortened(file_name(name), width);
        for layer in Layer::ALL {
            let work: Vec<String> = rows.iter().filter(|row| row.layer == layer).map(|row| work(row, count)).collect();
            if !work.is_empty() {
                let first = format!("  {shown:<width$}  {:<11}  ", layer.name());
                fold(text, &first, &work.join(", "));
                // Once per file.
                shown.clear();
            }
        }
    }
    if files.len() > FILES_MAX {
        let _ = writeln!(text, "  and {} more files: --save FILE saves them all", files.len() - FILES_MAX);
    }
}

/// `8 pwrite64 (32 KiB)`.
fn work(row: &FileTotal, operations: f64) -> String {
    let bytes = (row.bytes as f64 / operations) as u64;
    let bytes = if bytes > 0 { format!(" ({})", Bytes(bytes)) } else { String::new() };
    format!("{} {}{bytes}", number(row.count as f64 / operations), row.work)
}
