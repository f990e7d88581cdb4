//! Where the data lies, and how much room there is.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use flashmob_host::place::{self, Located};

use super::View;

/// Room on a file system, as a program without rights has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// All of it.
    pub size_bytes: u64,
    /// What may still be written.
    pub free_bytes: u64,
    /// Files that there can be; 0 where the file system has no such number.
    pub inodes: u64,
    /// Files that can still be made.
    pub free_inodes: u64,
}

/// The place of the data.
#[derive(Clone, Debug)]
pub struct Data {
    /// As it was named.
    pub path: PathBuf,
    /// Its file system and disk.
    pub located: Located,
    /// `None` for a block device, and where nobody says.
    pub space: Option<Space>,
    /// What of the file is still a hole, for which room is needed later.
    pub hole_bytes: u64,
}

impl View {
    /// Adds the place of the data: a file, folder or block device; what does not exist yet counts as where it would lie.
    ///
    /// # Errors
    /// Nothing of that name is there, nor the folder it would be in.
    pub fn add_data(&mut self, path: &Path) -> std::io::Result<()> {
        self.data = Some(if self.is_live { live(path)? } else { self.in_tree(path) });
        Ok(())
    }

    /// The number of the file system is not known in a copied tree: the mounts decide by their points.
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
