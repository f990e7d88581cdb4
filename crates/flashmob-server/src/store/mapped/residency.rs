//! Knowledge of which pages are in the page cache, and how long it is valid.
//!
//! The kernel may evict a page at any time without notice, so this is never certain: it is a recent answer of `mincore`. It
//! decides which way a read takes, never its result. A table of regions, each with the time until
//! which its answer holds, and a bit for each page unless all of them were there.
//!
//! **What it costs.** `mincore` looks a page up in 5 ns where the page is mapped already, in 100 ns where it is not, and the
//! first touch of a mapped page is a minor fault of several microseconds. So a region is asked about only when reads
//! have shown that it is worth it: after [`HITS_BEFORE_ASKING`] reads that the page cache answered by a system call, and again
//! when its answer has grown old, if it served [`READS_BEFORE_RENEWING`] reads meanwhile. Regions that nobody reads, or that
//! are on the flash, cost nothing.
//!
//! **An extent with checksums** is read from the flash through the page cache, and a page that is there may be one that nobody has
//! verified. There a page counts as there only if it was verified as well, and at no look since then was absent. So a page's bit is set by
//! a read that was verified, and a look at the page cache only clears bits. Between two looks a page can be evicted and come back, and no
//! look can tell: so what is not looked at for [`VALID_TICKS`] beyond its validity is not known any more, and everything is verified again
//! once in 2^[`TRUST_SHIFT`] ticks. The cost of a hit is the same.
//!
//! Nothing here makes a system call or knows the time: both are passed in. One thread reads; others may call
//! [`Residency::forget`] and [`Residency::clear`] meanwhile.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use flashmob_core::units::Time;

/// Bytes of a region, as a power of two: 2 MiB, what one page of page tables covers with pages of 4 KiB.
pub(super) const REGION_SHIFT: u32 = 21;
/// Bytes of a region.
pub(super) const REGION_BYTES: u64 = 1 << REGION_SHIFT;
/// Maximum number of regions: 128 GiB. Further ones share their slots.
const SLOTS_MAX: u64 = 1 << 16;

/// Reads that the page cache must have answered by a system call before its region is asked about. A system call
/// costs 0.5 us more than a copy, to set a region up costs 60 to 130 us; so at worst it costs about half of what it saves later.
pub(super) const HITS_BEFORE_ASKING: u32 = 64;
/// Reads that a region must have served for its answer to be renewed at once when it is old.
pub(super) const READS_BEFORE_RENEWING: u32 = 16;

/// A tick is 2^20 ns: 1.05 ms.
const TICK_SHIFT: u32 = 20;
/// How long an answer holds while nothing is being evicted, in ticks.
pub(super) const VALID_TICKS: u32 = 1000;
/// How long it holds when pages have been seen to vanish.
pub(super) const VALID_TICKS_WARY: u32 = 125;
/// How long after that.
pub(super) const WARY_TICKS: u32 = 4000;

/// How long a page counts as verified, in ticks, as a power of two: 69 s. It costs one read in that time by a system call.
pub(super) const TRUST_SHIFT: u32 = 16;
/// How many ticks apart neighbouring regions are verified again: an odd part of 2^[`TRUST_SHIFT`], so that they spread over it.
const TRUST_STAGGER: u64 = 40_503;

/// Bytes of a block that has a checksum.
const BLOCK_BYTES: u64 = 4096;

/// Nothing is known.
const EMPTY: u64 = 0;
/// All pages are there.
const ALL: u64 = 1;
/// Those whose bit is set.
const SOME: u64 = 2;
/// Ticks are kept in 30 bits and wrap every 13 days. An answer counts as valid only if it ends at most
/// [`VALID_TICKS`] ahead, so a forgotten one looks valid again for a second each time: as harmless as an evicted page.
const TICK_MASK: u64 = (1 << 30) - 1;

/// A region's place: number of the region (32 bits), end of validity (30), state (2); and how often it was read.
#[derive(Debug, Default)]
struct Slot {
    tag: AtomicU64,
    /// Reads served from the mapping since the last answer.
    served: AtomicU32,
    /// Reads that the page cache answered by a system call since then.
    hits: AtomicU32,
}

/// Which way a read goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    /// All of its pages were there a moment ago.
    Resident,
    /// They were not, or nothing is known.
    Unknown,
    /// The knowledge of this region has expired, and it is worth renewing.
    Ask(u64),
}

/// The table.
#[derive(Debug)]
pub(super) struct Residency {
    page_shift: u32,
    words_per_region: usize,
    slots: Box<[Slot]>,
    bits: Box<[AtomicU64]>,
    now_tick: AtomicU32,
    /// When pages were last seen to have vanished; a time long past at first.
    eviction_tick: AtomicU32,
    /// Grows with every [`Residency::forget`], so that an answer that was fetched meanwhile is not kept.
    changes: AtomicU64,
    /// Pages have to be verified before they count.
    verifies: AtomicBool,
}

impl Residency {
    /// Knows nothing yet of an extent of `size_bytes`, in pages of `page_bytes`: a power of two up to [`REGION_BYTES`].
    pub fn new(size_bytes: u64, page_bytes: usize) -> Residency {
        let pages = (REGION_BYTES / page_bytes as u64) as usize;
        let words_per_region = pages.div_ceil(64);
        let slots = size_bytes.div_ceil(REGION_BYTES).clamp(1, SLOTS_MAX).next_power_of_two() as usize;
        Residency {
            page_shift: page_bytes.trailing_zeros(),
            words_per_region,
            slots: (0..slots).map(|_| Slot::default()).collect(),
            bits: (0..slots * words_per_region).map(|_| AtomicU64::new(0)).collect(),
            now_tick: AtomicU32::new(0),
            eviction_tick: AtomicU32::new(0u32.wrapping_sub(WARY_TICKS)),
            changes: AtomicU64::new(0),
            verifies: AtomicBool::new(false),
        }
    }

    /// Counts only pages that were verified, from now on.
    pub fn verify_from_now_on(&self) {
        self.verifies.store(true, Ordering::SeqCst);
        self.clear();
    }

    /// Pages of a region.
    pub fn pages_per_region(&self) -> usize {
        (REGION_BYTES >> self.page_shift) as usize
    }

    /// Sets the time.
    #[inline]
    pub fn tick(&self, now: Time) {
        self.now_tick.store((now.0 >> TICK_SHIFT) as u32, Ordering::Relaxed);
    }

    fn slot(&self, region: u64) -> usize {
        region as usize & (self.slots.len() - 1)
    }

    fn is_valid(&self, tag: u64) -> bool {
        let now = u64::from(self.now_tick.load(Ordering::Relaxed));
        let left = (tag >> 2).wrapping_sub(now) & TICK_MASK;
        left != 0 && left <= u64::from(VALID_TICKS)
    }

    /// Whether an answer is valid, or was a short while ago.
    fn is_recent(&self, tag: u64) -> bool {
        let now = u64::from(self.now_tick.load(Ordering::Relaxed));
        let over = now.wrapping_sub(tag >> 2) & TICK_MASK;
        over < u64::from(VALID_TICKS) || self.is_valid(tag)
    }

    /// Which of its times a region is in: what was verified in an earlier one has to be verified again.
    fn trust_of(region: u64, tick: u64) -> u64 {
        (tick.wrapping_add(region.wrapping_mul(TRUST_STAGGER)) & TICK_MASK) >> TRUST_SHIFT
    }

    /// Sets the bits of pages: of those that a range touches, or if they have to be verified, of those that its whole blocks cover.
    fn add_pages(&self, index: usize, offset_bytes: u64, end_bytes: u64) {
        let page_bytes = 1 << self.page_shift;
        let (first, end) = if self.verifies.load(Ordering::Relaxed) {
            let start = offset_bytes - offset_bytes % BLOCK_BYTES;
            (start.next_multiple_of(page_bytes), end_bytes.next_multiple_of(BLOCK_BYTES) / page_bytes * page_bytes)
        } else {
            (offset_bytes, end_bytes)
        };
        if first >= end {
            return;
        }
        let words = &self.bits[index * self.words_per_region..][..self.words_per_region];
        for page in self.page_of(first)..=self.page_of(end - 1) {
            words[page / 64].fetch_or(1 << (page % 64), Ordering::Relaxed);
        }
    }

    /// Notes that the whole blocks around a range are in the page cache and were verified, where something is known of their region. From
    /// any thread.
    pub fn note_verified(&self, offset_bytes: u64, len_bytes: u64) {
        let end = offset_bytes.saturating_add(len_bytes);
        let mut at = offset_bytes;
        while at < end {
            let region = at >> REGION_SHIFT;
            let until = end.min((region + 1) << REGION_SHIFT);
            let index = self.slot(region);
            let tag = self.slots[index].tag.load(Ordering::Acquire);
            if tag >> 32 == region && tag & 3 == SOME && self.is_valid(tag) {
                self.add_pages(index, at, until);
            }
            at = until;
        }
    }

    /// Which way a read of `len_bytes` (at least 1) at `offset_bytes` goes.
    #[inline]
    pub fn look(&self, offset_bytes: u64, len_bytes: u64) -> Look {
        let last = offset_bytes + len_bytes - 1;
        let (first_region, last_region) = (offset_bytes >> REGION_SHIFT, last >> REGION_SHIFT);
        if first_region == last_region {
            return self.look_within(first_region, offset_bytes, last);
        }
        for region in first_region..=last_region {
            let start = offset_bytes.max(region << REGION_SHIFT);
            let end = last.min((region << REGION_SHIFT) + REGION_BYTES - 1);
            match self.look_within(region, start, end) {
                Look::Resident => {}
                other => return other,
            }
        }
        Look::Resident
    }

    #[inline]
    fn look_within(&self, region: u64, first: u64, last: u64) -> Look {
        let index = self.slot(region);
        let slot = &self.slots[index];
        let tag = slot.tag.load(Ordering::Acquire);
        let state = tag & 3;
        if tag >> 32 != region || state == EMPTY {
            return Look::Unknown;
        }
        if !self.is_valid(tag) {
            let worth_it = slot.served.load(Ordering::Relaxed) >= READS_BEFORE_RENEWING;
            return if worth_it { Look::Ask(region) } else { Look::Unknown };
        }
        if state == SOME && !self.bits_are_set(index, self.page_of(first), self.page_of(last)) {
            return Look::Unknown;
        }
        // One thread reads, so nothing is lost between the two; if something were, it would be a count.
        slot.served.store(slot.served.load(Ordering::Relaxed).saturating_add(1), Ordering::Relaxed);
        Look::Resident
    }

    /// Which page of its region a byte lies in.
    fn page_of(&self, offset_bytes: u64) -> usize {
        ((offset_bytes & (REGION_BYTES - 1)) >> self.page_shift) as usize
    }

    fn bits_are_set(&self, index: usize, first: usize, last: usize) -> bool {
        let words = &self.bits[index * self.words_per_region..][..self.words_per_region];
        (first..=last).all(|page| words[page / 64].load(Ordering::Relaxed) >> (page % 64) & 1 != 0)
    }

    /// Notes a read that the mapping did not answer; `is_there` if the page cache had it. Returns a region that it is time to ask
    /// about.
    pub fn note(&self, offset_bytes: u64, len_bytes: u64, is_there: bool) -> Option<u64> {
        let last = offset_bytes + len_bytes - 1;
        let region = offset_bytes >> REGION_SHIFT;
        let last_here = last.min((region << REGION_SHIFT) + REGION_BYTES - 1);
        let index = self.slot(region);
        let slot = &self.slots[index];
        let tag = slot.tag.load(Ordering::Relaxed);
        if tag >> 32 != region {
            // The slot was another region's, or empty.
            slot.hits.store(0, Ordering::Relaxed);
            slot.tag.store(region << 32 | EMPTY, Ordering::Release);
        } else if is_there && tag & 3 == SOME && self.is_valid(tag) {
            // These pages have come since: the system call is as good a witness as mincore.
            self.add_pages(index, offset_bytes, last_here + 1);
            return None;
        }
        let hits = slot.hits.load(Ordering::Relaxed).saturating_add(1);
        slot.hits.store(hits, Ordering::Relaxed);
        (hits >= HITS_BEFORE_ASKING).then_some(region)
    }

    /// Takes the answer that `ask` writes, a byte for each page of the region, `pages.len()` of them. `ask` returns
    /// false if there is none. Returns how many pages that were believed to be there have vanished.
    pub fn renew(&self, region: u64, pages: &mut [u8], ask: impl FnOnce(&mut [u8]) -> bool) -> usize {
        let index = self.slot(region);
        let slot = &self.slots[index];
        let changes = self.changes.load(Ordering::SeqCst);
        slot.hits.store(0, Ordering::Relaxed);
        slot.served.store(0, Ordering::Relaxed);
        let tag = slot.tag.load(Ordering::Relaxed);
        if !ask(pages) {
            slot.tag.store(region << 32 | EMPTY, Ordering::SeqCst);
            return 0;
        }
        let state = if tag >> 32 == region { tag & 3 } else { EMPTY };
        let verifies = self.verifies.load(Ordering::SeqCst);
        let is_recent = self.is_recent(tag);
        let words = &self.bits[index * self.words_per_region..][..self.words_per_region];
        let (mut vanished, mut all) = (0, true);
        for (word, pages) in words.iter().zip(pages.chunks(64)) {
            let bits = pages.iter().enumerate().fold(0, |bits, (i, page)| bits | u64::from(page & 1) << i);
            let believed = match state {
                ALL => u64::MAX >> (64 - pages.len()),
                SOME => word.load(Ordering::Relaxed),
                _ => 0,
            };
            vanished += (believed & !bits).count_ones() as usize;
            let bits = match verifies {
                true if is_recent => bits & believed,
                true => 0,
                false => bits,
            };
            all &= bits.count_ones() as usize == pages.len();
            word.store(bits, Ordering::Relaxed);
        }
        let now = self.now_tick.load(Ordering::Relaxed);
        if vanished > 0 {
            self.eviction_tick.store(now, Ordering::Relaxed);
        }
        let wary = now.wrapping_sub(self.eviction_tick.load(Ordering::Relaxed)) < WARY_TICKS;
        let until = u64::from(now.wrapping_add(if wary { VALID_TICKS_WARY } else { VALID_TICKS })) & TICK_MASK;
        // The ends of answers follow each other without a gap: no time is left out.
        if verifies && Residency::trust_of(region, until) != Residency::trust_of(region, tag >> 2 & TICK_MASK) {
            words.iter().for_each(|word| word.store(0, Ordering::Relaxed));
            all = false;
        }
        slot.tag.store(region << 32 | until << 2 | if all { ALL } else { SOME }, Ordering::SeqCst);
        if self.changes.load(Ordering::SeqCst) != changes {
            // A range was punched out during `ask`, and `forget` may have read this slot before it was written.
            slot.tag.store(region << 32 | EMPTY, Ordering::SeqCst);
        }
        vanished
    }

    /// Forgets what was known of a range: its pages have been taken out of the page cache. From any thread.
    pub fn forget(&self, offset_bytes: u64, len_bytes: u64) {
        if len_bytes == 0 {
            return;
        }
        self.changes.fetch_add(1, Ordering::SeqCst);
        let (first, last) = (offset_bytes >> REGION_SHIFT, (offset_bytes + len_bytes - 1) >> REGION_SHIFT);
        if last - first >= self.slots.len() as u64 {
            return self.clear();
        }
        for region in first..=last {
            let slot = &self.slots[self.slot(region)];
            let tag = slot.tag.load(Ordering::SeqCst);
            if tag >> 32 == region {
                slot.tag.store(region << 32 | EMPTY, Ordering::SeqCst);
            }
        }
    }

    /// Forgets everything. From any thread.
    pub fn clear(&self) {
        self.changes.fetch_add(1, Ordering::SeqCst);
        for slot in &self.slots {
            slot.tag.store(EMPTY, Ordering::SeqCst);
        }
    }
}
