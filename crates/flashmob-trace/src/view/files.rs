//! Totals of each file.

use std::collections::HashMap;

use flashmob_results::trace::{FileTotal, Layer, Role, Span, Timeline};

use super::layers::place;

/// Maximum files with rows of their own. A command may touch every file of a disk; the files with the least time share rows.
const FILES_MAX: usize = 500;
/// The name of the shared rows.
const OTHERS: &str = "other files";
/// The name of files that a layer does not report.
const UNKNOWN: &str = "unknown";

#[derive(Clone, Copy, Default)]
struct Sum {
    count: u64,
    bytes: u64,
    time_ns: u64,
}

/// One row for each file, layer and kind of work; files with the same name share rows. Spans without a file are reported as unknown for
/// layers that work on files and blocks, and ignored for others, such as statements.
#[must_use]
pub fn files(timeline: &Timeline) -> Vec<FileTotal> {
    let mut by_index: HashMap<(Option<u32>, usize, u32), Sum> = HashMap::new();
    for span in timeline.spans.iter().filter(|span| span.file.is_some() || wants_file(span)) {
        let sum = by_index.entry((span.file, place(span.layer), span.name)).or_default();
        add(sum, 1, span.bytes, span.end_ns.saturating_sub(span.begin_ns));
    }
    let named = |index: Option<u32>| match index.and_then(|index| timeline.files.get(index as usize)) {
        Some(file) => (file.role, file.name.as_str()),
        None => (Role::Unknown, UNKNOWN),
    };
    let mut of_file: HashMap<(Role, &str), u64> = HashMap::new();
    for ((file, _, _), sum) in &by_index {
        let time_ns = of_file.entry(named(*file)).or_default();
        *time_ns = time_ns.saturating_add(sum.time_ns);
    }
    let mut longest: Vec<((Role, &str), u64)> = of_file.into_iter().collect();
    longest.sort_unstable_by_key(|(file, time_ns)| (std::cmp::Reverse(*time_ns), *file));
    let shared: HashMap<(Role, &str), ()> = longest.iter().skip(FILES_MAX).map(|(file, _)| (*file, ())).collect();
    let mut rows: HashMap<(Role, &str, usize, &str), Sum> = HashMap::new();
    for ((file, layer, name), sum) in by_index {
        let (role, file) = named(file);
        let (role, file) = if shared.contains_key(&(role, file)) { (Role::Other, OTHERS) } else { (role, file) };
        add(rows.entry((role, file, layer, timeline.name(name))).or_default(), sum.count, sum.bytes, sum.time_ns);
    }
    let mut totals: Vec<FileTotal> = (rows.into_iter())
        .map(|((role, file, layer, work), sum)| FileTotal {
            role,
            file: file.to_string(),
            layer: Layer::ALL[layer],
            work: work.to_string(),
            count: sum.count,
            bytes: sum.bytes,
            time_ns: sum.time_ns,
        })
        .collect();
    totals.sort_by(|a, b| (a.role, &a.file, a.layer, &a.work).cmp(&(b.role, &b.file, b.layer, &b.work)));
    totals
}

fn wants_file(span: &Span) -> bool {
    matches!(span.layer, Layer::FileSystem | Layer::PageCache | Layer::Block | Layer::Driver)
}

fn add(sum: &mut Sum, count: u64, bytes: u64, time_ns: u64) {
    sum.count += count;
    sum.bytes = sum.bytes.saturating_add(bytes);
    sum.time_ns = sum.time_ns.saturating_add(time_ns);
}
