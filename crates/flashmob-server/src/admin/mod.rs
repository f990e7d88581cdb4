//! The administrative side: the state of a running process over HTTP.

pub mod http;
pub mod metrics;
#[cfg(any(test, feature = "testing"))]
pub mod samples;

use crate::discovery::hear::Ear;
use crate::status::Reporter;

/// Serves reports over HTTP at `addr`, accepts announcements there if there is an ear for them, and logs the address.
pub fn start(addr: std::net::SocketAddr, reporter: Reporter, ear: Option<Ear>) -> anyhow::Result<http::AdminServer> {
    use anyhow::Context;
    let server = http::serve_both(addr, Some(reporter), ear)
        .with_context(|| format!("cannot serve /status and /metrics on {addr}; choose another address with --admin"))?;
    log::info!("admin on http://{}/", server.local_addr());
    Ok(server)
}
