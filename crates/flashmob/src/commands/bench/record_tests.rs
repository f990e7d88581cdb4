use std::sync::Arc;
use std::time::Duration;

use flashmob_bench::Errno;
use flashmob_bench::load::reference::PatternReference;
use flashmob_bench::nbd::handshake::Export;
use hdrhistogram::Histogram;

use super::*;

fn result(latencies_ns: &[u64]) -> LoadResult {
    let mut latency_ns = Histogram::new_with_bounds(1, 3_600_000_000_000, 3).unwrap();
    for &latency in latencies_ns {
        latency_ns.record(latency).unwrap();
    }
    let count = latencies_ns.len() as u64;
    LoadResult {
        reads: count,
        writes: 0,
        bytes: 4096 * count,
        elapsed: Duration::from_secs(2),
        latency_ns,
        errors: [(Errno(5), 3), (Errno(4711), 1)].into(),
        first_error: Some("EIO to the read".into()),
        verified_bytes: 0,
        mismatched_bytes: 0,
        first_mismatch_offset_bytes: None,
        cpu: Duration::from_millis(500),
        seed: 1,
        export: Export {
            size_bytes: 1 << 30,
            flags: 0,
            structured_replies: false,
            block_bytes_min: 1,
            block_bytes_preferred: 4096,
            block_bytes_max: 32 << 20,
        },
    }
}

fn json(load: &Load, result: &LoadResult) -> serde_json::Value {
    record(&Uri::tcp("127.0.0.1", 10809, "pool"), load, result, false)
}

fn schema() -> jsonschema::Validator {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../schema/bench-nbd-1.json");
    let text = std::fs::read_to_string(path).unwrap();
    jsonschema::validator_for(&serde_json::from_str(&text).unwrap()).unwrap()
}

#[test]
fn results_are_as_the_published_schema_says() {
    let verified = Load {
        verify: Some(Arc::new(PatternReference { seed: 1 })),
        stop: Stop::Requests(3),
        range_bytes: Some(5..9),
        ..Load::default()
    };
    for (load, latencies_ns) in [(Load::default(), &[][..]), (verified, &[1000, 2000, 900_000])] {
        let json = json(&load, &result(latencies_ns));
        let problems: Vec<String> = schema().iter_errors(&json).map(|error| error.to_string()).collect();
        assert!(problems.is_empty(), "{problems:#?}\n{json:#}");
    }
}

#[test]
fn the_schema_notices_what_is_missing_or_unknown() {
    let good = json(&Load::default(), &result(&[1]));
    for change in ["missing", "unknown", "another version"] {
        let mut bad = good.clone();
        match change {
            "missing" => drop(bad["result"].as_object_mut().unwrap().remove("own_cpu_s")),
            "unknown" => bad["load"]["speed"] = 5.into(),
            _ => bad["format_version"] = 2.into(),
        }
        assert!(!schema().is_valid(&bad), "{change}");
    }
}

#[test]
fn figures_are_those_of_the_load() {
    let json = json(&Load::default(), &result(&(1..=1000).map(|us| us * 1000).collect::<Vec<_>>()));
    let result = &json["result"];
    assert_eq!(result["requests_per_second"], 500.0);
    assert_eq!(result["bytes_per_second"], 2_048_000.0);
    assert_eq!(result["own_cpu_ns_per_request"], 500_000.0);
    assert_eq!(result["errors"][0]["name"], "EIO");
    assert!(result["errors"][1]["name"].is_null() && result["errors"][1]["errno"] == 4711);
    let at = |percent: f64| {
        let list = result["latency_ns"]["percentiles"].as_array().unwrap();
        list.iter().find(|p| p["percent"] == percent).unwrap()["ns"].as_u64().unwrap()
    };
    assert!((499_000..=501_000).contains(&at(50.0)) && (989_000..=991_000).contains(&at(99.0)));
    let counted: u64 =
        result["latency_ns"]["histogram"].as_array().unwrap().iter().map(|b| b["count"].as_u64().unwrap()).sum();
    assert_eq!(counted, 1000);
}

#[test]
fn doubtful_figures_are_named() {
    let warnings = |load: &Load, change: fn(&mut LoadResult)| {
        let mut result = result(&[1000; 100]);
        change(&mut result);
        super::warnings(load, &result).join("; ")
    };
    let load = Load::default();
    assert!(warnings(&load, |_| ()).contains("nothing was verified"));
    assert!(warnings(&load, |r| r.cpu = Duration::from_millis(1900)).contains("busy nearly all the time (95 %)"));
    assert!(warnings(&load, |r| r.elapsed = Duration::from_millis(510)).contains("0.51 s is a short run"));
    let fine = |r: &mut LoadResult| {
        r.verified_bytes = 1;
        r.cpu = Duration::from_micros(50);
    };
    assert_eq!(warnings(&load, fine), "");
}
