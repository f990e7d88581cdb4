//! Seeds with changes drawn from a fixed seed: what a fuzzer does in its first minutes, without one. The longer run is for `make unit-long`.

use crate::TARGETS;
use crate::seeds::seeds;

/// Inputs that are longer do not become longer still.
const LENGTH_MAX: usize = 4096;

/// A small generator of numbers (xorshift64*), so that every run does the same.
#[derive(Debug)]
struct Draws(u64);

impl Draws {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}

/// Changes an input once: a bit, a byte, a number at its limits, a piece that is cut, doubled, moved, or taken from another.
fn change(input: &mut Vec<u8>, other: &[u8], draws: &mut Draws) {
    let at = draws.below(input.len() + 1);
    let end = (at + 1 + draws.below(16)).min(input.len());
    match draws.below(8) {
        0 if at < input.len() => input[at] ^= 1 << draws.below(8),
        1 if at < input.len() => input[at] = draws.next() as u8,
        2 if at < input.len() => input[at] = [0, 1, 0x7f, 0x80, 0xff][draws.below(5)],
        3 if at < end => {
            input.drain(at..end);
        }
        4 if at < end && input.len() < LENGTH_MAX => {
            let piece = input[at..end].to_vec();
            input.splice(at..at, piece);
        }
        5 => input.truncate(at),
        6 if !other.is_empty() && input.len() < LENGTH_MAX => {
            let from = draws.below(other.len());
            let to = (from + 1 + draws.below(64)).min(other.len());
            input.splice(at..at, other[from..to].iter().copied());
        }
        _ => input.insert(at, draws.next() as u8),
    }
}

/// Runs a target on `count` changed seeds.
pub fn run(target: &str, count: u64) {
    let (_, feed) = TARGETS.iter().find(|(name, _)| *name == target).expect("a target");
    let seeds: Vec<Vec<u8>> = seeds(target).into_iter().map(|(_, bytes)| bytes).collect();
    let mut draws = Draws(0x9e37_79b9_7f4a_7c15);
    for _ in 0..count {
        let mut input = seeds[draws.below(seeds.len())].clone();
        for _ in 0..=draws.below(6) {
            let other = draws.below(seeds.len());
            change(&mut input, &seeds[other], &mut draws);
        }
        feed(&input);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Targets of what strangers send before they have proven anything.
    const BEFORE_KEYS: [&str; 5] = ["keys", "enroll", "admin_host", "nbd_handshake", "node_frames"];

    #[test]
    fn changed_seeds_are_refused_or_taken_and_nothing_breaks() {
        for target in BEFORE_KEYS {
            run(target, if cfg!(debug_assertions) { 300 } else { 2_000 });
        }
    }

    #[test]
    #[ignore = "takes minutes: INPUTS for each target, 100,000 unless it says otherwise"]
    fn long_changed_seeds_are_refused_or_taken_and_nothing_breaks() {
        let count = std::env::var("INPUTS").ok().and_then(|count| count.parse().ok()).unwrap_or(100_000);
        for target in BEFORE_KEYS {
            run(target, count);
        }
    }
}
