//! Files that their owner alone may read and write: extents, what lies beside them, and what a gateway keeps.
//!
//! Their names are known beforehand, and so are those of the files that are written beside them and renamed. In a folder where others may write, too,
//! somebody else may have put a link there. So a new file is made exclusively: what has its name goes, a link itself and not what it leads to.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// What a new file's owner may do with it, and nobody else, whatever the umask.
pub(super) const PRIVATE_MODE: u32 = 0o600;

/// Makes a file anew, for reading and writing.
pub(crate) fn create_anew(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    create_private(path)
}

/// The same if nothing has its name.
pub(crate) fn create_private(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create_new(true).mode(PRIVATE_MODE).open(path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_new_file_is_its_owners_alone_and_follows_no_link() {
        let dir = tempfile::tempdir().unwrap();
        let (path, other) = (dir.path().join("a.new"), dir.path().join("other"));
        fs::write(&other, "not ours").unwrap();
        symlink(&other, &path).unwrap();
        let file = create_anew(&path).unwrap();
        file.set_permissions(fs::Permissions::from_mode(0o644)).unwrap();
        let first = file.metadata().unwrap();
        assert_eq!(fs::read(&other).unwrap(), b"not ours");
        // What is there of an earlier one goes, with its rights.
        let metadata = create_anew(&path).unwrap().metadata().unwrap();
        assert_eq!((metadata.mode() & 0o777, metadata.len()), (0o600, 0));
        assert_ne!(metadata.ino(), first.ino());
        assert!(create_anew(dir.path()).is_err(), "a folder stays");
    }
}
