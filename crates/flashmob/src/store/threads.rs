//! The engine that every machine has: a few threads, each with one system call under way.
//!
//! Operations are taken in the order in which they were submitted, so that ascending addresses stay ascending at
//! the flash as far as several threads allow. Nothing that was submitted may be lost when the store is
//! dropped, save reads: nobody is left to receive them.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

use flashmob_core::op::{Failure, Op};

use super::StoreOp;
use super::completions::{Completions, lock};
use super::direct::Bounce;
use super::error::StoreError;
use super::medium::Medium;

/// The most threads that a store may have: twice what the queue of any eMMC or UFS device holds.
pub(super) const THREADS_MAX: usize = 64;
/// Stack of a thread in bytes: system calls and a log line need little, and there may be many threads.
pub(super) const STACK_BYTES: usize = 256 * 1024;

/// The threads and their queue. Dropping it carries out what is queued and joins them.
#[derive(Debug)]
pub(super) struct Pool {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
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
    queue: VecDeque<StoreOp>,
    /// Workers that wait for an operation. Waking more than there is work for costs system calls.
    sleeping: usize,
    closing: bool,
}

impl Pool {
    /// Starts `threads` threads, 1 to [`THREADS_MAX`].
    pub fn start(medium: Arc<Medium>, completions: Arc<Completions>, threads: usize) -> Result<Pool, StoreError> {
        if !(1..=THREADS_MAX).contains(&threads) {
            return Err(StoreError::Threads { given: threads, most: THREADS_MAX });
        }
        let shared = Shared { medium, completions, state: Mutex::default(), ready: Condvar::new() };
        let mut pool = Pool { shared: Arc::new(shared), workers: Vec::with_capacity(threads) };
        for i in 0..threads {
            let shared = Arc::clone(&pool.shared);
            let builder = std::thread::Builder::new().name(format!("store-{i}")).stack_size(STACK_BYTES);
            pool.workers.push(builder.spawn(move || shared.work()).map_err(StoreError::Spawn)?);
        }
        Ok(pool)
    }

    /// Queues all of `ops` in their order and leaves it empty. Never waits for the device.
    pub fn submit(&self, ops: &mut Vec<StoreOp>) {
        let to_wake = {
            let mut state = lock(&self.shared.state);
            let count = ops.len();
            state.queue.extend(ops.drain(..));
            count.min(state.sleeping)
        };
        for _ in 0..to_wake {
            self.shared.ready.notify_one();
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        lock(&self.shared.state).closing = true;
        self.shared.ready.notify_all();
        for worker in self.workers.drain(..) {
            // A worker that has panicked has said so on standard error already.
            let _ = worker.join();
        }
    }
}

impl Shared {
    fn work(&self) {
        let mut bounce = Bounce::new(self.medium.align_bytes());
        while let Some((mut op, closing)) = self.next() {
            let started_nanos = self.completions.now_nanos();
            let result = if closing && op.op == Op::Read {
                Err(Failure::ShuttingDown)
            } else {
                self.medium.execute(&mut op, &mut bounce)
            };
            self.completions.push(op, result, started_nanos);
        }
    }

    /// The next operation, and whether the store is closing; `None` when it is closing and all is done.
    fn next(&self) -> Option<(StoreOp, bool)> {
        let mut state = lock(&self.state);
        loop {
            if let Some(op) = state.queue.pop_front() {
                return Some((op, state.closing));
            }
            if state.closing {
                return None;
            }
            state.sleeping += 1;
            state = self.ready.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.sleeping -= 1;
        }
    }
}
