//! A loop device over an unnamed file, which is removed with its last user.

use std::fs::{File, OpenOptions};
use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

// From the kernel's linux/loop.h.
const LOOP_CTL_GET_FREE: u64 = 0x4C82;
const LOOP_SET_FD: u64 = 0x4C00;
const LOOP_CLR_FD: u64 = 0x4C01;
const LOOP_SET_STATUS64: u64 = 0x4C04;
const LOOP_CONFIGURE: u64 = 0x4C0A;
const LO_FLAGS_AUTOCLEAR: u32 = 4;
/// Other processes use free devices too: the named one may be taken before it is attached.
const ATTEMPTS: u32 = 32;

#[repr(C)]
struct LoopInfo {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

#[repr(C)]
struct LoopConfig {
    fd: u32,
    block_bytes: u32,
    info: LoopInfo,
    reserved: [u64; 8],
}

/// An unnamed file of this size, so that nothing remains of it.
pub(super) fn image(folder: &Path, size_bytes: u64) -> anyhow::Result<File> {
    let refused = || {
        format!(
            "cannot create an image of {} MiB in {}; set TMPDIR to another folder",
            size_bytes >> 20,
            folder.display()
        )
    };
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    let file = match options.clone().custom_flags(libc::O_TMPFILE).open(folder) {
        Ok(file) => file,
        // Not every file system supports unnamed files: there it has a name for a moment.
        Err(error) if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EISDIR | libc::EINVAL)) => {
            let path = folder.join(format!(".flashmob-image-{}-{}", std::process::id(), thread_id()));
            let file = options.create_new(true).open(&path).with_context(refused)?;
            std::fs::remove_file(&path).with_context(refused)?;
            file
        }
        Err(error) => return Err(error).with_context(refused),
    };
    file.set_len(size_bytes).with_context(refused)?;
    Ok(file)
}

fn thread_id() -> i32 {
    // SAFETY: it takes nothing and cannot fail.
    unsafe { libc::gettid() }
}

/// An open loop device; after mounting, the mount keeps it.
#[derive(Debug)]
pub(super) struct LoopDevice {
    name: String,
    path: PathBuf,
    _open: File,
}

impl LoopDevice {
    /// Attaches this file to a free one.
    pub fn attach(image: &File) -> anyhow::Result<LoopDevice> {
        let control = OpenOptions::new().read(true).write(true).open("/dev/loop-control");
        let control =
            control.context("cannot get a loop device (/dev/loop-control); give a folder instead of --loop")?;
        for _ in 0..ATTEMPTS {
            // SAFETY: the request takes no argument.
            let number = unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE as _) };
            if number < 0 {
                return Err(io::Error::last_os_error()).context("the kernel has no free loop device");
            }
            let name = format!("loop{number}");
            // Android has them in a folder.
            let paths = [format!("/dev/{name}"), format!("/dev/block/{name}")].map(PathBuf::from);
            let Some(path) = paths.into_iter().find(|path| path.exists()) else {
                bail!(
                    "the kernel offers {name}, but /dev has no such file; mount devtmpfs at /dev, or give a folder instead of --loop"
                );
            };
            let device = OpenOptions::new().read(true).write(true).open(&path);
            let device = device.with_context(|| format!("cannot open {}", path.display()))?;
            match configure(&device, image) {
                Ok(()) => return Ok(LoopDevice { name, path, _open: device }),
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {}
                Err(error) => return Err(error).with_context(|| format!("{} rejected the image", path.display())),
            }
        }
        bail!("all free loop devices were taken by other programs; try again")
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

fn configure(device: &File, image: &File) -> io::Result<()> {
    // SAFETY: all zeros are a valid value of plain numbers.
    let mut config: LoopConfig = unsafe { zeroed() };
    config.fd = image.as_raw_fd().unsigned_abs();
    config.info.flags = LO_FLAGS_AUTOCLEAR;
    let call = |request: u64, argument: usize| {
        // SAFETY: each request gets its documented argument: a descriptor, nothing, or a complete structure that outlives the
        // call.
        let back = unsafe { libc::ioctl(device.as_raw_fd(), request as _, argument) };
        if back < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    };
    match call(LOOP_CONFIGURE, &raw const config as usize) {
        // Before Linux 5.8 it takes two requests.
        Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOTTY)) => {
            call(LOOP_SET_FD, image.as_raw_fd() as usize)?;
            call(LOOP_SET_STATUS64, &raw const config.info as usize).inspect_err(|_| {
                // Otherwise it would remain attached.
                let _ = call(LOOP_CLR_FD, 0);
            })
        }
        done => done,
    }
}

// The kernel's structure sizes.
const _: () = assert!(size_of::<LoopInfo>() == 232 && size_of::<LoopConfig>() == 304);

/// The devices over images in this folder, which should be the caller's own: other tests attach devices at the same time.
#[cfg(test)]
pub(super) fn attached_from(folder: &Path) -> Vec<PathBuf> {
    let folder = folder.to_str().unwrap();
    let backing = |disk: &Path| std::fs::read_to_string(disk.join("loop/backing_file"));
    let disks = std::fs::read_dir("/sys/block").unwrap().map(|disk| disk.unwrap().path());
    disks.filter(|disk| backing(disk).is_ok_and(|path| path.starts_with(folder))).collect()
}
