//! A fresh file system on a loop device, for as long as it is needed.
//!
//! Nothing of it has a name that could stay behind: the image is a file without one, the mount is in a namespace of the thread that made it, and
//! the kernel frees the loop device with its last user. So a process that is killed leaves nothing either; only the device's scheduler
//! is put back by somebody else ([`flashmob_host::scheduler`]).

mod device;
mod make;

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::ValueEnum;
use flashmob_host::place::Disk;
use flashmob_host::scheduler::SchedulerGuard;
use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_change, unmount};

use device::LoopDevice;

/// Folders that every system has, to mount on: nobody but the thread sees that.
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
    /// All of them.
    pub const ALL: [Kind; 4] = [Kind::Ext4, Kind::Ext4NoJournal, Kind::Xfs, Kind::F2fs];

    /// Its name on command lines.
    #[must_use]
    pub fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_string())
    }

    /// What the kernel calls it.
    #[must_use]
    pub fn filesystem(self) -> &'static str {
        match self {
            Kind::Ext4 | Kind::Ext4NoJournal => "ext4",
            Kind::Xfs => "xfs",
            Kind::F2fs => "f2fs",
        }
    }

    /// As small as its tools allow, and large enough for tens of thousands of INSERTs.
    #[must_use]
    pub fn size_bytes_default(self) -> u64 {
        match self {
            // Newer tools make none below 300 MiB.
            Kind::Xfs => 512 << 20,
            _ => 256 << 20,
        }
    }
}

/// One file system, mounted where only the thread that made it sees it. Dropped, it is gone.
#[derive(Debug)]
pub struct LoopFs {
    folder: PathBuf,
    scheduler: Option<SchedulerGuard>,
    disk: Disk,
}

impl LoopFs {
    /// Makes one, with this scheduler if one is named. The calling thread gets mounts of its own and keeps them, so it should be one that ends
    /// with the file system; it must not be a process's first.
    ///
    /// # Errors
    /// No rights, a kernel or system without that file system, a scheduler that there is not.
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
        // From here on the mount alone keeps the device.
        drop(device);
        Ok(LoopFs { folder: folder.to_path_buf(), scheduler, disk })
    }

    /// Where it is mounted, for the thread that made it and those that this one starts.
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
        // Now rather than when the thread ends, so that who waits for this process finds nothing.
        if let Err(error) = unmount(&self.folder, UnmountFlags::DETACH) {
            log::warn!("{} stays mounted until this process ends: {error}", self.disk.name);
        }
    }
}

/// From here on nobody else sees what this thread mounts, nor it what others do.
fn own_mounts() -> std::io::Result<()> {
    // SAFETY: a plain system call. It parts this thread's mounts, root and working directory from the other threads'; no pointer is involved.
    if unsafe { libc::unshare(libc::CLONE_NEWNS) } != 0 {
        return Err(std::io::Error::last_os_error());
    }
    Ok(mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?)
}

#[cfg(test)]
mod tests;
