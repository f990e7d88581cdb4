//! Blocks that copies which fell behind have all the same, as no change has reached them since.
//!
//! A block that was being changed when a copy fell behind may be on that copy with the change, and corrupt on the current one, which refused the change.
//! Then no CRC-32 proves what the copy behind has. It is right all the same: it has all that was acknowledged, and a change at most that was sent to both
//! and not told. Only such blocks are believed; for all others the proof is asked for.

use std::collections::BTreeSet;

use super::change::{At, Change};
use super::chunk::Chunk;
use super::{Copies, Cx, bit, each, mask};
use crate::wire::digest::DIGEST_BLOCK_BYTES;

/// Blocks of a chunk that copies behind have. The gateway keeps the state in memory while the chunk is in use.
#[derive(Debug, Default)]
pub struct Kept {
    copies: u8,
    /// A bit for each block that a change has reached, and one of these copies perhaps not.
    changed: Vec<u64>,
    /// Blocks of which a part was to be changed, and which all current copies answered with *corrupt*.
    wanted: BTreeSet<u32>,
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

    /// Whether it is known for blocks that may be looked for.
    pub fn is_wanted(&self) -> bool {
        !self.wanted.is_empty()
    }

    /// Only these copies are behind.
    pub fn limit(&mut self, behind: u8) {
        self.copies &= behind;
        if self.copies == 0 {
            self.changed.clear();
            self.wanted.clear();
        }
    }
}

impl Copies {
    /// Copies have fallen behind that had all changes until now: they were put out, are to be compared, or have a corrupt block. A device that failed a
    /// flush may have lost what it had in memory.
    pub(super) fn keep(&mut self, chunk: u32, copies: u8) {
        let behind = self.image.marks(chunk).behind;
        let has_failed = |copy: &usize| {
            let member = self.members.get(usize::from(self.member_of(chunk, *copy)));
            member.is_none_or(|member| member.has_failed_flush)
        };
        let kept = mask(each(copies & behind).filter(|copy| !has_failed(copy)));
        if !self.is_on_hold(chunk)
            && let Some(state) = self.chunks.get_mut(&chunk)
        {
            state.kept.limit(behind);
            state.kept.copies |= kept;
        }
    }

    /// Whether a current copy has a change, or may have it, that one of those behind may lack.
    fn is_missed(&self, change: &Change, kept: u8) -> bool {
        let has_all = |copy: usize| change.copies[copy] == At::Done && change.cut & bit(copy) == 0;
        change.may_have_reached(self.holders(change.chunk)) && !each(kept).all(has_all)
    }

    /// A change has ended: notes which blocks the copies behind may lack by it.
    pub(super) fn note_reached(&mut self, change: &Change) {
        let kept = self.chunks.get(&change.chunk).map_or(0, |state| state.kept.copies);
        if kept != 0
            && self.is_missed(change, kept)
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

    /// A member has no link any more: changes that were told do not wait for its answers.
    pub(super) fn end_kept(&mut self, cx: &mut Cx<'_>, member: u16) {
        let is_kept = |chunk: u32, state: &Chunk| {
            state.kept.copies != 0 && self.copy_on(chunk, member).is_some_and(|copy| state.kept.copies & bit(copy) != 0)
        };
        let of_it = self.chunks.iter().filter(|(chunk, state)| is_kept(**chunk, state));
        let places: Vec<usize> = of_it.flat_map(|(_, state)| state.changes.clone()).collect();
        for place in places {
            self.end_if_over(cx, place);
        }
    }

    /// A device has restarted, or has another extent: what is known of copies beside it, too, means nothing any more.
    pub(super) fn forget_kept(&mut self, member: u16) {
        let chunks: Vec<u32> =
            self.chunks.keys().copied().filter(|&chunk| self.copy_on(chunk, member).is_some()).collect();
        for chunk in chunks {
            self.limit_kept(chunk, 0);
        }
    }

    /// All current copies have answered a change with *corrupt*: blocks of which it changes a part are looked for on copies behind that were sent it.
    pub(super) fn want_kept(&mut self, place: usize) {
        let Some(change) = self.changes.get(place) else { return };
        let (at, end, was_sent) = (change.at, change.at + change.len, change.sent_to());
        let edges = [at, end].into_iter().filter(|edge| !edge.is_multiple_of(DIGEST_BLOCK_BYTES));
        if let Some(state) = self.chunks.get_mut(&change.chunk)
            && state.kept.copies & was_sent != 0
        {
            state.kept.wanted.extend(edges.map(|edge| edge / DIGEST_BLOCK_BYTES));
        }
    }

    /// Only these copies of a chunk are behind from now on.
    pub(super) fn limit_kept(&mut self, chunk: u32, behind: u8) {
        if let Some(state) = self.chunks.get_mut(&chunk) {
            state.kept.limit(behind);
        }
    }

    /// Limits what is known of some chunks in a row, of which only these copies are behind.
    pub(super) fn limit_kept_of(&mut self, first: u32, count: u32, behind: u8) {
        for (_, state) in self.chunks.range_mut(first..first.saturating_add(count)) {
            state.kept.limit(behind);
        }
    }

    /// The copies behind that have a block as the current ones should, though no CRC-32 proves it.
    pub(super) fn kept(&self, chunk: u32, block: u32) -> u8 {
        let Some(state) = self.chunks.get(&chunk).filter(|state| state.kept.wanted.contains(&block)) else { return 0 };
        let kept = state.kept.copies & self.image.marks(chunk).behind;
        let (at, len) = (block * DIGEST_BLOCK_BYTES, DIGEST_BLOCK_BYTES);
        let mut under_way = state.changes.iter().filter_map(|&place| self.changes.get(place));
        let is_missed = state.kept.is_changed(block)
            || under_way.any(|change| change.overlaps(at, len) && self.is_missed(change, kept));
        if is_missed { 0 } else { kept }
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
