//! C18: inserts each second differ greatly between systems on like hardware.
//!
//! Two systems or more on devices with equal processors, INSERTs as P5 made them: the slowest does 66 % of the fastest or less, which is the lesser of the
//! paper's two differences, and the two are apart where each was measured several times. Rates are those without tracing where they were measured,
//! medians over the pairs. A system is a kernel with a file system and what matters of its options; whether it
//! differs for the reason that P5 found is for C19 to C21 to say.

use std::collections::BTreeSet;

use super::traces::{Insert, like_p5, nothing, told};
use super::{Definition, Finding, Judged};
use crate::entry::Entry;
use crate::inserts::{rate, rates, system};
use crate::stats::apart;
use crate::words;

/// P5's phone and its Android-x86 lay 34 % apart.
const LEFT_MAX: f64 = 0.66;
/// Rates of one system that rank tests and ranges can work with.
const SEVERAL: usize = 2;

pub(super) const CLAIM: Definition = Definition {
    id: "C18",
    source: "P5, Fig. 1",
    words: "Inserts per second differ greatly between systems on like hardware.",
    short: "Systems differ in inserts/s",
    criterion: "Journal mode DELETE, synchronous FULL, two systems or more on equal processors: the slowest does 66 % of the fastest or less, and their repetitions are apart.",
    paper: "Android-x86 does about 45 % less than Linux on the same PC, and 34 % less than the phone",
    judge: judged,
    ..Definition::TRACE
};

fn judged(entries: &[Entry]) -> Judged {
    let mut judged = Judged::default();
    let all = like_p5(entries);
    let mut groups: Vec<Vec<Insert>> = Vec::new();
    for insert in &all {
        match groups.iter_mut().find(|group| hardware(group[0].entry) == hardware(insert.entry)) {
            Some(group) if group.iter().any(|other| same_system(other, insert)) => {}
            Some(group) => group.push(*insert),
            None => groups.push(vec![*insert]),
        }
    }
    for group in groups {
        if group.len() > 1 {
            judged.findings.push(of_group(&group));
        } else {
            judged.missing.push((group[0].at, "one system alone was traced on this hardware".into()));
        }
    }
    let is_told = |at: &usize| all.iter().any(|insert| insert.at == *at);
    let silent = (0..entries.len()).filter(|at| entries[*at].trace().is_some() && !is_told(at));
    judged.missing.extend(silent.map(|at| (at, nothing())));
    judged
}

/// Equal for comparable hardware.
fn hardware(entry: &Entry) -> (Option<&str>, Option<&str>, u32) {
    let device = &entry.document.device;
    let what = device.cpu.as_deref().or(device.model.as_deref());
    (what, device.architecture.as_deref(), device.cpus)
}

fn same_system(a: &Insert, b: &Insert) -> bool {
    let of = |insert: &Insert| {
        let s = &insert.run.system;
        (insert.entry.document.device.system.clone(), s.kernel.clone(), system(insert.run))
    };
    of(a) == of(b)
}

fn of_group(group: &[Insert]) -> Finding {
    let mut sorted: Vec<&Insert> = group.iter().collect();
    sorted.sort_by(|a, b| rate(b.run).total_cmp(&rate(a.run)));
    // A group has two at least.
    let (fastest, slowest) = (sorted[0], sorted[sorted.len() - 1]);
    let left = rate(slowest.run) / rate(fastest.run);
    let (many, few) = (rates(fastest.run), rates(slowest.run));
    let are_apart = many.len().min(few.len()) < SEVERAL || apart(&many, &few);
    let entries: Vec<usize> = group.iter().map(|i| i.at).collect::<BTreeSet<usize>>().into_iter().collect();
    let each: Vec<String> = sorted.iter().map(|i| told(i, rate(i.run), entries.len() > 1)).collect();
    let numbers = format!(
        "{}: the slowest does {} of the fastest ({} times){}",
        words::list(&each),
        words::percent(left),
        words::number(left.recip()),
        if are_apart { "" } else { ", but their repetitions are not apart" },
    );
    let runs: Vec<_> = group.iter().map(|i| i.run).collect();
    let single = many.len().min(few.len()) < SEVERAL;
    Finding { single, ..Finding::of_runs(&entries, left <= LEFT_MAX && are_apart, numbers, &runs) }
}
