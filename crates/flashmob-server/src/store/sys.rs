//! The system calls that not every kernel or C library has, in one place.
//!
//! `preadv2` and `pwritev2` exist since Linux 4.6 and get their flags later (RWF_DSYNC 4.7, RWF_NOWAIT 4.14). Where a call is
//! missing it answers with an errno that [`super::error::unsupported`] knows, and the caller does
//! without. They must not be retried with waiting.

use std::fs::File;
use std::io::{IoSlice, IoSliceMut};
#[cfg(not(target_os = "android"))]
use std::os::fd::AsRawFd;

use rustix::io::Errno;

/// Of Linux; the libc of Android has no name for it.
const RUSAGE_THREAD: libc::c_int = 1;

/// What this thread has used since it started; `None` if the system does not tell.
pub(super) fn usage_of_thread() -> Option<libc::rusage> {
    // SAFETY: all-zero is a valid rusage, and the call writes nothing but it.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        (libc::getrusage(RUSAGE_THREAD, &mut usage) == 0).then_some(usage)
    }
}

/// Reads what the page cache has at `offset_bytes`, without waiting for the device: `preadv2(2)` with
/// RWF_NOWAIT. EAGAIN if it has nothing.
#[cfg(not(target_os = "android"))]
pub(super) fn read_cached(file: &File, bufs: &mut [IoSliceMut<'_>], offset_bytes: u64) -> Result<usize, Errno> {
    rustix::io::preadv2(file, bufs, offset_bytes, rustix::io::ReadWriteFlags::NOWAIT)
}

/// Writes `data` at `offset_bytes` and waits until it is on the flash: `pwritev2(2)` with RWF_DSYNC.
#[cfg(not(target_os = "android"))]
pub(super) fn write_durable(file: &File, data: &[u8], offset_bytes: u64) -> Result<usize, Errno> {
    let slices = [IoSlice::new(data)];
    rustix::io::pwritev2(file, &slices, offset_bytes, rustix::io::ReadWriteFlags::DSYNC)
}

/// Writes `slices`, one behind the other, at `offset_bytes`: `pwritev(2)`.
#[cfg(not(target_os = "android"))]
pub(super) fn write_joined(file: &File, slices: &[IoSlice<'_>], offset_bytes: u64) -> Result<usize, Errno> {
    rustix::io::pwritev(file, slices, offset_bytes)
}

/// Bionic has no `pwritev` before Android 7, so nothing may be linked against it.
#[cfg(target_os = "android")]
pub(super) fn write_joined(file: &File, slices: &[IoSlice<'_>], offset_bytes: u64) -> Result<usize, Errno> {
    let mut done = 0;
    for slice in slices {
        match rustix::io::pwrite(file, slice, offset_bytes + done as u64) {
            Ok(n) if n == slice.len() => done += n,
            Ok(n) => return Ok(done + n),
            Err(error) if done == 0 => return Err(error),
            Err(_) => return Ok(done),
        }
    }
    Ok(done)
}

/// Has the page cache of a range begin to be written back, and waits for it if `waits`: `sync_file_range(2)`. It says nothing about what is on
/// the flash. An error of an earlier write is reported if it waits, and then not to the next sync of this open file.
#[cfg(not(target_os = "android"))]
pub(super) fn write_back(file: &File, start_bytes: u64, len_bytes: u64, waits: bool) -> Result<(), Errno> {
    let flags = libc::SYNC_FILE_RANGE_WRITE | if waits { libc::SYNC_FILE_RANGE_WAIT_AFTER } else { 0 };
    let (Ok(start), Ok(len)) = (start_bytes.try_into(), len_bytes.try_into()) else { return Err(Errno::INVAL) };
    // SAFETY: the call takes no memory, and the descriptor is open as long as `file` is borrowed.
    if unsafe { libc::sync_file_range(file.as_raw_fd(), start, len, flags) } == 0 {
        return Ok(());
    }
    Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO))
}

/// Bionic has no `sync_file_range` before Android 8, so nothing may be linked against it.
#[cfg(target_os = "android")]
pub(super) fn write_back(_: &File, _: u64, _: u64, _: bool) -> Result<(), Errno> {
    Err(Errno::NOSYS)
}

/// Bionic has no `preadv2` before Android 13, so nothing may be linked against it.
#[cfg(target_os = "android")]
pub(super) fn read_cached(_: &File, _: &mut [IoSliceMut<'_>], _: u64) -> Result<usize, Errno> {
    Err(Errno::NOSYS)
}

/// Bionic has no `pwritev2` before Android 13, so nothing may be linked against it.
#[cfg(target_os = "android")]
pub(super) fn write_durable(_: &File, _: &[u8], _: u64) -> Result<usize, Errno> {
    Err(Errno::NOSYS)
}
