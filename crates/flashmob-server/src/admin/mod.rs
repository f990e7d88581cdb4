//! The administrative side: the state of a running process over HTTP.

pub mod http;
pub mod metrics;
#[cfg(any(test, feature = "testing"))]
pub mod samples;

use std::net::{IpAddr, SocketAddr, TcpListener};

use anyhow::Context;

use self::http::Hosts;
use crate::discovery::hear::Ear;
use crate::keys::AdminKeys;
use crate::net::ListenAddr;
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

    /// The address.
    #[must_use]
    pub fn ip(&self) -> IpAddr {
        self.addr.ip()
    }

    /// Whether other machines may reach it.
    #[must_use]
    pub fn is_for_others(&self) -> bool {
        ListenAddr::Tcp(self.addr).is_for_others()
    }

    /// Serves reports over HTTP to requests for these hosts, accepts announcements if there is an ear for them, and logs the address.
    pub fn serve(
        self,
        reporter: Reporter,
        ear: Option<Ear>,
        hosts: Hosts,
        keys: Option<AdminKeys>,
    ) -> anyhow::Result<http::AdminServer> {
        // Where others can reach it, plain HTTP is of no use.
        let scheme = if keys.is_some() && self.is_for_others() { "https" } else { "http" };
        let server = http::serve_on(self.listener, Some(reporter), ear, hosts, keys);
        let server = server.with_context(|| cannot_serve(self.addr))?;
        log::info!("admin on {scheme}://{}/", server.local_addr());
        Ok(server)
    }
}

fn cannot_serve(addr: SocketAddr) -> String {
    format!("cannot serve /status and /metrics on {addr}; choose another address with --admin")
}
