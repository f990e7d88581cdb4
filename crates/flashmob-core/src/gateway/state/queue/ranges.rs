//! Ranges of changes, and which of them overlap.

use std::collections::BTreeMap;

use super::Piece;

/// Longer ranges are kept apart, so that the search for overlaps among the others looks back no further than this.
const LONG_BYTES: u32 = 1 << 20;

/// A set of ranges of an extent.
#[derive(Debug, Default)]
pub(super) struct Ranges {
    /// (first byte, serial) to length, up to [`LONG_BYTES`].
    short: BTreeMap<(u64, u64), u32>,
    /// The same, of longer ones.
    long: BTreeMap<(u64, u64), u32>,
}

impl Ranges {
    fn of_length(&mut self, len_bytes: u32) -> &mut BTreeMap<(u64, u64), u32> {
        if len_bytes <= LONG_BYTES { &mut self.short } else { &mut self.long }
    }

    pub fn insert(&mut self, piece: &Piece) {
        self.of_length(piece.len_bytes).insert((piece.offset_bytes, piece.serial), piece.len_bytes);
    }

    pub fn remove(&mut self, piece: &Piece) {
        self.of_length(piece.len_bytes).remove(&(piece.offset_bytes, piece.serial));
    }

    pub fn clear(&mut self) {
        self.short.clear();
        self.long.clear();
    }

    /// Whether a range of another piece overlaps this one's.
    pub fn overlaps(&self, piece: &Piece) -> bool {
        self.serials_over(piece).next().is_some()
    }

    /// Whether a range of a piece that came before this one overlaps it.
    pub fn overlaps_earlier(&self, piece: &Piece) -> bool {
        self.serials_over(piece).any(|serial| serial < piece.serial)
    }

    fn serials_over(&self, piece: &Piece) -> impl Iterator<Item = u64> + '_ {
        let (start, end) = (piece.offset_bytes, piece.offset_bytes + u64::from(piece.len_bytes));
        let short = self.short.range((start.saturating_sub(u64::from(LONG_BYTES)), 0)..(end, 0));
        let long = self.long.range(..(end, 0));
        let over = short.chain(long).filter(move |&(&(offset, _), &len)| offset + u64::from(len) > start);
        over.map(|(&(_, serial), _)| serial)
    }
}
