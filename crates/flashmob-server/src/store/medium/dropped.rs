//! What the flash may lack after a failed sync is dropped from memory, before the next process serves anything.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

use flashmob_host::cache;

use super::super::error::{StoreError, open_error};
use super::super::sync_record::SyncRecord;
use super::Medium;

/// How often it is tried. A sync that fails here leaves clean pages, too, and the next one may succeed.
const TRIES: usize = 3;

impl Medium {
    /// Drops the page cache of the extent, and of its file of checksums, and records that.
    pub fn drop_cached(&self, record: &SyncRecord, sums_path: Option<&Path>) -> Result<(), StoreError> {
        let sums = match sums_path.map(|path| OpenOptions::new().read(true).write(true).open(path)) {
            Some(Err(e)) if e.kind() != io::ErrorKind::NotFound => {
                return Err(open_error("open", sums_path.unwrap_or(&self.path), e));
            }
            Some(Ok(file)) => Some(file),
            Some(Err(_)) | None => None,
        };
        drop_file(&self.path, &self.opened.file, self.opened.size_bytes, record)?;
        if let Some((file, path)) = sums.as_ref().zip(sums_path) {
            let len_bytes = file.metadata().map_err(|e| open_error("examine", path, e))?.len();
            drop_file(path, file, len_bytes, record)?;
        }
        record.note_dropped();
        log::warn!(
            "{}: a flush had failed: the page cache was dropped, so that what the flash lacks is seen. \
             Gateways take this for a restart of the device",
            self.path.display()
        );
        Ok(())
    }

    /// What is wrong with flushes, with the remedy.
    pub fn sync_trouble(&self) -> Option<String> {
        let path = self.path.display();
        let trouble = self.record().and_then(SyncRecord::trouble);
        self.has_failed_sync().then(|| match trouble {
            None => format!(
                "{path}: a write to the flash failed: flushes fail until the node is restarted. Check the device first. \
                 Writes that were acknowledged and not flushed may be lost; the node drops what the flash lacks when it starts, and gateways \
                 take that for a restart of the device"
            ),
            Some(why) => format!(
                "{path}: a write to the flash failed, and that cannot be recorded ({why}): restart the whole device and not only the node, \
                 otherwise the next flush succeeds without the bytes that were lost"
            ),
        })
    }
}

/// Writes back what is dirty of a file, and drops all of it. What fails meanwhile is recorded, and left out.
fn drop_file(path: &Path, file: &File, len_bytes: u64, record: &SyncRecord) -> Result<(), StoreError> {
    // What is only in memory cannot be read from elsewhere.
    if cache::no_disk(file).is_some() {
        return Ok(());
    }
    let mut failure = None;
    for _ in 0..TRIES {
        match cache::drop_range(file, 0..len_bytes) {
            Ok(dropped) if dropped.resident_after_bytes == Some(0) => return Ok(()),
            Ok(dropped) => {
                let resident_bytes = dropped.resident_after_bytes;
                return Err(StoreError::StaysCached { path: path.into(), resident_bytes });
            }
            Err(e) => {
                record.note_failure();
                failure = Some(e);
            }
        }
    }
    let source = failure.unwrap_or_else(|| io::Error::other("it cannot be synced"));
    Err(StoreError::CannotDrop { path: path.into(), source })
}
