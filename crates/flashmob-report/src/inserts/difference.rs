//! Two runs in words: what of the first's writes and syncs vanishes in the second, what comes instead, and what that buys.

use std::collections::BTreeSet;

use flashmob_results::trace::Run;

use super::cost::{Cost, role};
use super::rate;
use crate::words;

/// Counts that differ by less are those of single inserts: a page that splits, a checkpoint.
const SAME: f64 = 0.05;
/// Rates that differ by less are the same in a sentence.
const SAME_RATE: f64 = 0.05;

/// The second against the first, in sentences. Nothing without counts.
#[must_use]
pub fn difference(from: &Run, to: &Run) -> Option<String> {
    let (before, after) = (Cost::of(from)?, Cost::of(to)?);
    let mut sentences = vec![bought(from, to)];
    if before.own == after.own {
        sentences.extend(calls(&before, &after));
    }
    sentences.extend(below(&before, &after));
    Some(sentences.join(" "))
}

/// `3.1 times the inserts/s (980 to 3,040)`.
fn bought(from: &Run, to: &Run) -> String {
    let (before, after) = (rate(from), rate(to));
    let ratio = after / before;
    let rates = format!("{} instead of {}", words::number(after), words::number(before));
    if ratio.max(ratio.recip()) < 1.0 + SAME_RATE {
        format!("As many inserts/s ({rates}).")
    } else if ratio >= 1.0 {
        format!("{} times the inserts/s ({rates}).", words::number(ratio))
    } else {
        format!("{} of the inserts/s ({rates}).", words::percent(ratio))
    }
}

fn calls(before: &Cost, after: &Cost) -> Vec<String> {
    let all: BTreeSet<_> = before.calls.iter().chain(&after.calls).map(|call| (call.0, call.1 as u8)).collect();
    let (mut gone, mut new, mut other) = (Vec::new(), Vec::new(), Vec::new());
    for (kind, number) in all {
        let Some((_, of, _)) = before.calls.iter().chain(&after.calls).find(|c| (c.0, c.1 as u8) == (kind, number))
        else {
            continue;
        };
        let (was, is) = (before.calls(kind, *of), after.calls(kind, *of));
        let [one, many] = kind.words();
        let words = |count: f64| {
            let verb = if (count - 1.0).abs() < SAME { one } else { many };
            format!("{} {verb} {}", words::number(rounded(count)), role(*of))
        };
        if (was - is).abs() < SAME {
        } else if is < SAME {
            gone.push(words(was));
        } else if was < SAME {
            new.push(words(is));
        } else {
            other.push(format!("{} instead of {}", words(is), words::number(rounded(was))));
        }
    }
    let sentence =
        |title: &str, list: Vec<String>| (!list.is_empty()).then(|| format!("{title}{}.", words::list(&list)));
    let same = gone.is_empty() && new.is_empty() && other.is_empty();
    let mut sentences: Vec<String> =
        [sentence("Each insert is spared ", gone), sentence("It makes instead ", new), sentence("It makes ", other)]
            .into_iter()
            .flatten()
            .collect();
    if same {
        sentences.push("Each insert makes the same calls.".into());
    }
    sentences
}

/// What the driver is given.
fn below(before: &Cost, after: &Cost) -> Option<String> {
    let (was, is) = (before.all_commands()?, after.all_commands()?);
    let pair = |is: f64, was: f64, what: &str| {
        let count = words::number(rounded(is));
        if (is - was).abs() < SAME {
            format!("{count} {what} as there")
        } else {
            format!("{count} {what} instead of {}", words::number(rounded(was)))
        }
    };
    Some(format!(
        "The driver gets {} and {} for each; {} are moved instead of {}.",
        pair(is, was, "commands"),
        pair(after.flushes, before.flushes, "flushes"),
        words::bytes(after.bytes.round() as u64),
        words::bytes(before.bytes.round() as u64),
    ))
}

/// Whole where it is nearly so.
fn rounded(count: f64) -> f64 {
    if (count - count.round()).abs() < SAME { count.round() } else { count }
}

#[cfg(test)]
mod tests {
    use flashmob_results::trace::{Layer, Role};

    use super::*;
    use crate::tests::insert_builder::{run, set};

    fn wal() -> Run {
        let mut run = set("ext4", "WAL", "FULL", 3_100.0);
        run.files.retain(|row| !matches!(row.role, Role::Journal | Role::Database | Role::Directory));
        let mut rows: Vec<_> = run.files.iter().filter(|row| row.role == Role::Flush).cloned().collect();
        run.files.retain(|row| row.role != Role::Flush && row.role != Role::FilesystemJournal);
        let mut row = rows.remove(0);
        for (layer, work, count) in [(Layer::SystemCall, "pwrite64", 2_000), (Layer::SystemCall, "fdatasync", 1_000)] {
            (row.role, row.layer, row.work, row.count, row.bytes) = (Role::Wal, layer, work.into(), count, 0);
            run.files.push(row.clone());
        }
        (row.layer, row.work, row.count, row.bytes) = (Layer::Driver, "write".into(), 1_000, 4_096_000);
        run.files.push(row);
        run
    }

    #[test]
    fn what_vanishes_what_comes_and_what_it_buys_are_said() {
        assert_eq!(
            difference(&run("ext4"), &wal()).unwrap(),
            "3.1 times the inserts/s (3,100 instead of 1,000). Each insert is spared 2 writes to the database, 8 writes to the journal, \
             1 sync of the database, 2 syncs of the journal and 1 sync of the folder. It makes instead 2 writes to the log (WAL) and \
             1 sync of the log (WAL). The driver gets 1 commands instead of 11 and 0 flushes instead of 2 for each; 4 KiB are moved instead of 66.6 KiB."
        );
    }

    #[test]
    fn what_is_equal_is_said_to_be() {
        let text = difference(&run("ext4"), &set("xfs", "DELETE", "FULL", 1_020.0)).unwrap();
        assert!(
            text.starts_with("As many inserts/s (1,020 instead of 1,000). Each insert makes the same calls."),
            "{text}"
        );
        assert!(text.contains("11 commands as there and 2 flushes as there"), "{text}");
        let slow = difference(&run("ext4"), &set("xfs", "DELETE", "FULL", 500.0)).unwrap();
        assert!(slow.starts_with("50\u{a0}% of the inserts/s"), "{slow}");
    }

    #[test]
    fn without_the_kernel_there_is_still_something_to_say() {
        let own = |run: &Run| {
            let mut run = run.clone();
            run.files.retain(|row| row.layer == Layer::SystemCall);
            for row in &mut run.files {
                row.layer = Layer::Sqlite;
                row.work = if row.work == "pwrite64" { "xWrite".into() } else { "xSync".into() };
            }
            run
        };
        let text = difference(&own(&run("ext4")), &own(&wal())).unwrap();
        assert!(text.contains("Each insert is spared 2 writes to the database") && !text.contains("driver"), "{text}");
        // Unlike cannot be compared.
        let text = difference(&own(&run("ext4")), &wal()).unwrap();
        assert_eq!(text, "3.1 times the inserts/s (3,100 instead of 1,000).");
    }
}
