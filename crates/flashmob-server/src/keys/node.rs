//! A node's own key, beside its extent, and the cluster that it belongs to.

use std::path::Path;

use super::folder::LINK_PURPOSE;
use super::key::{KeyError, PublicKey, SecretKey};
use crate::net::tls::{TlsEnd, TlsIdentity};

/// What a node needs to let gateways in.
#[derive(Debug)]
pub struct NodeKeys {
    /// Its own key.
    pub public: PublicKey,
    /// Whose grants count.
    pub cluster: PublicKey,
    /// Its end of links.
    pub end: TlsEnd,
}

impl NodeKeys {
    /// Reads the node's key at `path`; draws it if there is none and `may_create`.
    ///
    /// # Errors
    /// See [`KeyError`]. A node that had a key never goes on without it.
    pub fn open(path: &Path, cluster: PublicKey, may_create: bool) -> Result<NodeKeys, KeyError> {
        let key = match SecretKey::load(path) {
            Err(KeyError::Missing(_)) if may_create => {
                let draw = SecretKey::draw();
                let key = draw.map_err(|source| KeyError::Io { action: "draw", path: path.to_path_buf(), source })?;
                key.save_new(path)?;
                key
            }
            loaded => loaded?,
        };
        let identity = TlsIdentity { pkcs8: &key.to_pkcs8(), spki: &key.public().to_spki() };
        // Anybody's key: the grant, which follows, says whether it is a gateway's.
        let is_key = |spki: &[u8]| PublicKey::from_spki(spki).is_some();
        let end = TlsEnd::server(&identity, LINK_PURPOSE, is_key).map_err(|error| KeyError::Io {
            action: "use",
            path: path.to_path_buf(),
            source: std::io::Error::other(error),
        })?;
        Ok(NodeKeys { public: key.public(), cluster, end })
    }
}
