//! Opening the file to measure.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use super::{BenchFileError, Header, header_of};

/// An open file.
#[derive(Debug)]
pub struct Opened {
    /// Opened without O_DIRECT.
    pub file: File,
    /// Its length, or the device's.
    pub size_bytes: u64,
    /// Present if the benchmark made it.
    pub header: Option<Header>,
    /// True for a block device.
    pub is_block_device: bool,
}

/// Opens an existing file or block device for reading.
pub fn open_for_reading(path: &Path) -> Result<Opened, BenchFileError> {
    open(path, false)
}

/// Opens an existing file for reading and writing: one that the benchmark made, or any file if `allow_overwrite`; never a device. The first
/// [`super::HEADER_BYTES`] must not be written in either case.
pub fn open_for_writing(path: &Path, allow_overwrite: bool) -> Result<Opened, BenchFileError> {
    let opened = open(path, true)?;
    if opened.header.is_none() && !allow_overwrite {
        return Err(BenchFileError::NotOurs(path.into()));
    }
    Ok(opened)
}

fn open(path: &Path, is_writing: bool) -> Result<Opened, BenchFileError> {
    let failed = |source: io::Error| io_error(path, if is_writing { "open for writing" } else { "open" }, source);
    // Checked before opening, because opening some devices has side effects, and again afterwards, when it can no longer be replaced.
    check(path, path.metadata().map_err(failed)?.file_type(), is_writing)?;
    let mut options = OpenOptions::new();
    let mut file = options.read(true).write(is_writing).custom_flags(libc::O_NONBLOCK).open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    check(path, metadata.file_type(), is_writing)?;
    let size_bytes = flashmob_host::cache::size_of(&file).map_err(failed)?;
    if size_bytes == 0 {
        return Err(BenchFileError::Empty(path.into()));
    }
    file.rewind().map_err(failed)?;
    let is_block_device = metadata.file_type().is_block_device();
    Ok(Opened { header: header_of(&file), file, size_bytes, is_block_device })
}

fn check(path: &Path, kind: std::fs::FileType, is_writing: bool) -> Result<(), BenchFileError> {
    let refusal = match () {
        () if kind.is_file() || (kind.is_block_device() && !is_writing) => return Ok(()),
        () if kind.is_dir() => BenchFileError::IsDirectory,
        () if kind.is_block_device() => BenchFileError::IsDevice,
        () => BenchFileError::NotAFile,
    };
    Err(refusal(path.to_path_buf()))
}

pub(super) fn io_error(path: &Path, doing: &'static str, source: io::Error) -> BenchFileError {
    let path = path.to_path_buf();
    match source.raw_os_error() {
        Some(libc::EROFS) => BenchFileError::ReadOnly(path),
        Some(libc::EISDIR) => BenchFileError::IsDirectory(path),
        Some(libc::EEXIST) => BenchFileError::Exists(path),
        _ => BenchFileError::Io { path, doing, source },
    }
}
