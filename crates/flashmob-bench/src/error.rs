//! Errors of this client, its servers and files: each names the one concerned, and the remedy where there is one.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use flashmob_core::nbd::protocol as p;

/// A failure that ends a connection, a copy or a load.
///
/// A load counts requests that the server answers with an error, and goes on; a copy fails.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are what the messages show")]
pub enum Error {
    #[error("cannot connect to {server}: {source}; check that it runs and listens there")]
    Connect { server: String, source: io::Error },
    #[error(
        "{server} was silent for {} s while {doing}; check that it is neither stopped nor overloaded, or allow more time",
        after.as_secs_f64()
    )]
    Timeout { server: String, doing: String, after: Duration },
    #[error("{server} closed the connection while {doing}; its log may say why")]
    Closed { server: String, doing: String },
    #[error("the connection to {server} failed while {doing}: {source}")]
    Io { server: String, doing: String, source: io::Error },
    #[error("{server} does not speak NBD as documented: {reason}")]
    Protocol { server: String, reason: String },
    #[error("{server} refused {what}: {reason}")]
    Refused { server: String, what: String, reason: String },
    #[error("{server} answered {error} to {what}")]
    Request { server: String, what: String, error: ServerError },
    /// The export does not support what was asked for.
    #[error("{server} cannot be used for this: {reason}")]
    Unsuitable { server: String, reason: String },
    #[error("the load is invalid: {0}")]
    Load(String),
    #[error("cannot {doing} {}: {source}", path.display())]
    File { path: PathBuf, doing: &'static str, source: io::Error },
    /// This machine lacks a resource.
    #[error("cannot {doing}: {source}")]
    System { doing: &'static str, source: io::Error },
}

/// An error number of the NBD protocol; 0 never occurs in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Errno(pub u32);

impl Errno {
    /// Its name in the NBD document without the prefix `NBD_`, if it has one.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        Some(match self.0 {
            p::EPERM => "EPERM",
            p::EIO => "EIO",
            p::ENOMEM => "ENOMEM",
            p::EINVAL => "EINVAL",
            p::ENOSPC => "ENOSPC",
            p::EOVERFLOW => "EOVERFLOW",
            p::ENOTSUP => "ENOTSUP",
            p::ESHUTDOWN => "ESHUTDOWN",
            _ => return None,
        })
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.pad(name),
            None => write!(f, "errno {}", self.0),
        }
    }
}

/// A server's error reply to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerError {
    /// The number.
    pub errno: Errno,
    /// The server's message; empty with simple replies, which have none.
    pub text: String,
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.errno)?;
        if !self.text.is_empty() {
            write!(f, " ({})", self.text)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_names_of_the_nbd_document() {
        assert_eq!(Errno(5).to_string(), "EIO");
        assert_eq!(Errno(4711).to_string(), "errno 4711");
        let error = ServerError { errno: Errno(28), text: "disk full".into() };
        assert_eq!(error.to_string(), "ENOSPC (disk full)");
    }
}
