//! The place of the data, and its free space.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use flashmob_host::place::{self, Located};

use super::View;

/// Space of a file system, for unprivileged programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Total size.
    pub size_bytes: u64,
    /// Free space.
    pub free_bytes: u64,
    /// Total inodes; 0 where the file system has no fixed number.
    pub inodes: u64,
    /// Free inodes.
    pub free_inodes: u64,
}

/// The place of the data.
#[derive(Clone, Debug)]
pub struct Data {
    /// Its path as given.
    pub path: PathBuf,
    /// Its file system and disk.
    pub located: Located,
    /// `None` for a block device, or if not known.
    pub space: Option<Space>,
    /// Bytes of the file's holes, which need space later.
    pub hole_bytes: u64,
}

impl View {
    /// Adds the place of the data: a file, folder or block device; for a path that does not exist yet, its folder.
    ///
    /// # Errors
    /// Neither the path nor its folder exists.
    pub fn add_data(&mut self, path: &Path) -> std::io::Result<()> {
        self.data = Some(if self.is_live { live(path)? } else { self.in_tree(path) });
        Ok(())
    }

    /// In a copied tree the device number is not known: the mount points decide.
    fn in_tree(&self, path: &Path) -> Data {
        let located = place::locate_at(&self.root, path, (0, 0), false);
        Data { path: path.into(), located, space: None, hole_bytes: 0 }
    }
}

fn live(path: &Path) -> std::io::Result<Data> {
    let metadata = path.metadata();
    let is_new = metadata.as_ref().is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound);
    let nearest = match path.parent().filter(|_| is_new) {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => path,
    };
    let is_device = metadata.as_ref().is_ok_and(|metadata| {
        use std::os::unix::fs::FileTypeExt;
        metadata.file_type().is_block_device()
    });
    let numbers = rustix::fs::statvfs(nearest)?;
    let space = (!is_device).then(|| Space {
        size_bytes: numbers.f_blocks.saturating_mul(numbers.f_frsize),
        free_bytes: numbers.f_bavail.saturating_mul(numbers.f_frsize),
        inodes: numbers.f_files,
        free_inodes: numbers.f_favail,
    });
    let hole_bytes = match &metadata {
        Ok(metadata) if metadata.is_file() => metadata.len().saturating_sub(metadata.blocks().saturating_mul(512)),
        _ => 0,
    };
    Ok(Data { path: path.into(), located: place::locate(path), space, hole_bytes })
}
