//! NBD clients of a cluster with keys: over TCP inside TLS alone, over unix sockets of the same user.

use std::net::IpAddr;

use anyhow::Context;
use flashmob_core::gateway::Right;
use flashmob_core::units::Time;

use super::server::GatewayServer;
use crate::config::{Config, Listen};
use crate::keys::{Folder, NbdClient, NbdKeys};
use crate::net::Stream;

/// How far a client is with TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Secrecy {
    /// It has no TLS, or has not asked for it, or is inside it.
    Settled,
    /// It begins when what is queued is sent. Nothing is read before.
    Starting,
    /// Keys are being proven.
    Proving,
}

/// How a client gets in.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum WayIn {
    /// As it is.
    Open,
    /// By TLS.
    Tls,
    /// Not at all, for this reason.
    Closed(String),
}

/// The keys for NBD, if the cluster has keys and there is a TCP port.
pub(super) fn load_nbd_keys(config: &Config) -> anyhow::Result<Option<NbdKeys>> {
    let mut addresses: Vec<IpAddr> = vec![IpAddr::from([127, 0, 0, 1]), IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1u16])];
    let listens = config.listen.iter().filter_map(|listen| match listen {
        Listen::Tcp(address) => Some(address.ip()),
        Listen::Unix(_) => None,
    });
    let listens: Vec<IpAddr> = listens.collect();
    let Some(folder) = config.keys.as_ref().filter(|_| !listens.is_empty()) else { return Ok(None) };
    addresses.extend(if_addrs::get_if_addrs().unwrap_or_default().iter().map(|interface| interface.ip()));
    addresses.extend(listens.into_iter().filter(|address| !address.is_unspecified()));
    addresses.sort_unstable();
    addresses.dedup();
    let own = rustix::system::uname().nodename().to_string_lossy().to_string();
    let mut hosts = vec!["localhost".to_string()];
    // A device may have a name that no certificate can have.
    if !own.is_empty() && own.bytes().all(|b| b.is_ascii_alphanumeric() || b"-.".contains(&b)) {
        hosts.extend([format!("{own}.local"), own]);
    }
    hosts.extend(config.admin_hosts.iter().cloned());
    let keys = Folder::at(folder).nbd(&hosts, &addresses).context("the keys for NBD cannot be used")?;
    Ok(Some(keys))
}

impl GatewayServer {
    /// How the client of a new connection gets in.
    pub(super) fn way_in(&self, stream: &Stream) -> WayIn {
        let has_keys = self.links.keys().is_some();
        match (has_keys, stream.tcp_fd().is_some()) {
            (false, _) => WayIn::Open,
            (true, true) => WayIn::Tls,
            (true, false) => {
                let own = rustix::process::geteuid().as_raw();
                match stream.peer_user() {
                    Some(user) if user == own || user == 0 => WayIn::Open,
                    user => WayIn::Closed(format!(
                        "refused: user {} is not that of the gateway; a unix socket is for the gateway's own user where the cluster has keys",
                        user.map_or_else(|| "unknown".to_string(), |user| user.to_string())
                    )),
                }
            }
        }
    }

    /// Begins TLS on a connection that has sent all that was to be sent before.
    pub(super) fn begin_tls(&mut self, key: usize) {
        let (Some(conn), Some(keys)) = (self.clients.get_mut(key), &self.nbd_keys) else { return };
        if conn.secrecy != Secrecy::Starting {
            return;
        }
        match conn.stream.secure(&keys.end) {
            Ok(()) => conn.secrecy = Secrecy::Proving,
            Err(error) => self.turn_away_client(key, &error.to_string()),
        }
    }

    /// Gives a client that has proven its key the rights that it has.
    pub(super) fn let_in(&mut self, now: Time, key: usize) {
        let (Some(conn), Some(keys)) = (self.clients.get_mut(key), &self.nbd_keys) else { return };
        let Some(who) = conn.stream.peer_certificate().and_then(|certificate| keys.client(certificate)) else {
            return self.turn_away_client(key, "not let in: its certificate is not known");
        };
        let names: Vec<&str> = self.gateway.volume_names().collect();
        let right = |name: &String| names.iter().position(|known| known == name);
        let right = |name| right(name).map(|volume| Right { volume, read_only: who.read_only });
        let rights = who.volumes.iter().filter_map(right).collect();
        log::debug!("client {} is {}", conn.stream.peer(), who.name);
        (conn.secrecy, conn.who) = (Secrecy::Settled, Some(who));
        let id = conn.id;
        self.gateway.client_secured(id, rights);
        self.gateway.process_client(now, id, &mut self.links);
    }

    pub(super) fn turn_away_client(&mut self, key: usize, why: &str) {
        if let Some(conn) = self.clients.get(key) {
            self.turned_away.note(&format!("client {}", conn.stream.peer()), why);
        }
        self.remove_client(key);
    }

    /// Whether clients are there whose rights may be revoked.
    pub(super) fn has_proven_clients(&self) -> bool {
        self.nbd_keys.is_some() && self.clients.iter().any(|(_, conn)| conn.who.is_some())
    }

    /// Ends the connections of clients whose rights were changed or revoked.
    pub(super) fn end_revoked(&mut self) {
        let Some(keys) = &self.nbd_keys else { return };
        // A handshake may have read it meanwhile, so the rights are compared in any case.
        if let Err(error) = keys.refresh() {
            self.turned_away.note("the list of clients", &error.to_string());
        }
        let is_over = |who: &NbdClient| keys.current(who).as_ref() != Some(who);
        let over = self.clients.iter().filter(|(_, conn)| conn.who.as_ref().is_some_and(is_over));
        let over: Vec<(usize, String)> =
            over.map(|(key, conn)| (key, conn.who.as_ref().map(|who| who.name.clone()).unwrap_or_default())).collect();
        for (key, name) in over {
            log::info!(
                "client {}: the rights of {name} were changed; its connection is ended",
                self.clients[key].stream.peer()
            );
            self.remove_client(key);
        }
    }
}
