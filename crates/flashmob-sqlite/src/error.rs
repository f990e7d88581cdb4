//! Errors of the workload.

use std::io;
use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

/// An error of the workload: the file first; numbers count the INSERTs done before.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file that the workload did not create has the database's name.
    #[error("{} is there already and was not made by this workload; it stays as it is: name another place", .0.display())]
    Foreign(PathBuf),
    /// A file could not be read or removed.
    #[error("{}: cannot {}: {}", .0.display(), .1, .2)]
    File(PathBuf, &'static str, #[source] io::Error),
    /// A setting that SQLite did not accept: its name, the wanted value and the one in use.
    #[error("{}: SQLite was told to use {} = {} and uses {}; choose another one for this file system", .0.display(), .1, .2, .3)]
    NotTaken(PathBuf, &'static str, String, String),
    /// The file system is full.
    #[error("{}: no space is left there; {} INSERTs were done before: free some, or name another place", .0.display(), .1)]
    Full(PathBuf, u64),
    /// The file cannot be written; with SQLite's message.
    #[error("{}: it cannot be written ({}); name a place where this user may write", .0.display(), .1)]
    ReadOnly(PathBuf, String),
    /// The disk failed, or a limit was reached: SQLite's message and the system's errno, 0 if unknown.
    #[error("{}: the system refused after {} INSERTs: {} ({})", .0.display(), .1, .2, reason(*.3))]
    Io(PathBuf, u64, String, i32),
    /// Another error of SQLite's.
    #[error("{}: SQLite refused after {} INSERTs: {}", .0.display(), .1, .2)]
    Sqlite(PathBuf, u64, #[source] rusqlite::Error),
    /// The shim could not be registered in front of SQLite's VFS.
    #[error("SQLite did not take the shim that watches its calls: {0}; run it unwatched")]
    Shim(&'static str),
}

impl Error {
    /// An error of SQLite's, with a remedy.
    pub(crate) fn of(source: rusqlite::Error, path: &Path, inserts: u64, errno: i32) -> Error {
        let path = path.to_path_buf();
        let message = source.to_string();
        match source.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Error::Full(path, inserts),
            Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
                Error::ReadOnly(path, message)
            }
            Some(ErrorCode::SystemIoFailure) => Error::Io(path, inserts, message, errno),
            _ => Error::Sqlite(path, inserts, source),
        }
    }
}

fn reason(errno: i32) -> String {
    if errno == 0 { "no reason is known".into() } else { io::Error::from_raw_os_error(errno).to_string() }
}
