//! The results in tests/data, which the end-to-end test makes a page of: made here, so that they have the form of today.

use std::path::Path;

use flashmob_results::Document;
use flashmob_results::cluster::Point as ClusterPoint;
use flashmob_results::disk::{Operation, Parameters, Pattern, Point, Sync};
use flashmob_results::warning::{Code, Warning};

use super::builder::{
    document, flat_after_four, grid, modelled, parameters, pattern, point, random, scheduler, steady,
};
use super::cluster_builder::{LIMIT, as_in_p1, clustered, p1};

/// A device with everything that a page can show, doubts included.
fn device() -> Document {
    let mut points = grid(&[1, 4_096, 16_384], &[1, 4, 16], 700.0, flat_after_four);
    points[4] = point(random(4_096, 4), &[1_500.0, 2_050.0, 2_400.0]);
    points[4].warnings.push(Warning::new(
        Code::WideSpread,
        "the repetitions differ by 44 % of the median; measure again on a quiet device",
    ));
    points.push(steady(pattern(Pattern::Sequential), 9_000.0));
    for (order, rate) in [(Pattern::Sort, 900.0), (Pattern::Shuffle, 710.0), (Pattern::Rand, 690.0)] {
        points.push(steady(Parameters { block_bytes: 1, range_bytes: 2 << 30, ..pattern(order) }, rate));
    }
    for (name, rate) in [("none", 2_000.0), ("mq-deadline", 2_300.0), ("bfq", 1_600.0)] {
        points.push(steady(scheduler(name), rate));
    }
    points.push(steady(Parameters { operation: Operation::Write, sync: Some(Sync::Fdatasync), ..parameters() }, 120.0));
    let mut document = document("Sample tablet", Some(false), points);
    document.scale = 0.1;
    document.interrupted = true;
    document.warnings.push(Warning::new(Code::Scaled, "a tenth of the preset: percentiles rest on few requests"));
    document.warnings.push(Warning::new(Code::Interrupted, "stopped before its end: points are missing"));
    document
}

/// A modelled disk that turns.
fn disk() -> Document {
    let mut points: Vec<Point> = grid(&[4_096, 16_384], &[1, 4, 8], 80.0, |t| 1.0 + f64::from(t).log2() * 0.2);
    for (name, rate, upward) in [("none", 90.0, 0.5), ("mq-deadline", 160.0, 0.86), ("bfq", 120.0, 0.61)] {
        let mut of = steady(scheduler(name), rate);
        of.repetitions.iter_mut().for_each(|r| r.upward_fraction = Some(upward));
        points.push(of);
    }
    let mut document = modelled("hdd", points);
    document.warnings.push(Warning::new(Code::Modelled, "a model answered, not a device"));
    document
}

/// A modelled cluster with P1's sweep, thinned; void repetitions, doubts and a longer name included.
fn cluster() -> Document {
    let kept = |p: &&ClusterPoint| {
        let p = &p.parameters;
        p.nodes != 4 && p.links != 2 && p.links != 16 && (p.nodes == 8 || !p.no_io)
    };
    let mut points: Vec<ClusterPoint> = p1(as_in_p1).iter().filter(kept).cloned().collect();
    for (nth, point) in points.iter_mut().enumerate() {
        point.repetitions.truncate(2);
        // One is void at one point, and all of another.
        point.repetitions.iter_mut().take(if nth == 5 { 1 } else { 2 }).for_each(|r| r.is_void = nth == 5 || nth == 40);
        *point = ClusterPoint::new(point.parameters.clone(), point.repetitions.clone(), Some(LIMIT));
    }
    points[8].warnings.push(Warning::new(Code::WideSpread, "the repetitions differ by 30 %: repeat more often"));
    let mut document = clustered(points);
    document.preset = Some("p1".into());
    document.warnings.push(Warning::new(Code::Modelled, "air and flash were modelled, not measured"));
    document
}

/// ACCEPT_SAMPLES=1 writes them.
#[test]
fn the_samples_are_as_they_would_be_made_today() {
    for (name, document) in [("device.json", device()), ("hdd.json", disk()), ("cluster.json", cluster())] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name);
        let text = format!("{}\n", serde_json::to_string(&document).unwrap());
        if std::env::var_os("ACCEPT_SAMPLES").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        let kept = flashmob_results::read::file(&path).unwrap();
        assert!(kept == document, "{name} differs: ACCEPT_SAMPLES=1 cargo test -p flashmob-report");
    }
}
