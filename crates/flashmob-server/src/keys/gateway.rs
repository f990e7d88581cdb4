//! What a gateway needs to link to its nodes. It follows what `flashmob key` changes in the folder meanwhile.

use std::sync::Arc;

use flashmob_core::copies::Sign;

use super::folder::{Folder, FolderError, LINK_PURPOSE};
use super::grant::Grant;
use super::key::{KeyError, PublicKey, SecretKey};
use super::mirrors::{MirrorSigner, MirrorVerifier};
use super::pins::{FILE_BYTES_MAX, Pins, read_file};
use super::recheck::Recheck;
use super::shown;
use crate::net::tls::TlsEnd;
use crate::store::{ExtentId, read_bounded};

/// The keys of a gateway.
#[derive(Debug)]
pub struct GatewayKeys {
    folder: Folder,
    key: Arc<SecretKey>,
    /// The file with the nodes' keys, as it was read.
    nodes_file: Vec<u8>,
    /// The grant, to be sent first.
    pub grant: Vec<u8>,
    /// What it says.
    pub granted: Grant,
    /// The grant of the cluster's key before, while nodes may be of that cluster.
    previous: Option<(Vec<u8>, Grant)>,
    /// The nodes' keys.
    pub pins: Pins,
    /// Its end of links.
    pub end: TlsEnd,
}

impl Folder {
    /// All that a gateway needs when it starts: then the list of clients, if there is one, and the secrets that it does not use itself are in order, too.
    ///
    /// # Errors
    /// See [`FolderError`].
    pub fn load(&self) -> Result<GatewayKeys, FolderError> {
        self.cluster()?;
        self.check_secrets()?;
        self.check_clients()?;
        self.load_links(None)
    }

    /// Loads the part of the keys that links need. With a key in use, a file of that key which others may read keeps nobody from following what else has changed.
    fn load_links(&self, in_use: Option<&Arc<SecretKey>>) -> Result<GatewayKeys, FolderError> {
        let (grant, granted, key) = match (self.gateway_key(), in_use) {
            (Err(FolderError::Key(KeyError::Unsafe(_))), Some(key)) => {
                let (grant, granted) = self.granted()?;
                if granted.gateway != key.public() {
                    return Err(FolderError::Foreign(self.path("gateway.grant")));
                }
                (grant, granted, key.clone())
            }
            (read, _) => read.map(|(grant, granted, key)| (grant, granted, Arc::new(key)))?,
        };
        let previous = self.previous()?;
        if previous.as_ref().is_some_and(|(_, previous)| previous.gateway != key.public()) {
            return Err(FolderError::Foreign(self.path("previous.grant")));
        }
        let nodes_file = read_file(&self.path("nodes"))?;
        let pins = Pins::parse(&self.path("nodes"), &nodes_file)?;
        let known: Vec<PublicKey> = pins.iter().map(|(_, key)| key).collect();
        let is_known = move |spki: &[u8]| PublicKey::from_spki(spki).is_some_and(|key| known.contains(&key));
        let end = key.client_end(LINK_PURPOSE, is_known).map_err(|source| FolderError::Io {
            action: "use",
            path: self.path("gateway.key"),
            source,
        })?;
        Ok(GatewayKeys { folder: self.clone(), key, nodes_file, grant, granted, previous, pins, end })
    }
}

impl GatewayKeys {
    /// The extent that the other end of a link has proven to serve.
    #[must_use]
    pub fn extent_of(&self, spki: &[u8]) -> Option<ExtentId> {
        self.pins.extent_of(PublicKey::from_spki(spki)?)
    }

    /// The first bytes of a link.
    #[must_use]
    pub fn shown(&self) -> Vec<u8> {
        shown::show(&self.grant, self.previous.as_ref().map(|(bytes, _)| &bytes[..]))
    }

    /// The clusters whose nodes are used: one, or two while the cluster's key is replaced.
    pub fn clusters(&self) -> impl Iterator<Item = PublicKey> {
        std::iter::once(self.granted.cluster).chain(self.previous.as_ref().map(|(_, grant)| grant.cluster))
    }

    /// The generation of the key at all of these nodes.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.previous.as_ref().map_or(self.granted.generation, |(_, grant)| grant.generation)
    }

    /// Signs mirrors of maps.
    #[must_use]
    pub fn mirror_signer(&self) -> Box<dyn Sign> {
        Box::new(MirrorSigner { key: self.key.clone(), grant: self.grant.clone() })
    }

    /// Verifies mirrors that gateways of these clusters have signed. Who has stolen the key of the cluster before may have signed later generations than it
    /// had.
    #[must_use]
    pub fn mirror_verifier(&self) -> MirrorVerifier {
        let before = self.previous.as_ref().map(|(_, grant)| (grant.cluster, grant.generation));
        MirrorVerifier(std::iter::once((self.granted.cluster, u64::MAX)).chain(before).collect())
    }

    /// All of it once more, for another thread.
    ///
    /// # Errors
    /// See [`FolderError`].
    pub fn again(&self) -> Result<GatewayKeys, FolderError> {
        self.folder.load_links(Some(&self.key))
    }

    /// Looks whether a gateway could be started again with what is in the folder.
    #[must_use]
    pub fn recheck(&self) -> Recheck {
        Recheck::of(&self.folder)
    }

    /// Reads the folder again if it has changed. Returns what was used before, if it has.
    ///
    /// # Errors
    /// See [`FolderError`]: nothing is taken up. Between two files of a change they do not fit each other; that passes.
    pub fn refresh(&mut self) -> Result<Option<GatewayKeys>, FolderError> {
        let is_same = |name: &str, known: &[u8]| {
            read_bounded(&self.folder.path(name), FILE_BYTES_MAX).is_ok_and(|now| now == known)
        };
        let has_previous = match &self.previous {
            Some((previous, _)) => is_same("previous.grant", previous),
            None => !self.folder.path("previous.grant").exists(),
        };
        if has_previous && is_same("gateway.grant", &self.grant) && is_same("nodes", &self.nodes_file) {
            return Ok(None);
        }
        let (_, granted) = self.folder.granted()?;
        let not_later = || FolderError::NotLater(self.folder.path("gateway.grant"));
        if granted.generation < self.granted.generation {
            return Err(not_later());
        }
        let now = self.folder.load_links(Some(&self.key))?;
        let follows = |(_, previous): &(Vec<u8>, Grant)| {
            previous.cluster == self.granted.cluster && previous.generation >= self.granted.generation
        };
        if now.granted.cluster != self.granted.cluster && !now.previous.as_ref().is_some_and(follows) {
            return Err(not_later());
        }
        // A thief that was shut out must stay out, whatever else is wrong: that is told by `Recheck`.
        Ok(Some(std::mem::replace(self, now)))
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn changes_are_taken_up_and_nothing_earlier_or_foreign() {
        let dir = tempfile::tempdir().unwrap();
        let (folder, other) = (Folder::at(&dir.path().join("keys")), Folder::at(&dir.path().join("other")));
        folder.create().unwrap();
        other.create().unwrap();
        let mut keys = folder.load().unwrap();
        assert!(keys.refresh().unwrap().is_none());
        let (extent, node) = (ExtentId([1; 16]), PublicKey::of([2; 32]).unwrap());
        folder.pins().unwrap().pin(extent, node, false).unwrap();
        let before = keys.refresh().unwrap().unwrap();
        assert_eq!((before.extent_of(&node.to_spki()), keys.extent_of(&node.to_spki())), (None, Some(extent)));
        assert!(keys.refresh().unwrap().is_none());

        let first = fs::read(folder.path("gateway.grant")).unwrap();
        let first_key = fs::read(folder.path("gateway.key")).unwrap();
        folder.rotate_gateway(None, None).unwrap();
        let second = fs::read(folder.path("gateway.grant")).unwrap();
        let second_key = fs::read(folder.path("gateway.key")).unwrap();
        // In the middle of the change.
        fs::write(folder.path("gateway.key"), first_key).unwrap();
        assert!(matches!(keys.refresh(), Err(FolderError::Foreign(_))));
        fs::write(folder.path("gateway.key"), second_key).unwrap();
        assert_eq!(keys.refresh().unwrap().map(|before| before.granted.generation), Some(1));
        assert_eq!(keys.granted.generation, 2);

        for earlier in [first, fs::read(other.path("gateway.grant")).unwrap()] {
            fs::write(folder.path("gateway.grant"), earlier).unwrap();
            assert!(matches!(keys.refresh(), Err(FolderError::NotLater(_) | FolderError::OtherCluster(_))));
            assert_eq!(keys.granted.generation, 2);
        }
        fs::write(folder.path("gateway.grant"), second).unwrap();
        fs::write(folder.path("nodes"), "damaged").unwrap();
        assert!(matches!(keys.refresh(), Err(FolderError::Pins(_))));
        assert_eq!(keys.pins.extent_of(node), Some(extent));
    }

    #[test]
    fn trouble_with_clients_and_secrets_keeps_no_thief_in() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::at(&dir.path().join("keys"));
        folder.create().unwrap();
        let (clients, mode) = (folder.path("clients"), |name: &str, mode| {
            fs::set_permissions(folder.path(name), Permissions::from_mode(mode)).unwrap();
        });
        let break_clients = || fs::write(&clients, "damaged").unwrap();
        let damages: [&dyn Fn(); 4] =
            [&break_clients, &|| mode("clients", 0o620), &|| mode("cluster.key", 0o644), &|| {
                mode("gateway.key", 0o644)
            }];
        let whole = fs::read(&clients).unwrap();
        for (at, damage) in damages.into_iter().enumerate() {
            let (extent, node) = (ExtentId([1; 16]), SecretKey::draw().unwrap().public());
            folder.pins().unwrap().pin(extent, node, true).unwrap();
            let mut keys = folder.load().unwrap();
            damage();
            assert!(folder.load().is_err(), "{at}: nothing starts with that");
            assert_eq!(keys.again().unwrap().extent_of(&node.to_spki()), Some(extent), "{at}");
            folder.pins().unwrap().unpin(extent).unwrap();
            assert!(keys.refresh().unwrap().is_some(), "{at}");
            assert_eq!(keys.extent_of(&node.to_spki()), None, "{at}: a stolen tablet is shut out");
            fs::write(&clients, &whole).unwrap();
            for name in ["clients", "cluster.key", "gateway.key"] {
                mode(name, 0o600);
            }
        }
        // Where nobody connects with a certificate, none is needed.
        fs::remove_file(&clients).unwrap();
        assert!(folder.load().is_ok());
    }
}
