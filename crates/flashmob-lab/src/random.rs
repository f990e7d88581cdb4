//! Numbers that look random, and are the same on every machine for the same seed.

/// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014). Its own few lines rather
/// than a library's small generator, because those differ between 32 and 64 bits and between versions.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Random(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// `mean` more or less by up to `percent`, in the shape of a bell: the sum of four uniform numbers. Integers
    /// only, since logarithms and exponentials differ in the last bit between machines.
    pub(crate) fn around(&mut self, mean: u64, percent: u32) -> u64 {
        const HALF: i128 = 2 * 0xffff;
        let bits = self.next();
        let sum: i128 = (0..4).map(|i| i128::from((bits >> (16 * i)) & 0xffff)).sum();
        let mean = i128::from(mean);
        let off = mean * i128::from(percent) * (sum - HALF) / (100 * HALF);
        u64::try_from(mean + off).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_numbers_are_those_of_the_published_generator() {
        let mut random = Random::new(1234567);
        let first: Vec<u64> = (0..3).map(|_| random.next()).collect();
        assert_eq!(first, [6457827717110365317, 3203168211198807973, 9817491932198370423]);
    }

    #[test]
    fn jitter_keeps_the_mean_and_the_bounds() {
        let mut random = Random::new(1);
        let drawn: Vec<u64> = (0..20_000).map(|_| random.around(1_000_000, 20)).collect();
        assert!(drawn.iter().all(|&x| (800_000..=1_200_000).contains(&x)));
        let mean = drawn.iter().sum::<u64>() / 20_000;
        assert!((998_000..1_002_000).contains(&mean), "{mean}");
        assert!(drawn.iter().any(|&x| x < 930_000) && drawn.iter().any(|&x| x > 1_070_000));
    }
}
