//! The two system calls that not every kernel has, in one place.
//!
//! Both exist since Linux 4.6 and get their flags later (RWF_DSYNC 4.7, RWF_NOWAIT 4.14). Where they are
//! missing they answer with an errno that [`super::error::unsupported`] knows, and the caller does
//! without. They must not be retried with waiting.

use std::fs::File;
use std::io::IoSliceMut;

use rustix::io::Errno;

/// Reads what the page cache has at `offset_bytes`, without waiting for the device: `preadv2(2)` with
/// RWF_NOWAIT. EAGAIN if it has nothing.
#[cfg(not(target_os = "android"))]
pub(super) fn read_cached(file: &File, bufs: &mut [IoSliceMut<'_>], offset_bytes: u64) -> Result<usize, Errno> {
    rustix::io::preadv2(file, bufs, offset_bytes, rustix::io::ReadWriteFlags::NOWAIT)
}

/// Writes `data` at `offset_bytes` and waits until it is on the flash: `pwritev2(2)` with RWF_DSYNC.
#[cfg(not(target_os = "android"))]
pub(super) fn write_durable(file: &File, data: &[u8], offset_bytes: u64) -> Result<usize, Errno> {
    let slices = [std::io::IoSlice::new(data)];
    rustix::io::pwritev2(file, &slices, offset_bytes, rustix::io::ReadWriteFlags::DSYNC)
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
