//! Each claim at, below and above its limits.

use flashmob_results::Document;
use flashmob_results::disk::{Cache, Engine, Parameters, Pattern, Point};

use super::Verdict::{DoesNotHold, Holds, TooFewRepetitions};
use super::{Finding, Verdict};
use crate::tests::builder::{
    document, flat_after_four, grid, modelled, parameters, pattern, point, random, report, scheduler, steady,
};

fn findings(id: &str, mut documents: Vec<Document>) -> Vec<Finding> {
    if id == "C2" {
        documents.iter_mut().for_each(on_a_tablet);
    }
    let claims = report(documents).claims();
    claims.into_iter().find(|claim| claim.id == id).unwrap().findings
}

fn on_a_tablet(document: &mut Document) {
    document.device.system = Some("Android 5.1".into());
}

/// The verdicts on one device with these points.
fn verdicts(id: &str, points: Vec<Point>) -> Vec<Verdict> {
    findings(id, vec![document("a", Some(false), points)]).into_iter().map(|f| f.verdict).collect()
}

fn rates(rates: &[(u32, f64)]) -> Vec<Point> {
    rates.iter().map(|(threads, rate)| steady(random(4_096, *threads), *rate)).collect()
}

#[test]
fn c1_compares_each_flash_device_with_each_disk() {
    let flash = |rate| document("flash", Some(false), rates(&[(1, rate / 2.0), (4, rate)]));
    let disk = |rate| document("disk", Some(true), rates(&[(1, rate)]));
    let of = |documents| findings("C1", documents).into_iter().map(|f| f.verdict).collect::<Vec<_>>();
    assert_eq!(of(vec![flash(2_000.0), disk(100.0)]), [Holds]);
    assert_eq!(of(vec![flash(111.0), disk(100.0)]), [Holds]);
    assert_eq!(of(vec![flash(110.0), disk(100.0)]), [DoesNotHold]);
    assert_eq!(of(vec![flash(50.0), disk(100.0)]), [DoesNotHold]);
    assert_eq!(
        of(vec![flash(2_000.0), disk(100.0), flash(90.0), modelled("hdd", rates(&[(1, 80.0)]))]),
        [Holds, Holds, DoesNotHold, Holds]
    );
    assert_eq!(of(vec![flash(2_000.0)]), []);
    assert_eq!(of(vec![flash(2_000.0), document("unknown", None, rates(&[(1, 1.0)]))]), []);
    assert_eq!(of(vec![modelled("emmc", rates(&[(1, 900.0)])), disk(100.0)]), [Holds]);
    // No block size in common.
    assert_eq!(of(vec![flash(2_000.0), document("disk", Some(true), vec![steady(random(512, 1), 1.0)])]), []);
    // A disk within a narrow range is no match for flash over a wide one.
    let narrow = steady(Parameters { range_bytes: 1 << 20, ..parameters() }, 5_000.0);
    let mut of_disk = rates(&[(1, 100.0)]);
    of_disk.push(narrow);
    assert_eq!(of(vec![flash(2_000.0), document("disk", Some(true), of_disk)]), [Holds]);
    let found = findings("C1", vec![flash(2_000.0), disk(100.0)]);
    assert!(
        found[0].numbers.contains("at 4 KiB: 2,000/s (4 threads) on flash against 100/s (1 thread)"),
        "{}",
        found[0].numbers
    );
}

#[test]
fn c1_does_not_take_a_virtual_disk_for_one_that_turns() {
    let flash = || document("flash", Some(false), rates(&[(4, 2_000.0)]));
    let of = |disk: Option<&str>, disk_model: Option<&str>| {
        let mut document = document("disk", Some(true), rates(&[(4, 100.0)]));
        let flashmob_results::Measurement::Disk(measured) = &mut document.measurement else { panic!("a disk") };
        let place = &mut measured.file.as_mut().unwrap().place;
        (place.disk, place.disk_model) = (disk.map(String::from), disk_model.map(String::from));
        findings("C1", vec![flash(), document]).len()
    };
    // virtio says of every disk that it turns, unless somebody set it otherwise.
    assert_eq!([of(Some("vda"), None), of(Some("xvdb"), None), of(Some("sda"), Some("QEMU HARDDISK"))], [0, 0, 0]);
    assert_eq!([of(Some("sda"), Some("ST3000DM001")), of(None, None)], [1, 1]);
}

#[test]
fn what_fails_within_the_spread_says_so() {
    let wide = |p: Parameters, rate: f64| point(p, &[rate * 0.3, rate, rate * 3.0]);
    let flash = document("flash", Some(false), vec![wide(random(4_096, 4), 300.0), steady(random(512, 4), 900.0)]);
    let disk = document("disk", Some(true), vec![wide(random(4_096, 4), 100.0), steady(random(512, 4), 100.0)]);
    let numbers = |id: &str, documents: Vec<Document>| {
        let found = findings(id, documents);
        assert_eq!(found[0].verdict, DoesNotHold);
        found[0].numbers.clone()
    };
    let text = numbers("C1", vec![flash, disk]);
    assert!(text.ends_with("3 times as many; flash is not faster by 10 % and the spread at 4 KiB"), "{text}");
    let points = vec![wide(pattern(Pattern::Sequential), 300.0), wide(parameters(), 100.0)];
    let text = numbers("C10", vec![document("a", None, points)]);
    assert!(text.ends_with("3 times as fast, but within the spread"), "{text}");
    let points =
        vec![wide(scheduler("mq-deadline"), 120.0), wide(scheduler("kyber"), 100.0), steady(scheduler("bfq"), 9.0)];
    let text = numbers("C12", vec![document("a", None, points)]);
    assert!(text.ends_with("; mq-deadline is not faster than kyber by 10 % and the spread"), "{text}");
}

#[test]
fn what_another_result_of_the_device_has_is_not_missing() {
    let orders = [(Pattern::Sort, 900.0), (Pattern::Shuffle, 700.0)].map(|(p, rate)| steady(pattern(p), rate));
    let mut documents = vec![
        document("tablet", None, rates(&[(1, 100.0), (4, 300.0), (8, 300.0)])),
        document("tablet", None, orders.to_vec()),
        document("pc", None, Vec::new()),
    ];
    documents.iter_mut().for_each(on_a_tablet);
    let claims = report(documents).claims();
    let without = |id: &str| claims.iter().find(|c| c.id == id).unwrap().without.clone();
    assert_eq!((without("C2"), without("C11"), without("C12")), (vec![2], vec![2], vec![0, 1, 2]));
}

#[test]
fn c2_is_about_tablets() {
    let points = || rates(&[(1, 100.0), (4, 300.0), (8, 300.0)]);
    let of = |document: Document| {
        let claims = report(vec![document]).claims();
        let c2 = claims.into_iter().find(|claim| claim.id == "C2").unwrap();
        (c2.findings.len(), c2.lacking.iter().any(|(_, missing)| missing.what.contains("about tablets")))
    };
    assert_eq!(of(document("pc", Some(false), points())), (0, true));
    assert_eq!(of(modelled("nexus7-emmc", points())), (1, false));
    assert_eq!(of(modelled("hdd", points())), (0, true));
}

#[test]
fn c2_wants_growth_up_to_four_and_none_beyond() {
    let of = |four, eight, thirty_two| {
        verdicts("C2", rates(&[(1, 100.0), (2, 120.0), (4, four), (8, eight), (32, thirty_two)]))
    };
    assert_eq!(of(300.0, 300.0, 300.0), [Holds]);
    assert_eq!(of(150.0, 150.0, 150.0), [Holds]);
    assert_eq!(of(149.0, 149.0, 149.0), [DoesNotHold]);
    assert_eq!(of(300.0, 360.0, 240.0), [Holds]);
    assert_eq!(of(300.0, 361.0, 300.0), [DoesNotHold]);
    assert_eq!(of(300.0, 300.0, 239.0), [DoesNotHold]);
    // Without 1, 4, or anything from 8 on, nothing can be said.
    assert_eq!(verdicts("C2", rates(&[(1, 100.0), (4, 300.0)])), []);
    assert_eq!(verdicts("C2", rates(&[(1, 100.0), (8, 300.0)])), []);
    assert_eq!(verdicts("C2", rates(&[(4, 100.0), (8, 300.0)])), []);
}

#[test]
fn c2_says_how_far_it_grows_and_at_which_block_sizes_it_fails() {
    let growing = document("a", None, rates(&[(1, 100.0), (4, 400.0), (8, 800.0), (16, 1_600.0), (32, 1_700.0)]));
    let found = findings("C2", vec![growing]);
    assert!(found[0].numbers.contains("grows up to 16 threads"), "{}", found[0].numbers);
    let mut points = grid(&[1, 4_096], &[1, 4, 8], 100.0, flat_after_four);
    points.extend([1, 4, 8].map(|t| steady(random(16_384, t), 100.0)));
    let found = findings("C2", vec![document("a", None, points)]);
    assert_eq!(found[0].verdict, DoesNotHold);
    assert!(found[0].numbers.starts_with("not at 16 KiB (of 3 block sizes)"), "{}", found[0].numbers);
}

#[test]
fn c3_allows_no_more_than_fifteen_percent_above_the_block() {
    let of = |small| verdicts("C3", vec![steady(random(512, 4), small), steady(random(4_096, 4), 1_000.0)]);
    assert_eq!([of(1_000.0), of(1_149.0), of(500.0)].concat(), [Holds, Holds, Holds]);
    assert_eq!(of(1_151.0), [DoesNotHold]);
    // Other threads, larger blocks, or no whole block: nothing to compare with.
    assert_eq!(verdicts("C3", vec![steady(random(512, 1), 1.0), steady(random(4_096, 4), 1.0)]), []);
    assert_eq!(verdicts("C3", vec![steady(random(8_192, 4), 9.0), steady(random(4_096, 4), 1.0)]), []);
}

#[test]
fn c10_wants_twice_the_bytes() {
    let of = |sequential| {
        verdicts("C10", vec![steady(pattern(Pattern::Sequential), sequential), steady(parameters(), 100.0)])
    };
    assert_eq!([of(1_000.0), of(200.0)].concat(), [Holds, Holds]);
    assert_eq!([of(199.0), of(100.0), of(10.0)].concat(), [DoesNotHold; 3]);
    let wide =
        vec![point(pattern(Pattern::Sequential), &[50.0, 300.0, 300.0]), point(parameters(), &[20.0, 100.0, 120.0])];
    assert_eq!(verdicts("C10", wide), [DoesNotHold], "ranges that touch");
    let four = Parameters { threads: 4, ..pattern(Pattern::Sequential) };
    assert_eq!(verdicts("C10", vec![steady(four, 900.0), steady(parameters(), 100.0)]), []);
    let elsewhere = Parameters { range_bytes: 1 << 20, ..parameters() };
    assert_eq!(verdicts("C10", vec![steady(pattern(Pattern::Sequential), 900.0), steady(elsewhere, 100.0)]), []);
}

#[test]
fn c11_wants_a_difference_beyond_ten_percent_and_the_spread() {
    let of = |sort: &[f64], shuffle: &[f64]| {
        verdicts("C11", vec![point(pattern(Pattern::Sort), sort), point(pattern(Pattern::Shuffle), shuffle)])
    };
    assert_eq!(of(&[111.0, 112.0, 111.0, 112.0], &[100.0, 100.0, 101.0, 100.0]), [Holds]);
    assert_eq!(of(&[100.0; 5], &[112.0; 5]), [Holds]);
    assert_eq!(of(&[109.0; 5], &[100.0; 5]), [DoesNotHold], "nine percent");
    assert_eq!(of(&[60.0, 120.0, 180.0, 130.0], &[50.0, 100.0, 150.0, 101.0]), [DoesNotHold], "within the spread");
    assert_eq!(of(&[130.0, 120.0, 101.0], &[100.0, 90.0, 80.0]), [Holds]);
    assert_eq!(of(&[130.0, 120.0, 100.0], &[100.0, 90.0, 80.0]), [DoesNotHold], "ranges that touch");
    assert_eq!(verdicts("C11", vec![point(pattern(Pattern::Sort), &[1.0])]), []);
    let found = findings(
        "C11",
        vec![document(
            "a",
            None,
            vec![point(pattern(Pattern::Sort), &[9.0]), point(pattern(Pattern::Shuffle), &[5.0])],
        )],
    );
    assert_eq!(found[0].verdict, TooFewRepetitions);
    assert!(found[0].numbers.ends_with("(1 repetition of the least repeated point, 2 needed)"), "{}", found[0].numbers);
}

#[test]
fn c12_wants_deadline_ahead_of_every_other() {
    let of = |rates: &[(&str, f64)]| {
        verdicts("C12", rates.iter().map(|(name, rate)| steady(scheduler(name), *rate)).collect())
    };
    assert_eq!(of(&[("none", 100.0), ("mq-deadline", 113.0), ("bfq", 90.0)]), [Holds]);
    assert_eq!(of(&[("none", 100.0), ("mq-deadline", 110.0)]), [DoesNotHold]);
    assert_eq!(of(&[("none", 50.0), ("mq-deadline", 113.0), ("kyber", 110.0)]), [DoesNotHold]);
    assert_eq!(of(&[("none", 100.0), ("bfq", 90.0)]), [], "without mq-deadline");
    assert_eq!(of(&[("mq-deadline", 90.0)]), [], "alone");
}

#[test]
fn c12_tells_the_mechanism_where_it_was_counted() {
    let with = |name: &str, rate, upward| {
        let mut point = steady(scheduler(name), rate);
        point.repetitions.iter_mut().for_each(|r| r.upward_fraction = Some(upward));
        point
    };
    let numbers = |upward| {
        findings("C12", vec![modelled("emmc", vec![with("none", 100.0, 0.5), with("mq-deadline", 150.0, upward)])])[0]
            .numbers
            .clone()
    };
    assert!(
        numbers(0.8).contains("mq-deadline 80\u{a0}%, none 50\u{a0}% (more than under every other"),
        "{}",
        numbers(0.8)
    );
    assert!(numbers(0.5).contains("(not more than under every other"), "{}", numbers(0.5));
}

#[test]
fn warm_reads_deep_ones_and_those_that_failed_never_count() {
    let all = |change: &dyn Fn(Parameters) -> Parameters| -> Vec<Point> {
        let mut points: Vec<Point> = [1, 4, 8].map(|t| steady(change(random(4_096, t)), f64::from(t) * 100.0)).to_vec();
        points.push(steady(change(random(512, 1)), 100.0));
        points
            .extend([Pattern::Sequential, Pattern::Sort, Pattern::Shuffle].map(|p| steady(change(pattern(p)), 900.0)));
        points.extend(["none", "mq-deadline"].map(|name| steady(change(scheduler(name)), 100.0)));
        points
    };
    let measured = |points: Vec<Point>| {
        let disk = modelled("hdd", points.clone());
        let mut tablet = document("a", Some(false), points);
        on_a_tablet(&mut tablet);
        let claims = report(vec![tablet, disk]).claims();
        claims.iter().filter(|claim| !claim.findings.is_empty()).count()
    };
    assert_eq!(measured(all(&|p| p)), 6);
    assert_eq!(measured(all(&|p| Parameters { cache: Cache::Direct, ..p })), 6);
    assert_eq!(measured(all(&|p| Parameters { cache: Cache::Warm, ..p })), 0);
    assert_eq!(measured(all(&|p| Parameters { engine: Engine::IoUring, depth: 8, ..p })), 0);
    assert_eq!(measured(all(&|p| p).into_iter().map(|p| point(p.parameters, &[0.0; 5])).collect()), 0);
}

#[test]
fn several_settings_of_one_device_are_judged_apart_and_named() {
    let direct = |p: Parameters| Parameters { cache: Cache::Direct, ..p };
    let mut points = rates(&[(1, 100.0), (4, 300.0), (8, 300.0)]);
    points.extend([1, 4, 8].map(|t| steady(direct(random(4_096, t)), 100.0)));
    let found = findings("C2", vec![document("a", Some(false), points)]);
    let words: Vec<(&str, Verdict)> = found.iter().map(|f| (f.setting.as_str(), f.verdict)).collect();
    assert_eq!(words, [("page cache cold, range 1 GiB", Holds), ("direct, range 1 GiB", DoesNotHold)]);
}

#[test]
fn results_without_data_are_named_and_doubts_are_passed_on() {
    let mut points = rates(&[(1, 100.0), (4, 300.0), (8, 300.0)]);
    points[1]
        .warnings
        .push(flashmob_results::warning::Warning::new(flashmob_results::warning::Code::OtherIo, "others"));
    let mut documents = [document("a", None, points), document("b", None, Vec::new())];
    documents.iter_mut().for_each(on_a_tablet);
    let claims = report(documents.to_vec()).claims();
    let c2 = claims.iter().find(|claim| claim.id == "C2").unwrap();
    assert_eq!((c2.without.as_slice(), c2.findings[0].doubts.len()), ([1].as_slice(), 1));
}
