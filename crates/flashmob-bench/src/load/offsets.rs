//! The offsets of one connection's requests.

use super::Load;
use super::random::Random;

/// Order of the offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Uniformly distributed. Equal seeds give equal offsets on every machine.
    Random {
        /// Random seed.
        seed: u64,
    },
    /// Consecutive blocks, each connection beginning with its own share of the export and wrapping at the end.
    Sequential,
}

impl Pattern {
    /// The random seed; 0 for sequential offsets.
    #[must_use]
    pub fn seed(self) -> u64 {
        match self {
            Pattern::Random { seed } => seed,
            Pattern::Sequential => 0,
        }
    }
}

/// The alignment of offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alignment {
    /// Every byte from 0 to size - block, as in P1.
    Byte,
    /// Multiples of the block.
    Block,
    /// Multiples of this many bytes, at least 1.
    Bytes(u64),
}

/// The offsets and kinds of one connection's requests.
#[derive(Clone, Debug)]
pub struct Offsets {
    random: Random,
    /// A request is a read if its random number, of 32 bits, is below this.
    reads_below: u64,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    /// `first` plus a random multiple of `unit_bytes`, out of `count` multiples from 0.
    Random { first: u64, count: u64, unit_bytes: u64 },
    /// Consecutive blocks from `next` to `last`, then again from `first`.
    Sequential { first: u64, next: u64, last: u64, block_bytes: u64 },
}

impl Offsets {
    /// Those of connection `index` of `load`, on an export of `size_bytes`. The part of it that the load
    /// uses has room for at least one block at a permitted offset ([`Offsets::part`]).
    #[must_use]
    pub fn new(load: &Load, size_bytes: u64, index: u32) -> Offsets {
        let block_bytes = u64::from(load.block_bytes).max(1);
        let (first, end) = Offsets::part(load, size_bytes);
        let last = end.saturating_sub(block_bytes).max(first);
        let kind = match load.pattern {
            Pattern::Random { .. } => {
                let unit_bytes = load.unit_bytes();
                Kind::Random { first, count: (last - first) / unit_bytes + 1, unit_bytes }
            }
            Pattern::Sequential => {
                let blocks = (end - first) / block_bytes;
                let share = u128::from(blocks) * u128::from(index) / u128::from(load.connections.max(1));
                Kind::Sequential { first, next: first + share as u64 * block_bytes, last, block_bytes }
            }
        };
        let reads_below = (load.read_fraction * f64::from(1u32 << 31) * 2.0) as u64;
        Offsets { random: Random::new(load.pattern.seed(), u64::from(index)), reads_below, kind }
    }

    /// The first permitted offset and the end of the part of an export of `size_bytes` that `load` uses.
    #[must_use]
    pub fn part(load: &Load, size_bytes: u64) -> (u64, u64) {
        let range = load.range_bytes.clone().unwrap_or(0..size_bytes);
        let end = range.end.min(size_bytes);
        let first = match load.pattern {
            Pattern::Random { .. } => range.start.checked_next_multiple_of(load.unit_bytes()).unwrap_or(u64::MAX),
            Pattern::Sequential => range.start,
        };
        (first.min(end), end)
    }

    /// The next request: its offset in bytes, and whether it is a read.
    #[inline]
    pub fn next_request(&mut self) -> (u64, bool) {
        let read = match self.reads_below {
            0 => false,
            n if n >= 1 << 32 => true,
            n => self.random.next_u64() >> 32 < n,
        };
        let offset = match &mut self.kind {
            Kind::Random { first, count, unit_bytes } => *first + self.random.below(*count) * *unit_bytes,
            Kind::Sequential { first, next, last, block_bytes } => {
                let offset = if *next > *last { *first } else { *next };
                *next = offset + *block_bytes;
                offset
            }
        };
        (offset, read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(block_bytes: u32, pattern: Pattern, alignment: Alignment) -> Load {
        Load { block_bytes, pattern, alignment, ..Load::default() }
    }

    #[test]
    fn random_offsets_reach_every_byte_that_a_block_fits_at() {
        let mut offsets = Offsets::new(&load(4, Pattern::Random { seed: 3 }, Alignment::Byte), 10, 0);
        let mut seen = [false; 7];
        for _ in 0..1000 {
            seen[offsets.next_request().0 as usize] = true;
        }
        assert_eq!(seen, [true; 7]);
    }

    #[test]
    fn aligned_offsets_are_multiples_of_the_block() {
        let mut offsets = Offsets::new(&load(4, Pattern::Random { seed: 3 }, Alignment::Block), 10, 0);
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..100 {
            seen.insert(offsets.next_request().0);
        }
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), [0, 4]);
    }

    #[test]
    fn an_export_of_one_block_has_one_offset() {
        for pattern in [Pattern::Random { seed: 1 }, Pattern::Sequential] {
            let mut offsets = Offsets::new(&load(10, pattern, Alignment::Byte), 10, 0);
            assert_eq!([(); 3].map(|()| offsets.next_request().0), [0, 0, 0]);
        }
    }

    #[test]
    fn sequential_connections_begin_in_their_shares_and_wrap() {
        let load = Load { connections: 2, ..load(4, Pattern::Sequential, Alignment::Block) };
        let mut second = Offsets::new(&load, 17, 1);
        assert_eq!([(); 5].map(|()| second.next_request().0), [8, 12, 0, 4, 8]);
    }

    #[test]
    fn offsets_stay_inside_their_range_and_on_their_unit() {
        let load = Load { range_bytes: Some(5..30), ..load(4, Pattern::Random { seed: 3 }, Alignment::Bytes(8)) };
        let mut offsets = Offsets::new(&load, 1000, 0);
        let seen: std::collections::BTreeSet<u64> = (0..200).map(|_| offsets.next_request().0).collect();
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), [8, 16, 24]);

        let load = Load { connections: 2, pattern: Pattern::Sequential, ..load };
        let mut first = Offsets::new(&load, 1000, 0);
        assert_eq!([(); 7].map(|()| first.next_request().0), [5, 9, 13, 17, 21, 25, 5]);
        assert_eq!(Offsets::new(&load, 1000, 1).next_request().0, 17);
    }

    #[test]
    fn the_fraction_of_reads_is_kept() {
        for (fraction, low, high) in [(0.0, 0, 0), (1.0, 1000, 1000), (0.7, 640, 760)] {
            let load = Load { read_fraction: fraction, ..Load::default() };
            let mut offsets = Offsets::new(&load, 1 << 20, 0);
            let reads = (0..1000).filter(|_| offsets.next_request().1).count();
            assert!((low..=high).contains(&reads), "{fraction}: {reads}");
        }
    }
}
