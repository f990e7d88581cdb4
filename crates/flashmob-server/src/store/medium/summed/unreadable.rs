//! Blocks that the device cannot read while it reads others, as flash does whose bits are beyond correction. Such a block counts as one that
//! does not match its checksum: another copy heals it, as a write of it has the flash use other cells.
//!
//! A read that fails is repeated block by block past the page cache, whose pages may be larger than a block. One that fails again is
//! unreadable if the device as a whole works, which another block near by has to show: with bytes that match a checksum which is not that
//! of zeros. Where none does the device fails, and so does the read, with [`Failure::Io`].

use flashmob_core::op::Failure;
use flashmob_core::wire::digest::mark_of;

use super::super::super::direct::Bounce;
use super::super::super::sums::format::{BLOCK_BYTES, crc_of_sum, sum_of};
use super::super::super::sums::{LOAD_MAX, Sums};
use super::super::Medium;
use super::BLOCK;

/// Blocks that are near each other: 256 KiB that begin at a multiple of it. They have all of their checksums or none.
const NEAR_BLOCKS: u64 = 64;

const _: () = assert!(NEAR_BLOCKS as usize <= LOAD_MAX);

impl Medium {
    /// Reads whole blocks, from the flash itself if that is wanted. A block that is unreadable gets a mark in place of its bytes, which never
    /// matches. False if there is one.
    pub(super) fn read_blocks(
        &self,
        sums: &Sums,
        start_bytes: u64,
        blocks: &mut [u8],
        is_from_flash: bool,
    ) -> Result<bool, Failure> {
        let read =
            if is_from_flash { self.read_flash(start_bytes, blocks) } else { self.read_exact(start_bytes, blocks) };
        self.read_or_mark(sums, start_bytes, blocks, read)
    }

    /// Reads a block at any place in memory. False if it is unreadable.
    pub(super) fn read_block(&self, sums: &Sums, block: u64, bytes: &mut [u8]) -> Result<bool, Failure> {
        let read = self.read(block * BLOCK, bytes, &mut Bounce::new(self.align_bytes()));
        self.read_or_mark(sums, block * BLOCK, bytes, read)
    }

    fn read_or_mark(
        &self,
        sums: &Sums,
        start_bytes: u64,
        blocks: &mut [u8],
        read: Result<(), Failure>,
    ) -> Result<bool, Failure> {
        match read {
            Ok(()) => Ok(true),
            // A file that was truncated by others is another matter.
            Err(Failure::Io) if !self.is_damaged() => self.read_one_by_one(sums, start_bytes, blocks),
            Err(failure) => Err(failure),
        }
    }

    #[cold]
    fn read_one_by_one(&self, sums: &Sums, start_bytes: u64, blocks: &mut [u8]) -> Result<bool, Failure> {
        let mut are_read = true;
        for (block, bytes) in (start_bytes / BLOCK..).zip(blocks.chunks_mut(BLOCK_BYTES)) {
            let Err(failure) = self.read_alone(block, bytes) else { continue };
            if self.is_damaged() || bytes.len() < BLOCK_BYTES || !self.reads_near(sums, block)? {
                return Err(failure);
            }
            let mut expected = [0];
            sums.load(block, &mut expected).map_err(|e| self.sums_failed("read", e))?;
            bytes.copy_from_slice(&mark_of(crc_of_sum(expected[0])));
            are_read = false;
        }
        Ok(are_read)
    }

    /// Reads a block past the page cache, and nothing with it that the system does not want.
    fn read_alone(&self, block: u64, bytes: &mut [u8]) -> Result<(), Failure> {
        if self.is_direct() {
            return self.read(block * BLOCK, bytes, &mut Bounce::new(self.align_bytes()));
        }
        let mut aligned = Bounce::new(BLOCK);
        let aligned = aligned.slice(bytes.len());
        self.read_flash(block * BLOCK, aligned)?;
        bytes.copy_from_slice(aligned);
        Ok(())
    }

    /// Whether the device reads another block near this one. A device that fails may take long for each, so few are tried: neighbours
    /// first, then ever farther ones.
    fn reads_near(&self, sums: &Sums, block: u64) -> Result<bool, Failure> {
        let first = block / NEAR_BLOCKS * NEAR_BLOCKS;
        let mut known = [0; NEAR_BLOCKS as usize];
        let known = &mut known[..NEAR_BLOCKS.min(sums.shape().blocks() - first) as usize];
        sums.load(first, known).map_err(|e| self.sums_failed("read", e))?;
        // Zeros are what a device may give that has nothing.
        let others = (first..).zip(&*known).filter(|&(other, &sum)| other != block && sum != 0);
        let mut others: Vec<(u64, u32)> = others.map(|(other, &sum)| (other, sum)).collect();
        others.sort_by_key(|&(other, _)| other.abs_diff(block));
        let mut bytes = [0; BLOCK_BYTES];
        let mut number = 1;
        while let Some(&(other, sum)) = others.get(number - 1) {
            let bytes = &mut bytes[..BLOCK.min(self.size_bytes() - other * BLOCK) as usize];
            if self.read_alone(other, bytes).is_ok() && sum_of(bytes) == sum {
                return Ok(true);
            }
            // The last one, too.
            number = if number < others.len() { (2 * number).min(others.len()) } else { number + 1 };
        }
        Ok(false)
    }
}
