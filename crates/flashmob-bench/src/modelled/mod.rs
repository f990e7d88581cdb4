//! A modelled disk in real time: threads that read from it wait as long as the model says.
//!
//! The model ([`flashmob_lab::flash`]) keeps its own time and is only told when requests come. Each caller sleeps
//! until the absolute time at which the model is done with its request. If it wakes late, that is its own
//! misfortune: the slot took the next request when it became free in the model, not when somebody noticed. So
//! lateness never adds up while requests wait. It does count where a caller's next request comes late because its
//! last answer did; therefore it is measured ([`ModelledDisk::lateness_ns`]), and figures with much of it are
//! doubtful. No bytes are moved: a load learns when, not what.

mod waiting;

use std::num::NonZeroU64;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use flashmob_core::units::Time;
use flashmob_lab::flash::request::REQUEST_BYTES_MAX;
use flashmob_lab::flash::{Counters, FlashModel, Lookup, Op, PageCache, Profile, ProfileError};
use flashmob_lab::flash::{Request, RequestError, Scheduler};
use flashmob_results::commands::Gatherer;
use hdrhistogram::Histogram;

use waiting::Waiting;

/// Lateness is recorded up to this, in nanoseconds; what is later counts as this late: a minute.
const LATENESS_MAX_NS: u64 = 60_000_000_000;

/// How a request went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    /// From its arrival to its completion in the model; zero if the modelled page cache had all of it.
    pub modelled: Duration,
    /// From that completion until the calling thread ran again.
    pub late: Duration,
    /// The modelled page cache had all of it.
    pub cached: bool,
}

/// A modelled disk that many threads may use at once.
#[derive(Debug)]
pub struct ModelledDisk {
    start: Instant,
    size_bytes: u64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    waiting: Waiting,
    cache: PageCache,
    lateness_ns: Histogram<u64>,
}

impl ModelledDisk {
    /// A disk of `size_bytes` with an empty page cache. Service times are drawn from `seed`; since threads come in
    /// whatever order the machine lets them run, two runs are still not equal.
    ///
    /// # Errors
    /// A size of 0 or beyond 8 EiB, or a profile with numbers out of range.
    pub fn new(profile: &Profile, scheduler: Scheduler, size_bytes: u64, seed: u64) -> Result<Self, ProfileError> {
        let model = FlashModel::new(profile, scheduler, size_bytes, seed)?;
        let state = State {
            waiting: Waiting::new(model),
            cache: PageCache::new(size_bytes),
            lateness_ns: Histogram::new_with_bounds(1, LATENESS_MAX_NS, 3).expect("constant bounds are valid"),
        };
        Ok(ModelledDisk { start: Instant::now(), size_bytes, state: Mutex::new(state) })
    }

    /// The size of the disk.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Reads, as thread `submitter`: returns when the modelled disk is done. `direct` passes the modelled page cache
    /// by, as O_DIRECT does; without it, what is there is not read again, and reading on reads ahead.
    ///
    /// # Errors
    /// It reaches beyond the disk, is empty or longer than 128 MiB, or too many requests wait.
    pub fn read(
        &self,
        submitter: u32,
        offset_bytes: u64,
        len_bytes: u64,
        direct: bool,
    ) -> Result<Served, RequestError> {
        let request = Request { id: 0, submitter, op: Op::Read, offset_bytes, len_bytes };
        request.check(self.size_bytes)?;
        if direct {
            return self.wait_for(request);
        }
        let lookup = self.state().cache.lookup(submitter, offset_bytes, len_bytes);
        let Lookup::Fetch { offset_bytes: mut at, len_bytes: mut left } = lookup else {
            return Ok(Served { modelled: Duration::ZERO, late: Duration::ZERO, cached: true });
        };
        // Whole blocks may be a little more than one request can be.
        let mut all = Served { modelled: Duration::ZERO, late: Duration::ZERO, cached: false };
        while left > 0 {
            let len_bytes = left.min(REQUEST_BYTES_MAX);
            let served = self.wait_for(Request { offset_bytes: at, len_bytes, ..request })?;
            self.state().cache.fetched(at, len_bytes);
            all.modelled += served.modelled;
            all.late += served.late;
            at += len_bytes;
            left -= len_bytes;
        }
        Ok(all)
    }

    /// Writes, as thread `submitter`: returns when the modelled disk has the bytes. Writes always pass the modelled
    /// page cache by.
    ///
    /// # Errors
    /// As for [`read`](Self::read).
    pub fn write(&self, submitter: u32, offset_bytes: u64, len_bytes: u64) -> Result<Served, RequestError> {
        self.wait_for(Request { id: 0, submitter, op: Op::Write, offset_bytes, len_bytes })
    }

    /// Flushes the modelled disk's cache.
    ///
    /// # Errors
    /// Too many requests wait.
    pub fn flush(&self, submitter: u32) -> Result<Served, RequestError> {
        self.wait_for(Request { id: 0, submitter, op: Op::Flush, offset_bytes: 0, len_bytes: 0 })
    }

    /// How late threads ran again after their requests were done, in nanoseconds, since the start or the last
    /// reset: one value for each request that reached the disk. Compare it with the service times; where it is
    /// more than a small part of them, the machine was too busy for the model.
    #[must_use]
    pub fn lateness_ns(&self) -> Histogram<u64> {
        self.state().lateness_ns.clone()
    }

    /// What the modelled disk did since the start or the last reset, up to the last time that a request came or
    /// went.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.state().waiting.counters()
    }

    /// Of all steps from one request to the next, those that did not go down: 0 to 1.
    #[must_use]
    pub fn upward_fraction(&self) -> f64 {
        self.counters().upward_fraction()
    }

    /// Sets counters and lateness to zero.
    pub fn reset_counters(&self) {
        let mut state = self.state();
        state.waiting.reset_counters();
        state.lateness_ns.reset();
    }

    /// From now on adds what the modelled disk begins to serve to `commands`, in that order, each with its service time;
    /// flushes are left out, for they have no address.
    pub fn record_commands(&self, commands: Box<Gatherer>) {
        self.state().waiting.commands = Some(commands);
    }

    /// Ends that, and gives what there is by now.
    pub fn take_commands(&self) -> Option<Box<Gatherer>> {
        self.state().waiting.commands.take()
    }

    /// Empties the modelled page cache.
    pub fn drop_cache(&self) {
        self.state().cache.drop_all();
    }

    /// How many bytes are in the modelled page cache, in whole blocks.
    #[must_use]
    pub fn cached_bytes(&self) -> u64 {
        self.state().cache.cached_bytes()
    }

    fn wait_for(&self, request: Request) -> Result<Served, RequestError> {
        wake_in_time();
        let mut state = self.state();
        // Read under the lock, so that the model sees time in order.
        let submitted = self.now();
        let ticket = state.waiting.submit(submitted, request)?;
        let (done, now) = loop {
            let now = self.now();
            let pause = match ticket.done_at() {
                Some(done) if done <= now => break (done, now),
                Some(done) => done.since(now),
                None => state.waiting.patience(now),
            };
            state = ticket.sleep(state, pause);
            state.waiting.advance(self.now());
        };
        // Whoever takes this slot next learns its time.
        state.waiting.advance(now);
        let late = now.since(done);
        state.lateness_ns.saturating_record(u64::try_from(late.as_nanos()).unwrap_or(u64::MAX).max(1));
        Ok(Served { modelled: done.since(submitted), late, cached: false })
    }

    fn now(&self) -> Time {
        Time::default() + self.start.elapsed()
    }

    /// A thread that panicked while it held the lock leaves nothing half done that would be worth more panics.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Asks the kernel once per thread to wake it as soon as its time has come: by default it may take 50 us longer, to
/// wake several at once. The thread keeps that. Where it is refused, lateness tells.
fn wake_in_time() {
    thread_local!(static ASKED: () = {
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    });
    ASKED.with(|()| ());
}

#[cfg(test)]
mod tests;
