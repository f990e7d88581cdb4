//! NBD clients of a cluster with keys: over TCP inside TLS alone, over unix sockets of the same user.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use anyhow::Context;
use flashmob_core::gateway::Right;
use flashmob_core::units::Time;

use super::server::{ClientConn, GatewayServer};
use super::socket_folder::check_folders_of;
use crate::config::{Config, Listen};
use crate::keys::{CertifiedKeys, CertifiedPort, Client, Doorman, Folder, KnownAddresses};
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

/// What clients over TCP come to.
#[derive(Debug)]
pub(super) struct NbdDoor {
    keys: CertifiedKeys,
    doorman: Doorman,
    known: Option<KnownAddresses>,
}

impl NbdDoor {
    /// If the cluster has keys and there is a TCP port.
    pub(super) fn open(config: &Config, known: Option<KnownAddresses>) -> anyhow::Result<Option<NbdDoor>> {
        for listen in config.listen.iter().filter(|_| config.keys.is_some()) {
            if let Listen::Unix(socket) = listen {
                check_folders_of(socket)?;
            }
        }
        let listens = config.listen.iter().filter_map(|listen| match listen {
            Listen::Tcp(address) => Some(address.ip()),
            Listen::Unix(_) => None,
        });
        let listens: Vec<IpAddr> = listens.collect();
        let Some(folder) = config.keys.as_ref().filter(|_| !listens.is_empty()) else { return Ok(None) };
        let keys = Folder::at(folder).certified(CertifiedPort::Nbd, &config.admin_hosts, &listens);
        let keys = keys.context("the keys for NBD cannot be used")?;
        let doorman = Doorman::knowing(known.iter().flat_map(KnownAddresses::all));
        Ok(Some(NbdDoor { keys, doorman, known }))
    }

    pub(super) fn was_let_in(&self, from: Option<IpAddr>) -> bool {
        self.doorman.was_let_in(from)
    }

    pub(super) fn took(&mut self, from: Option<IpAddr>, time: Duration) {
        self.doorman.took(from, time);
    }

    fn let_in(&mut self, from: Option<IpAddr>) {
        self.doorman.let_in(from);
        if let (Some(known), Some(from)) = (&self.known, from) {
            known.note(from);
        }
    }
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
        let (Some(conn), Some(door)) = (self.clients.get_mut(key), &mut self.nbd) else { return };
        if conn.secrecy != Secrecy::Starting {
            return;
        }
        let now = Instant::now();
        let has_waited = conn.waits_until.is_some();
        conn.waits_until = door.doorman.admit(now, conn.stream.peer_ip()).err().map(|wait| now + wait);
        if !has_waited || conn.waits_until.is_none() {
            conn.stepped = now;
        }
        if conn.waits_until.is_some() {
            return;
        }
        match conn.stream.secure(door.keys.end_at(conn.stream.local_ip())) {
            Ok(()) => conn.secrecy = Secrecy::Proving,
            Err(error) => self.turn_away_client(key, &error.to_string()),
        }
    }

    /// Begins TLS on connections that had to wait for others.
    pub(super) fn begin_waiting(&mut self) {
        let Some(door) = &self.nbd else { return };
        let now = Instant::now();
        let is_due = |conn: &ClientConn| conn.waits_until.is_some_and(|at| now >= at);
        let mut due: Vec<usize> = self.clients.iter().filter(|(_, conn)| is_due(conn)).map(|(key, _)| key).collect();
        due.sort_by_cached_key(|key| {
            let conn = &self.clients[*key];
            door.doorman.turn_of(conn.stream.peer_ip(), conn.stepped)
        });
        for key in due {
            self.begin_tls(key);
        }
    }

    /// When the next of them may begin.
    pub(super) fn tls_due(&self) -> Option<Duration> {
        self.nbd.as_ref()?;
        let at = self.clients.iter().filter_map(|(_, conn)| conn.waits_until).min()?;
        Some(at.saturating_duration_since(Instant::now()))
    }

    /// Gives a client that has proven its key the rights that it has.
    pub(super) fn let_in(&mut self, now: Time, key: usize) {
        let (Some(conn), Some(door)) = (self.clients.get_mut(key), &mut self.nbd) else { return };
        let Some(who) = conn.stream.peer_certificate().and_then(|certificate| door.keys.client(certificate)) else {
            return self.turn_away_client(key, "not let in: its certificate is not known");
        };
        door.let_in(conn.stream.peer_ip());
        conn.stepped = Instant::now();
        let names: Vec<&str> = self.gateway.volume_names().collect();
        let right = |name: &String| {
            let volume = names.iter().position(|known| known == name)?;
            Some(Right { volume, read_only: who.read_only })
        };
        let rights = who.volumes.iter().filter_map(right).collect();
        log::debug!("client {} is {}", conn.stream.peer(), who.name);
        (conn.secrecy, conn.who) = (Secrecy::Settled, Some(who));
        let (id, user) = (conn.id, conn.user());
        self.gateway.client_is_of(id, user);
        self.gateway.client_secured(id, rights);
        self.gateway.process_client(now, id, &mut self.links);
    }

    pub(super) fn turn_away_client(&mut self, key: usize, why: &str) {
        if let Some(conn) = self.clients.get(key) {
            self.turned_away.note(&format!("client {}", conn.stream.peer()), why);
        }
        self.remove_client(key);
    }

    /// Ends the connections of clients whose rights were changed or revoked.
    pub(super) fn end_revoked(&mut self) {
        let Some(door) = &mut self.nbd else { return };
        door.keys.refresh();
        let door = &*door;
        let is_over = |who: &Client| door.keys.current(who).as_ref() != Some(who);
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
