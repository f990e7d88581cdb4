//! Files that are always whole: written beside their place and moved there.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// True for what is written to as it is, such as /dev/stdout or a pipe: nothing may take its place.
pub fn is_special(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| !metadata.is_file())
}

/// Writes `text` to a temporary name beside `path` and moves it there. What a link leads to becomes another file, and the link stays.
pub fn write(path: &Path, text: &str) -> io::Result<()> {
    let path = &path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    if is_special(path) {
        return OpenOptions::new().write(true).open(path).and_then(|mut out| out.write_all(text.as_bytes()));
    }
    let (mut file, temporary) = create_beside(path)?;
    let outcome = file.write_all(text.as_bytes()).and_then(|()| fs::rename(&temporary, path));
    if outcome.is_err() {
        // Whatever of it is there is of no use.
        let _ = fs::remove_file(&temporary);
    }
    outcome
}

/// An empty file beside `path`, to be moved there when it is whole. Its name can be guessed, and folders such as /tmp are everybody's: what
/// somebody put there, a link perhaps, is never written through.
pub fn create_beside(path: &Path) -> io::Result<(File, PathBuf)> {
    let name = path.file_name().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "it names no file"))?;
    let mut temporary_name = std::ffi::OsString::from(".");
    temporary_name.push(name);
    temporary_name.push(format!(".{}.tmp", std::process::id()));
    let temporary = path.with_file_name(temporary_name);
    // What a process of the same number left.
    let _ = fs::remove_file(&temporary);
    let file = OpenOptions::new().write(true).create_new(true).open(&temporary)?;
    Ok((file, temporary))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{FileTypeExt, symlink};

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
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        let reader = std::thread::spawn({
            let pipe = pipe.clone();
            move || fs::read_to_string(pipe).unwrap()
        });
        write(&pipe, "through").unwrap();
        assert_eq!(reader.join().unwrap(), "through");
        assert!(pipe.metadata().unwrap().file_type().is_fifo(), "nothing took its place");
        assert!(write(&folder.path().join("absent/file"), "x").is_err());
        let planted = folder.path().join(format!(".other.{}.tmp", std::process::id()));
        symlink(&file, &planted).unwrap();
        write(&folder.path().join("other"), "mine").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "new", "not written through what somebody put there");
        fs::remove_file(folder.path().join("other")).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3, "no temporary file stays");
    }
}
