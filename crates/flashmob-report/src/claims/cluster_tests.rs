//! Each claim about clusters at, below and above its limits.

use flashmob_results::Document;
use flashmob_results::cluster::{Attachment, Batch, Parameters, Point};
use flashmob_results::warning::{Code, Warning};

use super::Verdict::{DoesNotHold, Fitted, Holds, TooFewRepetitions};
use super::{Claim, Finding, Verdict};
use crate::tests::builder::{document, parameters as device, random, report, steady};
use crate::tests::cluster_builder::{
    BATCHES, LIMIT, as_in_p1, cluster, clustered, document_of, p1, parameters, point, without_io,
};

const K1: Batch = Batch::Fixed(1);
const K10: Batch = Batch::Fixed(10);
const K100: Batch = Batch::Fixed(100);

fn claim(id: &str, documents: Vec<Document>) -> Claim {
    report(documents).claims().into_iter().find(|claim| claim.id == id).unwrap()
}

/// The finding on one cluster with these points, or what is missing.
fn found(id: &str, points: Vec<Point>) -> Result<Finding, String> {
    let claim = claim(id, vec![clustered(points)]);
    match claim.findings.into_iter().next() {
        Some(finding) => Ok(finding),
        None => Err(claim.lacking[0].1.what.clone()),
    }
}

fn verdict(id: &str, points: Vec<Point>) -> Result<Verdict, String> {
    found(id, points).map(|finding| finding.verdict)
}

fn of(rates: &[(u32, u32, Batch, f64)]) -> Vec<Point> {
    rates.iter().map(|(n, m, k, rate)| point(parameters(*n, *m, *k), *rate)).collect()
}

#[test]
fn what_p1_saw_holds_and_has_the_papers_figures_beside_it() {
    let claims = report(vec![clustered(p1(as_in_p1))]).claims();
    assert_eq!(claims.iter().map(|c| c.id).collect::<Vec<_>>(), ["C4", "C5", "C6", "C7", "C8", "C9", "C22", "C23"]);
    let (disk, cluster): (Vec<Claim>, Vec<Claim>) = claims.into_iter().partition(|claim| claim.id == "C23");
    assert!(disk[0].lacking[0].1.what.starts_with("no rotating disk was measured"), "{:?}", disk[0].lacking);
    for claim in cluster {
        assert_eq!(claim.findings.len(), 1, "{}: {:?}", claim.id, claim.lacking);
        assert_eq!(claim.findings[0].verdict, Holds, "{}: {}", claim.id, claim.findings[0].numbers);
        assert!(!claim.paper.is_empty() && claim.lacking.is_empty());
    }
}

#[test]
fn claims_are_those_about_what_there_is() {
    let ids = |documents| report(documents).claims().iter().map(|c| c.id).collect::<Vec<_>>();
    let (one, many) = (document("a", None, vec![steady(device(), 9.0)]), clustered(Vec::new()));
    assert_eq!(ids(vec![one.clone()]), ["C1", "C2", "C3", "C10", "C11", "C12", "C13"]);
    assert_eq!(
        ids(vec![one, many]),
        ["C1", "C2", "C3", "C4", "C5", "C6", "C7", "C8", "C9", "C10", "C11", "C12", "C13", "C22", "C23"]
    );
    assert_eq!(ids(Vec::new()).len(), 7);
}

#[test]
fn c4_wants_nine_tenths_of_the_limit_with_the_most_links() {
    let at = |rate| verdict("C4", of(&[(1, 1, K1, 300.0), (1, 32, K1, rate)]));
    assert_eq!(at(LIMIT * 0.9), Ok(Holds));
    assert_eq!(at(LIMIT * 0.899), Ok(DoesNotHold));
    assert_eq!(at(LIMIT * 1.2), Ok(Holds), "sorting gains on top");
    // More with fewer links does not help: the claim speaks of many.
    assert_eq!(verdict("C4", of(&[(1, 8, K1, LIMIT), (1, 32, K1, LIMIT / 2.0)])), Ok(DoesNotHold));
    assert_eq!(verdict("C4", of(&[(1, 8, K1, LIMIT)])), Ok(Holds));
    let few = verdict("C4", of(&[(1, 4, K1, LIMIT)])).unwrap_err();
    assert_eq!(few, "k=1 with 1 node was not measured with 8 links or more");
    assert!(verdict("C4", of(&[(2, 32, K1, LIMIT), (1, 32, K10, LIMIT)])).is_err());
    let found = found("C4", of(&[(1, 32, K1, 2_050.0)])).unwrap();
    assert_eq!(found.numbers, "2,050/s with 32 links, 97.6\u{a0}% of the 2,100/s that its flash does");
}

#[test]
fn nothing_can_be_said_without_the_nodes_limit() {
    let mut unknown = cluster(of(&[(1, 32, K1, 2_050.0)]));
    unknown.flash = None;
    let claim = claim("C4", vec![document_of(unknown)]);
    assert!(claim.findings.is_empty());
    assert_eq!(claim.lacking, [(0, "what one node's flash does alone is not known".into())]);
}

#[test]
fn c5_wants_growth_and_nodes_below_their_limit() {
    let at = |rates: [f64; 4]| {
        let points: Vec<_> = [1, 2, 4, 8].iter().zip(rates).map(|(n, rate)| (*n, 8, K1, rate)).collect();
        verdict("C5", of(&points))
    };
    let eight = LIMIT * 8.0;
    assert_eq!(at([2_000.0, 3_000.0, 4_000.0, 5_000.0]), Ok(Holds));
    assert_eq!(at([2_000.0, 3_000.0, 2_910.0, 5_000.0]), Ok(Holds), "3 % less");
    assert_eq!(at([2_000.0, 3_000.0, 2_909.0, 5_000.0]), Ok(DoesNotHold));
    assert_eq!(at([2_000.0, 3_000.0, 2_950.0, 2_905.0]), Ok(DoesNotHold), "in two small steps");
    assert_eq!(at([2_000.0, 2_000.0, 2_100.0, 2_200.0]), Ok(Holds), "a tenth more in all");
    assert_eq!(at([2_000.0, 2_000.0, 2_100.0, 2_199.0]), Ok(DoesNotHold));
    assert_eq!(at([2_000.0, 4_000.0, 8_000.0, eight * 0.899]), Ok(Holds));
    assert_eq!(at([2_000.0, 4_000.0, 8_000.0, eight * 0.9]), Ok(DoesNotHold));
    // The best of all links: more of them would fix it.
    let fixed = of(&[(1, 8, K1, 2_000.0), (8, 8, K1, 5_000.0), (8, 32, K1, eight * 0.95)]);
    assert_eq!(verdict("C5", fixed), Ok(DoesNotHold));
    assert!(verdict("C5", of(&[(1, 8, K1, 9.0)])).is_err(), "one node alone");
    assert!(verdict("C5", of(&[(2, 8, K1, 9.0), (4, 8, K1, 10.0)])).is_err(), "without one node");
    assert!(verdict("C5", of(&[(1, 8, K1, 9.0), (8, 4, K1, 12.0)])).is_err(), "few links");
}

#[test]
fn c5_is_fitted_over_the_model_that_was_fitted_to_it() {
    let of = |profile: &str, gateway, eight| {
        let mut fitted = cluster(of(&[(1, 8, K1, 2_000.0), (8, 8, K1, eight)]));
        let air = fitted.air.as_mut().unwrap();
        (air.profile, air.gateway) = (profile.into(), gateway);
        claim("C5", vec![document_of(fitted)]).findings[0].verdict
    };
    assert_eq!(of("11n-2014", Attachment::Wireless, 5_000.0), Fitted);
    assert_eq!(of("11n-2014", Attachment::Wireless, 1_000.0), DoesNotHold);
    assert_eq!(of("11n-2014", Attachment::Wired, 5_000.0), Holds);
    assert_eq!(of("11n-2014,ampdu=16", Attachment::Wireless, 5_000.0), Holds);
    assert_eq!(of("11n-2014,ampdu=64,loss=1%", Attachment::Wireless, 5_000.0), Fitted);
    assert_eq!(of("11n", Attachment::Wireless, 5_000.0), Holds);
}

#[test]
fn one_repetition_of_a_point_is_too_few() {
    let mut points = of(&[(1, 8, K1, 2_000.0), (8, 8, K1, 5_000.0)]);
    points[1] = Point::new(points[1].parameters.clone(), points[1].repetitions[..1].to_vec(), Some(LIMIT));
    let finding = found("C5", points.clone()).unwrap();
    assert_eq!(finding.verdict, TooFewRepetitions);
    assert!(finding.numbers.ends_with("(1 repetition of the least repeated point, 2 needed)"), "{}", finding.numbers);
    // Void ones do not count.
    let mut two = point(parameters(8, 8, K1), 5_000.0).repetitions[..2].to_vec();
    points[1] = Point::new(points[1].parameters.clone(), two.clone(), Some(LIMIT));
    assert_eq!(verdict("C5", points.clone()), Ok(Holds));
    two[1].is_void = true;
    points[1] = Point::new(points[1].parameters.clone(), two, Some(LIMIT));
    assert_eq!(verdict("C5", points), Ok(TooFewRepetitions));
}

#[test]
fn c5_says_from_how_many_nodes_on() {
    let from = |rates: &[(u32, u32, Batch, f64)]| found("C5", of(rates)).unwrap().numbers;
    let numbers = from(&[(1, 8, K1, LIMIT), (2, 8, K1, 2.0 * LIMIT), (4, 8, K1, 5_000.0), (8, 8, K1, 6_000.0)]);
    assert!(numbers.contains("nodes stay below from n=4 on") && numbers.contains("2.86 times as much"), "{numbers}");
    assert!(from(&[(1, 8, K1, 900.0), (8, 8, K1, 5_000.0)]).contains("one alone too"));
    let falling = from(&[(1, 8, K1, 2_000.0), (2, 8, K1, 1_500.0), (8, 8, K1, 1_000.0)]);
    assert!(falling.contains("it falls from 1 to 2 and from 1 to 8 nodes"), "{falling}");
}

#[test]
fn c6_wants_proportion_at_every_n_and_the_limit_at_eight() {
    let at = |one: f64, four: f64, eight: f64| {
        let mut points = of(&[(1, 8, K10, one), (4, 8, K10, four), (8, 8, K10, eight)]);
        points.extend(of(&[(1, 8, K100, LIMIT), (8, 8, K100, 8.0 * LIMIT)]));
        verdict("C6", points)
    };
    let full = [LIMIT, 4.0 * LIMIT, 8.0 * LIMIT];
    assert_eq!(at(full[0], full[1], full[2]), Ok(Holds));
    assert_eq!(at(full[0], full[1], full[2] * 0.95), Ok(Holds));
    assert_eq!(at(full[0], full[1], full[2] * 0.949), Ok(DoesNotHold));
    assert_eq!(at(full[0], full[1] * 0.9, full[2]), Ok(Holds));
    assert_eq!(at(full[0], full[1] * 0.899, full[2]), Ok(DoesNotHold));
    // Both have to hold, and both to be measured, up to eight nodes.
    let mut points = of(&[(1, 8, K10, LIMIT), (8, 8, K10, 8.0 * LIMIT)]);
    assert_eq!(verdict("C6", points.clone()), Err("k=100 with 1 node was not measured".into()));
    points.extend(of(&[(1, 8, K100, LIMIT), (4, 8, K100, 4.0 * LIMIT)]));
    assert_eq!(verdict("C6", points.clone()), Err("k=100 with 8 nodes was not measured".into()));
    points.extend(of(&[(8, 8, K100, 4.0 * LIMIT)]));
    assert_eq!(verdict("C6", points), Ok(DoesNotHold));
}

#[test]
fn c7_wants_few_links_to_be_enough() {
    let at = |ten: f64, hundred: f64| {
        let mut points = of(&[(8, 8, K10, ten), (8, 32, K10, 1_000.0), (8, 2, K10, 10.0)]);
        points.extend(of(&[(8, 4, K100, hundred), (8, 8, K100, 1_000.0)]));
        verdict("C7", points)
    };
    assert_eq!(at(950.0, 950.0), Ok(Holds));
    assert_eq!(at(949.0, 950.0), Ok(DoesNotHold));
    assert_eq!(at(950.0, 949.0), Ok(DoesNotHold));
    assert_eq!(at(1_200.0, 1_200.0), Ok(Holds), "more links do harm");
    let numbers = found("C7", p1(as_in_p1)).unwrap().numbers;
    assert!(numbers.starts_with("8 nodes: k=10 ") && numbers.contains("saturated from 8 links on; k=100"), "{numbers}");
    assert!(numbers.ends_with("saturated from 4 links on"), "{numbers}");
    let ten = of(&[(8, 8, K10, 9.0), (8, 16, K10, 9.0)]);
    assert!(verdict("C7", ten.clone()).is_err(), "k = 100 is missing");
    let no_more = [ten, of(&[(8, 4, K100, 9.0)])].concat();
    assert_eq!(verdict("C7", no_more), Err("k=100 with 8 nodes was not measured with more than 4 links".into()));
}

#[test]
fn c8_wants_seven_times_without_io() {
    let at = |ten: f64| {
        let rates = [(parameters(8, 1, K1), 100.0), (parameters(8, 8, K1), 1_000.0), (parameters(8, 8, K10), ten)];
        let mut points = rates.map(|(p, rate)| point(without_io(p), rate)).to_vec();
        // With I/O: another matter.
        points.extend(of(&[(8, 8, K1, 1.0), (8, 8, K10, 1_000.0)]));
        verdict("C8", points)
    };
    assert_eq!(at(7_000.0), Ok(Holds));
    assert_eq!(at(6_990.0), Ok(DoesNotHold));
    assert_eq!(
        verdict("C8", of(&[(8, 8, K1, 1.0), (8, 8, K10, 1_000.0)])),
        Err("reads without I/O were not measured".into())
    );
    let numbers = found("C8", p1(as_in_p1)).unwrap().numbers;
    assert!(numbers.starts_with("8 nodes: k=1 7,000/s, k=10 63,000/s, 9 times as many; with equal links"), "{numbers}");
}

#[test]
fn c9_wants_larger_and_fewer_packets() {
    let with = |bytes: [f64; 3], frames: [f64; 3]| {
        let points = BATCHES.iter().enumerate().map(|(nth, batch)| {
            let p = parameters(8, 4, *batch);
            let mut one = crate::tests::cluster_builder::repetition(&p, 1_000.0);
            let packets = one.packets.as_mut().unwrap();
            (packets.data_sent, packets.data_received) = (5_000, 5_000);
            packets.bytes_sent = (bytes[nth] * 5_000.0) as u64;
            packets.bytes_received = packets.bytes_sent;
            one.air.as_mut().unwrap().frames = (frames[nth] * one.requests as f64).round() as u64;
            Point::new(p, vec![one.clone(), one], Some(LIMIT))
        });
        verdict("C9", points.collect())
    };
    assert_eq!(with([40.0, 100.0, 800.0], [4.0, 0.4, 0.05]), Ok(Holds));
    assert_eq!(with([40.0, 100.0, 97.0], [4.0, 0.4, 0.4]), Ok(Holds), "3 % smaller");
    assert_eq!(with([40.0, 100.0, 96.8], [4.0, 0.4, 0.4]), Ok(DoesNotHold));
    assert_eq!(with([40.0, 40.0, 44.0], [4.0, 3.6, 3.6]), Ok(Holds));
    assert_eq!(with([40.0, 40.0, 43.8], [4.0, 3.6, 3.6]), Ok(DoesNotHold), "hardly larger");
    assert_eq!(with([40.0, 50.0, 60.0], [4.0, 3.62, 3.6]), Ok(DoesNotHold), "as many frames");
    assert!(verdict("C9", of(&[(8, 4, K1, 9.0), (8, 4, K10, 9.0)])).is_err());
    assert!(verdict("C9", of(&[(8, 4, K1, 9.0), (8, 2, K10, 9.0), (8, 4, K100, 9.0)])).is_err(), "other links");
}

#[test]
fn void_repetitions_writes_and_more_nodes_never_count() {
    let mut points = p1(as_in_p1);
    // Void ones that would change every verdict.
    for point in &mut points {
        let mut void = point.repetitions[0].clone();
        (void.is_void, void.requests_per_second) = (true, 1e9);
        let repetitions = [point.repetitions.clone(), vec![void]].concat();
        *point = Point::new(point.parameters.clone(), repetitions, Some(LIMIT));
    }
    let judged = |points: Vec<Point>| {
        let claims = report(vec![clustered(points)]).claims();
        claims.iter().filter(|c| c.findings.iter().any(|f| f.verdict == Holds)).count()
    };
    assert_eq!(judged(points.clone()), 7);
    points.extend([point(parameters(16, 32, K1), 1.0), point(parameters(16, 32, K10), 1.0)]);
    assert_eq!(judged(points.clone()), 7, "P1 had eight nodes");
    for p in &mut points {
        p.repetitions.iter_mut().for_each(|r| r.is_void = true);
    }
    let claims = report(vec![clustered(points)]).claims();
    assert!(claims.iter().all(|c| c.findings.is_empty() && c.lacking.len() == 1));
    let written = p1(as_in_p1).into_iter().map(|p| {
        let parameters = Parameters { read_percent: 50.0, ..p.parameters };
        Point::new(parameters, p.repetitions, Some(LIMIT))
    });
    assert_eq!(judged(written.collect()), 0);
}

#[test]
fn the_longest_queue_counts_and_doubts_are_passed_on() {
    let mut short = point(Parameters { outstanding: 1, ..parameters(1, 32, K1) }, 100.0);
    short.warnings.push(Warning::new(Code::Late, "late"));
    let mut full = point(parameters(1, 32, K1), 2_050.0);
    full.warnings.push(Warning::new(Code::WideSpread, "wide"));
    for points in [vec![short.clone(), full.clone()], vec![full, short]] {
        let finding = found("C4", points).unwrap();
        assert_eq!((finding.verdict, finding.doubts), (Holds, vec![Code::WideSpread]));
    }
}

#[test]
fn each_cluster_is_judged_for_itself() {
    let good = clustered(p1(as_in_p1));
    let bad = clustered(p1(|p| as_in_p1(p) / 2.0));
    let claim = claim("C4", vec![document("a", None, Vec::new()), good, bad, clustered(Vec::new())]);
    let verdicts: Vec<_> = claim.findings.iter().map(|f| (f.entries[0], f.verdict)).collect();
    assert_eq!(verdicts, [(1, Holds), (2, DoesNotHold)]);
    assert_eq!(claim.lacking, [(3, "no reads were measured".into())]);
}

#[test]
fn c22_wants_little_from_each_node_more_and_from_links_and_without_io() {
    let of = |eight: f64, half: f64, idle: f64| {
        let mut points = of(&[(1, 16, K1, 1_000.0), (8, 8, K1, half), (8, 16, K1, eight)]);
        points.push(point(without_io(parameters(8, 16, K1)), idle));
        verdict("C22", points).unwrap()
    };
    assert_eq!(of(4_490.0, 4_480.0, 5_000.0), Holds);
    assert_eq!(of(4_500.0, 4_490.0, 5_000.0), DoesNotHold, "each adds half of one");
    assert_eq!([of(3_300.0, 3_000.0, 4_000.0), of(3_310.0, 3_000.0, 4_000.0)], [Holds, DoesNotHold], "links");
    assert_eq!([of(4_000.0, 4_000.0, 5_000.0), of(4_000.0, 4_000.0, 5_010.0)], [Holds, DoesNotHold], "without I/O");
    let few = verdict("C22", super::cluster_tests::of(&[(1, 16, K1, 1_000.0), (4, 16, K1, 2_000.0)]));
    assert_eq!(few, Err("k=1 was not measured with 8 nodes".into()));
}

#[test]
fn c23_sets_the_plain_cluster_against_each_rotating_disk() {
    let disk = |rate| document("hdd", Some(true), vec![steady(random(1, 4), rate)]);
    let of = |rate| {
        let claim = claim("C23", vec![clustered(of(&[(1, 4, K1, 500.0), (8, 4, K1, 1_000.0)])), disk(rate)]);
        (claim.findings[0].verdict, claim.findings[0].entries.clone())
    };
    assert_eq!(of(200.0), (Holds, vec![0, 1]));
    assert_eq!(of(201.0), (DoesNotHold, vec![0, 1]));
}
