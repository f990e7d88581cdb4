//! Documents that nobody would write do not make it panic, and their figures are still XML.

use flashmob_results::disk::{Cache, Engine, Operation, Parameters, Pattern, Point};
use proptest::prelude::*;
use proptest::sample::select;

use super::builder::{document, modelled, point, report};

fn rate() -> impl Strategy<Value = f64> {
    prop_oneof![Just(0.0), 1e-300..1e300, 1.0..1e5, Just(-1.0), Just(f64::NAN), Just(f64::INFINITY)]
}

fn parameters() -> impl Strategy<Value = Parameters> {
    let block = prop_oneof![select(vec![0, 1, 512, 4_096, 16_384]), any::<u64>()];
    let threads = prop_oneof![select(vec![0, 1, 2, 4, 8, 16, 32]), any::<u32>()];
    let scheduler = prop_oneof![
        Just(None),
        select(vec!["none", "mq-deadline", "bfq"]).prop_map(|s| Some(s.to_string())),
        any::<Option<String>>()
    ];
    let kinds = (select(Operation::ALL), select(Pattern::ALL), select(Engine::ALL), select(Cache::ALL));
    (kinds, block, threads, 0u32..3, scheduler, any::<u64>()).prop_map(
        |((operation, pattern, engine, cache), block_bytes, threads, depth, scheduler, range)| {
            Parameters {
                operation,
                pattern,
                block_bytes,
                threads,
                depth,
                engine,
                cache,
                sync: None,
                scheduler,
                // Few ranges, or no two points could be compared.
                range_bytes: range % 2,
                requests: Some(range),
                time_s: None,
            }
        },
    )
}

fn any_point() -> impl Strategy<Value = Point> {
    (parameters(), proptest::collection::vec(rate(), 0..5), any::<bool>()).prop_map(|(p, rates, lies)| {
        let mut point = point(p, &rates);
        if lies {
            // A summary that its repetitions do not bear out.
            point.summary.repetitions = 3;
            point.summary.requests_per_second.max = -7.0;
            point.repetitions.clear();
        }
        point
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn no_document_makes_it_panic(
        points in proptest::collection::vec(any_point(), 0..40),
        label in any::<String>(),
        rotational in any::<Option<bool>>(),
        scale in rate(),
        began in any::<u64>(),
    ) {
        let mut first = document(&label, rotational, points.clone());
        (first.scale, first.started_unix_s) = (scale, began);
        let report = report(vec![first, modelled("hdd", points.clone()), document(&label, Some(true), points)]);
        let html = report.html().unwrap();
        for (at, _) in html.match_indices("<svg") {
            let end = html[at..].find("</svg>").unwrap();
            let svg = &html[at..at + end + "</svg>".len()];
            prop_assert!(roxmltree::Document::parse(svg).is_ok(), "{}", svg);
        }
        report.csv().unwrap();
    }
}
