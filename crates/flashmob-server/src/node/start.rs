//! The start of the device that an extent shows to gateways, and the record of a process that ended in order.
//!
//! The record is written beside the extent only where the system does not tell how long page caches live ([`flashmob_host::cache_life`]). It says
//! that everything was flushed, and it counts for the next process alone, which removes it before it serves anything.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use flashmob_core::node::{Start, boot_id_of};
use flashmob_host::cache_life;
use flashmob_host::place::medium_seq;

use crate::store::extent_id::unique_id;
use crate::store::{ExtentId, ProcessEnd, read_process_end, replace_private, sync_parent};

/// The number of this boot of the operating system, and of the medium that the data is on. `None` if the kernel does not have it.
pub(super) fn boot_id(data: &Path) -> Option<[u8; 16]> {
    let from_kernel = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let digits: String = from_kernel.chars().filter(char::is_ascii_hexdigit).collect();
    let kernel: ExtentId = digits.parse().ok()?;
    Some(boot_id_of(kernel.0, medium_seq(data)))
}

/// The start of the process that serves `data`, whose other files lie beside `sidecar`. The record of the last process, at `record`, is used up.
pub(super) fn begin(boot_id: Option<[u8; 16]>, data: &Path, sidecar: &Path, record: &Path) -> Start {
    let beside = sidecar.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let last_end = take_record(record, boot_id);
    Start::of_process(boot_id, &[cache_life(data), cache_life(beside)], last_end, unique_id())
}

/// Takes the record that the last process made of its end, if it counts. It does not once this has returned.
fn take_record(path: &Path, boot_id: Option<[u8; 16]>) -> Option<[u8; 16]> {
    let end = read_process_end(path);
    let removed = fs::remove_file(path).and_then(|()| sync_parent(path));
    match (end, removed) {
        (_, Err(e)) if e.kind() == ErrorKind::NotFound => None,
        (_, Err(e)) => {
            log::warn!("{}: {e}: whether the last process ended in order does not count", path.display());
            None
        }
        (Ok(end), Ok(())) => (end.boot_id == boot_id).then_some(end.start),
        (Err(why), Ok(())) => {
            log::warn!("{} is damaged: {why}; this start counts as one of the device", path.display());
            None
        }
    }
}

/// Records that a process with this start ends, and that all it wrote is on the flash.
pub(super) fn end(path: &Path, boot_id: Option<[u8; 16]>, start: [u8; 16]) {
    let written = ProcessEnd { boot_id, start }.encode();
    if let Err(e) = replace_private(path, &written) {
        log::warn!("{}: {e}: gateways will take the next start of the node for one of its device", path.display());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOOT: Option<[u8; 16]> = Some([7; 16]);

    #[test]
    fn the_record_of_an_end_counts_for_one_process_of_the_same_boot() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.end");
        assert_eq!(take_record(&path, BOOT), None);
        end(&path, BOOT, [3; 16]);
        assert_eq!(take_record(&path, BOOT), Some([3; 16]));
        assert_eq!(take_record(&path, BOOT), None, "it is used up");
        end(&path, BOOT, [3; 16]);
        assert_eq!(take_record(&path, Some([8; 16])), None);
        assert!(!path.exists());
        fs::write(&path, "damaged").unwrap();
        assert_eq!(take_record(&path, BOOT), None);
        assert!(!path.exists());
    }

    #[test]
    fn a_record_that_stays_does_not_count() {
        let dir = tempfile::tempdir().unwrap();
        // A folder cannot be removed as a file.
        let path = dir.path().join("x.end");
        fs::create_dir(&path).unwrap();
        assert_eq!(take_record(&path, BOOT), None);
    }
}
