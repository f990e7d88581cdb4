//! Traced runs side by side: rates, differing work and differing time. All values are averages per operation, so that
//! runs of different lengths can be compared.
//!
//! - `sentences`: the differences in words

mod sentences;

#[cfg(test)]
mod tests;

use flashmob_results::trace::{FileTotal, Layer, Role, Run};

use crate::entry::Entry;
use crate::inserts;
use crate::words::plain;

/// Maximum of compared runs; a table of more is unreadable.
pub const RUNS_MAX: usize = 8;

/// Several runs beside each other.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// One for each run; the others are compared with the first.
    pub columns: Vec<Column>,
    /// Time by layers, the largest difference first.
    pub layers: Vec<LayerRow>,
    /// Work on each file, in the order of roles and layers.
    pub work: Vec<WorkRow>,
    /// For each column but the first, its differences from the first in words.
    pub sentences: Vec<Vec<String>>,
    /// Number of runs beyond [`RUNS_MAX`].
    pub left_out: usize,
}

/// One run.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Name of its operations.
    pub operation: String,
    /// Number of operations.
    pub operations: u64,
    /// Operations per second while traced.
    pub per_second: f64,
    /// Median of the operations per second without tracing, if measured.
    pub untraced_per_second: Option<f64>,
    /// Mean duration.
    pub mean_us: f64,
    /// Median duration.
    pub p50_us: Option<f64>,
    /// 99th percentile.
    pub p99_us: Option<f64>,
    /// Cost of tracing.
    pub slowdown_percent: Option<f64>,
    /// Unattributed time.
    pub unattributed_percent: f64,
    /// Events that were lost.
    pub lost: u64,
}

/// Time of one layer in an operation.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerRow {
    /// The layer; `None` for unattributed time.
    pub layer: Option<Layer>,
    /// For each column.
    pub us: Vec<f64>,
    /// Difference between maximum and minimum.
    pub spread_us: f64,
}

/// One kind of work on one file, in an operation.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkRow {
    /// Role of the file.
    pub role: Role,
    /// Words for its role, or its name without a role.
    pub file: String,
    /// The layer that did it.
    pub layer: Layer,
    /// The kind of work.
    pub work: String,
    /// Count, for each column.
    pub counts: Vec<f64>,
    /// Bytes, for each column.
    pub bytes: Vec<f64>,
}

impl WorkRow {
    /// True if the columns differ in it.
    #[must_use]
    pub fn differs(&self) -> bool {
        let differ = |values: &[f64], by: f64| values.iter().any(|value| (value - values[0]).abs() >= by);
        differ(&self.counts, DIFFERENCE_MIN) || differ(&self.bytes, 64.0)
    }
}

/// Smaller differences in counts per operation are ignored: the first and the last operation of a run differ from the others.
const DIFFERENCE_MIN: f64 = 0.05;

/// Compares the runs of all results that are traces; `None` if there are fewer than two.
#[must_use]
pub fn compare(entries: &[Entry]) -> Option<Comparison> {
    let runs = named(entries);
    let left_out = runs.len().saturating_sub(RUNS_MAX);
    let runs: Vec<(String, &Run)> = runs.into_iter().take(RUNS_MAX).collect();
    if runs.len() < 2 {
        return None;
    }
    Some(Comparison { left_out, ..of_runs(&runs) })
}

/// The differences between two named runs in sentences.
#[must_use]
pub fn difference(from: (&str, &Run), to: (&str, &Run)) -> String {
    of_runs(&[from, to].map(|(name, run)| (name.to_string(), run))).sentences.concat().join(" ")
}

fn of_runs(runs: &[(String, &Run)]) -> Comparison {
    let columns: Vec<Column> = runs.iter().map(|(name, run)| column(name, run)).collect();
    let (layers, work) = (layers(runs), work(runs));
    let sentences = (1..columns.len()).map(|at| sentences::of(&columns, &layers, &work, at)).collect();
    Comparison { columns, layers, work, sentences, left_out: 0 }
}

/// Runs with operations, under unique names.
fn named(entries: &[Entry]) -> Vec<(String, &Run)> {
    let traces: Vec<(&Entry, Vec<&Run>)> = entries
        .iter()
        .filter_map(|entry| Some((entry, entry.trace()?.runs.iter().filter(|run| run.operations.count > 0).collect())))
        .collect();
    let single = traces.iter().all(|(_, runs)| runs.len() == 1);
    let mut all = Vec::new();
    for (entry, runs) in &traces {
        for run in runs {
            let own = plain(&run.name, 40);
            let name = match (traces.len(), single) {
                (1, _) => own,
                (_, true) if own.is_empty() || traces.iter().all(|(_, other)| other[0].name == run.name) => {
                    entry.name.clone()
                }
                _ => format!("{} · {own}", entry.name),
            };
            all.push((name, *run));
        }
    }
    all
}

fn column(name: &str, run: &Run) -> Column {
    let operations = &run.operations;
    let us = |percent| operations.latency_ns.percentile_ns(percent).map(|ns| ns as f64 / 1e3);
    Column {
        name: name.to_string(),
        operation: plain(&operations.name, 30),
        operations: operations.count,
        per_second: operations.per_second,
        untraced_per_second: untraced(run),
        mean_us: each(run, operations.total_ns) / 1e3,
        p50_us: us(50.0),
        p99_us: us(99.0),
        slowdown_percent: run.overhead.as_ref().map(|overhead| overhead.slowdown_percent),
        unattributed_percent: 100.0 * operations.unattributed_ns as f64 / operations.total_ns.max(1) as f64,
        lost: run.losses.lost,
    }
}

/// Known for INSERTs only: for a command, the untraced rate is that of whole executions.
fn untraced(run: &Run) -> Option<f64> {
    let is_known = inserts::setting(run).is_some() && run.overhead.is_some();
    is_known.then(|| inserts::rate(run))
}

/// Average per operation.
fn each(run: &Run, value: u64) -> f64 {
    value as f64 / run.operations.count.max(1) as f64
}

fn layers(runs: &[(String, &Run)]) -> Vec<LayerRow> {
    let row = |layer: Option<Layer>| {
        let us = |run: &Run| match layer {
            None => each(run, run.operations.unattributed_ns) / 1e3,
            Some(layer) => {
                run.layers.iter().filter(|total| total.layer == layer).map(|t| each(run, t.time_ns) / 1e3).sum()
            }
        };
        let us: Vec<f64> = runs.iter().map(|(_, run)| us(run)).collect();
        let (least, most) = us.iter().fold((f64::INFINITY, 0.0_f64), |(low, high), v| (low.min(*v), high.max(*v)));
        LayerRow { layer, us, spread_us: (most - least).max(0.0) }
    };
    let mut rows: Vec<LayerRow> = Layer::ALL.into_iter().map(Some).chain([None]).map(row).collect();
    rows.retain(|row| row.us.iter().any(|us| *us > 0.0));
    rows.sort_by(|a, b| b.spread_us.total_cmp(&a.spread_us));
    rows
}

/// Words for a file's role; `None` for files that go by their names.
pub fn role(role: Role) -> Option<&'static str> {
    Some(match role {
        Role::Database => "database",
        Role::Journal => "rollback journal",
        Role::Wal => "WAL",
        Role::SharedMemory => "shared memory",
        Role::Directory => "folder",
        Role::Extent => "extent",
        Role::FilesystemJournal => "file system's journal",
        Role::Metadata => "file system's metadata",
        Role::Flush => "flushes",
        Role::Other | Role::Unknown => return None,
    })
}

fn work(runs: &[(String, &Run)]) -> Vec<WorkRow> {
    let mut rows: Vec<WorkRow> = Vec::new();
    let mut places = std::collections::HashMap::new();
    for (column, (_, run)) in runs.iter().enumerate() {
        for total in &run.files {
            let file = called(total);
            let key = (total.role, file.clone(), total.layer, total.work.clone());
            let at = *places.entry(key).or_insert_with(|| {
                let (counts, bytes) = (vec![0.0; runs.len()], vec![0.0; runs.len()]);
                let work = plain(&total.work, 40);
                rows.push(WorkRow { role: total.role, file, layer: total.layer, work, counts, bytes });
                rows.len() - 1
            });
            rows[at].counts[column] += each(run, total.count);
            rows[at].bytes[column] += each(run, total.bytes);
        }
    }
    rows.sort_by(|a, b| (a.role, &a.file, a.layer, &a.work).cmp(&(b.role, &b.file, b.layer, &b.work)));
    rows
}

fn called(total: &FileTotal) -> String {
    role(total.role).map_or_else(|| plain(&total.file, 60), String::from)
}
