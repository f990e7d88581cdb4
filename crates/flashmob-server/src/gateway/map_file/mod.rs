//! The file of a volume's map on disk: read and locked at the start, appended to, and written anew.
//!
//! Its bytes are those of [`flashmob_core::copies`]; this module only makes them durable. All of it blocks: a gateway's
//! loop leaves it to the thread of a [`MapWriter`](super::map_writer::MapWriter).
//!
//! - **The file is locked** by the gateway that uses it. A file that is written anew gets its lock before its name,
//!   so a map is never without one.
//! - **A gateway whose map was moved away decides nothing any more.** Another one may have it. So before each write the path is looked
//!   up: it must still lead to the open file.
//! - **After a failed write or sync the file is never appended to again.** The kernel may have dropped bytes that it
//!   still shows, and the next sync would succeed. Only a new file helps: [`MapFile::rewrite`].
//! - **A map that is opened is written anew too,** if it has changes behind its snapshot. A process that ended cannot
//!   say whether its last sync failed.
//! - **A new file is written beside the map and renamed over it,** under the fixed name `<map>.new`, so that crashes
//!   leave one file at most. It is there beforehand, empty and locked as the map is, with the room for the next snapshot: a full disk
//!   hinders no gateway that starts, takes over or compacts.

mod error;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use flashmob_core::copies::{MapImage, Replayed, encode_snapshot, replay};
use flashmob_core::units::{Bytes, GIB};
use rustix::fs::OFlags;

use super::map_store::{MapFailure, MapStore, compaction_bytes, is_large};
use crate::store::{Permanent, create_private, emptied, is_spare, reserve, spare_path, sync_parent, take_lock};
pub use error::MapFileError;

/// Most bytes of a map: one of most chunks and copies, whose marks are as scattered as can be, at the latest moment of
/// compaction.
const FILE_BYTES_MAX: u64 = 4 * GIB;
/// How often a file may be replaced while it is being locked.
const LOCK_TRIES: usize = 10;

/// A map's file, open and locked.
#[derive(Debug)]
pub struct MapFile {
    /// Without symbolic links, so that renaming replaces the file and no link.
    path: PathBuf,
    file: File,
    /// The file that is to be the next one, if there is room for it.
    spare: Option<File>,
    /// Its device and inode.
    identity: (u64, u64),
    /// Where the next batch belongs.
    end_bytes: u64,
    /// How much of it is the snapshot.
    snapshot_bytes: u64,
    /// Whether a write or a sync has failed.
    is_spent: bool,
    /// How a batch is made permanent.
    permanent: Permanent,
}

impl MapFile {
    /// Opens and locks the map at `path`, and reads it. `None` if there is none.
    ///
    /// A torn tail is dropped, and the image marked as cut. If the map has more than a snapshot, it is compacted.
    pub fn open(path: &Path) -> Result<Option<(MapFile, MapImage)>, MapFileError> {
        let real = match fs::canonicalize(path) {
            Ok(real) => real,
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                if fs::symlink_metadata(path).is_ok() {
                    return Err(MapFileError::DanglingLink { path: path.into() });
                }
                return Ok(None);
            }
            Err(e) => return Err(MapFileError::new("find", path, e)),
        };
        let file = open_locked(&real, &real)?;
        let Replayed { mut image, valid_bytes, torn_bytes, snapshot_bytes, .. } = read(&real, &file)?;
        let identity = identity_of(&real, &file)?;
        let permanent = Permanent::at(&real);
        let end_bytes = valid_bytes;
        let mut map =
            MapFile { path: real, file, spare: None, identity, end_bytes, snapshot_bytes, is_spent: false, permanent };
        if torn_bytes > 0 {
            let path = map.path.display();
            log::warn!(
                "{path}: the last {torn_bytes} bytes are a change that was being written when the gateway was stopped, or were damaged since; \
                 they are dropped"
            );
            // Without room for a new file it is forgotten if the gateway is killed before it knows more.
            image.cut().map_err(|e| MapFileError::new("read", &map.path, io::Error::other(e)))?;
        }
        if valid_bytes > snapshot_bytes || torn_bytes > 0 {
            match map.rewrite(&encode_snapshot(&image)) {
                Err(MapFileError::NoSpace { .. }) if !map.is_spent => map.refresh(torn_bytes > 0)?,
                rewritten => rewritten?,
            }
        } else {
            map.reserve();
        }
        Ok(Some((map, image)))
    }

    /// Makes the file of a new map. It never overwrites one.
    pub fn create(path: &Path, image: &MapImage) -> Result<MapFile, MapFileError> {
        let path = std::path::absolute(path).map_err(|e| MapFileError::new("find", path, e))?;
        let snapshot = encode_snapshot(image);
        let file = write_new(&path, None, &snapshot, |path| {
            // Whoever else makes it needs the lock that is held now.
            match fs::symlink_metadata(path) {
                Ok(_) => Err(MapFileError::Exists { path: path.into() }),
                Err(_) => Ok(()),
            }
        })?;
        sync_parent(&path).map_err(|e| MapFileError::new("sync the directory of", &path, e))?;
        let snapshot_bytes = snapshot.len() as u64;
        let identity = identity_of(&path, &file)?;
        let permanent = Permanent::at(&path);
        let end_bytes = snapshot_bytes;
        let mut map =
            MapFile { path, file, spare: None, identity, end_bytes, snapshot_bytes, is_spent: false, permanent };
        map.reserve();
        log::info!("{}: created, {}", map.path.display(), Bytes(snapshot_bytes));
        Ok(map)
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends a batch. It is durable when this returns `Ok`. After an error the file has to be written anew.
    pub fn append(&mut self, batch: &[u8]) -> Result<(), MapFileError> {
        if self.is_spent {
            return Err(MapFileError::Spent { path: self.path.clone() });
        }
        self.must_be_there()?;
        let written = self.file.write_all_at(batch, self.end_bytes);
        let written = written.and_then(|()| Ok(self.permanent.sync(&self.file)?));
        if let Err(source) = written {
            self.is_spent = true;
            // So that a start finds whole batches only. If this fails as well, it finds a torn tail.
            let _ = self.file.set_len(self.end_bytes);
            return Err(MapFileError::new("write", &self.path, source));
        }
        self.end_bytes += batch.len() as u64;
        Ok(())
    }

    /// Replaces the file by one that begins with `snapshot`, the bytes of [`encode_snapshot`]. It is durable when this
    /// returns `Ok`. After an error the map on the disk is the old one, or the new one, and either is whole.
    pub fn rewrite(&mut self, snapshot: &[u8]) -> Result<(), MapFileError> {
        self.must_be_there()?;
        self.file = write_new(&self.path, self.spare.take(), snapshot, |_| Ok(()))?;
        self.identity = identity_of(&self.path, &self.file)?;
        (self.snapshot_bytes, self.end_bytes) = (snapshot.len() as u64, snapshot.len() as u64);
        // A power cut may bring the old file back until its directory is durable.
        self.is_spent = true;
        sync_parent(&self.path).map_err(|e| MapFileError::new("sync the directory of", &self.path, e))?;
        self.is_spent = false;
        self.reserve();
        Ok(())
    }

    /// Has the changes behind the snapshot on the flash, where they are, as there is no room for a new file: the sync of an earlier process may have
    /// failed, and then the kernel shows what the flash lacks. A torn tail goes.
    fn refresh(&mut self, is_torn: bool) -> Result<(), MapFileError> {
        let mut tail = vec![0; usize::try_from(self.end_bytes - self.snapshot_bytes).unwrap_or(usize::MAX)];
        let refreshed = self.file.read_exact_at(&mut tail, self.snapshot_bytes).and_then(|()| {
            if is_torn {
                self.file.set_len(self.end_bytes)?;
            }
            self.file.write_all_at(&tail, self.snapshot_bytes)?;
            self.file.sync_all()?;
            Ok(self.permanent.finish(&self.file)?)
        });
        refreshed.map_err(|e| MapFileError::new("write", &self.path, e))?;
        log::warn!(
            "{}: no room for a new file, so this one is used further; free some on its file system",
            self.path.display()
        );
        self.reserve();
        Ok(())
    }

    /// Refuses to write unless the path still leads to the open file.
    fn must_be_there(&self) -> Result<(), MapFileError> {
        match fs::symlink_metadata(&self.path) {
            Ok(named) if (named.dev(), named.ino()) == self.identity => Ok(()),
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(MapFileError::new("find", &self.path, e)),
            _ => {
                let last = format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd());
                Err(MapFileError::Moved { path: self.path.clone(), last: last.into() })
            }
        }
    }

    /// Whether it has grown so much that it should be written anew.
    #[must_use]
    pub fn wants_compaction(&self) -> bool {
        is_large(self.end_bytes, self.snapshot_bytes)
    }

    /// Reserves the space that it needs until then, and as much for the new file: neither a change that declares a copy behind nor a start should fail
    /// because the disk is full.
    fn reserve(&mut self) {
        let room_bytes = compaction_bytes(self.snapshot_bytes);
        let reserved = reserve(&self.file, room_bytes).and_then(|_| {
            let spare = create_locked(&spare_path(&self.path), &self.path).map_err(io::Error::other)?;
            reserve(self.spare.insert(spare), room_bytes)
        });
        if let Err(error) = reserved {
            log::warn!(
                "{}: no room is reserved for a full disk, {} for changes and as many for a new file: {error}",
                self.path.display(),
                Bytes(room_bytes)
            );
        }
    }
}

impl MapStore for MapFile {
    fn append(&mut self, _number: u64, batch: &[u8]) -> Result<(), MapFailure> {
        MapFile::append(self, batch).map_err(failure)
    }

    fn rewrite(&mut self, snapshot: &[u8]) -> Result<(), MapFailure> {
        MapFile::rewrite(self, snapshot).map_err(failure)
    }

    fn wants_compaction(&self) -> bool {
        MapFile::wants_compaction(self)
    }

    fn give_up(&mut self) {
        self.is_spent = true;
    }

    fn name(&self) -> String {
        self.path.display().to_string()
    }
}

fn failure(error: MapFileError) -> MapFailure {
    MapFailure { failure: error.failure(), text: error.to_string() }
}

/// Opens a file of `map` for reading and writing, and takes its lock.
fn open_locked(path: &Path, map: &Path) -> Result<File, MapFileError> {
    for _ in 0..LOCK_TRIES {
        match fs::metadata(path) {
            Ok(metadata) if !metadata.is_file() => return Err(MapFileError::NotAFile { path: map.into() }),
            _ => {}
        }
        let opened = OpenOptions::new().read(true).write(true).open(path);
        let file = opened.map_err(|e| MapFileError::new("open", map, e))?;
        lock(&file, map)?;
        if is_named(&file, path, map)? {
            return Ok(file);
        }
    }
    Err(replaced_again(map))
}

/// Makes the file that is to take the name of `map`, and takes its lock. What an earlier attempt has left is used again if nobody else had a right to it,
/// or goes, unless it is in use; a link goes, and what it leads to stays. Only a link has no lock: two gateways that find one at the same time may remove each other's new file, and fail.
fn create_locked(path: &Path, map: &Path) -> Result<File, MapFileError> {
    let failed = |action, e| MapFileError::new(action, map, e);
    for _ in 0..LOCK_TRIES {
        match create_private(path) {
            Ok(file) => {
                lock(&file, map)?;
                if is_named(&file, path, map)? {
                    return Ok(file);
                }
                continue;
            }
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(failed("open", e)),
            Err(_) => {}
        }
        let kind = match fs::symlink_metadata(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
            found => found.map_err(|e| failed("examine", e))?.file_type(),
        };
        // Its lock is held until it is gone: whoever waits for it finds that it has no name any more.
        let mut left = None;
        if kind.is_file() {
            let flags = OFlags::NOFOLLOW.bits() as i32;
            let file = match OpenOptions::new().read(true).write(true).custom_flags(flags).open(path) {
                Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                opened => left.insert(opened.map_err(|e| failed("open", e))?),
            };
            lock(file, map)?;
            if !is_named(file, path, map)? {
                continue;
            }
            // The room of an earlier gateway.
            if is_spare(file, path)
                && let Some(file) = left.take()
            {
                return emptied(file).map_err(|e| failed("write", e));
            }
        }
        match fs::remove_file(path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(failed("write", e)),
            _ => drop(left),
        }
    }
    Err(replaced_again(map))
}

fn lock(file: &File, map: &Path) -> Result<(), MapFileError> {
    match take_lock(file) {
        Ok(true) => Ok(()),
        Ok(false) => Err(MapFileError::Locked { path: map.into() }),
        Err(e) => Err(MapFileError::CannotLock { path: map.into(), source: e.into() }),
    }
}

/// Whether a file still has this name. Whoever had the lock may have renamed another file to it, or this file to another name.
fn is_named(file: &File, path: &Path, map: &Path) -> Result<bool, MapFileError> {
    let ours = identity_of(map, file)?;
    Ok(fs::symlink_metadata(path).is_ok_and(|named| (named.dev(), named.ino()) == ours))
}

fn replaced_again(map: &Path) -> MapFileError {
    let source = io::Error::other("it is replaced again and again");
    MapFileError::Other { action: "lock", path: map.into(), source }
}

/// The device and the inode of an open file of `map`.
fn identity_of(map: &Path, file: &File) -> Result<(u64, u64), MapFileError> {
    let metadata = file.metadata().map_err(|e| MapFileError::new("examine", map, e))?;
    Ok((metadata.dev(), metadata.ino()))
}

/// The map in a file that another process may be using, as far as it can be read.
pub fn look(path: &Path) -> Option<MapImage> {
    Some(read(path, &File::open(path).ok()?).ok()?.image)
}

/// Reads a map.
fn read(path: &Path, file: &File) -> Result<Replayed, MapFileError> {
    let failed = |e| MapFileError::new("read", path, e);
    let size_bytes = file.metadata().map_err(failed)?.len();
    if size_bytes > FILE_BYTES_MAX {
        return Err(MapFileError::TooLarge { path: path.into(), size_bytes });
    }
    let mut bytes = Vec::new();
    file.take(size_bytes).read_to_end(&mut bytes).map_err(failed)?;
    replay(&bytes).map_err(|source| MapFileError::Damaged { path: path.into(), source })
}

/// Writes a new file beside `path`, and gives it that name, if `check` of the path then allows it. Its bytes are
/// durable, the name is not yet. The file is locked. On an error the file at `path` is as before.
fn write_new(
    path: &Path,
    spare: Option<File>,
    snapshot: &[u8],
    check: impl Fn(&Path) -> Result<(), MapFileError>,
) -> Result<File, MapFileError> {
    let new_path = spare_path(path);
    let spare = spare.filter(|file| is_spare(file, &new_path));
    let had_room = spare.is_some();
    let file = match spare {
        Some(file) => emptied(file).map_err(|e| MapFileError::new("write", path, e))?,
        None => create_locked(&new_path, path)?,
    };
    let written = check(path).and_then(|()| {
        let write = || {
            file.write_all_at(snapshot, 0)?;
            file.sync_all()?;
            fs::rename(&new_path, path)
        };
        write().map_err(|e| MapFileError::new("write", path, e))
    });
    match written {
        Ok(()) => Ok(file),
        Err(e) => {
            // The room stays for the next one.
            if !had_room || emptied(file).is_err() {
                let _ = fs::remove_file(&new_path);
            }
            Err(e)
        }
    }
}

#[cfg(test)]
mod tests;
