//! Why a map's file cannot be used.

use std::io;
use std::path::{Path, PathBuf};

use flashmob_core::copies::ReplayError;
use flashmob_core::op::Failure;
use rustix::io::Errno;

use super::FILE_BYTES_MAX;
use crate::store::failure_of;

/// Why a map's file cannot be opened, made or written.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are what the messages show")]
pub enum MapFileError {
    /// It would have to be overwritten.
    #[error("the map {path} exists already, and is never overwritten; use it, or give another path")]
    Exists { path: PathBuf },
    /// Another process has the lock.
    #[error("the map {path} is in use by another gateway; stop that gateway, or give this volume another map")]
    Locked { path: PathBuf },
    /// The file system cannot lock.
    #[error("cannot lock the map {path} against a second gateway: {source}; put it on a local file system")]
    CannotLock { path: PathBuf, source: io::Error },
    /// A symbolic link to nothing: what it points to may have been the map.
    #[error("the map {path} is a symbolic link to a file that does not exist; restore that file, or remove the link")]
    DanglingLink { path: PathBuf },
    /// A directory, a device, or something else.
    #[error("the map {path} is not a file; give another path")]
    NotAFile { path: PathBuf },
    /// The directory that should hold the file is missing.
    #[error("the directory of the map {path} does not exist; create it first")]
    ParentMissing { path: PathBuf },
    /// No right to read and write it.
    #[error(
        "no permission to {action} the map {path}; \
         run as its owner, or change the owner or mode of it and its directory"
    )]
    Permission { action: &'static str, path: PathBuf },
    /// The file system is read-only.
    #[error("the map {path} is on a read-only file system; remount it writable, or move the map elsewhere")]
    ReadOnly { path: PathBuf },
    /// The file system is full, or a limit is reached.
    #[error("no space left for the map {path}; free some on its file system")]
    NoSpace { path: PathBuf },
    /// More than any map has.
    #[error("the map {path} has {size_bytes} bytes, more than the {FILE_BYTES_MAX} of any map; is it another file?")]
    TooLarge { path: PathBuf, size_bytes: u64 },
    /// Its content.
    #[error("cannot use the map {path}: {source}")]
    Damaged { path: PathBuf, source: ReplayError },
    /// Its path leads to nothing, or to another file.
    #[error(
        "the map {path} was moved, removed or replaced while this gateway used it, so another gateway may be in charge; \
         if none is, copy {last} to that path before this gateway is stopped, and start it again"
    )]
    Moved { path: PathBuf, last: PathBuf },
    /// An earlier write failed.
    #[error("the map {path} takes no more changes since one could not be written; it has to be written anew")]
    Spent { path: PathBuf },
    /// Anything else.
    #[error("cannot {action} the map {path}: {source}; check its file system and its disk")]
    Other { action: &'static str, path: PathBuf, source: io::Error },
}

impl MapFileError {
    /// The error for `source`, which came of trying to `action` the map at `path`.
    pub(super) fn new(action: &'static str, path: &Path, source: io::Error) -> MapFileError {
        let path = path.to_path_buf();
        match Errno::from_io_error(&source) {
            Some(Errno::NOENT | Errno::NOTDIR) => MapFileError::ParentMissing { path },
            Some(Errno::ACCESS | Errno::PERM) => MapFileError::Permission { action, path },
            Some(Errno::ROFS) => MapFileError::ReadOnly { path },
            Some(Errno::NOSPC | Errno::DQUOT | Errno::FBIG) => MapFileError::NoSpace { path },
            Some(Errno::ISDIR) => MapFileError::NotAFile { path },
            _ => MapFileError::Other { action, path, source },
        }
    }

    /// What a change fails with that needed the map.
    #[must_use]
    pub fn failure(&self) -> Failure {
        match self {
            MapFileError::NoSpace { .. } => Failure::NoSpace,
            MapFileError::Permission { .. } | MapFileError::ReadOnly { .. } => Failure::NotPermitted,
            MapFileError::Other { source, .. } => Errno::from_io_error(source).map_or(Failure::Io, failure_of),
            _ => Failure::Io,
        }
    }
}
