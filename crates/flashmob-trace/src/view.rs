//! Totals of a whole timeline, in the form of results: what tables and pages show.
//!
//! A timeline has millions of spans, so everything here goes over it once or sorts within one operation; nothing is copied but what is told.
//! It decides nothing about whose time it was: that stands in the timeline ([`flashmob_results::trace::Operation::layers_ns`]).
//!
//! - `operations`: how many, how long, when
//! - `layers`: what each layer did, and how long it was at it
//! - `handovers`: time between the events of two layers
//! - `files`: what was done to which file
//! - `commands`: the driver's, with their steps
//! - `excerpt`: a few operations in full
//! - `overhead`: what tracing cost
//! - `insert`: what comes after the last write to a database

mod commands;
mod excerpt;
mod files;
mod handovers;
mod insert;
mod layers;
mod operations;
mod overhead;
mod owned;

#[cfg(test)]
pub(crate) mod tests;

use flashmob_results::trace::{Losses, Overhead, Run, Source, System, Timeline, Workload};
use flashmob_results::warning::{Code, Warning};

pub use commands::commands;
pub use excerpt::excerpt;
pub use files::files;
pub use handovers::handovers;
pub use insert::after_last_write;
pub use layers::layers;
pub use operations::operations;
pub use overhead::overhead;

/// Points of a list that is thinned evenly: as many as [`flashmob_results::trace`] allows.
const THINNED_MAX: usize = 4_096;
/// More of the operations' time than this, in percent, belonging to no layer makes figures of layers doubtful.
const UNATTRIBUTED_PERCENT_MAX: f64 = 3.0;

/// What a run is besides its timeline.
#[derive(Clone, Debug)]
pub struct RunParts {
    /// What to call it in tables: what sets it apart from its neighbours.
    pub name: String,
    /// What was done.
    pub workload: Workload,
    /// What it was done on.
    pub system: System,
    /// Where knowledge came from, and what is missing of it.
    pub sources: Vec<Source>,
    /// Events that are missing.
    pub losses: Losses,
    /// What tracing cost, if it was measured.
    pub overhead: Option<Overhead>,
    /// From the first operation to the end of the last.
    pub elapsed_s: f64,
    /// What one operation is: `insert`, `system call`, `read`.
    pub operation: String,
    /// What makes the figures doubtful, besides what the timeline and the losses say themselves.
    pub warnings: Vec<Warning>,
}

/// A run with all totals, and with the operations of these numbers in full.
#[must_use]
pub fn run(timeline: &Timeline, parts: RunParts, excerpt_operations: &[u64]) -> Run {
    let operations = operations(timeline, &parts.operation);
    let mut warnings = parts.warnings;
    warnings.extend(lost(&parts.losses));
    warnings.extend(unattributed(operations.unattributed_ns, operations.total_ns));
    Run {
        name: parts.name,
        workload: parts.workload,
        system: parts.system,
        sources: parts.sources,
        losses: parts.losses,
        overhead: parts.overhead,
        elapsed_s: parts.elapsed_s,
        operations,
        layers: layers(timeline),
        handovers: handovers(timeline),
        files: files(timeline),
        commands: commands(timeline),
        timeline: excerpt(timeline, excerpt_operations),
        after_last_write: after_last_write(timeline),
        warnings,
    }
}

fn lost(losses: &Losses) -> Option<Warning> {
    let many = losses.lost;
    let message = match (many, losses.unreadable_bytes) {
        (0, 0) => return None,
        (0, bytes) => format!("{bytes} bytes of the kernel's could not be understood: counts may be too low"),
        _ => format!(
            "{many} events were lost, for the kernel's buffers of {} KiB were full: counts are too low; give it larger ones, or trace less",
            losses.buffer_bytes >> 10
        ),
    };
    Some(Warning::new(Code::Incomplete, message))
}

fn unattributed(unattributed_ns: u64, total_ns: u64) -> Option<Warning> {
    let percent = 100.0 * unattributed_ns as f64 / total_ns.max(1) as f64;
    (percent > UNATTRIBUTED_PERCENT_MAX).then(|| {
        let message = format!(
            "{percent:.1} % of the operations' time belongs to no layer: sources are missing, or something was at work that no event shows"
        );
        Warning::new(Code::Incomplete, message)
    })
}

/// Indices of at most [`THINNED_MAX`] of so many, evenly spread, the first among them.
fn thinned(many: usize) -> impl Iterator<Item = usize> {
    let kept = many.min(THINNED_MAX);
    (0..kept).map(move |at| at * many / kept.max(1))
}

/// Nanoseconds as seconds.
fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}
