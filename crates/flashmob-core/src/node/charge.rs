//! Which gateway is in charge of an extent that belongs to a volume with copies.
//!
//! Each start of such a gateway has a larger epoch. A node remembers the largest durably, beside its data, and accepts no hello below
//! it, so a gateway that was replaced cannot change anything any more, whatever it believes.

use crate::wire::hello::{Charge, RefuseReason};

/// Checks the charge of a hello against the one that the extent remembers.
///
/// An extent that remembers none is free, or belongs to a volume without copies: [`Host::adopt`](super::Host::adopt) tells these apart.
pub fn check_charge(remembered: Option<&Charge>, offered: Option<&Charge>) -> Result<(), (RefuseReason, String)> {
    let Some(known) = remembered else { return Ok(()) };
    let Some(offered) = offered else {
        let text = "the extent belongs to a volume with copies, and this gateway's volume has none; correct its \
                    configuration, or start the node with --forget to give up the data";
        return Err((RefuseReason::Identity, text.to_string()));
    };
    if known.map_id != offered.map_id {
        let (known, offered) = (u128::from_be_bytes(known.map_id), u128::from_be_bytes(offered.map_id));
        let text = format!(
            "the extent belongs to the volume with the map {known:032x}, and this gateway's map is {offered:032x}; \
             give it that map, or start the node with --forget to give up the data"
        );
        return Err((RefuseReason::Identity, text));
    }
    let is_same_start = (known.epoch, known.nonce) == (offered.epoch, offered.nonce);
    if offered.epoch < known.epoch {
        let text = format!(
            "a later gateway is in charge of this volume: epoch {}, this one has {}",
            known.epoch, offered.epoch
        );
        return Err((RefuseReason::Deposed, text));
    }
    if offered.epoch == known.epoch && !is_same_start {
        let text = format!("another gateway is in charge of this volume, and has the same epoch, {}", known.epoch);
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
                format!("this gateway's map is old: version {offered}, version {known} is known here"),
            )
        });
    }
    Ok(())
}

/// What the welcomes of an extent tell from now on: it has accepted a hello whose gateway knows that it remembers `seen`. `remembered` is the
/// charge that it remembers before that hello, `told` what its welcomes told until now.
///
/// A gateway must learn that an extent remembers less than it should, though the welcome is lost that says so first. So that is told until a
/// gateway knows of what was remembered since.
#[must_use]
pub fn told_after(seen: Option<(u64, u64)>, remembered: Option<Charge>, told: Option<Charge>) -> Option<Charge> {
    let is_known = seen.is_none() || seen >= remembered.map(|charge| (charge.epoch, charge.version));
    if is_known { remembered } else { told }
}

/// Whether a hello with this charge is of a later start than the one that the extent remembers.
#[must_use]
pub fn takes_over(remembered: Option<&Charge>, offered: Option<&Charge>) -> bool {
    offered.is_some_and(|offered| remembered.is_none_or(|known| known.epoch < offered.epoch))
}

#[cfg(test)]
mod tests {
    use super::*;
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
        }
        let (reason, text) = check_charge(Some(&KNOWN), None).expect_err("refused");
        assert!(reason == RefuseReason::Identity && text.contains("volume with copies") && text.contains("--forget"));
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
    fn an_older_copy_is_told_until_the_gateway_knows_of_what_it_remembers_since() {
        let charge = |version| Charge { version, ..KNOWN };
        let seen = |version| Some((KNOWN.epoch, version));
        // Each hello is remembered after the one before; what the gateway knows lags behind where a welcome is lost.
        assert_eq!(told_after(None, None, None), None, "a free extent");
        assert_eq!(told_after(None, Some(charge(1)), None), Some(charge(1)), "a gateway that knows nothing");
        assert_eq!(told_after(seen(1), Some(charge(1)), None), Some(charge(1)));
        assert_eq!(told_after(seen(1), Some(charge(2)), Some(charge(1))), Some(charge(1)), "a welcome was lost");
        assert_eq!(told_after(seen(3), Some(charge(3)), Some(charge(1))), Some(charge(3)));
        // A copy that remembers version 1 comes back when the gateway knows of version 5.
        assert_eq!(told_after(seen(5), Some(charge(1)), None), Some(charge(1)));
        assert_eq!(told_after(seen(5), Some(charge(6)), Some(charge(1))), Some(charge(1)), "that welcome was lost");
        assert_eq!(told_after(seen(7), Some(charge(7)), Some(charge(1))), Some(charge(7)), "the gateway has learnt it");
        // One from before it was adopted.
        assert_eq!(told_after(seen(5), None, None), None);
        assert_eq!(told_after(seen(5), Some(charge(6)), None), None, "that welcome was lost");
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
