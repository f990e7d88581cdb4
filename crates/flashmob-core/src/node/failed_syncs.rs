//! Which start of its device a node shows to gateways, and what it remembers of syncs that failed.
//!
//! A sync that fails leaves pages that the kernel takes for clean though the flash lacks them: the next sync succeeds without them. A process
//! of the node believes no sync after one that failed. So that the next process knows it too, the failure is recorded. That process drops the
//! pages before it serves anything, so that reads and digests see what the flash has, and shows another start of the device: what was not
//! flushed may be lost, as after any restart.

use twox_hash::XxHash3_64;

use crate::planted::{self, Bug};

/// Failed syncs since a start of the device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FailedSyncs {
    /// That start; `None` where the system does not tell it.
    pub boot_id: Option<[u8; 16]>,
    /// How many processes have had a sync that failed.
    pub failed: u64,
    /// How many of these had when pages were dropped last.
    pub dropped: u64,
}

impl FailedSyncs {
    /// What counts when a process starts, of what was recorded in several places. Records of other starts of the device are over: their pages
    /// are gone.
    #[must_use]
    pub fn at_start(boot_id: Option<[u8; 16]>, recorded: &[FailedSyncs]) -> FailedSyncs {
        let none = FailedSyncs { boot_id, ..FailedSyncs::default() };
        if planted::is(Bug::FailedSyncLaundered) {
            return none;
        }
        // A place that could not be written lags behind; neither number ever falls.
        recorded.iter().filter(|record| record.counts_for(boot_id)).fold(none, |known, record| FailedSyncs {
            boot_id,
            failed: known.failed.max(record.failed),
            dropped: known.dropped.max(record.dropped),
        })
    }

    /// Whether it is of this start of the device, as far as the system tells starts.
    #[must_use]
    pub fn counts_for(&self, boot_id: Option<[u8; 16]>) -> bool {
        self.boot_id.is_none() || boot_id.is_none() || self.boot_id == boot_id
    }

    /// A sync has failed, for the first time in this process or since pages were dropped.
    pub fn note_failure(&mut self) {
        self.failed = self.failed.saturating_add(1);
    }

    /// Pages that the flash may lack have been dropped.
    pub fn note_dropped(&mut self) {
        self.dropped = self.failed;
    }

    /// Whether there may be such pages.
    #[must_use]
    pub fn must_drop(&self) -> bool {
        self.dropped < self.failed
    }

    /// The start that gateways are shown; `None`: one of its own for each process. It changes with each failure, and with nothing else.
    #[must_use]
    pub fn shown_boot_id(&self) -> Option<[u8; 16]> {
        self.boot_id
            .map(|boot_id| if self.failed == 0 { boot_id } else { derived(boot_id, b"failed syncs", self.failed) })
    }
}

/// The start of a device with a medium that may be pulled while it runs: what was not flushed is lost then as well. `medium_seq` is a number
/// that the medium gets anew each time that it is put in; `None` where the system does not tell it.
#[must_use]
pub fn boot_id_of(kernel: [u8; 16], medium_seq: Option<u64>) -> [u8; 16] {
    medium_seq.map_or(kernel, |seq| derived(kernel, b"medium", seq))
}

/// Another id for each number, as random as the first one.
fn derived(id: [u8; 16], what: &[u8], number: u64) -> [u8; 16] {
    let text = [&id, what, &number.to_le_bytes()].concat();
    let halves = [0, 1].map(|seed| XxHash3_64::oneshot_with_seed(seed, &text).to_le_bytes());
    let mut derived = [0; 16];
    derived.copy_from_slice(halves.as_flattened());
    derived
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use proptest::prelude::*;

    const BOOT: Option<[u8; 16]> = Some([7; 16]);

    fn record(boot_id: Option<[u8; 16]>, failed: u64, dropped: u64) -> FailedSyncs {
        FailedSyncs { boot_id, failed, dropped }
    }

    #[test]
    fn nothing_changes_the_start_that_is_shown_but_a_failure() {
        let mut syncs = FailedSyncs::at_start(BOOT, &[]);
        assert_eq!((syncs.shown_boot_id(), syncs.must_drop()), (BOOT, false));
        let mut shown = BTreeSet::from([syncs.shown_boot_id()]);
        for failures in 1..4 {
            syncs.note_failure();
            assert!(shown.insert(syncs.shown_boot_id()), "{failures} failures");
            let mut next = FailedSyncs::at_start(BOOT, &[syncs]);
            assert!(next.must_drop());
            next.note_dropped();
            for _ in 0..2 {
                let again = FailedSyncs::at_start(BOOT, &[next]);
                assert_eq!((again.shown_boot_id(), again.must_drop()), (syncs.shown_boot_id(), false));
            }
            syncs = next;
        }
    }

    #[test]
    fn records_of_another_start_are_over_and_the_last_of_two_places_counts() {
        for (recorded, failed, must_drop) in [
            (vec![record(Some([8; 16]), 3, 0)], 0, false),
            (vec![record(BOOT, 1, 0)], 1, true),
            (vec![record(BOOT, 1, 1), record(BOOT, 2, 1)], 2, true),
            (vec![record(BOOT, 2, 2), record(BOOT, 2, 1)], 2, false),
            (vec![record(Some([8; 16]), 9, 0), record(BOOT, 2, 2)], 2, false),
        ] {
            let known = FailedSyncs::at_start(BOOT, &recorded);
            assert_eq!((known.failed, known.must_drop()), (failed, must_drop), "{recorded:?}");
        }
    }

    #[test]
    fn where_starts_are_not_told_every_record_counts() {
        for (boot_id, recorded) in [(None, record(None, 1, 0)), (None, record(BOOT, 1, 0)), (BOOT, record(None, 1, 0))]
        {
            let known = FailedSyncs::at_start(boot_id, &[recorded]);
            assert!(known.must_drop(), "{boot_id:?} {recorded:?}");
            assert_eq!(known.shown_boot_id().is_some(), boot_id.is_some());
        }
    }

    #[test]
    fn a_medium_that_was_put_in_again_is_another_start() {
        let ids = [None, Some(0), Some(1), Some(2)].map(|seq| boot_id_of([7; 16], seq));
        assert_eq!(ids[0], [7; 16]);
        assert_eq!(BTreeSet::from(ids).len(), 4);
        assert_eq!(boot_id_of([7; 16], Some(2)), ids[3]);
    }

    proptest! {
        #[test]
        fn derived_ids_differ(id: [u8; 16], other: [u8; 16], seq in 0u64..100, failed in 1u64..100) {
            let ids = [id, other].map(|kernel| boot_id_of(kernel, Some(seq)));
            prop_assert_eq!(ids[0] == ids[1], id == other);
            prop_assert_ne!(record(Some(id), failed, 0).shown_boot_id(), Some(ids[0]));
            prop_assert_ne!(record(Some(id), failed, 0).shown_boot_id(), record(Some(id), failed + 1, 0).shown_boot_id());
        }
    }
}
