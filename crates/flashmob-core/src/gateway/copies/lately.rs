//! Chunks that were settled lately: what their copies confirmed to be permanent may not be, if a flash confirms what it has not done.
//!
//! A flash that lies has written everything after some time. So when a member's device restarts, its copies of these chunks are in question as
//! those of open chunks are. A gateway that starts anew knows of none.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use crate::units::Time;

/// For how long a settled chunk is remembered.
const REMEMBERED_FOR: Duration = Duration::from_secs(300);
/// Most entries: some 2 MB. Of more, the oldest are forgotten.
const ENTRIES_MAX: usize = 1 << 16;

/// Chunks that were settled lately.
#[derive(Debug, Default)]
pub struct Lately {
    /// When each was settled last.
    settled: BTreeMap<u32, Time>,
    /// In the order of time; a chunk that was settled again is here more than once.
    order: VecDeque<(Time, u32)>,
    /// Members whose devices have restarted, and their chunks that no other member was there to be compared with.
    unasked: BTreeSet<(u16, u32)>,
}

impl Lately {
    /// A chunk is settled.
    pub fn note(&mut self, now: Time, chunk: u32) {
        self.settled.insert(chunk, now);
        self.order.push_back((now, chunk));
        self.forget(now);
    }

    fn forget(&mut self, now: Time) {
        while let Some(&(at, chunk)) = self.order.front()
            && (now - at > REMEMBERED_FOR || self.order.len() > ENTRIES_MAX)
        {
            self.order.pop_front();
            if self.settled.get(&chunk) == Some(&at) {
                self.settled.remove(&chunk);
            }
        }
    }

    /// A chunk of a member whose device has restarted is to be compared once another member with a copy is there.
    pub fn ask_later(&mut self, member: u16, chunk: u32) {
        self.unasked.insert((member, chunk));
    }

    /// Takes those to be compared of which that can be said.
    pub fn take_unasked(&mut self, is_over: impl Fn(u16, u32) -> bool) -> Vec<(u16, u32)> {
        self.unasked.extract_if(.., |&(member, chunk)| is_over(member, chunk)).collect()
    }

    /// Chunks from this one on are gone.
    pub fn forget_behind(&mut self, chunks: u32) {
        self.settled.split_off(&chunks);
        self.unasked.retain(|&(_, chunk)| chunk < chunks);
    }

    /// The chunks, in order.
    pub fn chunks(&mut self, now: Time) -> impl Iterator<Item = u32> {
        self.forget(now);
        self.settled.keys().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Time {
        Time::default() + Duration::from_secs(seconds)
    }

    #[test]
    fn chunks_are_remembered_for_a_time() {
        let mut lately = Lately::default();
        lately.note(at(0), 5);
        lately.note(at(1), 3);
        lately.note(at(2), 5);
        assert_eq!(lately.chunks(at(301)).collect::<Vec<_>>(), [3, 5]);
        assert_eq!(lately.chunks(at(302)).collect::<Vec<_>>(), [5], "it was settled again");
        assert_eq!(lately.chunks(at(303)).count(), 0);
        assert!(lately.order.is_empty());
    }

    #[test]
    fn the_last_ones_are_kept() {
        for (count, first) in [(ENTRIES_MAX - 1, 0), (ENTRIES_MAX, 0), (ENTRIES_MAX + 1, 1)] {
            let mut lately = Lately::default();
            (0..count as u32).for_each(|chunk| lately.note(at(0), chunk));
            assert_eq!(lately.chunks(at(0)).next(), Some(first), "{count}");
            assert_eq!(lately.settled.len(), lately.order.len());
        }
    }
}
