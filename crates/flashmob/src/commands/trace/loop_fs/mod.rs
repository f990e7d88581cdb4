//! A fresh file system on a temporary loop device.
//!
//! Nothing of it has a name that could remain: the image is an unnamed file, the mount is in a namespace of the thread that created it, and
//! the kernel frees the loop device with its last user. So nothing remains of a killed process either; only the device's scheduler
//! is restored by another process ([`flashmob_host::scheduler`]).

mod device;
mod make;

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::ValueEnum;
use flashmob_host::place::Disk;
use flashmob_host::scheduler::SchedulerGuard;
use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_change, unmount};

use device::LoopDevice;

/// Directories of every system to mount on: only the thread sees the mount.
const MOUNT_POINTS: [&str; 3] = ["/mnt", "/media", "/tmp"];

/// File systems that can be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// ext4 with its journal.
    #[value(name = "ext4")]
    Ext4,
    /// ext4 without one.
    #[value(name = "ext4-nojournal")]
    Ext4NoJournal,
    /// XFS.
    #[value(name = "xfs")]
    Xfs,
    /// F2FS, made for flash.
    #[value(name = "f2fs")]
    F2fs,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 4] = [Kind::Ext4, Kind::Ext4NoJournal, Kind::Xfs, Kind::F2fs];

    /// Its name on command lines.
    #[must_use]
    pub fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_string())
    }

    /// The kernel's name.
    #[must_use]
    pub fn filesystem(self) -> &'static str {
        match self {
            Kind::Ext4 | Kind::Ext4NoJournal => "ext4",
            Kind::Xfs => "xfs",
            Kind::F2fs => "f2fs",
        }
    }

    /// Small, but large enough for tens of thousands of INSERTs.
    #[must_use]
    pub fn size_bytes_default(self) -> u64 {
        match self {
            // Newer versions of mkfs.xfs refuse less than 300 MiB.
            Kind::Xfs => 512 << 20,
            _ => 256 << 20,
        }
    }
}

/// One file system, mounted where only the thread that created it sees it. Dropping it removes it.
#[derive(Debug)]
pub struct LoopFs {
    folder: PathBuf,
    scheduler: Option<SchedulerGuard>,
    disk: Disk,
}

impl LoopFs {
    /// Creates one, with this scheduler if one is named. The calling thread gets its own mounts and keeps them, so it should end
    /// with the file system; it must not be a process's main thread.
    ///
    /// # Errors
    /// No privileges, a kernel or system without that file system, an unknown scheduler.
    pub fn make(kind: Kind, size_bytes: u64, scheduler: Option<&str>) -> anyhow::Result<LoopFs> {
        LoopFs::make_in(&std::env::temp_dir(), kind, size_bytes, scheduler)
    }

    /// As [`LoopFs::make`], with the image in this folder.
    fn make_in(images: &Path, kind: Kind, size_bytes: u64, scheduler: Option<&str>) -> anyhow::Result<LoopFs> {
        anyhow::ensure!(
            rustix::process::geteuid().is_root(),
            "a file system on a loop device needs root; run this as root, or give a folder instead of --loop"
        );
        make::check_kernel(kind)?;
        let tool = make::tool(kind)?;
        let image = device::image(images, size_bytes)?;
        let device = LoopDevice::attach(&image)?;
        let disk = Disk::named(device.name())
            .with_context(|| format!("/sys does not show {}; mount it at /sys", device.name()))?;
        let scheduler = scheduler.map(|wanted| SchedulerGuard::set(Some(&disk), wanted)).transpose()?;
        make::make(kind, &tool, device.path())?;
        own_mounts().context("cannot create a mount namespace (needs CAP_SYS_ADMIN)")?;
        let folder = MOUNT_POINTS.iter().map(Path::new).find(|path| path.is_dir());
        let folder = folder.context("no mount point: /mnt, /media and /tmp do not exist")?;
        mount(device.path(), folder, kind.filesystem(), MountFlags::NOSUID | MountFlags::NODEV, None)
            .with_context(|| format!("cannot mount {} as {}", device.path().display(), kind.filesystem()))?;
        // From here on only the mount keeps the device.
        drop(device);
        Ok(LoopFs { folder: folder.to_path_buf(), scheduler, disk })
    }

    /// Its mount point, visible to the thread that created it and to threads started by that one.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

impl Drop for LoopFs {
    fn drop(&mut self) {
        if let Some(guard) = self.scheduler.take()
            && let Err(error) = guard.restore()
        {
            log::warn!("{error}");
        }
        // At once, and not when the thread ends, so that nothing remains mounted after this process.
        if let Err(error) = unmount(&self.folder, UnmountFlags::DETACH) {
            log::warn!("{} stays mounted until this process ends: {error}", self.disk.name);
        }
    }
}

/// Separates this thread's mounts from those of others.
fn own_mounts() -> std::io::Result<()> {
    // SAFETY: a plain system call without pointers. It separates this thread's mounts, root and working directory from the other threads'.
    if unsafe { libc::unshare(libc::CLONE_NEWNS) } != 0 {
        return Err(std::io::Error::last_os_error());
    }
    Ok(mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?)
}

#[cfg(test)]
mod tests;
