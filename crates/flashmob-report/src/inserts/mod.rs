//! Traced INSERTs: the setting and rate of a run, and what each insert did to which file.
//!
//! - `cost`: counts for each insert

mod cost;

use flashmob_results::disk::Spread;
use flashmob_results::trace::{Run, Workload};

pub use cost::{Cost, Kind};

use crate::entry::Entry;
use crate::words;

/// P5's journal mode, SQLite's default.
pub const MODE: &str = "DELETE";
/// P5's synchronous level, SQLite's default.
pub const LEVEL: &str = "FULL";
const NAME_CHARACTERS_MAX: usize = 60;

/// INSERTs per second: those of the untraced runs where these were measured, else that of the traced run.
pub fn rates(run: &Run) -> Vec<f64> {
    let untraced = run.overhead.as_ref().map(|overhead| overhead.untraced_per_second.as_slice()).unwrap_or_default();
    let untraced: Vec<f64> = untraced.iter().copied().filter(|rate| rate.is_finite() && *rate > 0.0).collect();
    if untraced.is_empty() { vec![run.operations.per_second] } else { untraced }
}

/// The median of [`rates`].
pub fn rate(run: &Run) -> f64 {
    Spread::of(rates(run)).median
}

/// The file system: `ext4, no journal`. Only options that affect writes are included.
pub fn system(run: &Run) -> String {
    let system = &run.system;
    let options = system.filesystem_options.as_deref().unwrap_or_default().split(',').map(str::trim);
    let matters =
        |option: &&str| ["journal", "barrier", "data=", "sync", "fsync_mode"].iter().any(|word| option.contains(word));
    let parts: Vec<&str> = system.filesystem.as_deref().into_iter().chain(options.filter(matters)).collect();
    if parts.is_empty() { "unknown file system".into() } else { words::plain(&parts.join(", "), NAME_CHARACTERS_MAX) }
}

/// Journal mode and synchronous level; `None` for other workloads.
pub fn setting(run: &Run) -> Option<(&str, &str)> {
    match &run.workload {
        Workload::Sqlite { journal_mode, synchronous, .. } => Some((journal_mode, synchronous)),
        Workload::Command { .. } | Workload::Cluster { .. } => None,
    }
}

/// The runs of INSERTs that have a rate.
pub fn runs(entry: &Entry) -> impl Iterator<Item = &Run> {
    let all = entry.trace().into_iter().flat_map(|trace| &trace.runs);
    all.filter(|run| setting(run).is_some() && run.operations.count > 0 && rate(run).is_finite() && rate(run) > 0.0)
}

/// True if some result has runs of INSERTs.
pub fn has_any(entries: &[Entry]) -> bool {
    entries.iter().any(|entry| runs(entry).next().is_some())
}

pub fn find<'a>(entry: &'a Entry, mode: &str, level: &str) -> Option<&'a Run> {
    runs(entry).find(|run| has_setting(run, mode, level))
}

/// True for a run of INSERTs with this journal mode and level.
pub fn has_setting(run: &Run, mode: &str, level: &str) -> bool {
    setting(run).is_some_and(|(m, l)| m.eq_ignore_ascii_case(mode) && l.eq_ignore_ascii_case(level))
}

/// A call that writes: `pwrite64`, `write`, `xWrite`.
pub fn is_write(work: &str) -> bool {
    Kind::of(work) == Some(Kind::Write)
}
