//! The engine that every machine has: a few threads, each with one system call under way.
//!
//! Operations start in the order of their submission, so that ascending addresses reach the flash in order as far as several
//! threads allow. When the store is dropped, all submitted operations except those that return data are still carried
//! out.
//!
//! **Light operations** are plain writes into the page cache. One takes a few microseconds, less than waking a thread for it
//! and the loop for its result. So one thread at a time does all of them, and returns the results together. More threads
//! would not help: file systems admit one writer at a time to a file. The loop does some of them itself, while that is
//! unlikely to block: see [`super::at_once`].
//!
//! **Flushes** may take half a minute each, and wait for the same bytes. So one thread at a time does all that wait, by one sync, and the others
//! go on. With a single thread nothing goes on beside a flush.
//!
//! **Writeback** ahead of flushes is a piece of work like an operation, one region at a time, behind what waits already.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

use flashmob_core::node::LIGHT_BYTES_MAX;
use flashmob_core::op::{Failure, Op};

use super::at_once::{AtOnce, Ended, PAGE_BYTES_MIN, waits_of_thread};
use super::completions::{Completions, lock};
use super::direct::Bounce;
use super::error::StoreError;
use super::medium::{CACHED_WRITE_BYTES_MAX, Medium, is_durable};
use super::{StoreDone, StoreOp};

/// The most threads that a store may have: twice what the queue of any eMMC or UFS device holds.
pub(super) const THREADS_MAX: usize = 64;
/// Stack of a thread in bytes: system calls and a log line need little, and there may be many threads.
pub(super) const STACK_BYTES: usize = 256 * 1024;
/// After this many light operations in a row a thread takes one of the others, if any wait.
const LIGHT_IN_A_ROW: usize = 64;
/// A light operation that took this long has blocked; its results are returned without waiting for the next.
const WAITED_NANOS: u64 = 1_000_000;
/// Most neighbouring writes in one system call: as many pages as that may have.
const JOINED_MAX: usize = CACHED_WRITE_BYTES_MAX / PAGE_BYTES_MIN as usize;
/// Maximum number of results that are returned together.
const RESULTS_MAX: usize = 64;

/// The threads and their queue. Dropping it carries out what is queued and joins them.
#[derive(Debug)]
pub(super) struct Pool {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    at_once: AtOnce,
}

#[derive(Debug)]
struct Shared {
    medium: Arc<Medium>,
    completions: Arc<Completions>,
    state: Mutex<State>,
    ready: Condvar,
}

#[derive(Debug, Default)]
struct State {
    light: VecDeque<StoreOp>,
    others: VecDeque<Work>,
    /// Flushes that wait for the next sync. While there are any, it is among the others, or a worker is at the one before.
    flushes: Vec<StoreOp>,
    /// Whether a worker is at the light operations.
    is_light_taken: bool,
    /// Whether a sync is among the others, or a worker is at it.
    is_sync_taken: bool,
    /// Workers that wait for an operation. Each unnecessary wake-up costs system calls.
    sleeping: usize,
    /// How many of those are being woken already.
    called: usize,
    closing: bool,
}

/// What a worker does.
#[derive(Debug)]
enum Work {
    Op(StoreOp),
    /// One sync for flushes: those that wait when it begins.
    Flushes(Vec<StoreOp>),
    /// The next region of the writeback ahead of flushes.
    Writeback,
}

impl State {
    fn push(&mut self, op: StoreOp) {
        if op.op == Op::Flush {
            self.flushes.push(op);
            self.want_sync();
        } else {
            self.others.push_back(Work::Op(op));
        }
    }

    /// Whether there is nothing to do, and all `workers` sleep.
    fn is_idle(&self, workers: usize) -> bool {
        self.light.is_empty() && self.others.is_empty() && self.flushes.is_empty() && self.sleeping == workers
    }

    /// Has a worker sync for the flushes that wait, one at a time.
    fn want_sync(&mut self) {
        if !self.flushes.is_empty() && !std::mem::replace(&mut self.is_sync_taken, true) {
            self.others.push_back(Work::Flushes(Vec::new()));
        }
    }

    /// How many workers to wake now: one for each operation, and one for all light ones together. They count as called.
    fn call(&mut self) -> usize {
        let wanted = self.others.len() + usize::from(!self.light.is_empty() && !self.is_light_taken);
        let count = wanted.min(self.sleeping).saturating_sub(self.called);
        self.called += count;
        count
    }

    /// The next work for a worker that has just done `light_done` light operations in a row; 0 if it did another.
    fn take(&mut self, light_done: usize) -> Option<(Work, bool)> {
        let may_be_light = light_done > 0 || !self.is_light_taken;
        let is_its_turn = light_done < LIGHT_IN_A_ROW || self.others.is_empty();
        if may_be_light
            && is_its_turn
            && let Some(op) = self.light.pop_front()
        {
            self.is_light_taken = true;
            return Some((Work::Op(op), true));
        }
        if light_done > 0 {
            self.is_light_taken = false;
        }
        let mut work = self.others.pop_front()?;
        if let Work::Flushes(flushes) = &mut work {
            *flushes = std::mem::take(&mut self.flushes);
        }
        Some((work, false))
    }
}

/// The next work of a worker.
struct Job {
    work: Work,
    is_light: bool,
    /// The store is being closed.
    closing: bool,
    /// How many others are to be woken first.
    calls: usize,
}

impl Pool {
    /// Starts `threads` threads, 1 to [`THREADS_MAX`].
    pub fn start(medium: Arc<Medium>, completions: Arc<Completions>, threads: usize) -> Result<Pool, StoreError> {
        if !(1..=THREADS_MAX).contains(&threads) {
            return Err(StoreError::Threads { given: threads, most: THREADS_MAX });
        }
        let shared = Shared { medium, completions, state: Mutex::default(), ready: Condvar::new() };
        let at_once = AtOnce::new(rustix::param::page_size() as u64);
        let (shared, workers) = (Arc::new(shared), Vec::with_capacity(threads));
        let mut pool = Pool { shared, workers, at_once };
        for i in 0..threads {
            let shared = Arc::clone(&pool.shared);
            let builder = std::thread::Builder::new().name(format!("store-{i}")).stack_size(STACK_BYTES);
            pool.workers.push(builder.spawn(move || shared.work()).map_err(StoreError::Spawn)?);
        }
        Ok(pool)
    }

    /// Queues all of `ops` in their order and leaves it empty. Never waits for the device.
    pub fn submit(&self, ops: &mut Vec<StoreOp>) {
        if ops.is_empty() {
            return;
        }
        let calls = {
            let mut state = lock(&self.shared.state);
            for op in ops.drain(..) {
                if self.shared.is_light(&op) { state.light.push_back(op) } else { state.push(op) }
            }
            state.call()
        };
        for _ in 0..calls {
            self.shared.ready.notify_one();
        }
    }

    /// A turn of the loop has ended.
    pub fn end_turn(&mut self) {
        self.at_once.end_turn();
    }

    /// Writes in the calling thread what is not likely to block: see [`super::at_once`]. Each item is an offset and its bytes. Returns how many
    /// are written, from the first on.
    pub fn write_at_once<'a>(&mut self, writes: impl Iterator<Item = (u64, &'a [u8])>) -> usize {
        let Shared { medium, completions, state, .. } = &*self.shared;
        let suits = |(offset_bytes, bytes): &(u64, &[u8])| self.at_once.suits(*offset_bytes, bytes.len());
        let mut writes = writes.peekable();
        if medium.is_direct() || medium.is_summed() || !writes.peek().is_some_and(suits) {
            return 0;
        }
        let begun_nanos = completions.now_nanos();
        if !self.at_once.may_begin(begun_nanos) || !lock(state).is_idle(self.workers.len()) {
            return 0;
        }
        let (waits, mut now_nanos, mut count) = (waits_of_thread(), begun_nanos, 0);
        let mut has_failed = false;
        let mut slices = [IoSlice::new(&[]); JOINED_MAX];
        while let Some((offset_bytes, bytes)) = writes.next_if(suits) {
            slices[0] = IoSlice::new(bytes);
            let (mut joined, mut end_bytes) = (1, offset_bytes + bytes.len() as u64);
            while joined < JOINED_MAX
                && let Some((_, bytes)) = writes.next_if(|write| {
                    let is_neighbour = write.0 == end_bytes && suits(write);
                    is_neighbour && self.at_once.joins(end_bytes - offset_bytes + write.1.len() as u64)
                })
            {
                slices[joined] = IoSlice::new(bytes);
                end_bytes += bytes.len() as u64;
                joined += 1;
            }
            has_failed = medium.write_cached(offset_bytes, end_bytes - offset_bytes, &slices[..joined]).is_err();
            now_nanos = completions.now_nanos();
            if has_failed {
                break;
            }
            count += joined;
            if !self.at_once.may_go_on(begun_nanos, now_nanos) {
                break;
            }
        }
        let was_blocked = waits.is_none() || waits_of_thread() != waits;
        self.at_once.note(begun_nanos, now_nanos, Ended { was_blocked, has_failed });
        if medium.is_writeback_due() {
            self.shared.start_writeback();
        }
        count
    }

    /// Begins writeback ahead of flushes.
    pub fn start_writeback(&self) {
        self.shared.start_writeback();
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        lock(&self.shared.state).closing = true;
        self.shared.ready.notify_all();
        for worker in self.workers.drain(..) {
            // A panic of a worker was reported on standard error.
            let _ = worker.join();
        }
    }
}

impl Shared {
    /// Whether an operation is expected to end without waiting for the device. Part of a page of a block device is not, and several
    /// writers find their way side by side there.
    fn is_light(&self, op: &StoreOp) -> bool {
        let is_small_write = op.op == Op::Write && op.len_bytes <= LIGHT_BYTES_MAX && !is_durable(op);
        // The rest of a page of a block device, and of a block with a checksum, may have to be read.
        let reads_rest = self.medium.is_device() || self.medium.is_summed();
        is_small_write
            && !self.medium.is_direct()
            && (!reads_rest || (op.offset_bytes | u64::from(op.len_bytes)).is_multiple_of(PAGE_BYTES_MIN))
    }

    /// Carries an operation out. One that panics has said so on standard error and fails: it is answered, so are those
    /// whose results wait beside it, and the worker goes on. Unanswered it would count as under way for ever.
    fn execute(&self, op: &mut StoreOp, bounce: &mut Bounce) -> Result<(), Failure> {
        let carried_out = catch_unwind(AssertUnwindSafe(|| self.medium.execute(op, bounce)));
        carried_out.unwrap_or(Err(Failure::Io))
    }

    /// Works until the store closes.
    fn work(&self) {
        let mut bounce = Bounce::new(self.medium.align_bytes());
        let mut results: Vec<StoreDone> = Vec::new();
        let mut light_done = 0;
        loop {
            let mut job = self.try_next(light_done);
            if !results.is_empty() && (results.len() >= RESULTS_MAX || job.as_ref().is_none_or(|job| !job.is_light)) {
                self.completions.push_all(&mut results);
            }
            if job.is_none() {
                job = self.next();
            }
            let Some(Job { work, is_light, closing, calls }) = job else { return };
            for _ in 0..calls {
                self.ready.notify_one();
            }
            let started_nanos = self.completions.now_nanos();
            let finished_nanos = match work {
                Work::Op(mut op) => {
                    let result = if closing && op.op.returns_data() {
                        Err(Failure::ShuttingDown)
                    } else {
                        self.execute(&mut op, &mut bounce)
                    };
                    let finished_nanos = self.completions.now_nanos();
                    results.push(Completions::done(op, result, started_nanos, finished_nanos));
                    finished_nanos
                }
                Work::Flushes(flushes) => self.flush(flushes, &mut bounce, &mut results),
                Work::Writeback if closing => started_nanos,
                Work::Writeback => self.go_on_with_writeback(),
            };
            if self.medium.is_writeback_due() {
                self.start_writeback();
            }
            light_done = if is_light { light_done + 1 } else { 0 };
            if !is_light || finished_nanos - started_nanos > WAITED_NANOS {
                self.completions.push_all(&mut results);
            }
        }
    }

    /// Carries out flushes that waited together, by one sync: each covers what was done before it was submitted. Returns when it ended.
    fn flush(&self, mut flushes: Vec<StoreOp>, bounce: &mut Bounce, results: &mut Vec<StoreDone>) -> u64 {
        let started_nanos = self.completions.now_nanos();
        let result = flushes.first_mut().map_or(Ok(()), |op| self.execute(op, bounce));
        let finished_nanos = self.completions.now_nanos();
        let done = |op| Completions::done(op, result, started_nanos, finished_nanos);
        results.extend(flushes.into_iter().map(done));
        let mut state = lock(&self.state);
        state.is_sync_taken = false;
        // This worker looks for work next.
        state.want_sync();
        finished_nanos
    }

    fn start_writeback(&self) {
        let calls = {
            let mut state = lock(&self.state);
            state.others.push_back(Work::Writeback);
            state.call()
        };
        for _ in 0..calls {
            self.ready.notify_one();
        }
    }

    /// Begins the writeback of a region. The next one is behind what waits by then. Returns when it ended.
    fn go_on_with_writeback(&self) -> u64 {
        if self.medium.start_writeback() {
            lock(&self.state).others.push_back(Work::Writeback);
        }
        self.completions.now_nanos()
    }

    /// The next operation, if there is one for who has just done `light_done` light ones.
    fn try_next(&self, light_done: usize) -> Option<Job> {
        let mut state = lock(&self.state);
        self.job(&mut state, light_done)
    }

    /// Waits for an operation; `None` when the store is closing and all is done, or others see to it.
    fn next(&self) -> Option<Job> {
        let mut state = lock(&self.state);
        loop {
            if let Some(job) = self.job(&mut state, 0) {
                return Some(job);
            }
            if state.closing {
                return None;
            }
            state.sleeping += 1;
            state = self.ready.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.sleeping -= 1;
            state.called = state.called.saturating_sub(1);
        }
    }

    fn job(&self, state: &mut State, light_done: usize) -> Option<Job> {
        let (work, is_light) = state.take(light_done)?;
        let calls = state.call();
        Some(Job { work, is_light, closing: state.closing, calls })
    }
}

#[cfg(test)]
#[path = "tests/threads.rs"]
mod tests;
