//! Which copies a chunk has, in what state, and where they lie.

use super::{Copies, Cx};
use crate::copies::Place;

/// The copies in a mask.
pub(super) fn each(mask: u8) -> impl Iterator<Item = usize> {
    (0..8).filter(move |copy| mask & (1 << copy) != 0)
}

/// The mask of one copy.
pub(super) fn bit(copy: usize) -> u8 {
    1 << copy
}

/// The mask of several copies.
pub(super) fn mask(copies: impl Iterator<Item = usize>) -> u8 {
    copies.fold(0, |mask, copy| mask | bit(copy))
}

/// Cuts a range of a volume where chunks end, and where pieces would be too long: chunk, offset in it, length.
pub(super) fn cut(chunk_bytes: u64, offset_bytes: u64, len_bytes: u64) -> Vec<(u32, u32, u32)> {
    let (mut at, end) = (offset_bytes, offset_bytes + len_bytes);
    let mut parts = Vec::with_capacity(1);
    while at < end {
        let within = at % chunk_bytes;
        let len = (end - at).min(chunk_bytes - within).min(u64::from(crate::wire::PIECE_BYTES_MAX));
        parts.push(((at / chunk_bytes) as u32, within as u32, len as u32));
        at += len;
    }
    parts
}

impl Copies {
    /// Copies that are neither behind nor doubtful.
    pub(super) fn current(&self, chunk: u32) -> u8 {
        self.holders(chunk) & !self.image.marks(chunk).doubtful
    }

    /// Copies that are not behind. A doubtful one may be current again, if all others restarted, too.
    pub(super) fn holders(&self, chunk: u32) -> u8 {
        let all = (1u16 << self.image.copies()) - 1;
        all as u8 & !self.image.marks(chunk).behind
    }

    /// Where a copy of a chunk lies, or the one that is made on another member.
    pub(super) fn place_of(&self, chunk: u32, copy: usize) -> Option<Place> {
        match self.image.places(chunk).get(copy) {
            None if copy == self.guest_copy() => self.guest(chunk),
            place => place.copied(),
        }
    }

    pub(super) fn member_of(&self, chunk: u32, copy: usize) -> u16 {
        self.place_of(chunk, copy).map_or(u16::MAX, |place| place.member)
    }

    /// The copy of a chunk that a member has, or is getting.
    pub(super) fn copy_on(&self, chunk: u32, member: u16) -> Option<usize> {
        let copy = self.image.places(chunk).iter().position(|place| place.member == member);
        copy.or_else(|| self.guest(chunk).filter(|guest| guest.member == member).map(|_| self.guest_copy()))
    }

    /// Those of some copies that reads and jobs may use now.
    pub(super) fn usable_of(&self, cx: &Cx<'_>, chunk: u32, copies: u8) -> u8 {
        mask(each(copies).filter(|&copy| self.is_usable(cx, self.member_of(chunk, copy))))
    }

    /// Those of some copies whose members are out.
    pub(super) fn out_of(&self, chunk: u32, copies: u8) -> u8 {
        mask(each(copies).filter(|&copy| self.is_out(self.member_of(chunk, copy))))
    }

    /// The members of some copies.
    pub(super) fn members_of(&self, chunk: u32, copies: u8) -> Vec<u16> {
        each(copies).map(|copy| self.member_of(chunk, copy)).collect()
    }

    /// The chunk at a place of a member, and the copy. There is none where the chunk was, or was to be.
    pub(super) fn chunk_at(&self, member: u16, offset_bytes: u64) -> Option<(u32, Option<usize>)> {
        // Below 2^32 slots.
        let slot = (offset_bytes / self.image.chunk_bytes()) as u32;
        let chunk = *self.slots.get(usize::from(member))?.get(slot as usize).filter(|chunk| **chunk != u32::MAX)?;
        let is_there = |copy: &usize| self.place_of(chunk, *copy) == Some(Place { member, slot });
        Some((chunk, self.copy_on(chunk, member).filter(is_there)))
    }

    /// Where a byte of a chunk lies on one of its copies: the member, and the offset in its extent.
    pub(super) fn locate(&self, chunk: u32, copy: usize, at: u32) -> Option<(u16, u64)> {
        let place = self.place_of(chunk, copy)?;
        Some((place.member, u64::from(place.slot) * self.image.chunk_bytes() + u64::from(at)))
    }

    /// Cuts a range of the volume: see [`cut`].
    pub(super) fn parts(&self, offset_bytes: u64, len_bytes: u64) -> Vec<(u32, u32, u32)> {
        cut(self.image.chunk_bytes(), offset_bytes, len_bytes)
    }
}
