//! A map of allocation: which bytes of a range a store holds, and which are holes that read as zeros.
//!
//! It is the answer to a piece of [`Op::Map`](crate::op::Op::Map): lengths that alternate between data and holes, data first, of 4 bytes
//! each, little-endian. An answer always has [`MAP_BYTES`], so its size is known before the store is asked; unused lengths are zero. A map
//! may cover only the beginning of its range: the asker continues behind it.

use super::frame::WireError;
use crate::planted::{self, Bug};

/// Bytes of a map.
pub const MAP_BYTES: usize = 512;
/// Most runs of a map.
pub const MAP_RUNS_MAX: usize = MAP_BYTES / 4;

/// Writes a map.
#[derive(Debug)]
pub struct MapWriter<'a> {
    bytes: &'a mut [u8],
    /// The run that grows, counted from 0. Runs with even numbers are data.
    run: usize,
    run_bytes: u32,
}

impl<'a> MapWriter<'a> {
    /// Starts a map in `bytes`, of which the first [`MAP_BYTES`] are used.
    pub fn new(bytes: &'a mut [u8]) -> MapWriter<'a> {
        bytes.fill(0);
        MapWriter { bytes, run: 0, run_bytes: 0 }
    }

    /// Appends `len_bytes` of a hole or of data. False if there is no room for one more run: the map ends before these bytes.
    pub fn push(&mut self, len_bytes: u32, is_hole: bool) -> bool {
        if len_bytes == 0 {
            return true;
        }
        if is_hole != (self.run % 2 == 1) {
            if self.run + 1 < MAP_RUNS_MAX {
                (self.run, self.run_bytes) = (self.run + 1, 0);
            } else if !planted::is(Bug::MapEndsInHole) {
                return false;
            }
        }
        let Some(grown) = self.run_bytes.checked_add(len_bytes) else { return false };
        let Some(place) = self.bytes.get_mut(4 * self.run..4 * self.run + 4) else { return false };
        self.run_bytes = grown;
        place.copy_from_slice(&grown.to_le_bytes());
        true
    }
}

/// Writes the map of a range of `len_bytes` that has no hole.
pub fn put_all_data(bytes: &mut [u8], len_bytes: u32) {
    MapWriter::new(bytes).push(len_bytes, false);
}

/// A decoded map.
#[derive(Debug, Clone, Copy)]
pub struct Map<'a> {
    bytes: &'a [u8],
}

impl<'a> Map<'a> {
    /// Checks the map of a range of `len_bytes`: it covers at least one byte and none beyond the range, and no run behind the first is
    /// empty but those at the end.
    pub fn decode(bytes: &'a [u8], len_bytes: u32) -> Result<Map<'a>, WireError> {
        let map = Map { bytes };
        let lengths: Vec<u32> = map.lengths().collect();
        let covered: u64 = lengths.iter().map(|&len| u64::from(len)).sum();
        let used = lengths.iter().rposition(|&len| len > 0).map_or(0, |last| last + 1);
        let has_gap = lengths[..used].iter().skip(1).any(|&len| len == 0);
        if bytes.len() != MAP_BYTES || covered == 0 || covered > u64::from(len_bytes) || has_gap {
            return Err(WireError::Malformed("map"));
        }
        Ok(map)
    }

    /// The runs: their lengths, never 0, and whether they are holes.
    pub fn runs(&self) -> impl Iterator<Item = (u32, bool)> + 'a {
        self.lengths().enumerate().map(|(index, len_bytes)| (len_bytes, index % 2 == 1)).filter(|&(len, _)| len > 0)
    }

    fn lengths(&self) -> impl Iterator<Item = u32> + 'a {
        self.bytes.chunks_exact(4).map(|four| u32::from_le_bytes([four[0], four[1], four[2], four[3]]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What fits of some runs, merged where they continue each other.
    fn expected(runs: &[(u32, bool)]) -> Vec<(u32, bool)> {
        let mut merged: Vec<(u32, bool)> = Vec::new();
        for &(len, is_hole) in runs.iter().filter(|&&(len, _)| len > 0) {
            match merged.last_mut().filter(|last| last.1 == is_hole) {
                Some(last) => last.0 += len,
                None => merged.push((len, is_hole)),
            }
        }
        // A map begins with data, if only with none.
        let most = MAP_RUNS_MAX - usize::from(merged.first().is_some_and(|&(_, is_hole)| is_hole));
        merged.truncate(most);
        merged
    }

    proptest! {
        #[test]
        fn maps_round_trip(runs in prop::collection::vec((0u32..1000, any::<bool>()), 1..300)) {
            let mut bytes = [7; MAP_BYTES];
            let mut writer = MapWriter::new(&mut bytes);
            let fitted = runs.iter().take_while(|&&(len, is_hole)| writer.push(len, is_hole)).count();
            let covered: u32 = runs[..fitted].iter().map(|&(len, _)| len).sum();
            prop_assume!(covered > 0);
            let map = Map::decode(&bytes, covered).unwrap();
            prop_assert_eq!(map.runs().collect::<Vec<_>>(), expected(&runs[..fitted]));
            prop_assert!(Map::decode(&bytes, covered + 1).is_ok());
            prop_assert!(Map::decode(&bytes, covered - 1).is_err());
        }

        #[test]
        fn garbage_never_panics_and_keeps_to_its_range(
            bytes in prop::collection::vec(prop_oneof![3 => Just(0u8), 1 => any::<u8>()], 0..600),
            len_bytes: u32,
        ) {
            if let Ok(map) = Map::decode(&bytes, len_bytes) {
                prop_assert!(map.runs().map(|(len, _)| u64::from(len)).sum::<u64>() <= u64::from(len_bytes));
            }
        }
    }

    #[test]
    fn runs_are_bounded_and_so_is_their_sum() {
        let mut bytes = [0; MAP_BYTES];
        let mut writer = MapWriter::new(&mut bytes);
        assert!((0..MAP_RUNS_MAX).all(|run| writer.push(1, run % 2 == 1)));
        assert!(!writer.push(1, false), "one more");
        assert!(writer.push(1, true), "the last one grows");
        assert_eq!(Map::decode(&bytes, 1000).unwrap().runs().count(), MAP_RUNS_MAX);
        let mut writer = MapWriter::new(&mut bytes);
        assert!(writer.push(u32::MAX, true) && !writer.push(1, true));
        assert_eq!(Map::decode(&bytes, u32::MAX).unwrap().runs().collect::<Vec<_>>(), [(u32::MAX, true)]);
        assert!(Map::decode(&[0; MAP_BYTES], 1).is_err(), "it covers nothing");
        assert!(Map::decode(&bytes[..MAP_BYTES - 1], u32::MAX).is_err());
    }
}
