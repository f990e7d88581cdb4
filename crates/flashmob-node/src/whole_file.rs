//! Files that are never partial: written beside their place and renamed.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

/// True for a path that is written directly, such as /dev/stdout or a pipe, and must not be replaced.
pub fn is_special(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| !metadata.is_file())
}

/// Links followed at most, as by the kernel.
const LINKS_MAX: usize = 40;

/// The file that `path` leads to by symbolic links, whether it exists or not.
fn target(path: &Path) -> PathBuf {
    let mut path = path.to_path_buf();
    for _ in 0..LINKS_MAX {
        let Ok(to) = path.read_link() else { break };
        path = path.parent().unwrap_or(Path::new("")).join(to);
    }
    path.canonicalize().unwrap_or(path)
}

/// Writes `text` under a temporary name beside `path` and renames it. If `path` is a link, its target is replaced, and the link stays.
pub fn write(path: &Path, text: &str) -> io::Result<()> {
    let mut file = WholeFile::create(path)?;
    file.write_all(text.as_bytes())?;
    file.finish()
}

/// An empty file beside `path`, to be renamed when it is complete; removed if it is dropped before. Has the permissions of a new file.
pub fn create_beside(path: &Path) -> io::Result<NamedTempFile> {
    let name = path.file_name().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "it names no file"))?;
    let mut prefix = std::ffi::OsString::from(".");
    prefix.push(name);
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut builder = tempfile::Builder::new();
    builder.prefix(&prefix).suffix(".tmp").permissions(Permissions::from_mode(0o666)).tempfile_in(folder)
}

/// A file that gets its name when it is complete; dropped before, it leaves nothing. Special files are written directly.
#[derive(Debug)]
pub struct WholeFile {
    path: PathBuf,
    out: Out,
}

#[derive(Debug)]
enum Out {
    Beside(NamedTempFile),
    Special(File),
}

impl WholeFile {
    /// Begins a file that will stand at `path`.
    pub fn create(path: &Path) -> io::Result<WholeFile> {
        let path = target(path);
        let out = if is_special(&path) {
            Out::Special(OpenOptions::new().write(true).open(&path)?)
        } else if path.is_symlink() {
            return Err(io::Error::other("it is a circle of symbolic links"));
        } else {
            Out::Beside(create_beside(&path)?)
        };
        Ok(WholeFile { path, out })
    }

    /// Renames it to its place.
    pub fn finish(self) -> io::Result<()> {
        match self.out {
            Out::Beside(file) => file.persist(&self.path).map(drop).map_err(|error| error.error),
            Out::Special(_) => Ok(()),
        }
    }
}

impl Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.out {
            Out::Beside(file) => file.write(bytes),
            Out::Special(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{FileTypeExt, MetadataExt, symlink};

    use super::*;

    #[test]
    fn a_file_is_replaced_a_link_stays_and_a_pipe_is_written_to() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link, pipe) = (folder.path().join("file"), folder.path().join("link"), folder.path().join("pipe"));
        write(&file, "old").unwrap();
        symlink(&file, &link).unwrap();
        write(&link, "new").unwrap();
        assert!(link.symlink_metadata().unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        let (absent, dangling) = (folder.path().join("absent"), folder.path().join("dangling"));
        symlink("absent", &dangling).unwrap();
        write(&dangling, "made").unwrap();
        assert!(dangling.symlink_metadata().unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&absent).unwrap(), "made");
        fs::remove_file(&absent).unwrap();
        symlink("nowhere/file", &absent).unwrap();
        assert!(write(&dangling, "x").is_err(), "the folder does not exist");
        assert!(absent.symlink_metadata().unwrap().is_symlink());
        fs::remove_file(absent).unwrap();
        fs::remove_file(dangling).unwrap();
        let (one, other) = (folder.path().join("one"), folder.path().join("other"));
        symlink(&one, &other).unwrap();
        symlink(&other, &one).unwrap();
        assert!(write(&one, "x").is_err(), "a circle of links");
        fs::remove_file(one).unwrap();
        fs::remove_file(other).unwrap();
        let plain = folder.path().join("plain");
        fs::write(&plain, "x").unwrap();
        assert_eq!(file.metadata().unwrap().mode(), plain.metadata().unwrap().mode(), "the permissions of a new file");
        fs::remove_file(plain).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        let reader = std::thread::spawn({
            let pipe = pipe.clone();
            move || fs::read_to_string(pipe).unwrap()
        });
        write(&pipe, "through").unwrap();
        assert_eq!(reader.join().unwrap(), "through");
        assert!(pipe.metadata().unwrap().file_type().is_fifo(), "nothing took its place");
        assert!(write(&folder.path().join("absent/file"), "x").is_err());
        let mut half = WholeFile::create(&folder.path().join("half")).unwrap();
        half.write_all(b"half").unwrap();
        drop(half);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3, "no temporary file stays");
    }
}
