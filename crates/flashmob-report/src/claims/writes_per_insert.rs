//! C19: 3 file system writes for each insert (2 to the journal, 1 to the database); on the phone 14 (11 and 3).
//!
//! Counted are system calls that write, by the role of their file; where no system call was seen, SQLite's own calls. It holds as counted if both numbers
//! lie within a tenth of the paper's: of Linux's, or on Android of the phone's. That is a count, so it depends on SQLite's version and page size and not on
//! chance; a tenth is for the inserts that split a page. Two things are told besides, for they say what became of the difference: whether the
//! counts follow the phone's own rule (a header, a count, and three pieces for each page of the database: 11 = 2 + 3 × 3), and how many commands of the driver
//! came of them.

use flashmob_results::trace::{Layer, Role, Run, Workload};

use super::traces::{Insert, commands, each, writes};
use super::{Definition, Finding, Missing};
use crate::words;

/// Journal and database, of Linux and Android-x86, and of the phone.
const PC: (f64, f64) = (2.0, 1.0);
const PHONE: (f64, f64) = (11.0, 3.0);
const TOLERANCE: f64 = 0.1;

pub(super) const CLAIM: Definition = Definition {
    id: "C19",
    source: "P5, Fig. 2–4",
    words: "An insert makes 3 file system writes on Linux and Android-x86 (2 to the journal, 1 to the database), 14 on the phone (11 and 3).",
    short: "3 writes an insert, 14 on a phone",
    criterion: "Journal mode DELETE, synchronous FULL: writing system calls for each insert, to the journal and to the database, each within a tenth of the paper's 2 and 1 (on Android 11 and 3).",
    paper: "SQLite 3.5.9 on the PCs: 2 and 1; 3.7.4 on the phone: 11 and 3. The rollback journal has had the same format since (a header, and for each page a record of number, content and checksum), but calls differ by version, and the paper does not say whether it counts calls that follow each other in a file as one",
    judge: |entries| each(entries, judged),
    ..Definition::TRACE
};

fn judged(insert: &Insert) -> Result<Finding, Missing> {
    let run = insert.run;
    let of =
        |role| writes(run, role).ok_or_else(|| "neither system calls nor SQLite's own calls were seen".to_string());
    let ((journal, layer), (database, _)) = (of(Role::Journal)?, of(Role::Database)?);
    let paper = if insert.entry.is_android() { PHONE } else { PC };
    let near = |here: f64, there: f64| (here - there).abs() <= TOLERANCE * there;
    let holds = near(journal, paper.0) && near(database, paper.1);
    let numbers = format!(
        "{} writes to the journal and {} to the database for each insert{}{}{}{}",
        words::number(journal),
        words::number(database),
        if layer == Layer::Sqlite { " (SQLite's own calls; system calls were not seen)" } else { "" },
        version(run),
        rule(journal, database),
        below(run),
    );
    Ok(Finding::of_runs(&[insert.at], holds, numbers, &[run]))
}

fn version(run: &Run) -> String {
    match &run.workload {
        Workload::Sqlite { version, .. } => format!(", SQLite {}", words::plain(version, 20)),
        _ => String::new(),
    }
}

/// SQLite's journal has three writes per page since the phone's version: number, content and checksum.
fn rule(journal: f64, database: f64) -> String {
    let follows = (journal - (2.0 + 3.0 * database)).abs() <= TOLERANCE * journal.max(1.0) && database > 0.0;
    if follows {
        "; as on the phone, the journal's are a header, a count, and three for each of the database's (11 = 2 + 3 × 3)"
            .into()
    } else {
        String::new()
    }
}

/// The commands that reached the driver.
fn below(run: &Run) -> String {
    match (commands(run, Role::Journal), commands(run, Role::Database)) {
        (Some(journal), Some(database)) => {
            format!(
                "; the driver got {} commands for the journal and {} for the database",
                words::number(journal),
                words::number(database)
            )
        }
        _ => String::new(),
    }
}
