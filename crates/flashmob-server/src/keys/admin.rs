//! Who may ask what of the administrative port of a process with keys.
//!
//! A gateway knows the clients of its list, by certificate or token; its own machine, by the gateway's key; and the nodes, by theirs: those announce where
//! they are, and nothing else. A node knows the token in a folder beside its extent ([`NodeCredentials`]).

use std::io;
use std::net::IpAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::certified::{CertifiedKeys, CertifiedPort};
use super::clients::{AdminRight, Client, token_digest};
use super::folder::{ADMIN_PURPOSE, Folder, FolderError};
use super::grant::Grant;
use super::key::{KeyError, PublicKey};
use super::known::KnownAddresses;
use super::line::{Line, Turn};
use super::lock;
use super::node::NodeKeys;
use super::node_credentials::NodeCredentials;
use crate::net::tls::{Proven, TlsEnd};
use crate::store::ExtentId;

/// Who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Who {
    /// It has proven nothing.
    Anybody,
    /// One who may do this, by this name.
    Known(AdminRight, String),
    /// The node with this extent.
    Node(ExtentId),
}

/// What an administrative port needs.
#[derive(Debug)]
pub struct AdminKeys {
    certified: Mutex<CertifiedKeys>,
    line: Line,
    known: Option<KnownAddresses>,
    of: Of,
}

#[derive(Debug)]
enum Of {
    /// With the latest generation of its grant that was seen: a folder that is restored from a copy counts when the gateway starts.
    Gateway(Folder, AtomicU64),
    /// With the digest of its token.
    Node(PublicKey),
}

impl AdminKeys {
    /// Those of a gateway. `names` and `listens`: see [`CertifiedKeys`].
    ///
    /// # Errors
    /// See [`FolderError`].
    pub fn of_gateway(folder: &Folder, names: &[String], listens: IpAddr) -> Result<AdminKeys, FolderError> {
        let of = Of::Gateway(folder.clone(), AtomicU64::new(0));
        Ok(AdminKeys::new(folder.certified(CertifiedPort::Admin, names, &[listens])?, of))
    }

    /// Those of a node, whose folder is made if there is none.
    ///
    /// # Errors
    /// See [`KeyError`].
    pub fn of_node(
        credentials: &NodeCredentials,
        keys: &NodeKeys,
        names: &[String],
        listens: IpAddr,
    ) -> Result<AdminKeys, KeyError> {
        let (authority, token) = credentials.open(keys)?;
        let certified = CertifiedKeys::new(authority, None, names, &[listens])
            .map_err(|source| credentials.failed("make a certificate in", source))?;
        Ok(AdminKeys::new(certified, Of::Node(token)))
    }

    fn new(certified: CertifiedKeys, of: Of) -> AdminKeys {
        AdminKeys { certified: Mutex::new(certified), line: Line::default(), known: None, of }
    }

    /// With these addresses, which do not wait for strangers; those that come are added.
    #[must_use]
    pub fn remembering(self, known: Option<KnownAddresses>) -> AdminKeys {
        AdminKeys { line: Line::knowing(known.iter().flat_map(KnownAddresses::all)), known, ..self }
    }

    /// Whether somebody at this address has lately proven who it is.
    #[must_use]
    pub fn was_let_in(&self, from: IpAddr) -> bool {
        self.line.was_let_in(from)
    }

    /// A place in the line of those who wait for a handshake.
    pub fn wait(&self, from: IpAddr) -> Turn<'_> {
        self.line.join(from)
    }

    /// The handshake of somebody at this address took so much of a processor's time.
    pub fn took(&self, from: IpAddr, time: Duration) {
        self.line.took(from, time);
    }

    /// Somebody at this address has proven who it is.
    pub fn let_in(&self, from: IpAddr) {
        self.line.let_in(from);
        if let Some(known) = &self.known {
            known.note(from);
        }
    }

    /// This process's end of a connection to `address`, for one who proves a key (`is_raw`) or who knows certificates.
    ///
    /// # Errors
    /// The keys cannot be read.
    pub fn end(&self, is_raw: bool, address: Option<IpAddr>) -> io::Result<TlsEnd> {
        match (&self.of, is_raw) {
            (Of::Gateway(folder, latest), true) => {
                let (_, granted, key) = folder.gateway_key().map_err(io::Error::other)?;
                check_latest(folder, latest, &granted).map_err(io::Error::other)?;
                key.server_end(ADMIN_PURPOSE)
            }
            _ => Ok(lock(&self.certified).end_at(address).clone()),
        }
    }

    /// Where what is to be proven comes from, for people.
    #[must_use]
    pub fn where_from(&self) -> &'static str {
        match self.of {
            Of::Gateway(..) => "a certificate or token from `flashmob client add ... --admin`",
            Of::Node(_) => "the node's token, in the folder DATA.admin beside its data",
        }
    }

    /// Who has proven this, as of now.
    ///
    /// # Errors
    /// The keys cannot be read.
    pub fn who(&self, proven: &Proven) -> Result<Who, FolderError> {
        Ok(match (proven, &self.of) {
            (Proven::Key(spki), Of::Gateway(folder, latest)) => {
                let key = PublicKey::from_spki(spki);
                let (_, granted) = folder.granted()?;
                check_latest(folder, latest, &granted)?;
                match key {
                    Some(key) if key == granted.gateway => Who::Known(AdminRight::All, "the gateway".to_string()),
                    Some(key) => folder.pins()?.extent_of(key).map_or(Who::Anybody, Who::Node),
                    None => Who::Anybody,
                }
            }
            (Proven::Certificate(certificate), _) => {
                let mut certified = lock(&self.certified);
                certified.refresh();
                known(certified.client(certificate))
            }
            _ => Who::Anybody,
        })
    }

    /// Who has this token.
    #[must_use]
    pub fn bearer(&self, token: &str) -> Who {
        match &self.of {
            Of::Gateway(..) => known(lock(&self.certified).client_with(token)),
            Of::Node(digest) if token_digest(token) == Some(*digest) => {
                Who::Known(AdminRight::All, "the node's token".to_string())
            }
            Of::Node(_) => Who::Anybody,
        }
    }
}

fn known(client: Option<Client>) -> Who {
    client.and_then(|who| Some(Who::Known(who.admin?, who.name))).unwrap_or(Who::Anybody)
}

fn check_latest(folder: &Folder, latest: &AtomicU64, granted: &Grant) -> Result<(), FolderError> {
    if granted.generation < latest.fetch_max(granted.generation, Ordering::Relaxed) {
        return Err(FolderError::NotLater(folder.path("gateway.grant")));
    }
    Ok(())
}
