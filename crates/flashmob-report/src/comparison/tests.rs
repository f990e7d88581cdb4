//! The comparison says which work vanishes, and where the time differs.

use flashmob_results::Measurement;
use flashmob_results::trace::{Layer, Overhead, Role, Workload};

use super::*;
use crate::tests::builder::report;
use crate::tests::trace_page::sample;

#[test]
fn the_journals_work_is_gone_with_a_wal() {
    let report = report(vec![sample()]);
    let comparison = compare(report.entries()).unwrap();
    let names: Vec<&str> = comparison.columns.iter().map(|column| column.name.as_str()).collect();
    assert_eq!(names, ["DELETE, FULL", "WAL, FULL"]);
    let said = comparison.sentences[0].join("\n");
    for words in [
        " inserts/s without tracing against ",
        "Gone in each insert: database: 1 fdatasync and 2 pwrite64 (8 KiB); rollback journal: 1 fdatasync, 1 openat, 4 pwrite64 (16 KiB) and 1 unlink; folder: 1 fdatasync.",
        "New in each insert: WAL: 1 fdatasync and 2 pwrite64 (4.02 KiB).",
        "file system's journal: 8 writes fewer (32 KiB less)",
        "flushes: 2 flushes fewer",
        "The time of each insert: −",
        "; driver −",
    ] {
        assert!(said.contains(words), "{words}:\n{said}");
    }
}

#[test]
fn without_system_calls_sqlites_own_calls_are_compared() {
    let document = sample();
    let mut runs = document.trace().unwrap().runs.clone();
    for run in &mut runs {
        run.files.retain(|row| row.layer == Layer::SystemCall);
        for row in &mut run.files {
            (row.layer, row.work) = (Layer::Sqlite, format!("x{}", row.work));
        }
    }
    let text = difference(("DELETE", &runs[0]), ("WAL", &runs[1]));
    assert!(text.contains("Gone in each insert: database: 1 xfdatasync and 2 xpwrite64 (8 KiB)"), "{text}");
    assert!(!text.contains("At the device"), "{text}");
}

#[test]
fn layers_are_ordered_by_difference_and_work_by_file() {
    let comparison = compare(report(vec![sample()]).entries()).unwrap();
    assert_eq!(comparison.layers[0].layer, Some(Layer::Driver));
    assert!(comparison.layers.is_sorted_by(|a, b| a.spread_us >= b.spread_us));
    let row = |role, work: &str| {
        let found = comparison.work.iter().find(|r| r.role == role && r.layer == Layer::SystemCall && r.work == work);
        found.map(|row| (row.counts.clone(), row.bytes.clone()))
    };
    assert_eq!(row(Role::Journal, "pwrite64"), Some((vec![4.0, 0.0], vec![16_384.0, 0.0])));
    assert_eq!(row(Role::Wal, "pwrite64"), Some((vec![0.0, 2.0], vec![0.0, 4_120.0])));
}

#[test]
fn equal_runs_do_not_differ() {
    let mut document = sample();
    let Measurement::Trace(trace) = &mut document.measurement else { panic!("a trace") };
    trace.runs[1] = trace.runs[0].clone();
    let comparison = compare(report(vec![document]).entries()).unwrap();
    assert!(comparison.work.iter().all(|row| !row.differs()));
    assert_eq!(comparison.sentences[0].len(), 1, "{:?}", comparison.sentences);
    assert!(comparison.sentences[0][0].ends_with("about as many."));
}

#[test]
fn results_are_told_apart_by_names_that_differ() {
    let one = |label: &str, at: usize, name: &str| {
        let mut document = sample();
        document.label = Some(label.into());
        let Measurement::Trace(trace) = &mut document.measurement else { panic!("a trace") };
        trace.runs = vec![trace.runs[at].clone()];
        trace.runs[0].name = name.into();
        document
    };
    let names = |documents| {
        let comparison = compare(report(documents).entries()).unwrap();
        comparison.columns.into_iter().map(|column| column.name).collect::<Vec<_>>()
    };
    assert_eq!(names(vec![one("tablet", 0, "WAL"), one("phone", 1, "WAL")]), ["tablet", "phone"]);
    assert_eq!(names(vec![one("tablet", 0, "WAL"), one("phone", 1, "OFF")]), ["tablet · WAL", "phone · OFF"]);
    assert_eq!(compare(report(vec![one("tablet", 0, "WAL")]).entries()), None, "one run is compared with nothing");
}

#[test]
fn rates_without_tracing_are_compared_where_they_are_known() {
    let rated = |untraced: [&[f64]; 2], is_command: bool| {
        let mut document = sample();
        let Measurement::Trace(trace) = &mut document.measurement else { panic!("a trace") };
        for (run, untraced) in trace.runs.iter_mut().zip(untraced) {
            let overhead = Overhead { untraced_per_second: untraced.to_vec(), ..run.overhead.clone().unwrap() };
            run.overhead = (!untraced.is_empty()).then_some(overhead);
            if is_command {
                run.workload = Workload::Command { command: vec!["dd".into()], status: Some(0) };
            }
        }
        compare(report(vec![document]).entries()).unwrap().sentences[0][0].clone()
    };
    let text = rated([&[100.0, 110.0, 90.0], &[300.0]], false);
    assert_eq!(text, "300 inserts/s without tracing against 100 of DELETE, FULL: 3 times as many.");
    // Of one alone it is no comparison, and a command is run so often, not what it does.
    for text in [rated([&[100.0], &[]], false), rated([&[100.0], &[300.0]], true)] {
        assert!(!text.contains("without tracing") && !text.starts_with("300"), "{text}");
    }
}
