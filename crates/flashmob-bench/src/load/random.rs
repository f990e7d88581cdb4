//! Random numbers that are the same on every machine and in every version, so that a random seed repeats a load. Not for secrets.

/// The finalizer of SplitMix64 (Steele, Lea and Flood 2014, "Fast splittable pseudorandom number
/// generators"): a bijection that spreads every input bit over all output bits.
#[inline]
#[must_use]
pub fn mix64(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// SplitMix64's increment: 2^64 divided by the golden ratio, made odd.
pub const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// SplitMix64.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The sequence of `seed`; `stream` separates the sequences of several users of one seed.
    #[must_use]
    pub fn new(seed: u64, stream: u64) -> Random {
        Random(mix64(seed).wrapping_add(mix64(stream.wrapping_add(GOLDEN))))
    }

    /// The next number.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        mix64(self.0)
    }

    /// A number below `bound`, or 0 if that is 0. Uniform up to `bound` / 2^64.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_published_sequence() {
        // SplitMix64 from state 1234567, as its reference implementation prints it.
        let mut random = Random(1_234_567);
        assert_eq!(random.next_u64(), 6_457_827_717_110_365_317);
        assert_eq!(random.next_u64(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn numbers_below_a_bound_cover_it_evenly() {
        let mut random = Random::new(7, 0);
        let mut seen = [0u32; 10];
        for _ in 0..10_000 {
            seen[random.below(10) as usize] += 1;
        }
        assert!(seen.iter().all(|n| (850..1150).contains(n)), "{seen:?}");
        assert_eq!((random.below(0), random.below(1)), (0, 0));
    }

    #[test]
    fn streams_of_one_seed_differ() {
        assert_ne!(Random::new(1, 0).next_u64(), Random::new(1, 1).next_u64());
        assert_ne!(Random::new(1, 0).next_u64(), Random::new(2, 0).next_u64());
    }
}
