//! The ranges that a job on a chunk goes through, and which of them hold data.

use std::collections::BTreeSet;

use crate::wire::digest::DIGEST_BLOCK_BYTES;
use crate::wire::map::Map;

/// Most bytes of a range: what one digest covers. A smaller chunk has up to 16 ranges.
pub const RANGE_BYTES_MAX: u32 = 256 << 10;

/// Bytes of each range of a chunk; the last one may be shorter.
pub fn range_bytes(chunk_bytes: u32) -> u32 {
    (chunk_bytes / 16).clamp(DIGEST_BLOCK_BYTES, RANGE_BYTES_MAX)
}

/// The ranges of a chunk in which any of its copies holds data. The others read as zeros on all of them, so they are equal.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct DataRanges {
    numbers: BTreeSet<u32>,
}

impl DataRanges {
    /// The range that begins there alone.
    pub fn only(at: u32, chunk_bytes: u32) -> DataRanges {
        DataRanges { numbers: BTreeSet::from([at / range_bytes(chunk_bytes)]) }
    }

    /// Adds those of a copy, by its map of the whole chunk. What the map does not tell is taken for data.
    pub fn add(&mut self, map: &[u8], chunk_bytes: u32) {
        let mut at = 0;
        if let Ok(map) = Map::decode(map, chunk_bytes) {
            for (len_bytes, is_hole) in map.runs() {
                if !is_hole {
                    self.insert(at, at + len_bytes, chunk_bytes);
                }
                at += len_bytes;
            }
        }
        self.insert(at, chunk_bytes, chunk_bytes);
    }

    fn insert(&mut self, from: u32, to: u32, chunk_bytes: u32) {
        let range_bytes = range_bytes(chunk_bytes);
        if from < to {
            self.numbers.extend(from / range_bytes..to.div_ceil(range_bytes));
        }
    }

    /// Whether all copies are holes.
    pub fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    /// Where the next range with data begins, at `at` or behind it. `at` is where a range begins or the last one ends.
    pub fn next(&self, at: u32, chunk_bytes: u32) -> Option<u32> {
        let range_bytes = range_bytes(chunk_bytes);
        self.numbers.range(at.div_ceil(range_bytes)..).next().map(|number| number * range_bytes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::map::{MAP_BYTES, MapWriter};

    const CHUNK: u32 = 1 << 20;

    fn map(runs: &[(u32, bool)]) -> Vec<u8> {
        let mut bytes = vec![0; MAP_BYTES];
        let mut writer = MapWriter::new(&mut bytes);
        assert!(runs.iter().all(|&(len, is_hole)| writer.push(len, is_hole)));
        bytes
    }

    fn all(ranges: &DataRanges, chunk_bytes: u32) -> Vec<u32> {
        let step = range_bytes(chunk_bytes);
        std::iter::successors(ranges.next(0, chunk_bytes), |at| ranges.next((at + step).min(chunk_bytes), chunk_bytes))
            .collect()
    }

    #[test]
    fn ranges_are_a_sixteenth_within_limits() {
        assert_eq!(
            [4096, 65_536, 65_552, CHUNK, 4 << 20, 64 << 20].map(range_bytes),
            [4096, 4096, 4097, 65_536, 256 << 10, 256 << 10]
        );
    }

    #[test]
    fn a_range_that_any_copy_has_data_in_is_compared() {
        let mut ranges = DataRanges::default();
        ranges.add(&map(&[(CHUNK, true)]), CHUNK);
        assert!(ranges.is_empty());
        ranges.add(&map(&[(65_536, true), (1, false), (CHUNK - 65_537, true)]), CHUNK);
        ranges.add(&map(&[(CHUNK - 1, true), (1, false)]), CHUNK);
        assert_eq!(all(&ranges, CHUNK), [65_536, CHUNK - 65_536]);
    }

    #[test]
    fn what_a_map_does_not_tell_is_data() {
        let mut ranges = DataRanges::default();
        ranges.add(&map(&[(CHUNK - 65_537, true)]), CHUNK);
        assert_eq!(all(&ranges, CHUNK), [CHUNK - 2 * 65_536, CHUNK - 65_536], "one that ends early");
        for bad in [vec![0; MAP_BYTES], vec![0xff; MAP_BYTES], vec![], map(&[(CHUNK + 1, true)])] {
            let mut ranges = DataRanges::default();
            ranges.add(&bad, CHUNK);
            assert_eq!(all(&ranges, CHUNK).len(), 16);
        }
    }

    proptest! {
        #[test]
        fn every_byte_of_data_is_in_a_range(
            lens in prop::collection::vec(1u32..200_000, 1..20),
            first_is_hole: bool,
            chunk_blocks in 1u32..400,
        ) {
            let chunk_bytes = chunk_blocks * 4096;
            let (mut runs, mut at, mut is_hole) = (Vec::new(), 0, first_is_hole);
            for len in lens {
                let len = len.min(chunk_bytes - at);
                runs.push((len, is_hole));
                (at, is_hole) = (at + len, !is_hole);
            }
            let mut ranges = DataRanges::default();
            ranges.add(&map(&runs), chunk_bytes);
            let found = all(&ranges, chunk_bytes);
            let step = range_bytes(chunk_bytes);
            let has = |byte: u32| found.iter().any(|from| (*from..from + step).contains(&byte));
            let mut at = 0;
            for (len, is_hole) in runs {
                if !is_hole && len > 0 {
                    prop_assert!(has(at) && has(at + len - 1));
                }
                at += len;
            }
            prop_assert!(at == chunk_bytes || has(chunk_bytes - 1) && has(at));
            prop_assert!(found.iter().all(|from| *from < chunk_bytes));
        }
    }
}
