//! What can go wrong between this client and a server, or a file: always with the name of the one
//! concerned, and with what to do where that is known.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// A failure that ends a connection, a copy or a load.
///
/// A request that the server answers with an error is no such failure in a load, which counts it;
/// it is one in a copy and for [`crate::blocking::Client`].
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nobody listens there, or a firewall, or a name that does not resolve.
    #[error("cannot connect to {server}: {source}; check that it runs and listens there")]
    Connect {
        /// The server, as a URI.
        server: String,
        /// What the system says.
        source: io::Error,
    },
    /// The server was silent for too long.
    #[error(
        "{server} was silent for {} s while {doing}; check that it is neither stopped nor overloaded, or allow more time",
        after.as_secs_f64()
    )]
    Timeout {
        /// The server, as a URI.
        server: String,
        /// What was waited for.
        doing: String,
        /// How long.
        after: Duration,
    },
    /// The server ended the connection.
    #[error("{server} closed the connection while {doing}; its log may say why")]
    Closed {
        /// The server, as a URI.
        server: String,
        /// What was going on.
        doing: String,
    },
    /// The connection broke.
    #[error("the connection to {server} failed while {doing}: {source}")]
    Io {
        /// The server, as a URI.
        server: String,
        /// What was going on.
        doing: String,
        /// What the system says.
        source: io::Error,
    },
    /// The server sent what the NBD document does not allow.
    #[error("{server} does not speak NBD as documented: {reason}")]
    Protocol {
        /// The server, as a URI.
        server: String,
        /// What it sent, and what was expected.
        reason: String,
    },
    /// The server does not give the export.
    #[error("{server} refused {what}: {reason}")]
    Refused {
        /// The server, as a URI.
        server: String,
        /// What was asked for.
        what: String,
        /// Its error and its own words, if it sent any.
        reason: String,
    },
    /// The server answered a request with an error.
    #[error("{server} answered {error} to {what}")]
    Request {
        /// The server, as a URI.
        server: String,
        /// The request, in words.
        what: String,
        /// The answer.
        error: ServerError,
    },
    /// What was asked for cannot be done with this export.
    #[error("{server} cannot be used so: {reason}")]
    Unsuitable {
        /// The server, as a URI.
        server: String,
        /// Why, and what would do.
        reason: String,
    },
    /// The description of the load contradicts itself.
    #[error("the load makes no sense: {0}")]
    Load(String),
    /// A local file cannot be read or written.
    #[error("cannot {doing} {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What was tried, as a verb.
        doing: &'static str,
        /// What the system says.
        source: io::Error,
    },
    /// This machine lacks something that every load needs.
    #[error("cannot {doing}: {source}")]
    System {
        /// What was tried.
        doing: &'static str,
        /// What the system says.
        source: io::Error,
    },
}

/// An error number of the NBD protocol; 0 never occurs in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Errno(pub u32);

impl Errno {
    /// Operation not permitted: the export is read-only.
    pub const PERM: Errno = Errno(1);
    /// Input/output error.
    pub const IO: Errno = Errno(5);
    /// Cannot allocate memory.
    pub const NOMEM: Errno = Errno(12);
    /// Invalid argument.
    pub const INVAL: Errno = Errno(22);
    /// No space left on device.
    pub const NOSPC: Errno = Errno(28);
    /// Value too large.
    pub const OVERFLOW: Errno = Errno(75);
    /// Operation not supported.
    pub const NOTSUP: Errno = Errno(95);
    /// The server is shutting down.
    pub const SHUTDOWN: Errno = Errno(108);

    /// Its name in the NBD document without the prefix `NBD_`, if it has one.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        Some(match self {
            Errno::PERM => "EPERM",
            Errno::IO => "EIO",
            Errno::NOMEM => "ENOMEM",
            Errno::INVAL => "EINVAL",
            Errno::NOSPC => "ENOSPC",
            Errno::OVERFLOW => "EOVERFLOW",
            Errno::NOTSUP => "ENOTSUP",
            Errno::SHUTDOWN => "ESHUTDOWN",
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

/// A server's answer to a request that it did not fulfil.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerError {
    /// The number.
    pub errno: Errno,
    /// The server's own words; empty with simple replies, which have none.
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
        let error = ServerError { errno: Errno::NOSPC, text: "disk full".into() };
        assert_eq!(error.to_string(), "ENOSPC (disk full)");
    }
}
