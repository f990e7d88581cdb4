//! A port whose clients know certificates: NBD, and administration. What it shows, and whom it knows.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use super::authority::{Authority, Issued};
use super::clients::{Client, Clients, fingerprint};
use super::lock;
use crate::net::tls::{AskedCertificates, CertifiedIdentity, TlsEnd, Versions};

/// Addresses in a certificate besides those where the port listens: the last ones to which clients connected.
const LEARNED_MAX: usize = 8;
/// How often the list is read for one who is not on it.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// One end of such connections.
#[derive(Debug)]
pub struct CertifiedKeys {
    end: TlsEnd,
    issuer: Authority,
    clients: Option<KnownClients>,
    /// The names and addresses that the certificate has.
    hosts: Vec<String>,
    addresses: Vec<IpAddr>,
    /// How many of the addresses were there from the start.
    fixed: usize,
    /// When the list of clients was read last for one who was not on it.
    looked: Option<Instant>,
    /// Why the list of clients cannot be read, as logged last.
    trouble: Option<String>,
}

/// Clients with certificates.
#[derive(Debug, Clone)]
pub(super) struct KnownClients {
    /// The certificate of their authority, in DER.
    pub authority: Vec<u8>,
    /// Who may do what; also asked during handshakes.
    pub list: Arc<Mutex<Clients>>,
    /// What they come for.
    pub port: CertifiedPort,
}

/// A port whose clients know certificates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CertifiedPort {
    /// NBD: who has no certificate is not let in. Some clients speak TLS 1.2 alone.
    Nbd,
    /// Administration: a token may take the place of a certificate.
    Admin,
}

/// The names of a machine: its own, the first label of that, and the label in `.local`, as multicast DNS has it (RFC 6762). None if it has a
/// name that no certificate can have, or `localhost`, whose `.local` is anybody's.
pub fn names_of(machine: &str) -> Vec<String> {
    let is_name = machine.bytes().all(|b| b.is_ascii_alphanumeric() || b"-.".contains(&b));
    let label = machine.split('.').next().filter(|label| is_name && !label.is_empty() && *label != "localhost");
    let Some(label) = label else { return Vec::new() };
    let mut names = vec![machine.to_string(), label.to_string(), format!("{label}.local")];
    names.dedup();
    names
}

impl CertifiedKeys {
    /// `listens`: where the port listens. `names`: by which it may be reached, besides those of the device.
    pub(super) fn new(
        issuer: Authority,
        clients: Option<KnownClients>,
        names: &[String],
        listens: &[IpAddr],
    ) -> io::Result<CertifiedKeys> {
        let mut addresses: Vec<IpAddr> = vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
        let listens = listens.iter().map(IpAddr::to_canonical);
        addresses.extend(listens.filter(|address| !address.is_unspecified() && !address.is_loopback()));
        let mut hosts = vec!["localhost".to_string()];
        hosts.extend(names_of(&rustix::system::uname().nodename().to_string_lossy()));
        hosts.extend(names.iter().cloned());
        let end = certify(&issuer, clients.as_ref(), &hosts, &addresses)?;
        let fixed = addresses.len();
        Ok(CertifiedKeys { end, issuer, clients, hosts, addresses, fixed, looked: None, trouble: None })
    }

    /// The end for a client that connected to this address of the device: the certificate has it, even if it is new, as after DHCP.
    pub fn end_at(&mut self, address: Option<IpAddr>) -> &TlsEnd {
        // Of the many of loopback, which any program of this machine can connect to, it has the usual two.
        let is_new = |address: &IpAddr| !address.is_loopback() && !self.addresses.contains(address);
        if let Some(address) = address.map(|address| address.to_canonical()).filter(is_new) {
            self.addresses.push(address);
            if self.addresses.len() > self.fixed + LEARNED_MAX {
                self.addresses.remove(self.fixed);
            }
            match certify(&self.issuer, self.clients.as_ref(), &self.hosts, &self.addresses) {
                Ok(end) => self.end = end,
                Err(error) => {
                    self.addresses.pop();
                    log::error!("no certificate for address {address}: {error}");
                }
            }
        }
        &self.end
    }

    /// The client with this certificate, in DER, if it is still known.
    #[must_use]
    pub fn client(&self, certificate: &[u8]) -> Option<Client> {
        self.list()?.of(fingerprint(certificate)).cloned()
    }

    /// The client with this token, by the list as it is now. For tokens that are not on it the list is read once a second.
    #[must_use]
    pub fn client_with(&mut self, token: &str) -> Option<Client> {
        if self.list()?.with_token(token).is_none() {
            if self.looked.is_some_and(|at| at.elapsed() < LOOK_EVERY) {
                return None;
            }
            self.looked = Some(Instant::now());
        }
        self.refresh();
        self.list()?.with_token(token).cloned()
    }

    /// What the list says now of a client.
    #[must_use]
    pub fn current(&self, who: &Client) -> Option<Client> {
        self.list()?.of(who.certificate).cloned()
    }

    /// Reads the list again. If that fails it stays as it was, and the log says so once.
    pub fn refresh(&mut self) {
        let read = self.list().map_or(Ok(()), |mut list| list.refresh());
        let trouble = read.err().map(|error| error.to_string());
        if let Some(trouble) = trouble.as_ref().filter(|_| trouble != self.trouble) {
            log::error!("the rights of clients stay as they were: {trouble}");
        }
        self.trouble = trouble;
    }

    fn list(&self) -> Option<MutexGuard<'_, Clients>> {
        self.clients.as_ref().map(|clients| lock(&clients.list))
    }
}

fn certify(
    issuer: &Authority,
    clients: Option<&KnownClients>,
    hosts: &[String],
    addresses: &[IpAddr],
) -> io::Result<TlsEnd> {
    let Issued { der, key_der, .. } =
        issuer.issue(issuer.purpose().holder(), hosts, addresses).map_err(io::Error::other)?;
    let port = clients.map_or(CertifiedPort::Admin, |clients| clients.port);
    let asked = clients.cloned().map(|KnownClients { authority, list, .. }| {
        let is_known = move |certificate: &[u8]| {
            let (mut clients, certificate) = (lock(&list), fingerprint(certificate));
            // It may have been added just now. A list that cannot be read is reported by whoever looks every second.
            clients.of(certificate).is_some() || (clients.refresh().is_ok() && clients.of(certificate).is_some())
        };
        AskedCertificates { authority, is_known: Box::new(is_known), is_required: port == CertifiedPort::Nbd }
    });
    let identity = CertifiedIdentity { certificate: der, pkcs8: &key_der };
    let versions = if port == CertifiedPort::Nbd { Versions::WithEarlier } else { Versions::Latest };
    TlsEnd::certified_server(identity, asked, versions).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::super::authority::Purpose;
    use super::*;

    #[test]
    fn a_certificate_learns_addresses_and_does_not_grow_for_ever() {
        let dir = tempfile::tempdir().unwrap();
        Authority::create(dir.path(), Purpose::Node).unwrap();
        let issuer = Authority::load(dir.path(), Purpose::Node).unwrap();
        let listens = [IpAddr::from([0, 0, 0, 0]), IpAddr::from([10, 0, 0, 1])];
        let mut keys = CertifiedKeys::new(issuer, None, &["gateway.example.org".to_string()], &listens).unwrap();
        let fixed = keys.addresses.clone();
        assert_eq!(fixed.len(), 3, "{fixed:?}");
        for host in 2..200 {
            keys.end_at(Some(IpAddr::from([127, 0, 0, host])));
            keys.end_at(None);
        }
        assert_eq!(keys.addresses, fixed, "anybody on this machine can connect to these");
        for host in 1..=20 {
            keys.end_at(Some(IpAddr::from([192, 168, 1, host])));
            assert!(keys.addresses.contains(&IpAddr::from([192, 168, 1, host])));
            assert!(keys.addresses.starts_with(&fixed) && keys.addresses.len() <= fixed.len() + LEARNED_MAX);
        }
        assert!(!keys.addresses.contains(&IpAddr::from([192, 168, 1, 12])));
    }
}
