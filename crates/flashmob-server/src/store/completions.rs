//! The queue of completions for the event loop, which is woken when the first one joins an empty queue, and then finds all
//! that have arrived.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use flashmob_core::node::PROGRESS_EVERY;
use flashmob_core::op::Failure;
use flashmob_core::units::Time;

use super::{StoreDone, StoreOp};

/// Minimum time between two reports of progress, in nanoseconds: no peer is told more often.
const PROGRESS_NANOS: u64 = PROGRESS_EVERY.as_nanos() as u64 / 2;

/// The queue of completions that all threads of a store share.
pub(super) struct Completions {
    done: Mutex<Vec<StoreDone>>,
    wake: Box<dyn Fn() + Send + Sync>,
    start: Instant,
    /// A flush has made progress since this was last asked.
    has_progress: AtomicBool,
    /// When that was last reported; 0: never.
    progressed_nanos: AtomicU64,
}

impl Completions {
    /// An empty queue. Times count from `start`.
    pub fn new(start: Instant, wake: impl Fn() + Send + Sync + 'static) -> Completions {
        let (has_progress, progressed_nanos) = (AtomicBool::new(false), AtomicU64::new(0));
        Completions { done: Mutex::new(Vec::new()), wake: Box::new(wake), start, has_progress, progressed_nanos }
    }

    /// Where times count from.
    pub fn start(&self) -> Instant {
        self.start
    }

    /// Nanoseconds since the start.
    pub fn now_nanos(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Adds the completion of an operation that began at `started_nanos` and ends now.
    pub fn push(&self, op: StoreOp, result: Result<(), Failure>, started_nanos: u64) {
        let done = Completions::done(op, result, started_nanos, self.now_nanos());
        let was_empty = {
            let mut queue = lock(&self.done);
            queue.push(done);
            queue.len() == 1
        };
        if was_empty {
            (self.wake)();
        }
    }

    /// The completion of an operation, to be handed to [`Completions::push_all`].
    pub fn done(op: StoreOp, result: Result<(), Failure>, started_nanos: u64, finished_nanos: u64) -> StoreDone {
        let StoreOp { id, data, .. } = op;
        StoreDone { id, result, data, started: Time(started_nanos), finished: Time(finished_nanos) }
    }

    /// Adds completions, for which the loop is woken at most once, and leaves `all` empty.
    pub fn push_all(&self, all: &mut Vec<StoreDone>) {
        if all.is_empty() {
            return;
        }
        let was_empty = {
            let mut queue = lock(&self.done);
            let was_empty = queue.is_empty();
            queue.append(all);
            was_empty
        };
        if was_empty {
            (self.wake)();
        }
    }

    /// A flush that takes long has made progress. Wakes the loop, unless it was woken for that lately.
    pub fn progressed(&self) {
        let now = self.now_nanos();
        let last = self.progressed_nanos.load(Ordering::Relaxed);
        if last != 0 && now.saturating_sub(last) < PROGRESS_NANOS {
            return;
        }
        self.progressed_nanos.store(now, Ordering::Relaxed);
        self.has_progress.store(true, Ordering::Release);
        (self.wake)();
    }

    /// Whether a flush has made progress since the last call.
    pub fn take_progress(&self) -> bool {
        self.has_progress.load(Ordering::Relaxed) && self.has_progress.swap(false, Ordering::Acquire)
    }

    /// Moves everything to the end of `done`.
    pub fn take(&self, done: &mut Vec<StoreDone>) {
        let mut queue = lock(&self.done);
        if done.is_empty() {
            // Both keep their memory, so that none is allocated once the load is steady.
            std::mem::swap(&mut *queue, done);
        } else {
            done.append(&mut queue);
        }
    }
}

impl fmt::Debug for Completions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Completions").finish_non_exhaustive()
    }
}

/// Locks, also if a thread has panicked while it held the lock: what these locks guard is whole between any two statements.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
