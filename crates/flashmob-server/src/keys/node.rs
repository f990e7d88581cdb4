//! A node's own key, beside its extent, and the cluster that it belongs to.

use std::path::Path;

use super::folder::{ADMIN_PURPOSE, LINK_PURPOSE};
use super::key::{KeyError, PublicKey, SecretKey};
use crate::net::tls::TlsEnd;
use crate::store::Unsafe;

/// What a node needs to let gateways in.
#[derive(Debug)]
pub struct NodeKeys {
    /// Its own key.
    pub public: PublicKey,
    /// Whose grants count.
    pub cluster: PublicKey,
    /// Its end of links.
    pub end: TlsEnd,
    /// Its end of connections to a gateway's administrative port, whoever answers there: what it says is no secret, and of the answer a grant of the cluster counts alone.
    pub admin_end: TlsEnd,
}

/// Whether a key is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Draw {
    /// It must be there.
    Never,
    /// If there is none.
    IfMissing,
    /// In any case; one that is there goes.
    Anew,
}

impl NodeKeys {
    /// Whether there is the key of a node, even if others may read it.
    ///
    /// # Errors
    /// The file there belongs to somebody else.
    pub fn are_at(path: &Path) -> Result<bool, KeyError> {
        match SecretKey::load(path) {
            Ok(_) | Err(KeyError::Unsafe(Unsafe::Readable { .. })) => Ok(true),
            Err(error @ KeyError::Unsafe(Unsafe::Foreign { .. })) => Err(error),
            Err(_) => Ok(false),
        }
    }

    /// Reads the node's key at `path`, or draws it.
    ///
    /// # Errors
    /// See [`KeyError`]. A node that had a key never goes on without it.
    pub fn open(path: &Path, cluster: PublicKey, draw: Draw) -> Result<NodeKeys, KeyError> {
        NodeKeys::of(&own_key(path, draw)?, cluster, path)
    }

    /// With the key that lies at `path`.
    ///
    /// # Errors
    /// It cannot be used.
    pub fn of(key: &SecretKey, cluster: PublicKey, path: &Path) -> Result<NodeKeys, KeyError> {
        // Anybody's key: the grant, which follows, says whether it is a gateway's.
        let end = key.server_end(LINK_PURPOSE).map_err(|source| failed("use", path, source))?;
        let is_key = |spki: &[u8]| PublicKey::from_spki(spki).is_some();
        let admin_end = key.client_end(ADMIN_PURPOSE, is_key).map_err(|source| failed("use", path, source))?;
        Ok(NodeKeys { public: key.public(), cluster, end, admin_end })
    }
}

fn failed(action: &'static str, path: &Path, source: std::io::Error) -> KeyError {
    KeyError::Io { action, path: path.to_path_buf(), source }
}

/// The node's key at `path`.
///
/// # Errors
/// See [`KeyError`].
pub fn own_key(path: &Path, draw: Draw) -> Result<SecretKey, KeyError> {
    let drawn = || SecretKey::draw().map_err(|source| failed("make", path, source));
    match (SecretKey::load(path), draw) {
        (Err(KeyError::Missing(_)), Draw::Never) => Err(KeyError::MissingAtNode(path.to_path_buf())),
        (Err(KeyError::Missing(_)), _) => {
            let key = drawn()?;
            key.save_new(path)?;
            Ok(key)
        }
        // Not something else that has the same name.
        (Ok(_) | Err(KeyError::Unsafe(Unsafe::Readable { .. })), Draw::Anew) => {
            let key = drawn()?;
            key.save_over(path)?;
            Ok(key)
        }
        (loaded, _) => loaded,
    }
}
