//! The files that are served: one whole, and the same bytes as the extents of eight nodes; kept in the page cache.

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use flashmob_bench::load::Verifier;
use flashmob_bench::load::reference::{ImageReference, PatternReference, Reference};
use memmap2::Mmap;

/// How many nodes, and servers beside each other.
pub const NODES: usize = 8;
/// Bytes written at a time into files that are only read.
pub const CHUNK_BYTES: usize = 4 << 20;
/// Bytes written at a time into files that will be written to. ext4 keeps what is written in one call in one large folio
/// of the page cache, and looks through all of that for each small write to it later. A bare loop of `pwrite` makes some
/// 0.15 million writes of 4 KiB a second into a file written in pieces of 1 MiB, and a million into one written in pieces
/// of 4 KiB: with large pieces all servers would measure that.
pub const SMALL_CHUNK_BYTES: usize = 4 << 10;
/// What the files hold comes from this seed.
const SEED: u64 = 20_261;

/// A file, or several that are one volume end to end.
#[derive(Debug)]
pub struct Image {
    /// All of it.
    pub whole: PathBuf,
    /// Its eight parts.
    pub parts: Vec<PathBuf>,
    /// Bytes of the whole.
    pub size_bytes: u64,
    /// Keeps the pages in memory.
    locked: Vec<Mmap>,
}

impl Image {
    /// Makes the files; `size_bytes` is a multiple of eight times 4 MiB.
    pub fn make(dir: &Path, name: &str, size_bytes: u64, chunk_bytes: usize) -> anyhow::Result<Image> {
        let part_bytes = size_bytes / NODES as u64;
        let whole = dir.join(name);
        write(&whole, 0, size_bytes, chunk_bytes)?;
        let mut parts = Vec::new();
        for number in 0..NODES {
            let path = dir.join(format!("{name}-{number}"));
            write(&path, part_bytes * number as u64, part_bytes, chunk_bytes)?;
            parts.push(path);
        }
        Ok(Image { whole, parts, size_bytes, locked: Vec::new() })
    }

    fn files(&self) -> impl Iterator<Item = &PathBuf> {
        std::iter::once(&self.whole).chain(&self.parts)
    }

    /// Asks the system to keep all pages in memory; whether it does.
    pub fn lock(&mut self) -> anyhow::Result<bool> {
        let mut locked = Vec::new();
        for path in self.files() {
            let file = File::open(path)?;
            // SAFETY: the mapping is never looked at; it only keeps the pages in memory. Nobody shortens these
            // files, which this program has made and removes.
            let map = unsafe { Mmap::map(&file) }?;
            if map.lock().is_err() {
                return Ok(false);
            }
            locked.push(map);
        }
        self.locked = locked;
        Ok(true)
    }

    /// Reads everything through, unless it is locked in memory: the system drops what nobody used for a while.
    pub fn warm(&self) -> anyhow::Result<()> {
        if !self.locked.is_empty() {
            return Ok(());
        }
        let mut buffer = vec![0; CHUNK_BYTES];
        for path in self.files() {
            let mut file = File::open(path)?;
            while file.read(&mut buffer)? > 0 {}
        }
        Ok(())
    }
}

/// A file to compare with.
pub fn reference(path: &Path) -> anyhow::Result<Verifier> {
    Ok(Arc::new(ImageReference::open(path)?))
}

/// Fills a file with the bytes from `begin_bytes` on of what all files here are parts of.
pub fn write(path: &Path, begin_bytes: u64, len_bytes: u64, chunk_bytes: usize) -> anyhow::Result<()> {
    let failed = || format!("cannot write {}; --dir names another place", path.display());
    let mut file = File::create(path).with_context(failed)?;
    let contents = PatternReference { seed: SEED };
    let mut buffer = vec![0; chunk_bytes];
    let mut done = 0;
    while done < len_bytes {
        let n = chunk_bytes.min(usize::try_from(len_bytes - done).unwrap_or(chunk_bytes));
        contents.fill(begin_bytes + done, &mut buffer[..n]);
        file.write_all(&buffer[..n]).with_context(failed)?;
        done += n as u64;
    }
    // What is still to be written back would disturb the measurement.
    file.sync_all().with_context(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_end_to_end_are_the_whole() {
        let dir = std::env::temp_dir().join(format!("flashmob-peers-data-{}", std::process::id()));
        std::fs::create_dir(&dir).unwrap();
        let image = Image::make(&dir, "image", 32 << 20, SMALL_CHUNK_BYTES).unwrap();
        let whole = std::fs::read(&image.whole).unwrap();
        let parts: Vec<u8> = image.parts.iter().flat_map(|path| std::fs::read(path).unwrap()).collect();
        image.warm().unwrap();
        std::fs::remove_dir_all(&dir).unwrap();
        assert_eq!(whole.len(), 32 << 20);
        assert!(whole == parts);
    }
}
