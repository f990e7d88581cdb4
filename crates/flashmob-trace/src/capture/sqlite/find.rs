//! Finds the file that contains the SQLite used by a command.

use std::fs::File;
use std::path::{Path, PathBuf};

use super::elf;

/// Library folders; Debian's multiarch folders are below `/usr/lib`.
const FOLDERS: [&str; 8] = [
    "/usr/lib",
    "/usr/lib64",
    "/lib",
    "/lib64",
    "/usr/local/lib",
    "/system/lib64",
    "/system/lib",
    "/data/data/com.termux/files/usr/lib",
];

/// The program itself if it has symbols of SQLite; else all installed shared libraries of SQLite, any of which it may load. A command without a slash is
/// looked up in PATH.
#[must_use]
pub fn find_sqlite(command: &Path) -> Vec<PathBuf> {
    if let Some(program) = program(command).filter(|path| has_sqlite(path)) {
        return vec![program];
    }
    let mut found: Vec<PathBuf> = Vec::new();
    for folder in FOLDERS {
        let below = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
        let below = below.filter(|path| path.to_string_lossy().contains("-linux-") && path.is_dir());
        for folder in below.chain([folder.into()]) {
            for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                if !entry.file_name().to_string_lossy().starts_with("libsqlite") {
                    continue;
                }
                // Most are symbolic links to the same file.
                let Ok(path) = entry.path().canonicalize() else { continue };
                if !found.contains(&path) && path.is_file() && has_sqlite(&path) {
                    found.push(path);
                }
            }
        }
    }
    found
}

fn program(command: &Path) -> Option<PathBuf> {
    if command.components().count() > 1 {
        return command.canonicalize().ok();
    }
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders)
        .find_map(|folder| folder.join(command).canonicalize().ok().filter(|path| path.is_file()))
}

fn has_sqlite(path: &Path) -> bool {
    let functions = File::open(path).ok().and_then(|file| elf::functions(&file, &["sqlite3_step"]).ok());
    functions.is_some_and(|functions| !functions.is_empty())
}
