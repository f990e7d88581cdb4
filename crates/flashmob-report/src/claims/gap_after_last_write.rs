//! C20: the gap lies after the database write, before the next insert; more driver commands are issued there.
//!
//! The time from one insert's begin to the next one's, parted where the last write to the database has returned. It holds if the later part is more than
//! half of it, and more commands of the driver are issued in it than in the earlier one. Both are what the words say, without a margin: sums over all
//! inserts whose timeline was looked at.

use super::traces::{Insert, each};
use super::{Definition, Finding, Missing};
use crate::words;

pub(super) const CLAIM: Definition = Definition {
    id: "C20",
    source: "P5, Fig. 2, 3",
    words: "The gap lies after the database write, before the next insert; more driver commands are issued there.",
    short: "The gap is after the database write",
    criterion: "Journal mode DELETE, synchronous FULL: from the return of the last write to the database to the next insert is more than half of the time from insert to insert, and more driver commands are issued then than before.",
    paper: "timelines of single inserts (no figures in the text)",
    judge: |entries| each(entries, judged),
    ..Definition::TRACE
};

fn judged(insert: &Insert) -> Result<Finding, Missing> {
    let sum = insert.run.after_last_write.filter(|sum| sum.operations > 0);
    let sum = sum.ok_or("no write to the database was seen within an insert")?;
    let all_ns = sum.before_ns.saturating_add(sum.after_ns);
    let each = |value: u64| value as f64 / sum.operations as f64;
    let time = format!(
        "of {} from insert to insert {} ({}) lie after the last write to the database",
        words::time_ns(each(all_ns)),
        words::time_ns(each(sum.after_ns)),
        words::percent(sum.after_ns as f64 / all_ns.max(1) as f64),
    );
    let (Some(before), Some(after)) = (sum.commands_before, sum.commands_after) else {
        return Err(format!("{time}; the driver's commands were not seen"));
    };
    let numbers = format!(
        "{time}, with {} of the driver's {} commands ({})",
        words::number(each(after)),
        words::number(each(before.saturating_add(after))),
        words::plural(sum.operations, "insert"),
    );
    Ok(Finding::of_runs(&[insert.at], sum.after_ns > sum.before_ns && after > before, numbers, &[insert.run]))
}
