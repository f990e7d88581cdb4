//! The file that a benchmark reads: written in full, and recognised by its first 4 KiB.
//!
//! Every byte is written, because reads of blocks that are only reserved do not reach the flash; the content is incompressible and
//! depends on a seed. Nothing here replaces a file, and only files that the benchmark made are opened for writing, unless overwriting is
//! allowed; block devices never are. A benchmark must not write to the first [`HEADER_BYTES`] of a file: they identify it.

mod header;
mod make;
mod open;
mod partial;

pub use header::{HEADER_BYTES, Header, header_of};
pub use make::make;
#[cfg(test)]
use make::make_with;
pub use open::{Opened, open_for_reading, open_for_writing};
pub use partial::abandon;
#[cfg(test)]
use partial::rename_over_placeholder;

use std::io;
use std::path::PathBuf;

use flashmob_core::units::Bytes;

/// Why a file cannot be made or opened.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are what the messages show")]
pub enum BenchFileError {
    /// It would hold nothing beyond its header.
    #[error("{0} bytes are too few for a benchmark's file; {min} at least", min = Bytes(SIZE_BYTES_MIN))]
    TooSmall(u64),
    #[error("{} exists already; use it, remove it, or name another file", .0.display())]
    Exists(PathBuf),
    #[error("{} is a directory; name a file in it", .0.display())]
    IsDirectory(PathBuf),
    #[error("the directory {} does not exist; create it, or name a file elsewhere", .0.display())]
    NoDirectory(PathBuf),
    /// A socket, a pipe or a terminal.
    #[error("{} is neither a file nor a block device; name one", .0.display())]
    NotAFile(PathBuf),
    #[error("{} is empty; name a file with content, or remove it and have one made", .0.display())]
    Empty(PathBuf),
    #[error("{} is a block device; it is never written to, because that would destroy its content; name a file", .0.display())]
    IsDevice(PathBuf),
    #[error("{} was not made by this benchmark, and writing would destroy its content; name a new file, or allow it to be overwritten", .0.display())]
    NotOurs(PathBuf),
    #[error("{} lacks {} for a file of {}: {} are free; remove something, or choose a smaller file or another place",
        directory.display(), Bytes(needed_bytes.saturating_sub(*free_bytes)), Bytes(*needed_bytes), Bytes(*free_bytes))]
    NoSpace { directory: PathBuf, needed_bytes: u64, free_bytes: u64 },
    #[error("the file system of {} holds no file of {}{}; choose a smaller one, or another place", path.display(), Bytes(*size_bytes),
        limit_bytes.map(|limit| format!(", at most {}", Bytes(limit))).unwrap_or_default())]
    TooLarge { path: PathBuf, size_bytes: u64, limit_bytes: Option<u64> },
    #[error("{} is on a read-only file system; name a file elsewhere", .0.display())]
    ReadOnly(PathBuf),
    #[error("{} is being made by another process; wait for it, or name another file", .0.display())]
    Busy(PathBuf),
    /// The name of the partial file is taken.
    #[error("{} is in the way and was not made by this benchmark; remove it, or name another file", .0.display())]
    InTheWay(PathBuf),
    #[error("stopped; nothing is left of {}", .0.display())]
    Cancelled(PathBuf),
    #[error("cannot {doing} {}: {source}", path.display())]
    Io { path: PathBuf, doing: &'static str, source: io::Error },
}

/// A header, and one block to read.
pub const SIZE_BYTES_MIN: u64 = 2 * HEADER_BYTES;

#[cfg(test)]
mod tests;
