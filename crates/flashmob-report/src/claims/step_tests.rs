//! C13 at, below and above its limits.

use flashmob_results::disk::{Operation, Parameters, Pattern, Point};
use flashmob_results::trace::{Commands, Steps};

use super::Finding;
use super::Verdict::{DoesNotHold, Holds};
use crate::tests::builder::{document, parameters, pattern, report, scheduler, steady};

/// Such a point whose steps upward and downward took so many microseconds, of 1,000 the given share upward.
fn stepping(p: Parameters, upward_us: f64, downward_us: f64, share: f64) -> Point {
    let steps = |count: f64, p50_us| Some(Steps { count: count.round() as u64, p50_us, mean_us: p50_us });
    let commands = Commands {
        count: 1_001,
        forward: steps(1_000.0 * share, upward_us),
        backward: steps(1_000.0 * (1.0 - share), downward_us),
        list: Vec::new(),
    };
    Point { commands: Some(commands), ..steady(p, 100.0) }
}

fn findings(points: Vec<Point>) -> Vec<Finding> {
    let claims = report(vec![document("a", None, points)]).claims();
    claims.into_iter().find(|claim| claim.id == "C13").unwrap().findings
}

fn verdicts(points: Vec<Point>) -> Vec<super::Verdict> {
    findings(points).iter().map(|finding| finding.verdict).collect()
}

#[test]
fn c13_wants_steps_downward_slower_by_a_tenth() {
    let of = |down| verdicts(vec![stepping(parameters(), 100.0, down, 0.5)]);
    assert_eq!([of(110.1), of(140.0)].concat(), [Holds, Holds]);
    assert_eq!([of(109.9), of(100.0), of(50.0)].concat(), [DoesNotHold; 3]);
    let found = findings(vec![stepping(parameters(), 100.0, 100.0, 0.5)]);
    assert_eq!(found[0].numbers, "100 us upward, 100 us downward (1 times; 50\u{a0}% of steps upward); not 1.1 times");
    // A single scheduler is judged by times alone, and that is said.
    let found = findings(vec![stepping(scheduler("none"), 100.0, 140.0, 0.5)]);
    assert_eq!(
        found[0].numbers,
        "none 100 us upward, 140 us downward (1.4 times; 50\u{a0}% of steps upward). \
         Shares of schedulers were not compared: mq-deadline and another one were not both seen"
    );
}

#[test]
fn c13_wants_most_steps_upward_under_mq_deadline() {
    let of = |deadline, others: &[(&str, f64)]| {
        let mut points = vec![stepping(scheduler("mq-deadline"), 100.0, 140.0, deadline)];
        points.extend(others.iter().map(|(name, share)| stepping(scheduler(name), 100.0, 140.0, *share)));
        findings(points)
    };
    assert_eq!(of(0.80, &[("none", 0.5), ("bfq", 0.5)])[0].verdict, Holds);
    assert_eq!(of(0.56, &[("none", 0.5), ("bfq", 0.5)])[0].verdict, Holds);
    let found = &of(0.54, &[("none", 0.5), ("bfq", 0.4)])[0];
    assert_eq!(found.verdict, DoesNotHold);
    assert!(
        found.numbers.ends_with("mq-deadline's share of 54\u{a0}% is not 5 points above that of none"),
        "{}",
        found.numbers
    );
    assert_eq!(of(0.5, &[("none", 0.9)])[0].verdict, DoesNotHold);
    // Upward steps that cost the same are no help, however many there are.
    let equal =
        vec![stepping(scheduler("mq-deadline"), 100.0, 140.0, 0.9), stepping(scheduler("none"), 100.0, 105.0, 0.5)];
    let found = &findings(equal)[0];
    assert_eq!(found.verdict, DoesNotHold);
    assert!(found.numbers.contains("; not 1.1 times with none"), "{}", found.numbers);
}

#[test]
fn c13_says_nothing_without_commands_or_with_too_few() {
    assert_eq!(verdicts(vec![steady(parameters(), 100.0)]), []);
    assert_eq!(verdicts(vec![stepping(parameters(), 100.0, 140.0, 0.95)]), [], "50 steps downward");
    assert_eq!(verdicts(vec![stepping(parameters(), 100.0, 140.0, 0.9)]), [Holds], "100 are enough");
    assert_eq!(verdicts(vec![stepping(pattern(Pattern::Sequential), 100.0, 140.0, 0.5)]), []);
    assert_eq!(verdicts(vec![stepping(pattern(Pattern::Sort), 100.0, 140.0, 0.5)]), []);
    let writes = Parameters { operation: Operation::Write, ..parameters() };
    assert_eq!(verdicts(vec![stepping(writes, 100.0, 140.0, 0.5)]), []);
    for (up, down) in [(0.0, 5.0), (f64::NAN, 5.0), (5.0, f64::INFINITY)] {
        assert_eq!(verdicts(vec![stepping(parameters(), up, down, 0.5)]), [], "{up} {down}");
    }
    let deep = Parameters { depth: 8, ..parameters() };
    assert_eq!(verdicts(vec![stepping(deep, 100.0, 140.0, 0.5)]), [Holds], "the device is looked at, not the load");
}
