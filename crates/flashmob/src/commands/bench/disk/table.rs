//! The result as text.

use std::fmt::Write;

use flashmob_core::units::Bytes;
use flashmob_results::disk::{Disk, Operation, Point};
use flashmob_results::trace::Steps;
use flashmob_results::{Document, Measurement};
use flashmob_text::number;

use super::super::super::tell::{doubts, harmless};

/// The whole text.
pub fn render(document: &Document) -> String {
    let Measurement::Disk(disk) = &document.measurement else { return String::new() };
    let mut text = String::new();
    // Writing to a String cannot fail.
    // One run has one state of the page cache: it needs no column.
    let cache = disk.points.first().map_or(String::new(), |p| format!(", {}", p.parameters.cache));
    let _ = writeln!(text, "{}{cache}", harmless(&heading(document, disk)));
    if disk.points.is_empty() {
        text.push_str("  nothing was measured\n");
    } else {
        points(&mut text, disk);
        steps(&mut text, disk);
    }
    text.push_str(&doubts(&document.warnings, disk.points.iter().flat_map(|p| &p.warnings)));
    text
}

fn heading(document: &Document, disk: &Disk) -> String {
    let name = document.name();
    match (&disk.file, &disk.model) {
        (_, Some(model)) => {
            format!("{name}: {}, {} slots, {}", model.description, model.slots, Bytes(model.size_bytes))
        }
        (Some(file), None) => {
            let place = &file.place;
            let parts = [
                Some(Bytes(file.size_bytes).to_string()),
                place.filesystem.clone(),
                place.disk.clone().map(|disk| match &place.disk_model {
                    Some(model) => format!("{disk} ({model})"),
                    None => disk,
                }),
                place.scheduler.clone().map(|s| format!("scheduler {s}")),
                document.device.kernel.clone(),
            ];
            let parts: Vec<String> = parts.into_iter().flatten().collect();
            format!("{name}: {}, {}", file.path, parts.join(", "))
        }
        (None, None) => name,
    }
}

/// A column: its title, and its text for a point.
type Column = (&'static str, fn(&Point) -> String);

fn points(text: &mut String, disk: &Disk) {
    let us = |point: &Point, percent| match point.summary.latency_ns.percentile_ns(percent) {
        Some(ns) => number(ns as f64 / 1000.0),
        None => "-".into(),
    };
    let columns = columns(disk);
    let figures = ["requests/s", "spread", "KB/s", "p50 us", "p99 us", "p99.9 us", ""];
    let rows = disk.points.iter().map(|point| {
        let rate = point.summary.requests_per_second;
        let figures = vec![
            number(rate.median),
            // As a part of the median: two more rates would exceed 80 columns.
            if point.summary.repetitions > 1 { format!("{}%", number(100.0 * rate.relative())) } else { "-".into() },
            number(point.summary.bytes_per_second.median / 1000.0),
            us(point, 50.0),
            us(point, 99.0),
            us(point, 99.9),
            if point.warnings.is_empty() { String::new() } else { "!".into() },
        ];
        (point, figures)
    });
    aligned(text, &columns, &figures, rows);
}

/// The columns in which points differ.
fn columns(disk: &Disk) -> Vec<Column> {
    let differs = |of: fn(&Point) -> String| disk.points.windows(2).any(|pair| of(&pair[0]) != of(&pair[1]));
    let operation: fn(&Point) -> String = |p| p.parameters.operation.to_string();
    let depth: fn(&Point) -> String = |p| p.parameters.depth.to_string();
    let scheduler: fn(&Point) -> String = |p| p.parameters.scheduler.clone().unwrap_or_else(|| "-".into());
    let mut columns: Vec<Column> = Vec::new();
    if disk.points.iter().any(|p| p.parameters.operation == Operation::Write) {
        columns.push(("", operation));
        columns.push(("sync", |p| p.parameters.sync.map_or_else(|| "-".into(), |s| s.to_string())));
    }
    columns.push(("pattern", |p| p.parameters.pattern.to_string()));
    if disk.points.iter().any(|p| p.parameters.scheduler.is_some()) {
        columns.push(("scheduler", scheduler));
    }
    columns.push(("block", |p| Bytes(p.parameters.block_bytes).to_string()));
    columns.push(("threads", |p| p.parameters.threads.to_string()));
    if differs(depth) || disk.points.iter().any(|p| p.parameters.depth > 1) {
        columns.push(("depth", depth));
    }
    columns
}

/// Commands of the device: those with a step upward, and those with a step downward.
fn steps(text: &mut String, disk: &Disk) {
    let of = disk.points.iter().filter_map(|point| Some((point, point.commands.as_ref()?)));
    let rows: Vec<_> = of
        .map(|(point, commands)| {
            let times = |steps: Option<Steps>| match steps {
                Some(steps) => [number(steps.p50_us), number(steps.mean_us)],
                None => ["-", "-"].map(String::from),
            };
            let mut figures = vec![commands.count.to_string()];
            figures.push(commands.upward_fraction().map_or_else(|| "-".into(), |f| format!("{}%", number(100.0 * f))));
            figures.extend(times(commands.forward));
            figures.extend(times(commands.backward));
            (point, figures)
        })
        .collect();
    if rows.is_empty() {
        return;
    }
    let _ = writeln!(text, "  device commands by address step from the previous command; service times in us");
    let figures = ["commands", "upward", "up p50", "mean", "down p50", "mean"];
    aligned(text, &columns(disk), &figures, rows.into_iter());
}

/// A line for each, below a heading: text left-aligned, numbers right-aligned.
fn aligned<'a>(
    text: &mut String,
    columns: &[Column],
    figures: &[&str],
    points: impl Iterator<Item = (&'a Point, Vec<String>)>,
) {
    let titles = columns.iter().map(|(title, _)| *title).chain(figures.iter().copied());
    let mut rows: Vec<Vec<String>> = vec![titles.map(String::from).collect()];
    rows.extend(points.map(|(point, figures)| columns.iter().map(|(_, of)| of(point)).chain(figures).collect()));
    let words = columns.iter().take_while(|(title, _)| *title != "block").count();
    text.push_str(&flashmob_text::aligned(&rows, words, "  ", 80));
}

#[cfg(test)]
mod tests {
    use flashmob_bench::disk::plan::Grid;
    use flashmob_results::disk::{Cache, Engine, Pattern, Repetition, Sync};
    use flashmob_results::latency::{Latency, histogram};

    use super::*;

    fn lines(rates: &[f64]) -> Vec<String> {
        let grid = Grid {
            operation: Operation::Read,
            patterns: vec![Pattern::Sequential, Pattern::Random],
            block_bytes: vec![1, 16 << 10],
            threads: vec![1, 32],
            depths: vec![1],
            engine: Engine::Pread,
            cache: Cache::Cold,
            sync: Sync::None,
            schedulers: vec![],
            range_bytes: None,
            stop: flashmob_bench::disk::limit::Stop::Requests(1),
        };
        let mut latencies = histogram();
        latencies.record_n(12_345_678, 100).unwrap();
        let repetition = |rate: f64| Repetition {
            begin_s: 0.0,
            elapsed_s: 1.0,
            requests: 100,
            bytes: 100,
            errors: 0,
            first_error: None,
            requests_per_second: rate,
            bytes_per_second: 4096.0 * rate,
            latency_ns: Latency::new(&latencies),
            cpu_user_s: 0.0,
            cpu_system_s: 0.0,
            cached_before_bytes: None,
            cached_after_bytes: None,
            fetched_bytes: None,
            foreign_bytes: None,
            upward_fraction: None,
            interrupted: false,
        };
        let parameters = grid.points(1 << 30).unwrap().into_iter();
        let points = parameters.map(|p| Point::new(p, rates.iter().copied().map(repetition).collect())).collect();
        let mut text = String::new();
        super::points(&mut text, &Disk { file: None, model: None, points });
        text.lines().map(String::from).collect()
    }

    #[test]
    fn fast_devices_fit_into_eighty_columns() {
        let lines = lines(&[2_000_000.0, 2_100_000.0, 2_500_000.0]);
        assert!(lines.len() == 9 && lines.iter().all(|line| line.chars().count() <= 80), "{lines:#?}");
        assert!(lines[1].contains(" 2100000 ") && lines[1].contains(" 23.8% "), "{lines:#?}");
    }

    #[test]
    fn names_cannot_write_to_the_terminal_as_they_like() {
        assert_eq!(super::harmless("a\x1b[2Jb\nc é"), "a\u{fffd}[2Jb\u{fffd}c é");
    }

    #[test]
    fn one_repetition_has_no_spread() {
        let lines = self::lines(&[100.0]);
        assert!(lines[0].contains("spread") && lines[1].contains(" - "), "{lines:#?}");
    }
}
