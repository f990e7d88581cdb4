//! Errors between two ends: each names the other end, and the remedy where there is one.

use std::io;
use std::time::Duration;

/// A failure that ends a test.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are what the messages show")]
pub enum NetError {
    #[error("'{host}' is not an address, and cannot be resolved: {source}; check its spelling")]
    Name { host: String, source: io::Error },
    #[error(
        "{peer} refused the connection: nothing listens there, or only on another address; start 'flashmob bench net \
         --server --bind {}' or 'iperf3 -s' there",
        if *is_ipv4 { "0.0.0.0" } else { "::" }
    )]
    Refused { peer: String, is_ipv4: bool },
    #[error("no answer from {peer} within {} s: a firewall that drops, or a wrong address?", after.as_secs_f64())]
    NoAnswer { peer: String, after: Duration },
    #[error("cannot connect to {peer}: {source}")]
    Connect { peer: String, source: io::Error },
    #[error("the server is busy with another test: {0}; try again when that is over")]
    Busy(String),
    #[error("{peer} is not an iperf3 or flashmob server: it sent {said}")]
    Foreign { peer: String, said: String },
    #[error("{peer} was silent for {} s while {doing}; it vanished, or is not an iperf3 or flashmob server", after.as_secs_f64())]
    Silent { peer: String, doing: String, after: Duration },
    #[error("{peer} closed the connection while {doing}; its log may say why")]
    Closed { peer: String, doing: String },
    #[error("the connection to {peer} failed while {doing}: {source}")]
    Broken { peer: String, doing: String, source: io::Error },
    #[error("{peer} ended the test: {reason}")]
    Ended { peer: String, reason: String },
    #[error("{peer} does not keep to iperf3's protocol: {reason}")]
    Protocol { peer: String, reason: String },
    /// It does not know the extension.
    #[error("the other end is a plain iperf3: messages need flashmob at both ends ({0})")]
    Plain(String),
    /// The test is not possible here.
    #[error("{0}")]
    Unsuitable(String),
    /// This machine lacks a resource.
    #[error("cannot {doing}: {source}")]
    System { doing: &'static str, source: io::Error },
    /// Cancelled by the user before anything was measured.
    #[error("stopped; nothing was measured")]
    Cancelled,
}

impl NetError {
    pub(super) fn system(doing: &'static str) -> impl FnOnce(io::Error) -> NetError {
        move |source| NetError::System { doing, source }
    }
}
