//! Why a store cannot be opened, and which failure an error of the kernel is.
//!
//! Every message of [`StoreError`] names the file and the remedy, for the console of a tablet. Operations do not use it: they
//! end in a [`Failure`].

use std::io;
use std::path::{Path, PathBuf};

use flashmob_core::op::Failure;
use flashmob_core::units::Bytes;
use rustix::io::Errno;

/// Why a store cannot be opened.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are what the messages show")]
pub enum StoreError {
    /// The flash cannot be modelled.
    #[error("{0}")]
    Model(String),
    /// There is no file, and no size to create it.
    #[error("{path} does not exist; give a size to create it, such as --size 10GiB")]
    SizeRequired { path: PathBuf },
    /// The file is empty, and there is no size for it.
    #[error("{path} is empty; give its size, such as --size 10GiB")]
    Empty { path: PathBuf },
    /// A size of zero, or one that no file can have.
    #[error("{size_bytes} bytes is not a valid size for {path}; give one between 1 B and 8 EiB")]
    SizeImpossible { path: PathBuf, size_bytes: u64 },
    /// The file has another size than was asked for.
    #[error(
        "{path} has {found_bytes} bytes ({}), but {wanted_bytes} ({}) were requested; \
         leave out --size to use the file unchanged, or give another file",
        Bytes(*found_bytes), Bytes(*wanted_bytes)
    )]
    SizeDiffers { path: PathBuf, found_bytes: u64, wanted_bytes: u64 },
    /// The block device is smaller than was asked for.
    #[error(
        "the device {path} has only {found_bytes} bytes ({}), but {wanted_bytes} ({}) were requested; \
         give a smaller --size or leave it out",
        Bytes(*found_bytes), Bytes(*wanted_bytes)
    )]
    DeviceTooSmall { path: PathBuf, found_bytes: u64, wanted_bytes: u64 },
    /// The identity exists, the data does not: an empty file would return zeros for it.
    #[error(
        "{path} is missing or empty, but according to {sidecar} it has an extent; \
         restore the file, or start the node once with --forget to give up its data"
    )]
    DataLost { path: PathBuf, sidecar: PathBuf },
    /// A symbolic link to nothing: what it points to may have held data.
    #[error("{path} is a symbolic link to a file that does not exist; restore that file, or remove the link")]
    DanglingLink { path: PathBuf },
    /// A directory, FIFO, socket or character device.
    #[error("{path} is a {what}; give a file or a block device")]
    NotAFile { path: PathBuf, what: &'static str },
    /// The directory that should hold the file is missing.
    #[error("the directory of {path} does not exist; create it first")]
    ParentMissing { path: PathBuf },
    /// Another process has the lock.
    #[error("{path} is already served by another node; stop that node, or give another file")]
    Locked { path: PathBuf },
    /// The file system cannot lock.
    #[error("cannot lock {path} against a second node: {source}; put it on a local file system")]
    CannotLock { path: PathBuf, source: io::Error },
    /// The block device is mounted, or part of something that is.
    #[error("the device {path} is mounted or in use; unmount it first, because everything on it will be overwritten")]
    DeviceInUse { path: PathBuf },
    /// No right to read and write it.
    #[error("no permission to read and write {path}; run as its owner, or change its owner or mode")]
    Permission { path: PathBuf },
    /// The file system or the device is read-only.
    #[error("{path} is on a read-only file system or device; remount it writable, or use a file elsewhere")]
    ReadOnly { path: PathBuf },
    /// No room even for an empty file.
    #[error("no space left on the file system of {path}; free some, or use a file elsewhere")]
    NoSpace { path: PathBuf },
    /// The file system has no files of that size.
    #[error(
        "the file system of {path} cannot hold a file of {wanted_bytes} bytes ({}); \
         FAT is limited to 4 GiB: give a smaller --size, or use a file on another file system",
        Bytes(*wanted_bytes)
    )]
    TooLargeForFileSystem { path: PathBuf, wanted_bytes: u64 },
    /// The file system or the device cannot bypass the page cache.
    #[error("{path} does not support O_DIRECT ({why}); leave out --direct")]
    NoDirect { path: PathBuf, why: String },
    /// The size has a remainder that O_DIRECT cannot reach.
    #[error(
        "{path} has {size_bytes} bytes, but --direct needs a multiple of {align_bytes}; \
         leave out --direct, or recreate the file with such a size"
    )]
    UnalignedSize { path: PathBuf, size_bytes: u64, align_bytes: u64 },
    /// A number of threads out of range.
    #[error("invalid number of threads: {given}; --threads must be between 1 and {most}")]
    Threads { given: usize, most: usize },
    /// No thread could be started.
    #[error("cannot start a thread of the store: {0}; use a smaller --threads")]
    Spawn(io::Error),
    /// The kernel, or a sandbox, does not allow io_uring.
    #[error("the kernel refused io_uring: {0}; use --engine threads")]
    IoUringRefused(io::Error),
    /// io_uring lacks features that are used here.
    #[error("this kernel's io_uring is too old (Linux 5.6 is needed); use --engine threads")]
    IoUringTooOld,
    /// Android ends apps that try it, whatever its kernel has.
    #[error("Android forbids io_uring; use --engine threads")]
    IoUringOnAndroid,
    /// Not built for this machine.
    #[error("io_uring is supported on Linux on x86_64 and aarch64 only; use --engine threads")]
    IoUringAbsent,
    /// After a flush failed, pages that the flash may lack are in memory.
    #[error(
        "a flush of {path} had failed, and {} of it cannot be dropped from memory, though the flash may lack them; \
         end the programs that have it open or mapped (fuser -v {path}), or restart the device",
        resident_bytes.map_or("parts".to_string(), |n| Bytes(n).to_string())
    )]
    StaysCached { path: PathBuf, resident_bytes: Option<u64> },
    /// The same, and writing back fails again.
    #[error(
        "a flush of {path} had failed, and what the flash may lack cannot be dropped from memory: {source}; check or replace the device, then restart it"
    )]
    CannotDrop { path: PathBuf, source: io::Error },
    /// Anything else.
    #[error("cannot {action} {path}: {source}")]
    Other { action: &'static str, path: PathBuf, source: io::Error },
}

/// The error for `source`, which came of trying to `action` the file at `path`.
pub(super) fn open_error(action: &'static str, path: &Path, source: io::Error) -> StoreError {
    let path = path.to_path_buf();
    match Errno::from_io_error(&source) {
        Some(Errno::NOENT | Errno::NOTDIR) => StoreError::ParentMissing { path },
        Some(Errno::ACCESS | Errno::PERM) => StoreError::Permission { path },
        Some(Errno::ROFS) => StoreError::ReadOnly { path },
        Some(Errno::NOSPC | Errno::DQUOT) => StoreError::NoSpace { path },
        Some(Errno::ISDIR) => StoreError::NotAFile { path, what: "directory" },
        _ => StoreError::Other { action, path, source },
    }
}

/// The failure of an operation that the kernel ended with `errno`.
///
/// Every error that is not about space or permission is [`Failure::Io`], also EINVAL: the request was checked before, so it
/// means that the file has changed.
pub(crate) fn failure_of(errno: Errno) -> Failure {
    match errno {
        Errno::NOSPC | Errno::DQUOT | Errno::FBIG => Failure::NoSpace,
        Errno::ROFS | Errno::PERM | Errno::ACCESS => Failure::NotPermitted,
        _ => Failure::Io,
    }
}

/// Whether `errno` says that the kernel or the file system does not have what was asked, as opposed to
/// having failed at it.
pub(super) fn unsupported(errno: Errno) -> bool {
    matches!(errno, Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL | Errno::NODEV | Errno::NOTTY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_kernel_become_the_failures_that_a_client_understands() {
        for (errno, failure) in [
            (Errno::NOSPC, Failure::NoSpace),
            (Errno::DQUOT, Failure::NoSpace),
            (Errno::FBIG, Failure::NoSpace),
            (Errno::ROFS, Failure::NotPermitted),
            (Errno::PERM, Failure::NotPermitted),
            (Errno::ACCESS, Failure::NotPermitted),
            (Errno::INVAL, Failure::Io),
            (Errno::IO, Failure::Io),
            (Errno::NXIO, Failure::Io),
            (Errno::NOMEM, Failure::Io),
        ] {
            assert_eq!(failure_of(errno), failure, "{errno}");
        }
    }
}
