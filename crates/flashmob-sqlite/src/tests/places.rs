//! Files of others are not touched, and no file remains.

use std::fs;

use super::*;

#[test]
fn somebody_elses_database_file_or_journal_stays_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let workload = workload(folder.path());
    let refused = |path: &Path| {
        let before = fs::read(path).unwrap();
        let message = done(&workload).unwrap_err().to_string();
        assert!(
            message.contains("was not made by this workload") && message.contains("name another place"),
            "{message}"
        );
        assert_eq!(fs::read(path).unwrap(), before);
        fs::remove_file(path).unwrap();
    };
    rusqlite::Connection::open(&workload.path).unwrap().execute_batch("CREATE TABLE a (b)").unwrap();
    refused(&workload.path);
    fs::write(&workload.path, "a diary").unwrap();
    refused(&workload.path);
    fs::write(&workload.path, "").unwrap();
    refused(&workload.path);
    let journal = folder.path().join("trace.db-journal");
    fs::write(&journal, "what a crash left of another database").unwrap();
    refused(&journal);
    fs::create_dir(&workload.path).unwrap();
    assert!(matches!(done(&workload), Err(Error::Foreign { .. })));
    fs::remove_dir(&workload.path).unwrap();
    done(&workload).unwrap();
}

#[test]
fn a_database_of_an_earlier_run_is_replaced_and_in_the_end_nothing_stays() {
    let folder = tempfile::tempdir().unwrap();
    for journal_mode in JournalMode::ALL {
        let kept = Workload { is_kept: true, journal_mode, ..workload(folder.path()) };
        done(&kept).unwrap();
        assert!(kept.path.exists());
        // A crash leaves the files that the last close would have removed.
        fs::write(folder.path().join("trace.db-wal"), "").unwrap();
        done(&Workload { is_kept: false, ..kept }).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "{journal_mode}");
    }
}

#[test]
fn the_rows_are_an_int_and_a_string_of_the_length_that_was_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let workload = Workload { is_kept: true, string_bytes: 321, ..workload(folder.path()) };
    done(&workload).unwrap();
    let connection = rusqlite::Connection::open(&workload.path).unwrap();
    let told = connection.query_row("SELECT count(*), max(number), min(length(text)) FROM entries", [], |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?))
    });
    assert_eq!(told.unwrap(), (INSERTS as i64, INSERTS as i64 - 1, 321));
    assert_eq!(connection.query_row("PRAGMA integrity_check", [], |row| row.get::<_, String>(0)).unwrap(), "ok");
}

#[test]
fn names_of_settings_are_read_in_any_case_and_others_are_refused_with_a_list() {
    assert_eq!("wal".parse(), Ok(JournalMode::Wal));
    assert_eq!(" Full".parse(), Ok(Synchronous::Full));
    assert!("delte".parse::<JournalMode>().unwrap_err().contains("DELETE, TRUNCATE"));
    assert!("3".parse::<Synchronous>().unwrap_err().contains("OFF, NORMAL"));
}
