//! Errors of a session. Missing permissions and missing events are not errors.

use std::io;
use std::path::{Path, PathBuf};

/// Why a session cannot be opened or continued.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// Event names become parts of paths that root writes to.
    #[error("'{0}' cannot be the name of an event: letters, digits, '_', '-' and '.' only")]
    Name(String),
    /// The reading thread cannot be started.
    #[error("cannot start the thread that reads the kernel's buffers: {0}")]
    Reader(io::Error),
    /// The kernel refused a file of tracefs.
    #[error("{}: {}", .0.display(), .1)]
    Io(PathBuf, #[source] io::Error),
}

impl CaptureError {
    pub(super) fn io(path: &Path, source: io::Error) -> CaptureError {
        CaptureError::Io(path.into(), source)
    }
}
