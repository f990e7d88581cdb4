//! Totals of a whole timeline, as results for tables and pages.
//!
//! A timeline has millions of spans, so each function makes a single pass or sorts within one operation; only results are copied.
//! Time is not attributed here but in the timeline ([`flashmob_results::trace::Operation::layers_ns`]).
//!
//! - `operations`: count, duration, times
//! - `layers`: work and time of each layer
//! - `handovers`: time between the events of two layers
//! - `files`: work on each file
//! - `commands`: the driver's commands and their steps
//! - `excerpt`: a few operations in full
//! - `insert`: the time after the last write to a database

mod commands;
mod excerpt;
mod files;
mod handovers;
mod insert;
mod layers;
mod operations;
mod owned;

#[cfg(test)]
pub(crate) mod tests;

use flashmob_results::trace::{Losses, Overhead, Run, Source, System, Timeline, Workload};
use flashmob_results::warning::{Code, Warning};
use flashmob_text::{Bytes, count, percent};

pub use commands::commands;
pub use excerpt::{excerpt, neighbours};
pub use files::files;
pub use handovers::handovers;
pub use insert::after_last_write;
pub use layers::layers;
pub use operations::operations;

/// Maximum points of an evenly thinned list, as limited by [`flashmob_results::trace`].
const THINNED_MAX: usize = 4_096;
/// Above this fraction of unattributed time, layer figures are doubtful.
const UNATTRIBUTED_FRACTION_MAX: f64 = 0.03;

/// A run's data besides its timeline.
#[derive(Clone, Debug)]
pub struct RunParts {
    /// Its name in tables, which distinguishes it from the other runs.
    pub name: String,
    /// The workload.
    pub workload: Workload,
    /// The system that it ran on.
    pub system: System,
    /// The data sources, and what is missing from them.
    pub sources: Vec<Source>,
    /// Lost events.
    pub losses: Losses,
    /// The cost of tracing, if measured.
    pub overhead: Option<Overhead>,
    /// From the begin of the first operation to the end of the last.
    pub elapsed_s: f64,
    /// The name of one operation: `insert`, `system call`, `read`.
    pub operation: String,
    /// Warnings besides those about the timeline and lost events.
    pub warnings: Vec<Warning>,
}

/// A run with all totals, and an excerpt with the operations of these numbers and with these neighbours.
#[must_use]
pub fn run(timeline: &Timeline, parts: RunParts, excerpt_operations: &[u64], neighbours: &[u64]) -> Run {
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
        timeline: excerpt(timeline, excerpt_operations, neighbours),
        after_last_write: after_last_write(timeline),
        warnings,
    }
}

fn lost(losses: &Losses) -> Option<Warning> {
    let many = losses.lost;
    let message = match (many, losses.unreadable_bytes) {
        (0, 0) => return None,
        (0, bytes) => format!("{} of the kernel's data are malformed: counts may be too low", Bytes(bytes)),
        _ => format!(
            "{} events were lost because the kernel's buffers of {} were full: counts are too low; use larger buffers, or trace less",
            count(many),
            Bytes(losses.buffer_bytes)
        ),
    };
    Some(Warning::new(Code::Incomplete, message))
}

fn unattributed(unattributed_ns: u64, total_ns: u64) -> Option<Warning> {
    let fraction = unattributed_ns as f64 / total_ns.max(1) as f64;
    (fraction > UNATTRIBUTED_FRACTION_MAX).then(|| {
        let message = format!(
            "{} of the operations' time is unattributed: sources are missing, or no event shows what took that time",
            percent(fraction)
        );
        Warning::new(Code::Incomplete, message)
    })
}

/// At most [`THINNED_MAX`] evenly spread indices, including the first.
fn thinned(many: usize) -> impl Iterator<Item = usize> {
    let kept = many.min(THINNED_MAX);
    (0..kept).map(move |at| at * many / kept.max(1))
}

/// The median of sorted values; `None` if there are none.
fn median(sorted: &[f64]) -> Option<f64> {
    let middle = sorted.len() / 2;
    let value = *sorted.get(middle)?;
    Some(if sorted.len() % 2 == 1 { value } else { f64::midpoint(sorted[middle - 1], value) })
}

/// Nanoseconds as seconds.
fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}
