//! The file that a benchmark reads: made of real blocks, and known again by its first 4 KiB.
//!
//! Every byte is written, for a block that was only reserved is answered without the flash; the content cannot be
//! compressed and follows from a seed. Nothing here ever replaces a file, and nothing is opened for writing that the benchmark
//! did not make itself, unless that is asked for; a block device never is. The first [`HEADER_BYTES`] of a file
//! must never be written by a benchmark: they say whose the file is.

mod header;
mod make;
mod open;
mod partial;

pub use header::{HEADER_BYTES, Header, fill, header_of, recognise};
pub use make::make;
#[cfg(test)]
use make::make_named;
pub use open::{Opened, open_for_reading, open_for_writing};
pub use partial::abandon;
#[cfg(test)]
use partial::rename_over_placeholder;

use std::io;
use std::path::PathBuf;

use flashmob_core::units::Bytes;

/// Why there is no file to measure.
#[derive(Debug, thiserror::Error)]
pub enum BenchFileError {
    /// It would hold nothing beyond its header.
    #[error("{size_bytes} bytes are too few for a benchmark's file; {} at least", Bytes(SIZE_BYTES_MIN))]
    TooSmall {
        /// What was asked for.
        size_bytes: u64,
    },
    /// Something is there already.
    #[error("{} exists already; use it, remove it, or name another file", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// A directory is no file.
    #[error("{} is a directory; name a file in it", path.display())]
    IsDirectory {
        /// The directory.
        path: PathBuf,
    },
    /// A socket, a pipe or a terminal.
    #[error("{} is neither a file nor a block device; name one", path.display())]
    NotAFile {
        /// What it is called.
        path: PathBuf,
    },
    /// Nothing to read.
    #[error("{} is empty; name a file with content, or remove it and have one made", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// Writing to a block device would destroy what is on it.
    #[error("{} is a block device; it is never written to, for that would destroy what is on it; name a file", path.display())]
    IsDevice {
        /// The device.
        path: PathBuf,
    },
    /// Writing would destroy someone's data.
    #[error("{} was not made by this benchmark, and writing would destroy its content; name a new file, or allow it to be overwritten", path.display())]
    NotOurs {
        /// The file.
        path: PathBuf,
    },
    /// The file system is too full.
    #[error("{} lacks {} for a file of {}: {} are free; remove something, or choose a smaller file or another place",
        directory.display(), Bytes(needed_bytes.saturating_sub(*free_bytes)), Bytes(*needed_bytes), Bytes(*free_bytes))]
    NoSpace {
        /// Where the file should have been.
        directory: PathBuf,
        /// Its size.
        needed_bytes: u64,
        /// What there is for it.
        free_bytes: u64,
    },
    /// The file system cannot hold a file of this size.
    #[error("the file system of {} holds no file of {}{}; choose a smaller one, or another place", path.display(), Bytes(*size_bytes),
        limit_bytes.map(|limit| format!(", at most {}", Bytes(limit))).unwrap_or_default())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// What was asked for.
        size_bytes: u64,
        /// The most, if it is known.
        limit_bytes: Option<u64>,
    },
    /// Nothing can be written there.
    #[error("{} is on a read-only file system; name a file elsewhere", path.display())]
    ReadOnly {
        /// The file.
        path: PathBuf,
    },
    /// Somebody else is making the same file.
    #[error("{} is being made by another process; wait for it, or name another file", path.display())]
    Busy {
        /// The file.
        path: PathBuf,
    },
    /// The name for the half-made file is taken by something else.
    #[error("{} is in the way and was not made by this benchmark; remove it, or name another file", path.display())]
    InTheWay {
        /// What is in the way.
        path: PathBuf,
    },
    /// It was stopped; nothing is left of it.
    #[error("stopped; nothing is left of {}", path.display())]
    Cancelled {
        /// The file.
        path: PathBuf,
    },
    /// The system refused otherwise.
    #[error("cannot {doing} {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What was tried, as a verb.
        doing: &'static str,
        /// What the system says.
        source: io::Error,
    },
}

/// A header, and as much to read.
pub const SIZE_BYTES_MIN: u64 = 2 * HEADER_BYTES;

#[cfg(test)]
mod tests;
