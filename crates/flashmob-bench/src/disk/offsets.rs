//! The offsets of one repetition's requests.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use flashmob_core::units::MIB;
use flashmob_results::disk::Pattern;

use crate::load::random::{GOLDEN, Random};

/// Distance of the heads of [`Pattern::Sort`] and [`Pattern::Shuffle`], as in P3: too far apart for readahead to help.
pub(super) const HEAD_DISTANCE_BYTES: u64 = MIB;

/// The parameters of a repetition's offsets.
#[derive(Clone, Debug)]
pub(super) struct Order {
    pub pattern: Pattern,
    pub block_bytes: u64,
    /// The part of the file that is used; it has room for one block at least.
    pub range: Range<u64>,
    pub threads: u32,
    /// Requests of the repetition, if they end it.
    pub requests: Option<u64>,
    /// Random seed; each repetition has its own.
    pub seed: u64,
}

/// The endless offsets of one thread.
#[derive(Debug)]
pub(super) enum Offsets {
    /// `first` plus a random multiple of `unit_bytes`, out of `count` multiples from 0.
    Random { random: Random, first: u64, count: u64, unit_bytes: u64 },
    /// Consecutive blocks from `begin`, wrapping at `end`.
    Sequential { next: u64, begin: u64, end: u64, block_bytes: u64 },
    /// A list shared by all threads, used in order, then again from its beginning.
    Listed { list: Arc<[u64]>, taken: Arc<AtomicUsize> },
}

impl Order {
    pub fn offsets(&self) -> Vec<Offsets> {
        let blocks = (self.range.end - self.range.start) / self.block_bytes;
        let listed = match self.pattern {
            Pattern::Sort | Pattern::Shuffle => Some((Arc::from(self.heads()), Arc::new(AtomicUsize::new(0)))),
            Pattern::Random | Pattern::Sequential | Pattern::Rand => None,
        };
        let thread = |index: u32| match &listed {
            Some((list, taken)) => Offsets::Listed { list: Arc::clone(list), taken: Arc::clone(taken) },
            None if self.pattern == Pattern::Sequential => {
                let bound = |index: u32| {
                    let share = u128::from(blocks) * u128::from(index) / u128::from(self.threads);
                    self.range.start + share as u64 * self.block_bytes
                };
                let (begin, end) = (bound(index), bound(index + 1));
                // With more threads than blocks, threads without their own block share the first.
                let (begin, end) =
                    if begin < end { (begin, end) } else { (self.range.start, self.range.start + self.block_bytes) };
                Offsets::Sequential { next: begin, begin, end, block_bytes: self.block_bytes }
            }
            None => {
                let unit_bytes = if self.pattern == Pattern::Rand { 1 } else { self.block_bytes };
                let count = (self.range.end - self.range.start - self.block_bytes) / unit_bytes + 1;
                let random = Random::new(self.seed, index.into());
                Offsets::Random { random, first: self.range.start, count, unit_bytes }
            }
        };
        (0..self.threads).map(thread).collect()
    }

    /// The heads to read, each once: all of them, or as many as there are requests. Both orders read the same
    /// heads.
    fn heads(&self) -> Vec<u64> {
        let room = self.range.end - self.range.start - self.block_bytes;
        let mut heads: Vec<u64> =
            (0..=room / HEAD_DISTANCE_BYTES).map(|n| self.range.start + n * HEAD_DISTANCE_BYTES).collect();
        let mut random = Random::new(self.seed ^ GOLDEN, 0);
        shuffle(&mut heads, &mut random);
        if let Some(requests) = self.requests {
            heads.truncate(usize::try_from(requests).unwrap_or(usize::MAX).max(1));
        }
        if self.pattern == Pattern::Sort {
            heads.sort_unstable();
        }
        heads
    }
}

/// The Fisher-Yates shuffle.
fn shuffle(items: &mut [u64], random: &mut Random) {
    for at in (1..items.len()).rev() {
        items.swap(at, random.below(at as u64 + 1) as usize);
    }
}

impl Offsets {
    #[inline]
    pub fn next_offset(&mut self) -> u64 {
        match self {
            Offsets::Random { random, first, count, unit_bytes } => *first + random.below(*count) * *unit_bytes,
            Offsets::Sequential { next, begin, end, block_bytes } => {
                let offset = *next;
                *next = if offset + *block_bytes < *end { offset + *block_bytes } else { *begin };
                offset
            }
            Offsets::Listed { list, taken } => list[taken.fetch_add(1, Ordering::Relaxed) % list.len()],
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn order(pattern: Pattern, block_bytes: u64, range: Range<u64>, threads: u32) -> Order {
        Order { pattern, block_bytes, range, threads, requests: None, seed: 7 }
    }

    fn take(offsets: &mut Offsets, count: usize) -> Vec<u64> {
        (0..count).map(|_| offsets.next_offset()).collect()
    }

    #[test]
    fn threads_read_their_own_shares_one_after_the_other() {
        let mut shares = order(Pattern::Sequential, 10, 5..75, 2).offsets();
        assert_eq!(take(&mut shares[0], 4), [5, 15, 25, 5], "three of seven blocks, then again");
        assert_eq!(take(&mut shares[1], 5), [35, 45, 55, 65, 35]);
        let mut many = order(Pattern::Sequential, 10, 0..10, 3).offsets();
        assert!(many.iter_mut().all(|o| take(o, 2) == [0, 0]), "one block for three threads");
    }

    #[test]
    fn sort_and_shuffle_read_the_same_heads_once_each() {
        let of = |pattern, requests| {
            let order = Order { requests, ..order(pattern, 1, 0..1000 * MIB, 2) };
            let mut threads = order.offsets();
            let count = requests.unwrap_or(1000) as usize;
            (0..count).map(|n| threads[n % 2].next_offset()).collect::<Vec<u64>>()
        };
        for requests in [None, Some(1), Some(999), Some(1000)] {
            let (sorted, mut shuffled) = (of(Pattern::Sort, requests), of(Pattern::Shuffle, requests));
            assert!(sorted.is_sorted() && sorted.iter().all(|o| o % MIB == 0 && *o < 1000 * MIB));
            assert!(requests == Some(1) || !shuffled.is_sorted());
            shuffled.sort_unstable();
            assert_eq!(sorted, shuffled);
            shuffled.dedup();
            assert_eq!(shuffled.len() as u64, requests.unwrap_or(1000));
        }
    }

    #[test]
    fn any_byte_is_any_byte_and_blocks_are_whole() {
        let mut any = order(Pattern::Rand, 4096, 0..1 << 20, 1).offsets();
        assert!(take(&mut any[0], 100).iter().any(|o| o % 4096 != 0));
        let mut blocks = order(Pattern::Random, 4096, 0..(1 << 20) + 5, 1).offsets();
        let taken = take(&mut blocks[0], 10_000);
        assert!(taken.iter().all(|o| o % 4096 == 0 && o + 4096 <= (1 << 20) + 5));
        assert_eq!(taken.iter().collect::<std::collections::HashSet<_>>().len(), 256, "each of them comes");
    }

    proptest! {
        #[test]
        fn no_request_leaves_the_range(
            pattern in proptest::sample::select(Pattern::ALL),
            block_bytes in 1u64..100_000, begin in 0u64..10_000, blocks in 1u64..50, rest in 0u64..100_000,
            threads in 1u32..40, requests in proptest::option::of(1u64..100), seed: u64,
        ) {
            let range = begin..begin + block_bytes * blocks + rest;
            let order = Order { pattern, block_bytes, range: range.clone(), threads, requests, seed };
            for mut offsets in order.offsets() {
                for offset in take(&mut offsets, 100) {
                    prop_assert!(range.contains(&offset) && offset + block_bytes <= range.end);
                }
            }
        }
    }
}
