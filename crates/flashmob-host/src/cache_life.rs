//! The life of a file's page cache: which instance of a mounted file system, or of a medium, holds what is not on the flash yet.
//!
//! A file system that is unmounted and mounted again is another instance, though the kernel and the disk are the same. Linux shows one by the
//! folder of its superblock in sysfs: `/sys/fs/ext4/sda1` is made at each mount, and its inode number is drawn from a counter that does not
//! return to a number (kernfs, since Linux 4.14). It is the same in all mount namespaces, unlike the id of a mount: a service in
//! a sandbox gets a namespace of its own at each start.
//!
//! | file system | its instance |
//! |---|---|
//! | ext2 to ext4, XFS, f2fs | the folder of the superblock, named as the device |
//! | btrfs | the folder of the superblock, found by the device in it |
//! | tmpfs, ramfs | the file is in memory alone: it is there or not |
//! | Android's `/data` | mounted while Android runs |
//! | block device | the number of its medium (`diskseq`, since Linux 5.15) |
//! | others, FUSE and NFS among them | not told |

use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use flashmob_core::node::CacheLife;

use super::mounts::{self, Dev, Mount};
use super::place::{by_number, by_source, medium_seq_at, mounted, whole_disk};
use super::{is_android_at, kernel_release, number};

/// The page cache of the file or block device `path`, which has to exist.
#[must_use]
pub fn cache_life(path: &Path) -> CacheLife {
    let (Ok(real), Ok(metadata)) = (path.canonicalize(), path.metadata()) else { return CacheLife::Unknown };
    let is_device = metadata.file_type().is_block_device();
    let dev = if is_device { metadata.rdev() } else { metadata.dev() };
    cache_life_at(Path::new("/"), &real, (rustix::fs::major(dev), rustix::fs::minor(dev)), is_device)
}

/// The page cache of `path`, whose device has the number `dev` (for a block device its own number), by the `/proc` and `/sys` below `root`.
pub(super) fn cache_life_at(root: &Path, path: &Path, dev: Dev, is_device: bool) -> CacheLife {
    if is_device {
        return medium_seq_at(root, dev).map_or(CacheLife::Unknown, CacheLife::Instance);
    }
    let mounts = mounted(root);
    let Some(mount) = mounts::of_file(&mounts, path, dev) else { return CacheLife::Unknown };
    match mount.filesystem.as_str() {
        "tmpfs" | "ramfs" => CacheLife::Kernel,
        "ext4" | "f2fs" if mount.point.starts_with("/data") && is_android_at(root) => CacheLife::Kernel,
        _ => instance(root, &mounts, mount).map_or(CacheLife::Unknown, CacheLife::Instance),
    }
}

fn instance(root: &Path, mounts: &[Mount], mount: &Mount) -> Option<u64> {
    let device = by_number(root, mount.dev).or_else(|| by_source(root, mounts, mount))?;
    if kernel_release(root) < (4, 14) || is_medium_untold(&device) {
        return None;
    }
    Some(superblock(root, &mount.filesystem, &device)?.metadata().ok()?.ino())
}

/// Whether the medium can be exchanged below a mounted file system without a sign of it.
fn is_medium_untold(device: &Path) -> bool {
    whole_disk(device).is_none_or(|disk| {
        number::<u64>(disk.sysfs.join("diskseq")).is_none() && number::<u8>(disk.sysfs.join("removable")) != Some(0)
    })
}

/// The folder of the superblock on this device.
fn superblock(root: &Path, filesystem: &str, device: &Path) -> Option<PathBuf> {
    let (all, name) = (root.join("sys/fs"), device.file_name()?);
    match filesystem {
        "ext2" | "ext3" | "ext4" => Some(all.join("ext4").join(name)),
        "xfs" | "f2fs" => Some(all.join(filesystem).join(name)),
        "btrfs" => {
            let entries = std::fs::read_dir(all.join("btrfs")).ok()?;
            let has_device = |folder: &PathBuf| folder.join("devices").join(name).symlink_metadata().is_ok();
            entries.flatten().map(|entry| entry.path()).find(has_device)
        }
        _ => None,
    }
}
