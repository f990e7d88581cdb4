//! The table has a row for each repetition, and what was written comes back.

use super::builder::{document, modelled, parameters, random, report, scheduler, steady};

fn rows(text: &str) -> Vec<std::collections::HashMap<String, String>> {
    csv::Reader::from_reader(text.as_bytes()).deserialize().collect::<Result<_, _>>().unwrap()
}

#[test]
fn every_repetition_is_a_row_that_comes_back() {
    let name = "a, \"b\"\nc";
    let mut first = document(name, Some(false), vec![steady(random(512, 4), 1_234.5), steady(scheduler("bfq"), 7.0)]);
    first.warnings.push(flashmob_results::warning::Warning::new(flashmob_results::warning::Code::SmallFile, "small"));
    let report = report(vec![first.clone(), modelled("emmc", vec![steady(parameters(), 0.25)])]);
    let rows = rows(&report.csv().unwrap());
    assert_eq!(rows.len(), 15);
    for (row, repetition) in rows.iter().zip(&report.entries()[0].points()[0].repetitions) {
        assert_eq!(row["label"], name);
        assert_eq!(row["name"], "a, \"b\" c");
        assert_eq!((row["block_bytes"].as_str(), row["threads"].as_str()), ("512", "4"));
        assert_eq!(
            row["requests_per_second"].parse::<f64>().unwrap().to_bits(),
            repetition.requests_per_second.to_bits()
        );
        assert_eq!(row["elapsed_s"].parse::<f64>().unwrap().to_bits(), repetition.elapsed_s.to_bits());
        assert_eq!(row["latency_p99.99_ns"].parse().ok(), repetition.latency_ns.percentile_ns(99.99));
        assert_eq!((row["fetched_bytes"].as_str(), row["cached_before_bytes"].as_str()), ("", "0"));
        assert_eq!((row["document_warnings"].as_str(), row["modelled"].as_str()), ("small_file", ""));
    }
    assert_eq!(
        (rows[5]["scheduler"].as_str(), rows[5]["point"].as_str(), rows[5]["repetition"].as_str()),
        ("bfq", "2", "1")
    );
    assert_eq!((rows[14]["modelled"].as_str(), rows[14]["repetition"].as_str()), ("emmc", "5"));
}

#[test]
fn nothing_measured_is_a_heading_alone() {
    let text = report(Vec::new()).csv().unwrap();
    assert_eq!((text.lines().count(), rows(&text).len()), (1, 0));
}
