//! A file that is not ready yet, and of which nothing stays unless it becomes so.
//!
//! Without a name where the file system can give one later (O_TMPFILE and a link): then even a killed process leaves nothing.
//! Android forbids hard links and FAT has none; there it is a name beside the file's, locked as long as it is
//! written, taken away by whoever fails, and by the next one after a process that was killed.

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

/// The names of what is half made now, for those who end this process at once.
static NAMES: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn names() -> MutexGuard<'static, Vec<PathBuf>> {
    NAMES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes away what this process has half made. To be called just before the process is ended without more ado: whoever is making a
/// file meanwhile fails.
pub fn abandon() {
    for name in names().drain(..) {
        let _ = std::fs::remove_file(name);
    }
}

#[derive(Debug)]
pub(super) struct Partial {
    pub file: File,
    /// Its name as long as that is not the final one; `None` if it has none.
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
        // Not every file system has locks; without one a second process would take this for a stale one.
        let _ = rustix::fs::flock(&partial.file, FlockOperation::NonBlockingLockExclusive);
        Ok(partial)
    }

    /// Gives it its final name, unless that is taken.
    pub fn publish(mut self, path: &Path) -> Result<File, BenchFileError> {
        let published = match &self.name {
            None => link_nameless(&self.file, path),
            Some(name) => rename_without_replacing(name, path),
        };
        published.map_err(|error| io_error(path, "name", error))?;
        self.forget();
        let file = self.file.try_clone().map_err(|error| io_error(path, "keep", error))?;
        Ok(file)
    }
}

impl Partial {
    /// Its name is no longer that of something half made.
    fn forget(&mut self) -> Option<PathBuf> {
        let name = self.name.take()?;
        names().retain(|other| *other != name);
        Some(name)
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

/// Takes away what a killed process left under `name`.
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
    // An empty one was left between its creation and its first block.
    if !metadata.is_file() || (metadata.len() > 0 && header::first_block(&file).is_none()) {
        return Err(in_the_way());
    }
    std::fs::remove_file(name).map_err(|error| io_error(name, "remove", error))
}

/// A file without a name, if a trial shows that it can be given one later.
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
    // Android kills an app for a system call that its C library does not know, and only later ones know renameat2.
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

/// Takes the name with an empty file, and puts the real one over it.
pub(super) fn rename_over_placeholder(from: &Path, to: &Path) -> io::Result<()> {
    OpenOptions::new().write(true).create_new(true).open(to)?;
    std::fs::rename(from, to).inspect_err(|_| {
        let _ = std::fs::remove_file(to);
    })
}
