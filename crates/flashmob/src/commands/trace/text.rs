//! A trace as text: one screen. For one run the important figures, for several their differences.

mod overview;
mod run;

#[cfg(test)]
mod tests;

use std::fmt::Write;

use flashmob_results::trace::{Run, System, Workload};
use flashmob_results::warning::Warning;
use flashmob_results::{Document, Measurement};

use super::table::fold;
use crate::commands::tell::harmless;

/// Most warnings that are shown; the document has all.
const WARNINGS_MAX: usize = 6;

/// The whole text; empty if the document is not a trace. Writing to a String cannot fail.
pub fn summary(document: &Document) -> String {
    let Measurement::Trace(trace) = &document.measurement else { return String::new() };
    let mut text = String::new();
    fold(&mut text, "", &heading(document, &trace.runs));
    match trace.runs.as_slice() {
        [] => text.push_str("  nothing was traced\n"),
        [one] => run::block(&mut text, one),
        several => overview::table(&mut text, several),
    }
    let of_runs = trace.runs.iter().flat_map(|run| {
        let name = if trace.runs.len() > 1 { format!("{}: ", run.name) } else { String::new() };
        run.warnings.iter().map(move |warning| (name.clone(), warning))
    });
    let all: Vec<(String, &Warning)> =
        document.warnings.iter().map(|warning| (String::new(), warning)).chain(of_runs).collect();
    for (name, warning) in all.iter().take(WARNINGS_MAX) {
        fold(&mut text, "  ! ", &format!("{name}{}", warning.message));
    }
    if all.len() > WARNINGS_MAX {
        let _ = writeln!(text, "  ! and {} more", all.len() - WARNINGS_MAX);
    }
    text
}

fn heading(document: &Document, runs: &[Run]) -> String {
    let first = runs.first();
    let parts = [first.map(|run| workload(&run.workload)), first.map(|run| system(&run.system))];
    let parts: Vec<String> = parts.into_iter().flatten().filter(|part| !part.is_empty()).collect();
    format!("{}: {}", document.name(), parts.join("; "))
}

/// The workload, without the parameters in which runs differ.
fn workload(workload: &Workload) -> String {
    match workload {
        Workload::Sqlite { version, inserts, string_bytes, .. } => {
            format!("{inserts} INSERTs of {string_bytes} bytes into SQLite {version}")
        }
        Workload::Command { command, status } => {
            let ended = match status {
                Some(0) => String::new(),
                Some(status) => format!(" (exit status {status})"),
                None => " (ended by a signal)".to_string(),
            };
            format!("{}{ended}", harmless(&command.join(" ")).chars().take(200).collect::<String>())
        }
        Workload::Cluster { nodes, sampled_one_in } => {
            format!("requests of a volume of {nodes} nodes, one in {sampled_one_in} followed")
        }
    }
}

fn system(system: &System) -> String {
    let filesystem = system.filesystem.as_ref().map(|name| match &system.filesystem_options {
        Some(options) => format!("{name} ({options})"),
        None => name.clone(),
    });
    let device = system.device.as_ref().map(|name| match &system.driver {
        Some(driver) => format!("{name} ({driver})"),
        None => name.clone(),
    });
    let scheduler = system.scheduler.as_ref().map(|name| format!("scheduler {name}"));
    let kernel = (!system.kernel.is_empty()).then(|| format!("Linux {}", system.kernel));
    [filesystem, device, scheduler, kernel].into_iter().flatten().collect::<Vec<_>>().join(", ")
}
