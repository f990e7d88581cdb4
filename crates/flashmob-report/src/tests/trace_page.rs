//! Traces on the page.

use flashmob_results::trace::{Cause, Span, Workload};
use flashmob_results::{Document, Measurement};

use super::builder::{document, flat_after_four, grid};
use super::page::{figures, page};

/// Inserts with a rollback journal and with a WAL, made by flashmob-trace's tests.
pub fn sample() -> Document {
    let text = include_str!("../../tests/data/trace.json");
    flashmob_results::read::text(text, std::path::Path::new("trace.json")).unwrap()
}

fn changed(change: impl Fn(&mut flashmob_results::trace::Run)) -> Document {
    let mut document = sample();
    let Measurement::Trace(trace) = &mut document.measurement else { panic!("a trace") };
    trace.runs.iter_mut().for_each(change);
    document
}

#[test]
fn a_trace_has_its_figures_tables_and_comparison() {
    let html = page(vec![sample()]);
    // Layers; rates; durations and steps of two runs; of each, consecutive inserts, and each of them by itself.
    assert_eq!(figures(&html).len(), 1 + 1 + 2 + 2 + 6);
    for words in [
        "<title>Traces: Sample of traces</title>",
        "80 INSERTs of 100 B into SQLite 3.46.1, each its own transaction, through the layers below, on ext4 (journal), device loop0",
        "id=\"side-by-side\"",
        "Gone in each insert: ",
        "Consecutive INSERTs, 1.3",
        "pwrite64 · test.db-journal",
        "Outlined: done by others while the operation waited for it.",
        "driver → file system",
        "Missing: sched",
    ] {
        assert!(html.contains(words), "{words}");
    }
    assert!(!html.contains("id=\"C1\"") && !html.contains("id=\"devices\""), "nothing of devices without any");
    assert_eq!(html.matches("<script>").count(), 1);
    assert!(html.len() < 400_000, "{} bytes", html.len());
}

#[test]
fn pages_without_traces_have_no_script() {
    let device = || document("tablet", Some(false), grid(&[4_096], &[1, 4, 8], 100.0, flat_after_four));
    assert!(!page(vec![device()]).contains("<script"));
    let both = page(vec![device(), sample()]);
    assert!(both.contains("id=\"C1\"") && both.contains("id=\"traces\""));
}

#[test]
fn a_longer_window_is_drawn_if_it_shows_more() {
    let in_all = |time_ns: u64| {
        let html = page(vec![changed(|run| {
            let operations = &mut run.timeline.operations;
            operations[1].end_ns = operations[0].begin_ns + time_ns;
        })]);
        assert!(html.contains("<h4 class=\"over\">Consecutive INSERTs, 80 ms</h4>"));
        html
    };
    let (short, long) = (in_all(99_000_000), in_all(120_000_000));
    assert!(!short.contains("Consecutive INSERTs, longer"));
    assert_eq!(long.matches("<h4 class=\"over\">Consecutive INSERTs, longer</h4>").count(), 2, "of each run");
    assert_eq!(figures(&long).len(), figures(&short).len() + 2);
    assert!(long.contains("2 inserts one after the other, 120 ms: "), "the width that it has");
    let other = changed(|run| run.workload = Workload::Command { command: vec!["sort".into()], status: None });
    assert!(page(vec![other]).contains("Consecutive operations, "));
}

#[test]
fn what_comes_from_a_trace_is_escaped() {
    let evil = "<script>alert('1')</script>\"&</title>";
    let hostile = changed(|run| {
        run.name = evil.into();
        run.operations.name = evil.into();
        run.system.filesystem = Some(evil.into());
        run.timeline.names.iter_mut().for_each(|name| *name = evil.into());
        run.timeline.files.iter_mut().for_each(|file| file.name = format!("/a/{evil}"));
        run.timeline.threads.iter_mut().for_each(|thread| (thread.name, thread.place) = (evil.into(), evil.into()));
        run.files.iter_mut().for_each(|row| (row.file, row.work) = (evil.into(), evil.into()));
        run.sources.iter_mut().for_each(|source| source.why = Some(evil.into()));
    });
    let html = page(vec![hostile]);
    assert_eq!(html.matches("<script").count(), 1, "only ours");
    assert!(!html.contains("alert('1')</script>") && html.contains("&lt;script&gt;"));
}

#[test]
fn places_have_rows_of_their_own_and_their_clocks_are_told() {
    let spread = changed(|run| {
        let far = run.timeline.threads.iter_mut().find(|thread| thread.name == "loop0").unwrap();
        (far.place, far.clock_error_ns) = ("node 3".into(), Some(12_000));
    });
    let html = page(vec![spread]);
    assert!(html.contains("write · test.db-wal · node 3") && html.contains("pwrite64 · test.db-wal · this device"));
    assert!(html.contains("Clocks are related: node 3 within 12 us."));
    assert!(!page(vec![sample()]).contains("· this device"), "one place needs no name");
}

#[test]
fn steps_of_measured_disks_are_drawn() {
    let mut points = grid(&[4_096], &[1], 100.0, flat_after_four);
    let before = figures(&page(vec![document("tablet", Some(false), points.clone())])).len();
    points[0].commands = sample().trace().unwrap().runs[0].commands.clone();
    let html = page(vec![document("tablet", Some(false), points)]);
    assert_eq!(figures(&html).len(), before + 1);
    assert!(html.contains("<h4>tablet · read random 4 KiB, 1 thread</h4>") && html.contains("P3, figure 4"));
}

#[test]
fn ten_thousand_spans_in_one_operation_stay_usable() {
    let busy = changed(|run| {
        let (operation, span) = (run.timeline.operations[0].clone(), run.timeline.spans[5]);
        let every_ns = (operation.end_ns - operation.begin_ns) / 10_000;
        run.timeline.operations.truncate(1);
        run.timeline.spans = (0..10_000_u64)
            .map(|n| {
                let begin_ns = operation.begin_ns + n * every_ns;
                let cause = if n % 3 == 0 { Cause::Unknown } else { Cause::Direct };
                Span { begin_ns, end_ns: begin_ns + every_ns / 2, cause, ..span }
            })
            .collect();
    });
    let html = page(vec![busy]);
    assert!(html.len() < 1_500_000 && html.contains("10,000 spans in all."), "{} bytes", html.len());
    assert!(html.contains("Grey: of an unknown operation.") && html.contains("half a pixel"));
}
