//! Errors of a disk measurement: each names the object and the remedy.

use std::io;
use std::path::PathBuf;

/// A failure that ends the measurement. Requests that fail are counted, not these.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are what the messages show")]
pub enum DiskError {
    /// An invalid combination of options.
    #[error("{0}")]
    Parameters(String),
    #[error("{path}: {doing}: {source}")]
    File { path: PathBuf, doing: &'static str, source: io::Error },
    /// Android kills apps that use io_uring, even if the kernel supports it.
    #[error("Android forbids io_uring; use --engine pread")]
    UringOnAndroid,
    #[error("io_uring cannot be used here: {0}; use --engine pread")]
    Uring(io::Error),
    #[error("a thread of the load cannot be started: {0}; use fewer --threads")]
    Thread(io::Error),
    /// The I/O scheduler could not be set or restored.
    #[error(transparent)]
    Scheduler(#[from] flashmob_host::scheduler::SchedulerError),
    /// No such model, or not of that size.
    #[error(transparent)]
    Model(#[from] flashmob_lab::flash::ProfileError),
}
