//! Errors of reading a configuration. Every message names the file and the remedy, and starts with `error:` so that it
//! can be printed unchanged.

use std::io;
use std::path::{Path, PathBuf};

use super::report::{Report, printable};

/// Why there is no configuration. The message may have many lines and is meant to be printed unchanged.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are what the messages show")]
pub enum ConfigError {
    /// No such file.
    #[error(
        "error: file {} does not exist\n = help: check the path; examples/two-tablets.toml is a sample configuration",
        shown(.path)
    )]
    Missing { path: PathBuf },
    /// The system refuses to read it.
    #[error("error: cannot read {}: {source}\n = help: {}", shown(.path), unreadable_help(.source))]
    Unreadable { path: PathBuf, source: io::Error },
    /// Larger than 1 MiB.
    #[error(
        "error: {} is larger than 1 MiB, which is too large for a configuration\n = help: check the path; \
         4096 nodes, the maximum, need about a quarter of that",
        shown(.path)
    )]
    TooLarge { path: PathBuf },
    /// Not text. `line` is the first that is not, counted from 1.
    #[error(
        "error: {}:{line} is not UTF-8 text\n = help: save the file as UTF-8, or check that the path is that of a configuration",
        shown(.path)
    )]
    NotUtf8 { path: PathBuf, line: usize },
    /// Its contents are wrong.
    #[error("{0}")]
    Invalid(Report),
}

/// Why a [`Config`](super::Config) cannot be written as TOML.
#[derive(Debug, thiserror::Error)]
pub enum ToTomlError {
    /// A value that no configuration may have.
    #[error("this configuration could not be read back\n{0}")]
    Refused(#[from] ConfigError),
    /// The text would read back as another configuration.
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
