//! Ascending addresses in batches, with a deadline for each waiting request.
//!
//! Based on the kernel documentation (Documentation/block/deadline-iosched): reads and writes are sorted separately; a
//! batch takes one kind in ascending order from where the last of that kind ended; reads precede writes, until
//! writes have been overtaken twice; a batch begins with the oldest request if its deadline has expired
//! or nothing lies ahead. The numbers are the kernel's defaults. Front merges, priorities and zones are omitted.

use std::time::Duration;

use flashmob_core::units::Time;

use super::{Sorted, Waiting};
use crate::flash::Op;

/// Deadline of a read: `read_expire`.
pub(super) const READ_EXPIRES: Duration = Duration::from_millis(500);
/// Deadline of a write: `write_expire`.
pub(super) const WRITE_EXPIRES: Duration = Duration::from_secs(5);
/// Requests per batch: `fifo_batch`.
const BATCH: u32 = 16;
/// Maximum batches of reads that overtake waiting writes: `writes_starved`.
const WRITES_PASSED_MAX: u32 = 2;

/// The waiting requests of one kind.
#[derive(Clone, Debug, Default)]
struct Kind {
    waiting: Sorted,
    /// The end of the last request taken.
    position: u64,
}

impl Kind {
    fn take(&mut self, place: (u64, u64)) -> Option<Waiting> {
        let waiting = self.waiting.take(place)?;
        self.position = waiting.end_bytes();
        Some(waiting)
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Deadline {
    reads: Kind,
    writes: Kind,
    /// The current batch is one of writes.
    writing: bool,
    /// Remaining requests of the current batch.
    batch_left: u32,
    /// Batches of reads that have overtaken waiting writes.
    writes_passed: u32,
}

impl Deadline {
    pub(super) fn push(&mut self, waiting: Waiting) {
        let kind = if waiting.request.op == Op::Write { &mut self.writes } else { &mut self.reads };
        kind.waiting.push(waiting);
    }

    pub(super) fn pop(&mut self, now: Time) -> Option<Waiting> {
        if self.batch_left > 0 {
            let kind = if self.writing { &mut self.writes } else { &mut self.reads };
            if let Some(place) = kind.waiting.ahead(kind.position) {
                self.batch_left -= 1;
                return kind.take(place);
            }
        }
        self.begin_batch(now)
    }

    fn begin_batch(&mut self, now: Time) -> Option<Waiting> {
        let writes_wait = !self.writes.waiting.is_empty();
        let reads_wait = !self.reads.waiting.is_empty();
        self.writing = writes_wait && (!reads_wait || self.writes_passed >= WRITES_PASSED_MAX);
        if self.writing {
            self.writes_passed = 0;
        } else if writes_wait {
            self.writes_passed += 1;
        }
        let (kind, expires) =
            if self.writing { (&mut self.writes, WRITE_EXPIRES) } else { (&mut self.reads, READ_EXPIRES) };
        let oldest = kind.waiting.oldest()?;
        let (oldest_place, late) = (oldest.place(), now.since(oldest.submitted) >= expires);
        let place = if late { oldest_place } else { kind.waiting.ahead(kind.position).unwrap_or(oldest_place) };
        self.batch_left = BATCH - 1;
        kind.take(place)
    }
}
