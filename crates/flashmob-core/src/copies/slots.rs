//! Which slots of the members' extents have a chunk.

use std::collections::BTreeMap;

use super::{MapError, Place};

/// The slots that have a chunk: a bit each, 64 to an entry, so that a table takes little and a lone slot no more than an entry.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Slots {
    taken: BTreeMap<(u16, u32), u64>,
    /// How many of each member have one.
    counts: BTreeMap<u16, u32>,
}

impl Slots {
    /// Those of chunks with such places.
    pub fn of(places: &[Place], copies: usize) -> Slots {
        let mut slots = Slots::default();
        for (chunk, places) in (0u32..).zip(places.chunks_exact(copies.max(1))) {
            for &place in places {
                let is_free = slots.take(chunk, place);
                debug_assert!(is_free.is_ok(), "{is_free:?}");
            }
        }
        slots
    }

    /// A chunk lies there from now on.
    pub fn take(&mut self, chunk: u32, place: Place) -> Result<(), MapError> {
        let Place { member, slot } = place;
        let bits = self.taken.entry((member, slot / 64)).or_default();
        let bit = 1 << (slot % 64);
        if *bits & bit != 0 {
            return Err(MapError::SlotTaken { chunk, member, slot });
        }
        *bits |= bit;
        *self.counts.entry(member).or_default() += 1;
        Ok(())
    }

    /// No chunk lies there any more.
    pub fn free(&mut self, Place { member, slot }: Place) {
        let Some(bits) = self.taken.get_mut(&(member, slot / 64)) else { return };
        let bit = 1 << (slot % 64);
        if *bits & bit == 0 {
            return;
        }
        *bits &= !bit;
        if *bits == 0 {
            self.taken.remove(&(member, slot / 64));
        }
        if let Some(count) = self.counts.get_mut(&member) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&member);
            }
        }
    }

    /// The first of a member behind which none has a chunk.
    pub fn end(&self, member: u16) -> u32 {
        let last = self.taken.range((member, 0)..=(member, u32::MAX)).next_back();
        last.map_or(0, |(&(_, group), bits)| group * 64 + (u64::BITS - bits.leading_zeros()))
    }

    /// How many of a member have a chunk.
    pub fn count(&self, member: u16) -> u32 {
        self.counts.get(&member).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn behind_the_end_no_slot_has_a_chunk() {
        let mut slots = Slots::default();
        assert_eq!(slots.end(1), 0);
        for slot in [0, 63, 64, 130, u32::MAX - 64] {
            slots.take(7, Place { member: 1, slot }).unwrap();
            assert_eq!((slots.end(0), slots.end(1), slots.end(2)), (0, slot + 1, 0));
        }
        slots.free(Place { member: 1, slot: u32::MAX - 64 });
        assert_eq!(slots.end(1), 131);
    }

    proptest! {
        #[test]
        fn a_slot_has_one_chunk_at_a_time(steps in prop::collection::vec((any::<bool>(), 0u16..3, 0u32..200), 0..300)) {
            let (mut slots, mut expected) = (Slots::default(), BTreeSet::new());
            for (is_taken, member, slot) in steps {
                if is_taken {
                    prop_assert_eq!(slots.take(7, Place { member, slot }).is_ok(), expected.insert((member, slot)));
                } else {
                    slots.free(Place { member, slot });
                    expected.remove(&(member, slot));
                }
                let count = expected.iter().filter(|taken| taken.0 == member).count();
                prop_assert_eq!(slots.count(member) as usize, count);
            }
            expected.iter().for_each(|&(member, slot)| slots.free(Place { member, slot }));
            prop_assert_eq!(slots, Slots::default());
        }
    }
}
