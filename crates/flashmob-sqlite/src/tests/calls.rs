//! SQLite's calls in each mode, as seen by the shim.

use super::*;

const EACH: usize = INSERTS as usize;

#[test]
fn delete_with_full_writes_eight_times_to_the_journal_and_twice_to_the_database() {
    let report = in_mode(JournalMode::Delete, Synchronous::Full);
    let of = |kind, file| count(&report, kind, file);
    assert_eq!(report.inserts.len(), EACH);
    assert_eq!(of(CallKind::Write, FileKind::Journal), 8 * EACH);
    assert_eq!(of(CallKind::Write, FileKind::Database), 2 * EACH);
    assert_eq!(of(CallKind::Sync, FileKind::Journal), 2 * EACH, "before and after the count of pages in its header");
    assert_eq!(of(CallKind::Sync, FileKind::Database), EACH);
    assert_eq!(of(CallKind::Delete, FileKind::Journal), EACH);
    assert_eq!(of(CallKind::Open, FileKind::Journal), EACH);
    assert_eq!(of(CallKind::Close, FileKind::Journal), EACH);
    assert_eq!(report.missed_calls, 0);
}

#[test]
fn other_modes_keep_one_journal_or_none_and_end_it_in_their_way() {
    let truncate = in_mode(JournalMode::Truncate, Synchronous::Full);
    assert_eq!(count(&truncate, CallKind::Truncate, FileKind::Journal), EACH);
    assert_eq!(count(&truncate, CallKind::Delete, FileKind::Journal), 0);
    let persist = in_mode(JournalMode::Persist, Synchronous::Full);
    assert_eq!(count(&persist, CallKind::Write, FileKind::Journal), 9 * EACH, "the ninth makes the header void");
    assert_eq!(count(&persist, CallKind::Truncate, FileKind::Journal), 0);
    // A journal that is not empty might have to be rolled back, so SQLite reads its first byte before.
    for (report, opens) in [(&truncate, EACH), (&persist, 2 * EACH)] {
        let mut inodes: Vec<u64> =
            report.files.iter().filter(|f| f.kind == FileKind::Journal).map(|f| f.inode).collect();
        inodes.dedup();
        // SQLite closes it after each transaction, because other connections may need it.
        assert_eq!((inodes.len(), count(report, CallKind::Open, FileKind::Journal)), (1, opens));
        assert_eq!(count(report, CallKind::Delete, FileKind::Journal), 0);
    }
    for mode in [JournalMode::Memory, JournalMode::Off] {
        let report = in_mode(mode, Synchronous::Full);
        assert_eq!(report.files.iter().filter(|file| file.kind == FileKind::Journal).count(), 0, "{mode}");
        assert_eq!(count(&report, CallKind::Sync, FileKind::Database), EACH, "{mode}");
    }
}

#[test]
fn a_write_ahead_log_gets_its_frames_and_shared_memory_its_locks() {
    let report = in_mode(JournalMode::Wal, Synchronous::Full);
    // A frame is its header and the page: two calls, or one of both.
    let writes = count(&report, CallKind::Write, FileKind::Wal);
    assert!(writes >= EACH && writes.is_multiple_of(EACH), "{writes}");
    assert_eq!(count(&report, CallKind::Sync, FileKind::Wal), EACH);
    assert_eq!(count(&report, CallKind::Write, FileKind::Database), 0, "no checkpoint yet");
    assert!(count(&report, CallKind::SharedLock, FileKind::SharedMemory) >= 2 * EACH);
    let shared = report.files.iter().find(|file| file.kind == FileKind::SharedMemory).unwrap();
    assert!(shared.path.ends_with("trace.db-shm") && shared.inode != 0, "{shared:?}");
    let normal = in_mode(JournalMode::Wal, Synchronous::Normal);
    assert_eq!(count(&normal, CallKind::Sync, FileKind::Wal), 0, "only checkpoints wait for the disk");
}

#[test]
fn each_level_waits_for_the_disk_less_often_than_the_next() {
    let syncs = |level| {
        let report = in_mode(JournalMode::Delete, level);
        report.calls.iter().filter(|call| call.kind == CallKind::Sync).count()
    };
    assert_eq!(syncs(Synchronous::Off), 0);
    assert_eq!(syncs(Synchronous::Normal), 2 * EACH);
    assert_eq!(syncs(Synchronous::Full), 3 * EACH);
    assert_eq!(syncs(Synchronous::Extra), 3 * EACH, "the folder is synchronised by xDelete");
}

#[test]
fn calls_lie_within_statements_and_statements_within_inserts() {
    let report = in_mode(JournalMode::Delete, Synchronous::Full);
    let all = |kind| report.calls.iter().filter(move |call| call.kind == kind).collect::<Vec<_>>();
    let (statements, commits) = (all(CallKind::Statement), all(CallKind::Commit));
    assert_eq!((statements.len(), commits.len()), (EACH, EACH));
    for ((insert, statement), commit) in report.inserts.iter().zip(&statements).zip(&commits) {
        assert!(insert.0 <= statement.begin_ns && statement.begin_ns <= commit.begin_ns);
        assert!(commit.end_ns <= statement.end_ns && statement.end_ns <= insert.1);
        let within = |kind: CallKind| {
            let calls = report.calls.iter().filter(|call| call.kind == kind);
            calls.filter(|call| call.begin_ns >= commit.begin_ns && call.end_ns <= commit.end_ns).count()
        };
        assert_eq!(within(CallKind::Sync), 3, "all of them are the commit's");
    }
    assert!(report.calls.is_sorted_by_key(|call| call.begin_ns));
    for call in &report.calls {
        assert!(call.begin_ns <= call.end_ns);
        let Some(file) = call.file.map(|file| &report.files[file as usize]) else { continue };
        assert!(file.opened_ns <= call.begin_ns, "{call:?}");
        if call.kind != CallKind::Delete {
            assert!(file.closed_ns.is_none_or(|closed| call.begin_ns <= closed), "{call:?}");
        }
    }
}

#[test]
fn files_are_known_by_kind_inode_and_time() {
    let folder = tempfile::tempdir().unwrap();
    let report = done(&Workload { is_kept: true, ..workload(folder.path()) }).unwrap();
    let database = report.files.iter().find(|file| file.kind == FileKind::Database).unwrap();
    let metadata = std::fs::metadata(folder.path().join("trace.db")).unwrap();
    use std::os::unix::fs::MetadataExt;
    assert_eq!((database.device, database.inode), (metadata.dev(), metadata.ino()));
    assert!(database.closed_ns.unwrap() >= report.inserts.last().unwrap().1);
    let journals: Vec<_> = report.files.iter().filter(|file| file.kind == FileKind::Journal).collect();
    assert_eq!(journals.len(), EACH + 1, "one for the table");
    for pair in journals.windows(2) {
        assert!(pair[0].closed_ns.unwrap() <= pair[1].opened_ns, "no two at a time");
        assert!(pair[1].inode != 0 && pair[1].path.ends_with("trace.db-journal"));
    }
}

#[test]
fn unwatched_it_does_the_same_and_tells_of_inserts_alone() {
    let folder = tempfile::tempdir().unwrap();
    let watched = Workload { is_kept: true, ..workload(folder.path()) };
    let unwatched = Workload { path: folder.path().join("other.db"), is_watched: false, ..watched.clone() };
    done(&watched).unwrap();
    let report = done(&unwatched).unwrap();
    assert_eq!((report.inserts.len(), report.calls.len(), report.files.len()), (EACH, 0, 0));
    let bytes = |workload: &Workload| std::fs::read(&workload.path).unwrap();
    assert_eq!(bytes(&watched), bytes(&unwatched), "the shim changes nothing");
    assert!(report.inserts_per_second() > 0.0);
}
