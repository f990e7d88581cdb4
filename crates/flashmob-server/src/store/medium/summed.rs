//! Operations on an extent with checksums.
//!
//! Reads are widened to whole blocks, and only bytes that match their checksums leave: see [`Sums`](super::super::sums::Sums) for
//! what that finds. They take no lock. A change that runs beside a read can make it see new bytes with an old checksum, so a block that
//! does not match is looked at once more in a section of its own, where nothing changes it ([`Medium::judge`]). Changes take a section
//! for their blocks: bytes and checksums change in it together, and a part of a block is read, verified, changed and written whole.
//!
//! Blocks are thus kept apart here and not by the caller: the alignment of the store is that of its system calls. `changes` has the
//! changes; here are the reads, and what both need. A block that the device cannot read is one that does not match: see `unreadable`.

use std::io::IoSliceMut;
use std::sync::atomic::Ordering;

use flashmob_core::op::{Failure, Op, OpFlags};
use flashmob_core::wire::digest::{
    Corrupt, DIGEST_BLOCK_BYTES, DIGEST_BYTES, is_mark, mark_of, put_corrupt, put_digest, put_expected,
};
use rustix::io::Errno;

use super::super::direct::{Bounce, CHUNK_BYTES, Window};
use super::super::holes;
use super::super::sums::format::{BLOCK_BYTES, SLOT_BLOCKS_MAX, crc_of_sum, sum_of, sum_of_parts};
use super::super::sums::{LOAD_MAX, Sums, SumsError, SumsStatus};
use super::super::{StoreOp, TryRead, sys};
use super::{DAMAGED, Medium, SUMMED, failure_of, is_durable, unsupported};

mod changes;
mod unreadable;

const BLOCK: u64 = BLOCK_BYTES as u64;

// A window's checksums are read at once, and noted in one slot.
const _: () = assert!(CHUNK_BYTES == SLOT_BLOCKS_MAX * BLOCK_BYTES && SLOT_BLOCKS_MAX <= LOAD_MAX);
// A digest has a hash for each block that has a checksum.
const _: () = assert!(BLOCK_BYTES == DIGEST_BLOCK_BYTES as usize);

impl Medium {
    /// Keeps checksums from now on. First settles the changes that a killed process left unfinished. May block; to be called once, before
    /// anything else uses them. `stays_mapped`: reads may be answered from the mapping all the same, which are not all verified.
    pub fn keep_sums(&self, sums: Sums, stays_mapped: bool) -> Result<(), SumsError> {
        for (slot, change) in sums.unfinished()? {
            sums.settled(self.settle(&sums, &change));
            let emptied = sums.empty(slot);
            emptied.map_err(|e| SumsError::of("write", sums.path(), sums.shape().file_bytes(), e.into()))?;
        }
        let settled = sums.status().settled_blocks;
        if settled > 0 {
            log::info!(
                "{}: the node was killed while it changed {settled} blocks: they have their new checksums now",
                self.path.display()
            );
        }
        match self.mapped.get() {
            None => {}
            Some(mapped) if stays_mapped => {
                mapped.verify_from_now_on();
                log::warn!(
                    "{}: mapped, though it has checksums: a page that is evicted and comes back from the flash between two looks at it, \
                     a second apart, is served without being verified",
                    self.path.display()
                );
            }
            Some(mapped) => {
                mapped.give_up();
                self.tell_not_mapped();
            }
        }
        if self.sums.set(sums).is_ok() {
            self.state.fetch_or(SUMMED, Ordering::AcqRel);
        }
        Ok(())
    }

    /// The extent's checksums; `None` without any.
    pub fn sums(&self) -> Option<&Sums> {
        self.sums.get()
    }

    /// Whether it has checksums.
    pub fn is_summed(&self) -> bool {
        self.sums.get().is_some()
    }

    /// The state of its checksums; `None` without any.
    pub fn sums_status(&self) -> Option<SumsStatus> {
        self.sums.get().map(Sums::status)
    }

    /// For each part of the extent of `unit_bytes` whether it may hold something else than zeros.
    pub fn units_with_data(&self, unit_bytes: u64) -> Vec<bool> {
        holes::units_with_data(&self.opened, unit_bytes)
    }

    /// [`Medium::read_cached`] in another state than the usual one.
    #[cold]
    pub(super) fn read_cached_specially(&self, state: u8, offset_bytes: u64, bufs: &mut [IoSliceMut<'_>]) -> TryRead {
        match (self.sums.get(), bufs) {
            _ if state & DAMAGED != 0 => TryRead::Failed(Failure::Io),
            (Some(sums), [buf]) => self.read_cached_summed(sums, offset_bytes, buf),
            _ => TryRead::Miss,
        }
    }

    /// Reads from the page cache without waiting, and verifies. What does not match is a miss: the store looks again, and tells.
    fn read_cached_summed(&self, sums: &Sums, offset_bytes: u64, buf: &mut [u8]) -> TryRead {
        if !self.contains(offset_bytes, buf.len() as u64) {
            return TryRead::Failed(Failure::Invalid);
        }
        if buf.is_empty() {
            return TryRead::Hit;
        }
        let end = offset_bytes + buf.len() as u64;
        let first = offset_bytes / BLOCK;
        let count = (end.div_ceil(BLOCK) - first) as usize;
        if self.is_direct() || self.lacks_nowait() || count > LOAD_MAX || !sums.has_units_of(first, count as u64) {
            return TryRead::Miss;
        }
        let mut expected = [0; LOAD_MAX];
        let expected = &mut expected[..count];
        if !sums.load_cached(first, expected) {
            return TryRead::Miss;
        }
        let (mut head, mut tail) = ([0; BLOCK_BYTES], [0; BLOCK_BYTES]);
        let head = &mut head[..(offset_bytes - first * BLOCK) as usize];
        let tail_end = end.next_multiple_of(BLOCK).min(self.size_bytes());
        let tail = &mut tail[..(tail_end - end) as usize];
        let wanted = head.len() + buf.len() + tail.len();
        let mut slices = [IoSliceMut::new(head), IoSliceMut::new(buf), IoSliceMut::new(tail)];
        match sys::read_cached(&self.opened.file, &mut slices, first * BLOCK) {
            Ok(n) if n == wanted => {}
            Ok(_) | Err(Errno::AGAIN | Errno::INTR) => return TryRead::Miss,
            Err(e) if unsupported(e) => {
                self.nowait_missing.store(true, Ordering::Relaxed);
                return TryRead::Miss;
            }
            Err(e) if failure_of(e) == Failure::Io => return TryRead::Miss,
            Err(e) => return TryRead::Failed(self.failed("read", e)),
        }
        if match_all([head, buf, tail], expected) { TryRead::Hit } else { TryRead::Miss }
    }

    /// [`Medium::execute`] in another state than the usual one.
    #[cold]
    pub(super) fn execute_specially(&self, state: u8, op: &mut StoreOp, bounce: &mut Bounce) -> Result<(), Failure> {
        let Some(sums) = self.sums.get().filter(|_| state & DAMAGED == 0) else { return Err(Failure::Io) };
        self.check(op)?;
        let (offset, len) = (op.offset_bytes, u64::from(op.len_bytes));
        let durable = is_durable(op);
        match op.op {
            Op::Read => self.read_summed(sums, offset, &mut op.data, op.flags.has(OpFlags::UNVERIFIED), bounce),
            Op::Write if op.flags.marks_unreadable(op.op) => {
                self.mark_unreadable(sums, offset, &op.data, durable, bounce)
            }
            Op::Write => self.write_summed(sums, offset, &op.data, durable, bounce),
            Op::Flush => self.sync(),
            Op::Map => {
                let mapped = holes::map(&self.opened, offset, op.len_bytes, &mut op.data);
                mapped.map_err(|e| self.failed("seek", e))
            }
            Op::Digest => self.digest_summed(sums, (offset, op.len_bytes as usize), op.flags, &mut op.data, bounce),
            // Copies have to stay equal, so what is trimmed has to be zeros everywhere.
            Op::Trim | Op::WriteZeroes => {
                let keep_space = op.flags.has(OpFlags::NO_HOLE);
                let zeroed = self.write_zeroes_summed(sums, offset, len, keep_space, bounce);
                self.forget_mapped(offset, len);
                zeroed.and_then(|()| self.sync_if(durable))
            }
        }
    }

    /// The unit of its transfers: whole blocks that have checksums, and what O_DIRECT wants.
    pub fn granule_bytes(&self) -> u64 {
        self.align_bytes().max(BLOCK)
    }

    /// The whole blocks at the beginning of a range, without what lies behind the end of the extent.
    fn window(&self, offset_bytes: u64, len_bytes: usize) -> Window {
        let mut window = Window::first(offset_bytes, len_bytes, self.granule_bytes());
        let rest_bytes = self.size_bytes() - window.start_bytes;
        window.len_bytes = window.len_bytes.min(usize::try_from(rest_bytes).unwrap_or(usize::MAX));
        window
    }

    fn read_summed(
        &self,
        sums: &Sums,
        offset_bytes: u64,
        buf: &mut [u8],
        is_unverified: bool,
        bounce: &mut Bounce,
    ) -> Result<(), Failure> {
        let mut done = 0;
        while done < buf.len() {
            let window = self.window(offset_bytes + done as u64, buf.len() - done);
            self.sum_units(sums, &window, bounce)?;
            let part = &mut buf[done..done + window.take_bytes];
            if part.len() == window.len_bytes && !self.is_direct() {
                self.read_verified(sums, window.start_bytes, part, is_unverified)?;
            } else {
                let blocks = bounce.slice(window.len_bytes);
                self.read_verified(sums, window.start_bytes, blocks, is_unverified)?;
                part.copy_from_slice(&blocks[window.skip_bytes..window.skip_bytes + window.take_bytes]);
            }
            done += window.take_bytes;
        }
        self.note_verified(offset_bytes, buf.len());
        Ok(())
    }

    /// Reads the blocks of a window, and fails if one of them does not match.
    fn read_verified(&self, sums: &Sums, start: u64, blocks: &mut [u8], is_unverified: bool) -> Result<(), Failure> {
        self.read_blocks(sums, start, blocks, false)?;
        let mut result = Ok(());
        self.verify(sums, start, blocks, |block, bytes| {
            let judged = self.judge(sums, block, bytes, is_unverified);
            // All of them are told, and counted.
            result = result.and(judged);
        })?;
        result
    }

    /// Calls `differs` with each block that does not match its checksum.
    fn verify(
        &self,
        sums: &Sums,
        start_bytes: u64,
        blocks: &mut [u8],
        mut differs: impl FnMut(u64, &mut [u8]),
    ) -> Result<(), Failure> {
        let first = start_bytes / BLOCK;
        let mut expected = [0; LOAD_MAX];
        let expected = &mut expected[..blocks.len().div_ceil(BLOCK_BYTES)];
        sums.load(first, expected).map_err(|e| self.sums_failed("read", e))?;
        for (index, (block, &expected)) in blocks.chunks_mut(BLOCK_BYTES).zip(expected.iter()).enumerate() {
            if sum_of(block) != expected {
                differs(first + index as u64, block);
            }
        }
        Ok(())
    }

    /// Whether all blocks match, if the page cache has their checksums: for reads that another thread has done.
    pub fn matches_cached(&self, start_bytes: u64, blocks: &[u8]) -> bool {
        let Some(sums) = self.sums.get() else { return true };
        let mut expected = [0; LOAD_MAX];
        let Some(expected) = expected.get_mut(..blocks.len().div_ceil(BLOCK_BYTES)) else { return false };
        sums.load_cached(start_bytes / BLOCK, expected) && match_all([&[], blocks, &[]], expected)
    }

    /// Whether a range has checksums, so that it can be read without waiting for them to be made.
    pub fn has_units_of(&self, offset_bytes: u64, len_bytes: u64) -> bool {
        let first = offset_bytes / BLOCK;
        let count = (offset_bytes + len_bytes).div_ceil(BLOCK) - first;
        self.sums.get().is_none_or(|sums| count > 0 && sums.has_units_of(first, count))
    }

    /// Tells the mapping what was verified: it is in the page cache, too.
    pub fn note_verified(&self, offset_bytes: u64, len_bytes: usize) {
        if let Some(mapped) = self.mapped.get().filter(|_| !self.is_direct()) {
            mapped.note_verified(offset_bytes, len_bytes);
        }
    }

    /// Looks again at a block that did not match, with no change of it under way. `bytes` are the right ones if it succeeds.
    fn judge(&self, sums: &Sums, block: u64, bytes: &mut [u8], is_unverified: bool) -> Result<(), Failure> {
        let _section = sums.enter(block, 1);
        self.judge_within(sums, block, bytes, is_unverified)
    }

    /// The same within a section that has the block.
    fn judge_within(&self, sums: &Sums, block: u64, bytes: &mut [u8], is_unverified: bool) -> Result<(), Failure> {
        let at = block * BLOCK;
        let (mut expected, mut is_read) = ([0], true);
        for is_again in [false, true] {
            if is_again && !self.is_direct() {
                // The bytes may be right on the flash, and were damaged on the way or in memory.
                self.drop_pages(at, bytes.len() as u64);
            }
            is_read = self.read_block(sums, block, bytes)?;
            sums.load(block, &mut expected).map_err(|e| self.sums_failed("read", e))?;
            if !is_read {
                break;
            }
            if sum_of(bytes) == expected[0] {
                return Ok(());
            }
        }
        // A block that is marked has no bytes that could be the right ones.
        if is_unverified && !is_mark(bytes, crc_of_sum(expected[0])) {
            sums.store(block, &[sum_of(bytes)]).map_err(|e| self.sums_failed("write", e))?;
            sums.adopted(block);
            log::warn!(
                "{}: the block at {at} did not match its checksum; its bytes were taken as they are, as the gateway asked",
                self.path.display()
            );
            return Ok(());
        }
        Err(self.found_bad(sums, block, is_read))
    }

    fn found_bad(&self, sums: &Sums, block: u64, is_read: bool) -> Failure {
        if sums.found_bad(block) {
            let why = if is_read {
                "does not match its checksum: the flash returned other bytes than were written"
            } else {
                "cannot be read, and others near it can"
            };
            log::error!(
                "{}: the block at {} {why}. It is answered as an error until it is written again, from another copy",
                self.path.display(),
                block * BLOCK,
            );
        }
        Failure::Corrupt
    }

    /// Looks again at a block that did not match on the flash, with no change of it under way. If the page cache has the right bytes, they are
    /// written again: they may be the last ones.
    fn judge_flash(&self, sums: &Sums, block: u64, bytes: &mut [u8]) -> Result<(), Failure> {
        let _section = sums.enter(block, 1);
        if !self.reads_past_cache() {
            return self.judge_within(sums, block, bytes, false);
        }
        let (at, mut expected) = (block * BLOCK, [0]);
        sums.load(block, &mut expected).map_err(|e| self.sums_failed("read", e))?;
        let is_read = self.read_blocks(sums, at, bytes, true)?;
        if is_read && sum_of(bytes) == expected[0] {
            return Ok(());
        }
        if !self.is_direct() && self.read_exact(at, bytes).is_ok() && sum_of(bytes) == expected[0] {
            self.write_exact(at, bytes, false)?;
            sums.rewritten();
            log::warn!(
                "{}: the block at {at} was wrong on the flash and right in the page cache; it is written again",
                self.path.display()
            );
            return Ok(());
        }
        if !is_read {
            bytes.copy_from_slice(&mark_of(crc_of_sum(expected[0])));
        }
        Err(self.found_bad(sums, block, is_read))
    }

    /// Hashes blocks. For one that does not match its checksum that is told in place of a hash.
    fn digest_summed(
        &self,
        sums: &Sums,
        (offset_bytes, len_bytes): (u64, usize),
        flags: OpFlags,
        out: &mut [u8],
        bounce: &mut Bounce,
    ) -> Result<(), Failure> {
        let (is_from_flash, is_told) = (flags.has(OpFlags::FROM_FLASH), flags.has(OpFlags::EXPECTED));
        // Aligned for O_DIRECT, which the others may not be.
        let mut aligned = Bounce::new(BLOCK);
        let mut done = 0;
        while done < len_bytes {
            let window = self.window(offset_bytes + done as u64, len_bytes - done);
            self.sum_units(sums, &window, bounce)?;
            let blocks = if is_from_flash && !self.is_direct() { &mut aligned } else { &mut *bounce };
            let blocks = blocks.slice(window.len_bytes);
            self.read_blocks(sums, window.start_bytes, blocks, is_from_flash)?;
            let (mut corrupt, mut result) = (Vec::new(), Ok(()));
            self.verify(sums, window.start_bytes, blocks, |block, bytes| {
                let judged = if is_from_flash {
                    self.judge_flash(sums, block, bytes)
                } else {
                    self.judge(sums, block, bytes, false)
                };
                match judged {
                    Err(Failure::Corrupt) => {
                        let mut known = [0];
                        let loaded = sums.load(block, &mut known).map_err(|e| self.sums_failed("read", e));
                        result = result.and(loaded);
                        let expected = crc_of_sum(known[0]);
                        let told = Corrupt { expected, is_marked: is_mark(bytes, expected) };
                        corrupt.push(((block * BLOCK).wrapping_sub(offset_bytes), told));
                    }
                    judged => result = result.and(judged),
                }
            })?;
            result?;
            let part = &blocks[window.skip_bytes..window.skip_bytes + window.take_bytes];
            put_digest(part, &mut out[done / BLOCK_BYTES * DIGEST_BYTES..]);
            for (at, told) in corrupt {
                let index = (at / BLOCK) as usize;
                if is_told { put_expected(out, index, told) } else { put_corrupt(out, index) }
            }
            done += window.take_bytes;
        }
        Ok(())
    }

    /// The answer to an operation whose checksums could not be read or written.
    fn sums_failed(&self, action: &str, errno: Errno) -> Failure {
        self.failed(if action == "read" { "read checksums" } else { "write checksums" }, errno)
    }
}

/// The blocks of a window: the first, and how many.
fn blocks_of(window: &Window) -> (u64, u64) {
    (window.start_bytes / BLOCK, window.len_bytes.div_ceil(BLOCK_BYTES) as u64)
}

/// Whether blocks that lie in three parts one after the other match their checksums, of which there are as many as blocks.
fn match_all(parts: [&[u8]; 3], expected: &[u32]) -> bool {
    let mut rest = parts;
    expected.iter().all(|&expected| {
        let mut room = BLOCK_BYTES;
        let block = rest.each_mut().map(|part| {
            let (block, behind) = part.split_at(room.min(part.len()));
            (*part, room) = (behind, room - block.len());
            block
        });
        sum_of_parts(block) == expected
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_in_parts_match_as_whole_ones_do() {
        let bytes: Vec<u8> = (0..3 * BLOCK_BYTES as u32 - 100).map(|i| ((i * 7) >> 3) as u8).collect();
        let sums: Vec<u32> = bytes.chunks(BLOCK_BYTES).map(sum_of).collect();
        for (a, b) in
            [(0, 0), (0, bytes.len()), (1, 2), (4096, 8192), (100, 9000), (5000, 5001), (bytes.len(), bytes.len())]
        {
            assert!(match_all([&bytes[..a], &bytes[a..b], &bytes[b..]], &sums), "{a} {b}");
            for index in 0..3 {
                let mut wrong = sums.clone();
                wrong[index] ^= 1;
                assert!(!match_all([&bytes[..a], &bytes[a..b], &bytes[b..]], &wrong), "{a} {b}");
            }
        }
    }
}
