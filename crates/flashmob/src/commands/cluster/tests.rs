//! Rounds, documents and tables, with a scripted runner.

use flashmob_core::gateway::BatchMode;
use flashmob_results::cluster::{AirUse, Batch, Batches, Lateness, Packets, Parameters, Repetition, Setting};
use flashmob_results::latency::{Latency, histogram};
use flashmob_results::warning::Code;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::super::cluster_args::{LoadArgs, Times};
use super::super::tell::Output;
use super::*;

#[derive(clap::Parser)]
struct Line {
    #[command(flatten)]
    load: LoadArgs,
}

fn load(line: &str) -> LoadArgs {
    use clap::Parser;
    Line::try_parse_from(["x"].into_iter().chain(line.split_whitespace())).unwrap().load
}

fn repetition(requests_per_second: f64) -> Repetition {
    let mut latencies = histogram();
    latencies.record_n(12_345_678, 2000).unwrap();
    Repetition {
        begin_s: 0.0,
        elapsed_s: 1.0,
        requests: requests_per_second as u64,
        bytes: 2000,
        errors: 0,
        requests_per_second,
        latency_ns: Latency::new(&latencies),
        batches: Batches { sent: 200, pieces: 2000, replies: 210 },
        packets: Some(Packets {
            sent: 300,
            received: 310,
            data_sent: 200,
            data_received: 210,
            bytes_sent: 8000,
            bytes_received: 8400,
            retransmitted: 0,
        }),
        air: Some(AirUse { frames: 1400, ..AirUse::default() }),
        flash_busy_fraction: None,
        gateway_cpu_s: 0.1,
        hedged: None,
        rebuild: None,
        lateness: None,
        is_void: false,
    }
}

/// Returns scripted results in order, and records the requests.
struct Scripted {
    answers: Vec<anyhow::Result<Repetition>>,
    asked: Vec<(u32, u64)>,
    cancel_after: usize,
}

impl Runner for Scripted {
    fn run(
        &mut self,
        parameters: &Parameters,
        _: Times,
        seed: u64,
        cancel: &AtomicBool,
        progress: &mut dyn FnMut(f64),
    ) -> anyhow::Result<Repetition> {
        self.asked.push((parameters.nodes, seed));
        progress(0.5);
        if self.asked.len() == self.cancel_after {
            cancel.store(true, Ordering::Relaxed);
        }
        self.answers.remove(0)
    }
}

fn scripted(answers: Vec<anyhow::Result<Repetition>>) -> Scripted {
    Scripted { answers, asked: Vec::new(), cancel_after: usize::MAX }
}

fn args() -> ResultArgs {
    ResultArgs { label: Some("tablets".into()), save: None, output: Output::Json }
}

fn subject(flash: bool) -> Subject {
    let points = Sweep::new(&load(""), &[1], false, 1).points;
    let profile = flashmob_lab::flash::Profile::named("nexus7-emmc").unwrap();
    Subject {
        setting: Setting::Lab,
        air: None,
        flash: flash.then(|| figures::flash_model(&profile, 1 << 30, &points).unwrap()),
        extent_bytes: 1 << 30,
        disk_ids: Vec::new(),
        copies: None,
        weak: None,
        rebuild: None,
        warnings: Vec::new(),
    }
}

fn document(sweep: &Sweep, points: Vec<(Parameters, Vec<Repetition>)>) -> flashmob_results::Document {
    record::document(subject(true), points, sweep, Begun::now(), false, &args())
}

#[test]
fn a_sweep_is_every_combination_and_knows_how_many_requests_each_needs() {
    let sweep = Sweep::new(&load("--links 1,4 --aggregate 1,100,auto -b 1,4KiB --repeat 2"), &[1, 8], true, 7);
    assert_eq!(sweep.points.len(), 2 * 2 * 3 * 2);
    assert!(sweep.points.iter().all(|p| p.no_io && p.read_percent == 100.0));
    let point = |nodes, links, batch| {
        sweep.points.iter().find(|p| (p.nodes, p.links, p.batch) == (nodes, links, batch)).unwrap().outstanding
    };
    assert_eq!(
        (point(1, 1, Batch::Fixed(1)), point(8, 4, Batch::Fixed(100)), point(8, 1, Batch::Auto)),
        (256, 6400, 2048)
    );
    assert_eq!(
        (sweep.repeat, sweep.times.time, sweep.times.warmup),
        (2, Duration::from_secs(3), Duration::from_millis(1500))
    );
    for mode in [BatchMode::Auto, BatchMode::Fixed(10)] {
        assert_eq!(sweep::mode_of(sweep::batch_of(mode)), mode);
    }
}

#[test]
fn every_round_measures_every_point_with_a_seed_of_its_own() {
    let sweep = Sweep::new(&load("--repeat 2"), &[1, 2], false, 10);
    let mut runner = scripted((0..4).map(|i| Ok(repetition(1000.0 + f64::from(i)))).collect());
    let mut fractions = Vec::new();
    let swept = sweep::run_sweep(&mut runner, &sweep, Instant::now(), &AtomicBool::new(false), &mut |told| {
        if let sweep::Told::Progress(fraction) = told {
            fractions.push(fraction);
        }
    })
    .unwrap();
    assert_eq!(runner.asked, [(1, 10), (2, 10), (1, 11), (2, 11)]);
    assert_eq!(fractions, [0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 1.0]);
    let rates: Vec<Vec<f64>> =
        swept.points.iter().map(|(_, all)| all.iter().map(|r| r.requests_per_second).collect()).collect();
    assert_eq!(rates, [[1000.0, 1002.0], [1001.0, 1003.0]]);
}

#[test]
fn what_was_measured_before_a_failure_or_an_interruption_is_kept() {
    let sweep = Sweep::new(&load(""), &[1, 2, 4], false, 1);
    let run =
        |runner: &mut Scripted| sweep::run_sweep(runner, &sweep, Instant::now(), &AtomicBool::new(false), &mut |_| ());
    let swept = run(&mut scripted(vec![Ok(repetition(1.0)), Err(anyhow::anyhow!("gone"))])).unwrap();
    assert_eq!((swept.points.len(), swept.interrupted, swept.failure.is_some()), (1, false, true));
    assert!(run(&mut scripted(vec![Err(anyhow::anyhow!("gone"))])).is_err(), "there is nothing to keep");
    let part = Repetition { is_void: true, ..repetition(5.0) };
    let swept = run(&mut Scripted { cancel_after: 2, ..scripted(vec![Ok(repetition(1.0)), Ok(part)]) }).unwrap();
    assert_eq!((swept.points.len(), swept.interrupted), (2, true));
    let nothing = Repetition { requests: 0, ..repetition(0.0) };
    let swept = run(&mut Scripted { cancel_after: 1, ..scripted(vec![Ok(nothing)]) }).unwrap();
    assert_eq!((swept.points.len(), swept.interrupted), (0, true));
}

#[test]
fn doubtful_points_say_why() {
    let sweep = Sweep::new(&load(""), &[1], false, 1);
    let lateness = Lateness { late_fraction: 0.5, ..Lateness::default() };
    let late = Repetition { lateness: Some(lateness), is_void: true, ..repetition(2000.0) };
    let of = |repetitions: Vec<Repetition>| {
        let document = document(&sweep, vec![(sweep.points[0].clone(), repetitions)]);
        let codes = document.cluster().unwrap().points[0].warnings.iter().map(|w| w.code).collect::<Vec<_>>();
        (codes, format!("{:?}", status(&document.cluster().unwrap().points, false)))
    };
    let code = |status: u8| format!("{:?}", ExitCode::from(status));
    assert_eq!(of(vec![repetition(2000.0)]), (vec![], code(0)));
    assert_eq!(of(vec![late.clone()]), (vec![Code::Late], code(STATUS_VOID)));
    let stopped = Repetition { lateness: Some(Lateness::default()), ..late.clone() };
    assert_eq!(of(vec![stopped]), (vec![], code(STATUS_VOID)), "an interruption is a warning of the whole");
    assert_eq!(of(vec![late, repetition(2000.0)]), (vec![Code::Late], code(0)));
    assert_eq!(of(vec![repetition(2000.0), repetition(4000.0)]), (vec![Code::WideSpread], code(0)));
    let turnovers = format!("{:?}", of(vec![repetition(1500.0)]));
    assert!(turnovers.contains("Short"), "{turnovers}");
    let failed = Repetition { errors: 3, elapsed_s: 0.1, ..repetition(1000.0) };
    assert_eq!(of(vec![failed]), (vec![Code::Errors, Code::Short], code(STATUS_ERRORS)));
}

#[test]
fn the_table_says_that_it_is_modelled_and_names_every_figure() {
    let sweep = Sweep::new(&load("--links 1,8 --batch 1,100"), &[8], false, 1);
    let points = sweep.points.iter().map(|p| (p.clone(), vec![repetition(16_000.0)])).collect();
    let text = table::render(&document(&sweep, points));
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("tablets (lab, modelled): measured in the lab"), "{text}");
    assert!(lines[0].contains("MODELLED") && lines[0].contains("flash nexus7-emmc"), "{text}");
    let titles: Vec<&str> = lines[1].split_whitespace().collect();
    let wanted = "nodes links batch block out requests/s p50 ms p99 ms of flash packets/s B/packet frames/rq";
    assert_eq!(titles, wanted.split_whitespace().collect::<Vec<_>>());
    assert!(lines[2].contains(" 16000 ") && lines[2].contains("94.6%") && lines[2].contains(" 40 "), "{text}");
    assert!(lines.iter().skip(1).take(5).all(|line| line.chars().count() <= 100), "{text}");
    assert!(text.contains("note: modelled: the flash by 'nexus7-emmc'"), "{text}");
}

#[test]
fn results_and_events_are_as_the_published_schemas_say() {
    let schema = |name: &str| {
        let path = format!("{}/../../schema/{name}", env!("CARGO_MANIFEST_DIR"));
        let schema: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        jsonschema::validator_for(&schema).unwrap()
    };
    let sweep = Sweep::new(&load(""), &[2], false, 1);
    let whole = Repetition { packets: None, air: None, lateness: Some(Lateness::default()), ..repetition(4000.0) };
    let document = document(&sweep, vec![(sweep.points[0].clone(), vec![repetition(4000.0), whole.clone()])]);
    let mut value = serde_json::to_value(&document).unwrap();
    schema("result-1.json").validate(&value).unwrap();
    let event = flashmob_results::event::Event::ClusterRepetition {
        round: 0,
        parameters: Box::new(sweep.points[0].clone()),
        repetition: Box::new(whole),
    };
    schema("event-1.json").validate(&serde_json::to_value(&event).unwrap()).unwrap();
    value["measurement"]["points"][0]["repetitions"][0]["frames"] = 1.into();
    assert!(schema("result-1.json").validate(&value).is_err(), "unknown fields are noticed");
}

#[test]
fn a_document_reads_back_as_it_was_written() {
    let sweep = Sweep::new(&load(""), &[2], false, 1);
    let document = document(&sweep, vec![(sweep.points[0].clone(), vec![repetition(4000.0)])]);
    let text = serde_json::to_string(&document).unwrap();
    assert_eq!(serde_json::from_str::<flashmob_results::Document>(&text).unwrap(), document);
}
