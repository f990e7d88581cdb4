//! Making the file.

use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use super::open::io_error;
use super::partial::Partial;
use super::{BenchFileError, HEADER_BYTES, Header, SIZE_BYTES_MIN, fill};
use crate::progress::{Progress, Unit};

/// Written at once.
const CHUNK_BYTES: usize = 1 << 20;
/// So much may be on its way to the flash: progress means what it says, and to stop does not take minutes.
const SYNC_BYTES: u64 = 32 << 20;
/// FAT keeps lengths in 32 bits.
const FAT_BYTES_MAX: u64 = u32::MAX as u64;

/// Makes a file of `size_bytes` with the content that follows from `seed` and puts it on the flash. Nothing is left of it if
/// this fails, and nothing that exists is replaced. `progress` counts bytes; `cancel` is looked at after each MiB.
pub fn make(
    path: &Path,
    size_bytes: u64,
    seed: u64,
    progress: impl FnMut(&Progress),
    cancel: &AtomicBool,
) -> Result<Header, BenchFileError> {
    make_with(path, size_bytes, seed, progress, cancel, true)
}

/// As [`make`] does it on file systems without links.
#[cfg(test)]
pub(super) fn make_named(
    path: &Path,
    size_bytes: u64,
    seed: u64,
    progress: impl FnMut(&Progress),
    cancel: &AtomicBool,
) -> Result<Header, BenchFileError> {
    make_with(path, size_bytes, seed, progress, cancel, false)
}

fn make_with(
    path: &Path,
    size_bytes: u64,
    seed: u64,
    mut progress: impl FnMut(&Progress),
    cancel: &AtomicBool,
    may_be_nameless: bool,
) -> Result<Header, BenchFileError> {
    if size_bytes < SIZE_BYTES_MIN {
        return Err(BenchFileError::TooSmall { size_bytes });
    }
    // Such a path can only be a directory's. Its metadata would not be found, and the name not be given when all is written.
    if path.as_os_str().as_bytes().ends_with(b"/") {
        return Err(BenchFileError::IsDirectory { path: path.into() });
    }
    match path.symlink_metadata() {
        Ok(metadata) if metadata.is_dir() => return Err(BenchFileError::IsDirectory { path: path.into() }),
        Ok(_) => return Err(BenchFileError::Exists { path: path.into() }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(io_error(path, "create", error)),
    }
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
        _ => PathBuf::from("."),
    };
    let mut making = Making { path, directory, size_bytes };
    let partial = Partial::create(path, &making.directory, may_be_nameless)?;
    // After what a killed process left has been removed, for that takes space too.
    making.check_file_system(&partial.file)?;
    let header = Header { size_bytes, seed };
    making.write(&partial.file, &header, &mut progress, cancel)?;
    let file = partial.publish(path)?;
    // So that the name outlives a power cut too. Not every file system can.
    if let Ok(directory) = File::open(&making.directory) {
        let _ = directory.sync_all();
    }
    drop(file);
    Ok(header)
}

struct Making<'a> {
    path: &'a Path,
    directory: PathBuf,
    size_bytes: u64,
}

impl Making<'_> {
    fn check_file_system(&self, file: &File) -> Result<(), BenchFileError> {
        const FAT: u64 = 0x4d44;
        let is_fat = rustix::fs::fstatfs(file).is_ok_and(|stat| stat.f_type as u64 == FAT);
        if is_fat && self.size_bytes > FAT_BYTES_MAX {
            return Err(self.too_large(Some(FAT_BYTES_MAX)));
        }
        // A file system that does not tell (0 blocks) may have room.
        match rustix::fs::fstatvfs(file) {
            Ok(stat) if stat.f_blocks > 0 && stat.f_bavail.saturating_mul(stat.f_frsize) < self.size_bytes => {
                Err(self.no_space(stat.f_bavail.saturating_mul(stat.f_frsize)))
            }
            _ => Ok(()),
        }
    }

    fn too_large(&self, limit_bytes: Option<u64>) -> BenchFileError {
        BenchFileError::TooLarge { path: self.path.into(), size_bytes: self.size_bytes, limit_bytes }
    }

    fn no_space(&self, free_bytes: u64) -> BenchFileError {
        BenchFileError::NoSpace { directory: self.directory.clone(), needed_bytes: self.size_bytes, free_bytes }
    }

    fn write(
        &mut self,
        file: &File,
        header: &Header,
        progress: &mut dyn FnMut(&Progress),
        cancel: &AtomicBool,
    ) -> Result<(), BenchFileError> {
        let total = self.size_bytes;
        let mut chunk = vec![0; CHUNK_BYTES];
        let mut done = 0;
        let mut synced = 0;
        while done < total {
            if cancel.load(Ordering::Relaxed) {
                return Err(BenchFileError::Cancelled { path: self.path.into() });
            }
            let chunk = &mut chunk[..(total - done).min(CHUNK_BYTES as u64) as usize];
            fill(header.seed, done, chunk);
            if done == 0 {
                chunk[..HEADER_BYTES as usize].copy_from_slice(&header.encode());
            }
            // With pwrite alone: blocks that are only reserved would be answered without the flash.
            file.write_all_at(chunk, done).map_err(|error| self.write_error(error, done))?;
            done += chunk.len() as u64;
            if done - synced >= SYNC_BYTES || done == total {
                file.sync_data().map_err(|error| self.write_error(error, synced))?;
                synced = done;
            }
            progress(&Progress { done, total, unit: Unit::Bytes });
        }
        file.sync_all().map_err(|error| self.write_error(error, synced))
    }

    /// `written_bytes` are on the disk already, and will be free again.
    fn write_error(&self, error: io::Error, written_bytes: u64) -> BenchFileError {
        match error.raw_os_error() {
            Some(libc::ENOSPC | libc::EDQUOT) => self.no_space(written_bytes),
            Some(libc::EFBIG) => self.too_large(None),
            _ => io_error(self.path, "write", error),
        }
    }
}
