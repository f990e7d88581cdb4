use std::collections::BTreeSet;
use std::sync::Arc;

use super::strict::{Sample, parse};
use super::*;
use crate::admin::samples::{EVIL, gateway, model, node, node_of_volume};
use crate::status::report::{CopiesReport, Rebuild, ScrubReport};

const BOTH: [Format; 2] = [Format::Prometheus, Format::OpenMetrics];

fn scrape(report: &Report, format: Format) -> Vec<Sample> {
    let text = render(&Arc::new(report.clone()), format).unwrap();
    parse(&text, format).unwrap_or_else(|e| panic!("{e}"))
}

/// The value of the one sample with this name and at least these labels.
fn value(samples: &[Sample], name: &str, labels: &[(&str, &str)]) -> f64 {
    let fits = |s: &&Sample| {
        s.name == name && labels.iter().all(|(key, value)| s.labels.get(*key).is_some_and(|v| v == value))
    };
    let found: Vec<_> = samples.iter().filter(fits).collect();
    assert_eq!(found.len(), 1, "{name} {labels:?}: {found:?}");
    found[0].value
}

#[test]
fn a_modelled_flash_tells_what_it_did_and_a_real_one_nothing_of_the_kind() {
    for format in BOTH {
        let mut report = node();
        assert!(!scrape(&report, format).iter().any(|sample| sample.name.contains("model")));
        report.node.as_mut().unwrap().model = Some(model());
        let samples = scrape(&report, format);
        for (name, labels, expected) in [
            ("flashmob_extent_model_info", &[("profile", "nexus7-emmc")][..], 1.0),
            ("flashmob_extent_model_operations_total", &[], 2100.0),
            ("flashmob_extent_model_busy_seconds_total", &[], 1.5),
            ("flashmob_extent_model_upward_fraction", &[], 0.5),
            ("flashmob_extent_model_lateness_seconds", &[("quantile", "0.99")], 0.000_25),
        ] {
            assert_eq!(value(&samples, name, labels), expected, "{name}");
        }
    }
}

#[test]
fn what_is_scraped_is_what_was_reported() {
    for format in BOTH {
        let samples = scrape(&gateway(), format);
        let link = [("volume", "tank"), ("node", "tablet-1.lan:7000"), ("link", "7")];
        let (out, inwards) =
            ([&link[..], &[("direction", "out")]].concat(), [&link[..], &[("direction", "in")]].concat());
        for (name, labels, expected) in [
            ("flashmob_build_info", &[("version", "0.1.0")][..], 1.0),
            ("flashmob_warnings", &[], 1.0),
            ("flashmob_memory_limit_bytes", &[], 134_217_728.0),
            ("flashmob_gateway_requests_total", &[("op", "read")], 1_234_567.0),
            ("flashmob_gateway_timeouts_total", &[], 4.0),
            ("flashmob_volume_size_bytes", &[("volume", "tank")], 268_435_456.0),
            ("flashmob_node_queue_depth", &link[..2], 12.0),
            ("flashmob_node_battery_fraction", &link[..2], 0.12),
            ("flashmob_node_charging", &link[..2], 0.0),
            ("flashmob_node_free_bytes", &link[..2], 3_221_225_472.0),
            ("flashmob_node_beyond_limit", &[link[0], link[1], ("limit", "battery")], 1.0),
            ("flashmob_node_beyond_limit", &[link[0], link[1], ("limit", "heat")], 0.0),
            ("flashmob_node_pauses_total", &link[..2], 2.0),
            ("flashmob_node_state", &[link[0], ("node", "tablet-2.lan:7000"), ("state", "refused")], 1.0),
            ("flashmob_node_state", &[link[0], ("node", "tablet-2.lan:7000"), ("state", "ready")], 0.0),
            ("flashmob_link_batches_total", &link, 1000.0),
            ("flashmob_link_pieces_total", &link, 64_000.0),
            ("flashmob_link_pieces_per_batch", &link, 64.0),
            ("flashmob_link_bytes_total", &out, 300_000.0),
            ("flashmob_link_bytes_total", &inwards, 268_435_456.0),
            ("flashmob_link_tcp_rtt_seconds", &link, 0.0018),
            ("flashmob_link_tcp_segments_total", &inwards, 190_000.0),
            ("flashmob_link_tcp_retransmissions_total", &link, 7.0),
            ("flashmob_link_mean_segment_bytes", &inwards, 1448.0),
            ("flashmob_stage_seconds_count", &[("stage", "replied")], 64_000.0),
            ("flashmob_stage_seconds_sum", &[("stage", "replied")], 32.0),
            ("flashmob_stage_seconds_bucket", &[("stage", "replied"), ("le", "0.0005")], 32_000.0),
            ("flashmob_stage_seconds_bucket", &[("stage", "replied"), ("le", "0.01")], 57_600.0),
            ("flashmob_stage_seconds_bucket", &[("stage", "replied"), ("le", "+Inf")], 64_000.0),
        ] {
            assert_eq!(value(&samples, name, labels), expected, "{name}");
        }
        let samples = scrape(&node(), format);
        let extent = [("extent", "00112233445566778899aabbccddeeff"), ("path", "/data/extent"), ("volume", "tank")];
        assert_eq!(value(&samples, "flashmob_extent_info", &extent), 1.0);
        assert_eq!(value(&samples, "flashmob_extent_celsius", &[]), 31.5);
        assert_eq!(value(&samples, "flashmob_extent_pauses_total", &[]), 2.0);
        assert_eq!(value(&samples, "flashmob_extent_fast_reads_total", &[]), 12_345.0);
        assert_eq!(value(&samples, "flashmob_extent_mapped_reads_total", &[]), 11_000.0);
        assert_eq!(value(&samples, "flashmob_extent_mapped_major_faults_total", &[]), 3.0);
        assert_eq!(value(&samples, "flashmob_extent_bad_blocks", &[]), 2.0);
        assert_eq!(value(&samples, "flashmob_extent_checksum_mismatches_total", &[]), 5.0);
        assert_eq!(value(&samples, "flashmob_extent_units_without_checksums", &[]), 7.0);
    }
}

#[test]
fn both_forms_tell_the_same() {
    for report in [gateway(), node()] {
        assert_eq!(scrape(&report, BOTH[0]), scrape(&report, BOTH[1]));
    }
}

#[test]
fn a_metric_has_the_same_labels_wherever_it_appears() {
    let gateway: BTreeSet<_> = scrape(&gateway(), BOTH[0]).into_iter().map(|s| s.name).collect();
    let node: BTreeSet<_> = scrape(&node(), BOTH[0]).into_iter().map(|s| s.name).collect();
    for name in gateway.intersection(&node) {
        let common = ["build_info", "uptime_", "warnings", "memory_", "stage_seconds"];
        assert!(common.iter().any(|c| name["flashmob_".len()..].starts_with(c)), "{name}");
    }
}

#[test]
fn names_of_any_kind_are_escaped() {
    let mut report = gateway();
    let volume = &mut report.gateway.as_mut().unwrap().volumes[0];
    volume.name = EVIL.to_string();
    volume.nodes = vec![node_of_volume(EVIL, 1)];
    volume.nodes[0].state = EVIL.to_string();
    report.version = EVIL.to_string();
    report.stages[0].name = EVIL.to_string();
    for format in BOTH {
        let samples = scrape(&report, format);
        assert_eq!(value(&samples, "flashmob_node_queue_depth", &[("volume", EVIL), ("node", EVIL)]), 12.0);
        assert_eq!(value(&samples, "flashmob_node_state", &[("state", EVIL)]), 1.0);
        assert_eq!(value(&samples, "flashmob_stage_seconds_count", &[("stage", EVIL)]), 64_000.0);
    }
}

#[test]
fn an_empty_report_is_a_good_scrape() {
    let mut report = node();
    (report.node, report.stages) = (None, vec![]);
    for format in BOTH {
        assert!(scrape(&report, format).iter().all(|s| s.labels.keys().all(|k| k == "version")));
    }
}

#[test]
fn values_that_no_format_can_hold_do_not_spoil_the_rest() {
    let mut report = gateway();
    report.uptime_seconds = f64::NAN;
    report.memory.peak_bytes = u64::MAX;
    let gateway = report.gateway.as_mut().unwrap();
    gateway.counters.failures = u64::MAX;
    gateway.volumes[0].nodes[0].links[0].pieces_per_batch = f64::INFINITY;
    gateway.volumes[0].nodes[0].links[0].node_seconds = f64::NAN;
    let stage = &mut report.stages[0];
    stage.sum_seconds = f64::NEG_INFINITY;
    stage.buckets = vec![(f64::NAN, 5), (0.5, 9), (0.25, 3), (0.5, 9), (1.0, 4), (2.0, u64::MAX), (f64::INFINITY, 1)];
    for format in BOTH {
        let samples = scrape(&report, format);
        assert!(!samples.iter().any(|s| s.name == "flashmob_uptime_seconds"));
        assert!(value(&samples, "flashmob_gateway_failures_total", &[]) >= i64::MAX as f64);
        let queued = |le| value(&samples, "flashmob_stage_seconds_bucket", &[("stage", "queued"), ("le", le)]);
        assert_eq!([queued("0.5"), queued("1.0"), queued("2.0"), queued("+Inf")], [9.0, 9.0, 64_000.0, 64_000.0]);
    }
}

/// The names of metrics in a text.
fn names_in(text: &str) -> BTreeSet<String> {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = text.split(|c| !is_of_name(c)).filter(|word| word.starts_with("flashmob_"));
    // Variables of the dashboard and label_values(...) are no exception: they name metrics, too.
    words.map(str::to_string).collect()
}

#[test]
fn dashboard_and_alerts_name_metrics_that_exist() {
    let mut report = gateway();
    for volume in report.gateway.iter_mut().flat_map(|gateway| &mut gateway.volumes) {
        let scrub = ScrubReport { compared_seconds_ago: Some(1.0), ..ScrubReport::default() };
        let rebuild = Rebuild::of(1, 1, Some(1.0));
        volume.copies = Some(CopiesReport { copies: 2, rebuild, scrub, ..CopiesReport::default() });
    }
    for node in report.gateway.iter_mut().flat_map(|gateway| &mut gateway.volumes).flat_map(|volume| &mut volume.nodes)
    {
        let condition = node.condition.get_or_insert_default();
        (condition.celsius, condition.battery_percent, condition.free_bytes) = (Some(30.0), Some(9), Some(1));
        condition.unallocated_bytes = Some(1);
    }
    let known: BTreeSet<String> = scrape(&report, Format::Prometheus).into_iter().map(|sample| sample.name).collect();
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging");
    for (path, least) in
        [("grafana/flashmob.json", 25), ("prometheus/alerts.yml", 12), ("prometheus/alerts-test.yml", 12)]
    {
        let names = names_in(&std::fs::read_to_string(root.join(path)).unwrap());
        let unknown: Vec<_> = names.difference(&known).collect();
        assert!(unknown.is_empty(), "{path}: {unknown:?}");
        assert!(names.len() >= least, "{path}: {names:?}");
    }
}
