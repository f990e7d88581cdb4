//! Clusters on the page and in the table.

use flashmob_results::Document;
use flashmob_results::cluster::{Attachment, Batch, Order, Point, Setting};
use flashmob_results::warning::{Code, Warning};

use super::builder::{document, flat_after_four, grid, report};
use super::cluster_builder::{LIMIT, as_in_p1, cluster, clustered, document_of, p1, parameters, point};
use super::page::{figures, page};

fn count(points: Vec<Point>) -> usize {
    figures(&page(vec![clustered(points)])).len()
}

#[test]
fn all_of_p1s_figures_are_there() {
    let html = page(vec![clustered(p1(as_in_p1))]);
    // 7 to 9; 10; 11; 12; beyond the paper: over links for each k, P1's way beside ours, frames.
    assert_eq!(figures(&html).len(), 3 + 1 + 1 + 1 + 3 + 1 + 1);
    for words in ["k=1</h4>", "k=10</h4>", "k=100</h4>", "Dashed: what the flash of so many nodes does, 2,100/s each"] {
        assert!(html.contains(words), "{words}");
    }
    assert!(!html.contains("id=\"devices\"") && !html.contains("C1<"), "nothing of devices without any");
}

/// As `reproduce p1` measures: fixed batches in order of arrival, automatic ones sorted.
fn in_both_orders() -> Vec<Point> {
    let mut points = p1(as_in_p1);
    for p in points.iter_mut().map(|point| &mut point.parameters).filter(|p| !p.no_io) {
        p.order = Some(if p.batch == Batch::Auto { Order::Sorted } else { Order::Arrival });
    }
    points
}

#[test]
fn sorted_automatic_batches_beside_fixed_ones_in_order_of_arrival_add_no_figure() {
    let html = page(vec![clustered(in_both_orders())]);
    assert_eq!(figures(&html).len(), 3 + 1 + 1 + 1 + 3 + 1 + 1);
    let count = |title: &str| html.matches(title).count();
    assert_eq!(count("bytes over links with 8 nodes</title>"), 1);
    assert_eq!(count("packets/s over links with 8 nodes</title>"), 1);
    let ours = html.find("frames for each request over nodes</title>").unwrap();
    let title = &html[html[..ours].rfind("<title").unwrap()..ours];
    assert!(!title.contains("arrival"), "the figure has both orders: {title}");
    assert!(html.contains("8 nodes, 4 links, k=10, read 1 B, order of arrival"), "in the table");
}

#[test]
fn figures_are_there_if_their_data_is() {
    assert_eq!(count(Vec::new()), 0);
    assert_eq!(count(vec![point(parameters(1, 1, Batch::Auto), 9.0)]), 0);
    let links = [1, 4].map(|links| point(parameters(2, links, Batch::Fixed(1)), 9.0)).to_vec();
    assert_eq!(count(links), 3, "requests over links, sizes and numbers of packets");
    let nodes = [1, 4].map(|nodes| point(parameters(nodes, 1, Batch::Auto), 9.0)).to_vec();
    assert_eq!(count(nodes), 2, "requests and frames over nodes");
}

#[test]
fn clusters_and_devices_share_a_page() {
    let device = document("tablet", Some(false), grid(&[4_096], &[1, 4, 8], 100.0, flat_after_four));
    let html = page(vec![clustered(p1(as_in_p1)), device.clone()]);
    assert_eq!(figures(&html).len(), figures(&page(vec![device])).len() + 11);
    for id in ["C1", "C4", "C12", "clusters", "devices", "points", "cluster-points"] {
        assert!(html.contains(&format!("id=\"{id}\"")), "{id}");
    }
}

#[test]
fn the_top_says_what_was_found_and_what_was_modelled() {
    let html = page(vec![clustered(p1(as_in_p1))]);
    let head = &html[..html.find("<main").unwrap()];
    for words in [
        "Clusters measured: 11n-2014 (lab, modelled)",
        "1 B: up to 16,464/s (8 nodes, 1 link, auto, 98\u{a0}% of what their flash does), without aggregation 7,139/s (8 nodes, 16 links, k=1, 42.5\u{a0}% of",
        "1 B, without I/O: up to ",
        "Modelled: ",
        "real processes over modelled air and flash",
        "7 of 8 claims",
        "✓ holds (modelled)",
    ] {
        assert!(head.contains(words), "{words}: {head}");
    }
    let mut real = cluster(p1(as_in_p1));
    (real.setting, real.air) = (Setting::Simulator, None);
    let html = page(vec![document_of(real)]);
    assert!(html.contains("state machines in virtual time"));
}

#[test]
fn the_top_says_that_a_wired_gateway_departs_from_p1() {
    let head = |gateway| {
        let mut cluster = cluster(p1(as_in_p1));
        cluster.air.as_mut().unwrap().gateway = gateway;
        let html = page(vec![document_of(cluster)]);
        html[..html.find("<main").unwrap()].to_string()
    };
    let words = "Departs from P1: </strong>11n-2014 (lab, modelled). The gateway was wired, so each frame crossed the air once;";
    assert!(head(Attachment::Wired).contains(words), "{}", head(Attachment::Wired));
    assert!(!head(Attachment::Wireless).contains("Departs from P1"));
}

#[test]
fn void_repetitions_are_named_and_shown_nowhere_else() {
    let mut points =
        vec![point(parameters(1, 1, Batch::Fixed(1)), 100.0), point(parameters(1, 4, Batch::Fixed(1)), 300.0)];
    for (point, void) in points.iter_mut().zip([1, 3]) {
        for repetition in point.repetitions.iter_mut().take(void) {
            (repetition.is_void, repetition.requests_per_second) = (true, 987_654.0);
        }
        *point = Point::new(point.parameters.clone(), point.repetitions.clone(), Some(LIMIT));
    }
    let html = page(vec![clustered(points)]);
    assert!(html.contains("<strong>1 node, 1 link, k=1, read 1 B</strong>: 1 of 3 repetitions"), "{html}");
    assert!(html.contains("<strong>1 node, 4 links, k=1, read 1 B</strong>: 3 of 3 repetitions"));
    assert!(html.contains("4 of them void and not counted") && !html.contains("987,654"));
    assert_eq!(figures(&html).len(), 0, "one point is left, and one is no line");
}

#[test]
fn what_comes_from_a_file_is_escaped() {
    let evil = "<script>alert('1')</script>\"&";
    let mut cluster = cluster(p1(as_in_p1));
    cluster.points[0].warnings.push(Warning::new(Code::Late, evil));
    let air = cluster.air.as_mut().unwrap();
    (air.profile, air.description) = (evil.into(), evil.into());
    let flash = cluster.flash.as_mut().unwrap();
    (flash.profile, flash.description) = (evil.into(), evil.into());
    let html = page(vec![Document { label: Some(evil.into()), ..document_of(cluster.clone()) }, document_of(cluster)]);
    assert!(!html.contains("<script") && html.contains("&lt;script&gt;"));
}

#[test]
fn every_repetition_is_a_row_void_ones_included() {
    let mut points = p1(as_in_p1);
    points[0].repetitions[1].is_void = true;
    points[1].parameters.order = Some(Order::Arrival);
    let device = document("a", None, grid(&[1], &[1], 9.0, flat_after_four));
    let report = report(vec![device, clustered(points.clone())]);
    let rows: Vec<std::collections::HashMap<String, String>> =
        csv::Reader::from_reader(report.clusters_csv().unwrap().as_bytes())
            .deserialize()
            .collect::<Result<_, _>>()
            .unwrap();
    assert_eq!(rows.len(), points.len() * 3);
    assert_eq!((rows[1]["is_void"].as_str(), rows[2]["is_void"].as_str()), ("true", "false"));
    let (row, repetition) = (&rows[5], &points[1].repetitions[2]);
    assert_eq!((row["nodes"].as_str(), row["links"].as_str(), row["batch"].as_str()), ("1", "2", "1"));
    assert_eq!((row["order"].as_str(), rows[0]["order"].as_str()), ("arrival", ""));
    assert_eq!(row["requests_per_second"].parse::<f64>().unwrap().to_bits(), repetition.requests_per_second.to_bits());
    assert_eq!(row["packets_data_sent"], repetition.packets.unwrap().data_sent.to_string());
    assert_eq!((row["setting"].as_str(), row["air"].as_str(), row["gateway"].as_str()), ("lab", "11n-2014", "wired"));
    assert_eq!(row["latency_p99_ns"].parse().ok(), repetition.latency_ns.percentile_ns(99.0));
    assert_eq!((row["lateness_max_us"].as_str(), row["flash_limit_requests_per_second"].as_str()), ("", "2100"));
    assert_eq!(report.csv().unwrap().lines().count(), 6, "devices have a table of their own");
}

#[test]
fn zero_and_huge_values_break_nothing() {
    let mut points = vec![point(parameters(1, 1, Batch::Fixed(1)), 0.0)];
    points.extend([1, 2, u32::MAX].map(|n| point(parameters(n, n, Batch::Fixed(1)), 1e15)));
    points.push(point(parameters(0, 0, Batch::Fixed(0)), f64::NAN));
    let mut hollow = point(parameters(1, 4, Batch::Auto), 5.0);
    hollow.repetitions.clear();
    points.push(Point::new(hollow.parameters, Vec::new(), None));
    let mut cluster = cluster(points);
    cluster.flash.as_mut().unwrap().limits[0].requests_per_second = f64::INFINITY;
    page(vec![document_of(cluster)]);
}
