//! Why the workload could not be done.

use std::io;
use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

/// Why the workload could not be done.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Somebody's file is in the way.
    #[error("{} is there already and was not made by this workload; it stays as it is: name another place", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// A file could not be looked at or removed.
    #[error("{}: cannot {what}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What was tried.
        what: &'static str,
        /// What the system says.
        source: io::Error,
    },
    /// SQLite has another journal mode than was asked for.
    #[error("{}: SQLite was told to use {setting} = {wanted} and uses {found}; choose another one for this file system", path.display())]
    NotTaken {
        /// The database.
        path: PathBuf,
        /// `journal_mode` or `synchronous`.
        setting: &'static str,
        /// What was asked for.
        wanted: String,
        /// What it is.
        found: String,
    },
    /// The file system is full.
    #[error("{}: no space is left there; {inserts} INSERTs were done before: free some, or name another place", path.display())]
    Full {
        /// The database.
        path: PathBuf,
        /// How many were done.
        inserts: u64,
    },
    /// Nothing may be written there.
    #[error("{}: it cannot be written ({message}); name a place where this user may write", path.display())]
    ReadOnly {
        /// The database.
        path: PathBuf,
        /// What SQLite says.
        message: String,
    },
    /// The disk failed, or a limit was reached.
    #[error("{}: the system refused after {inserts} INSERTs: {message} ({})", path.display(), reason(*errno))]
    Io {
        /// The database.
        path: PathBuf,
        /// How many were done.
        inserts: u64,
        /// What SQLite says.
        message: String,
        /// What the system said to SQLite; 0 if that is not known.
        errno: i32,
    },
    /// SQLite refused otherwise.
    #[error("{}: SQLite refused after {inserts} INSERTs: {source}", path.display())]
    Sqlite {
        /// The database.
        path: PathBuf,
        /// How many were done.
        inserts: u64,
        /// What it says.
        source: rusqlite::Error,
    },
    /// The shim could not be put before SQLite's VFS.
    #[error("SQLite did not take the shim that watches its calls: {what}; run it unwatched")]
    Shim {
        /// What was tried.
        what: &'static str,
    },
}

impl Error {
    /// What SQLite said, in words for those who wait for their INSERTs.
    pub(crate) fn of(source: rusqlite::Error, path: &Path, inserts: u64, errno: i32) -> Error {
        let path = path.to_path_buf();
        let message = source.to_string();
        match source.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Error::Full { path, inserts },
            Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
                Error::ReadOnly { path, message }
            }
            Some(ErrorCode::SystemIoFailure) => Error::Io { path, inserts, message, errno },
            _ => Error::Sqlite { path, inserts, source },
        }
    }
}

fn reason(errno: i32) -> String {
    if errno == 0 { "no reason is known".into() } else { io::Error::from_raw_os_error(errno).to_string() }
}
