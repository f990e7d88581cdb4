//! Trust in a volume's map in etcd: the gateway's key, which signs it, and what the gateway remembers of the chain that it has signed last.
//!
//! A file beside the gateway's configuration has that ([`ChainMemory`]): the generation of the key, and, when the gateway has ended in order, the
//! last signature. So a key that was replaced signs nothing that is believed, at whichever gateway, but for the one state that this gateway has left.

use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::Context;
use flashmob_core::copies::{
    CHAIN_MEMORY_BYTES_MAX, ChainEnd, ChainKey, ChainMemory, ChainTrust, Sign, Verify, begin_chain, continue_chain,
};

use crate::store::{Kind, Unusable, read_owned, replace_private};

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
    /// The keys that the next chain is signed with, if they are others.
    next: Option<MapKeys>,
    /// The volume's id.
    volume: String,
    /// Keeps what is remembered.
    path: PathBuf,
    /// What the file has; `None` without one.
    kept: Option<ChainMemory>,
    /// Why the file cannot be written, while it cannot.
    trouble: Option<String>,
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
        Ok(Trust { keys, next: None, volume: volume.to_string(), path, kept, trouble: None })
    }

    /// The volume's id.
    pub fn volume(&self) -> &str {
        &self.volume
    }

    /// The gateways whose maps are believed.
    pub fn whom(&self) -> ChainTrust<'_> {
        ChainTrust { keys: &*self.keys.verify, generation: self.keys.generation, memory: self.kept }
    }

    /// The generation of the gateway's key.
    pub fn generation(&self) -> u64 {
        self.keys.generation
    }

    /// The file that says that this gateway has signed the volume's map; `None` if it has not.
    pub fn signed_before(&self) -> Option<&Path> {
        self.kept.map(|_| &*self.path)
    }

    /// The next chain is signed with these keys. Whether that makes a difference.
    pub fn renew(&mut self, keys: MapKeys) -> bool {
        let latest = self.next.as_ref().unwrap_or(&self.keys);
        let is_other = keys.sign.signer() != latest.sign.signer();
        if is_other {
            self.next = Some(keys);
        }
        is_other
    }

    /// Whether that is the gateway's present key.
    pub fn is_own(&self, signed_by: &[u8]) -> bool {
        self.keys.sign.signer() == signed_by
    }

    /// The first part of a chain, signed with the latest keys.
    pub fn begin(&mut self, snapshot: &[u8]) -> Option<(Vec<u8>, ChainEnd)> {
        if let Some(next) = self.next.take() {
            self.keys = next;
        }
        begin_chain(&self.key(), snapshot)
    }

    /// The part behind that end.
    pub fn go_on(&self, end: &ChainEnd, version: u64, batch: &[u8]) -> (Vec<u8>, ChainEnd) {
        continue_chain(&self.key(), end, version, batch)
    }

    fn key(&self) -> ChainKey<'_> {
        ChainKey { sign: &*self.keys.sign, generation: self.keys.generation, volume: &self.volume }
    }

    /// The gateway goes on with the map in etcd.
    pub fn keep(&mut self, end: &ChainEnd) {
        self.put(ChainMemory::of_writer(end.generation));
    }

    /// The gateway has left the map in etcd as it is.
    pub fn leave(&mut self, end: &ChainEnd) {
        self.put(ChainMemory::of_end(end));
    }

    /// Writes the file if that failed. Why it cannot be written.
    pub fn retry(&mut self, end: &ChainEnd) -> Option<&str> {
        if self.trouble.is_some() {
            self.keep(end);
        }
        self.trouble.as_deref()
    }

    fn put(&mut self, memory: ChainMemory) {
        let written = if self.kept == Some(memory) { Ok(()) } else { replace_private(&self.path, &memory.encode()) };
        let trouble = written.err().map(|error| {
            format!(
                "cannot write {}, which has to have the generation of the key that signs the map in etcd: {error}; make room, or see whose the folder is",
                self.path.display()
            )
        });
        if let Some(trouble) = trouble.as_ref().filter(|trouble| self.trouble.as_ref() != Some(trouble)) {
            log::error!("{trouble}");
        }
        if trouble.is_none() {
            self.kept = Some(memory);
        }
        self.trouble = trouble;
    }
}

fn load(path: &Path) -> anyhow::Result<Option<ChainMemory>> {
    let failed = |e| anyhow::Error::new(e).context(format!("cannot read {}", path.display()));
    let bytes = match read_owned(path, Kind::Integrity, CHAIN_MEMORY_BYTES_MAX as u64) {
        Err(Unusable::Io(error)) if error.kind() == ErrorKind::NotFound => return Ok(None),
        bytes => bytes.map_err(|e| e.or(failed))?,
    };
    let remedy = || {
        format!(
            "{} does not hold the generation of the key that has last signed the map in etcd: write the generation there that `flashmob key show` has, and \
             a line feed",
            path.display()
        )
    };
    Ok(Some(ChainMemory::parse(&bytes).with_context(remedy)?))
}
