//! Ed25519 keys, and their files: PKCS #8 in PEM (RFC 8410), as OpenSSL and GnuTLS write and read it.

use std::fmt;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use zeroize::Zeroizing;

use super::guard::keep_memory_private;
use crate::net::tls::{TlsEnd, TlsIdentity};
pub use crate::store::{BadPublicKey, PublicKey};
use crate::store::{Kind, Unsafe, create_anew, is_of_small_order, keeps_secrets, open_owned, sync_parent};

/// What stands before the seed in PKCS #8 of version 1 (RFC 8410, 7).
const PKCS8_PREFIX: [u8; 16] =
    [0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];
/// What stands before a key in a SubjectPublicKeyInfo (RFC 8410, 4).
const SPKI_PREFIX: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
/// Bytes of a SubjectPublicKeyInfo with an Ed25519 key.
pub const SPKI_BYTES: usize = 44;
const PEM_BEGIN: &str = "-----BEGIN PRIVATE KEY-----";
const PEM_END: &str = "-----END PRIVATE KEY-----";
/// Most bytes of a file with a key: RSA's, which etcd may ask for, are the longest.
const FILE_BYTES_MAX: u64 = 16 << 10;

impl PublicKey {
    /// From a SubjectPublicKeyInfo of exactly this form, as TLS carries it (RFC 7250).
    #[must_use]
    pub fn from_spki(spki: &[u8]) -> Option<PublicKey> {
        PublicKey::of(spki.strip_prefix(&SPKI_PREFIX[..])?.try_into().ok()?)
    }

    /// As a SubjectPublicKeyInfo.
    #[must_use]
    pub fn to_spki(self) -> [u8; SPKI_BYTES] {
        let mut spki = [0; SPKI_BYTES];
        spki[..SPKI_PREFIX.len()].copy_from_slice(&SPKI_PREFIX);
        spki[SPKI_PREFIX.len()..].copy_from_slice(self.bytes());
        spki
    }

    /// Whether it signed the message. A signature whose R is of small order is none: no signer makes one that does not mean to.
    #[must_use]
    pub fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        let is_strict = signature.first_chunk().is_some_and(|r| !is_of_small_order(r));
        is_strict && UnparsedPublicKey::new(&ED25519, self.bytes()).verify(message, signature).is_ok()
    }

    /// The first 16 digits: enough to compare by eye.
    #[must_use]
    pub fn short(&self) -> String {
        self.to_string()[..16].to_string()
    }
}

/// Why a key is not available.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are what the messages show")]
pub enum KeyError {
    /// There is no such file.
    #[error("{0} is missing: restore it from a backup")]
    Missing(PathBuf),
    /// The same at a node.
    #[error(
        "{0} is missing: restore it from a backup, or start the node once with --new-key and pin that key at the gateway"
    )]
    MissingAtNode(PathBuf),
    /// Others may read or change the file.
    #[error(transparent)]
    Unsafe(#[from] Unsafe),
    /// The file system lets others read every file, or gives each the same owner.
    #[error(
        "{0} cannot be kept from others: its file system has no owners or modes, as on /sdcard and most memory cards; use a folder on another one"
    )]
    NoModes(PathBuf),
    /// The file holds something else.
    #[error("{0} is no private key of the right kind in PEM: restore it from a backup")]
    Damaged(PathBuf),
    /// The file cannot be read or written.
    #[error("cannot {action} {path}: {source}")]
    Io { action: &'static str, path: PathBuf, source: io::Error },
}

/// A private key. It is never shown.
pub struct SecretKey {
    seed: Zeroizing<[u8; 32]>,
    pair: Ed25519KeyPair,
    public: PublicKey,
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretKey(of {})", self.public())
    }
}

impl SecretKey {
    /// A new one, drawn at random.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn draw() -> io::Result<SecretKey> {
        keep_memory_private();
        let mut seed = Zeroizing::new([0; 32]);
        SystemRandom::new().fill(&mut seed[..]).map_err(|_| io::Error::other("the system has no random numbers"))?;
        SecretKey::of_seed(seed).ok_or_else(|| io::Error::other("the key could not be made"))
    }

    fn of_seed(seed: Zeroizing<[u8; 32]>) -> Option<SecretKey> {
        let pair = Ed25519KeyPair::from_seed_unchecked(&seed[..]).ok()?;
        let public = PublicKey::of(pair.public_key().as_ref().try_into().ok()?)?;
        Some(SecretKey { seed, pair, public })
    }

    /// Its public half.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        self.public
    }

    /// Its signature, 64 bytes.
    #[must_use]
    pub fn sign(&self, message: &[u8]) -> Vec<u8> {
        self.pair.sign(message).as_ref().to_vec()
    }

    /// As PKCS #8.
    #[must_use]
    pub fn to_pkcs8(&self) -> Zeroizing<Vec<u8>> {
        Zeroizing::new([&PKCS8_PREFIX[..], &self.seed[..]].concat())
    }

    /// The end of connections with this key that connects. It goes on only with keys that are known.
    ///
    /// # Errors
    /// The key cannot be used.
    pub(super) fn client_end(
        &self,
        purpose: &[u8],
        is_known: impl Fn(&[u8]) -> bool + Send + Sync + 'static,
    ) -> io::Result<TlsEnd> {
        let identity = TlsIdentity { pkcs8: &self.to_pkcs8(), spki: &self.public().to_spki() };
        TlsEnd::client(&identity, purpose, is_known).map_err(io::Error::other)
    }

    /// The end that is connected to, by anybody who has a key: what follows says who may go on.
    ///
    /// # Errors
    /// The key cannot be used.
    pub(super) fn server_end(&self, purpose: &[u8]) -> io::Result<TlsEnd> {
        let identity = TlsIdentity { pkcs8: &self.to_pkcs8(), spki: &self.public().to_spki() };
        TlsEnd::server(&identity, purpose, |spki| PublicKey::from_spki(spki).is_some()).map_err(io::Error::other)
    }

    /// Writes it to a new file, which its owner alone may read; on the flash when this returns.
    ///
    /// # Errors
    /// See [`KeyError`]; also if the file exists, or its file system lets others read it.
    pub fn save_new(&self, path: &Path) -> Result<(), KeyError> {
        save_new_private(path, &self.to_pem())
    }

    /// The same in the place of an earlier one.
    ///
    /// # Errors
    /// See [`KeyError`]: the earlier one stays.
    pub fn save_over(&self, path: &Path) -> Result<(), KeyError> {
        save_private(path, &self.to_pem())
    }

    fn to_pem(&self) -> Zeroizing<String> {
        let body = Zeroizing::new(STANDARD.encode(self.to_pkcs8()));
        Zeroizing::new(format!("{PEM_BEGIN}\n{}\n{PEM_END}\n", *body))
    }

    /// Reads it from its file.
    ///
    /// # Errors
    /// See [`KeyError`].
    pub fn load(path: &Path) -> Result<SecretKey, KeyError> {
        parse_pem(&load_private(path)?).ok_or_else(|| KeyError::Damaged(path.to_path_buf()))
    }
}

/// Writes a secret to a new file, which its owner alone may read; on the flash when this returns.
pub(super) fn save_new_private(path: &Path, text: &str) -> Result<(), KeyError> {
    if path.symlink_metadata().is_ok() {
        let source = io::ErrorKind::AlreadyExists.into();
        return Err(KeyError::Io { action: "write", path: path.to_path_buf(), source });
    }
    save_private(path, text)
}

/// The same in one step, whether there is an earlier one or not.
fn save_private(path: &Path, text: &str) -> Result<(), KeyError> {
    let failed = |source| KeyError::Io { action: "write", path: path.to_path_buf(), source };
    let mut new_path = path.to_path_buf();
    new_path.as_mut_os_string().push(".new");
    let write = || {
        let mut file = create_anew(&new_path).map_err(failed)?;
        // Before the secret is in it.
        if !keeps_secrets(&file).map_err(failed)? {
            return Err(KeyError::NoModes(path.to_path_buf()));
        }
        let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
        written.and_then(|()| fs::rename(&new_path, path)).and_then(|()| sync_parent(path)).map_err(failed)
    };
    write().inspect_err(|_| {
        // What was just made, and is of no use.
        let _ = fs::remove_file(&new_path);
    })
}

/// Reads a secret from a file of this user, or of root, that nobody else may read.
pub(crate) fn load_private(path: &Path) -> Result<Zeroizing<String>, KeyError> {
    let failed = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound => KeyError::Missing(path.to_path_buf()),
        _ => KeyError::Io { action: "read", path: path.to_path_buf(), source },
    };
    let file = open_owned(path, Kind::Secret).map_err(|e| e.or(failed))?;
    // Not where there is no secret: a program without keys may be looked into.
    keep_memory_private();
    let mut text = Zeroizing::new(String::new());
    io::Read::read_to_string(&mut io::Read::take(file, FILE_BYTES_MAX), &mut text).map_err(failed)?;
    Ok(text)
}

fn parse_pem(text: &str) -> Option<SecretKey> {
    let body = text.trim().strip_prefix(PEM_BEGIN)?.strip_suffix(PEM_END)?;
    let body = Zeroizing::new(body.split_ascii_whitespace().collect::<String>());
    let der = Zeroizing::new(STANDARD.decode(body.as_bytes()).ok()?);
    let mut seed = Zeroizing::new([0; 32]);
    // What follows the seed in version 2, its public half, is not needed.
    let rest = der.strip_prefix(&PKCS8_PREFIX[..]).or_else(|| {
        let is_second = der.len() > PKCS8_PREFIX.len() && der[2..5] == [0x02, 0x01, 0x01];
        is_second.then(|| der.get(PKCS8_PREFIX.len()..)).flatten().filter(|_| der[5..16] == PKCS8_PREFIX[5..16])
    })?;
    seed.copy_from_slice(rest.get(..32)?);
    if der.starts_with(&PKCS8_PREFIX) && rest.len() != 32 {
        return None;
    }
    SecretKey::of_seed(seed)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use proptest::prelude::*;

    use super::*;
    use crate::store::small_order_keys;

    #[test]
    fn a_key_is_kept_in_a_file_of_its_owner_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.key");
        assert!(matches!(SecretKey::load(&path), Err(KeyError::Missing(_))));
        let key = SecretKey::draw().unwrap();
        key.save_new(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(SecretKey::load(&path).unwrap().public(), key.public());
        assert!(SecretKey::draw().unwrap().save_new(&path).is_err(), "a key is never overwritten");
        assert_eq!(SecretKey::load(&path).unwrap().public(), key.public());
        for mode in [0o640, 0o604, 0o644, 0o660] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let refused = SecretKey::load(&path);
            assert!(matches!(refused, Err(KeyError::Unsafe(Unsafe::Readable { mode: found, .. })) if found == mode));
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).unwrap();
        assert_eq!(SecretKey::load(&path).unwrap().public(), key.public());
        assert!(!format!("{key:?}").contains(&STANDARD.encode(&key.seed[..])));
    }

    /// RFC 8410, 10.3: a key of version 1, and the same with its public half.
    #[test]
    fn keys_of_others_are_read() {
        let first = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n-----END PRIVATE KEY-----";
        let second = "-----BEGIN PRIVATE KEY-----\nMHICAQEwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\noB8wHQYKKoZIhvcNAQkJFDEPDA1DdXJkbGUgQ2hhaXJzgSEAGb9ECWmEzf6FQbrB\nZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END PRIVATE KEY-----\n";
        let public = "19bf44096984cdfe8541bac167dc3b96c85086aa30b6b6cb0c5c38ad703166e1";
        for text in [first, second] {
            assert_eq!(parse_pem(text).unwrap().public().to_string(), public);
        }
        let cut = first.replace("VhC\n", "\n");
        let other_kind = first.replace("K2VwB", "K2VxB");
        for bad in ["", "x", PEM_BEGIN, &first[1..], &cut, &first.replace("MC4", "MC5"), &other_kind] {
            assert!(parse_pem(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn a_public_key_is_64_digits_and_has_one_form_in_tls() {
        let key = SecretKey::draw().unwrap();
        let (public, other) = (key.public(), SecretKey::draw().unwrap().public());
        assert_eq!(public.to_string().parse(), Ok(public));
        assert_eq!(public.to_string().to_uppercase().parse(), Ok(public));
        for bad in [
            "",
            "00",
            &public.to_string()[1..],
            &format!("{public}0"),
            &format!("{public}00"),
            &"g".repeat(64),
            &"+1".repeat(32),
        ] {
            assert_eq!(bad.parse::<PublicKey>(), Err(BadPublicKey::Digits), "{bad}");
        }
        let spki = public.to_spki();
        assert_eq!(PublicKey::from_spki(&spki), Some(public));
        assert_eq!(PublicKey::from_spki(&spki[..43]), None);
        assert_eq!(PublicKey::from_spki(&[&spki[..], &[0]].concat()), None);
        for bit in 0..8 * 12 {
            let mut bad = spki;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(PublicKey::from_spki(&bad), None, "bit {bit}");
        }
        let signature = key.sign(b"message");
        assert!(public.verifies(b"message", &signature));
        assert!(!public.verifies(b"massage", &signature) && !other.verifies(b"message", &signature));
        assert!(!public.verifies(b"message", &signature[..63]));
    }

    proptest! {
        #[test]
        fn any_text_is_a_key_or_none(text in "[A-Za-z0-9+/=\n-]{0,200}", hex in "[0-9a-f]{0,70}") {
            let _ = parse_pem(&text);
            let _ = parse_pem(&format!("{PEM_BEGIN}\n{text}\n{PEM_END}"));
            prop_assert_eq!(hex.parse::<PublicKey>().is_ok(), hex.len() == 64);
        }
    }

    #[test]
    fn a_key_with_which_anybody_can_sign_is_none() {
        for bytes in small_order_keys() {
            assert_eq!(PublicKey::of(bytes), None, "{bytes:02x?}");
            assert_eq!(PublicKey::from_spki(&[&SPKI_PREFIX[..], &bytes].concat()), None);
            let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(digits.parse::<PublicKey>(), Err(BadPublicKey::SmallOrder));
            assert!(serde_json::from_str::<PublicKey>(&format!("\"{digits}\"")).is_err());
        }
        // What makes it necessary: the identity as key and as R, and S = 0, sign anything.
        let (mut identity, mut signature) = ([0; 32], [0; 64]);
        (identity[0], signature[0]) = (1, 1);
        assert!(UnparsedPublicKey::new(&ED25519, identity).verify(b"anything", &signature).is_ok());
        let good = SecretKey::draw().unwrap().public();
        assert_eq!(PublicKey::from_spki(&good.to_spki()), Some(good));
    }

    /// R of small order with a sound key: ring takes what its owner makes so, and other libraries do not.
    #[test]
    fn a_signature_whose_r_is_of_small_order_is_none() {
        let public = SecretKey::draw().unwrap().public();
        for r in small_order_keys() {
            let signature = [&r[..], &[0; 32]].concat();
            assert!(!public.verifies(b"anything", &signature));
        }
    }
}
