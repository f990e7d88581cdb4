use super::*;
use crate::measure::Memory;

fn sample(per_second: f64) -> Option<Sample> {
    Some(Sample {
        per_second,
        bytes_per_second: per_second * 4096.0,
        requests: 1000,
        p50_us: Some(1e6 / per_second),
        p99_us: Some(3e6 / per_second),
        client_cpu_us: Some(1.0),
        front_cpu_us: 2.0,
        back_cpu_us: 0.0,
        segments_per_request: Some(0.5),
        front_rss: Memory { anon_bytes: 96 << 20, file_bytes: 1 << 20 },
        back_rss: Memory::default(),
        verified_bytes: 4096,
    })
}

/// Every row measured in two rounds, the second twice as slow for everybody; ours four times as fast as the others.
fn results() -> Results {
    let rows = crate::rows::all(false);
    let samples = rows
        .iter()
        .map(|row| {
            let factor = if row.class == Class::Ours { 4.0 } else { 1.0 };
            (row.id.clone(), vec![sample(200_000.0 * factor), sample(100_000.0 * factor)])
        })
        .collect();
    let widths = [("1b-4x64/native-100".to_string(), 8)].into();
    let system_calls = [("4k-4x64/flashmob-two".to_string(), (0.1, Some(0.2)))].into();
    Results { rows, samples, widths, system_calls }
}

fn report(results: &Results) -> Report {
    let header = Header {
        cpu: "processor".into(),
        cpus: 2,
        kernel: "6.0".into(),
        memory_available_bytes: 1 << 34,
        file_bytes: 1 << 32,
        write_bytes: 1 << 28,
        redis_bytes: 1 << 30,
        pages_locked: true,
        rounds: 2,
        seconds_per_row: 1.0,
        quick: false,
        flashmob: "flashmob".into(),
        against: None,
        versions: [("nbdkit".to_string(), "1".to_string())].into(),
    };
    Report {
        format: FORMAT,
        format_version: FORMAT_VERSION,
        header,
        rows: results.row_reports(),
        targets: results.target_reports(),
        not_measured: vec![NotMeasured { id: "a/b".into(), name: "b".into(), reason: "not installed".into() }],
        notes: vec!["a note".into()],
    }
}

#[test]
fn ratios_hold_although_the_machine_became_slower() {
    let report = report(&results());
    let row = report.rows.iter().find(|row| row.id == "4k-4x64/flashmob-one").unwrap();
    assert_eq!((row.to_best_peer, row.to_pread), (Some(4.0), Some(4.0)));
    assert!(row.spread_is_wide, "800,000 and 400,000");
    assert_eq!(row.per_second.median, 600_000.0);
    let latency = report.rows.iter().find(|row| row.id == "latency/flashmob-two").unwrap();
    assert_eq!(latency.to_best_peer, Some(0.25));
    for target in &report.targets {
        let ratio = target.ratio.as_ref().unwrap();
        assert!(ratio.min <= ratio.median && ratio.median <= ratio.max, "{target:?}");
        if target.path.starts_with("memory") {
            continue;
        }
        assert_eq!(ratio.min, ratio.max, "both rounds have the same ratio: {target:?}");
    }
    let gateway = report.targets.iter().find(|target| target.measure.starts_with("gateway")).unwrap();
    assert_eq!((gateway.ratio.as_ref().unwrap().median, gateway.reaches_aim), (0.5, Some(true)));
}

#[test]
fn reports_are_as_the_published_schema_says() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../schema/bench-peers-1.json");
    let schema: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let schema = jsonschema::validator_for(&schema).unwrap();
    let mut gaps = results();
    gaps.samples.get_mut("4k-4x64/flashmob-one").unwrap()[0] = None;
    gaps.samples.insert("4k-4x64/nbdkit-file".to_string(), vec![None, None]);
    for results in [results(), gaps] {
        let json = serde_json::to_value(report(&results)).unwrap();
        let problems: Vec<String> = schema.iter_errors(&json).map(|error| error.to_string()).collect();
        assert!(problems.is_empty(), "{problems:#?}");
        let mut bad = json;
        bad["rows"][0]["speed"] = 1.into();
        assert!(!schema.is_valid(&bad));
    }
}

#[test]
fn a_goal_without_figures_is_not_called_reached() {
    let mut results = results();
    results.samples.insert("4k-1x64/nbdkit-file".to_string(), vec![None, None]);
    let report = report(&results);
    assert!(!report.rows.iter().any(|row| row.id == "4k-1x64/nbdkit-file"));
    let target = report.targets.iter().find(|target| target.measure.contains("1 conn, against nbdkit")).unwrap();
    assert!(target.ratio.is_none() && target.reaches_at_least.is_none());
    assert!(markdown::full(&report).contains("| not measured |"));
}

#[test]
fn the_text_names_rows_goals_and_what_is_missing() {
    let report = report(&results());
    let text = markdown::full(&report);
    for part in [
        "| **flashmob, eight nodes** | 600,000 | 400,000 to 800,000 |",
        "flashmob, native client, 100 a call**, 8 calls outstanding",
        "0.10 + 0.20",
        "rounds differ widely",
        "- b (a/b): not installed",
        "≤ 0.8",
        "**yes, the aim**",
        "- nbdkit: 1",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    let readme = markdown::readme(&report);
    assert!(readme.contains("| nbdkit file | 150,000 | 150,000 | 150,000 |"), "{readme}");
    assert!(!readme.contains("fio"));
}

#[test]
fn counts_and_ratios_are_rounded_for_people() {
    for (value, text) in
        [(0.0, "0"), (7.4, "7"), (123.4, "123"), (1234.0, "1,230"), (1_234_567.0, "1,230,000"), (99_960.0, "100,000")]
    {
        assert_eq!(markdown::count(value), text);
    }
    assert_eq!((markdown::figure(0.456), markdown::figure(28.44)), ("0.46".into(), "28.4".into()));
}

#[test]
fn the_figure_shows_rows_in_both_kinds_of_light() {
    let svg = figure::svg(&report(&results())).unwrap().unwrap();
    assert!(
        svg.contains("prefers-color-scheme: dark") && svg.contains("nbdkit split") && !svg.contains("asked by fio")
    );
    // Every colour that is replaced for the dark is one that is drawn.
    for color in ["#FFFFFF", "#1F2328", "#0969DA", "#8C959F", "#D0D7DE", "#505A64"] {
        assert!(svg.matches(&format!("\"{color}\"")).count() >= 2, "{color}");
    }
    let mut empty = results();
    empty.samples.clear();
    assert!(figure::svg(&report(&empty)).unwrap().is_none());
}
