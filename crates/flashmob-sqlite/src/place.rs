//! A fresh database for each run; files that the workload did not create are never replaced.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::Error;

/// `application_id` in the header of our databases: `flmb`.
pub(crate) const APPLICATION_ID: i32 = i32::from_be_bytes(*b"flmb");
/// The first bytes of every SQLite database.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";
/// Offset of `application_id` in SQLite's file format.
const APPLICATION_ID_AT: usize = 68;
/// SQLite's suffixes for the files beside a database.
const BESIDE: [&str; 3] = ["-journal", "-wal", "-shm"];

/// Makes room for a database: removes that of an earlier run; any other file stays and is an error.
pub(crate) fn clear(path: &Path) -> Result<(), Error> {
    let foreign = || Error::Foreign(path.to_path_buf());
    match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(source) => return Err(Error::File(path.to_path_buf(), "look at it", source)),
        Ok(metadata) if !metadata.is_file() => return Err(foreign()),
        Ok(_) if is_ours(path)? => return remove(path),
        Ok(_) => return Err(foreign()),
    }
    // A journal without its database would be rolled back into the new one.
    for path in beside(path) {
        if path.symlink_metadata().is_ok() {
            return Err(Error::Foreign(path));
        }
    }
    Ok(())
}

/// Removes a database and SQLite's files beside it. A missing file is no error.
///
/// # Errors
/// A file that could not be removed.
pub fn remove(path: &Path) -> Result<(), Error> {
    for path in std::iter::once(path.to_path_buf()).chain(beside(path)) {
        match fs::remove_file(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                return Err(Error::File(path, "remove it", source));
            }
            _ => {}
        }
    }
    Ok(())
}

fn beside(path: &Path) -> impl Iterator<Item = PathBuf> {
    BESIDE.into_iter().map(|end| {
        let mut name = path.as_os_str().to_owned();
        name.push(end);
        PathBuf::from(name)
    })
}

fn is_ours(path: &Path) -> Result<bool, Error> {
    let failed = |source| Error::File(path.to_path_buf(), "read it", source);
    let mut header = [0; APPLICATION_ID_AT + 4];
    match File::open(path).map_err(failed)?.read_exact(&mut header) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(failed(error)),
        Ok(()) => Ok(header.starts_with(MAGIC) && header[APPLICATION_ID_AT..] == APPLICATION_ID.to_be_bytes()),
    }
}
