//! Making the file.

use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use super::open::io_error;
use super::partial::Partial;
use super::{BenchFileError, HEADER_BYTES, Header, SIZE_BYTES_MIN};
use crate::load::reference::{PatternReference, Reference};
use crate::progress::{Progress, Unit};

const CHUNK_BYTES: usize = 1 << 20;
/// Most unsynced bytes, so that progress is accurate and cancelling does not take minutes.
const SYNC_BYTES: u64 = 32 << 20;
/// FAT keeps lengths in 32 bits.
const FAT_BYTES_MAX: u64 = u32::MAX as u64;

/// Makes a file of `size_bytes` with the content of `seed` and syncs it. On failure nothing is left of it; no existing file is replaced.
/// `progress` counts bytes; `cancel` is checked after each MiB.
pub fn make(
    path: &Path,
    size_bytes: u64,
    seed: u64,
    progress: impl FnMut(&Progress),
    cancel: &AtomicBool,
) -> Result<Header, BenchFileError> {
    make_with(path, size_bytes, seed, progress, cancel, true)
}

/// As [`make`]; without `may_be_nameless`, as on file systems without O_TMPFILE and links.
pub(super) fn make_with(
    path: &Path,
    size_bytes: u64,
    seed: u64,
    mut progress: impl FnMut(&Progress),
    cancel: &AtomicBool,
    may_be_nameless: bool,
) -> Result<Header, BenchFileError> {
    if size_bytes < SIZE_BYTES_MIN {
        return Err(BenchFileError::TooSmall(size_bytes));
    }
    // Only a directory can have such a path. Its metadata would not be found, and naming the finished file would fail.
    if path.as_os_str().as_bytes().ends_with(b"/") {
        return Err(BenchFileError::IsDirectory(path.into()));
    }
    match path.symlink_metadata() {
        Ok(metadata) if metadata.is_dir() => return Err(BenchFileError::IsDirectory(path.into())),
        Ok(_) => return Err(BenchFileError::Exists(path.into())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(io_error(path, "create", error)),
    }
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
        _ => PathBuf::from("."),
    };
    match directory.try_exists() {
        Ok(true) => {}
        Ok(false) => return Err(BenchFileError::NoDirectory(directory)),
        // It may exist, in a directory that cannot be searched.
        Err(error) => return Err(io_error(path, "create", error)),
    }
    let mut making = Making { path, directory, size_bytes };
    let partial = Partial::create(path, &making.directory, may_be_nameless)?;
    // After the remains of a killed process were removed: they take space too.
    making.check_file_system(&partial.file)?;
    let header = Header { size_bytes, seed };
    making.write(&partial.file, &header, &mut progress, cancel)?;
    partial.publish(path)?;
    // Makes the name durable, where the file system can.
    if let Ok(directory) = File::open(&making.directory) {
        let _ = directory.sync_all();
    }
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
        // A file system that reports 0 blocks may have space.
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
                return Err(BenchFileError::Cancelled(self.path.into()));
            }
            let chunk = &mut chunk[..(total - done).min(CHUNK_BYTES as u64) as usize];
            PatternReference { seed: header.seed }.fill(done, chunk);
            if done == 0 {
                chunk[..HEADER_BYTES as usize].copy_from_slice(&header.encode());
            }
            // No fallocate: reads of reserved blocks do not reach the flash.
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

    /// `written_bytes` are on the disk already, and will be freed.
    fn write_error(&self, error: io::Error, written_bytes: u64) -> BenchFileError {
        match error.raw_os_error() {
            Some(libc::ENOSPC | libc::EDQUOT) => self.no_space(written_bytes),
            Some(libc::EFBIG) => self.too_large(None),
            _ => io_error(self.path, "write", error),
        }
    }
}
