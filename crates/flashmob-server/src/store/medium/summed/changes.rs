//! Changes of an extent with checksums: bytes and checksums together, whole blocks, within a section.

use flashmob_core::checksum::checksum;
use flashmob_core::op::Failure;
use flashmob_core::wire::digest::{expected_of, mark_of};
use rustix::io::Errno;

use super::super::super::direct::{Bounce, Window};
use super::super::super::sums::format::{BLOCK_BYTES, Change, UNIT_BLOCKS, crc_of_sum, sum_of};
use super::super::super::sums::{LOAD_MAX, Section, Sums};
use super::super::{Medium, ZEROS};
use super::{BLOCK, blocks_of};

impl Medium {
    /// Makes the checksums of the units that a window touches, where they held data before there were any.
    pub(super) fn sum_units(&self, sums: &Sums, window: &Window, bounce: &mut Bounce) -> Result<(), Failure> {
        let (first, count) = blocks_of(window);
        if sums.has_units_of(first, count) {
            return Ok(());
        }
        (first / UNIT_BLOCKS..=(first + count - 1) / UNIT_BLOCKS).try_for_each(|unit| self.sum_unit(sums, unit, bounce))
    }

    fn sum_unit(&self, sums: &Sums, unit: u64, bounce: &mut Bounce) -> Result<(), Failure> {
        let (first, end) = (unit * UNIT_BLOCKS, ((unit + 1) * UNIT_BLOCKS).min(sums.shape().blocks()));
        let _section = sums.enter(first, end - first);
        if sums.has_unit(unit) {
            return Ok(());
        }
        let mut at = first * BLOCK;
        let end = (end * BLOCK).min(self.size_bytes());
        while at < end {
            let window = self.window(at, usize::try_from(end - at).unwrap_or(usize::MAX));
            let blocks = bounce.slice(window.len_bytes);
            self.read_exact(at, blocks)?;
            let new: Vec<u32> = blocks.chunks(BLOCK_BYTES).map(sum_of).collect();
            sums.store(at / BLOCK, &new).map_err(|e| self.sums_failed("write", e))?;
            at += window.take_bytes as u64;
        }
        sums.sync().map_err(|e| self.sync_broke(e))?;
        sums.add_unit(unit).map_err(|e| self.sums_failed("write", e))
    }

    pub(super) fn write_summed(
        &self,
        sums: &Sums,
        offset_bytes: u64,
        data: &[u8],
        durable: bool,
        bounce: &mut Bounce,
    ) -> Result<(), Failure> {
        if data.len() > self.window(offset_bytes, data.len().max(1)).take_bytes {
            // Nothing is written if the last block does not match; the first is verified before it is written anyway.
            self.verify_edge(sums, offset_bytes + data.len() as u64, bounce)?;
        }
        let mut done = 0;
        while done < data.len() {
            let window = self.window(offset_bytes + done as u64, data.len() - done);
            self.sum_units(sums, &window, bounce)?;
            self.write_section(sums, &window, &data[done..done + window.take_bytes], durable, bounce)?;
            done += window.take_bytes;
        }
        Ok(())
    }

    /// Marks whole blocks as unreadable: their bytes are lost, and each gets the checksum that these should have. A block whose bytes have it is
    /// right, and is left as it is. Reads of the others fail until they are written whole.
    pub(super) fn mark_unreadable(
        &self,
        sums: &Sums,
        offset_bytes: u64,
        payload: &[u8],
        durable: bool,
        bounce: &mut Bounce,
    ) -> Result<(), Failure> {
        for (at, expected) in (offset_bytes..).step_by(BLOCK_BYTES).zip(expected_of(payload)) {
            // With O_DIRECT it may be more than the block.
            let window = self.window(at, BLOCK_BYTES);
            self.sum_units(sums, &window, bounce)?;
            let (first, count) = blocks_of(&window);
            let section = sums.enter(first, count);
            let blocks = bounce.slice(window.len_bytes);
            if let Err(failure) = self.read_exact(window.start_bytes, blocks)
                && count > 1
            {
                return Err(failure);
            }
            let block = &mut blocks[window.skip_bytes..window.skip_bytes + BLOCK_BYTES];
            let is_right = checksum(block) == expected;
            if !is_right {
                block.copy_from_slice(&mark_of(expected));
            }
            // A page that was verified must not be answered from the mapping any more.
            self.forget_mapped(at, BLOCK);
            let change = Change::Sums { first: at / BLOCK, sums: vec![crc_of_sum(expected)] };
            self.change(sums, &section, change, durable, || self.write_exact(window.start_bytes, blocks, durable))?;
            self.forget_mapped(at, BLOCK);
            if !is_right {
                sums.found_bad(at / BLOCK);
                log::warn!(
                    "{}: the block at {at} is lost, as no copy has it: it is answered as an error until it is written again",
                    self.path.display()
                );
            }
        }
        Ok(())
    }

    /// Verifies the block that a change up to `end_bytes` would change a part of.
    fn verify_edge(&self, sums: &Sums, end_bytes: u64, bounce: &mut Bounce) -> Result<(), Failure> {
        if end_bytes == self.size_bytes() || end_bytes.is_multiple_of(BLOCK) {
            return Ok(());
        }
        self.read_summed(sums, end_bytes - 1, &mut [0], false, bounce)
    }

    /// Writes a window: bytes and checksums, with nobody else in it.
    fn write_section(
        &self,
        sums: &Sums,
        window: &Window,
        data: &[u8],
        durable: bool,
        bounce: &mut Bounce,
    ) -> Result<(), Failure> {
        let (first, count) = blocks_of(window);
        let section = sums.enter(first, count);
        let is_whole = data.len() == window.len_bytes;
        let blocks = if is_whole && !self.is_direct() {
            data
        } else {
            let blocks = bounce.slice(window.len_bytes);
            self.read_edges(sums, window, blocks)?;
            blocks[window.skip_bytes..window.skip_bytes + data.len()].copy_from_slice(data);
            blocks
        };
        let change = Change::Sums { first, sums: blocks.chunks(BLOCK_BYTES).map(sum_of).collect() };
        self.change(sums, &section, change, durable, || self.write_exact(window.start_bytes, blocks, durable))
    }

    /// Reads and verifies the first and the last part of a window, as far as they are not written whole.
    fn read_edges(&self, sums: &Sums, window: &Window, blocks: &mut [u8]) -> Result<(), Failure> {
        let granule = self.granule_bytes() as usize;
        let last = (blocks.len() - 1) / granule * granule;
        let rest_bytes = blocks.len() - window.skip_bytes - window.take_bytes;
        let is_first = window.skip_bytes > 0;
        let is_last = rest_bytes > 0 && (last > 0 || !is_first);
        for (is_read, start, end) in [(is_first, 0, granule.min(blocks.len())), (is_last, last, blocks.len())] {
            if !is_read {
                continue;
            }
            let (start_bytes, edge) = (window.start_bytes + start as u64, &mut blocks[start..end]);
            self.read_blocks(sums, start_bytes, edge, false)?;
            let mut result = Ok(());
            self.verify(sums, start_bytes, edge, |block, bytes| {
                result = result.and(self.judge_within(sums, block, bytes, false));
            })?;
            result?;
        }
        Ok(())
    }

    /// Carries a change out within its section: notes it, writes the bytes, then their checksums.
    fn change(
        &self,
        sums: &Sums,
        section: &Section<'_>,
        change: Change,
        durable: bool,
        write: impl FnOnce() -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let failed = |e| self.sums_failed("write", e);
        sums.note(section, Some(&change)).map_err(failed)?;
        if let Err(failure) = write() {
            // Each block has its old or its new bytes.
            self.settle(sums, &change);
            sums.note(section, None).map_err(failed)?;
            return Err(failure);
        }
        let (first, count) = match &change {
            Change::Sums { first, sums: new } => {
                let stored = if durable { sums.store_durably(*first, new) } else { sums.store(*first, new) };
                stored.map_err(|e| if durable { self.sync_broke(e) } else { failed(e) })?;
                if durable {
                    self.finish_sync()?;
                }
                (*first, new.len() as u64)
            }
            Change::Zeros { first, count } => {
                self.store_zeros(sums, *first, u64::from(*count)).map_err(failed)?;
                (*first, u64::from(*count))
            }
        };
        sums.healed(first, count);
        sums.note(section, None).map_err(failed)
    }

    /// Writes the checksums of zeros, where there are others.
    fn store_zeros(&self, sums: &Sums, first: u64, count: u64) -> Result<(), Errno> {
        let (mut at, end) = (first, first + count);
        while at < end {
            let mut found = [0; LOAD_MAX];
            let found = &mut found[..LOAD_MAX.min((end - at) as usize)];
            sums.load(at, found)?;
            if found.iter().any(|&sum| sum != 0) {
                found.fill(0);
                sums.store(at, found)?;
            }
            at += found.len() as u64;
        }
        Ok(())
    }

    /// Gives blocks their new checksums, where they have the new bytes of a change that was not finished. The others keep theirs. Returns
    /// how many got new ones.
    pub(super) fn settle(&self, sums: &Sums, change: &Change) -> u64 {
        let mut settled = 0;
        let mut bounce = Bounce::new(self.align_bytes());
        for (block, new) in change.blocks() {
            let at = block * BLOCK;
            let len_bytes = BLOCK.min(self.size_bytes() - at) as usize;
            let mut bytes = [0; BLOCK_BYTES];
            let bytes = &mut bytes[..len_bytes];
            let mut known = [0];
            let is_unfinished = self.read(at, bytes, &mut bounce).is_ok()
                && sums.load(block, &mut known).is_ok()
                && known[0] != new
                && sum_of(bytes) == new;
            settled += u64::from(is_unfinished && sums.store(block, &[new]).is_ok());
        }
        settled
    }

    /// Writes zeros, unit by unit: at the edges as bytes, between them whole blocks.
    pub(super) fn write_zeroes_summed(
        &self,
        sums: &Sums,
        offset: u64,
        len: u64,
        keep_space: bool,
        bounce: &mut Bounce,
    ) -> Result<(), Failure> {
        let end = offset + len;
        let whole_end = if end == self.size_bytes() { end } else { end - end % BLOCK };
        let start = offset.next_multiple_of(BLOCK).min(end);
        if start >= whole_end {
            return self.write_summed(sums, offset, &ZEROS[..len as usize], false, bounce);
        }
        self.verify_edge(sums, end, bounce)?;
        self.write_summed(sums, offset, &ZEROS[..(start - offset) as usize], false, bounce)?;
        let mut at = start;
        while at < whole_end {
            let unit = at / BLOCK / UNIT_BLOCKS;
            let until = ((unit + 1) * UNIT_BLOCKS * BLOCK).min(whole_end);
            self.zero_blocks(sums, (at, until), keep_space, bounce)?;
            at = until;
        }
        self.write_summed(sums, whole_end, &ZEROS[..(end - whole_end) as usize], false, bounce)
    }

    /// Makes whole blocks of one unit zeros.
    fn zero_blocks(
        &self,
        sums: &Sums,
        (start, end): (u64, u64),
        keep_space: bool,
        bounce: &mut Bounce,
    ) -> Result<(), Failure> {
        let (first, count) = (start / BLOCK, end.div_ceil(BLOCK) - start / BLOCK);
        let unit = first / UNIT_BLOCKS;
        let unit_end = ((unit + 1) * UNIT_BLOCKS).min(sums.shape().blocks());
        let is_whole_unit = first == unit * UNIT_BLOCKS && first + count == unit_end;
        if !is_whole_unit && !sums.has_unit(unit) {
            self.sum_unit(sums, unit, bounce)?;
        }
        let section = sums.enter(first, count);
        let change = Change::Zeros { first, count: count as u32 };
        self.change(sums, &section, change, false, || {
            self.check_size()?;
            self.write_zeroes(start, end - start, keep_space, bounce)
        })?;
        if !sums.has_unit(unit) {
            sums.sync().map_err(|e| self.sync_broke(e))?;
            sums.add_unit(unit).map_err(|e| self.sums_failed("write", e))?;
        }
        Ok(())
    }
}
