//! Ascending addresses in batches, with a deadline for everything that waits.
//!
//! After the kernel's own description (Documentation/block/deadline-iosched): reads and writes are sorted apart; a
//! batch takes one kind in ascending order from where the last of that kind ended; reads go before writes, until
//! writes have been passed over twice; a batch begins with the oldest request where that one's deadline has passed,
//! or where nothing lies ahead. The numbers are its defaults. Front merges, priorities and zones are left out.

use std::collections::BTreeMap;
use std::time::Duration;

use flashmob_core::units::Time;

use super::Waiting;
use crate::flash::Op;

/// How long a read may wait before it is taken out of turn: `read_expire`.
pub(super) const READ_EXPIRES: Duration = Duration::from_millis(500);
/// The same for a write: `write_expire`.
pub(super) const WRITE_EXPIRES: Duration = Duration::from_secs(5);
/// How many requests make a batch: `fifo_batch`.
const BATCH: u32 = 16;
/// How many batches of reads may pass waiting writes: `writes_starved`.
const WRITES_PASSED_MAX: u32 = 2;

/// What waits of one kind, by place and by age.
#[derive(Clone, Debug, Default)]
struct Kind {
    by_place: BTreeMap<(u64, u64), Waiting>,
    by_age: BTreeMap<u64, (u64, u64)>,
    /// The byte after the last request that left.
    position: u64,
}

impl Kind {
    fn oldest(&self) -> Option<&Waiting> {
        self.by_age.values().next().and_then(|place| self.by_place.get(place))
    }

    /// Where the next request ahead lies.
    fn ahead(&self) -> Option<(u64, u64)> {
        self.by_place.range((self.position, 0)..).next().map(|(&place, _)| place)
    }

    fn take(&mut self, place: (u64, u64)) -> Option<Waiting> {
        let waiting = self.by_place.remove(&place)?;
        self.by_age.remove(&waiting.number);
        self.position = waiting.end_bytes();
        Some(waiting)
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Deadline {
    reads: Kind,
    writes: Kind,
    /// The batch under way is one of writes.
    writing: bool,
    /// How many more the batch under way may take.
    batch_left: u32,
    /// How many batches of reads have passed waiting writes.
    writes_passed: u32,
}

impl Deadline {
    pub(super) fn push(&mut self, waiting: Waiting) {
        let kind = if waiting.request.op == Op::Write { &mut self.writes } else { &mut self.reads };
        kind.by_age.insert(waiting.number, waiting.place());
        kind.by_place.insert(waiting.place(), waiting);
    }

    pub(super) fn pop(&mut self, now: Time) -> Option<Waiting> {
        if self.batch_left > 0 {
            let kind = if self.writing { &mut self.writes } else { &mut self.reads };
            if let Some(place) = kind.ahead() {
                self.batch_left -= 1;
                return kind.take(place);
            }
        }
        self.begin_batch(now)
    }

    fn begin_batch(&mut self, now: Time) -> Option<Waiting> {
        let writes_wait = !self.writes.by_place.is_empty();
        let reads_wait = !self.reads.by_place.is_empty();
        self.writing = writes_wait && (!reads_wait || self.writes_passed >= WRITES_PASSED_MAX);
        if self.writing {
            self.writes_passed = 0;
        } else if writes_wait {
            self.writes_passed += 1;
        }
        let (kind, expires) =
            if self.writing { (&mut self.writes, WRITE_EXPIRES) } else { (&mut self.reads, READ_EXPIRES) };
        let oldest = kind.oldest()?;
        let (oldest_place, late) = (oldest.place(), now.since(oldest.submitted) >= expires);
        let place = if late { oldest_place } else { kind.ahead().unwrap_or(oldest_place) };
        self.batch_left = BATCH - 1;
        kind.take(place)
    }
}
