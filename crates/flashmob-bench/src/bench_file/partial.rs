//! A partial file, which is removed unless it is completed.
//!
//! It has no name where the file system can give it one later (O_TMPFILE and a link): then even a killed process leaves nothing. Android
//! forbids hard links and FAT has none; there it has a temporary name beside the final one. It is locked while it is written, and removed
//! on failure, or by the next process if its process was killed.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::{AtFlags, CWD, FlockOperation};

use super::open::io_error;
use super::{BenchFileError, header};
use flashmob_host::is_android;

/// The names of the partial files of this process.
static NAMES: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn names() -> MutexGuard<'static, Vec<PathBuf>> {
    NAMES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes the partial files of this process. To be called just before it exits without unwinding; files that are being made fail.
pub fn abandon() {
    for name in names().drain(..) {
        let _ = std::fs::remove_file(name);
    }
}

#[derive(Debug)]
pub(super) struct Partial {
    pub file: File,
    /// Its temporary name; `None` if it has none.
    name: Option<PathBuf>,
}

impl Partial {
    /// An empty file for the future `path` in `directory`.
    pub fn create(path: &Path, directory: &Path, may_be_nameless: bool) -> Result<Partial, BenchFileError> {
        let mut name = std::ffi::OsString::from(".");
        name.push(path.file_name().ok_or_else(|| BenchFileError::IsDirectory(path.into()))?);
        name.push(".flashmob-partial");
        let name = directory.join(name);
        remove_stale(path, &name)?;
        if may_be_nameless && let Some(file) = nameless(directory, &name) {
            return Ok(Partial { file, name: None });
        }
        // O_EXCL follows no link.
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o644).open(&name);
        let partial =
            Partial { file: file.map_err(|error| io_error(path, "create", error))?, name: Some(name.clone()) };
        names().push(name);
        // Not every file system has locks; without one a second process takes this file for a stale one.
        let _ = rustix::fs::flock(&partial.file, FlockOperation::NonBlockingLockExclusive);
        Ok(partial)
    }

    /// Gives it its final name, unless that is taken.
    pub fn publish(mut self, path: &Path) -> Result<(), BenchFileError> {
        let published = match &self.name {
            None => link_nameless(&self.file, path),
            Some(name) => rename_without_replacing(name, path),
        };
        published.map_err(|error| io_error(path, "name", error))?;
        self.forget();
        Ok(())
    }

    /// Its name is no longer that of a partial file.
    fn forget(&mut self) {
        if let Some(name) = self.name.take() {
            names().retain(|other| *other != name);
        }
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            let _ = std::fs::remove_file(name);
        }
        self.forget();
    }
}

/// Removes the partial file of a killed process.
fn remove_stale(path: &Path, name: &Path) -> Result<(), BenchFileError> {
    match name.symlink_metadata() {
        Ok(metadata) if !metadata.is_file() => return Err(BenchFileError::InTheWay(name.into())),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(io_error(path, "create", error)),
    }
    let opened = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW).open(name);
    let in_the_way = || BenchFileError::InTheWay(name.into());
    let file = opened.map_err(|_| in_the_way())?;
    let metadata = file.metadata().map_err(|_| in_the_way())?;
    if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(rustix::io::Errno::WOULDBLOCK) {
        return Err(BenchFileError::Busy(path.into()));
    }
    // It is empty between its creation and its first block.
    if !metadata.is_file() || (metadata.len() > 0 && header::first_block(&file).is_none()) {
        return Err(in_the_way());
    }
    std::fs::remove_file(name).map_err(|error| io_error(name, "remove", error))
}

/// An unnamed file, if a trial shows that it can be linked later.
fn nameless(directory: &Path, trial: &Path) -> Option<File> {
    let open = || {
        let mut options = OpenOptions::new();
        options.read(true).write(true).mode(0o644).custom_flags(libc::O_TMPFILE).open(directory).ok()
    };
    let probe = open()?;
    link_nameless(&probe, trial).ok()?;
    std::fs::remove_file(trial).ok()?;
    open()
}

fn link_nameless(file: &File, path: &Path) -> io::Result<()> {
    let itself = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(rustix::fs::linkat(CWD, itself, CWD, path, AtFlags::SYMLINK_FOLLOW)?)
}

fn rename_without_replacing(from: &Path, to: &Path) -> io::Result<()> {
    // Android kills an app for a system call that its C library does not know; only later ones know renameat2.
    if !is_android() {
        match rustix::fs::renameat_with(CWD, from, CWD, to, rustix::fs::RenameFlags::NOREPLACE) {
            Ok(()) => return Ok(()),
            Err(error) if error == rustix::io::Errno::EXIST => return Err(error.into()),
            // A kernel before 3.15, or a file system that does not know the flag.
            Err(_) => {}
        }
    }
    rename_over_placeholder(from, to)
}

/// Reserves the name with an empty file, and renames the real one over it.
pub(super) fn rename_over_placeholder(from: &Path, to: &Path) -> io::Result<()> {
    OpenOptions::new().write(true).create_new(true).open(to)?;
    std::fs::rename(from, to).inspect_err(|_| {
        let _ = std::fs::remove_file(to);
    })
}
