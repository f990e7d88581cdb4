//! The text output of a trace.

use flashmob_results::trace::{Layer, Losses, Run};
use flashmob_results::warning::{Code, Warning};

use super::*;
use crate::commands::trace::table::WIDTH;

fn sample() -> Document {
    let text = include_str!("../../../../../flashmob-report/tests/data/trace.json");
    flashmob_results::read::text(text, std::path::Path::new("trace.json")).unwrap()
}

fn of_one(change: impl FnOnce(&mut Run)) -> String {
    let mut document = sample();
    let Measurement::Trace(trace) = &mut document.measurement else { panic!("a trace") };
    trace.runs.truncate(1);
    change(&mut trace.runs[0]);
    summary(&document)
}

#[test]
fn one_run_fits_on_one_screen() {
    let text = of_one(|_| {});
    let folded_back = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.lines().count() <= 40 && text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
    for words in [
        "80 INSERTs of 100 bytes into SQLite 3.46.1; ext4 (journal), loop0 (loop), scheduler mq-deadline, Linux 6.1.0",
        "DELETE, FULL: 80 inserts, ",
        "tracing cost 4.7 %; 16880 events, none lost",
        "test.db-journal system call 1 fdatasync, 1 openat, 4 pwrite64 (16 KiB), 1 unlink",
        "driver 8 write (32 KiB)",
        "missing: sched (processor): the kernel has no such events; nothing mends it",
        "file system > ",
        "unattributed",
    ] {
        assert!(folded_back.contains(words), "{words}:\n{text}");
    }
}

#[test]
fn parts_of_layers_add_up() {
    let text = of_one(|_| {});
    let rows = text.lines().skip_while(|line| !line.starts_with("  layer")).skip(1);
    let percents: Vec<f64> = (rows.take_while(|line| !line.starts_with("  hand-over")))
        .map(|line| line.split_whitespace().next_back().unwrap().parse().unwrap())
        .collect();
    assert!(percents.len() > 6 && (percents.iter().sum::<f64>() - 100.0).abs() < 0.6, "{percents:?}\n{text}");
}

#[test]
fn unlike_system_calls_are_told_of_in_all() {
    let command = |name: &str| {
        of_one(|run| {
            run.operations.name = name.into();
            run.workload = Workload::Command { command: vec!["dd".into()], status: Some(0) };
            run.name = "dd".into();
        })
    };
    let text = command("system call");
    assert!(
        text.contains("  in total") && text.contains("320 pwrite64 (1.25 MiB)") && !text.contains("dd: 80"),
        "{text}"
    );
    let text = command("operation");
    assert!(text.contains("  per operation") && text.contains("4 pwrite64 (16 KiB)"), "{text}");
}

#[test]
fn of_many_files_those_that_most_was_moved_of_are_told() {
    let text = of_one(|run| {
        let row = run.files.iter().find(|row| row.bytes > 0).cloned().unwrap();
        run.files = (0..20_u64)
            .map(|n| flashmob_results::trace::FileTotal { file: format!("/file{n}"), bytes: n << 20, ..row.clone() })
            .map(|row| flashmob_results::trace::FileTotal { layer: Layer::SystemCall, ..row })
            .collect();
    });
    assert!(text.contains("file19 ") && !text.contains("file3 ") && text.contains("and 12 more files"), "{text}");
}

#[test]
fn losses_and_doubts_are_loud() {
    let text = of_one(|run| {
        run.losses = Losses { lost: 3, ..run.losses.clone() };
        run.warnings = vec![Warning::new(Code::Incomplete, "a reason"); 9];
    });
    assert!(text.contains("3 LOST") && text.contains("! a reason") && text.contains("! and 3 more"), "{text}");
}

#[test]
fn several_runs_are_rows() {
    let text = summary(&sample());
    assert!(text.lines().count() <= 12 && text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
    assert!(text.lines().any(|line| line.trim_start().starts_with("WAL, FULL  ") && line.contains("4.7")), "{text}");
}

#[test]
fn nothing_traced_is_said() {
    let text = of_one(|run| {
        run.operations.count = 0;
        (run.layers, run.files, run.handovers) = (Vec::new(), Vec::new(), Vec::new());
    });
    assert!(text.contains("0 inserts") && !text.contains("NaN") && !text.contains("inf"), "{text}");
}

#[test]
fn names_cannot_write_to_the_terminal() {
    let text = of_one(|run| {
        run.name = "\u{1b}[2J".into();
        run.operations.name = "x\u{1b}".into();
        run.files.iter_mut().for_each(|row| {
            row.file = format!("/data/\u{1b}[31m{}", "long".repeat(80));
            row.work = "\u{7}".into();
        });
        run.sources[2].name = "\u{1b}".into();
    });
    assert!(!text.contains(['\u{1b}', '\u{7}']), "{text:?}");
    assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
}
