mod calls;
mod places;
mod trouble;

use std::path::Path;
use std::sync::atomic::AtomicBool;

use crate::{CallKind, Error, FileKind, JournalMode, Report, Synchronous, Workload, run};

const INSERTS: u64 = 20;

fn workload(folder: &Path) -> Workload {
    Workload { is_watched: true, ..Workload::new(folder.join("trace.db"), INSERTS) }
}

fn done(workload: &Workload) -> Result<Report, Error> {
    run(workload, &AtomicBool::new(false), &mut |_| {})
}

/// Calls of this kind within INSERTs, to files of this kind.
fn count(report: &Report, kind: CallKind, of: FileKind) -> usize {
    let last_end_ns = report.inserts.last().unwrap().1;
    let is_of = |file: Option<u32>| file.is_some_and(|file| report.files[file as usize].kind == of);
    report.calls.iter().filter(|call| call.begin_ns < last_end_ns && call.kind == kind && is_of(call.file)).count()
}

/// A run on a file system of this machine, in this mode and at this level.
fn in_mode(journal_mode: JournalMode, synchronous: Synchronous) -> Report {
    let folder = tempfile::tempdir().unwrap();
    done(&Workload { journal_mode, synchronous, ..workload(folder.path()) }).unwrap()
}
