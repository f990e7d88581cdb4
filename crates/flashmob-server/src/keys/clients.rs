//! Who may use which volumes over NBD, and who may administer: a list of certificates, each with its rights. Who is not on it is not let in, whatever signed
//! the certificate.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::{SecureRandom, SystemRandom};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use super::key::PublicKey;
use crate::store::{Kind, Unsafe, read_owned, replace_private};

/// Most bytes of the file: far more than a thousand clients need.
const FILE_BYTES_MAX: u64 = 1 << 20;
const HEADING: &str = "# Clients that may use volumes over NBD, or administer. Written by `flashmob client`.\n";
/// Most bytes of a client's name: with "client " before it, those of a common name in a certificate (RFC 5280, appendix A.1).
pub const NAME_BYTES_MAX: usize = 57;

/// A client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Client {
    /// Its name, for people.
    pub name: String,
    /// The SHA-256 of its certificate, as `openssl x509 -fingerprint -sha256` prints it, without colons.
    pub certificate: PublicKey,
    /// The names of the volumes that it may use.
    pub volumes: Vec<String>,
    /// It may only read them.
    pub read_only: bool,
    /// What it may do at the administrative port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admin: Option<AdminRight>,
    /// The SHA-256 of its token for the administrative port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<PublicKey>,
}

/// What somebody may do at the administrative port; each includes those before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AdminRight {
    /// Read `/metrics`.
    Metrics,
    /// Read everything.
    Read,
    /// Change something.
    All,
}

impl AdminRight {
    /// As `flashmob client add --admin` takes it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            AdminRight::Metrics => "metrics",
            AdminRight::Read => "read",
            AdminRight::All => "all",
        }
    }
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default, rename = "client")]
    clients: Vec<Client>,
}

/// Why the list cannot be read, or changed.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are what the messages show")]
pub enum ClientsError {
    /// A client of that name is there.
    #[error("there is a client '{0}' already; `flashmob client revoke` ends its rights")]
    Known(String),
    /// There is no client of that name.
    #[error("there is no client '{0}'; there are: {1}")]
    Unknown(String, String),
    /// A name that may not be one.
    #[error("'{0}' cannot be a client's name: use 1 to {NAME_BYTES_MAX} letters, digits, '-', '_' and '.'")]
    BadName(String),
    /// The file holds something else.
    #[error("{path} is damaged: {why}; restore it from a backup")]
    Damaged { path: PathBuf, why: String },
    /// Others may change the file.
    #[error(transparent)]
    Unsafe(#[from] Unsafe),
    /// The file cannot be read or written.
    #[error("cannot {action} {path}: {source}")]
    Io { action: &'static str, path: PathBuf, source: io::Error },
}

/// The list, and its file.
#[derive(Debug, Clone)]
pub struct Clients {
    path: PathBuf,
    all: Vec<Client>,
}

/// Bytes of randomness in a token.
const TOKEN_BYTES: usize = 32;
/// The same in base64url.
const TOKEN_CHARS: usize = 43;

/// A new token.
///
/// # Errors
/// The system has no randomness.
pub fn draw_token() -> io::Result<Zeroizing<String>> {
    let mut bytes = Zeroizing::new([0; TOKEN_BYTES]);
    SystemRandom::new().fill(&mut *bytes).map_err(|_| io::Error::other("there are no random numbers"))?;
    Ok(Zeroizing::new(URL_SAFE_NO_PAD.encode(*bytes)))
}

/// What is kept of a token; none if it cannot be one. It has as much randomness as the digest, so that nobody finds it by trying.
#[must_use]
pub fn token_digest(token: &str) -> Option<PublicKey> {
    (token.len() == TOKEN_CHARS).then(|| digest_of(token.as_bytes()))
}

/// The SHA-256 of a certificate in DER.
#[must_use]
pub fn fingerprint(certificate: &[u8]) -> PublicKey {
    digest_of(certificate)
}

/// A SHA-256, written as keys are. Nobody finds bytes of which it is a point that is no key; if somebody did, it would be hashed once more.
fn digest_of(bytes: &[u8]) -> PublicKey {
    let mut digest = Sha256::digest(bytes);
    loop {
        match PublicKey::of(digest.into()) {
            Some(digest) => return digest,
            None => digest = Sha256::digest(digest),
        }
    }
}

impl Clients {
    pub(super) fn none(path: &Path) -> Clients {
        Clients { path: path.to_path_buf(), all: Vec::new() }
    }

    /// Reads the file.
    ///
    /// # Errors
    /// See [`ClientsError`].
    pub fn load(path: &Path) -> Result<Clients, ClientsError> {
        let failed = |source| ClientsError::Io { action: "read", path: path.to_path_buf(), source };
        let bytes = read_owned(path, Kind::Integrity, FILE_BYTES_MAX).map_err(|e| e.or(failed))?;
        Clients::parse(path, &bytes)
    }

    /// The list in the bytes of a file, which lies at `path`.
    ///
    /// # Errors
    /// See [`ClientsError`].
    pub fn parse(path: &Path, bytes: &[u8]) -> Result<Clients, ClientsError> {
        let damaged = |why: String| ClientsError::Damaged { path: path.to_path_buf(), why };
        if bytes.len() as u64 > FILE_BYTES_MAX {
            return Err(damaged(format!("it is larger than {FILE_BYTES_MAX} bytes")));
        }
        let text = std::str::from_utf8(bytes).map_err(|_| damaged("it is not text".into()))?;
        let document: Document = toml::from_str(text).map_err(|e| damaged(e.message().to_string()))?;
        let (mut names, mut certificates) = (HashSet::new(), HashSet::new());
        for client in &document.clients {
            if !is_name(&client.name) || !names.insert(&client.name) || !certificates.insert(client.certificate) {
                return Err(damaged(format!("client '{}' is there twice, or has no valid name", client.name)));
            }
        }
        Ok(Clients { all: document.clients, ..Clients::none(path) })
    }

    /// Reads the file again. Its time tells nothing: two changes may have the same.
    ///
    /// # Errors
    /// See [`ClientsError`]: the list stays as it was.
    pub fn refresh(&mut self) -> Result<(), ClientsError> {
        *self = Clients::load(&self.path)?;
        Ok(())
    }

    /// Adds a client, on the flash when this returns.
    ///
    /// # Errors
    /// See [`ClientsError`].
    pub fn add(&mut self, client: Client) -> Result<(), ClientsError> {
        self.check_new(&client.name)?;
        let mut changed = self.clone();
        changed.all.push(client);
        changed.save()?;
        *self = changed;
        Ok(())
    }

    /// Whether a client of that name can be added.
    ///
    /// # Errors
    /// See [`ClientsError`].
    pub fn check_new(&self, name: &str) -> Result<(), ClientsError> {
        if !is_name(name) {
            return Err(ClientsError::BadName(name.to_string()));
        }
        match self.all.iter().any(|known| known.name == name) {
            true => Err(ClientsError::Known(name.to_string())),
            false => Ok(()),
        }
    }

    /// Removes a client, on the flash when this returns.
    ///
    /// # Errors
    /// See [`ClientsError`].
    pub fn revoke(&mut self, name: &str) -> Result<(), ClientsError> {
        let mut changed = self.clone();
        changed.all.retain(|client| client.name != name);
        if changed.all.len() == self.all.len() {
            let names: Vec<&str> = self.all.iter().map(|client| &client.name[..]).collect();
            let names = if names.is_empty() { "none".to_string() } else { names.join(", ") };
            return Err(ClientsError::Unknown(name.to_string(), names));
        }
        changed.save()?;
        *self = changed;
        Ok(())
    }

    pub(super) fn save(&self) -> Result<(), ClientsError> {
        let failed = |source| ClientsError::Io { action: "write", path: self.path.clone(), source };
        let document = Document { clients: self.all.clone() };
        let body = toml::to_string(&document).map_err(|e| failed(io::Error::other(e)))?;
        replace_private(&self.path, &format!("{HEADING}{body}")).map_err(failed)
    }

    /// The client with this certificate.
    #[must_use]
    pub fn of(&self, certificate: PublicKey) -> Option<&Client> {
        self.all.iter().find(|client| client.certificate == certificate)
    }

    /// The client with this token.
    #[must_use]
    pub fn with_token(&self, token: &str) -> Option<&Client> {
        let digest = token_digest(token)?;
        self.all.iter().find(|client| client.token == Some(digest))
    }

    /// All of them.
    #[must_use]
    pub fn all(&self) -> &[Client] {
        &self.all
    }
}

fn is_name(name: &str) -> bool {
    (1..=NAME_BYTES_MAX).contains(&name.len())
        && !name.starts_with('.')
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    fn token_of(name: &str) -> String {
        format!("{name:A<TOKEN_CHARS$}")
    }

    fn client(name: &str, certificate: u8) -> Client {
        let volumes = vec!["pool".to_string()];
        let (admin, token) = (Some(AdminRight::Read), token_digest(&token_of(name)));
        Client {
            name: name.into(),
            certificate: PublicKey::of([if certificate == 0 { 0xfe } else { certificate }; 32]).unwrap(),
            volumes,
            read_only: certificate > 1,
            admin,
            token,
        }
    }

    #[test]
    fn clients_are_kept_and_a_change_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("clients");
        let mut clients = Clients::none(&path);
        clients.add(client("alice", 1)).unwrap();
        clients.add(client("bob", 2)).unwrap();
        assert!(matches!(clients.add(client("alice", 3)), Err(ClientsError::Known(_))));
        for bad in ["", "a b", ".", "../x", &"n".repeat(NAME_BYTES_MAX + 1)] {
            assert!(matches!(clients.add(client(bad, 3)), Err(ClientsError::BadName(_))), "{bad}");
        }
        let mut seen = Clients::load(&path).unwrap();
        assert_eq!(seen.all(), clients.all());
        assert_eq!(seen.of(PublicKey::of([2; 32]).unwrap()), Some(&client("bob", 2)));
        assert_eq!(seen.with_token(&token_of("bob")), Some(&client("bob", 2)));
        assert_eq!(seen.with_token(&token_of("carol")), None);
        let text = clients.revoke("carol").unwrap_err().to_string();
        assert!(text.contains("there are: alice, bob"), "{text}");
        clients.revoke("bob").unwrap();
        seen.refresh().unwrap();
        assert_eq!(seen.of(PublicKey::of([2; 32]).unwrap()), None);
        std::fs::write(&path, "damaged").unwrap();
        assert!(seen.refresh().is_err());
        assert_eq!(seen.all(), clients.all(), "the list stays");
    }

    #[test]
    fn tokens_are_different_and_rights_include_each_other() {
        let (first, second) = (draw_token().unwrap(), draw_token().unwrap());
        assert!(first != second && first.len() == TOKEN_CHARS);
        assert!(AdminRight::Metrics < AdminRight::Read && AdminRight::Read < AdminRight::All);
    }

    /// How many tokens with changes are taken, of `count`; those of 100 clients are on the list.
    fn changed_tokens_taken(count: usize) -> usize {
        let tokens: Vec<_> = (0..100).map(|_| draw_token().unwrap()).collect();
        let mut clients = Clients::none(Path::new("clients"));
        clients.all = (0u8..)
            .zip(&tokens)
            .map(|(n, token)| Client { token: token_digest(token), ..client(&format!("client{n}"), n) })
            .collect();
        assert!(tokens.iter().all(|token| clients.with_token(token).is_some()));
        let mut rng = SmallRng::seed_from_u64(count as u64);
        let taken = (0..count).filter(|at| {
            let mut changed = tokens[at % tokens.len()].as_bytes().to_vec();
            for _ in 0..rng.random_range(1..4) {
                let at = rng.random_range(0..changed.len());
                match rng.random_range(0..4) {
                    0 => changed.truncate(at.max(1)),
                    1 => changed.insert(at, rng.random_range(b' '..b'~')),
                    2 => changed[at] ^= 0x20,
                    _ => changed[at] = rng.random_range(b' '..b'~'),
                }
            }
            let changed = String::from_utf8_lossy(&changed);
            tokens.iter().all(|token| **token != changed) && clients.with_token(&changed).is_some()
        });
        taken.count()
    }

    #[test]
    fn no_changed_token_is_taken() {
        assert_eq!(changed_tokens_taken(2000), 0);
    }

    #[test]
    #[ignore = "takes long: TOKENS of them, 100,000 unless it says otherwise"]
    fn long_no_changed_token_is_taken() {
        let count = std::env::var("TOKENS").ok().and_then(|count| count.parse().ok()).unwrap_or(100_000);
        assert_eq!(changed_tokens_taken(count), 0);
    }

    #[test]
    fn a_damaged_list_is_refused() {
        let entry = |name: &str, digits: &str| {
            format!("[[client]]\nname = \"{name}\"\ncertificate = \"{digits}\"\nvolumes = []\nread_only = false\n")
        };
        let (first, second) = ("01".repeat(32), "02".repeat(32));
        let is_good = |text: String| Clients::parse(Path::new("c"), text.as_bytes()).is_ok();
        assert!(is_good(String::new()) && is_good(entry("a", &first) + &entry("b", &second)));
        for bad in [
            entry("a", &first) + &entry("a", &second),
            entry("a", &first) + &entry("b", &first),
            entry("", &first),
            entry("a", &first[1..]),
            entry("a", &first).replace("read_only", "readonly"),
        ] {
            assert!(!is_good(bad.clone()), "{bad}");
        }
    }
}
