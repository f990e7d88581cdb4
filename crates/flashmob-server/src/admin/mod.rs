//! The administrative side: the state of a running process over HTTP.

pub mod http;
pub mod metrics;
#[cfg(any(test, feature = "testing"))]
pub mod samples;

use std::net::{SocketAddr, TcpListener};

use anyhow::Context;

use self::http::Hosts;
use crate::discovery::hear::Ear;
use crate::status::Reporter;

/// The address of the administrative side, taken. Clients can connect and wait until it is served.
#[derive(Debug)]
pub struct Bound {
    addr: SocketAddr,
    listener: TcpListener,
}

impl Bound {
    /// Listens at `addr`, so that a busy port is known before anything else is made.
    pub fn at(addr: SocketAddr) -> anyhow::Result<Bound> {
        let listener = TcpListener::bind(addr).with_context(|| cannot_serve(addr))?;
        Ok(Bound { addr, listener })
    }

    /// Serves reports over HTTP to requests for these hosts, accepts announcements if there is an ear for them, and logs the address.
    pub fn serve(self, reporter: Reporter, ear: Option<Ear>, hosts: Hosts) -> anyhow::Result<http::AdminServer> {
        let server =
            http::serve_on(self.listener, Some(reporter), ear, hosts).with_context(|| cannot_serve(self.addr))?;
        log::info!("admin on http://{}/", server.local_addr());
        Ok(server)
    }
}

/// Binds the address and serves it.
pub fn start(
    addr: SocketAddr,
    reporter: Reporter,
    ear: Option<Ear>,
    hosts: Hosts,
) -> anyhow::Result<http::AdminServer> {
    Bound::at(addr)?.serve(reporter, ear, hosts)
}

fn cannot_serve(addr: SocketAddr) -> String {
    format!("cannot serve /status and /metrics on {addr}; choose another address with --admin")
}
