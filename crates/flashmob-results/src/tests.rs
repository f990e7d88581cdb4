//! The format matches the schema, histograms survive writing and merging, and errors name bad files.

use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::device::Place;
use crate::disk::{Cache, Disk, Engine, File, Operation, Parameters, Pattern, Point, Repetition, Spread};
use crate::latency::{Latency, histogram};

fn repetition(latencies_ns: &[u64]) -> Repetition {
    let mut recorded = histogram();
    latencies_ns.iter().for_each(|&ns| recorded.saturating_record(ns));
    let requests = latencies_ns.len() as u64;
    Repetition {
        begin_s: 0.5,
        elapsed_s: 1.0,
        requests,
        bytes: requests * 4096,
        errors: 0,
        first_error: None,
        requests_per_second: requests as f64,
        bytes_per_second: requests as f64 * 4096.0,
        latency_ns: Latency::new(&recorded),
        cpu_user_s: 0.1,
        cpu_system_s: 0.2,
        cached_before_bytes: Some(0),
        cached_after_bytes: Some(4096),
        fetched_bytes: None,
        foreign_bytes: None,
        upward_fraction: None,
        interrupted: false,
    }
}

fn document() -> Document {
    let parameters = Parameters {
        operation: Operation::Read,
        pattern: Pattern::Random,
        block_bytes: 4096,
        threads: 4,
        depth: 1,
        engine: Engine::Pread,
        cache: Cache::Cold,
        sync: None,
        scheduler: None,
        range_bytes: 1 << 30,
        requests: Some(3),
        time_s: None,
    };
    Document {
        format: FORMAT.into(),
        format_version: FORMAT_VERSION,
        program_version: "0.1.0".into(),
        started_unix_s: 1_790_000_000,
        elapsed_s: 2.0,
        interrupted: false,
        label: None,
        command: None,
        device: Device { model: Some("Nexus 7".into()), cpus: 4, ..Device::default() },
        preset: Some("p1".into()),
        scale: 0.1,
        seed: 1,
        measurement: Measurement::Disk(Disk {
            file: Some(File {
                path: "/data/bench".into(),
                size_bytes: 1 << 30,
                made_by_benchmark: true,
                place: Place { filesystem: Some("ext4".into()), ..Place::default() },
            }),
            model: None,
            points: vec![Point::new(parameters, vec![repetition(&[10, 20, 30]), repetition(&[40, 50, 60])])],
        }),
        warnings: vec![Warning::new(warning::Code::Scaled, "a tenth of the preset")],
    }
}

fn titled(schema: schemars::Schema, id: &str, title: &str) -> serde_json::Value {
    let mut schema = schema.to_value();
    schema["$id"] = id.into();
    schema["title"] = title.into();
    schema
}

fn schema() -> serde_json::Value {
    titled(schemars::schema_for!(Document), "urn:flashmob:result:1", "Result of a measurement of flashmob")
}

/// ACCEPT_SCHEMA=1 writes the published schemas.
#[test]
fn the_published_schemas_are_those_of_the_types() {
    let title = "A line of what a measurement of flashmob tells while it runs";
    let event = titled(schemars::schema_for!(event::Event), "urn:flashmob:event:1", title);
    let plan = titled(schemars::schema_for!(plan::Plan), "urn:flashmob:plan:1", "What flashmob plan says of a cluster");
    let title = "What flashmob doctor finds";
    let diagnosis = titled(schemars::schema_for!(diagnosis::Diagnosis), "urn:flashmob:diagnosis:1", title);
    let all =
        [("result-1.json", schema()), ("event-1.json", event), ("plan-1.json", plan), ("diagnosis-1.json", diagnosis)];
    for (name, schema) in all {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schema").join(name);
        let text = format!("{}\n", serde_json::to_string_pretty(&schema).unwrap());
        if std::env::var_os("ACCEPT_SCHEMA").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        let published = std::fs::read_to_string(&path).unwrap();
        assert_eq!(
            published, text,
            "schema/{name} differs from the types: ACCEPT_SCHEMA=1 cargo test -p flashmob-results"
        );
    }
}

#[test]
fn a_document_fits_the_schema_and_comes_back() {
    let document = document();
    let value = serde_json::to_value(&document).unwrap();
    jsonschema::validate(&schema(), &value).unwrap();
    assert_eq!(read::text(&value.to_string(), Path::new("r.json")).unwrap(), document);
    let mut bad = value;
    bad["measurement"]["points"][0]["summary"]["latency_ns"]["min"] = "short".into();
    assert!(jsonschema::validate(&schema(), &bad).is_err());
}

#[test]
fn what_is_no_result_is_named() {
    let message = |text: &str| read::text(text, Path::new("r.json")).unwrap_err().to_string();
    assert!(message("{").starts_with("r.json is not a result of flashmob: EOF"), "{}", message("{"));
    assert_eq!(message("{}"), "r.json is not a result of flashmob: it has no 'format'");
    let fio = r#"{"format": "fio"}"#;
    assert_eq!(message(fio), "r.json is not a result of flashmob: its format is 'fio', not 'flashmob-result'");
    let mut value = serde_json::to_value(document()).unwrap();
    value["format_version"] = 2.into();
    assert_eq!(message(&value.to_string()), "r.json: version 2 of the result format; this flashmob knows 1");
    let mut value = serde_json::to_value(document()).unwrap();
    value["measurement"]["points"][0]["repetitions"][1]["latency_ns"]["histogram"] = "AAAA".into();
    assert!(
        message(&value.to_string()).contains("point 1: the histogram cannot be read"),
        "{}",
        message(&value.to_string())
    );
    let mut value = serde_json::to_value(document()).unwrap();
    value["measurement"]["points"][0]["summary"]["latency_ns"]["count"] = 7.into();
    assert!(
        message(&value.to_string()).contains("a histogram of 6 requests says 7"),
        "{}",
        message(&value.to_string())
    );
    let missing = read::file(Path::new("/nonexistent/r.json")).unwrap_err().to_string();
    assert!(missing.starts_with("cannot read /nonexistent/r.json: "), "{missing}");
}

fn nothing_measured() -> cluster::Cluster {
    cluster::Cluster {
        setting: cluster::Setting::Network,
        air: None,
        flash: None,
        extent_bytes: 1,
        disk_ids: Vec::new(),
        copies: None,
        weak: None,
        rebuild: None,
        points: Vec::new(),
    }
}

#[test]
fn nodes_whose_extents_share_a_disk_are_found_by_its_id() {
    let of = |ids: [Option<&str>; 5], nodes| {
        let disk_ids = ids.map(|id| id.map(String::from)).to_vec();
        cluster::Cluster { disk_ids, ..nothing_measured() }.shared_disks(nodes)
    };
    let ids = [Some("a"), Some("b"), Some("a"), None, Some("b")];
    assert_eq!(of(ids, 5), [vec![1, 3], vec![2, 5]]);
    assert_eq!(of(ids, 4), [vec![1, 3]], "nodes beyond the first four are not asked");
    assert!(of(ids, 2).is_empty());
    assert!(of([None; 5], 5).is_empty(), "unknown disks are not equal");
    assert!(nothing_measured().shared_disks(8).is_empty());
}

#[test]
fn nodes_with_modelled_flash_on_a_real_network_are_called_modelled() {
    let cluster = nothing_measured();
    let real = Document { label: Some("tablets".into()), measurement: Measurement::Cluster(cluster), ..document() };
    let real = Document { warnings: Vec::new(), ..real };
    assert_eq!((real.is_modelled(), real.name().as_str()), (false, "tablets"));
    let warnings = vec![Warning::new(warning::Code::Modelled, "2 of 3 nodes answer as slowly as a modelled flash")];
    let modelled = Document { warnings, ..real };
    assert_eq!((modelled.is_modelled(), modelled.name().as_str()), (true, "tablets (modelled)"));
}

#[test]
fn times_of_an_emulated_processor_are_called_that_and_virtual_time_is_not() {
    let emulated = |measurement| {
        let device = device::Device { emulated: Some("qemu-user on x86_64".into()), ..device::Device::default() };
        Document { label: Some("tablet".into()), device, measurement, warnings: Vec::new(), ..document() }
    };
    let cluster = |setting| {
        let cluster = cluster::Cluster { setting, ..nothing_measured() };
        emulated(Measurement::Cluster(cluster))
    };
    let on_network = cluster(cluster::Setting::Network);
    assert_eq!((on_network.is_emulated(), on_network.name().as_str()), (true, "tablet (emulated)"));
    let simulated = cluster(cluster::Setting::Simulator);
    assert_eq!((simulated.is_emulated(), simulated.name().as_str()), (false, "tablet (simulated)"));
    assert!(!document().is_emulated());
}

#[test]
fn interrupted_repetitions_count_only_if_there_are_no_others() {
    let Measurement::Disk(disk) = document().measurement else { panic!("a disk") };
    let parameters = disk.points[0].parameters.clone();
    let cut = Repetition { interrupted: true, ..repetition(&[1_000]) };
    let point = Point::new(parameters.clone(), vec![repetition(&[10, 20]), cut.clone()]);
    assert_eq!((point.summary.repetitions, point.summary.latency_ns.count), (1, 2));
    assert_eq!(Point::new(parameters, vec![cut]).summary.latency_ns.count, 1);
}

#[test]
fn spread_of_none_one_even_and_odd() {
    assert_eq!(Spread::of([]), Spread::default());
    assert_eq!(Spread::of([3.0]), Spread { median: 3.0, min: 3.0, max: 3.0 });
    assert_eq!(Spread::of([4.0, 1.0]), Spread { median: 2.5, min: 1.0, max: 4.0 });
    assert_eq!(Spread::of([9.0, 1.0, 2.0]), Spread { median: 2.0, min: 1.0, max: 9.0 });
    assert!((Spread::of([9.0, 1.0, 2.0]).relative() - 4.0).abs() < 1e-9);
    assert!(Spread::default().relative().abs() < 1e-9);
}

proptest! {
    #[test]
    fn merging_written_histograms_is_recording_everything_in_one(
        parts in proptest::collection::vec(proptest::collection::vec(1u64..10_000_000_000, 0..50), 0..6)
    ) {
        let mut one = histogram();
        parts.iter().flatten().for_each(|&ns| one.saturating_record(ns));
        let merged = Latency::merged(parts.iter().map(|part| repetition(part).latency_ns));
        prop_assert_eq!(merged.histogram().unwrap(), one.clone());
        let direct = Latency::new(&one);
        prop_assert_eq!((merged.count, merged.min, merged.max), (direct.count, direct.min, direct.max));
        prop_assert_eq!(merged.percentiles, direct.percentiles);
    }

    #[test]
    fn what_is_written_is_read_back_to_the_last_digit(
        rates in proptest::collection::vec(proptest::num::f64::NORMAL | proptest::num::f64::ZERO, 1..6),
        times in proptest::collection::vec(1u64..10_000_000_000, 1..50),
        scale in 1e-6..1.0f64,
    ) {
        let mut document = document();
        document.scale = scale;
        let Measurement::Disk(disk) = &mut document.measurement else { panic!("a disk") };
        let repetitions = rates.iter().map(|&rate| Repetition {
            begin_s: rate / 3.0,
            elapsed_s: rate / 7.0,
            requests_per_second: rate,
            bytes_per_second: rate * 0.1,
            upward_fraction: Some(rate.recip().clamp(0.0, 1.0)),
            ..repetition(&times)
        });
        let parameters = Parameters { requests: None, time_s: Some(scale), ..disk.points[0].parameters.clone() };
        disk.points.push(Point::new(parameters, repetitions.collect()));
        for text in [serde_json::to_string(&document).unwrap(), serde_json::to_string_pretty(&document).unwrap()] {
            prop_assert!(read::text(&text, Path::new("r.json")).unwrap() == document);
        }
    }

    #[test]
    fn no_text_makes_reading_panic(text in ".{0,200}") {
        let _ = read::text(&text, Path::new("x"));
    }
}
