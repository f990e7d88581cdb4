//! The syncs that failed since the device started, as a node remembers them.
//!
//! A sync that fails leaves pages that the kernel takes for clean though the flash lacks them: the next sync succeeds without them. A process
//! of the node believes no sync after one that failed. So that the next process knows it too, the failure is recorded. That process drops the
//! pages before it serves anything, so that reads and digests see what the flash has, and shows another start of the device: what was not
//! flushed may be lost, as after any restart.

use super::start::derived;
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

    /// The boot id that gateways are shown, for a process that began with `start`. It changes with each failure, and with nothing else.
    #[must_use]
    pub fn shown_boot_id(&self, start: [u8; 16]) -> [u8; 16] {
        if self.failed == 0 { start } else { derived(start, b"failed syncs", self.failed) }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use proptest::prelude::*;

    const BOOT: Option<[u8; 16]> = Some([7; 16]);
    const START: [u8; 16] = [9; 16];

    fn record(boot_id: Option<[u8; 16]>, failed: u64, dropped: u64) -> FailedSyncs {
        FailedSyncs { boot_id, failed, dropped }
    }

    #[test]
    fn nothing_changes_the_start_that_is_shown_but_a_failure() {
        let mut syncs = FailedSyncs::at_start(BOOT, &[]);
        assert_eq!((syncs.shown_boot_id(START), syncs.must_drop()), (START, false));
        let mut shown = BTreeSet::from([syncs.shown_boot_id(START)]);
        for failures in 1..4 {
            syncs.note_failure();
            assert!(shown.insert(syncs.shown_boot_id(START)), "{failures} failures");
            let mut next = FailedSyncs::at_start(BOOT, &[syncs]);
            assert!(next.must_drop());
            next.note_dropped();
            for _ in 0..2 {
                let again = FailedSyncs::at_start(BOOT, &[next]);
                assert_eq!((again.shown_boot_id(START), again.must_drop()), (syncs.shown_boot_id(START), false));
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
        }
    }

    proptest! {
        #[test]
        fn each_failure_shows_another_start(start: [u8; 16], failed in 1u64..100) {
            let shown = |failed| record(BOOT, failed, 0).shown_boot_id(start);
            prop_assert_ne!(shown(failed), start);
            prop_assert_ne!(shown(failed), shown(failed + 1));
        }
    }
}
