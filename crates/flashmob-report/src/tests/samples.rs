//! The results in tests/data, which the end-to-end test makes a page of: made here, so that they have the form of today.

use std::path::Path;

use flashmob_results::capture::{Flow, Way};
use flashmob_results::cluster::Point as ClusterPoint;
use flashmob_results::disk::{Operation, Parameters, Pattern, Point, Sync};
use flashmob_results::net::Point as NetPoint;
use flashmob_results::warning::{Code, Warning};
use flashmob_results::{Document, Measurement};

use super::builder::{
    document, flat_after_four, grid, modelled, parameters, pattern, point, random, scheduler, steady,
};
use super::cluster_builder::{LIMIT, as_in_p1, clustered, p1};
use super::net_builder::{SMALL, as_in_p4, capture_of, captured_way, networked, offered, p4, plain};

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

/// P4's sweep, thinned: one repetition and what the sender says; a void one, a doubt and a longer label included.
fn net() -> Document {
    let kept =
        |p: &NetPoint| [0.0, 2.0, 16.0, 128.0].contains(&p.parameters.path.as_ref().map_or(0.0, |path| path.rtt_ms));
    let mut points: Vec<NetPoint> = p4(as_in_p4).into_iter().filter(kept).collect();
    for (nth, point) in points.iter_mut().enumerate() {
        point.repetitions.truncate(if nth == 7 { 2 } else { 1 });
        for repetition in &mut point.repetitions {
            repetition.intervals.clear();
            repetition.streams.iter_mut().for_each(|s| s.receiver = None);
        }
        point.repetitions[0].is_void = nth == 7 || nth == 20;
        *point = NetPoint::new(point.parameters.clone(), point.repetitions.clone());
    }
    points[9].warnings.push(Warning::new(Code::WideSpread, "the repetitions differ by 30 %: repeat more often"));
    let mut document = networked(points);
    document.label = Some("Two hosts, one of them with Android's receive maximum, and a path in the lab".into());
    document.preset = Some("p4".into());
    document.warnings.push(Warning::new(Code::Modelled, "the path was modelled, not measured"));
    document
}

/// Points of a real network, with their intervals.
fn path() -> Document {
    let mut document = plain();
    let Measurement::Net(net) = &mut document.measurement else { panic!("a network") };
    for point in &mut net.points {
        point.repetitions.truncate(2);
        for repetition in &mut point.repetitions {
            repetition.intervals.iter_mut().for_each(|i| i.tcp = None);
        }
        *point = NetPoint::new(point.parameters.clone(), point.repetitions.clone());
    }
    document
}

/// Some connections with long addresses, from a file that ends too early.
fn capture() -> Document {
    let window = offered(Some(SMALL)) as f64;
    let thinned = |mut way: Way| {
        for series in [
            &mut way.series.packets,
            &mut way.series.flight_bytes,
            &mut way.series.rtt_ms,
            &mut way.series.window_bytes,
        ] {
            *series =
                series.iter().step_by(4).map(|(x, y)| ((x * 1e4).round() / 1e4, (y * 100.0).round() / 100.0)).collect();
        }
        way
    };
    let flow = |number: u64, down: Way| Flow {
        number,
        client: format!("[2001:db8:1234:5678:9abc:def0:1234:{number:x}]:49152"),
        server: "[2001:db8:1234:5678:9abc:def0:1234:ffff]:5201".into(),
        begin_s: 0.1,
        elapsed_s: 5.2,
        has_opening: number == 0,
        opening_rtt_ms: Some(16.4),
        doubts: Vec::new(),
        up: Way { packets: 1_000, acknowledgements: 1_000, ..Way::default() },
        down: thinned(down),
    };
    let few = |number| flow(number, Way { unique_bytes: 20_000, ..captured_way(window, 4_000.0, 30.0, 9.0) });
    let mut document = capture_of(
        Some("receive maximum 32 KiB (small)"),
        vec![flow(0, captured_way(window, window * 0.95, 17.3, 1.0)), few(1), few(2)],
    );
    let Measurement::Capture(capture) = &mut document.measurement else { panic!("a capture") };
    (capture.unreadable_packets, capture.lost_packets, capture.left_out) = (3, Some(7), 2);
    capture.ended_by = Some("the file ends within a packet, at byte 3,141,592".into());
    document.warnings.push(Warning::new(Code::Modelled, "the packets crossed a modelled path"));
    document
}

/// ACCEPT_SAMPLES=1 writes them.
#[test]
fn the_samples_are_as_they_would_be_made_today() {
    let samples = [
        ("device.json", device()),
        ("hdd.json", disk()),
        ("cluster.json", cluster()),
        ("net.json", net()),
        ("path.json", path()),
        ("capture.json", capture()),
    ];
    for (name, document) in samples {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name);
        let text = format!("{}\n", serde_json::to_string(&document).unwrap());
        if std::env::var_os("ACCEPT_SAMPLES").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        let kept = flashmob_results::read::file(&path).unwrap();
        assert!(kept == document, "{name} differs: ACCEPT_SAMPLES=1 cargo test -p flashmob-report");
    }
}
