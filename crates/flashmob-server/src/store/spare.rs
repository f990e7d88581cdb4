//! Files beside a file that is written anew, which keep the room for that: on a full disk a gateway can take charge, a node can start, and
//! a map can be compacted.
//!
//! A spare has the name under which a new file is written, `<file>.new`, so whoever does without it removes it. There are two kinds:
//!
//! - **Of a small file, that has as many bytes as the file.** The new bytes are written over those of the spare, synced, and the two
//!   exchange their names, which is atomic. No block is freed in between that another file could get.
//! - **Of a file that grows, empty, with blocks reserved behind its end.** The new bytes are written there, synced, and the spare takes the
//!   name of the file. Then the next spare is made. A disk that others fill meanwhile may have no room for that one; it is tried again
//!   with the next new file.
//!
//! A file system without reservations (`fallocate`) or without exchanges (`renameat2`) has the new file all the same, if there is room. One
//! that writes elsewhere than it has reserved (btrfs, for bytes that are overwritten) may refuse on a full disk what others take.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FallocateFlags, OFlags, RenameFlags};
use rustix::io::Errno;

use super::open::sync_parent;
use super::private::{PRIVATE_MODE, create_anew};

/// Small files are as long as a multiple of this, in bytes.
pub(super) const SMALL_BYTES: usize = 4096;

/// Where the spare of a file is.
pub(crate) fn spare_path(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".new");
    name.into()
}

/// Reserves blocks for the first `len_bytes` of a file, whose size stays. `true` if the file system keeps them.
pub(crate) fn reserve(file: &File, len_bytes: u64) -> io::Result<bool> {
    match rustix::fs::fallocate(file, FallocateFlags::KEEP_SIZE, 0, len_bytes) {
        Ok(()) => Ok(true),
        Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => Ok(false),
        Err(e) => Err(e.into()),
    }
}

/// Whether an open file can be the spare at `path`: it is there, and nobody else has or had a right to it.
pub(crate) fn is_spare(file: &File, path: &Path) -> bool {
    let (Ok(open), Ok(named)) = (file.metadata(), fs::symlink_metadata(path)) else { return false };
    let is_there = (open.dev(), open.ino()) == (named.dev(), named.ino());
    let is_ours = open.uid() == rustix::process::geteuid().as_raw() && open.mode() & 0o7777 == PRIVATE_MODE;
    is_there && is_ours && open.is_file() && open.nlink() == 1
}

/// The spare of a file that grows, which may be that of an earlier process: empty, with the blocks that it had.
pub(crate) fn emptied(file: File) -> io::Result<File> {
    let found = file.metadata()?;
    if found.len() > 0 {
        file.set_len(0)?;
        // It was being written when its process ended. What it had is free now; if somebody takes that first, what is written may still find room.
        let _ = reserve(&file, found.blocks() * 512);
    }
    Ok(file)
}

/// Opens the spare of a file that grows, if it has one.
pub(super) fn take(path: &Path) -> Option<File> {
    let spare = spare_path(path);
    let file = open(&spare).filter(|file| is_spare(file, &spare))?;
    emptied(file).ok()
}

/// Makes the spare of a file that grows, unless it has one with as much room.
pub(super) fn keep(path: &Path, len_bytes: u64) -> io::Result<()> {
    let file = take(path).map_or_else(|| create_anew(&spare_path(path)), Ok)?;
    reserve(&file, len_bytes).map(drop)
}

fn open(path: &Path) -> Option<File> {
    let flags = OFlags::NOFOLLOW.bits() as i32;
    OpenOptions::new().read(true).write(true).custom_flags(flags).open(path).ok()
}

/// Replaces a small file by its new bytes, in the room of its spare if that has as many: after a power cut it is the old or the new one, and the
/// new one once this returns. There is a spare for the next time then, if there is room. What the spare has counts for nothing.
pub(super) fn exchange(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let spare = spare_path(path);
    // Until the last exchange of names is on the flash, what has this name may be the file there.
    sync_parent(path)?;
    let had_room = overwrite(&spare, bytes)?;
    if !had_room {
        let written = create_anew(&spare).and_then(|file| {
            file.write_all_at(bytes, 0)?;
            file.sync_all()
        });
        written.inspect_err(|_| drop(fs::remove_file(&spare)))?;
    }
    match rustix::fs::renameat_with(CWD, &spare, CWD, path, RenameFlags::EXCHANGE) {
        Ok(()) => {}
        // There is no file yet, or the file system or the kernel knows no exchange.
        Err(Errno::NOENT | Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP | Errno::PERM) => fs::rename(&spare, path)?,
        Err(e) => return Err(e.into()),
    }
    sync_parent(path)?;
    if let Err(error) = keep_small(path, bytes) {
        log::warn!(
            "{}: no room is reserved for its next change: {error}; free some on its file system",
            path.display()
        );
    }
    Ok(())
}

/// Makes the spare of a small file that has these bytes, unless there is one.
pub(super) fn keep_small(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let spare = spare_path(path);
    if open(&spare).is_some_and(|file| is_room(&file, &spare, bytes.len())) {
        return Ok(());
    }
    let made = create_anew(&spare).and_then(|file| {
        // Bytes, for blocks that were only reserved would still have to be turned into written ones.
        file.write_all_at(bytes, 0)?;
        file.sync_all()?;
        sync_parent(&spare)
    });
    made.inspect_err(|_| drop(fs::remove_file(&spare)))
}

/// Whether a spare has room for so many bytes, and no more.
fn is_room(file: &File, spare: &Path, len_bytes: usize) -> bool {
    is_spare(file, spare) && file.metadata().is_ok_and(|metadata| metadata.len() == len_bytes as u64)
}

/// Writes the new bytes over those of the spare, and syncs them. False if there is none that has as many.
fn overwrite(spare: &Path, bytes: &[u8]) -> io::Result<bool> {
    let Some(file) = open(spare).filter(|file| is_room(file, spare, bytes.len())) else { return Ok(false) };
    file.write_all_at(bytes, 0)?;
    file.sync_all()?;
    Ok(true)
}

#[cfg(test)]
#[path = "tests/spare.rs"]
mod tests;
