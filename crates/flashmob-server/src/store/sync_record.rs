//! The record of syncs that failed, which the next process of the node has to know: see [`FailedSyncs`].
//!
//! It is written when the first sync of a process fails, before that is answered: in a directory in memory, which vanishes with the kernel as
//! the record should, and beside the extent, as not every system has such a directory. The same device may fail there. The time between the
//! failure and the first of these writes is not covered: a process that is killed in it leaves no trace.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};

use flashmob_core::checksum::checksum;
use flashmob_core::node::FailedSyncs;
use serde::{Deserialize, Serialize};

use super::completions::lock;
use super::extent_id::ExtentId;
use super::sealed::{read_bounded, replace_private, seal, unseal};

const FORMAT_VERSION: u32 = 1;
/// Maximum size of a record, in bytes: several times what one has.
const RECORD_BYTES_MAX: u64 = 4096;
/// Added to the checksum of a damaged record, which stands for its number: no extent has so many failures.
const DAMAGED: u64 = 1 << 32;

const HEADING: &str = "# Failed syncs of an extent, written by flashmob. It counts until the device restarts.\n";

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    version: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    boot_id: Option<ExtentId>,
    failed: u64,
    dropped: u64,
}

/// The record of an extent.
#[derive(Debug)]
pub struct SyncRecord {
    places: Vec<PathBuf>,
    known: Mutex<FailedSyncs>,
    /// Why a failure could not be recorded anywhere.
    trouble: OnceLock<String>,
}

/// The directory in memory for records: a service's own, the user's, or the system's.
#[must_use]
pub fn runtime_dir() -> PathBuf {
    let named = |name: &str| std::env::var_os(name).filter(|dir| !dir.is_empty());
    // A service may have several.
    let of_service = named("RUNTIME_DIRECTORY").and_then(|dirs| std::env::split_paths(&dirs).next());
    of_service.or_else(|| named("XDG_RUNTIME_DIR").map(PathBuf::from)).unwrap_or_else(|| PathBuf::from("/run"))
}

impl SyncRecord {
    /// Reads what earlier processes have recorded at these places, the first of which is written first.
    #[must_use]
    pub fn load(boot_id: Option<[u8; 16]>, places: Vec<PathBuf>) -> SyncRecord {
        let mut recorded = Vec::new();
        for place in &places {
            match load(place, boot_id) {
                Some(record) if record.counts_for(boot_id) => recorded.push(record),
                // If it stays, it is seen to be of another start again.
                Some(_) => drop(fs::remove_file(place)),
                None => {}
            }
        }
        let known = Mutex::new(FailedSyncs::at_start(boot_id, &recorded));
        SyncRecord { places, known, trouble: OnceLock::new() }
    }

    /// What is known.
    #[must_use]
    pub fn known(&self) -> FailedSyncs {
        *lock(&self.known)
    }

    /// Records that a sync has failed, durably if it can be.
    pub fn note_failure(&self) {
        let mut known = lock(&self.known);
        known.note_failure();
        if let Err(why) = self.store(&known) {
            log::error!(
                "the failed flush cannot be recorded: {why}. Restart the whole device and not only the node: \
                 otherwise the next flush succeeds without the bytes that were lost"
            );
            let _ = self.trouble.set(why);
        }
    }

    /// Records that pages which the flash may lack were dropped.
    pub fn note_dropped(&self) {
        let mut known = lock(&self.known);
        known.note_dropped();
        if let Err(why) = self.store(&known) {
            log::warn!(
                "that pages were dropped after a failed flush cannot be recorded: {why}; the next start drops them again"
            );
        }
    }

    /// Why a failure could not be recorded anywhere, so that the next process will not know of it.
    #[must_use]
    pub fn trouble(&self) -> Option<&str> {
        self.trouble.get().map(String::as_str)
    }

    /// Writes it to all places. An error if none takes it.
    fn store(&self, known: &FailedSyncs) -> Result<(), String> {
        let text = encode(known).map_err(|e| e.to_string())?;
        let results: Vec<String> = self
            .places
            .iter()
            .filter_map(|place| replace_private(place, &text).err().map(|e| format!("{}: {e}", place.display())))
            .collect();
        if results.len() < self.places.len() { Ok(()) } else { Err(results.join("; ")) }
    }
}

fn load(place: &Path, boot_id: Option<[u8; 16]>) -> Option<FailedSyncs> {
    let bytes = match read_bounded(place, RECORD_BYTES_MAX) {
        Ok(bytes) => bytes,
        Err(e) if is_absent(&e) => return None,
        Err(e) => {
            log::warn!("{}: {e}; a flush counts as failed", place.display());
            return Some(damaged(e.to_string().as_bytes(), boot_id));
        }
    };
    Some(parse(&bytes).unwrap_or_else(|why| {
        log::warn!("{} is damaged: {why}; a flush counts as failed", place.display());
        damaged(&bytes, boot_id)
    }))
}

/// Whether there is no record, or it is another user's.
fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::PermissionDenied)
}

/// What a damaged record counts as: a failure with a number that no start has shown before.
fn damaged(bytes: &[u8], boot_id: Option<[u8; 16]>) -> FailedSyncs {
    FailedSyncs { boot_id, failed: DAMAGED + u64::from(checksum(bytes)), dropped: 0 }
}

/// The record in the bytes of its file.
pub fn parse(bytes: &[u8]) -> Result<FailedSyncs, String> {
    if bytes.len() as u64 > RECORD_BYTES_MAX {
        return Err(format!("it is larger than {RECORD_BYTES_MAX} bytes"));
    }
    let written: Written = toml::from_str(unseal(bytes)?).map_err(|e| e.message().to_string())?;
    if written.version != FORMAT_VERSION {
        return Err(format!("it has format version {}", written.version));
    }
    if written.dropped > written.failed {
        return Err("its numbers contradict each other".to_string());
    }
    let Written { boot_id, failed, dropped, .. } = written;
    Ok(FailedSyncs { boot_id: boot_id.map(|id| id.0), failed, dropped })
}

/// The bytes of its file.
pub fn encode(known: &FailedSyncs) -> Result<String, toml::ser::Error> {
    let FailedSyncs { boot_id, failed, dropped } = *known;
    // TOML's integers have a sign.
    let [failed, dropped] = [failed, dropped].map(|number| number.min(i64::MAX as u64));
    let body = toml::to_string(&Written { version: FORMAT_VERSION, boot_id: boot_id.map(ExtentId), failed, dropped })?;
    Ok(seal(format!("{HEADING}{body}")))
}

#[cfg(test)]
#[path = "tests/sync_record.rs"]
mod tests;
