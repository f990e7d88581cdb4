//! Blocks that cannot be mended: no current copy matches its checksum, or copies differ although each of them matches.
//!
//! They are listed until they are written anew or found to be right, so that they are told with their places and not tried for ever.

use std::collections::BTreeMap;

use super::super::{bit, each};
use crate::copies::COPIES_MAX;
use crate::enums::listed;

/// Most blocks that are listed: their list is kept by the shell as a whole. More are counted.
pub const BAD_BLOCKS_MAX: usize = 4096;

listed! {
    /// What is wrong with a block.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    #[repr(u8)]
    pub enum Flaw {
        /// It matches its checksum on no current copy: reads of it fail.
        Unreadable = 1 => "unreadable",
        /// Copies differ, though each matches its checksum: a read returns the bytes of one of them.
        Differs => "differs",
    }
}

/// A block that is listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadBlock {
    /// Its chunk.
    pub chunk: u32,
    /// Its number in the chunk.
    pub block: u32,
    /// What is wrong with it.
    pub flaw: Flaw,
    /// The copies that it was found on, one bit each.
    pub copies: u8,
    /// What copies that differ have: the hash of each, as in a digest.
    pub hashes: [u64; COPIES_MAX],
}

/// Neighbouring blocks of one chunk with the same flaw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadRange {
    /// The first of them.
    pub first: BadBlock,
    /// How many there are.
    pub count: u32,
}

/// What is known of a block.
type Known = (Flaw, u8, [u64; COPIES_MAX]);

/// The list.
#[derive(Debug, Default)]
pub struct BadBlocks {
    blocks: BTreeMap<(u32, u32), Known>,
    /// How many found no room since it was last full.
    unlisted: u64,
    /// Grows with each change.
    version: u64,
}

impl BadBlocks {
    /// A list of blocks that was kept. Those beyond the limit, and what is no block of the volume, are left out.
    pub fn new(kept: &[BadBlock], chunks: u32, blocks_of_chunk: u32) -> BadBlocks {
        let mut list = BadBlocks::default();
        for bad in kept.iter().filter(|bad| bad.chunk < chunks && bad.block < blocks_of_chunk) {
            list.note(*bad);
        }
        list.version = 0;
        list
    }

    pub fn len(&self) -> usize {
        self.blocks.len()
    }

    pub fn unlisted(&self) -> u64 {
        self.unlisted
    }

    pub fn version(&self) -> u64 {
        self.version
    }

    /// Lists a block. True if that is news.
    pub fn note(&mut self, bad: BadBlock) -> bool {
        let (place, what) = ((bad.chunk, bad.block), (bad.flaw, bad.copies, bad.hashes));
        if self.blocks.get(&place) == Some(&what) {
            return false;
        }
        if self.blocks.len() >= BAD_BLOCKS_MAX && !self.blocks.contains_key(&place) {
            self.unlisted += 1;
            return false;
        }
        self.version += 1;
        self.blocks.insert(place, what).is_none_or(|(flaw, ..)| flaw != bad.flaw)
    }

    /// Some blocks of a chunk have none of these flaws any more.
    pub fn clear(&mut self, chunk: u32, blocks: std::ops::Range<u32>, is_cleared: impl Fn(Flaw) -> bool) {
        if self.blocks.is_empty() || blocks.is_empty() {
            return;
        }
        let listed = self.blocks.range((chunk, blocks.start)..(chunk, blocks.end));
        let cleared: Vec<_> = listed.filter(|(_, (flaw, ..))| is_cleared(*flaw)).map(|(&place, _)| place).collect();
        for place in cleared {
            self.blocks.remove(&place);
            self.version += 1;
            self.unlisted = 0;
        }
    }

    /// A copy of a chunk is behind from now on: where the others have the same, nothing differs any more.
    pub fn fell_behind(&mut self, chunk: u32, copy: usize) {
        let is_over = |&(flaw, copies, hashes): &Known| {
            let mut others = each(copies & !bit(copy)).map(|other| hashes.get(other));
            let first = others.next();
            flaw == Flaw::Differs && copies & bit(copy) != 0 && others.all(|hash| Some(hash) == first)
        };
        let listed = self.blocks.range((chunk, 0)..=(chunk, u32::MAX));
        let over: Vec<_> = listed.filter(|(_, known)| is_over(known)).map(|(&place, _)| place).collect();
        for place in over {
            self.blocks.remove(&place);
            self.version += 1;
            self.unlisted = 0;
        }
    }

    /// Chunks from this one on are gone.
    pub fn forget_behind(&mut self, chunks: u32) {
        if !self.blocks.split_off(&(chunks, 0)).is_empty() {
            self.version += 1;
            self.unlisted = 0;
        }
    }

    /// Whether a block is listed as one that differs between these copies, and each has what it had then.
    pub fn differs_as_listed(&self, chunk: u32, block: u32, copies: u8, hash: impl Fn(usize) -> u64) -> bool {
        let listed = self.blocks.get(&(chunk, block)).filter(|known| (known.0, known.1) == (Flaw::Differs, copies));
        listed.is_some_and(|(.., hashes)| each(copies).all(|copy| hashes.get(copy) == Some(&hash(copy))))
    }

    /// Whether a chunk has a block of which copies differ.
    pub fn has_differing(&self, chunk: u32) -> bool {
        let mut listed = self.blocks.range((chunk, 0)..=(chunk, u32::MAX));
        !self.blocks.is_empty() && listed.any(|(_, (flaw, ..))| *flaw == Flaw::Differs)
    }

    /// All of them, by their places.
    pub fn all(&self) -> impl Iterator<Item = BadBlock> + '_ {
        self.blocks.iter().map(|(&(chunk, block), &(flaw, copies, hashes))| BadBlock {
            chunk,
            block,
            flaw,
            copies,
            hashes,
        })
    }

    /// The same, neighbours together.
    pub fn ranges(&self) -> Vec<BadRange> {
        let mut ranges: Vec<BadRange> = Vec::new();
        for bad in self.all() {
            let is_next = |range: &&mut BadRange| {
                let first = range.first;
                (first.chunk, first.flaw, first.copies) == (bad.chunk, bad.flaw, bad.copies)
                    && first.block + range.count == bad.block
            };
            match ranges.last_mut().filter(is_next) {
                Some(range) => range.count += 1,
                None => ranges.push(BadRange { first: bad, count: 1 }),
            }
        }
        ranges
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bad(chunk: u32, block: u32, flaw: Flaw) -> BadBlock {
        BadBlock { chunk, block, flaw, copies: 3, hashes: [0; COPIES_MAX] }
    }

    #[test]
    fn a_block_is_listed_once_until_it_is_right() {
        let mut list = BadBlocks::default();
        assert!(list.note(bad(1, 2, Flaw::Unreadable)) && !list.note(bad(1, 2, Flaw::Unreadable)));
        assert!(!list.note(BadBlock { copies: 1, ..bad(1, 2, Flaw::Unreadable) }), "on another copy");
        assert!(list.note(bad(1, 2, Flaw::Differs)), "now it is something else");
        let version = list.version();
        list.clear(1, 2..3, |flaw| flaw == Flaw::Unreadable);
        list.clear(1, 0..2, |_| true);
        list.clear(1, 3..9, |_| true);
        list.clear(0, 2..3, |_| true);
        assert_eq!((list.len(), list.version()), (1, version));
        list.clear(1, 2..3, |_| true);
        assert!(list.len() == 0 && list.version() > version);
    }

    #[test]
    fn the_list_has_a_limit_and_counts_what_is_beyond() {
        for (count, listed, unlisted) in [
            (BAD_BLOCKS_MAX - 1, BAD_BLOCKS_MAX - 1, 0),
            (BAD_BLOCKS_MAX, BAD_BLOCKS_MAX, 0),
            (BAD_BLOCKS_MAX + 1, BAD_BLOCKS_MAX, 1),
        ] {
            let mut list = BadBlocks::default();
            for n in 0..count as u32 {
                list.note(bad(n / 7, n % 7, Flaw::Differs));
            }
            assert_eq!((list.len(), list.unlisted()), (listed, unlisted), "{count}");
            let kept: Vec<BadBlock> = list.all().collect();
            assert_eq!(BadBlocks::new(&kept, u32::MAX, 7).all().collect::<Vec<_>>(), kept, "{count}");
        }
        let full: Vec<BadBlock> = (0..BAD_BLOCKS_MAX as u32 + 1).map(|n| bad(n, 0, Flaw::Differs)).collect();
        assert_eq!(BadBlocks::new(&full, u32::MAX, 1).len(), BAD_BLOCKS_MAX);
    }

    #[test]
    fn a_block_differs_as_listed_while_no_copy_has_changed() {
        let mut list = BadBlocks::default();
        list.note(BadBlock { hashes: [7, 8, 0, 0], ..bad(1, 2, Flaw::Differs) });
        list.note(BadBlock { hashes: [7, 8, 0, 0], ..bad(1, 3, Flaw::Unreadable) });
        let hashes = |first, second| move |copy: usize| [first, second, 9, 9][copy];
        assert!(list.differs_as_listed(1, 2, 3, hashes(7, 8)));
        assert!(!list.differs_as_listed(1, 2, 3, hashes(7, 7)) && !list.differs_as_listed(1, 2, 3, hashes(8, 7)));
        assert!(!list.differs_as_listed(1, 2, 7, hashes(7, 8)) && !list.differs_as_listed(1, 2, 1, hashes(7, 8)));
        assert!(!list.differs_as_listed(1, 3, 3, hashes(7, 8)) && !list.differs_as_listed(1, 4, 3, hashes(7, 8)));
    }

    #[test]
    fn what_is_no_block_of_the_volume_is_left_out() {
        let kept = [bad(9, 15, Flaw::Differs), bad(10, 0, Flaw::Differs), bad(0, 16, Flaw::Unreadable)];
        assert_eq!(BadBlocks::new(&kept, 10, 16).all().collect::<Vec<_>>(), kept[..1]);
    }

    #[test]
    fn neighbours_of_one_kind_are_one_range() {
        let mut list = BadBlocks::default();
        for (chunk, block, flaw) in [
            (0, 7, Flaw::Unreadable),
            (1, 0, Flaw::Unreadable),
            (1, 1, Flaw::Unreadable),
            (1, 2, Flaw::Differs),
            (1, 4, Flaw::Differs),
        ] {
            list.note(bad(chunk, block, flaw));
        }
        let ranges: Vec<_> = list.ranges().iter().map(|r| (r.first.chunk, r.first.block, r.count)).collect();
        assert_eq!(ranges, [(0, 7, 1), (1, 0, 2), (1, 2, 1), (1, 4, 1)]);
    }
}
