//! Checksums of an extent of a volume with copies, in a file beside it (`<file>.sums`; docs/sums-format.md has its bytes).
//!
//! A checksum for each block of 4 KiB, by position, so that a flipped bit, a block of zeros, a block at the wrong place and an older
//! version of a block are found when the block is read. Whoever reads must never get bytes that do not match; what to do about them is
//! the gateway's business, which knows the other copies.
//!
//! The order of a change: it is noted in a slot, then the blocks are written, then their checksums, then the slot is emptied. A process
//! that is killed anywhere leaves each block with its old or its new bytes, and the note says which checksum the new ones have. After a
//! power cut both files have what the flash had: blocks that were written since the last flush may not match.
//!
//! `format` has the bytes, `file` the system calls, `sections` keeps changes apart. The operations are in `super::medium::summed`.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::io::Errno;

use super::completions::lock;
use super::extent_id::ExtentId;
use super::writeback::Writeback;

mod error;
mod file;
pub mod format;
mod sections;

pub use error::SumsError;
pub(super) use file::LOAD_MAX;
use file::SumsFile;
pub(crate) use file::new_path;
use format::{Change, Header, Shape, UNIT_BLOCKS};
pub(super) use sections::Section;
use sections::Sections;

/// Most blocks that are remembered as not matching; more are only counted.
const BAD_MAX: usize = 4096;

/// The state of the checksums of an extent. Numbers count from the start of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SumsStatus {
    /// Blocks that were found not to match their checksum, and were not written since.
    pub bad_blocks: u64,
    /// How often a block was found not to match.
    pub mismatches: u64,
    /// Blocks that got new checksums because a gateway asked for their bytes as they are.
    pub adopted_blocks: u64,
    /// Blocks whose change a killed process had not finished, and which got their new checksums at the start.
    pub settled_blocks: u64,
    /// Blocks that were wrong on the flash and right in the page cache, and were written again from there.
    pub rewritten_blocks: u64,
    /// Units of 4 MiB that have no checksums yet, because they held data before: each gets them when it is first used.
    pub units_without: u64,
}

/// Refuses a file of checksums for an extent of this size if there is certainly no room for it.
pub fn check_room(path: &Path, size_bytes: u64) -> Result<(), SumsError> {
    file::check_room(path, Shape::new(size_bytes).file_bytes())
}

/// The checksums of an open extent.
#[derive(Debug)]
pub struct Sums {
    file: SumsFile,
    header: Mutex<Header>,
    sections: Sections,
    /// One bit for each unit that has checksums.
    units: Box<[AtomicU64]>,
    /// Blocks that do not match, as far as known.
    bad: Mutex<BTreeSet<u64>>,
    bad_blocks: AtomicU64,
    mismatches: AtomicU64,
    adopted_blocks: AtomicU64,
    settled_blocks: AtomicU64,
    rewritten_blocks: AtomicU64,
    /// Checksums were written since the last sync began.
    is_dirty: AtomicBool,
    syncing: Mutex<()>,
}

impl Sums {
    /// Makes the file for an extent, where there is none; [`Sums::put_in_place`] is next, once the identity has its nonce. `has_data` tells for each unit whether it may hold something else than zeros; it is asked once it is
    /// clear that there is room, so also about no more units than that has checksums for. May block.
    pub fn create(
        path: &Path,
        extent_id: ExtentId,
        size_bytes: u64,
        nonce: ExtentId,
        has_data: impl Fn(u64) -> bool,
    ) -> Result<Sums, SumsError> {
        let shape = Shape::new(size_bytes);
        file::refuse_taken(path)?;
        // What an earlier process began to make was never used: the identity does not have it.
        let _ = std::fs::remove_file(file::new_path(path));
        file::check_room(path, shape.file_bytes())?;
        let mut bitmap = vec![0; shape.units().div_ceil(8) as usize];
        for unit in (0..shape.units()).filter(|&unit| !has_data(unit)) {
            bitmap[(unit / 8) as usize] |= 1 << (unit % 8);
        }
        let header = Header { extent_id: extent_id.0, size_bytes, nonce: nonce.0, before: None, age: None };
        let file = SumsFile::create(path, &header, &bitmap)?;
        Ok(Sums::with(file, header, &bitmap))
    }

    /// Gives the file that was made its name, on the flash.
    pub fn put_in_place(&self) -> Result<(), SumsError> {
        self.file.put_in_place()
    }

    /// Its nonce.
    #[must_use]
    pub fn nonce(&self) -> ExtentId {
        ExtentId(lock(&self.header).nonce)
    }

    /// Opens the file of an extent, and makes it anew if that has grown. Its nonce, or the one before that, has to be one of `nonces`, those of the
    /// identity; returns which. May block.
    pub fn open(
        path: &Path,
        extent_id: ExtentId,
        size_bytes: u64,
        nonces: &[ExtentId],
    ) -> Result<(Sums, ExtentId), SumsError> {
        SumsFile::finish(path, extent_id.0, size_bytes, nonces)?;
        let (mut file, mut header) = SumsFile::open(path, extent_id.0, size_bytes)?;
        let mut known = [Some(header.nonce), header.before].into_iter().flatten().map(ExtentId);
        let Some(nonce) = known.find(|nonce| nonces.contains(nonce)) else {
            return Err(SumsError::Older { path: path.to_path_buf() });
        };
        if file.shape().size_bytes() < size_bytes {
            header.size_bytes = size_bytes;
            file = file.enlarged(&header)?;
        }
        let bitmap = file.load_bitmap()?;
        Ok((Sums::with(file, header, &bitmap), nonce))
    }

    fn with(file: SumsFile, header: Header, bitmap: &[u8]) -> Sums {
        let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
        Sums {
            file,
            header: Mutex::new(header),
            sections: Sections::new(),
            units: bitmap.chunks(8).map(|bytes| AtomicU64::new(word(bytes))).collect(),
            bad: Mutex::default(),
            bad_blocks: AtomicU64::new(0),
            mismatches: AtomicU64::new(0),
            adopted_blocks: AtomicU64::new(0),
            settled_blocks: AtomicU64::new(0),
            rewritten_blocks: AtomicU64::new(0),
            // An earlier process may have stored some without a sync.
            is_dirty: AtomicBool::new(true),
            syncing: Mutex::new(()),
        }
    }

    /// Gives the file another nonce, on the flash. It fits an identity with either, and that gets the new one next. `known` is the one that it has.
    pub fn renew(&self, known: ExtentId, nonce: ExtentId) -> Result<(), SumsError> {
        self.change_header(|header| (header.nonce, header.before) = (nonce.0, Some(known.0)))
    }

    /// The age of the extent: epoch and version of the map that its mirror had durably last.
    #[must_use]
    pub fn age(&self) -> Option<(u64, u64)> {
        lock(&self.header).age
    }

    /// Gives the extent a later age, on the flash.
    pub fn keep_age(&self, age: (u64, u64)) -> Result<(), SumsError> {
        self.change_header(|header| header.age = header.age.max(Some(age)))
    }

    /// Changes the header: one sector, in its place. The rest of the file is not synced.
    fn change_header(&self, change: impl FnOnce(&mut Header)) -> Result<(), SumsError> {
        let mut header = lock(&self.header);
        let mut changed = *header;
        change(&mut changed);
        if changed != *header {
            self.file.store_header(&changed)?;
            *header = changed;
        }
        Ok(())
    }

    /// Its status.
    #[must_use]
    pub fn status(&self) -> SumsStatus {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let with: u64 = self.units.iter().map(|word| u64::from(get(word).count_ones())).sum();
        SumsStatus {
            bad_blocks: get(&self.bad_blocks),
            mismatches: get(&self.mismatches),
            adopted_blocks: get(&self.adopted_blocks),
            settled_blocks: get(&self.settled_blocks),
            rewritten_blocks: get(&self.rewritten_blocks),
            units_without: self.shape().units().saturating_sub(with),
        }
    }

    pub(super) fn shape(&self) -> Shape {
        self.file.shape()
    }

    pub(super) fn path(&self) -> &Path {
        self.file.path()
    }

    /// Takes blocks for one thread: see [`Sections::enter`].
    pub(super) fn enter(&self, first: u64, count: u64) -> Section<'_> {
        self.sections.enter(first, count)
    }

    /// Whether a unit has checksums.
    pub(super) fn has_unit(&self, unit: u64) -> bool {
        let word = self.units.get((unit / 64) as usize).map_or(0, |word| word.load(Ordering::Acquire));
        word >> (unit % 64) & 1 != 0
    }

    /// Whether all units of some blocks (at least one) have checksums.
    pub(super) fn has_units_of(&self, first: u64, count: u64) -> bool {
        (first / UNIT_BLOCKS..=(first + count - 1) / UNIT_BLOCKS).all(|unit| self.has_unit(unit))
    }

    /// Notes that a unit has checksums, which are on the flash.
    pub(super) fn add_unit(&self, unit: u64) -> Result<(), Errno> {
        let Some(word) = self.units.get((unit / 64) as usize) else { return Ok(()) };
        let bits = word.fetch_or(1 << (unit % 64), Ordering::AcqRel) | 1 << (unit % 64);
        // Two units of one byte may be added at once: the byte written last has to have both bits.
        let _syncing = lock(&self.syncing);
        let bits = bits | word.load(Ordering::Acquire);
        self.is_dirty.store(true, Ordering::Release);
        self.file.store_bitmap(unit / 8, (bits >> (unit % 64 / 8 * 8)) as u8)
    }

    /// Reads checksums, at most [`LOAD_MAX`].
    pub(super) fn load(&self, first: u64, sums: &mut [u32]) -> Result<(), Errno> {
        self.file.load(first, sums)
    }

    /// Reads checksums if the page cache has them.
    pub(super) fn load_cached(&self, first: u64, sums: &mut [u32]) -> bool {
        self.file.load_cached(first, sums)
    }

    /// Writes checksums, at most [`LOAD_MAX`].
    pub(super) fn store(&self, first: u64, sums: &[u32]) -> Result<(), Errno> {
        self.file.store(first, sums)?;
        // Behind the write: a sync that finds the mark covers it.
        self.is_dirty.store(true, Ordering::Release);
        Ok(())
    }

    /// Writes checksums, and has them on the flash.
    pub(super) fn store_durably(&self, first: u64, sums: &[u32]) -> Result<(), Errno> {
        if self.file.store_durably(first, sums)? {
            return Ok(());
        }
        self.store(first, sums)?;
        self.sync()
    }

    /// Notes a change in the slot of its section, or its end.
    pub(super) fn note(&self, section: &Section<'_>, change: Option<&Change>) -> Result<(), Errno> {
        self.file.store_change(section.slot(), change)
    }

    /// The changes that a killed process had under way.
    pub(super) fn unfinished(&self) -> Result<Vec<(usize, Change)>, SumsError> {
        self.file.load_changes()
    }

    /// Empties a slot.
    pub(super) fn empty(&self, slot: usize) -> Result<(), Errno> {
        self.file.store_change(slot, None)
    }

    /// Writes back what is dirty, in parts that make progress.
    pub(super) fn write_back(&self, writeback: &Writeback) -> Result<(), Errno> {
        self.file.write_back(writeback)
    }

    /// Has all checksums that were stored before on the flash.
    pub(super) fn sync(&self) -> Result<(), Errno> {
        // One after the other: who finds nothing to sync must not return before what another syncs is there.
        let _syncing = lock(&self.syncing);
        if !self.is_dirty.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        self.file.sync()
    }

    /// Whether a sync would have something to do.
    #[cfg(test)]
    pub(super) fn is_dirty(&self) -> bool {
        self.is_dirty.load(Ordering::Acquire)
    }

    /// Counts a block that does not match. True if that is news.
    pub(super) fn found_bad(&self, block: u64) -> bool {
        self.mismatches.fetch_add(1, Ordering::Relaxed);
        let mut bad = lock(&self.bad);
        let is_news = bad.len() < BAD_MAX && bad.insert(block);
        self.bad_blocks.store(bad.len() as u64, Ordering::Relaxed);
        is_news
    }

    /// Blocks were written, and match from now on.
    pub(super) fn healed(&self, first: u64, count: u64) {
        if self.bad_blocks.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut bad = lock(&self.bad);
        let healed: Vec<u64> = bad.range(first..first + count).copied().collect();
        healed.iter().for_each(|block| {
            bad.remove(block);
        });
        self.bad_blocks.store(bad.len() as u64, Ordering::Relaxed);
    }

    /// Counts a block that got a new checksum because a gateway wanted it.
    pub(super) fn adopted(&self, block: u64) {
        self.adopted_blocks.fetch_add(1, Ordering::Relaxed);
        self.healed(block, 1);
    }

    /// Counts a block that was written again because the flash had other bytes than the page cache.
    pub(super) fn rewritten(&self) {
        self.rewritten_blocks.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts blocks that got the checksums of unfinished changes.
    pub(super) fn settled(&self, count: u64) {
        self.settled_blocks.fetch_add(count, Ordering::Relaxed);
    }
}
