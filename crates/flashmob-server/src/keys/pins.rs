//! The gateway's record of its nodes' keys: which key proves which extent.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::key::PublicKey;
use crate::store::{ExtentId, Kind, Unsafe, read_owned, replace_private};

/// Most bytes of the file: far more than a thousand nodes need.
pub(super) const FILE_BYTES_MAX: u64 = 1 << 20;
const HEADING: &str = "# Keys of nodes, by extent. Written by `flashmob key` and `flashmob join`.\n";
/// What every such file begins with.
const FIRST_WORDS: &str = "# Keys of nodes";

/// The pins, and their file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pins {
    path: PathBuf,
    by_extent: BTreeMap<ExtentId, Pin>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Pin {
    key: PublicKey,
    /// Where the node was when it was enrolled with a code.
    address: Option<SocketAddr>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default, rename = "node")]
    nodes: Vec<Entry>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    extent: ExtentId,
    key: PublicKey,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    address: Option<SocketAddr>,
}

/// Why pins cannot be read, or changed.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are what the messages show")]
pub enum PinError {
    /// The extent has another key.
    #[error("extent {0} has another key: {1}; was its node set up anew? --replace pins the new key in its place")]
    Known(ExtentId, PublicKey),
    /// Another extent has the key.
    #[error(
        "extent {0} has this key already: a key proves one extent. If that extent is gone, `flashmob key unpin CONFIG {0}` first; otherwise start the other node with --new-key"
    )]
    Shared(ExtentId),
    /// There is no pin for the extent.
    #[error("extent {0} has no key here")]
    Unknown(ExtentId),
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

impl Pins {
    /// None, to be kept at `path`.
    pub(super) fn none(path: &Path) -> Pins {
        Pins { path: path.to_path_buf(), by_extent: BTreeMap::new() }
    }

    /// Reads the file.
    ///
    /// # Errors
    /// See [`PinError`].
    pub fn load(path: &Path) -> Result<Pins, PinError> {
        Pins::parse(path, &read_file(path)?)
    }

    /// The pins in the bytes of a file, which lies at `path`.
    ///
    /// # Errors
    /// See [`PinError`].
    pub fn parse(path: &Path, bytes: &[u8]) -> Result<Pins, PinError> {
        let damaged = |why: String| PinError::Damaged { path: path.to_path_buf(), why };
        if bytes.len() as u64 > FILE_BYTES_MAX {
            return Err(damaged(format!("it is larger than {FILE_BYTES_MAX} bytes")));
        }
        let text = std::str::from_utf8(bytes).map_err(|_| damaged("it is not text".into()))?;
        // A file that is being written over is empty first: that is no list without nodes.
        if !text.starts_with(FIRST_WORDS) {
            return Err(damaged(format!("it does not begin with '{FIRST_WORDS}'")));
        }
        let document: Document = toml::from_str(text).map_err(|e| damaged(e.message().to_string()))?;
        let mut pins = Pins::none(path);
        for Entry { extent, key, address } in document.nodes {
            pins.check(extent, key, false).map_err(|e| damaged(e.to_string()))?;
            pins.by_extent.insert(extent, Pin { key, address });
        }
        Ok(pins)
    }

    fn check(&self, extent: ExtentId, key: PublicKey, is_replaced: bool) -> Result<(), PinError> {
        match self.key_of(extent) {
            Some(known) if known != key && !is_replaced => return Err(PinError::Known(extent, known)),
            _ => {}
        }
        match self.extent_of(key) {
            Some(other) if other != extent => Err(PinError::Shared(other)),
            _ => Ok(()),
        }
    }

    /// Pins the key of an extent, on the flash when this returns.
    ///
    /// # Errors
    /// See [`PinError`]: a key that is known is replaced only if `is_replaced`.
    pub fn pin(&mut self, extent: ExtentId, key: PublicKey, is_replaced: bool) -> Result<(), PinError> {
        self.pin_at(extent, key, is_replaced, None)
    }

    /// The same for a node that was enrolled from an address.
    ///
    /// # Errors
    /// See [`PinError`].
    pub(super) fn pin_at(
        &mut self,
        extent: ExtentId,
        key: PublicKey,
        is_replaced: bool,
        address: Option<SocketAddr>,
    ) -> Result<(), PinError> {
        self.check(extent, key, is_replaced)?;
        let mut changed = self.clone();
        let known = self.by_extent.get(&extent).filter(|pin| pin.key == key).and_then(|pin| pin.address);
        changed.by_extent.insert(extent, Pin { key, address: address.or(known) });
        changed.save()?;
        *self = changed;
        Ok(())
    }

    /// Removes the key of an extent, on the flash when this returns.
    ///
    /// # Errors
    /// See [`PinError`].
    pub fn unpin(&mut self, extent: ExtentId) -> Result<(), PinError> {
        let mut changed = self.clone();
        changed.by_extent.remove(&extent).ok_or(PinError::Unknown(extent))?;
        changed.save()?;
        *self = changed;
        Ok(())
    }

    pub(super) fn save(&self) -> Result<(), PinError> {
        let failed = |source| PinError::Io { action: "write", path: self.path.clone(), source };
        let entry = |(&extent, &Pin { key, address }): (&ExtentId, &Pin)| Entry { extent, key, address };
        let nodes = self.by_extent.iter().map(entry).collect();
        let body = toml::to_string(&Document { nodes }).map_err(|e| failed(io::Error::other(e)))?;
        replace_private(&self.path, &format!("{HEADING}{body}")).map_err(failed)
    }

    /// The key of an extent.
    #[must_use]
    pub fn key_of(&self, extent: ExtentId) -> Option<PublicKey> {
        self.by_extent.get(&extent).map(|pin| pin.key)
    }

    /// The extent that this key proves.
    #[must_use]
    pub fn extent_of(&self, key: PublicKey) -> Option<ExtentId> {
        self.by_extent.iter().find(|(_, pin)| pin.key == key).map(|(extent, _)| *extent)
    }

    /// All of them, by extent.
    pub fn iter(&self) -> impl Iterator<Item = (ExtentId, PublicKey)> + '_ {
        self.by_extent.iter().map(|(extent, pin)| (*extent, pin.key))
    }

    /// Where nodes were that were enrolled with a code.
    pub fn enrolled_at(&self) -> impl Iterator<Item = (ExtentId, SocketAddr)> + '_ {
        self.by_extent.iter().filter_map(|(extent, pin)| Some((*extent, pin.address?)))
    }
}

/// The bytes of the file.
pub(super) fn read_file(path: &Path) -> Result<Vec<u8>, PinError> {
    let failed = |source| PinError::Io { action: "read", path: path.to_path_buf(), source };
    read_owned(path, Kind::Integrity, FILE_BYTES_MAX).map_err(|e| e.or(failed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pins_are_kept_and_known_keys_are_not_replaced_unasked() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("nodes");
        let (a, b, one, two) =
            (ExtentId([1; 16]), ExtentId([2; 16]), PublicKey::of([3; 32]).unwrap(), PublicKey::of([4; 32]).unwrap());
        let mut pins = Pins::none(&path);
        pins.pin(a, one, false).unwrap();
        pins.pin(a, one, false).unwrap();
        assert!(matches!(pins.pin(a, two, false), Err(PinError::Known(extent, key)) if (extent, key) == (a, one)));
        assert!(matches!(pins.pin(b, one, true), Err(PinError::Shared(extent)) if extent == a));
        let place = "192.168.1.19:7411".parse().unwrap();
        pins.pin_at(b, two, false, Some(place)).unwrap();
        assert_eq!(Pins::load(&path).unwrap(), pins);
        assert_eq!(pins.enrolled_at().collect::<Vec<_>>(), [(b, place)]);
        pins.pin(b, two, false).unwrap();
        assert_eq!(pins.enrolled_at().count(), 1, "it is known from before");
        assert_eq!((pins.extent_of(one), pins.extent_of(PublicKey::of([9; 32]).unwrap())), (Some(a), None));
        pins.unpin(b).unwrap();
        assert!(matches!(pins.unpin(b), Err(PinError::Unknown(_))));
        pins.pin(a, two, true).unwrap();
        assert_eq!(Pins::load(&path).unwrap().iter().collect::<Vec<_>>(), [(a, two)]);
    }

    #[test]
    fn a_damaged_file_is_refused() {
        let entry = |extent: &str, key: &str| format!("[[node]]\nextent = \"{extent}\"\nkey = \"{key}\"\n");
        let (extent, key) = ("01".repeat(16), "02".repeat(32));
        let good = format!("{HEADING}{}", entry(&extent, &key));
        assert!(Pins::parse(Path::new("p"), good.as_bytes()).is_ok());
        let other = entry(&"03".repeat(16), &key);
        for bad in [
            "x".to_string(),
            good.replace("key", "kee"),
            good.replace(&extent, &extent[1..]),
            good.replace(&key, &key[1..]),
            format!("{good}address = \"somewhere\"\n"),
            String::new(),
            entry(&extent, &key),
            format!("{good}{other}"),
            format!("{good}{}", entry(&extent, &"04".repeat(32))),
            " ".repeat(FILE_BYTES_MAX as usize + 1),
        ] {
            let error = Pins::parse(Path::new("p"), bad.as_bytes()).unwrap_err();
            assert!(matches!(error, PinError::Damaged { .. }), "{error}");
        }
        assert!(Pins::parse(Path::new("p"), &[0xff]).is_err());
    }
}
