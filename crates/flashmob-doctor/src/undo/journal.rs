//! The undo file: written before each change, always complete, with a single writer.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;

use super::{BYTES_MAX, Undo, UndoError};

/// Why the file cannot be used.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are what the messages show")]
pub enum JournalError {
    /// Another process uses it.
    #[error("another flashmob doctor is at work with {}; wait for its end", .0.display())]
    Busy(PathBuf),
    /// An error of the file or its folder.
    #[error("the undo file {} cannot be {what}: {source}", path.display())]
    Io { path: PathBuf, what: &'static str, source: io::Error },
    /// It is not an undo file.
    #[error("the undo file {} cannot be used: {source}", path.display())]
    Damaged { path: PathBuf, source: UndoError },
    /// Others may write to it.
    #[error("the undo file {} can be written by others than you, so it is not trusted; check it and 'chown' or 'chmod go-w' it", .0.display())]
    NotYours(PathBuf),
}

/// The undo and its file.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    /// Its folder, locked while this lives.
    folder: File,
    /// Its content.
    pub undo: Undo,
}

impl Journal {
    /// Opens the file for changes, or a new one; its folder is created if needed.
    ///
    /// # Errors
    /// See [`JournalError`].
    pub fn open(path: &Path) -> Result<Journal, JournalError> {
        let at = |what| move |source| JournalError::Io { path: path.into(), what, source };
        let folder_path = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if !folder_path.exists() {
            DirBuilder::new().recursive(true).mode(0o755).create(folder_path).map_err(at("written"))?;
        }
        let folder = File::open(folder_path).map_err(at("written"))?;
        // Each change replaces the file, and a lock on it would be lost.
        match rustix::fs::flock(&folder, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(JournalError::Busy(path.into())),
            Err(error) => return Err(at("locked")(error.into())),
        }
        let undo = match read(path) {
            Ok(undo) => undo,
            Err(JournalError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Undo::default(),
            Err(error) => return Err(error),
        };
        Ok(Journal { path: path.into(), folder, undo })
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes and syncs the file; without entries it is removed.
    ///
    /// # Errors
    /// See [`JournalError`].
    pub fn save(&self) -> Result<(), JournalError> {
        self.save_file().map_err(|source| JournalError::Io { path: self.path.clone(), what: "written", source })
    }

    fn save_file(&self) -> io::Result<()> {
        if self.undo.entries.is_empty() {
            match std::fs::remove_file(&self.path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => return self.folder.sync_all(),
            }
        }
        let name =
            self.path.file_name().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "it names no file"))?;
        let mut temporary_name = std::ffi::OsString::from(".");
        temporary_name.push(name);
        temporary_name.push(".tmp");
        let temporary = self.path.with_file_name(temporary_name);
        // Left by a killed process: the lock excludes others.
        let _ = std::fs::remove_file(&temporary);
        let outcome = (|| {
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
            file.write_all(self.undo.text().map_err(io::Error::other)?.as_bytes())?;
            file.sync_all()?;
            std::fs::rename(&temporary, &self.path)?;
            self.folder.sync_all()
        })();
        if outcome.is_err() {
            let _ = std::fs::remove_file(&temporary);
        }
        outcome
    }
}

fn read(path: &Path) -> Result<Undo, JournalError> {
    let at = |source| JournalError::Io { path: path.into(), what: "read", source };
    let mut options = OpenOptions::new();
    let no_waiting = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC;
    let file = options.read(true).custom_flags(no_waiting).open(path).map_err(at)?;
    let metadata = file.metadata().map_err(at)?;
    let is_mine = metadata.uid() == rustix::process::geteuid().as_raw() && metadata.mode() & 0o022 == 0;
    if !metadata.is_file() || !is_mine {
        return Err(JournalError::NotYours(path.into()));
    }
    let mut text = Vec::new();
    file.take(BYTES_MAX as u64 + 1).read_to_end(&mut text).map_err(at)?;
    Undo::parse(&text).map_err(|source| JournalError::Damaged { path: path.into(), source })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;
    use crate::change::Place;
    use crate::undo::Entry;

    fn entry() -> Entry {
        Entry {
            check: "mtu".into(),
            place: Place::Mtu { interface: "eth0".into() },
            network: None,
            boot: None,
            old: "1000".into(),
            new: "1500".into(),
            previous: None,
        }
    }

    #[test]
    fn it_is_there_until_it_is_empty() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("made/undo.json");
        let mut journal = Journal::open(&path).unwrap();
        journal.undo.note(entry());
        journal.save().unwrap();
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);
        assert!(matches!(Journal::open(&path), Err(JournalError::Busy { .. })));
        drop(journal);
        let mut journal = Journal::open(&path).unwrap();
        assert_eq!(journal.undo.entries, [entry()]);
        journal.undo.entries.clear();
        journal.save().unwrap();
        assert!(!path.exists());
        assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 0, "nothing else is left either");
    }

    #[test]
    fn what_others_may_have_written_is_not_believed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("undo.json");
        std::fs::write(&path, Undo::default().text().unwrap()).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o664)).unwrap();
        assert!(matches!(Journal::open(&path), Err(JournalError::NotYours { .. })));
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
        Journal::open(&path).unwrap();
        let link = folder.path().join("link");
        symlink(&path, &link).unwrap();
        assert!(Journal::open(&link).is_err());
        std::fs::write(&path, "{").unwrap();
        assert!(matches!(Journal::open(&path), Err(JournalError::Damaged { .. })));
    }
}
