//! Places that change: a copy of a chunk moves to another member, members are emptied, and members are filled evenly.

use super::load::{check_apart, check_place};
use super::slots::Slots;
use super::{MapError, MapImage, Marks, Place};

impl MapImage {
    /// The members that are to have no copies any more.
    pub fn leaving(&self) -> impl Iterator<Item = u16> + '_ {
        self.leaving.iter().copied()
    }

    /// Whether a member is to have no copies any more.
    #[must_use]
    pub fn is_leaving(&self, member: u16) -> bool {
        self.leaving.contains(&member)
    }

    /// Whether members are to be filled evenly.
    #[must_use]
    pub fn is_balancing(&self) -> bool {
        self.is_balancing
    }

    /// How many chunks a member has room for.
    #[must_use]
    pub fn slots(&self, member: u16) -> u32 {
        let known = self.members.get(usize::from(member)).filter(|_| !self.is_gone(member));
        let bytes = known.map_or(0, |known| known.size_bytes);
        u32::try_from(bytes / self.chunk_bytes).unwrap_or(u32::MAX)
    }

    /// How many chunks have a copy on a member. It looks at none of them.
    #[must_use]
    pub fn copies_on(&self, member: u16) -> u32 {
        self.taken.count(member)
    }

    pub(super) fn count_slots(&mut self) {
        self.taken = Slots::of(&self.places, self.copies);
    }

    /// A copy of a chunk lies at another place from now on, where it is like one that is current.
    pub(super) fn move_copy(&mut self, chunk: u32, copy: u8, to: Place) -> Result<(), MapError> {
        let chunks = self.chunks();
        if chunk >= chunks {
            return Err(MapError::UnknownChunks { first_chunk: chunk, count: 1, chunks });
        }
        let copies = self.copies;
        let at = usize::from(copy);
        let Some(&from) = self.places(chunk).get(at) else { return Err(MapError::UnknownCopy { chunk, copy, copies }) };
        self.check_admitted(to.member)?;
        check_place(chunk, to, self)?;
        for (other, &place) in self.places(chunk).iter().enumerate() {
            if other != at {
                check_apart(chunk, place, to, |member| {
                    self.members.get(usize::from(member)).map(|known| &known.domain)
                })?;
            }
        }
        self.taken.take(chunk, to)?;
        self.taken.free(from);
        if let Some(place) = self.places.get_mut(chunk as usize * copies + at) {
            *place = to;
        }
        let (old, bit) = (self.marks(chunk), 1u8 << at);
        let new = Marks { behind: old.behind & !bit, doubtful: old.doubtful & !bit, ..old };
        self.set_marks(chunk, new);
        Ok(())
    }

    pub(super) fn set_leaving(&mut self, member: u16, is_leaving: bool) -> Result<(), MapError> {
        self.check_present(member)?;
        if is_leaving {
            self.leaving.insert(member);
        } else {
            self.leaving.remove(&member);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{CHUNK, id, marks, members};
    use super::super::{MapImage, Place, Record};

    /// Two copies of three chunks on three members in two domains, and a fourth member that is empty.
    fn image() -> MapImage {
        let members = members(&[(3, 0), (3, 1), (3, 1), (3, 2)]);
        let mut image = MapImage::with_chunks(id(7), CHUNK, 2, members, 3).unwrap();
        for chunk in 0..3 {
            let places = [Place { member: 0, slot: chunk }, Place { member: 1, slot: chunk }];
            image.places[chunk as usize * 2..][..2].copy_from_slice(&places);
        }
        image.count_slots();
        image
    }

    fn moved(chunk: u32, copy: u8, member: u16, slot: u32) -> Record {
        Record::Moved { chunk, copy, to: Place { member, slot } }
    }

    #[test]
    fn a_copy_that_moved_is_current_and_its_slot_is_free() {
        let mut image = image();
        image.apply(&Record::Marks { first_chunk: 1, count: 1, marks: marks(true, 0b10, 0) }).unwrap();
        image.apply(&moved(1, 1, 2, 2)).unwrap();
        assert_eq!(image.places(1), [Place { member: 0, slot: 1 }, Place { member: 2, slot: 2 }]);
        assert_eq!((image.marks(1), image.counts().behind), (marks(true, 0, 0), 0));
        assert_eq!([0, 1, 2, 3].map(|member| image.copies_on(member)), [3, 2, 1, 0]);
        image.apply(&moved(0, 1, 3, 0)).unwrap();
        image.apply(&moved(0, 1, 1, 1)).unwrap();
        assert_eq!(image.places(0)[1], Place { member: 1, slot: 1 }, "the slot of the first");
        assert_eq!(MapImage::from_records(&image.snapshot()).unwrap(), image);
    }

    #[test]
    fn places_that_cannot_be_are_refused() {
        let image = image();
        let refused = [
            (moved(3, 0, 3, 0), "1 chunks from 3 are not in a volume of 3 chunks"),
            (moved(0, 2, 3, 0), "chunk 0 has no copy 2; it has 2, counted from 0"),
            (moved(0, 0, 4, 0), "there is no member 4"),
            (moved(0, 0, 3, 3), "slot 3 of chunk 0 is beyond the 12288 bytes of member 3"),
            (moved(0, 0, 1, 0), "two copies of chunk 0 are on member 1"),
            (moved(0, 0, 2, 0), "copies of chunk 0 are on members 1 and 2, which share a domain"),
            (moved(0, 1, 1, 2), "slot 2 of member 1, where chunk 0 is to be, has another chunk"),
            (Record::Leaving { member: 4, is_leaving: true }, "there is no member 4"),
        ];
        for (record, why) in refused {
            let mut changed = image.clone();
            assert_eq!(changed.apply(&record).unwrap_err().to_string(), why);
            assert_eq!(changed, image);
        }
    }

    #[test]
    fn what_is_to_be_emptied_is_kept() {
        let mut image = image();
        for member in [3, 1] {
            image.apply(&Record::Leaving { member, is_leaving: true }).unwrap();
        }
        image.apply(&Record::Balance { is_wanted: true }).unwrap();
        assert_eq!(image.leaving().collect::<Vec<_>>(), [1, 3]);
        let again = MapImage::from_records(&image.snapshot()).unwrap();
        assert_eq!(again, image);
        assert!(again.is_balancing() && again.is_leaving(3) && !again.is_leaving(2));
        image.apply(&Record::Leaving { member: 1, is_leaving: false }).unwrap();
        image.apply(&Record::Balance { is_wanted: false }).unwrap();
        assert_eq!((image.leaving().collect::<Vec<_>>(), image.is_balancing()), (vec![3], false));
    }
}
