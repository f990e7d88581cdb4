//! What others need to ask a node for its status: a folder with `ca-cert.pem` and `token`, to be copied to them, and the authority's key.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use super::authority::{Authority, Purpose};
use super::clients::{draw_token, token_digest};
use super::key::{KeyError, PublicKey, load_private, save_new_private};
use super::node::NodeKeys;
use crate::store::{Kind, open_owned_folder, put_file, read_owned};

/// The folder.
#[derive(Debug, Clone)]
pub struct NodeCredentials(PathBuf);

impl NodeCredentials {
    /// At this path.
    #[must_use]
    pub fn at(path: PathBuf) -> NodeCredentials {
        NodeCredentials(path)
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The authority, and the digest of the token. What is missing is made. Whoever had the token of a node with another key, or in another cluster, has none
    /// of this one.
    pub(super) fn open(&self, keys: &NodeKeys) -> Result<(Authority, PublicKey), KeyError> {
        match DirBuilder::new().mode(0o700).create(&self.0) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(self.failed("make", e)),
            _ => {}
        }
        // One that is there may be somebody else's.
        open_owned_folder(&self.0).map_err(|e| e.or(|e| self.failed("open", e)))?;
        let authority = match Authority::load(&self.0, Purpose::Node) {
            Err(KeyError::Missing(_)) => {
                Authority::create(&self.0, Purpose::Node)?;
                Authority::load(&self.0, Purpose::Node)?
            }
            loaded => loaded?,
        };
        // Each time: the key may have been restored. Copies of earlier ones serve as well.
        let (_, pem) = authority.certificate().map_err(|e| self.failed("write to", io::Error::other(e)))?;
        match self.put("ca-cert.pem", &pem) {
            Err(error) if self.0.join("ca-cert.pem").is_file() => {
                // A full disk. Unless the key was restored, what is there serves as well, and nobody else has to wait for that.
                log::warn!("{error}; the certificate that is there is kept");
            }
            put => put?,
        }
        let (path, owner) = (self.0.join("token"), format!("{} {}\n", keys.cluster, keys.public));
        let known = read_owned(&self.0.join("owner"), Kind::Integrity, owner.len() as u64).ok();
        if known.as_deref() != Some(owner.as_bytes()) {
            fs::remove_file(&path)
                .or_else(|e| if e.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(e) })
                .map_err(|e| self.failed("remove the token in", e))?;
            self.put("owner", &owner)?;
        }
        let token = match load_private(&path) {
            Err(KeyError::Missing(_)) => {
                save_new_private(&path, &draw_token().map_err(|e| self.failed("write to", e))?)?;
                load_private(&path)?
            }
            loaded => loaded?,
        };
        token_digest(token.trim()).map(|digest| (authority, digest)).ok_or(KeyError::Damaged(path))
    }

    fn put(&self, name: &str, text: &str) -> Result<(), KeyError> {
        put_file(&self.0.join(name), text.as_bytes()).map_err(|e| self.failed("write to", e))
    }

    pub(super) fn failed(&self, action: &'static str, source: io::Error) -> KeyError {
        KeyError::Io { action, path: self.0.clone(), source }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::super::key::SecretKey;
    use super::*;

    #[test]
    fn a_node_starts_where_nothing_can_be_written_if_it_has_started_before() {
        let dir = tempfile::tempdir().unwrap();
        let credentials = NodeCredentials::at(dir.path().join("e.bin.admin"));
        let keys = NodeKeys::of(&SecretKey::draw().unwrap(), PublicKey::of([1; 32]).unwrap(), dir.path()).unwrap();
        let token = credentials.open(&keys).unwrap().1;
        // Files are written at these names first.
        for name in ["ca-cert.pem.new", "owner.new", "token.new"] {
            fs::create_dir(credentials.path().join(name)).unwrap();
        }
        assert_eq!(credentials.open(&keys).unwrap().1, token);
        fs::remove_file(credentials.path().join("ca-cert.pem")).unwrap();
        assert!(matches!(credentials.open(&keys), Err(KeyError::Io { .. })));
    }

    #[test]
    fn a_folder_that_others_may_change_is_not_used() {
        let dir = tempfile::tempdir().unwrap();
        let credentials = NodeCredentials::at(dir.path().join("e.bin.admin"));
        let keys = NodeKeys::of(&SecretKey::draw().unwrap(), PublicKey::of([1; 32]).unwrap(), dir.path()).unwrap();
        credentials.open(&keys).unwrap();
        for (mode, is_good) in [(0o770, false), (0o1777, false), (0o755, true)] {
            fs::set_permissions(credentials.path(), PermissionsExt::from_mode(mode)).unwrap();
            assert_eq!(credentials.open(&keys).is_ok(), is_good, "{mode:o}");
        }
    }

    #[test]
    fn the_token_stays_until_the_node_has_another_key_or_cluster() {
        let dir = tempfile::tempdir().unwrap();
        let credentials = NodeCredentials::at(dir.path().join("e.bin.admin"));
        let keys = |cluster: u8| {
            NodeKeys::of(&SecretKey::draw().unwrap(), PublicKey::of([cluster; 32]).unwrap(), dir.path()).unwrap()
        };
        let first = keys(1);
        let token = credentials.open(&first).unwrap().1;
        assert_eq!(credentials.open(&first).unwrap().1, token);
        let (other_key, other_cluster) = (keys(1), NodeKeys { cluster: PublicKey::of([2; 32]).unwrap(), ..keys(1) });
        let mut seen = vec![token];
        for keys in [other_key, other_cluster] {
            let token = credentials.open(&keys).unwrap().1;
            assert!(!seen.contains(&token));
            seen.push(token);
        }
        put_file(&credentials.path().join("token"), b"short").unwrap();
        assert!(
            matches!(
                credentials.open(&NodeKeys { cluster: PublicKey::of([2; 32]).unwrap(), ..keys(1) }).map(|_| ()),
                Ok(())
            ),
            "another node's"
        );
        let again = keys(3);
        credentials.open(&again).unwrap();
        put_file(&credentials.path().join("token"), b"short").unwrap();
        assert!(matches!(credentials.open(&again), Err(KeyError::Damaged(_))));
    }
}
