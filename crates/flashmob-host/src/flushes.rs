//! Whether `fdatasync` has the disk flush its cache: file systems can be mounted, or made, so that it does not.
//!
//! Found in the kernel's sources, and by counting the flushes that reach a disk (`tests/power/run`, Linux 6.1).

use std::path::Path;

use super::mounts::Mount;
use super::{kernel_release, text};

/// What `fdatasync` of a file does for the disk's cache.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Flushes {
    /// It is flushed.
    #[default]
    Reach,
    /// It may not be flushed, and is by `syncfs`. The text says why, as in "f2fs is mounted with fsync_mode=nobarrier".
    NeedSyncfs(String),
    /// It is never flushed. The text says why.
    Never(String),
}

impl Flushes {
    /// By the mount of the file, and the kernel's name of the device below, such as `mmcblk0p4`.
    pub(super) fn of(root: &Path, mount: &Mount, device: Option<&str>) -> Flushes {
        let filesystem = &mount.filesystem;
        let with = |option: &str| format!("{filesystem} is mounted with {option}");
        let has = |option: &str| mount.options.split(',').any(|other| other == option);
        // Of ext4, f2fs, btrfs, and XFS before Linux 4.19.
        if let Some(option) = ["nobarrier", "barrier=0"].into_iter().find(|option| has(option)) {
            return Flushes::Never(with(option));
        }
        match filesystem.as_str() {
            "f2fs" if has("fsync_mode=nobarrier") => Flushes::NeedSyncfs(with("fsync_mode=nobarrier")),
            "ext4" if has_no_journal(root, device) && is_old(root) => {
                Flushes::NeedSyncfs("ext4 has no journal, and Linux is older than 6.5".to_string())
            }
            _ => Flushes::Reach,
        }
    }
}

/// Before Linux 6.5, fdatasync of blocks that were only written over ended before the flush, on ext4 without a journal.
fn is_old(root: &Path) -> bool {
    kernel_release(root) < (6, 5)
}

fn has_no_journal(root: &Path, device: Option<&str>) -> bool {
    let task = device.and_then(|device| text(root.join("sys/fs/ext4").join(device).join("journal_task")));
    task.as_deref() == Some("<none>")
}
