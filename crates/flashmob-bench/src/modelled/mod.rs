//! A modelled disk in real time: callers wait as long as the model says.
//!
//! The model ([`flashmob_lab::flash`]) keeps its own time and is only told when requests arrive. Each caller sleeps until the absolute time
//! at which the model completes its request. A late wake-up does not delay other requests: the slot took the next one when it became free
//! in the model. So lateness does not accumulate while requests wait. It does delay a caller's own next request; therefore it is measured
//! ([`ModelledDisk::lateness_ns`]), and figures with much of it are doubtful. No bytes are moved.

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

/// Longest lateness that is recorded, in nanoseconds: a minute.
const LATENESS_MAX_NS: u64 = 60_000_000_000;

/// The outcome of a request.
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

    /// Reads, as thread `submitter`: returns when the modelled disk is done. `direct` bypasses the modelled page cache, as O_DIRECT does;
    /// without it, cached bytes are not read again, and sequential reads read ahead.
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

    /// Writes, as thread `submitter`: returns when the modelled disk has the bytes. Writes bypass the modelled page cache.
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

    /// Nanoseconds from the completion of each request that reached the disk until its thread ran again, since the start or the last reset.
    /// Where it is more than a small part of the service times, the machine was too busy for the model.
    pub fn lateness_ns(&self) -> Histogram<u64> {
        self.state().lateness_ns.clone()
    }

    /// The modelled disk's counters since the start or the last reset.
    pub fn counters(&self) -> Counters {
        self.state().waiting.counters()
    }

    /// The fraction of steps from one request to the next that did not go down: 0 to 1.
    pub fn upward_fraction(&self) -> f64 {
        self.counters().upward_fraction()
    }

    /// Sets counters and lateness to zero.
    pub fn reset_counters(&self) {
        let mut state = self.state();
        state.waiting.reset_counters();
        state.lateness_ns.reset();
    }

    /// From now on adds the commands of the modelled disk to `commands`, in the order of their service; flushes are omitted, as they have no
    /// address.
    pub fn record_commands(&self, commands: Box<Gatherer>) {
        self.state().waiting.commands = Some(commands);
    }

    /// Ends the recording and returns it.
    pub fn take_commands(&self) -> Option<Box<Gatherer>> {
        self.state().waiting.commands.take()
    }

    /// Empties the modelled page cache.
    pub fn drop_cache(&self) {
        self.state().cache.drop_all();
    }

    /// Bytes in the modelled page cache, in whole blocks.
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
        // The next request in this slot gets its time.
        state.waiting.advance(now);
        let late = now.since(done);
        state.lateness_ns.saturating_record(u64::try_from(late.as_nanos()).unwrap_or(u64::MAX).max(1));
        Ok(Served { modelled: done.since(submitted), late, cached: false })
    }

    fn now(&self) -> Time {
        Time::default() + self.start.elapsed()
    }

    /// The state is consistent even if a thread panicked while it held the lock.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sets the timer slack of the calling thread to 1 ns, once; the default is 50 us. If that is refused, the lateness shows it.
fn wake_in_time() {
    thread_local!(static ASKED: () = {
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    });
    ASKED.with(|()| ());
}

#[cfg(test)]
mod tests;
