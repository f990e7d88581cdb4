//! Generations of keys in the numbers of charges and of maps.
//!
//! Epochs, and decisions (versions less epochs), are counted in 48 bits; the bits above are a generation of the cluster's keys. A node accepts no
//! number of a later generation than that of the gateway's key, so that a stolen key, used for the largest numbers that it can have, does not keep
//! the gateways of the next generation out: a map that is recovered with their keys counts from that generation on. A later key alone raises no
//! number, so an older state of a map, used with it, is refused as before.

use super::hello::Charge;
use super::mirror::{MirrorState, decisions};
use crate::planted::{self, Bug};

/// Bits of a number below its generation: starts, decisions, and what recoveries leave out.
const COUNT_BITS: u32 = 48;

/// The largest generation. The largest version, an epoch and as many decisions, is not above
/// [`CHARGE_NUMBER_MAX`](super::hello::CHARGE_NUMBER_MAX).
pub const GENERATION_MAX: u64 = (1 << 14) - 1;

const _: () = assert!(2 * ((GENERATION_MAX + 1) << COUNT_BITS) - 2 <= super::hello::CHARGE_NUMBER_MAX);

/// The first number of a generation.
#[must_use]
pub fn first_of(generation: u64) -> Option<u64> {
    (generation <= GENERATION_MAX).then_some(generation << COUNT_BITS)
}

/// The generation of an epoch and a version.
#[must_use]
pub fn generation_of(epoch: u64, version: u64) -> u64 {
    epoch.max(decisions(epoch, version)) >> COUNT_BITS
}

impl Charge {
    /// The generation of keys that a gateway needs for it.
    #[must_use]
    pub fn generation(&self) -> u64 {
        generation_of(self.epoch, self.version)
    }
}

impl MirrorState {
    /// Whether a gateway with that charge may have written it.
    #[must_use]
    pub fn fits(&self, charge: &Charge) -> bool {
        generation_of(self.epoch, self.version) <= charge.generation() || planted::is(Bug::FalseMirrorBelieved)
    }
}

#[cfg(test)]
mod tests {
    use super::super::hello::CHARGE_NUMBER_MAX;
    use super::*;

    #[test]
    fn numbers_have_the_generation_of_their_high_bits() {
        let first = |generation| first_of(generation).unwrap();
        assert_eq!((first(0), first(1), first_of(GENERATION_MAX + 1)), (0, 1 << 48, None));
        for generation in [1, 2, 9, GENERATION_MAX] {
            let (below, at) = (first(generation) - 1, first(generation));
            assert_eq!((generation_of(below, below), generation_of(at, at)), (generation - 1, generation), "epoch");
            // Decisions are counted from the epoch on.
            assert_eq!((generation_of(7, 7 + below), generation_of(7, 7 + at)), (generation - 1, generation));
            assert_eq!(generation_of(at, 3), generation, "a version below the epoch");
        }
        let most = first(GENERATION_MAX) + (1 << 48) - 1;
        assert_eq!(generation_of(most, 2 * most), GENERATION_MAX);
        assert!(2 * most <= CHARGE_NUMBER_MAX && generation_of(CHARGE_NUMBER_MAX, 0) > GENERATION_MAX);
    }

    #[test]
    fn a_mirror_is_of_no_later_generation_than_the_charge() {
        let charge = |epoch, version| Charge { map_id: [1; 16], epoch, nonce: 1, version };
        let state = |epoch, version| MirrorState { epoch, nonce: 1, version, len_bytes: 9 };
        let at = 1 << 48;
        assert!(state(5, 9).fits(&charge(5, 6)) && state(at - 1, at - 1).fits(&charge(1, 1)));
        assert!(!state(at, at).fits(&charge(1, 1)) && !state(1, at + 1).fits(&charge(1, 1)));
        assert!(state(1, at + 1).fits(&charge(at, at)) && state(at, at + 5).fits(&charge(1, at + 1)));
    }
}
