//! A much simplified page cache with readahead, for reads from a modelled device.
//!
//! It only tracks which pages are cached. Its limits: it never evicts (use [`PageCache::drop_all`]
//! instead), two threads that miss the same page at once both fetch it, readahead is triggered by a miss
//! and not earlier in the background, and writes bypass it.

use std::collections::HashMap;

use super::{BLOCK_BYTES, blocks_touched};

/// Initial readahead window in blocks: 16 KiB, like Linux's for reads of one page.
const WINDOW_MIN: u64 = 4;
/// Maximum readahead window in blocks: 128 KiB, the default of Linux (`read_ahead_kb`).
const WINDOW_MAX: u64 = 32;
/// Blocks per chunk of the bitset: 16 MiB of the device in 512 bytes.
const CHUNK_BLOCKS: u64 = 4096;
/// Maximum tracked submitters; one more resets the tracking of all.
const SUBMITTERS_MAX: usize = 4096;

/// The result of a lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// All of it is cached.
    Hit,
    /// Fetch this from the device, in whole blocks up to the end of the device; then call [`PageCache::fetched`].
    Fetch {
        /// Where the fetch begins.
        offset_bytes: u64,
        /// How long it is.
        len_bytes: u64,
    },
}

#[derive(Clone, Copy, Debug)]
struct Reading {
    /// The end of its last read.
    end_bytes: u64,
    /// Its last window in blocks; 0 if it does not read sequentially.
    window: u64,
}

/// The set of a device's cached blocks.
#[derive(Clone, Debug)]
pub struct PageCache {
    size_bytes: u64,
    chunks: HashMap<u64, Box<[u64; (CHUNK_BLOCKS / 64) as usize]>>,
    blocks: u64,
    readings: HashMap<u32, Reading>,
}

impl PageCache {
    /// An empty cache for a device of `size_bytes`. Memory grows with its content: 32 KiB per GiB.
    #[must_use]
    pub fn new(size_bytes: u64) -> Self {
        PageCache { size_bytes, chunks: HashMap::new(), blocks: 0, readings: HashMap::new() }
    }

    /// The fetch that a read needs, with readahead: none unless `submitter` continues its previous read, then
    /// doubled each time, up to 128 KiB. The read must lie within the device.
    pub fn lookup(&mut self, submitter: u32, offset_bytes: u64, len_bytes: u64) -> Lookup {
        let last = self.readings.get(&submitter).copied();
        let reads_on = last.is_some_and(|last| last.end_bytes == offset_bytes);
        let mut window = if reads_on { last.map_or(0, |last| last.window) } else { 0 };
        let (first, end) = blocks_touched(offset_bytes, len_bytes);
        let lookup = match (first..end).find(|&block| !self.has(block)) {
            None => Lookup::Hit,
            Some(from) => {
                if reads_on {
                    window = (window * 2).clamp(WINDOW_MIN, WINDOW_MAX);
                }
                let last_missing = (from..end).rev().find(|&block| !self.has(block)).unwrap_or(from);
                let ahead_end = if reads_on { (from + window).min(self.size_bytes.div_ceil(BLOCK_BYTES)) } else { 0 };
                let to = (last_missing + 1..ahead_end).take_while(|&block| !self.has(block)).last();
                let to_bytes = ((to.unwrap_or(last_missing) + 1) * BLOCK_BYTES).min(self.size_bytes);
                Lookup::Fetch { offset_bytes: from * BLOCK_BYTES, len_bytes: to_bytes - from * BLOCK_BYTES }
            }
        };
        if self.readings.len() >= SUBMITTERS_MAX && last.is_none() {
            self.readings.clear();
        }
        self.readings.insert(submitter, Reading { end_bytes: offset_bytes + len_bytes, window });
        lookup
    }

    /// Marks the blocks of a completed fetch as cached.
    pub fn fetched(&mut self, offset_bytes: u64, len_bytes: u64) {
        let (first, end) = blocks_touched(offset_bytes, len_bytes);
        for block in first..end {
            let chunk = self.chunks.entry(block / CHUNK_BLOCKS).or_insert_with(|| Box::new([0; 64]));
            let word = &mut chunk[(block % CHUNK_BLOCKS / 64) as usize];
            let bit = 1 << (block % 64);
            self.blocks += u64::from(*word & bit == 0);
            *word |= bit;
        }
    }

    /// Cached bytes, in whole blocks.
    #[must_use]
    pub fn cached_bytes(&self) -> u64 {
        self.blocks * BLOCK_BYTES
    }

    /// Drops all blocks and the readahead state.
    pub fn drop_all(&mut self) {
        self.chunks.clear();
        self.readings.clear();
        self.blocks = 0;
    }

    fn has(&self, block: u64) -> bool {
        let chunk = self.chunks.get(&(block / CHUNK_BLOCKS));
        chunk.is_some_and(|chunk| chunk[(block % CHUNK_BLOCKS / 64) as usize] & (1 << (block % 64)) != 0)
    }
}
