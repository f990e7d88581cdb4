//! Free space for the extent. A sparse data file allocates its blocks when they are first written: without enough free space,
//! writes fail later.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Space in the file system of a data file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Space {
    /// Bytes available to the node.
    pub free_bytes: Option<u64>,
    /// Bytes in all.
    pub file_system_bytes: Option<u64>,
    /// Unallocated bytes of the extent.
    pub unallocated_bytes: Option<u64>,
}

/// Blocks of `stat` are of this size whatever the file system's are.
const STAT_BLOCK_BYTES: u64 = 512;

/// The space of the file system of `path`; empty for a block device or a missing file.
#[must_use]
pub fn space(path: &Path) -> Space {
    let Some(data) = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file) else { return Space::default() };
    let file_system = rustix::fs::statvfs(path).ok();
    let bytes = |blocks: u64, block_bytes: u64| Some(blocks.saturating_mul(block_bytes.max(1)));
    Space {
        free_bytes: file_system.as_ref().and_then(|fs| bytes(fs.f_bavail, fs.f_frsize)),
        file_system_bytes: file_system.as_ref().and_then(|fs| bytes(fs.f_blocks, fs.f_frsize)),
        unallocated_bytes: Some(data.len().saturating_sub(data.blocks().saturating_mul(STAT_BLOCK_BYTES))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn what_a_sparse_file_has_yet_to_take_is_known() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("extent");
        let file = std::fs::File::create(&path).unwrap();
        file.set_len(64 << 20).unwrap();
        let before = space(&path);
        assert!(before.free_bytes.is_some() && before.file_system_bytes >= before.free_bytes, "{before:?}");
        file.write_all_at(&vec![1; 16 << 20], 8 << 20).unwrap();
        file.sync_all().unwrap();
        let after = space(&path);
        // A file system may keep more than the bytes: maps of blocks, or compress ones that are alike.
        assert!(before.unallocated_bytes > Some(60 << 20), "{before:?}");
        assert!(after.unallocated_bytes < before.unallocated_bytes, "{before:?} {after:?}");
    }

    #[test]
    fn of_what_is_no_file_nothing_is_known() {
        assert_eq!(space(Path::new("/dev/null")), Space::default());
        assert_eq!(space(Path::new("/nonexistent")), Space::default());
    }
}
