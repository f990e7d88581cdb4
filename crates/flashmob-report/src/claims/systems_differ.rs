//! C18: inserts each second differ greatly between systems on like hardware.
//!
//! Two systems or more on devices with equal processors, INSERTs as P5 made them: the slowest does 66 % of the fastest or less, which is the lesser of the
//! paper's two differences, and the two are apart. Each is
//! measured three times or more, in turn with the others, and its own repetitions lie within 1.5 times; otherwise there is no verdict. Rates are those without tracing where they were measured,
//! medians over the pairs. A system is a kernel with a file system and what matters of its options; whether it
//! differs for the reason that P5 found is for C19 to C21 to say.

use std::collections::BTreeSet;

use flashmob_results::disk::Spread;

use super::traces::{Insert, each_hardware, told};
use super::{Definition, Finding, Verdict, on_phone};
use crate::inserts::{rate, rates};
use crate::stats::apart;
use crate::words;

/// P5's phone and its Android-x86 lay 34 % apart.
const LEFT_MAX: f64 = 0.66;
/// Rates of each system, measured in turn: with fewer, a change of the machine's load may be taken for one of the system.
const REPETITIONS_MIN: usize = 3;
/// Fastest and slowest repetition of one system: further apart, the machine has changed more than the systems are to differ.
const UNLIKE_MAX: f64 = 1.5;

pub(super) const CLAIM: Definition = Definition {
    id: "C18",
    source: "P5, Fig. 1",
    words: "Inserts per second differ greatly between systems on like hardware.",
    short: "Systems differ in inserts/s",
    criterion: "Journal mode DELETE, synchronous FULL, two systems or more on equal processors: the slowest does 66 % of the fastest or less, and their repetitions, three or more each, are apart.",
    paper: "Android-x86 does about 45 % less than Linux on the same PC, and 34 % less than the phone",
    on_phone: on_phone::P5_ON_TWO,
    judge: |entries| each_hardware(entries, |systems| Ok(of_group(systems))),
    ..Definition::TRACE
};

fn of_group(group: &[Insert]) -> Finding {
    let mut sorted: Vec<&Insert> = group.iter().collect();
    sorted.sort_by(|a, b| rate(b.run).total_cmp(&rate(a.run)));
    // A group has two at least.
    let (fastest, slowest) = (sorted[0], sorted[sorted.len() - 1]);
    let left = rate(slowest.run) / rate(fastest.run);
    let (many, few) = (rates(fastest.run), rates(slowest.run));
    let least = many.len().min(few.len());
    let are_apart = apart(&many, &few);
    let unlike = [&many, &few].map(|rates| Spread::of(rates.iter().copied())).map(|s| s.max / s.min);
    let unlike = unlike[0].max(unlike[1]);
    let entries: Vec<usize> = group.iter().map(|i| i.at).collect::<BTreeSet<usize>>().into_iter().collect();
    let each: Vec<String> = sorted.iter().map(|i| told(i, rate(i.run), entries.len() > 1)).collect();
    let numbers = format!(
        "{}: the slowest does {} of the fastest ({} times){}",
        words::list(&each),
        words::percent(left),
        words::number(left.recip()),
        if are_apart || least < REPETITIONS_MIN { "" } else { ", but their repetitions are not apart" },
    );
    let runs: Vec<_> = group.iter().map(|i| i.run).collect();
    let finding =
        Finding::of_runs(&entries, left <= LEFT_MAX && are_apart, numbers, &runs).needing(REPETITIONS_MIN, Some(least));
    if finding.verdict == Verdict::TooFewRepetitions || unlike <= UNLIKE_MAX {
        return finding;
    }
    let numbers = format!(
        "{}; repetitions of one system differ by a factor of {}, which is too much for a verdict",
        finding.numbers,
        words::number(unlike)
    );
    Finding { verdict: Verdict::TooFewRepetitions, numbers, ..finding }
}
