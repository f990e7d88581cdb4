//! The command line that measures a result again.
//!
//! It says every parameter that decides a figure, defaults too, so that it means the same with a later version; the name of a preset would not.
//! A run measures all combinations of its lists, so one command asks for the points of one result again.

use flashmob_results::disk::{Engine, Operation, Parameters, Pattern, Point};

use crate::entry::Entry;

mod cluster;
mod net;
mod trace;

/// One command for each part of a result that one run can measure (files of other making may hold several); none for a part with a name
/// that cannot be typed.
pub(crate) fn lines(entry: &Entry) -> Vec<String> {
    if let Some(measured) = entry.cluster() {
        return cluster::lines(entry, measured);
    }
    if let Some(measured) = entry.net() {
        return net::lines(entry, measured);
    }
    if let Some(capture) = entry.capture() {
        return net::analysis(entry, capture);
    }
    if let Some(trace) = entry.trace() {
        return trace::lines(trace);
    }
    let mut parts: Vec<Vec<&Point>> = Vec::new();
    for point in entry.points() {
        match parts.iter_mut().find(|part| common(part[0]) == common(point)) {
            Some(part) => part.push(point),
            None => parts.push(vec![point]),
        }
    }
    parts.iter().filter_map(|part| line(entry, part)).collect()
}

/// What a run has one value of: the rest are lists, here made equal.
fn common(point: &Point) -> Parameters {
    let p = point.parameters.clone();
    Parameters { pattern: Pattern::Random, block_bytes: 1, threads: 1, depth: 1, scheduler: None, ..p }
}

fn line(entry: &Entry, points: &[&Point]) -> Option<String> {
    let p = &points.first()?.parameters;
    let list = |of: &dyn Fn(&Parameters) -> Option<String>| {
        let mut values: Vec<String> = Vec::new();
        for value in points.iter().filter_map(|point| of(&point.parameters)) {
            if !values.contains(&value) {
                values.push(value);
            }
        }
        values.join(",")
    };
    let mut words = vec!["flashmob bench disk".to_string()];
    let size_bytes = match (entry.model(), entry.file()) {
        (Some(model), _) => {
            words.push(format!("--model {} --size {}", quoted(&model.profile)?, size(model.size_bytes)));
            model.size_bytes
        }
        (None, Some(file)) => {
            // What looks like an option is a path all the same.
            let plain = if file.path.starts_with('-') { format!("./{}", file.path) } else { file.path.clone() };
            words.push(quoted(&plain)?);
            if file.made_by_benchmark {
                words.push(format!("--size {}", size(file.size_bytes)));
            }
            file.size_bytes
        }
        (None, None) => return None,
    };
    if p.range_bytes != size_bytes {
        words.push(format!("--range {}", size(p.range_bytes)));
    }
    if p.operation == Operation::Write {
        words.push("--write".into());
        words.extend(p.sync.map(|sync| format!("--sync {sync}")));
    }
    words.push(format!("--pattern {}", list(&|p| Some(p.pattern.to_string()))));
    words.push(format!("--block-size {}", list(&|p| Some(size(p.block_bytes)))));
    words.push(format!("--threads {}", list(&|p| Some(p.threads.to_string()))));
    if p.engine != Engine::Pread {
        words.push(format!("--engine {} --depth {}", p.engine, list(&|p| Some(p.depth.to_string()))));
    }
    words.push(format!("--cache {}", p.cache));
    let schedulers = list(&|p| p.scheduler.clone());
    if !schedulers.is_empty() {
        words.push(format!("--scheduler {}", quoted(&schedulers)?));
    }
    words.push(match (p.requests, p.time_s) {
        (Some(requests), _) => format!("--reads {requests}"),
        (None, Some(time_s)) => format!("--time {time_s}"),
        (None, None) => return None,
    });
    if points.iter().any(|point| point.commands.is_some()) {
        words.push("--commands".into());
    }
    let repeat = points.iter().map(|point| point.repetitions.len()).max().unwrap_or(0).max(1);
    words.push(format!("--repeat {repeat} --seed {}", entry.document.seed));
    if let Some(label) = &entry.document.label {
        words.push(format!("--label={}", quoted(label)?));
    }
    Some(words.join(" "))
}

/// Exactly, in the largest unit that it is a whole number of.
fn size(bytes: u64) -> String {
    let units = [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let whole = units.into_iter().find(|(unit, _)| bytes > 0 && bytes.is_multiple_of(*unit));
    whole.map_or_else(|| bytes.to_string(), |(unit, name)| format!("{}{name}", bytes / unit))
}

/// For a POSIX shell; nothing for what has control characters, which no page shows as they are.
fn quoted(text: &str) -> Option<String> {
    let harmless = |c: char| c.is_ascii_alphanumeric() || "-_./,:=+@%".contains(c);
    if text.chars().any(char::is_control) {
        None
    } else if !text.is_empty() && text.chars().all(harmless) {
        Some(text.to_string())
    } else {
        Some(format!("'{}'", text.replace('\'', "'\\''")))
    }
}

#[cfg(test)]
mod tests {
    use flashmob_results::disk::{Cache, Sync};
    use flashmob_results::{Document, Measurement};

    use super::*;
    use crate::tests::builder::{
        document, grid, modelled, parameters, pattern, point, random, report, scheduler, steady,
    };

    fn commands(document: Document) -> Vec<String> {
        lines(&report(vec![document]).entries()[0])
    }

    #[test]
    fn every_parameter_that_decides_a_figure_is_said() {
        let points = grid(&[1, 4_096, 16_384], &[1, 4], 100.0, f64::from);
        assert_eq!(
            commands(document("tablet", None, points)),
            [
                "flashmob bench disk /data/bench.bin --size 10GiB --range 1GiB --pattern random --block-size 1,4KiB,16KiB \
              --threads 1,4 --cache cold --reads 1000 --repeat 5 --seed 1 --label=tablet"
            ]
        );
        let points = vec![steady(scheduler("none"), 9.0), steady(scheduler("mq-deadline"), 9.0)];
        assert_eq!(
            commands(modelled("emmc", points)),
            [
                "flashmob bench disk --model emmc --size 1GiB --range 128MiB --pattern random --block-size 1 --threads 16 \
              --cache cold --scheduler none,mq-deadline --reads 1000 --repeat 5 --seed 1"
            ]
        );
        let written = Parameters {
            operation: Operation::Write,
            sync: Some(Sync::Fdatasync),
            cache: Cache::Direct,
            engine: Engine::IoUring,
            requests: None,
            time_s: Some(0.3),
            ..random(513, 2)
        };
        let deep = |depth| point(Parameters { depth, ..written.clone() }, &[5.0]);
        assert_eq!(
            commands(modelled("hdd", vec![deep(8), deep(1)])),
            ["flashmob bench disk --model hdd --size 1GiB --write --sync fdatasync --pattern random --block-size 513 \
              --threads 2 --engine io_uring --depth 8,1 --cache direct --time 0.3 --repeat 1 --seed 1"]
        );
    }

    #[test]
    fn what_one_run_cannot_measure_takes_several() {
        let warm = |p: Parameters| Parameters { cache: Cache::Warm, ..p };
        let points =
            vec![steady(parameters(), 9.0), steady(warm(pattern(Pattern::Sort)), 9.0), steady(random(1, 1), 9.0)];
        let both = commands(modelled("emmc", points));
        assert_eq!(both.len(), 2);
        assert!(
            both[0].contains("--pattern random --block-size 4KiB,1 ") && both[0].contains("--cache cold"),
            "{both:?}"
        );
        assert!(both[1].contains("--pattern sort --block-size 4KiB ") && both[1].contains("--cache warm"), "{both:?}");
        assert_eq!(commands(modelled("emmc", Vec::new())), Vec::<String>::new());
    }

    #[test]
    fn names_are_quoted_for_a_shell() {
        let named = |path: &str, label: &str| {
            let mut document = document(label, None, vec![steady(parameters(), 9.0)]);
            let Measurement::Disk(disk) = &mut document.measurement else { panic!("a disk") };
            let file = disk.file.as_mut().unwrap();
            (file.path, file.made_by_benchmark) = (path.into(), false);
            commands(document)
        };
        let line = named("/my data/$(x)", "Anna's")[0].clone();
        assert!(line.starts_with("flashmob bench disk '/my data/$(x)' --range 1GiB --pattern"), "{line}");
        assert!(line.ends_with(r"--label='Anna'\''s'"), "{line}");
        assert!(named("--remove", "a")[0].starts_with("flashmob bench disk ./--remove "));
        assert_eq!(named("/data/a\nb", "a"), Vec::<String>::new());
    }
}
