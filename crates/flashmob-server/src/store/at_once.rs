//! Writes into the page cache by the loop itself, without waking a thread for them and the loop for their results.
//!
//! Such a write takes a few microseconds, but it *can* block: for writeback of dirty pages, for a commit of the journal, for a block of the
//! file system's own that is not in memory; 200 ms at a time on a slow eMMC. It cannot be found out first (ext4 has RWF_NOWAIT for reads
//! only), and all links of the node wait as well. So the loop writes
//!
//! - small writes of whole pages, of which nothing has to be read, to an extent without checksums; neighbours in one system call;
//! - while no thread of the store is at work: nothing that it does is waited for;
//! - for a limited time in a turn: what comes behind is carried out by threads;
//! - not for a hundred times as long as it was blocked, a thousand times after 10 ms or more. Whether it was, the kernel counts: a thread that
//!   waits gives up the processor;
//! - not for a second after a write has failed. A thread repeats it, and reports the failure.
//!
//! A single block lasts as long as the flash takes. On average an extent blocks the loop for one hundredth of the time at most; where writes
//! wait for the flash as a rule, for a thousandth, and its threads do the rest. Time in which other processes have the processor does not count.

use flashmob_core::node::LIGHT_BYTES_MAX;

use super::medium::CACHED_WRITE_BYTES_MAX;
use super::sys::usage_of_thread;

/// Pages of the page cache have at least this many bytes.
pub(super) const PAGE_BYTES_MIN: u64 = 4096;
/// How long the loop writes in a turn; one operation may be carried out behind it.
const TURN_NANOS: u64 = 1_000_000;
/// After it was blocked it rests so many times as long, and longer if that was for so long or more.
const REST_TIMES: u64 = 100;
const LONG_NANOS: u64 = 10_000_000;
const LONG_REST_TIMES: u64 = 1000;
/// How long it rests after a failure.
const FAILED_REST_NANOS: u64 = 1_000_000_000;

/// When the loop writes itself.
#[derive(Debug)]
pub(super) struct AtOnce {
    page_bytes: u64,
    /// How long it has written in this turn.
    spent_nanos: u64,
    /// Not before that.
    rests_until_nanos: u64,
}

impl AtOnce {
    /// On a system with pages of `page_bytes`.
    pub fn new(page_bytes: u64) -> AtOnce {
        AtOnce { page_bytes: page_bytes.max(PAGE_BYTES_MIN), spent_nanos: 0, rests_until_nanos: 0 }
    }

    /// A turn of the loop has ended.
    pub fn end_turn(&mut self) {
        self.spent_nanos = 0;
    }

    /// Whether a write is small, and one of whole pages.
    pub fn suits(&self, offset_bytes: u64, len_bytes: usize) -> bool {
        len_bytes <= LIGHT_BYTES_MAX as usize && (offset_bytes | len_bytes as u64).is_multiple_of(self.page_bytes)
    }

    /// Whether neighbours that have so many bytes together are written by one system call.
    pub fn joins(&self, len_bytes: u64) -> bool {
        len_bytes <= CACHED_WRITE_BYTES_MAX as u64
    }

    /// Whether the loop may write now.
    pub fn may_begin(&self, now_nanos: u64) -> bool {
        self.spent_nanos < TURN_NANOS && now_nanos >= self.rests_until_nanos
    }

    /// Whether the loop may go on with what it began at `begun_nanos`.
    pub fn may_go_on(&self, begun_nanos: u64, now_nanos: u64) -> bool {
        self.spent_nanos + (now_nanos - begun_nanos) < TURN_NANOS
    }

    /// The loop has written from `begun_nanos` to `ended_nanos`.
    pub fn note(&mut self, begun_nanos: u64, ended_nanos: u64, how: Ended) {
        let took_nanos = ended_nanos - begun_nanos;
        self.spent_nanos += took_nanos;
        let times = if took_nanos < LONG_NANOS { REST_TIMES } else { LONG_REST_TIMES };
        let of_block_nanos = if how.was_blocked { took_nanos.saturating_mul(times) } else { 0 };
        let of_failure_nanos = if how.has_failed { FAILED_REST_NANOS } else { 0 };
        let rests_nanos = of_block_nanos.max(of_failure_nanos);
        if rests_nanos > 0 {
            self.rests_until_nanos = ended_nanos.saturating_add(rests_nanos);
        }
    }
}

/// How writes of the loop have ended.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Ended {
    /// The thread has waited for something.
    pub was_blocked: bool,
    /// The last one has failed.
    pub has_failed: bool,
}

/// How often this thread has given up the processor to wait for something; it may wrap around. `None`: the system does not tell.
pub(super) fn waits_of_thread() -> Option<libc::c_long> {
    usage_of_thread().map(|usage| usage.ru_nvcsw)
}

#[cfg(test)]
#[path = "tests/at_once.rs"]
mod tests;
