//! The record of syncs that failed, which the next process of the node has to know: see [`FailedSyncs`].
//!
//! The record is written when the first sync of a process fails, before that is answered:
//!
//! - in each directory in memory that the node may write, which vanishes with the kernel as the record should, or with the session of a user.
//!   Android has none.
//! - beside the extent, in a new file. The device that has just failed may not take it.
//! - in a spare file beside the extent, which is made when the node starts: to write over it needs neither room nor another block of the file
//!   system. If the device does not take it either, the page cache has it for the next process.
//!
//! The time between the failure and the first of these writes is not covered: a process that is killed in it leaves no trace.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
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
/// Size of a spare file, in bytes: a sector, which a flash writes as a whole.
const SPARE_BYTES: usize = 512;
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

/// The places of a record.
#[derive(Debug, Clone, Default)]
pub struct RecordPlaces {
    /// Files in memory, each of which gets the record if it can be written. They are believed only if this user made them.
    pub in_memory: Vec<PathBuf>,
    /// Files that all get it, each written anew.
    pub beside: Vec<PathBuf>,
    /// A file that is made at the start, and written over.
    pub spare: Option<PathBuf>,
}

impl From<Vec<PathBuf>> for RecordPlaces {
    fn from(beside: Vec<PathBuf>) -> RecordPlaces {
        RecordPlaces { beside, ..RecordPlaces::default() }
    }
}

/// The record of an extent.
#[derive(Debug)]
pub struct SyncRecord {
    places: RecordPlaces,
    known: Mutex<FailedSyncs>,
    /// Why a failure could not be recorded anywhere.
    trouble: OnceLock<String>,
}

/// The directories in memory for records, the best one first: a service's own, the user's, the system's, and one where every user may write.
#[must_use]
pub fn runtime_dirs() -> Vec<PathBuf> {
    let named = |name: &str| std::env::var_os(name).filter(|dir| !dir.is_empty());
    // A service may have several.
    let of_service = named("RUNTIME_DIRECTORY").and_then(|dirs| std::env::split_paths(&dirs).next());
    let of_user = named("XDG_RUNTIME_DIR").map(PathBuf::from);
    of_service.into_iter().chain(of_user).chain(["/run", "/dev/shm"].map(PathBuf::from)).collect()
}

impl SyncRecord {
    /// Reads what earlier processes have recorded at these places, and makes the spare file if there is none.
    #[must_use]
    pub fn load(boot_id: Option<[u8; 16]>, places: impl Into<RecordPlaces>) -> SyncRecord {
        let places = places.into();
        let mut recorded = Vec::new();
        let in_memory = places.in_memory.iter().filter(|place| is_own(place));
        for place in in_memory.chain(&places.beside) {
            match load(place, boot_id) {
                Some(record) if record.counts_for(boot_id) => recorded.push(record),
                // If it stays, it is seen to be of another start again.
                Some(_) => drop(fs::remove_file(place)),
                None => {}
            }
        }
        if let Some(spare) = &places.spare {
            match load(spare, boot_id) {
                Some(record) => recorded.extend(record.counts_for(boot_id).then_some(record)),
                None => make_spare(spare, boot_id),
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

    /// Records that a sync has failed, durably if it can be. [`SyncRecord::trouble`] tells if it cannot be recorded at all.
    pub fn note_failure(&self) {
        let mut known = lock(&self.known);
        known.note_failure();
        if let Err(why) = self.store(&known) {
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
        let RecordPlaces { in_memory, beside, spare } = &self.places;
        let mut failures = Vec::new();
        let mut is_kept = |place: &Path, result: io::Result<()>| {
            let failure = result.err().map(|e| format!("{}: {e}", place.display()));
            let is_kept = failure.is_none();
            failures.extend(failure);
            is_kept
        };
        let mut kept = false;
        // One of them may end before the kernel does: that of a user who logs out.
        for place in in_memory.iter().chain(beside) {
            kept |= is_kept(place, replace_private(place, &text));
        }
        if let Some(spare) = spare {
            kept |= is_kept(spare, write_over(spare, known));
        }
        if kept { Ok(()) } else { Err(failures.join("; ")) }
    }
}

/// Whether this user made a file, in a directory where others may write as well.
fn is_own(place: &Path) -> bool {
    fs::symlink_metadata(place).is_ok_and(|metadata| metadata.uid() == rustix::process::geteuid().as_raw())
}

/// Makes the spare file of an extent, without a failure in it.
fn make_spare(path: &Path, boot_id: Option<[u8; 16]>) {
    let none = FailedSyncs { boot_id, ..FailedSyncs::default() };
    let made = encode_spare(&none).map_err(io::Error::other).and_then(|text| replace_private(path, &text));
    if let Err(e) = made {
        log::warn!("{}: {e}: a flush that fails may not be recorded", path.display());
    }
}

/// Writes over a spare file. It is kept, in the page cache at least, even if the device does not take it.
fn write_over(path: &Path, known: &FailedSyncs) -> io::Result<()> {
    let text = encode_spare(known).map_err(io::Error::other)?;
    let file = OpenOptions::new().write(true).open(path)?;
    file.write_all_at(text.as_bytes(), 0)?;
    if let Err(e) = file.sync_data() {
        log::warn!("{}: {e}: the record of the failed flush is in memory only", path.display());
    }
    Ok(())
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

/// The bytes of a spare file: of one size, whatever is in it.
fn encode_spare(known: &FailedSyncs) -> Result<String, String> {
    let text = encode(known).map_err(|e| e.to_string())?;
    let body = unseal(text.as_bytes())?;
    // The comment's own two bytes, and the line of the checksum.
    let room = SPARE_BYTES.checked_sub(text.len() + 2).ok_or("a record is larger than its spare file")?;
    Ok(seal(format!("{body}#{}\n", " ".repeat(room))))
}

#[cfg(test)]
#[path = "tests/sync_record.rs"]
mod tests;
