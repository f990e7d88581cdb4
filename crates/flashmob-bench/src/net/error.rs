//! What can go wrong between two ends: always with the name of the other one, and with what to do where that is known.

use std::io;
use std::time::Duration;

/// A failure that ends a test.
#[derive(Debug, thiserror::Error)]
pub enum NetError {
    /// The name is nobody's.
    #[error("'{host}' is no address, and no name that can be looked up: {source}; check its spelling")]
    Name {
        /// As the user gave it.
        host: String,
        /// What the system says.
        source: io::Error,
    },
    /// Nobody listens there.
    #[error(
        "{peer} refused the connection: nothing listens there; start 'flashmob bench net --server' or 'iperf3 -s' there"
    )]
    Refused {
        /// The other end.
        peer: String,
    },
    /// No answer at all.
    #[error("no answer from {peer} within {} s: a firewall that drops, or a wrong address?", after.as_secs_f64())]
    NoAnswer {
        /// The other end.
        peer: String,
        /// How long it was waited for.
        after: Duration,
    },
    /// It cannot be reached.
    #[error("cannot connect to {peer}: {source}")]
    Connect {
        /// The other end.
        peer: String,
        /// What the system says.
        source: io::Error,
    },
    /// It serves somebody else.
    #[error("the server is busy with another test: {peer}; try again when that is over")]
    Busy {
        /// The other end.
        peer: String,
    },
    /// It speaks something else.
    #[error("{peer} is no iperf3 server, nor one of flashmob: it said {said}")]
    Foreign {
        /// The other end.
        peer: String,
        /// The beginning of what it said.
        said: String,
    },
    /// It said nothing for too long.
    #[error("{peer} was silent for {} s while {doing}; it vanished, or is no iperf3 or flashmob server", after.as_secs_f64())]
    Silent {
        /// The other end.
        peer: String,
        /// What was waited for.
        doing: String,
        /// How long.
        after: Duration,
    },
    /// It went away.
    #[error("{peer} closed the connection while {doing}; its log may say why")]
    Closed {
        /// The other end.
        peer: String,
        /// What was going on.
        doing: String,
    },
    /// The connection broke.
    #[error("the connection to {peer} failed while {doing}: {source}")]
    Broken {
        /// The other end.
        peer: String,
        /// What was going on.
        doing: String,
        /// What the system says.
        source: io::Error,
    },
    /// It gave up.
    #[error("{peer} ended the test: {reason}")]
    Ended {
        /// The other end.
        peer: String,
        /// Its reason, as far as it gives one.
        reason: String,
    },
    /// It said what the protocol does not allow.
    #[error("{peer} does not keep to iperf3's protocol: {reason}")]
    Protocol {
        /// The other end.
        peer: String,
        /// What it sent, and what was expected.
        reason: String,
    },
    /// It does not know the extension.
    #[error("the other end is a plain iperf3: messages need flashmob at both ends ({peer})")]
    Plain {
        /// The other end.
        peer: String,
    },
    /// What was asked for cannot be done here.
    #[error("{0}")]
    Unsuitable(String),
    /// This machine lacks something that every test needs.
    #[error("cannot {doing}: {source}")]
    System {
        /// What was tried.
        doing: &'static str,
        /// What the system says.
        source: io::Error,
    },
    /// Stopped by the user before anything was measured.
    #[error("stopped; nothing was measured")]
    Cancelled,
}

impl NetError {
    pub(super) fn system(doing: &'static str) -> impl FnOnce(io::Error) -> NetError {
        move |source| NetError::System { doing, source }
    }
}
