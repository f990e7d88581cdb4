//! The map of a volume that was linear: its extents end to end, so that no byte has to move.

use super::placement::{PlacementError, check};
use super::{CHUNKS_MAX, MapImage, Member, Place, is_unknown_extent};

impl MapImage {
    /// The map of a volume with one copy, whose bytes lie where a linear volume of these extents has them. All chunks are settled; no change is
    /// counted yet.
    pub fn of_linear(map_id: [u8; 16], chunk_bytes: u64, members: Vec<Member>) -> Result<MapImage, PlacementError> {
        check(chunk_bytes, 1, &members)?;
        let mut chunks = 0;
        for (member, known) in members.iter().enumerate() {
            let size_bytes = known.size_bytes;
            if !size_bytes.is_multiple_of(chunk_bytes) {
                return Err(PlacementError::PartOfChunk { member, size_bytes, chunk_bytes });
            }
            chunks += size_bytes / chunk_bytes;
        }
        if chunks > u64::from(CHUNKS_MAX) {
            return Err(PlacementError::Chunks { chunks, chunk_bytes });
        }
        let places = (0u16..).zip(&members).flat_map(|(member, known)| {
            // At most CHUNKS_MAX.
            (0..(known.size_bytes / chunk_bytes) as u32).map(move |slot| Place { member, slot })
        });
        let places = places.collect();
        let mut image = MapImage::empty(map_id, chunk_bytes, 1, 0);
        (image.members, image.places, image.was_linear) = (members, places, true);
        image.count_slots();
        image.settle_all();
        Ok(image)
    }

    /// Whether the map was made of a linear volume, and all bytes of a member still lie where that has them. It looks at all places there.
    #[must_use]
    pub fn is_linear_at(&self, member: u16) -> bool {
        let (before, rest) = self.members.split_at(usize::from(member).min(self.members.len()));
        let Some(known) = rest.first() else { return false };
        let is_whole = |member: &Member| member.size_bytes.is_multiple_of(self.chunk_bytes);
        if !self.was_linear
            || self.copies != 1
            || is_unknown_extent(&known.extent_id)
            || !before.iter().chain([known]).all(is_whole)
        {
            return false;
        }
        let first: u64 = before.iter().map(|member| member.size_bytes / self.chunk_bytes).sum();
        (0..known.size_bytes / self.chunk_bytes).all(|slot| {
            let chunk = u32::try_from(first + slot).unwrap_or(u32::MAX);
            matches!(self.places(chunk), [place] if place.member == member && u64::from(place.slot) == slot)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{CHUNK, id, members};
    use super::*;
    use crate::copies::unknown_extent;
    use crate::layout::{Layout, LayoutKind};
    use proptest::prelude::*;

    /// Extents of so many chunks.
    fn extents(chunks: &[u64]) -> Vec<Member> {
        let each: Vec<(u64, usize)> = chunks.iter().map(|&chunks| (chunks, 0)).collect();
        members(&each)
    }

    proptest! {
        #[test]
        fn every_byte_stays_where_it_was(chunks in prop::collection::vec(1u64..9, 1..9), at in any::<prop::sample::Index>()) {
            let members = extents(&chunks);
            let sizes: Vec<u64> = members.iter().map(|member| member.size_bytes).collect();
            let linear = Layout::new(LayoutKind::Linear, &sizes).unwrap();
            let image = MapImage::of_linear(id(7), CHUNK, members).unwrap();
            prop_assert_eq!(image.size_bytes(), linear.size_bytes());
            prop_assert!((0..chunks.len() as u16).all(|member| image.is_linear_at(member)));
            let offset_bytes = at.index(image.size_bytes() as usize) as u64;
            let place = image.places((offset_bytes / CHUNK) as u32)[0];
            let span = linear.split(offset_bytes, 1).next().unwrap();
            prop_assert_eq!(span.extent, u32::from(place.member));
            prop_assert_eq!(span.extent_offset_bytes, u64::from(place.slot) * CHUNK + offset_bytes % CHUNK);
        }
    }

    #[test]
    fn extents_of_parts_of_chunks_are_refused() {
        let mut short = extents(&[2, 3]);
        short[1].size_bytes += 512;
        let why = MapImage::of_linear(id(7), CHUNK, short).unwrap_err();
        assert_eq!(why, PlacementError::PartOfChunk { member: 1, size_bytes: 3 * CHUNK + 512, chunk_bytes: CHUNK });
        assert!(MapImage::of_linear(id(7), CHUNK, Vec::new()).is_err());
        let most = u64::from(CHUNKS_MAX);
        let why = MapImage::of_linear(id(7), CHUNK, extents(&[most, 1])).unwrap_err();
        assert_eq!(why, PlacementError::Chunks { chunks: most + 1, chunk_bytes: CHUNK });
    }

    #[test]
    fn other_maps_are_not_linear() {
        let fresh = MapImage::new(id(7), CHUNK, 1, extents(&[3])).unwrap();
        assert!(!fresh.is_linear_at(0), "its table is the same, and nobody asked for it");
        let is_linear = |image: MapImage, member| {
            let mut said = image;
            said.was_linear = true;
            said.is_linear_at(member)
        };
        assert!(is_linear(fresh.clone(), 0) && !is_linear(fresh, 1), "there is one member");
        let placed = MapImage::new(id(7), CHUNK, 1, extents(&[3, 3])).unwrap();
        assert!(!is_linear(placed.clone(), 0) || !is_linear(placed, 1), "for equal shares, not end to end");
        let twice = MapImage::new(id(7), CHUNK, 2, members(&[(3, 0), (3, 1)])).unwrap();
        assert!(!is_linear(twice, 0));
        let mut unknown = extents(&[3]);
        unknown[0].extent_id = unknown_extent(0);
        assert!(!is_linear(MapImage::new(id(7), CHUNK, 1, unknown).unwrap(), 0), "any extent could be meant");
        let mut longer = extents(&[3, 3]);
        longer[0].size_bytes += 1;
        let behind = MapImage::new(id(7), CHUNK, 1, longer).unwrap();
        assert!(!is_linear(behind, 1), "a linear volume uses the last byte of an extent");
    }

    #[test]
    fn that_it_was_linear_is_in_snapshots() {
        let image = MapImage::of_linear(id(7), CHUNK, extents(&[2, 3])).unwrap();
        assert_eq!(MapImage::from_records(&image.snapshot()), Ok(image));
    }
}
