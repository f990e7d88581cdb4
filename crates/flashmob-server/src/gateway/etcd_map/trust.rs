//! Trust in a volume's map in etcd: the gateway's key, which signs it, and the generation of the key that signed it last.
//!
//! A file beside the gateway's configuration keeps the generation of the key that has last signed the map here. So who has an earlier key, and writes to etcd,
//! cannot begin the map anew. A gateway that has no such file believes no earlier key than its own.

use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::Context;
use flashmob_core::copies::{ChainEnd, ChainKey, ChainReader, Sign, Verify, begin_chain, continue_chain};

use crate::store::{read_bounded, replace_private};

/// Most bytes of the file.
const FILE_BYTES_MAX: u64 = 32;

/// The keys of a gateway, as far as maps in etcd need them.
pub struct MapKeys {
    /// Signs a map.
    pub sign: Box<dyn Sign>,
    /// The generation of that key.
    pub generation: u64,
    /// Knows the gateways of the cluster.
    pub verify: Box<dyn Verify + Send>,
}

/// The keys that a volume's map has to be signed with.
#[derive(Debug)]
pub struct Trust {
    keys: MapKeys,
    /// The volume's id.
    volume: String,
    /// Keeps the generation of the key that has last signed the map here.
    path: PathBuf,
    /// The generation in the file; `None` without one.
    kept: Option<u64>,
}

impl fmt::Debug for MapKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MapKeys").field("generation", &self.generation).finish_non_exhaustive()
    }
}

impl Trust {
    /// Reads the file at this path, for the volume with this id.
    pub fn open(keys: MapKeys, volume: &str, path: PathBuf) -> anyhow::Result<Trust> {
        let kept = load(&path)?;
        Ok(Trust { keys, volume: volume.to_string(), path, kept })
    }

    /// Reads a map that is signed as it has to be.
    pub fn reader(&self) -> ChainReader<'_> {
        let least = self.kept.unwrap_or(self.keys.generation);
        ChainReader::new(Some(&*self.keys.verify), &self.volume, least)
    }

    /// Reads a signed map, whoever has signed it.
    pub fn reader_of_any(&self) -> ChainReader<'_> {
        ChainReader::new(None, &self.volume, 0)
    }

    /// The generation of the gateway's key.
    pub fn generation(&self) -> u64 {
        self.keys.generation
    }

    /// Other keys take the place of these. Whether that makes a difference for what is signed.
    pub fn renew(&mut self, keys: MapKeys) -> bool {
        let is_other = keys.sign.signer() != self.keys.sign.signer();
        self.keys = keys;
        is_other
    }

    /// Whether that is the gateway's present key.
    pub fn is_own(&self, signed_by: &[u8]) -> bool {
        self.keys.sign.signer() == signed_by
    }

    pub fn begin(&self, snapshot: &[u8]) -> Option<(Vec<u8>, ChainEnd)> {
        begin_chain(&self.key(), snapshot)
    }

    pub fn go_on(&self, end: &ChainEnd, version: u64, batch: &[u8]) -> (Vec<u8>, ChainEnd) {
        continue_chain(&self.key(), end, version, batch)
    }

    fn key(&self) -> ChainKey<'_> {
        ChainKey { sign: &*self.keys.sign, generation: self.keys.generation, volume: &self.volume }
    }

    /// The map in etcd is signed with the gateway's key from now on, and with none of an earlier generation.
    pub fn keep(&mut self) {
        let generation = self.keys.generation;
        if self.kept == Some(generation) {
            return;
        }
        match replace_private(&self.path, &format!("{generation}\n")) {
            Ok(()) => self.kept = Some(generation),
            Err(error) => log::warn!(
                "cannot write {}, which keeps that the map in etcd is signed with a key of generation {generation}: {error}",
                self.path.display()
            ),
        }
    }
}

fn load(path: &Path) -> anyhow::Result<Option<u64>> {
    let bytes = match read_bounded(path, FILE_BYTES_MAX) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        bytes => bytes.with_context(|| format!("cannot read {}", path.display()))?,
    };
    let number = std::str::from_utf8(&bytes).ok().and_then(|text| text.strip_suffix('\n')?.parse().ok());
    let remedy = || {
        format!(
            "{} does not hold the generation of the key that has last signed the map in etcd: write the generation there that `flashmob key show` has, and \
             a line feed",
            path.display()
        )
    };
    Ok(Some(number.with_context(remedy)?))
}
