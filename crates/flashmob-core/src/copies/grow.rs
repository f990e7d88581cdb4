//! A volume grows: chunks are appended, in slots that are free. It shrinks: the last chunks are gone.

use std::collections::BTreeSet;

use super::load::{check_apart, check_place};
use super::placement::place;
use super::{CHUNKS_MAX, MapError, MapImage, Marks, Member, PLACES_MAX, Place, PlacementError, Record};

impl MapImage {
    /// The records that append so many chunks, with their copies in free slots of members that are neither `closed` nor joining: shared out as for a
    /// new volume over what is free. `is_free` says so of a slot.
    ///
    /// If there is no room for all, the error says for how many there is.
    pub fn grown(
        &self,
        chunks: u32,
        closed: &BTreeSet<u16>,
        is_free: impl Fn(u16, u32) -> bool,
    ) -> Result<Vec<Record>, PlacementError> {
        let too_large = |fit: u64| PlacementError::TooLarge { chunks, chunk_bytes: self.chunk_bytes, fit };
        let most = u64::from(CHUNKS_MAX - self.chunks());
        if u64::from(chunks) > most {
            return Err(too_large(most));
        }
        // At most MEMBERS_MAX.
        let open =
            (0..self.members.len() as u16).filter(|member| !closed.contains(member) && !self.takes_no_copies(*member));
        let mut free: Vec<(u16, Vec<u32>)> = Vec::new();
        for member in open {
            let slots: Vec<u32> = (0..self.slots(member)).filter(|&slot| is_free(member, slot)).collect();
            if !slots.is_empty() {
                free.push((member, slots));
            }
        }
        let members: Vec<Member> = free
            .iter()
            .filter_map(|(member, slots)| {
                let known = self.members.get(usize::from(*member))?;
                Some(Member { size_bytes: slots.len() as u64 * self.chunk_bytes, ..known.clone() })
            })
            .collect();
        let places = match place(self.chunk_bytes, self.copies, &members, Some(chunks)) {
            Err(PlacementError::NoMembers | PlacementError::Domains { .. }) => return Err(too_large(0)),
            placed => placed?,
        };
        let of_free = |Place { member, slot }: Place| {
            let (member, slots) = free.get(usize::from(member))?;
            Some(Place { member: *member, slot: *slots.get(slot as usize)? })
        };
        let places: Vec<Place> = places.into_iter().filter_map(of_free).collect();
        let chunks_at_once = PLACES_MAX / self.copies.max(1);
        let firsts = (self.chunks()..).step_by(chunks_at_once);
        let parts = places.chunks(chunks_at_once * self.copies.max(1));
        Ok(firsts.zip(parts).map(|(first_chunk, part)| Record::Places { first_chunk, places: part.to_vec() }).collect())
    }

    /// Clients may use so many chunks.
    pub(super) fn show(&mut self, chunks: u32) -> Result<(), MapError> {
        // A snapshot begins with all of them.
        if chunks > self.chunks() || chunks == 0 {
            return Err(MapError::UnknownChunks { first_chunk: 0, count: chunks.into(), chunks: self.chunks() });
        }
        self.shown = chunks;
        Ok(())
    }

    /// The volume has so many chunks from now on: clients may use all of them.
    pub(super) fn shrink(&mut self, chunks: u32) -> Result<(), MapError> {
        if chunks > self.chunks() || chunks == 0 {
            return Err(MapError::UnknownChunks { first_chunk: 0, count: chunks.into(), chunks: self.chunks() });
        }
        self.drop_last(self.chunks() - chunks);
        self.shown = self.shown.min(chunks);
        Ok(())
    }

    /// Appends chunks. They are open: nobody knows what their slots hold, so their copies are compared before they are used.
    pub(super) fn append(&mut self, first_chunk: u32, places: &[Place]) -> Result<(), MapError> {
        let (count, copies, expected) = (places.len(), self.copies, self.chunks());
        if count == 0 || count > PLACES_MAX || !count.is_multiple_of(copies.max(1)) {
            return Err(MapError::PlacesCount { count, copies });
        }
        if first_chunk != expected {
            return Err(MapError::PlacesOrder { first_chunk, expected });
        }
        // At most PLACES_MAX.
        let added = (count / copies.max(1)) as u32;
        if added > CHUNKS_MAX - expected {
            return Err(MapError::Chunks(expected.saturating_add(added)));
        }
        for (chunk, of_chunk) in (first_chunk..).zip(places.chunks_exact(copies.max(1))) {
            for (copy, &place) in of_chunk.iter().enumerate() {
                self.check_admitted(place.member)?;
                check_place(chunk, place, self)?;
                for &other in of_chunk.iter().take(copy) {
                    check_apart(chunk, other, place, |member| {
                        self.members.get(usize::from(member)).map(|known| &known.domain)
                    })?;
                }
            }
        }
        for (at, &place) in places.iter().enumerate() {
            let chunk = first_chunk + (at / copies.max(1)) as u32;
            if let Err(error) = self.taken.take(chunk, place) {
                places.iter().take(at).for_each(|&taken| self.taken.free(taken));
                return Err(error);
            }
        }
        self.places.extend_from_slice(places);
        // They are shown by a record of their own.
        self.add_marks(added, Marks { is_open: true, ..Marks::default() });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{CHUNK, id, marks, members};
    use super::*;
    use proptest::prelude::*;

    /// A volume with two copies of so many chunks, on members of such sizes, each its own domain.
    fn image(sizes: &[u64], chunks: u32) -> MapImage {
        let each: Vec<(u64, usize)> = sizes.iter().copied().zip(0..).collect();
        MapImage::with_chunks(id(7), CHUNK, 2, members(&each), chunks).unwrap()
    }

    fn grow(image: &mut MapImage, chunks: u32, closed: &[u16]) -> Result<(), PlacementError> {
        let taken: BTreeSet<(u16, u32)> =
            (0..image.chunks()).flat_map(|chunk| image.places(chunk).to_vec()).map(|p| (p.member, p.slot)).collect();
        let closed = closed.iter().copied().collect();
        for record in image.grown(chunks, &closed, |member, slot| !taken.contains(&(member, slot)))? {
            image.apply(&record).unwrap();
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn a_volume_grows_into_all_room_that_a_new_one_would_have(
            sizes in prop::collection::vec(1u64..9, 2..6), first in 1u32..4, more in 1u32..20,
        ) {
            let largest = image(&sizes, 1).chunks().max(MapImage::new(id(7), CHUNK, 2, members(&sizes.iter().copied().zip(0..).collect::<Vec<_>>())).unwrap().chunks());
            prop_assume!(first <= largest);
            let mut image = image(&sizes, first);
            let before = image.clone();
            match grow(&mut image, more, &[]) {
                Ok(()) => {
                    prop_assert_eq!(image.chunks(), first + more);
                    for chunk in 0..first {
                        prop_assert_eq!(image.places(chunk), before.places(chunk));
                    }
                    for chunk in first..first + more {
                        prop_assert_eq!(image.marks(chunk), marks(true, 0, 0));
                    }
                    prop_assert_eq!(image.counts().open, more);
                    prop_assert_eq!(image.shown(), first);
                    prop_assert_eq!(MapImage::from_records(&image.snapshot()).unwrap(), image);
                }
                Err(PlacementError::TooLarge { fit, .. }) => {
                    prop_assert!(fit < u64::from(more));
                    prop_assert_eq!(&image, &before);
                    if fit > 0 {
                        prop_assert!(grow(&mut image, fit as u32, &[]).is_ok(), "{} fit", fit);
                    }
                }
                Err(error) => prop_assert!(false, "{}", error),
            }
        }
    }

    #[test]
    fn members_that_are_away_leaving_or_full_get_nothing() {
        let mut image = image(&[4, 4, 4, 4], 4);
        image.apply(&Record::Leaving { member: 0, is_leaving: true }).unwrap();
        let before = [0, 1].map(|member| image.copies_on(member));
        grow(&mut image, 2, &[1]).unwrap();
        assert_eq!([0, 1].map(|member| image.copies_on(member)), before);
        let error = grow(&mut image, 1, &[1]).unwrap_err();
        assert_eq!(error, PlacementError::TooLarge { chunks: 1, chunk_bytes: CHUNK, fit: 0 });
        grow(&mut image, 1, &[2]).expect_err("a node alone cannot have two copies");
    }

    #[test]
    fn places_that_cannot_be_are_refused() {
        let image = image(&[4, 4, 4], 2);
        let place = |member, slot| Place { member, slot };
        let taken = image.places(0)[0];
        let other = (0..3).find(|member| *member != taken.member).unwrap();
        let refused = [
            (3, vec![place(0, 3), place(1, 3)], "the places of chunk 3 where those of chunk 2 are due"),
            (2, vec![], "0 places"),
            (2, vec![place(0, 3)], "1 places"),
            (2, vec![place(0, 3), place(0, 2)], "two copies of chunk 2 are on member 0"),
            (2, vec![place(0, 3), place(7, 2)], "there is no member 7"),
            (2, vec![place(0, 3), place(1, 4)], "slot 4 of chunk 2 is beyond"),
            (2, vec![place(other, 3), taken], "has another chunk"),
        ];
        for (first_chunk, places, why) in refused {
            let mut changed = image.clone();
            let error = changed.apply(&Record::Places { first_chunk, places: places.clone() }).unwrap_err().to_string();
            assert!(error.contains(why), "{places:?}: {error}");
            assert_eq!(changed, image);
        }
    }
}
