//! A fresh database for each run, and never somebody else's in its place.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::Error;

/// `application_id` in the header of our databases: `flmb`.
pub(crate) const APPLICATION_ID: i32 = i32::from_be_bytes(*b"flmb");
/// What every SQLite database begins with.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";
/// Where `application_id` stands, by SQLite's file format.
const APPLICATION_ID_AT: usize = 68;
/// What SQLite puts behind a database's name for the files beside it.
const BESIDE: [&str; 3] = ["-journal", "-wal", "-shm"];

/// Makes room for a database: one that an earlier run made goes away, anything else stays and is an error.
pub(crate) fn clear(path: &Path) -> Result<(), Error> {
    let foreign = || Error::Foreign { path: path.to_path_buf() };
    match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(source) => return Err(Error::File { path: path.to_path_buf(), what: "look at it", source }),
        Ok(metadata) if !metadata.is_file() => return Err(foreign()),
        Ok(_) if is_ours(path)? => return remove(path),
        Ok(_) => return Err(foreign()),
    }
    // A journal without its database would be played back into the new one.
    for path in beside(path) {
        if path.symlink_metadata().is_ok() {
            return Err(Error::Foreign { path });
        }
    }
    Ok(())
}

/// Removes a database and what SQLite has beside it. What is not there is no error.
///
/// # Errors
/// A file that could not be removed.
pub fn remove(path: &Path) -> Result<(), Error> {
    for path in std::iter::once(path.to_path_buf()).chain(beside(path)) {
        match fs::remove_file(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                return Err(Error::File { path, what: "remove it", source });
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
    let failed = |source| Error::File { path: path.to_path_buf(), what: "read it", source };
    let mut header = [0; APPLICATION_ID_AT + 4];
    match File::open(path).map_err(failed)?.read_exact(&mut header) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(failed(error)),
        Ok(()) => Ok(header.starts_with(MAGIC) && header[APPLICATION_ID_AT..] == APPLICATION_ID.to_be_bytes()),
    }
}
