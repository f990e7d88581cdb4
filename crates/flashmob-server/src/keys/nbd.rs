//! NBD clients inside TLS: who they are, and what they may do.

use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::authority::{Authority, Issued};
use super::clients::{Clients, ClientsError, NbdClient, fingerprint};
use crate::net::tls::{CertifiedIdentity, TlsEnd};

/// The gateway's end of NBD connections.
#[derive(Debug)]
pub struct NbdKeys {
    /// Its end.
    pub end: TlsEnd,
    /// Who may use what; also asked during handshakes.
    clients: Arc<Mutex<Clients>>,
}

impl NbdKeys {
    pub(super) fn new(
        gateway: &Authority,
        clients_authority: &Authority,
        clients: Clients,
        hosts: &[String],
        addresses: &[IpAddr],
    ) -> io::Result<NbdKeys> {
        let Issued { der, key_der, .. } =
            gateway.issue("flashmob gateway", hosts, addresses).map_err(io::Error::other)?;
        let (clients_der, _) = clients_authority.certificate().map_err(io::Error::other)?;
        let clients = Arc::new(Mutex::new(clients));
        let known = Arc::clone(&clients);
        let is_known = move |certificate: &[u8]| {
            let (mut clients, certificate) = (lock(&known), fingerprint(certificate));
            // It may have been added just now. A list that cannot be read is reported by whoever looks every second.
            clients.of(certificate).is_some() || (clients.refresh().is_ok() && clients.of(certificate).is_some())
        };
        let identity = CertifiedIdentity { certificate: der, pkcs8: &key_der };
        let end = TlsEnd::certified_server(identity, &clients_der, is_known).map_err(io::Error::other)?;
        Ok(NbdKeys { end, clients })
    }

    /// The client with this certificate, in DER, if it is still known.
    #[must_use]
    pub fn client(&self, certificate: &[u8]) -> Option<NbdClient> {
        self.list().of(fingerprint(certificate)).cloned()
    }

    /// What the list says now of a client.
    #[must_use]
    pub fn current(&self, who: &NbdClient) -> Option<NbdClient> {
        self.list().of(who.certificate).cloned()
    }

    /// Reads the list again.
    ///
    /// # Errors
    /// See [`ClientsError`]: the list stays as it was.
    pub fn refresh(&self) -> Result<(), ClientsError> {
        self.list().refresh()
    }

    fn list(&self) -> MutexGuard<'_, Clients> {
        lock(&self.clients)
    }
}

fn lock(clients: &Mutex<Clients>) -> MutexGuard<'_, Clients> {
    // It is consistent even after a panic.
    clients.lock().unwrap_or_else(PoisonError::into_inner)
}
