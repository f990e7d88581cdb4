//! Why no session can be opened at all: never for want of rights or of events.

use std::io;
use std::path::{Path, PathBuf};

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// Names go into paths of files that root writes.
    #[error("'{0}' cannot be the name of an event: letters, digits, '_', '-' and '.' only")]
    Name(String),
    /// No thread can be started that reads.
    #[error("no thread can be started that reads what the kernel traced: {0}")]
    Reader(io::Error),
    /// The kernel refused what it has taken from others.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

impl CaptureError {
    pub(super) fn io(path: &Path, source: io::Error) -> CaptureError {
        CaptureError::Io { path: path.into(), source }
    }
}
