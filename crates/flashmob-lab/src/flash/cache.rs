//! A much simplified page cache with readahead, for a modelled device that is read through one.
//!
//! It only knows which pages are there. Its limits: it never evicts (give it a [`PageCache::drop_all`]
//! instead), two threads that miss the same page at once both fetch it, readahead is fetched when the page before is
//! missed and not earlier in the background, writes pass it by.

use std::collections::HashMap;

use super::{BLOCK_BYTES, blocks_touched};

/// The first window of readahead in blocks: 16 KiB, as Linux begins with for reads of one page.
const WINDOW_MIN: u64 = 4;
/// The largest: 128 KiB, the default of Linux (`read_ahead_kb`).
const WINDOW_MAX: u64 = 32;
/// Blocks in one piece of the bitset: 16 MiB of the device in 512 bytes.
const CHUNK_BLOCKS: u64 = 4096;
/// Submitters whose reading is followed; with more, all are forgotten and begin anew.
const SUBMITTERS_MAX: usize = 4096;

/// The result of a lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// Nothing: all of it is there.
    Hit,
    /// This from the device, whole blocks, up to the end of the device; then [`PageCache::fetched`].
    Fetch {
        /// Where to begin.
        offset_bytes: u64,
        /// How much.
        len_bytes: u64,
    },
}

#[derive(Clone, Copy, Debug)]
struct Reading {
    /// The byte after its last read.
    end_bytes: u64,
    /// Its last window in blocks; 0 while it does not read on.
    window: u64,
}

/// Which blocks of a device are in memory.
#[derive(Clone, Debug)]
pub struct PageCache {
    size_bytes: u64,
    chunks: HashMap<u64, Box<[u64; (CHUNK_BLOCKS / 64) as usize]>>,
    blocks: u64,
    readings: HashMap<u32, Reading>,
}

impl PageCache {
    /// An empty cache before a device of `size_bytes`. It takes memory as it fills: 32 KiB for each GiB.
    #[must_use]
    pub fn new(size_bytes: u64) -> Self {
        PageCache { size_bytes, chunks: HashMap::new(), blocks: 0, readings: HashMap::new() }
    }

    /// The fetch that a read needs, with readahead: none unless `submitter` reads on where it left off, then
    /// twice as far each time, up to 128 KiB. The read must lie within the device.
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

    /// The blocks of a fetch have come.
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

    /// How many bytes are there, in whole blocks.
    #[must_use]
    pub fn cached_bytes(&self) -> u64 {
        self.blocks * BLOCK_BYTES
    }

    /// Forgets everything, also how submitters read.
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
