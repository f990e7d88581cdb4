//! The page cache of one file: measuring what is in memory, dropping it and filling it.
//!
//! Locked or mapped pages are not dropped, and the kernel does not report that. So the functions check the result. Ranges are in bytes and
//! are widened to whole pages.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::Path;
use std::time::Duration;

use flashmob_core::units::Bytes;
use rustix::fs::{Access, Advice, AtFlags, CWD};

use super::is_android;

/// Bytes mapped at once for `mincore`, or dropped at once. A 32-bit process has little address space to spare.
const STEP_BYTES: u64 = if cfg!(target_pointer_width = "64") { 1 << 30 } else { 64 << 20 };
/// Pages that were just read wait in a list of each processor before they can be dropped; a few tries get all of them.
const DROP_TRIES: u32 = 6;
/// Pauses double, so this is 155 ms in all.
const DROP_PAUSE: Duration = Duration::from_millis(5);
/// More passes would not help: then the file does not fit, or something evicts it.
const WARM_PASSES: u32 = 3;
const READ_BYTES: usize = 1 << 20;
/// Largest missing part of a warm range, in thousandths.
const MISSING_PER_MILLE: u64 = 1;
/// The kernel's number for users that are not mapped into this namespace.
const OVERFLOW_UID: u32 = 65534;
const DROP_CACHES: &str = "/proc/sys/vm/drop_caches";

/// The outcome of dropping a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// Bytes of the range that are still in memory; `None` if the kernel does not tell this user.
    pub resident_after_bytes: Option<u64>,
    /// The remedy, unless the range is known to be out of memory.
    pub remedy: Option<String>,
}

/// Bytes of `range` that are in the page cache, in whole pages but never more than the range has. `None` if the
/// kernel does not tell this user. `file` must be open for reading.
pub fn resident_bytes(file: &File, range: Range<u64>) -> io::Result<Option<u64>> {
    let Some((range, asked)) = pages_of(file, range)? else { return Ok(Some(0)) };
    // To users who neither own a file nor may write it, mincore reports all pages as resident (Linux 5.2). cachestat is correct, or refuses
    // (later kernels).
    if let Some(bytes) = by_cachestat(file, &range) {
        return Ok(Some(bytes.min(asked)));
    }
    if !is_told_the_truth(file)? {
        return Ok(None);
    }
    Ok(Some(by_mincore(file, &range)?.min(asked)))
}

/// Drops `range` from the page cache: writes back what is dirty, advises the kernel, and checks the result. If that is not enough and this is
/// root, all clean pages of the machine are dropped.
pub fn drop_range(file: &File, range: Range<u64>) -> io::Result<Dropped> {
    drop_range_with(file, range, Path::new(DROP_CACHES))
}

/// As [`drop_range`], with another file in the place of `/proc/sys/vm/drop_caches`.
pub(super) fn drop_range_with(file: &File, range: Range<u64>, drop_caches: &Path) -> io::Result<Dropped> {
    let resident = || resident_bytes(file, range.clone());
    let outcome = |resident_after_bytes, remedy| Ok(Dropped { resident_after_bytes, remedy });
    let Some((pages, _)) = pages_of(file, range.clone())? else { return outcome(Some(0), None) };
    if let Some(remedy) = no_disk(file) {
        return outcome(resident()?, Some(remedy.into()));
    }
    for attempt in 0..DROP_TRIES {
        if attempt > 0 {
            std::thread::sleep(DROP_PAUSE * (1 << (attempt - 1)));
        }
        match rustix::fs::fdatasync(file) {
            // Not for this kind of file, or nothing to write back to.
            Ok(()) | Err(rustix::io::Errno::INVAL | rustix::io::Errno::ROFS) => {}
            Err(error) => return Err(error.into()),
        }
        for (offset, len) in steps(&pages) {
            rustix::fs::fadvise(file, offset, std::num::NonZeroU64::new(len), Advice::DontNeed)?;
        }
        match resident()? {
            Some(0) => return outcome(Some(0), None),
            Some(_) => {}
            // It is not known whether another try would help.
            None => {
                let remedy = "the kernel does not tell this user what is in memory; own the file, or run this as root";
                return outcome(None, Some(remedy.into()));
            }
        }
    }
    let is_root = rustix::process::geteuid().is_root() && std::fs::write(drop_caches, "1").is_ok();
    let stays = resident()?;
    if stays.unwrap_or(0) == 0 {
        return outcome(stays, None);
    }
    let root = if is_root { "" } else { ", or run this as root so that all caches can be dropped" };
    let remedy = format!(
        "{} of {} stay in memory: a program has them mapped or locked, or they cannot be written back; \
         end that program (fuser -v FILE names it), or measure another file{root}",
        Bytes(stays.unwrap_or(0)),
        Bytes(range.end.saturating_sub(range.start))
    );
    outcome(stays, Some(remedy))
}

/// Reads `range` into the page cache, again if some of it was evicted meanwhile. `file` must be open for reading, without O_DIRECT.
pub fn warm(file: &File, range: Range<u64>) -> io::Result<()> {
    if rustix::fs::fcntl_getfl(file)?.contains(rustix::fs::OFlags::DIRECT) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "a file that is open with O_DIRECT cannot be read into memory",
        ));
    }
    let Some((pages, asked)) = pages_of(file, range.clone())? else { return Ok(()) };
    let mut buffer = vec![0; READ_BYTES];
    for _ in 0..WARM_PASSES {
        let mut offset = pages.start;
        while offset < pages.end {
            let want = (pages.end - offset).min(READ_BYTES as u64) as usize;
            match file.read_at(&mut buffer[..want], offset) {
                Ok(0) => break,
                Ok(read) => offset += read as u64,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let is_warm = |bytes| asked.saturating_sub(bytes) <= asked / 1000 * MISSING_PER_MILLE;
        if resident_bytes(file, range.clone())?.is_none_or(is_warm) {
            break;
        }
    }
    Ok(())
}

/// The length of a file or block device.
pub fn size_of(file: &File) -> io::Result<u64> {
    let metadata = file.metadata()?;
    if metadata.is_file() {
        return Ok(metadata.len());
    }
    if metadata.file_type().is_block_device() {
        // Moves the file position, which nothing here uses.
        let mut file = file;
        return file.seek(SeekFrom::End(0));
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "neither a file nor a block device"))
}

/// `range` cut to the file and widened to whole pages, and its length before that; `None` if nothing is left.
fn pages_of(file: &File, range: Range<u64>) -> io::Result<Option<(Range<u64>, u64)>> {
    let size = size_of(file)?;
    let (start, end) = (range.start, range.end.min(size));
    if start >= end {
        return Ok(None);
    }
    let page = rustix::param::page_size() as u64;
    Ok(Some((start / page * page..end.div_ceil(page).saturating_mul(page), end - start)))
}

/// `range` in steps: offset and length.
fn steps(range: &Range<u64>) -> impl Iterator<Item = (u64, u64)> {
    let end = range.end;
    (range.start..end).step_by(STEP_BYTES as usize).map(move |offset| (offset, STEP_BYTES.min(end - offset)))
}

/// The remedy for a file on a memory file system; `None` for any other.
pub fn no_disk(file: &File) -> Option<&'static str> {
    is_memory(file).then_some("the file lies in memory (tmpfs), there is no disk to measure; put it elsewhere")
}

/// True for a file on a memory file system. The node of a block device is there as well, on devtmpfs, but not its content.
fn is_memory(file: &File) -> bool {
    const TMPFS: u64 = 0x0102_1994;
    const RAMFS: u64 = 0x8584_58f6;
    // The field's type differs between platforms, and is signed on some.
    file.metadata().is_ok_and(|metadata| metadata.is_file())
        && rustix::fs::fstatfs(file).is_ok_and(|stat| matches!(stat.f_type as u64 & 0xffff_ffff, TMPFS | RAMFS))
}

/// Whether mincore(2) reports correct values: the user owns the file or may write it.
fn is_told_the_truth(file: &File) -> io::Result<bool> {
    let (owner, me) = (file.metadata()?.uid(), rustix::process::geteuid());
    if owner == me.as_raw() || (me.is_root() && owner != OVERFLOW_UID) {
        return Ok(true);
    }
    let itself = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(rustix::fs::accessat(CWD, itself, Access::WRITE_OK, AtFlags::empty()).is_ok())
}

#[repr(C)]
struct CachestatRange {
    offset: u64,
    len: u64,
}

#[repr(C)]
#[derive(Default)]
struct Cachestat {
    cached: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// By cachestat(2), which needs no mapping; `None` where there is none or it is not allowed.
fn by_cachestat(file: &File, range: &Range<u64>) -> Option<u64> {
    // MIPS and Alpha have other system call numbers. Android kills a process for an unknown one.
    const NUMBERED_ALIKE: bool = cfg!(any(
        target_arch = "x86_64",
        target_arch = "x86",
        target_arch = "aarch64",
        target_arch = "arm",
        target_arch = "riscv64",
        target_arch = "powerpc64"
    ));
    const SYS_CACHESTAT: libc::c_long = 451;
    if !NUMBERED_ALIKE || is_android() || !kernel_is_at_least(6, 5) {
        return None;
    }
    let asked = CachestatRange { offset: range.start, len: range.end - range.start };
    let mut found = Cachestat::default();
    // SAFETY: both structures are live and laid out as the kernel's (five and two u64, no padding); the kernel only
    // reads the first and writes the second; the descriptor is open as long as `file` is borrowed; flags must be 0.
    let result = unsafe {
        libc::syscall(SYS_CACHESTAT, file.as_fd().as_raw_fd(), &raw const asked, &raw mut found, 0 as libc::c_uint)
    };
    (result == 0).then(|| found.cached.saturating_mul(rustix::param::page_size() as u64))
}

fn kernel_is_at_least(major: u32, minor: u32) -> bool {
    let uname = rustix::system::uname();
    let release = uname.release().to_string_lossy();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|text| text.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (major, minor)
}

/// By mincore(2), over one mapping after the other.
pub(super) fn by_mincore(file: &File, range: &Range<u64>) -> io::Result<u64> {
    let page = rustix::param::page_size();
    let mut resident = 0u64;
    let mut pages = Vec::new();
    for (offset, len) in steps(range) {
        let len = usize::try_from(len).map_err(io::Error::other)?;
        pages.clear();
        pages.resize(len.div_ceil(page), 0u8);
        // SAFETY: a new shared mapping at an address of the kernel's choice, of which no byte is ever accessed: so changes
        // and truncation by others do not matter.
        let map = unsafe {
            let (prot, flags) = (rustix::mm::ProtFlags::READ, rustix::mm::MapFlags::SHARED);
            rustix::mm::mmap(std::ptr::null_mut(), len, prot, flags, file, offset)?
        };
        // SAFETY: the range is exactly the mapping, and `pages` has a byte for each page of it.
        let result = unsafe { libc::mincore(map.cast(), len, pages.as_mut_ptr().cast()) };
        let error = io::Error::last_os_error();
        // SAFETY: exactly the mapping from above, and nothing refers to it.
        unsafe { rustix::mm::munmap(map, len)? };
        if result != 0 {
            return Err(error);
        }
        resident += pages.iter().map(|page| u64::from(page & 1)).sum::<u64>() * page as u64;
    }
    Ok(resident)
}
