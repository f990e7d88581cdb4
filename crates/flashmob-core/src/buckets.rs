//! Histograms of 32 buckets: small enough for one per node, cause and second.
//!
//! The bounds are the preferred numbers 1, 1.6, 2.5, 4, 6.3 of each decade (R5 of ISO 3), from 4 us to 4 s: neighbours differ by a factor of
//! 1.6. Bucket `i` counts times above bound `i - 1` and up to bound `i`; the last one those above 4 s.

use std::time::Duration;

/// How many buckets a histogram has.
pub const BUCKETS: usize = 32;
/// How many of them have an upper bound.
pub const BOUNDS: usize = BUCKETS - 1;

/// The upper bounds of the buckets in nanoseconds, ascending; the last bucket has none.
pub const BOUNDS_NANOS: [u64; BOUNDS] = {
    // In hundreds of nanoseconds, from 4 us.
    let steps = [40, 63, 100, 160, 250];
    let (mut bounds, mut i, mut decade) = ([0; BOUNDS], 0, 100);
    while i < BOUNDS {
        bounds[i] = steps[i % 5] * decade;
        if i % 5 == 4 {
            decade *= 10;
        }
        i += 1;
    }
    bounds
};

/// The bounds, and two that no time exceeds.
const PADDED: [u64; BOUNDS + 2] = {
    let (mut padded, mut i) = ([u64::MAX; BOUNDS + 2], 0);
    while i < BOUNDS {
        padded[i] = BOUNDS_NANOS[i];
        i += 1;
    }
    padded
};

/// For each power of two, the bucket that it is in.
const FIRST_OF_OCTAVE: [u8; 64] = {
    let (mut first, mut octave) = ([0; 64], 0);
    while octave < 64 {
        let mut bucket = 0;
        while bucket < BOUNDS && BOUNDS_NANOS[bucket] < 1 << octave {
            bucket += 1;
        }
        first[octave] = bucket as u8;
        octave += 1;
    }
    first
};

/// The bucket that a time is in.
#[must_use]
#[inline]
pub fn bucket_of(nanos: u64) -> usize {
    // Between a power of two and the next there are at most two bounds.
    let first = usize::from(FIRST_OF_OCTAVE[(nanos | 1).ilog2() as usize]);
    first + usize::from(nanos > PADDED[first]) + usize::from(nanos > PADDED[first + 1])
}

/// How many times were in each bucket.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Buckets(pub [u32; BUCKETS]);

impl Buckets {
    /// Adds a time, so many times.
    #[inline]
    pub fn record_n(&mut self, nanos: u64, count: u32) {
        // Of what a gateway counts in minutes it cannot be too much.
        let bucket = &mut self.0[bucket_of(nanos) % BUCKETS];
        *bucket = bucket.wrapping_add(count);
    }

    /// How many times it has.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().map(|&count| u64::from(count)).sum()
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|&count| count == 0)
    }

    /// Adds those of another.
    pub fn add(&mut self, other: &Buckets) {
        for (count, more) in self.0.iter_mut().zip(other.0) {
            *count = count.saturating_add(more);
        }
    }

    /// The time that a share `q` (0 to 1) of them does not exceed, interpolated within its bucket; `None` without any. Times above the last
    /// bound count as that.
    #[must_use]
    pub fn quantile(&self, q: f64) -> Option<Duration> {
        let total = self.total();
        if total == 0 {
            return None;
        }
        let rank = (q.clamp(0.0, 1.0) * total as f64).max(1.0);
        let mut below = 0.0;
        for (bucket, &count) in self.0.iter().enumerate().filter(|(_, count)| **count > 0) {
            let count = f64::from(count);
            if below + count >= rank || bucket == BOUNDS {
                let from = bucket.checked_sub(1).map_or(0, |before| BOUNDS_NANOS[before]);
                let to = BOUNDS_NANOS.get(bucket).copied().unwrap_or(from);
                let part = ((rank - below) / count).clamp(0.0, 1.0);
                return Some(Duration::from_nanos(from + ((to - from) as f64 * part) as u64));
            }
            below += count;
        }
        // Rounding has left the rank above the total.
        BOUNDS_NANOS.last().map(|&nanos| Duration::from_nanos(nanos))
    }

    /// The mean in microseconds, each time taken as the geometric middle of its bucket; 0 without any.
    #[must_use]
    pub fn mean_us(&self) -> f64 {
        let middle_us = |bucket: usize| {
            let to = BOUNDS_NANOS.get(bucket).map_or(BOUNDS_NANOS[BOUNDS - 1] as f64 * 1.6, |&to| to as f64);
            let from = bucket.checked_sub(1).map_or(to / 4.0, |before| BOUNDS_NANOS[before] as f64);
            (from * to).sqrt() / 1e3
        };
        let sum: f64 = self.0.iter().enumerate().map(|(bucket, &count)| f64::from(count) * middle_us(bucket)).sum();
        sum / self.total().max(1) as f64
    }

    /// Of 16 bits each: a power of two by which they are to be multiplied, and the counts divided by it, rounded up, so that rare times stay.
    #[must_use]
    pub fn pack(&self) -> (u8, [u16; BUCKETS]) {
        let most = self.0.iter().copied().max().unwrap_or_default();
        let shift = (u32::BITS - most.leading_zeros()).saturating_sub(u16::BITS) as u8;
        let least = (1u32 << shift) - 1;
        (shift, self.0.map(|count| u16::try_from((count >> shift) + u32::from(count & least != 0)).unwrap_or(u16::MAX)))
    }

    /// The reverse of [`Buckets::pack`].
    #[must_use]
    pub fn unpack((shift, counts): (u8, &[u16; BUCKETS])) -> Buckets {
        Buckets(counts.map(|count| u32::from(count) << shift.min(u16::BITS as u8)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bounds_go_from_4_us_to_4_s() {
        assert_eq!(BOUNDS_NANOS[..7], [4_000, 6_300, 10_000, 16_000, 25_000, 40_000, 63_000]);
        assert_eq!(BOUNDS_NANOS[BOUNDS - 1], 4_000_000_000);
        assert!(BOUNDS_NANOS.is_sorted());
    }

    #[test]
    fn a_bound_belongs_to_the_bucket_that_it_ends() {
        for (bucket, bound) in BOUNDS_NANOS.into_iter().enumerate() {
            assert_eq!([bound - 1, bound, bound + 1].map(bucket_of), [bucket, bucket, bucket + 1]);
        }
        assert_eq!([0, 1, u64::MAX].map(bucket_of), [0, 0, BOUNDS]);
    }

    #[test]
    fn quantiles_are_interpolated() {
        let mut buckets = Buckets::default();
        assert_eq!(buckets.quantile(0.5), None);
        buckets.record_n(200_000, 100);
        // All in (160, 250] us.
        assert_eq!(buckets.quantile(0.5), Some(Duration::from_micros(205)));
        assert_eq!(buckets.quantile(1.0), Some(Duration::from_micros(250)));
        buckets.record_n(5_000_000_000, 1);
        assert_eq!(buckets.quantile(0.99), Some(Duration::from_nanos(249_990)));
        assert_eq!(buckets.quantile(1.0), Some(Duration::from_secs(4)), "the last bucket has no end");
        assert_eq!(buckets.quantile(f64::NAN), Some(Duration::from_nanos(160_900)), "no panic");
    }

    #[test]
    fn means_are_estimated_from_the_middle_of_each_bucket() {
        let mut buckets = Buckets::default();
        assert_eq!(buckets.mean_us(), 0.0);
        buckets.record_n(200_000, 3);
        assert_eq!(buckets.mean_us().round(), 200.0, "all in (160, 250] us");
        buckets.record_n(u64::MAX, 1);
        assert_eq!((buckets.mean_us() / 1e5).round(), 13.0, "the last bucket counts as 5.1 s");
    }

    #[test]
    fn packing_keeps_rare_times_below_at_and_above_16_bits() {
        for (most, shift) in [(0, 0), (65_535, 0), (65_536, 1), (131_071, 1), (131_072, 2), (u32::MAX, 16)] {
            let mut buckets = Buckets::default();
            (buckets.0[3], buckets.0[9]) = (most, 1);
            let (packed_shift, counts) = buckets.pack();
            assert_eq!((packed_shift, counts[9] > 0), (shift, true), "{most}");
            let unpacked = Buckets::unpack((packed_shift, &counts)).0[3];
            assert!(unpacked.abs_diff(most) < 1 << shift || most == u32::MAX, "{most}: {unpacked}");
        }
    }

    proptest! {
        #[test]
        fn a_time_is_in_the_first_bucket_whose_bound_it_does_not_exceed(nanos in prop_oneof![any::<u64>(), 0..10_000_000_000u64, 0..100_000u64]) {
            prop_assert_eq!(bucket_of(nanos), BOUNDS_NANOS.partition_point(|&bound| bound < nanos));
        }

        #[test]
        fn packing_is_off_by_less_than_one_unit(counts in any::<[u32; BUCKETS]>(), small in 0..32u32) {
            let buckets = Buckets(counts.map(|count| count >> small));
            let (shift, packed) = buckets.pack();
            for (before, after) in buckets.0.into_iter().zip(Buckets::unpack((shift, &packed)).0) {
                prop_assert!(u64::from(after.abs_diff(before)) <= 1 << shift);
                prop_assert_eq!(before == 0, after == 0);
            }
        }
    }
}
