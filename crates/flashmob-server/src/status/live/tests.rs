use super::*;
use crate::admin::samples;

#[test]
fn the_schema_is_that_of_the_code() {
    let mut schema = serde_json::to_value(schemars::schema_for!(LiveReport)).unwrap();
    schema["$id"] = "urn:flashmob:live:1".into();
    schema["title"] = "What the nodes of a gateway did in the last ten minutes".into();
    let text = serde_json::to_string_pretty(&schema).unwrap() + "\n";
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../schema/live-1.json");
    if std::env::var_os("ACCEPT_SCHEMA").is_some() {
        std::fs::write(path, &text).unwrap();
    }
    let published = std::fs::read_to_string(path).unwrap_or_default();
    assert_eq!(published, text, "ACCEPT_SCHEMA=1 accepts it");
}

#[test]
fn a_second_of_64_nodes_is_under_30_kib_and_all_of_ten_minutes_under_half_a_mib() {
    let bytes = |report: &LiveReport| serde_json::to_vec(report).unwrap().len();
    let second = bytes(&samples::live(64, 1));
    assert!((10_000..30 * 1024).contains(&second), "{second}");
    // As many entries as an answer may have.
    let first = bytes(&samples::live(64, ENTRIES_MAX as u64 / 64));
    assert!((200_000..512 * 1024).contains(&first), "{first}");
}

#[test]
fn a_report_is_read_as_it_was_written() {
    for (nodes, seconds) in [(0, 0), (1, 0), (3, 2)] {
        let report = samples::live(nodes, seconds);
        let text = serde_json::to_string(&report).unwrap();
        assert_eq!(serde_json::from_str::<LiveReport>(&text).unwrap(), report, "{nodes} {seconds}");
    }
}

#[test]
fn histograms_are_written_without_their_empty_ends() {
    let mut buckets = Buckets::default();
    assert_eq!(trimmed(&buckets), [0; 0]);
    (buckets.0[0], buckets.0[2], buckets.0[31]) = (4, 5, 6);
    let trimmed_all = trimmed(&buckets);
    assert_eq!((trimmed_all.len(), &trimmed_all[..4]), (33, &[0, 4, 0, 5][..]));
    assert_eq!(untrimmed(&trimmed_all), buckets);
    buckets.0[0] = 0;
    assert_eq!(trimmed(&buckets)[..2], [2, 5]);
    assert_eq!(untrimmed(&trimmed(&buckets)), buckets);
    for odd in [&[31, 1, 2, 3][..], &[32, 1], &[u32::MAX, 1], &[5]] {
        assert!(untrimmed(odd).total() <= 1, "{odd:?}");
    }
}

#[test]
fn bounds_are_in_microseconds() {
    assert_eq!((bounds_us().len(), bounds_us()[1], bounds_us()[30]), (31, 6.3, 4_000_000.0));
}
