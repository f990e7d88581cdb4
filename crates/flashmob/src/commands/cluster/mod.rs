//! The common part of `bench cluster` and `simulate`: they measure the same points in the same rounds, and report results in
//! the same format. A [`Runner`] measures; it does not know rounds, files and tables.
//!
//! - [`sweep`]: points, rounds, and the runner of one repetition
//! - [`record`]: the document, with reasons to doubt its figures
//! - [`table`]: the document as text
//! - [`figures`]: the modelled flash's limits, and other figures that both need

pub mod figures;
pub mod record;
pub mod sweep;
pub mod table;

use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use super::result_args::ResultArgs;
use super::tell::{Begun, STATUS_ERRORS, STATUS_INTERRUPTED};
pub use record::Subject;
pub use sweep::{Runner, Sweep};

/// Some point has only void repetitions.
pub const STATUS_VOID: u8 = 5;

/// Measures all of `sweep` with `runner`, prints and saves the result according to `args`, and returns the exit status. `subject` is called
/// after the measurement.
pub fn measure(
    runner: &mut dyn Runner,
    sweep: &Sweep,
    args: &ResultArgs,
    cancel: &AtomicBool,
    subject: impl FnOnce() -> anyhow::Result<Subject>,
) -> anyhow::Result<ExitCode> {
    let begun = Begun::now();
    let mut teller = args.teller(table::render);
    teller.begin(sweep.points.len(), sweep.repeat, sweep.seed);
    let swept = sweep::run_sweep(runner, sweep, begun.at, cancel, &mut |told| teller.cluster(told))?;
    let (interrupted, failure) = (swept.interrupted, swept.failure);
    let mut subject = subject()?;
    if let Some(error) = &failure {
        subject.warnings.push(record::cut_short(error));
    }
    let document = record::document(subject, swept.points, sweep, begun, interrupted || failure.is_some(), args);
    args.save(&document)?;
    teller.end(&document)?;
    if let Some(failure) = failure {
        return Err(failure);
    }
    Ok(status(document.cluster().map_or(&[], |cluster| &cluster.points), interrupted))
}

fn status(points: &[flashmob_results::cluster::Point], interrupted: bool) -> ExitCode {
    let repetitions = || points.iter().flat_map(|p| &p.repetitions);
    if interrupted {
        ExitCode::from(STATUS_INTERRUPTED)
    } else if repetitions().any(|r| r.errors > 0) {
        ExitCode::from(STATUS_ERRORS)
    } else if points.iter().any(|p| p.repetitions.iter().all(|r| r.is_void)) {
        ExitCode::from(STATUS_VOID)
    } else {
        ExitCode::SUCCESS
    }
}

#[cfg(test)]
mod tests;
