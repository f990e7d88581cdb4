//! Opening the file or block device of an extent: it is created if missing, checked, and locked.
//!
//! This is the only part of the store that may block. It never truncates a file, and never creates an empty one beside an
//! identity of lost data.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use flashmob_core::units::Bytes;
use rustix::fs::{AtFlags, FlockOperation, OFlags, StatxFlags};
use rustix::io::Errno;

use super::StoreConfig;
use super::direct::CHUNK_BYTES;
use super::error::{StoreError, open_error};
use super::holes;
use super::identity::{Identity, sidecar_path};
use super::permanent::Permanent;
use super::private::PRIVATE_MODE;

/// How long to wait for another process's lock. udev locks a device for a moment after each close, and the kernel may keep a
/// killed process's files open until its io_uring has ended.
const LOCK_WAIT: Duration = Duration::from_secs(1);

/// A file or block device that is open, locked and of the right size.
#[derive(Debug)]
pub(super) struct Opened {
    /// For reads, writes and fdatasync.
    pub file: File,
    /// The same file once more, for durable writes: see [`super::medium`] for why they have their own.
    pub durable: File,
    /// Bytes of the extent.
    pub size_bytes: u64,
    /// Whether it is a block device.
    pub is_device: bool,
    /// The alignment that O_DIRECT wants, in bytes; 1 without it.
    pub align_bytes: u64,
    /// Ranges given to `fallocate` start and end at multiples of this many bytes.
    pub hole_align_bytes: u64,
    /// Whether its holes can be told: not those of block devices, nor of files whose file system does not know all that was written.
    pub tells_holes: bool,
    /// How what is written is made permanent.
    pub permanent: Permanent,
}

/// Opens the file or device of an extent.
pub(super) fn open(config: &StoreConfig) -> Result<Opened, StoreError> {
    let StoreConfig { ref path, size_bytes, grow, gives_up, direct, .. } = *config;
    if let Some(size_bytes) = size_bytes.filter(|&n| n == 0 || n > i64::MAX as u64) {
        return Err(StoreError::SizeImpossible { path: path.into(), size_bytes });
    }
    let is_new = match fs::metadata(path) {
        Ok(metadata) => {
            check_kind(path, &metadata)?;
            false
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            if fs::symlink_metadata(path).is_ok() {
                return Err(StoreError::DanglingLink { path: path.into() });
            }
            refuse_lost_data(path, gives_up)?;
            if size_bytes.is_none() {
                return Err(StoreError::SizeRequired { path: path.into() });
            }
            true
        }
        Err(e) => return Err(open_error("open", path, e)),
    };
    let file = open_read_write(path, is_new, OFlags::empty())?;
    let metadata = file.metadata().map_err(|e| open_error("examine", path, e))?;
    check_kind(path, &metadata)?;
    lock(path, &file)?;
    if metadata.file_type().is_block_device() {
        return open_device(path, file, size_bytes, direct);
    }
    // The size is read only now, under the lock: another node may just have made the file.
    let found_bytes = file.metadata().map_err(|e| open_error("examine", path, e))?.len();
    let size_bytes = match (found_bytes, size_bytes) {
        (0, Some(wanted)) => {
            refuse_lost_data(path, gives_up)?;
            make(path, &file, wanted).inspect_err(|_| {
                if is_new {
                    let _ = fs::remove_file(path);
                }
            })?;
            wanted
        }
        (0, None) => {
            refuse_lost_data(path, gives_up)?;
            return Err(StoreError::Empty { path: path.into() });
        }
        (found, Some(wanted)) if found < wanted && grow => {
            enlarge(path, &file, wanted)?;
            wanted
        }
        (found, Some(wanted)) if found != wanted => {
            return Err(StoreError::SizeDiffers { path: path.into(), found_bytes: found, wanted_bytes: wanted });
        }
        (found, _) => found,
    };
    let undo = file.try_clone().ok().filter(|_| size_bytes != found_bytes);
    finish(path, file, size_bytes, false, direct).inspect_err(|_| {
        // A file that cannot be used leaves nothing behind, and no other size.
        if is_new {
            let _ = fs::remove_file(path);
        } else if let Some(file) = undo {
            let _ = file.set_len(found_bytes);
        }
    })
}

/// Opens for reading and writing, with `flags` besides, and makes the file if `create`.
fn open_read_write(path: &Path, create: bool, flags: OFlags) -> Result<File, StoreError> {
    let flags = i32::try_from(flags.bits()).unwrap_or(0);
    let mut options = OpenOptions::new();
    let opened = options.read(true).write(true).create(create).mode(PRIVATE_MODE).custom_flags(flags).open(path);
    opened.map_err(|e| open_error("open", path, e))
}

/// Refuses what is neither a file nor a block device.
fn check_kind(path: &Path, metadata: &fs::Metadata) -> Result<(), StoreError> {
    let kind = metadata.file_type();
    let what = if kind.is_file() || kind.is_block_device() {
        return Ok(());
    } else if kind.is_dir() {
        "directory"
    } else if kind.is_fifo() {
        "FIFO"
    } else if kind.is_socket() {
        "socket"
    } else {
        "character device"
    };
    Err(StoreError::NotAFile { path: path.into(), what })
}

/// Refuses a missing or empty file with an existing identity: a new extent would return zeros for the lost data. Not if that is given up, and the
/// identity says so already.
fn refuse_lost_data(path: &Path, gives_up: bool) -> Result<(), StoreError> {
    let sidecar = sidecar_path(path, None);
    let is_free = || Identity::look(&sidecar).is_ok_and(|found| found.is_some_and(|found| found.place().is_none()));
    if fs::symlink_metadata(&sidecar).is_ok() && !(gives_up && is_free()) {
        return Err(StoreError::DataLost { path: path.into(), sidecar });
    }
    Ok(())
}

/// Takes the lock against a second node. It belongs to the open file, so it also works within one process, and is released
/// however the process ends.
fn lock(path: &Path, file: &File) -> Result<(), StoreError> {
    match take_lock(file) {
        Ok(true) => Ok(()),
        Ok(false) => Err(StoreError::Locked { path: path.into() }),
        Err(e) => Err(StoreError::CannotLock { path: path.into(), source: e.into() }),
    }
}

/// Takes the exclusive lock of an open file. False if somebody else has it and keeps it.
pub(crate) fn take_lock(file: &File) -> Result<bool, Errno> {
    let give_up = Instant::now() + LOCK_WAIT;
    loop {
        match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(true),
            Err(Errno::INTR) => {}
            Err(Errno::WOULDBLOCK) if Instant::now() < give_up => std::thread::sleep(Duration::from_millis(20)),
            Err(Errno::WOULDBLOCK) => return Ok(false),
            Err(e) => return Err(e),
        }
    }
}

/// Gives an empty file its size, without allocating it, and makes sure that it survives a power cut.
fn make(path: &Path, file: &File, size_bytes: u64) -> Result<(), StoreError> {
    enlarge(path, file, size_bytes)?;
    sync_parent(path).map_err(|e| open_error("sync the directory of", path, e))?;
    log::info!("{}: created, {}", path.display(), Bytes(size_bytes));
    Ok(())
}

/// Gives a file a larger size, without allocating it, and has that on the flash.
fn enlarge(path: &Path, file: &File, size_bytes: u64) -> Result<(), StoreError> {
    file.set_len(size_bytes).map_err(|e| match Errno::from_io_error(&e) {
        // ext4 says EFBIG, others EINVAL.
        Some(Errno::FBIG | Errno::INVAL) => {
            StoreError::TooLargeForFileSystem { path: path.into(), wanted_bytes: size_bytes }
        }
        _ => open_error("set the size of", path, e),
    })?;
    file.sync_all().map_err(|e| open_error("sync", path, e))?;
    if let Ok(fs) = rustix::fs::fstatvfs(file) {
        let free_bytes = fs.f_bavail.saturating_mul(fs.f_frsize);
        if free_bytes < size_bytes {
            log::warn!(
                "{}: sparse, but its file system has only {} free of the {} that it may need; \
                 writes will fail when it is full",
                path.display(),
                Bytes(free_bytes),
                Bytes(size_bytes)
            );
        }
    }
    Ok(())
}

/// Makes a new name in the directory of `path` survive a power cut. File systems that cannot sync a
/// directory (FAT, some FUSE) say EINVAL; there is nothing better to do on them.
pub(crate) fn sync_parent(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let parent_file = File::open(parent)?;
    match rustix::fs::fsync(&parent_file) {
        Err(Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS) => {}
        other => other?,
    }
    Ok(Permanent::of(parent).finish(&parent_file)?)
}

/// A block device: its size is what the kernel says, or less if asked for.
fn open_device(path: &Path, file: File, size_bytes: Option<u64>, direct: bool) -> Result<Opened, StoreError> {
    let found_bytes = (&file).seek(SeekFrom::End(0)).map_err(|e| open_error("measure", path, e))?;
    if found_bytes == 0 {
        return Err(StoreError::Empty { path: path.into() });
    }
    let size_bytes = match size_bytes {
        Some(wanted_bytes) if wanted_bytes > found_bytes => {
            return Err(StoreError::DeviceTooSmall { path: path.into(), found_bytes, wanted_bytes });
        }
        Some(wanted_bytes) => wanted_bytes,
        None => found_bytes,
    };
    finish(path, file, size_bytes, true, direct)
}

/// The common part of files and devices: the second open file, and O_DIRECT.
fn finish(path: &Path, file: File, size_bytes: u64, is_device: bool, direct: bool) -> Result<Opened, StoreError> {
    // O_EXCL without O_CREAT claims a block device: refused while it is mounted, and it cannot be mounted while
    // it is open (open(2)).
    let claim = if is_device { OFlags::EXCL } else { OFlags::empty() };
    let durable = open_read_write(path, false, claim).map_err(|e| match &e {
        StoreError::Other { source, .. } if Errno::from_io_error(source) == Some(Errno::BUSY) => {
            StoreError::DeviceInUse { path: path.into() }
        }
        _ => e,
    })?;
    let examine = |file: &File| file.metadata().map_err(|e| open_error("examine", path, e));
    let (first, second) = (examine(&file)?, examine(&durable)?);
    if (first.dev(), first.ino()) != (second.dev(), second.ino()) {
        let source = io::Error::other("the file was replaced while it was opened; start again");
        return Err(StoreError::Other { action: "open", path: path.into(), source });
    }
    let page_bytes = rustix::param::page_size() as u64;
    let tells_holes = !is_device && holes::are_coherent(&file);
    // A sync of a block device always has it flush its cache.
    let permanent = if is_device { Permanent::default() } else { Permanent::at(path) };
    let (align_bytes, hole_align_bytes) = (1, 1);
    let mut opened =
        Opened { file, durable, size_bytes, is_device, align_bytes, hole_align_bytes, tells_holes, permanent };
    if is_device {
        // The kernel takes whole logical blocks only; whole pages spare it the ends of those.
        opened.hole_align_bytes = page_bytes;
    }
    if direct {
        opened.align_bytes = enable_direct(path, &opened)?;
        // A hole that ends within a block of the file system makes the kernel zero the rest of it through
        // the page cache, behind the back of direct writes to its neighbours.
        opened.hole_align_bytes = page_bytes.max(opened.align_bytes).max(first.blksize().next_power_of_two());
    }
    Ok(opened)
}

/// Turns O_DIRECT on for both open files. Returns the alignment it wants, in bytes.
fn enable_direct(path: &Path, opened: &Opened) -> Result<u64, StoreError> {
    let no_direct = |why: String| StoreError::NoDirect { path: path.into(), why };
    for file in [&opened.file, &opened.durable] {
        let set = rustix::fs::fcntl_getfl(file).and_then(|flags| rustix::fs::fcntl_setfl(file, flags | OFlags::DIRECT));
        set.map_err(|e| no_direct(io::Error::from(e).to_string()))?;
    }
    let align_bytes =
        direct_alignment(&opened.file, opened.is_device).ok_or_else(|| no_direct("according to the kernel".into()))?;
    if !align_bytes.is_power_of_two() || align_bytes > CHUNK_BYTES as u64 {
        return Err(no_direct(format!("it needs blocks of {align_bytes} bytes")));
    }
    if !opened.size_bytes.is_multiple_of(align_bytes) {
        return Err(StoreError::UnalignedSize { path: path.into(), size_bytes: opened.size_bytes, align_bytes });
    }
    let mut probe = super::direct::Bounce::new(align_bytes);
    match rustix::io::pread(&opened.file, probe.slice(align_bytes as usize), 0) {
        Ok(_) => Ok(align_bytes),
        Err(e) => Err(no_direct(io::Error::from(e).to_string())),
    }
}

/// The alignment of offsets, lengths and memory that the kernel wants for O_DIRECT. `None` if it says that it has none.
///
/// From `statx(2)` since Linux 6.1; before, the logical block size of a device, and for files 4,096 bytes, which all file
/// systems on flash accept.
pub(super) fn direct_alignment(file: &File, is_device: bool) -> Option<u64> {
    const FILE_ALIGN_BYTES: u32 = 4096;
    if let Ok(stat) = rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN)
        && stat.stx_mask & StatxFlags::DIOALIGN.bits() != 0
    {
        let align = stat.stx_dio_offset_align.max(stat.stx_dio_mem_align);
        return (align > 0).then_some(u64::from(align));
    }
    let align =
        if is_device { rustix::fs::ioctl_blksszget(file).unwrap_or(FILE_ALIGN_BYTES) } else { FILE_ALIGN_BYTES };
    Some(u64::from(align))
}
