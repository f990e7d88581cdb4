//! C20: between systems, the difference lies after the write of the database and before the next insert, and there the slower one issues more driver commands.
//!
//! The slowest and the fastest of two systems or more on equal hardware. The time from one insert's begin to the next one's is parted where the last write
//! to the database has returned. It holds if the writes to the journal, from the first to the last, take about as long on both (within 25 %: their sizes and
//! so their times are alike), if more than half of what the slower one takes longer lies in the later part, and if it issues more commands there.
//! P5's 67 % are that much longer a later part; it is shown and not asked for, because it is a figure of two systems of 2009. Sums over all rounds, two or more.

use super::traces::{Insert, each_hardware, told};
use super::{Definition, Finding, Missing, REPETITIONS_MIN, on_phone};
use crate::inserts::rate;
use crate::words;
use flashmob_results::trace::AfterLastWrite;

/// Of two times that are about as long, the longer has at most so many of the shorter.
const ALIKE_MAX: f64 = 1.25;
/// Systems that are closer have no difference that could lie anywhere.
const DIFFERENCE_MIN: f64 = 1.10;

pub(super) const CLAIM: Definition = Definition {
    id: "C20",
    source: "P5, Fig. 2, 3",
    words: "Two systems take about as long from the first journal write to the second; their difference lies between the write of the database and the next insert, where the slower one issues more driver commands.",
    short: "Systems differ after the database write",
    criterion: "Journal mode DELETE, synchronous FULL, the slowest and the fastest system on equal processors: their writes to the journal, from first to last, take times within 25 % of each other; more than half of what the slower one takes longer from insert to insert lies after the last write to the database, with more driver commands there.",
    paper: "from the database write to the next insert Android-x86 takes about 67 % longer than Linux; the journal writes take about as long",
    on_phone: on_phone::P5_ON_TWO_AS_ROOT,
    judge: |entries| each_hardware(entries, judged),
    ..Definition::TRACE
};

/// Means over the inserts of one system.
struct Means {
    /// How many runs they are of.
    rounds: usize,
    journal_ns: f64,
    before_ns: f64,
    after_ns: f64,
    commands_after: f64,
}

fn means(insert: &Insert) -> Result<Means, Missing> {
    let sum = insert.run.after_last_write.filter(|sum| sum.operations > 0);
    let AfterLastWrite { rounds, operations, before_ns, journal_ns, after_ns, commands_after, .. } =
        sum.ok_or("no write to the database was seen within an insert")?;
    let each = |value: u64| value as f64 / operations as f64;
    let commands_after = commands_after.ok_or("the driver's commands were not seen")?;
    if journal_ns == 0 {
        return Err("no insert wrote to its journal twice".into());
    }
    Ok(Means {
        rounds: usize::try_from(rounds).unwrap_or(usize::MAX),
        journal_ns: each(journal_ns),
        before_ns: each(before_ns),
        after_ns: each(after_ns),
        commands_after: each(commands_after),
    })
}

fn judged(group: &[Insert]) -> Result<Finding, Missing> {
    let by_rate = |a: &&Insert, b: &&Insert| rate(a.run).total_cmp(&rate(b.run));
    let nothing = || "one system alone was traced on this hardware".to_string();
    let slow = group.iter().min_by(by_rate).ok_or_else(nothing)?;
    let fast = group.iter().max_by(by_rate).ok_or_else(nothing)?;
    let (slow_has, fast_has) = (means(slow)?, means(fast)?);
    let all = |m: &Means| m.before_ns + m.after_ns;
    let journal = slow_has.journal_ns / fast_has.journal_ns;
    let longer_ns = all(&slow_has) - all(&fast_has);
    let later_ns = slow_has.after_ns - fast_has.after_ns;
    let differ = all(&slow_has) >= all(&fast_has) * DIFFERENCE_MIN;
    let holds = differ
        && journal.max(journal.recip()) <= ALIKE_MAX
        && later_ns > longer_ns / 2.0
        && slow_has.commands_after > fast_has.commands_after;
    let several = slow.at != fast.at;
    let where_it_lies = if differ {
        format!(
            "{} of the {} that it takes longer lie after the last write to the database",
            words::time_ns(later_ns.max(0.0)),
            words::time_ns(longer_ns)
        )
    } else {
        "they take about as long from insert to insert, so there is no difference to place".to_string()
    };
    let numbers = format!(
        "{} against {}: journal writes take {} and {} from the first to the last; {where_it_lies} ({} there against {}, {} times), with {} and {} of the driver's commands",
        told(slow, rate(slow.run), several),
        told(fast, rate(fast.run), several),
        words::time_ns(slow_has.journal_ns),
        words::time_ns(fast_has.journal_ns),
        words::time_ns(slow_has.after_ns),
        words::time_ns(fast_has.after_ns),
        words::number(slow_has.after_ns / fast_has.after_ns),
        words::number(slow_has.commands_after),
        words::number(fast_has.commands_after),
    );
    let mut entries = vec![slow.at, fast.at];
    entries.sort_unstable();
    entries.dedup();
    let least = slow_has.rounds.min(fast_has.rounds);
    Ok(Finding::of_runs(&entries, holds, numbers, &[slow.run, fast.run]).needing(REPETITIONS_MIN, Some(least)))
}
