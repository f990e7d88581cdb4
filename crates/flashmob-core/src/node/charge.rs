//! Which gateway is in charge of an extent that belongs to a volume with copies.
//!
//! Each start of such a gateway has a larger epoch. A node remembers the largest durably, beside its data, and accepts no hello below
//! it, so a gateway that was replaced cannot change anything any more, whatever it believes.

use crate::planted::{self, Bug};
use crate::wire::hello::{Charge, RefuseReason};
use crate::wire::mirror::{MirrorState, decisions};

/// Checks the charge of a hello against the one that the extent remembers.
///
/// An extent that remembers none is free, or belongs to a volume without copies: [`Host::adopt`](super::Host::adopt) tells these apart.
pub fn check_charge(remembered: Option<&Charge>, offered: Option<&Charge>) -> Result<(), (RefuseReason, String)> {
    let Some(known) = remembered else { return Ok(()) };
    let Some(offered) = offered else {
        let text = "the extent belongs to a volume with copies, and this gateway's volume has none; correct its \
                    configuration, or start the node with --forget to give up the data, if no chunk has its only copy there";
        return Err((RefuseReason::Identity, text.to_string()));
    };
    if known.map_id != offered.map_id {
        let (known, offered) = (u128::from_be_bytes(known.map_id), u128::from_be_bytes(offered.map_id));
        let text = format!(
            "the extent belongs to the volume with the map {known:032x}, and this gateway's map is {offered:032x}; \
             give it that map, recover it with `flashmob volume recover`, or start the node with --forget to give up the data, \
             if no chunk of that volume has its only copy there"
        );
        return Err((RefuseReason::Identity, text));
    }
    if planted::is(Bug::EarlierEpochAccepted) {
        return Ok(());
    }
    let is_same_start = (known.epoch, known.nonce) == (offered.epoch, offered.nonce);
    if offered.epoch < known.epoch {
        let text = format!(
            "a later gateway is in charge of this volume: epoch {}, this one has {}. If it runs, stop one of the two, and start the other again; \
             else this map is old: {OLD_MAP}",
            known.epoch, offered.epoch
        );
        return Err((RefuseReason::Deposed, text));
    }
    if offered.epoch == known.epoch && !is_same_start {
        let text = format!(
            "another gateway is in charge of this volume, and has the same epoch, {}. If it runs, stop one of the two, and start the other again; \
             else this map is old: {OLD_MAP}",
            known.epoch
        );
        return Err((RefuseReason::Deposed, text));
    }
    if offered.version < known.version {
        let (known, offered) = (known.version, offered.version);
        // A hello that was delayed behind another of the same start deposes nobody: the next one has the later version.
        return Err(if is_same_start {
            (
                RefuseReason::Superseded,
                format!("a later hello came first: version {known} of the map, this one has {offered}"),
            )
        } else {
            (
                RefuseReason::Deposed,
                format!(
                    "this gateway's map is old: version {offered}, version {known} is known here; use the latest map, or {OLD_MAP}"
                ),
            )
        });
    }
    Ok(())
}

/// The remedy where the latest map is not there. Refusals have room for few words.
const OLD_MAP: &str = "move it away, and `flashmob volume recover`";

/// Checks the numbers of a hello's charge against the generation of the key with which the gateway was let in.
///
/// Without that, who had stolen a key once could keep all others out for ever, with the largest numbers that there are.
pub fn check_generation(admitted: u64, offered: Option<&Charge>) -> Result<(), (RefuseReason, String)> {
    let Some(needed) = offered.map(Charge::generation).filter(|needed| *needed > admitted) else { return Ok(()) };
    if planted::is(Bug::GenerationUnchecked) {
        return Ok(());
    }
    let text = format!(
        "this gateway's map has numbers of generation {needed} of the keys, and its key is of generation {admitted}; give it a later \
         key (`flashmob key rotate --generation {needed}`), or the map that belongs to this one"
    );
    Err((RefuseReason::Identity, text))
}

/// Checks the charge of a hello against the mirror that the extent keeps: the map's identity, and how much of it.
///
/// A mirror gets only what is durable in the map, so the map of a later start has all decisions of the mirror, unless it is an older state of the
/// file, such as a restored backup. Starts do not count, else such a map would have as many after some more of them. What it decided since then
/// does, so the gateway compares the welcome with what its map had at first.
pub fn check_mirror(
    mirror: Option<&([u8; 16], MirrorState)>,
    offered: Option<&Charge>,
) -> Result<(), (RefuseReason, String)> {
    let (Some((map_id, known)), Some(offered)) = (mirror, offered) else { return Ok(()) };
    if *map_id != offered.map_id {
        return Ok(());
    }
    // Hellos of the start that keeps the mirror may be delayed.
    let is_same_start = (known.epoch, known.nonce) == (offered.epoch, offered.nonce);
    let lacks = known.decisions().saturating_sub(decisions(offered.epoch, offered.version));
    if lacks == 0 || is_same_start || are_older_maps_believed() {
        return Ok(());
    }
    Err((RefuseReason::Deposed, older_map(lacks)))
}

/// The condition of [`Bug::OlderMapBelieved`], and of two that let it through.
#[must_use]
pub fn are_older_maps_believed() -> bool {
    [Bug::OlderMapBelieved, Bug::EarlierEpochAccepted, Bug::EpochForgotten].into_iter().any(planted::is)
}

/// Says that a map is refused, and what to do.
#[must_use]
pub fn older_map(lacks: u64) -> String {
    format!(
        "this gateway's map is an older state of it, and lacks {lacks} decisions that a node's mirror has; stop this gateway, \
         move its map away, and recover the latest with `flashmob volume recover`, or start it with the latest map if no node took this one"
    )
}

/// How many of the charges that it accepted an extent keeps, the last of them.
pub const ACCEPTED_MAX: usize = 16;

/// Adds a charge's epoch and version to those that an extent has accepted, oldest first.
pub fn accept(accepted: &mut Vec<(u64, u64)>, charge: &Charge) {
    let news = (charge.epoch, charge.version);
    if accepted.last() != Some(&news) {
        accepted.push(news);
    }
    let surplus = accepted.len().saturating_sub(ACCEPTED_MAX);
    accepted.drain(..surplus);
}

/// The charge that a welcome tells as remembered: the last one that the extent `accepted` before this hello, or its `age` if that is later, but none
/// later than what the gateway knows ([`Hello::seen`](crate::wire::hello::Hello::seen)).
///
/// An extent that accepted what the gateway knows, or is at least so old, tells just that. An older copy of it did not: it tells less, and goes on
/// so when it has accepted the gateway's present charge, until the gateway knows of that. So a gateway learns it though a welcome is lost. It must
/// not make the extent older before it has recorded what that means.
#[must_use]
pub fn remembered(seen: Option<(u64, u64)>, accepted: &[(u64, u64)], age: Option<(u64, u64)>) -> Option<(u64, u64)> {
    let is_known = |charge: &&(u64, u64)| seen.is_none_or(|seen| **charge <= seen);
    let charge = accepted.iter().rev().find(is_known).copied();
    charge.max(age.map(|age| seen.map_or(age, |seen| seen.min(age))))
}

/// Whether a hello with this charge is of a later start than the one that the extent remembers.
#[must_use]
pub fn takes_over(remembered: Option<&Charge>, offered: Option<&Charge>) -> bool {
    offered.is_some_and(|offered| remembered.is_none_or(|known| known.epoch < offered.epoch))
}

/// Whether a charge is of a later [generation](Charge::generation) than the one that the extent remembers: a gateway of that one may have written
/// the mirror, whoever it was.
#[must_use]
pub fn is_of_later_generation(remembered: Option<&Charge>, offered: Option<&Charge>) -> bool {
    let generation = |charge: Option<&Charge>| charge.map_or(0, Charge::generation);
    generation(remembered) < generation(offered)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::hello::CHARGE_NUMBER_MAX;
    use proptest::prelude::*;

    const KNOWN: Charge = Charge { map_id: [1; 16], epoch: 5, nonce: 77, version: 9 };

    /// Why a charge is refused where [`KNOWN`] is remembered.
    fn refused(offered: Charge) -> Option<(RefuseReason, String)> {
        check_charge(Some(&KNOWN), Some(&offered)).err()
    }

    #[test]
    fn each_difference_is_judged_at_below_and_above() {
        assert_eq!(refused(KNOWN), None);
        assert_eq!(refused(Charge { version: 10, ..KNOWN }), None);
        assert_eq!(refused(Charge { epoch: 6, nonce: 1, ..KNOWN }), None);
        assert_eq!(refused(Charge { epoch: 6, ..KNOWN }), None);
        for (offered, reason, expected) in [
            (Charge { epoch: 4, nonce: 1, version: 99, ..KNOWN }, RefuseReason::Deposed, "epoch 5, this one has 4"),
            (Charge { epoch: 4, ..KNOWN }, RefuseReason::Deposed, "epoch 5, this one has 4"),
            (Charge { nonce: 78, version: 99, ..KNOWN }, RefuseReason::Deposed, "the same epoch, 5"),
            (
                Charge { epoch: 6, nonce: 1, version: 8, ..KNOWN },
                RefuseReason::Deposed,
                "version 8, version 9 is known",
            ),
            (Charge { version: 8, ..KNOWN }, RefuseReason::Superseded, "version 9 of the map, this one has 8"),
            (Charge { map_id: [2; 16], epoch: 99, ..KNOWN }, RefuseReason::Identity, "map is 02020202"),
        ] {
            let (found, text) = refused(offered).expect("refused");
            assert!(found == reason && text.contains(expected), "{offered:?}: {found:?}: {text}");
            assert_eq!(reason == RefuseReason::Deposed, text.ends_with("`flashmob volume recover`"), "{text}");
        }
        // A refusal has room for all of it.
        let latest = Charge { epoch: CHARGE_NUMBER_MAX, version: CHARGE_NUMBER_MAX, ..KNOWN };
        for offered in [
            Charge { epoch: CHARGE_NUMBER_MAX - 1, nonce: 1, ..latest },
            Charge { nonce: 1, ..latest },
            Charge { epoch: CHARGE_NUMBER_MAX + 1, nonce: 1, version: CHARGE_NUMBER_MAX - 1, ..latest },
        ] {
            let (_, text) = check_charge(Some(&latest), Some(&offered)).expect_err("refused");
            assert!(text.len() <= 255, "{text}");
        }
        let (reason, text) = check_charge(Some(&KNOWN), None).expect_err("refused");
        assert!(reason == RefuseReason::Identity && text.contains("volume with copies") && text.contains("--forget"));
    }

    #[test]
    fn numbers_need_a_key_of_their_generation() {
        let first = |generation| crate::wire::generation::first_of(generation).expect("a generation");
        let checked = |admitted, epoch, version| check_generation(admitted, Some(&Charge { epoch, version, ..KNOWN }));
        for generation in [0, 1, 5] {
            let next = first(generation + 1);
            assert_eq!(checked(generation, next - 1, 2 * (next - 1)), Ok(()));
            for (epoch, version) in [(next, next), (next - 1, 2 * next), (1, next + 1)] {
                let (reason, text) = checked(generation, epoch, version).expect_err("refused");
                let expected =
                    format!("generation {} of the keys, and its key is of generation {generation}", generation + 1);
                assert!(reason == RefuseReason::Identity && text.contains(&expected), "{text}");
                assert_eq!(checked(generation + 1, epoch, version), Ok(()));
            }
        }
        assert_eq!(check_generation(0, None), Ok(()), "a volume without copies");
    }

    #[test]
    fn a_map_that_lacks_what_its_mirror_has_is_refused() {
        let mirror = ([1; 16], MirrorState { epoch: 5, nonce: 77, version: 9, len_bytes: 400 });
        let next = Charge { epoch: 6, nonce: 1, version: 10, ..KNOWN };
        for (epoch, version, lacks) in [(6, 9, 1), (6, 6, 4), (7, 10, 1), (90, 93, 1)] {
            let (reason, text) =
                check_mirror(Some(&mirror), Some(&Charge { epoch, version, ..next })).expect_err("refused");
            assert_eq!(reason, RefuseReason::Deposed);
            assert!(text.contains(&format!("lacks {lacks} decisions")), "{text}");
        }
        for (epoch, version) in [(6, 10), (6, 11), (90, 94)] {
            assert_eq!(check_mirror(Some(&mirror), Some(&Charge { epoch, version, ..next })), Ok(()));
        }
        // A hello of the start that keeps the mirror, delayed behind what it has sent on another link.
        assert_eq!(check_mirror(Some(&mirror), Some(&Charge { version: 8, ..KNOWN })), Ok(()));
        let other_map = Charge { map_id: [2; 16], version: 1, ..next };
        assert_eq!(check_mirror(Some(&mirror), Some(&other_map)), Ok(()), "that is for the charge to refuse");
        assert_eq!((check_mirror(None, Some(&next)), check_mirror(Some(&mirror), None)), (Ok(()), Ok(())));
    }

    #[test]
    fn an_extent_that_remembers_nothing_judges_nothing() {
        assert_eq!(check_charge(None, None), Ok(()));
        assert_eq!(check_charge(None, Some(&KNOWN)), Ok(()));
        assert!(takes_over(None, Some(&KNOWN)) && !takes_over(None, None) && !takes_over(Some(&KNOWN), None));
        assert!(!takes_over(Some(&KNOWN), Some(&Charge { version: 10, ..KNOWN })));
        assert!(takes_over(Some(&KNOWN), Some(&Charge { epoch: 6, ..KNOWN })));
    }

    #[test]
    fn an_older_copy_tells_less_than_the_gateway_knows_until_it_knows_of_the_copy() {
        let versions = |versions: &[u64]| versions.iter().map(|&version| (5, version)).collect::<Vec<_>>();
        let told = |seen: Option<u64>, accepted: &[u64]| {
            remembered(seen.map(|version| (5, version)), &versions(accepted), None).map(|(_, version)| version)
        };
        assert_eq!(told(None, &[]), None, "a free extent");
        assert_eq!(told(None, &[1, 2]), Some(2), "a gateway that knows nothing");
        // What the gateway knows may lag behind by several welcomes.
        for (seen, accepted) in [(1, &[1][..]), (1, &[1, 2, 3]), (2, &[1, 2, 3]), (3, &[1, 2, 3])] {
            assert_eq!(told(Some(seen), accepted), Some(seen));
        }
        // A copy that accepted version 1 comes back when the gateway knows of version 5; its welcomes are lost; the gateway learns it.
        assert_eq!(told(Some(5), &[1]), Some(1));
        assert_eq!(told(Some(5), &[1, 6, 7]), Some(1));
        assert_eq!(told(Some(7), &[1, 6, 7]), Some(7));
        // One from before the extent was adopted.
        assert_eq!(told(Some(5), &[]), None);
        assert_eq!(told(Some(5), &[6]), None);
    }

    #[test]
    fn an_age_counts_as_a_charge_that_is_at_least_so_late() {
        let told = |seen: Option<u64>, accepted: &[(u64, u64)], age: (u64, u64)| {
            remembered(seen.map(|version| (5, version)), accepted, Some(age))
        };
        let charge = [(5, 2)];
        assert_eq!(told(None, &[], (5, 4)), Some((5, 4)), "a gateway that knows nothing");
        for (seen, age) in [(2, (5, 2)), (3, (5, 3)), (3, (5, 4)), (3, (6, 1))] {
            assert_eq!(told(Some(seen), &charge, age), Some((5, seen)), "{seen}: it is at least so old");
        }
        for age in [(5, 3), (5, 8), (4, 90)] {
            let older = age.max((5, 2));
            assert_eq!(told(Some(9), &charge, age), Some(older), "it is younger");
        }
        // It has accepted a charge since, and the welcome was lost.
        assert_eq!(told(Some(9), &[(5, 2), (5, 11)], (5, 8)), Some((5, 8)));
    }

    #[test]
    fn the_last_charges_are_kept() {
        let mut accepted = Vec::new();
        for version in 0..ACCEPTED_MAX as u64 + 3 {
            for _ in 0..2 {
                accept(&mut accepted, &Charge { version, ..KNOWN });
            }
        }
        let kept: Vec<u64> = accepted.iter().map(|&(_, version)| version).collect();
        assert_eq!(kept, (3..ACCEPTED_MAX as u64 + 3).collect::<Vec<_>>());
    }

    fn any_charge() -> impl Strategy<Value = Charge> {
        (0u8..2, 0u64..4, 0u64..3, 0u64..4).prop_map(|(map, epoch, nonce, version)| Charge {
            map_id: [map; 16],
            epoch,
            nonce,
            version,
        })
    }

    proptest! {
        #[test]
        fn what_is_remembered_never_goes_back(first in any_charge(), offered in prop::collection::vec(any_charge(), 0..30)) {
            let mut known = first;
            for next in offered {
                if check_charge(Some(&known), Some(&next)).is_ok() {
                    prop_assert_eq!(known.map_id, next.map_id);
                    prop_assert!(known.epoch <= next.epoch && known.version <= next.version);
                    prop_assert!(known.epoch < next.epoch || known.nonce == next.nonce);
                    known = next;
                }
                prop_assert_eq!(check_charge(Some(&known), Some(&known)), Ok(()));
            }
        }
    }
}
