//! Files that are always whole: written beside their place and moved there.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

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
    let name = path.file_name().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "it names no file"))?;
    let mut temporary_name = std::ffi::OsString::from(".");
    temporary_name.push(name);
    temporary_name.push(format!(".{}.tmp", std::process::id()));
    let temporary = path.with_file_name(temporary_name);
    let outcome = fs::write(&temporary, text).and_then(|()| fs::rename(&temporary, path));
    if outcome.is_err() {
        // Whatever of it is there is of no use.
        let _ = fs::remove_file(&temporary);
    }
    outcome
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
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3, "no temporary file stays");
    }
}
