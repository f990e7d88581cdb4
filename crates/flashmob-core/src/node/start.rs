//! Starts of a device, as its node shows them to gateways: another boot id says that unflushed bytes may be lost.
//!
//! A restart of the kernel is one cause of such a loss. Others leave the kernel running: a file system that is shut down, or unmounted by
//! force, and mounted again has dropped the dirty pages of its files; a medium that was pulled took them along. So a boot id is derived
//! from the boot of the kernel and from the instance of each page cache that held bytes of the extent. Where the system names no
//! instance, the next process proves nothing: its start counts as one of the device, unless the last process ended in order,
//! with everything flushed and that on record.
//!
//! A token in the page cache is no proof in the place of an instance. The kernel may have written it back, and lost younger pages.

use twox_hash::XxHash3_64;

use crate::planted::{self, Bug};

/// How long the unflushed bytes of a file stay in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheLife {
    /// While the kernel runs: the file is in memory itself, or its file system cannot be unmounted.
    Kernel,
    /// While the system shows this number. A file system has another one each time it is mounted, a medium each time it is put in.
    Instance(u64),
    /// The system does not tell.
    Unknown,
}

/// A start of the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Start {
    /// The number of the start: equal for two processes only if the second lost no byte that the first had written.
    pub id: [u8; 16],
    /// Whether a process that is killed is followed by one with the same number. Otherwise only one that ends in order is.
    pub is_proven: bool,
}

impl Start {
    /// The start of a process whose kernel has this boot id and whose files have these page caches. `last_end` is the start of the last process,
    /// if that ended in order; `fresh` is a number that no start has had.
    #[must_use]
    pub fn of_process(
        boot_id: Option<[u8; 16]>,
        caches: &[CacheLife],
        last_end: Option<[u8; 16]>,
        fresh: [u8; 16],
    ) -> Start {
        let is_known = |cache: &CacheLife| *cache != CacheLife::Unknown || planted::is(Bug::UnknownCacheTrusted);
        match boot_id.filter(|_| caches.iter().all(is_known)) {
            Some(boot_id) => Start { id: caches.iter().fold(boot_id, with_cache), is_proven: true },
            None => Start { id: last_end.unwrap_or(fresh), is_proven: false },
        }
    }
}

fn with_cache(start: [u8; 16], cache: &CacheLife) -> [u8; 16] {
    match cache {
        CacheLife::Instance(number) if !planted::is(Bug::RemountUnseen) => derived(start, b"cache", *number),
        CacheLife::Instance(_) | CacheLife::Kernel | CacheLife::Unknown => start,
    }
}

/// The boot of a kernel together with a medium that may be pulled while it runs. `medium_seq` is a number that the medium gets anew each time it is
/// put in; `None` where the system does not tell it. Records of failed syncs count for it.
#[must_use]
pub fn boot_id_of(kernel: [u8; 16], medium_seq: Option<u64>) -> [u8; 16] {
    medium_seq.map_or(kernel, |seq| derived(kernel, b"medium", seq))
}

/// Another id for each number, as random as the first one.
pub(super) fn derived(id: [u8; 16], what: &[u8], number: u64) -> [u8; 16] {
    let text = [&id, what, &number.to_le_bytes()].concat();
    let halves = [0, 1].map(|seed| XxHash3_64::oneshot_with_seed(seed, &text).to_le_bytes());
    let mut derived = [0; 16];
    derived.copy_from_slice(halves.as_flattened());
    derived
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::CacheLife::{Instance, Kernel, Unknown};
    use super::*;
    use proptest::prelude::*;

    const BOOT: [u8; 16] = [7; 16];
    const FRESH: [u8; 16] = [8; 16];
    const LAST: [u8; 16] = [9; 16];

    #[test]
    fn a_start_changes_with_the_kernel_and_with_each_cache() {
        let id = |boot_id, caches: &[CacheLife]| Start::of_process(Some(boot_id), caches, Some(LAST), FRESH).id;
        assert_eq!(id(BOOT, &[Kernel, Kernel]), BOOT);
        let all = [
            id(BOOT, &[Kernel]),
            id([6; 16], &[Kernel]),
            id(BOOT, &[Instance(1)]),
            id([6; 16], &[Instance(1)]),
            id(BOOT, &[Instance(2)]),
            id(BOOT, &[Instance(1), Instance(1)]),
            id(BOOT, &[Instance(1), Instance(2)]),
            id(BOOT, &[Instance(2), Instance(1)]),
        ];
        assert_eq!(BTreeSet::from(all).len(), all.len());
        assert_eq!(id(BOOT, &[Instance(1), Kernel]), id(BOOT, &[Instance(1)]), "nothing else changes it");
    }

    #[test]
    fn without_proof_only_an_end_in_order_is_followed_by_the_same_start() {
        for (boot_id, caches) in [
            (Some(BOOT), vec![Unknown]),
            (Some(BOOT), vec![Instance(1), Unknown]),
            (Some(BOOT), vec![Unknown, Kernel]),
            (None, vec![Instance(1)]),
            (None, vec![]),
        ] {
            let start = |last_end| Start::of_process(boot_id, &caches, last_end, FRESH);
            assert_eq!(start(None), Start { id: FRESH, is_proven: false }, "{caches:?}");
            assert_eq!(start(Some(LAST)), Start { id: LAST, is_proven: false }, "{caches:?}");
        }
        assert!(Start::of_process(Some(BOOT), &[Instance(1), Kernel], None, FRESH).is_proven);
    }

    #[test]
    fn a_medium_that_was_put_in_again_is_another_start() {
        let ids = [None, Some(0), Some(1), Some(2)].map(|seq| boot_id_of(BOOT, seq));
        assert_eq!(ids[0], BOOT);
        assert_eq!(BTreeSet::from(ids).len(), 4);
        assert_eq!(boot_id_of(BOOT, Some(2)), ids[3]);
    }

    proptest! {
        #[test]
        fn derived_ids_differ(id: [u8; 16], other: [u8; 16], number in 0u64..100) {
            let ids = [id, other].map(|kernel| boot_id_of(kernel, Some(number)));
            prop_assert_eq!(ids[0] == ids[1], id == other);
            let starts = [id, other].map(|boot| Start::of_process(Some(boot), &[Instance(number)], None, FRESH).id);
            prop_assert_eq!(starts[0] == starts[1], id == other);
            prop_assert_ne!(starts[0], ids[0]);
        }
    }
}
