//! What copies that fell behind have all the same: the blocks that no change has reached since.
//!
//! Known in memory, of chunks in use. Where a current copy turns out to be corrupt, such a block of another one is right without a proof by CRC-32: it has
//! all that was acknowledged, and changes at most that were sent to both copies and are not told yet.

use super::change::{At, Change};
use super::{Copies, Cx, bit, each};
use crate::planted::{self, Bug};
use crate::wire::digest::DIGEST_BLOCK_BYTES;

/// What copies of a chunk have that are behind.
#[derive(Debug, Default)]
pub struct Kept {
    copies: u8,
    /// A bit for each block that a change has reached, and one of these copies perhaps not.
    changed: Vec<u64>,
    /// A change was answered *corrupt* by all current copies, and one of these may have it.
    pub is_wanted: bool,
}

impl Kept {
    fn note(&mut self, (at, len): (u32, u32)) {
        for block in at / DIGEST_BLOCK_BYTES..(at + len).div_ceil(DIGEST_BLOCK_BYTES) {
            let word = block as usize / 64;
            if self.changed.len() <= word {
                self.changed.resize(word + 1, 0);
            }
            self.changed[word] |= 1 << (block % 64);
        }
    }

    fn is_changed(&self, block: u32) -> bool {
        self.changed.get(block as usize / 64).is_some_and(|word| word >> (block % 64) & 1 != 0)
    }

    /// Only these copies are behind.
    pub fn limit(&mut self, behind: u8) {
        self.copies &= behind;
        if self.copies == 0 {
            self.changed.clear();
            self.is_wanted = false;
        }
    }
}

impl Copies {
    /// Copies have fallen behind that had all changes until now: they were put out, are to be compared, or have a corrupt block.
    pub(super) fn keep(&mut self, chunk: u32, copies: u8) {
        let behind = self.image.marks(chunk).behind;
        if !self.is_on_hold(chunk)
            && let Some(state) = self.chunks.get_mut(&chunk)
        {
            state.kept.limit(behind);
            state.kept.copies |= copies & behind;
        }
    }

    /// Whether some copies have a change that one of those behind may lack.
    fn is_missed(&self, change: &Change, kept: u8) -> bool {
        let is_done = |copy: usize| change.copies[copy] == At::Done;
        change.has_reached(self.holders(change.chunk)) && !each(kept).all(is_done)
    }

    /// A change has ended: notes which blocks the copies behind may lack by it.
    pub(super) fn note_reached(&mut self, change: &Change) {
        let kept = self.chunks.get(&change.chunk).map_or(0, |state| state.kept.copies);
        if kept != 0
            && self.is_missed(change, kept)
            && !planted::is(Bug::KeptUnlooked)
            && let Some(state) = self.chunks.get_mut(&change.chunk)
        {
            state.kept.note((change.at, change.len));
        }
    }

    /// The copies behind whose answers to changes tell what they have: those that are linked.
    pub(super) fn kept_there(&self, cx: &Cx<'_>, chunk: u32) -> u8 {
        let kept = self.chunks.get(&chunk).map_or(0, |state| state.kept.copies);
        if kept == 0 { 0 } else { self.usable_of(cx, chunk, kept) }
    }

    /// A device has restarted, or has another extent: what is known of copies beside it, too, means nothing any more.
    pub(super) fn forget_kept(&mut self, member: u16) {
        let chunks: Vec<u32> =
            self.chunks.keys().copied().filter(|&chunk| self.copy_on(chunk, member).is_some()).collect();
        for chunk in chunks {
            self.limit_kept(chunk, 0);
        }
    }

    /// A change was answered *corrupt* by all current copies: what is known of the others is not forgotten when the chunk is idle.
    pub(super) fn want_kept(&mut self, chunk: u32) {
        if let Some(state) = self.chunks.get_mut(&chunk) {
            state.kept.is_wanted = state.kept.copies != 0;
        }
    }

    /// Only these copies of a chunk are behind from now on.
    pub(super) fn limit_kept(&mut self, chunk: u32, behind: u8) {
        if let Some(state) = self.chunks.get_mut(&chunk) {
            state.kept.limit(behind);
        }
    }

    /// The same for some chunks in a row.
    pub(super) fn limit_kept_of(&mut self, first: u32, count: u32, behind: u8) {
        for (_, state) in self.chunks.range_mut(first..first.saturating_add(count)) {
            state.kept.limit(behind);
        }
    }

    /// The copies behind that have a block as the current ones should.
    pub(super) fn kept(&self, chunk: u32, block: u32) -> u8 {
        let Some(state) = self.chunks.get(&chunk).filter(|state| !state.kept.is_changed(block)) else { return 0 };
        let kept = state.kept.copies & self.image.marks(chunk).behind;
        let (at, len) = (block * DIGEST_BLOCK_BYTES, DIGEST_BLOCK_BYTES);
        let mut under_way = state.changes.iter().filter_map(|&place| self.changes.get(place));
        let is_missed = under_way.any(|change| change.overlaps(at, len) && self.is_missed(change, kept));
        if is_missed && !planted::is(Bug::KeptUnlooked) { 0 } else { kept }
    }

    /// A copy lies elsewhere now.
    pub(super) fn forget_kept_copy(&mut self, chunk: u32, copy: usize) {
        self.limit_kept(chunk, !bit(copy));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_reaches_each_block_of_which_it_changes_a_part() {
        let block = DIGEST_BLOCK_BYTES;
        let mut kept = Kept { copies: 2, ..Kept::default() };
        assert!(!kept.is_changed(0) && !kept.is_changed(1023));
        kept.note((3 * block + 1, 1));
        kept.note((63 * block + 100, block));
        kept.note((1023 * block, block));
        let changed: Vec<u32> = (0..1100).filter(|&block| kept.is_changed(block)).collect();
        assert_eq!(changed, [3, 63, 64, 1023]);
        kept.limit(3);
        assert!(kept.is_changed(3));
        kept.limit(1);
        assert!(kept.copies == 0 && !kept.is_changed(3));
    }
}
