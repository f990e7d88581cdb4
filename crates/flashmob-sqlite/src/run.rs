//! Running the workload: at once, or in steps to measure the INSERTs alone.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use rusqlite::{Connection, OpenFlags, ffi, params};

use crate::notes::{Notes, now_ns};
use crate::report::Report;
use crate::settings::Workload;
use crate::shim::Shim;
use crate::{Error, hooks, place};

/// The one statement that is measured.
const INSERT: &str = "INSERT INTO entries (number, text) VALUES (?1, ?2)";

/// Creates a fresh database, runs the INSERTs, and removes it unless it is to be kept. `on_progress` is called after each INSERT with
/// their number so far: it must be cheap. After `cancel` is set, the results so far are returned.
///
/// # Errors
/// Errors of SQLite. The database is removed then as well, unless it is to be kept.
pub fn run(workload: &Workload, cancel: &AtomicBool, on_progress: &mut dyn FnMut(u64)) -> Result<Report, Error> {
    let mut prepared = Prepared::new(workload)?;
    prepared.insert(cancel, on_progress)?;
    prepared.finish()
}

/// A fresh database with its table. It belongs to the thread that created it. Dropping it removes the database unless it is to be kept.
pub struct Prepared {
    // Fields are dropped in this order: the connection before the shim, and both before the files are removed.
    connection: Option<Connection>,
    shim: Option<Shim>,
    made: Made,
    workload: Workload,
    inserts: Vec<(u64, u64)>,
    is_stopped: bool,
}

/// Files that are removed when this is dropped.
struct Made {
    path: Option<std::path::PathBuf>,
}

impl Drop for Made {
    fn drop(&mut self) {
        if let Some(path) = self.path.take() {
            // Errors are ignored here; `finish` reports them.
            let _ = place::remove(&path);
        }
    }
}

impl Prepared {
    /// Creates it.
    ///
    /// # Errors
    /// An existing file that the workload did not create, settings that SQLite does not accept, errors of the disk.
    pub fn new(workload: &Workload) -> Result<Prepared, Error> {
        let path = workload.path.as_path();
        place::clear(path)?;
        let shim = workload.is_watched.then(|| Shim::register(Notes::new(workload.inserts))).transpose()?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_EXRESCODE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let opened = match &shim {
            Some(shim) => Connection::open_with_flags_and_vfs(path, flags, shim.name()),
            None => Connection::open_with_flags(path, flags),
        };
        // Files created from here on are ours, on any outcome.
        let made = Made { path: (!workload.is_kept).then(|| path.to_path_buf()) };
        let connection = opened.map_err(|error| Error::of(error, path, 0, 0))?;
        let failed = |error| Error::of(error, path, 0, errno(&connection));
        set(&connection, path, "journal_mode", workload.journal_mode.name(), workload.journal_mode.name())?;
        let level = workload.synchronous;
        set(&connection, path, "synchronous", level.name(), &(level as u8).to_string())?;
        let tables = format!(
            "BEGIN; PRAGMA application_id = {}; CREATE TABLE entries (number INTEGER, text TEXT); COMMIT",
            place::APPLICATION_ID
        );
        connection.execute_batch(&tables).map_err(failed)?;
        // The first statement reads the schema, which is no part of an INSERT; later ones reuse it.
        drop(connection.prepare(INSERT).map_err(failed)?);
        let mut inserts = Vec::new();
        // Without memory now, it grows later.
        let _ = inserts.try_reserve(usize::try_from(workload.inserts).unwrap_or(usize::MAX).min(1 << 24));
        let workload = workload.clone();
        Ok(Prepared { connection: Some(connection), shim, made, workload, inserts, is_stopped: false })
    }

    /// Runs the INSERTs, on the thread that called [`Prepared::new`].
    ///
    /// # Errors
    /// Those of SQLite and the disk.
    pub fn insert(&mut self, cancel: &AtomicBool, on_progress: &mut dyn FnMut(u64)) -> Result<(), Error> {
        let Some(connection) = &self.connection else { return Ok(()) };
        let path = self.workload.path.as_path();
        let text = text(self.workload.string_bytes);
        let failed = |error, inserts: usize| Error::of(error, path, inserts as u64, errno(connection));
        let mut statement = connection.prepare(INSERT).map_err(|error| failed(error, self.inserts.len()))?;
        if let Some(shim) = &self.shim {
            shim.notes().forget_calls();
            // SAFETY: the shim with its notes is dropped after the connection (`Prepared`'s fields), and both stay on this thread: the
            // pointer within makes neither of them `Send`.
            if !unsafe { hooks::watch(connection, shim.notes()) } {
                return Err(Error::Shim("its hooks were refused"));
            }
        }
        while (self.inserts.len() as u64) < self.workload.inserts {
            if cancel.load(Ordering::Relaxed) {
                self.is_stopped = true;
                break;
            }
            let begin_ns = now_ns();
            let outcome = statement.execute(params![self.inserts.len() as i64, text]);
            let end_ns = now_ns();
            outcome.map_err(|error| failed(error, self.inserts.len()))?;
            self.inserts.push((begin_ns, end_ns));
            on_progress(self.inserts.len() as u64);
        }
        Ok(())
    }

    /// Closes the database, removes it unless it is to be kept, and returns the results. Calls are those of the INSERTs and the closing.
    ///
    /// # Errors
    /// The database could not be closed, or a file could not be removed.
    pub fn finish(mut self) -> Result<Report, Error> {
        let path = self.workload.path.clone();
        let count = self.inserts.len() as u64;
        let thread_id = thread_id();
        if let Some(connection) = self.connection.take() {
            connection.close().map_err(|(connection, error)| Error::of(error, &path, count, errno(&connection)))?;
        }
        let (calls, files, missed_calls) = self.shim.take().map(|shim| shim.notes().told()).unwrap_or_default();
        if let Some(path) = self.made.path.take() {
            place::remove(&path)?;
        }
        Ok(Report {
            version: rusqlite::version().to_string(),
            thread_id,
            inserts: std::mem::take(&mut self.inserts),
            calls,
            files,
            missed_calls,
            is_stopped: self.is_stopped,
        })
    }
}

/// Sets a setting and checks it, because SQLite does not report unsupported ones.
fn set(connection: &Connection, path: &Path, setting: &'static str, wanted: &str, answer: &str) -> Result<(), Error> {
    let failed = |error| Error::of(error, path, 0, errno(connection));
    // Some settings return a value and some do not.
    connection.pragma_update_and_check(None, setting, wanted, |_| Ok(())).or_else(unanswered).map_err(failed)?;
    let found = connection.pragma_query_value(None, setting, |row| row.get::<_, rusqlite::types::Value>(0));
    let found = match found.map_err(failed)? {
        rusqlite::types::Value::Integer(number) => number.to_string(),
        rusqlite::types::Value::Text(text) => text,
        other => format!("{other:?}"),
    };
    if found.eq_ignore_ascii_case(answer) {
        return Ok(());
    }
    Err(Error::NotTaken(path.to_path_buf(), setting, wanted.to_string(), found))
}

fn unanswered(error: rusqlite::Error) -> rusqlite::Result<()> {
    if matches!(error, rusqlite::Error::QueryReturnedNoRows) { Ok(()) } else { Err(error) }
}

/// The last errno that SQLite got.
fn errno(connection: &Connection) -> i32 {
    // SAFETY: the connection is open for as long as it is borrowed.
    unsafe { ffi::sqlite3_system_errno(connection.handle()) }
}

fn thread_id() -> u32 {
    // SAFETY: it takes no arguments and cannot fail.
    let id = unsafe { libc::gettid() };
    id.unsigned_abs()
}

/// This many letters, the same for every INSERT: neither SQLite nor file systems depend on their content.
fn text(bytes: usize) -> String {
    (b'a'..=b'z').cycle().take(bytes).map(char::from).collect()
}
