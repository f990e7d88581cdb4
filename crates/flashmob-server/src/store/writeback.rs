//! Writing the page cache back: in steps before a flush, so that it makes progress that can be seen, and ahead of flushes, so that these find
//! little to do.
//!
//! A plain fdatasync of half a GiB to an SD card takes half a minute, in which nothing tells that node from a dead one. So dirty regions are
//! remembered, coarsely, and written and waited for one part after the other. The fdatasync that follows is what counts: nothing here decides
//! what is on the flash. Not for modelled flash, which has a time of its own for everything, and not with O_DIRECT.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU32, AtomicU64, Ordering};

use flashmob_core::units::MIB;
use rustix::io::{Errno, retry_on_intr};

use super::completions::Completions;
use super::error::unsupported;
use super::sys;

/// The unit in which dirty bytes are remembered, in bytes; more of an extent that would have too many of them.
const REGION_BYTES: u64 = 4 * MIB;
/// Most regions: what is remembered of them takes 1.1 MiB.
const REGIONS_MAX: u64 = 1 << 18;
/// A region is waited for in so many parts. A MiB is 256 pages: at 100 of them a second, as slow as cards get, that is less than a
/// gateway's patience.
const PARTS: u64 = 4;
/// A flush of less than this is one fdatasync, in bytes.
const IN_PARTS_FROM_BYTES: u64 = MIB;
/// Writeback begins when so much may be dirty of which it has not begun, in bytes; at most this part of the device's memory.
const AHEAD_BYTES: u64 = 64 * MIB;
const AHEAD_PART: u64 = 8;

/// States of the writeback ahead of flushes.
const IDLE: u8 = 0;
const DUE: u8 = 1;
const UNDER_WAY: u8 = 2;

/// What was written to a file and may not be on the flash.
#[derive(Debug)]
pub(super) struct Writeback {
    size_bytes: u64,
    region_bytes: u64,
    /// A bit for each region that was written to since the last flush.
    unsynced: Box<[AtomicU64]>,
    /// A bit for each region that was written to since its writeback last began.
    unstarted: Box<[AtomicU64]>,
    /// For each region the bytes written since then, at most its size: no more of it can be dirty, however often it was written.
    unstarted_bytes: Box<[AtomicU32]>,
    /// The sum. Below zero between two statements of a thread that begins a region and of one that writes to it.
    unstarted_sum_bytes: AtomicI64,
    /// Bytes written in all, and how many these were when the last flush began.
    written_bytes: AtomicU64,
    synced_bytes: AtomicU64,
    ahead_bytes: u64,
    ahead: AtomicU8,
    /// The kernel or the file system cannot write a part of a file.
    is_missing: AtomicBool,
    completions: Arc<Completions>,
}

/// How much may be written before writeback begins, in bytes, on this device.
#[allow(clippy::useless_conversion, reason = "the number has 32 bits on 32-bit systems")]
pub(super) fn ahead_bytes() -> u64 {
    let system = rustix::system::sysinfo();
    let memory_bytes =
        u64::try_from(system.totalram).unwrap_or(u64::MAX).saturating_mul(u64::from(system.mem_unit).max(1));
    AHEAD_BYTES.min(memory_bytes / AHEAD_PART)
}

impl Writeback {
    /// Of an extent of `size_bytes`, of which nothing was written yet. Progress is reported to `completions`.
    pub fn new(size_bytes: u64, ahead_bytes: u64, completions: Arc<Completions>) -> Writeback {
        let region_bytes = REGION_BYTES.max(size_bytes.div_ceil(REGIONS_MAX).next_multiple_of(REGION_BYTES));
        let regions = size_bytes.div_ceil(region_bytes);
        let words = regions.div_ceil(64);
        let bits = || (0..words).map(|_| AtomicU64::new(0)).collect();
        Writeback {
            size_bytes,
            region_bytes,
            unsynced: bits(),
            unstarted: bits(),
            unstarted_bytes: (0..regions).map(|_| AtomicU32::new(0)).collect(),
            unstarted_sum_bytes: AtomicI64::new(0),
            written_bytes: AtomicU64::new(0),
            synced_bytes: AtomicU64::new(0),
            ahead_bytes,
            ahead: AtomicU8::new(IDLE),
            is_missing: AtomicBool::new(false),
            completions,
        }
    }

    /// Notes bytes that were written.
    pub fn note(&self, offset_bytes: u64, len_bytes: u64) {
        if len_bytes == 0 || self.is_missing.load(Ordering::Relaxed) {
            return;
        }
        let end_bytes = offset_bytes + len_bytes;
        for region in offset_bytes / self.region_bytes..=(end_bytes - 1) / self.region_bytes {
            let start_bytes = region * self.region_bytes;
            let part_bytes = end_bytes.min(start_bytes + self.region_bytes) - offset_bytes.max(start_bytes);
            // Before the bit, so that whoever takes that finds them.
            self.note_unstarted(region, part_bytes);
            let (word, bit) = ((region / 64) as usize, 1 << (region % 64));
            for bits in [&self.unsynced, &self.unstarted] {
                if let Some(word) = bits.get(word).filter(|word| word.load(Ordering::Relaxed) & bit == 0) {
                    word.fetch_or(bit, Ordering::AcqRel);
                }
            }
        }
        self.written_bytes.fetch_add(len_bytes, Ordering::Relaxed);
        if self.unstarted_sum_bytes.load(Ordering::Relaxed) >= self.ahead_bytes as i64 {
            let _ = self.ahead.compare_exchange(IDLE, DUE, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Counts bytes that were written to a region.
    fn note_unstarted(&self, region: u64, len_bytes: u64) {
        let Some(counted_bytes) = self.unstarted_bytes.get(region as usize) else { return };
        let before_bytes = u64::from(counted_bytes.load(Ordering::Relaxed));
        let most_bytes = self.region_bytes.min(u64::from(u32::MAX / 4));
        // Two threads may count more than that at once, which is subtracted again when the region is begun.
        let more_bytes = len_bytes.min(most_bytes.saturating_sub(before_bytes));
        if more_bytes > 0 {
            counted_bytes.fetch_add(more_bytes as u32, Ordering::AcqRel);
            self.unstarted_sum_bytes.fetch_add(more_bytes as i64, Ordering::Relaxed);
        }
    }

    /// The writeback of a region has begun, or all of it is being synced.
    fn note_started(&self, region: u64) {
        let Some(counted_bytes) = self.unstarted_bytes.get(region as usize) else { return };
        let begun_bytes = counted_bytes.swap(0, Ordering::AcqRel);
        self.unstarted_sum_bytes.fetch_sub(i64::from(begun_bytes), Ordering::Relaxed);
    }

    /// Whether writeback ahead of flushes is to begin. True once: then [`Writeback::start_next`] is called until it says that all is begun.
    pub fn take_due(&self) -> bool {
        self.ahead.load(Ordering::Relaxed) == DUE
            && self.ahead.compare_exchange(DUE, UNDER_WAY, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Begins to write the next region back; false if all are begun. It waits for nothing but a place in the device's queue.
    pub fn start_next(&self, file: &File) -> Result<bool, Errno> {
        let Some(region) = take_first(&self.unstarted) else {
            self.ahead.store(IDLE, Ordering::Relaxed);
            return Ok(false);
        };
        self.note_started(region);
        let is_begun = self.write(file, self.range_of(region, 0, PARTS), false)?;
        if !is_begun {
            self.ahead.store(IDLE, Ordering::Relaxed);
        }
        Ok(is_begun)
    }

    /// Writes back what was written before this call, in parts, if it is much. Returns whether it was. An error is one of the flash: a sync does
    /// not report it again.
    pub fn write_all(&self, file: &File) -> Result<bool, Errno> {
        let written = self.written_bytes.load(Ordering::Relaxed);
        let dirty_bytes = written.saturating_sub(self.synced_bytes.swap(written, Ordering::Relaxed));
        let regions = take_all(&self.unsynced);
        for &region in &regions {
            clear(&self.unstarted, region);
            self.note_started(region);
        }
        if dirty_bytes < IN_PARTS_FROM_BYTES || self.is_missing.load(Ordering::Relaxed) {
            return Ok(false);
        }
        // The device has the next region to do while one is waited for.
        let mut ahead = regions.iter();
        for &region in ahead.by_ref().take(1) {
            self.write(file, self.range_of(region, 0, PARTS), false)?;
        }
        for &region in &regions {
            for &next in ahead.by_ref().take(1) {
                self.write(file, self.range_of(next, 0, PARTS), false)?;
            }
            for part in 0..PARTS {
                if !self.write(file, self.range_of(region, part, part + 1), true)? {
                    return Ok(false);
                }
                self.progressed();
            }
        }
        Ok(true)
    }

    /// Writes all of another file back in parts.
    pub fn write_beside(&self, file: &File, size_bytes: u64) -> Result<(), Errno> {
        let part_bytes = self.region_bytes / PARTS;
        for start_bytes in (0..size_bytes).step_by(part_bytes as usize) {
            let len_bytes = part_bytes.min(size_bytes - start_bytes);
            if !self.write(file, (start_bytes, len_bytes), true)? {
                return Ok(());
            }
            self.progressed();
        }
        Ok(())
    }

    #[cfg(test)]
    pub fn regions_to_begin(&self) -> usize {
        self.unstarted.iter().map(|word| word.load(Ordering::Relaxed).count_ones() as usize).sum()
    }

    /// A flush that takes long has made progress.
    pub fn progressed(&self) {
        self.completions.progressed();
    }

    /// Some parts of a region, without what lies behind the end of the extent: first byte, bytes.
    fn range_of(&self, region: u64, from: u64, to: u64) -> (u64, u64) {
        let part_bytes = self.region_bytes / PARTS;
        let [start, end] = [from, to].map(|part| (region * self.region_bytes + part * part_bytes).min(self.size_bytes));
        (start, end - start)
    }

    /// False if the system cannot do that.
    fn write(&self, file: &File, (start_bytes, len_bytes): (u64, u64), waits: bool) -> Result<bool, Errno> {
        // To the kernel a length of 0 means all of the rest.
        if len_bytes == 0 {
            return Ok(true);
        }
        match retry_on_intr(|| sys::write_back(file, start_bytes, len_bytes, waits)) {
            Ok(()) => Ok(true),
            Err(e) if unsupported(e) || e == Errno::SPIPE => {
                self.is_missing.store(true, Ordering::Relaxed);
                Ok(false)
            }
            Err(e) => Err(e),
        }
    }
}

/// Takes the first bit out of a set.
fn take_first(bits: &[AtomicU64]) -> Option<u64> {
    bits.iter().zip(0u64..).find_map(|(word, at)| {
        let first = word.load(Ordering::Relaxed).trailing_zeros();
        let is_taken = first < 64 && word.fetch_and(!(1 << first), Ordering::AcqRel) & 1 << first != 0;
        is_taken.then_some(at * 64 + u64::from(first))
    })
}

/// Takes one bit out of a set.
fn clear(bits: &[AtomicU64], bit: u64) {
    if let Some(word) = bits.get((bit / 64) as usize) {
        word.fetch_and(!(1 << (bit % 64)), Ordering::AcqRel);
    }
}

/// Takes all bits out of a set, in order.
fn take_all(bits: &[AtomicU64]) -> Vec<u64> {
    let mut taken = Vec::new();
    for (word, at) in bits.iter().zip(0u64..) {
        if word.load(Ordering::Relaxed) == 0 {
            continue;
        }
        let found = word.swap(0, Ordering::AcqRel);
        taken.extend((0..64).filter(|bit| found >> bit & 1 != 0).map(|bit| at * 64 + bit));
    }
    taken
}

#[cfg(test)]
#[path = "tests/writeback.rs"]
mod tests;
