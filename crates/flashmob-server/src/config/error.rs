//! How reading a configuration can fail. Every text names the file and the remedy, and starts with
//! `error:` so that it can be printed as it is.

use std::io;
use std::path::{Path, PathBuf};

use super::report::{Report, printable};

/// Why there is no configuration. Its text may have many lines and is meant to be printed as it is.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// No such file.
    #[error(
        "error: file {} does not exist\n = help: check the path; examples/two-tablets.toml is a sample configuration",
        shown(.path)
    )]
    Missing {
        /// What was asked for.
        path: PathBuf,
    },
    /// The system refuses to read it.
    #[error("error: cannot read {}: {source}\n = help: {}", shown(.path), unreadable_help(.source))]
    Unreadable {
        /// What was asked for.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// More than [`FILE_BYTES_MAX`](super::limits::FILE_BYTES_MAX).
    #[error(
        "error: {} is larger than 1 MiB, which is too large for a configuration\n = help: check the path; \
         4096 nodes, the maximum, need about a quarter of that",
        shown(.path)
    )]
    TooLarge {
        /// What was asked for.
        path: PathBuf,
    },
    /// Not text.
    #[error(
        "error: {}:{line} is not UTF-8 text\n = help: save the file as UTF-8, or check that the path is that of a configuration",
        shown(.path)
    )]
    NotUtf8 {
        /// What was asked for.
        path: PathBuf,
        /// The first line that is no text, counted from 1.
        line: usize,
    },
    /// It was read, and something in it is wrong.
    #[error("{0}")]
    Invalid(Report),
}

/// Why a [`Config`](super::Config) cannot be written as TOML.
#[derive(Debug, thiserror::Error)]
pub enum ToTomlError {
    /// It holds what no configuration may hold.
    #[error("this configuration could not be read back\n{0}")]
    Refused(#[from] ConfigError),
    /// It would read back as something else.
    #[error(
        "this configuration cannot be written as text: it has a path that is not UTF-8 or not normalized, an address \
         without a port, or a time finer than a millisecond"
    )]
    Changed,
}

fn shown(path: &Path) -> String {
    printable(&path.display().to_string())
}

fn unreadable_help(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::PermissionDenied => {
            "make it readable for the user who runs the gateway (chmod, chown), or run the gateway as another user"
        }
        io::ErrorKind::IsADirectory => "give the file in that folder, not the folder",
        _ => "check the path and its device",
    }
}
