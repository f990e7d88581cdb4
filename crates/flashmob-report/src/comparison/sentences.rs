//! The differences between two runs in words: work that is gone, new, less or more, and the layers whose time differs.

use flashmob_results::trace::{Layer, Role};

use super::{Column, DIFFERENCE_MIN, LayerRow, WorkRow};
use crate::words::{self, number};

/// Layers in the sentence about time.
const LAYERS_MAX: usize = 4;
/// Smaller differences of a layer, as a part of an operation, are left out.
const SHARE_MIN: f64 = 0.01;

/// A file's differing work at one layer.
struct Change {
    file: String,
    before: f64,
    after: f64,
    /// `1 fdatasync fewer, 8 KiB less`.
    words: Vec<String>,
    /// `1 fdatasync, 4 pwrite64 (16 KiB)`: all of it, for work that is gone or new.
    whole: Vec<String>,
}

/// Compares the run at `at` with the first.
pub(super) fn of(columns: &[Column], layers: &[LayerRow], work: &[WorkRow], at: usize) -> Vec<String> {
    let (first, this) = (&columns[0], &columns[at]);
    let mut sentences = vec![rate(first, this)];
    // Without system calls SQLite's own calls count.
    let has_calls = work.iter().any(|row| row.layer == Layer::SystemCall);
    let calls = changes(work, at, if has_calls { Layer::SystemCall } else { Layer::Sqlite });
    let told = |of: &dyn Fn(&Change) -> bool, what: &dyn Fn(&Change) -> Vec<String>| -> Vec<String> {
        calls.iter().filter(|change| of(change)).map(|c| format!("{}: {}", c.file, words::list(&what(c)))).collect()
    };
    let (gone, new) = (|c: &Change| c.after < DIFFERENCE_MIN, |c: &Change| c.before < DIFFERENCE_MIN);
    for (begin, parts) in [
        ("Gone", told(&gone, &|c| c.whole.clone())),
        ("New", told(&|c| !gone(c) && new(c), &|c| c.whole.clone())),
        ("Differs", told(&|c| !gone(c) && !new(c), &|c| c.words.clone())),
    ] {
        if !parts.is_empty() {
            sentences.push(format!("{begin} in each {}: {}.", this.operation, parts.join("; ")));
        }
    }
    let device = changes(work, at, Layer::Driver);
    let parts: Vec<String> = device.iter().map(|c| format!("{}: {}", c.file, words::list(&c.words))).collect();
    if !parts.is_empty() {
        sentences.push(format!("At the device: {}.", parts.join("; ")));
    }
    sentences.extend(time(first, this, layers, at));
    sentences
}

fn rate(first: &Column, this: &Column) -> String {
    // Traced rates would be biased: tracing costs fast settings more.
    let (before, after, how) = match (first.untraced_per_second, this.untraced_per_second) {
        (Some(before), Some(after)) => (before, after, " without tracing"),
        _ => (first.per_second, this.per_second, ""),
    };
    let rate = format!("{} {}s/s{how} against {} of {}", number(after), this.operation, number(before), first.name);
    match after / before {
        ratio if !ratio.is_finite() || ratio <= 0.0 => format!("{rate}."),
        ratio if (ratio - 1.0).abs() < 0.02 => format!("{rate}: about as many."),
        ratio if ratio > 1.0 => format!("{rate}: {} times as many.", number(ratio)),
        ratio => format!("{rate}: {} as many.", words::percent(ratio)),
    }
}

fn changes(work: &[WorkRow], at: usize, layer: Layer) -> Vec<Change> {
    let mut changes: Vec<(Role, Change)> = Vec::new();
    for row in work.iter().filter(|row| row.layer == layer) {
        let (before, after) = (row.counts[0], row.counts[at]);
        let index = changes.iter().position(|(role, change)| *role == row.role && change.file == row.file);
        let index = index.unwrap_or_else(|| {
            let file = row.file.clone();
            changes.push((row.role, Change { file, before: 0.0, after: 0.0, words: Vec::new(), whole: Vec::new() }));
            changes.len() - 1
        });
        let change = &mut changes[index].1;
        change.before += before;
        change.after += after;
        let (more, bytes) = (after - before, row.bytes[at] - row.bytes[0]);
        let size = |bytes: f64| words::bytes(bytes.abs().round() as u64);
        if more.abs() >= DIFFERENCE_MIN {
            let how = if more > 0.0 { "more" } else { "fewer" };
            let less = if bytes > 0.0 { "more" } else { "less" };
            let bytes = if bytes.abs() >= 1.0 { format!(" ({} {less})", size(bytes)) } else { String::new() };
            change.words.push(format!("{} {how}{bytes}", several(more.abs(), &row.work)));
        } else if bytes.abs() >= 64.0 {
            let less = if bytes > 0.0 { "more" } else { "less" };
            change.words.push(format!("{} {less} by {}", size(bytes), row.work));
        }
        // If it is gone or new, one of both is 0.
        let (count, bytes) = (before.max(after), row.bytes[0].max(row.bytes[at]));
        if count >= DIFFERENCE_MIN {
            let bytes = if bytes >= 1.0 { format!(" ({})", size(bytes)) } else { String::new() };
            change.whole.push(format!("{}{bytes}", several(count, &row.work)));
        }
    }
    changes.into_iter().map(|(_, change)| change).filter(|change| !change.words.is_empty()).collect()
}

/// `1 write`, `1.8 writes`. Names of calls and commands are not inflected.
fn several(count: f64, work: &str) -> String {
    let many = match work {
        "write" | "read" | "discard" if count != 1.0 => format!("{work}s"),
        "flush" if count != 1.0 => "flushes".into(),
        _ => work.into(),
    };
    format!("{} {many}", number(count))
}

fn time(first: &Column, this: &Column, layers: &[LayerRow], at: usize) -> Option<String> {
    let least_us = SHARE_MIN * first.mean_us.max(this.mean_us);
    let mut parts: Vec<(f64, String)> = (layers.iter())
        .map(|row| (row.us[at] - row.us[0], row.layer.map_or("unattributed", Layer::name).to_string()))
        .filter(|(us, _)| us.abs() >= least_us && us.abs() > 0.0)
        .collect();
    parts.sort_by(|a, b| b.0.abs().total_cmp(&a.0.abs()));
    let signed = |us: f64| format!("{}{} us", if us < 0.0 { "−" } else { "+" }, number(us.abs()));
    let told: Vec<String> =
        parts.iter().take(LAYERS_MAX).map(|(us, layer)| format!("{layer} {}", signed(*us))).collect();
    let all = signed(this.mean_us - first.mean_us);
    (!told.is_empty()).then(|| format!("The time of each {}: {all} in all; {}.", this.operation, told.join(", ")))
}
