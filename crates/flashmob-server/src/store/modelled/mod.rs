//! The engine behind `node --model`: operations are carried out on the real file, and answered with the timing of a modelled
//! flash.
//!
//! One of the usual engines carries an operation out on the file (a read from the page cache at once), while the model
//! ([`flashmob_core::device_model`]) computes when a device would complete it. It is answered when both have completed,
//! never before the model. No read is answered from the page cache alone.
//!
//! The model runs in the store's own time. One thread sleeps until the next completion is due. If it wakes late, later
//! operations are not delayed: a slot takes the next operation when it became free in the model, so lateness does not
//! accumulate while operations wait. It is measured from the model's time until the answer.
//!
//! The caller is never blocked. When the store is dropped, submitted operations are carried out without the model.

mod under_way;

use std::io::IoSliceMut;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

use flashmob_core::device_model::{Counters, DeviceModel};
use flashmob_core::op::{Failure, Op};
use flashmob_core::units::Time;
use hdrhistogram::Histogram;

use super::completions::{Completions, lock};
use super::error::StoreError;
use super::medium::Medium;
use super::threads::STACK_BYTES;
use super::{FileEngine, StoreOp, TryRead};
use under_way::UnderWay;

/// An answer (or a movement in the lab) later than this after the model's time counts as late, in nanoseconds. A round trip with
/// an aggregate over modelled Wi-Fi takes a few milliseconds, a read of modelled flash half of one: less is insignificant.
pub const LATE_NS: u64 = 1_000_000;
/// The worker sleeps until it is called.
const UNTIL_CALLED: Time = Time(u64::MAX);

/// Statistics of a modelled flash.
#[derive(Clone, Debug)]
pub struct ModelStatus {
    /// The device's name.
    pub name: String,
    /// The device that it models.
    pub description: String,
    /// Its operations and busy time.
    pub counters: Counters,
    /// How long after the model's time operations were handed back, in nanoseconds.
    pub lateness_ns: Histogram<u64>,
}

/// The engine. Dropping it drops the engine that works on the file first, which carries out what is left.
#[derive(Debug)]
pub(super) struct Modelled {
    /// Gone once the store is being dropped.
    on_file: Option<FileEngine>,
    to_file: Vec<StoreOp>,
    shared: Arc<Shared>,
    model: Arc<dyn DeviceModel>,
    worker: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    bell: Arc<Bell>,
    medium: Arc<Medium>,
    /// Completions of the file's engine.
    on_file: Arc<Completions>,
    /// Completions for the caller.
    completions: Arc<Completions>,
}

/// Wakes the worker; separate because the engine below uses it and must not own its owner.
#[derive(Debug)]
struct Bell {
    state: Mutex<State>,
    rung: Condvar,
    /// The model is done with something that the file is not done with.
    awaits_file: AtomicBool,
}

#[derive(Debug)]
struct State {
    under_way: UnderWay,
    /// Until when the worker sleeps; the beginning of time while it is awake.
    sleeps_until: Time,
    closing: bool,
}

impl Modelled {
    /// Starts the worker. `start_engine` starts what works on the file, to bring its results to the completions it is given.
    pub fn start(
        model: Arc<dyn DeviceModel>,
        medium: &Arc<Medium>,
        completions: &Arc<Completions>,
        start_engine: impl FnOnce(&Arc<Completions>) -> Result<FileEngine, StoreError>,
    ) -> Result<Modelled, StoreError> {
        let under_way = UnderWay::new(&*model, medium.size_bytes())?;
        let bell = Arc::new(Bell {
            state: Mutex::new(State { under_way, sleeps_until: Time::default(), closing: false }),
            rung: Condvar::new(),
            awaits_file: AtomicBool::new(false),
        });
        let on_file = {
            let bell = Arc::clone(&bell);
            Arc::new(Completions::new(completions.start(), move || bell.file_has_done_something()))
        };
        let engine = start_engine(&on_file)?;
        let shared =
            Arc::new(Shared { bell, medium: Arc::clone(medium), on_file, completions: Arc::clone(completions) });
        let worker = {
            let shared = Arc::clone(&shared);
            let builder = std::thread::Builder::new().name("store-model".to_string()).stack_size(STACK_BYTES);
            builder.spawn(move || shared.work()).map_err(StoreError::Spawn)?
        };
        Ok(Modelled { on_file: Some(engine), to_file: Vec::new(), shared, model, worker: Some(worker) })
    }

    /// How many operations the caller should have in the store at once.
    pub fn depth(&self) -> usize {
        self.model.depth()
    }

    /// Takes all of `ops` over, in their order, and leaves it empty.
    pub fn submit(&mut self, ops: &mut Vec<StoreOp>) {
        let shared = &self.shared;
        let mut wants_worker = false;
        {
            let mut state = lock(&shared.bell.state);
            // Read under the lock, so that the model sees time in order.
            let now = shared.now();
            for mut op in ops.drain(..) {
                let key = state.under_way.begin(now, &op);
                op.id = key as u64;
                match shared.read_at_once(&mut op) {
                    Some(result) => state.under_way.file_done(key, result, op.data),
                    None => self.to_file.push(op),
                }
            }
            let is_sooner = state.under_way.next_due_at(now).is_some_and(|at| at < state.sleeps_until);
            if is_sooner || state.under_way.awaits_file() {
                // Not called again for the same reason.
                state.sleeps_until = Time::default();
                wants_worker = true;
            }
        }
        if wants_worker {
            shared.bell.rung.notify_one();
        }
        if let Some(engine) = &self.on_file {
            engine.submit(&mut self.to_file);
        }
    }

    /// Statistics of the model.
    pub fn status(&self) -> ModelStatus {
        let state = lock(&self.shared.bell.state);
        ModelStatus {
            name: self.model.name().to_string(),
            description: self.model.description().to_string(),
            counters: state.under_way.counters(),
            lateness_ns: state.under_way.lateness_ns().clone(),
        }
    }
}

impl Drop for Modelled {
    fn drop(&mut self) {
        // It carries out what is left.
        self.on_file = None;
        lock(&self.shared.bell.state).closing = true;
        self.shared.bell.rung.notify_one();
        if let Some(worker) = self.worker.take() {
            // A worker that has panicked has said so on standard error already.
            let _ = worker.join();
        }
    }
}

impl Bell {
    /// Called by the file's engine. Usually the worker looks for itself when the model is done, which takes longer.
    fn file_has_done_something(&self) {
        if self.awaits_file.load(Ordering::SeqCst) {
            // The holder of the lock is either about to look or asleep.
            drop(lock(&self.state));
            self.rung.notify_one();
        }
    }
}

impl Shared {
    fn now(&self) -> Time {
        Time(self.completions.now_nanos())
    }

    /// Does a read of what is in memory: a thread would have to be woken for it.
    fn read_at_once(&self, op: &mut StoreOp) -> Option<Result<(), Failure>> {
        if op.op != Op::Read || self.medium.admit(op).is_err() {
            return None;
        }
        match self.medium.read_cached(op.offset_bytes, &mut [IoSliceMut::new(&mut op.data)]) {
            TryRead::Hit => Some(Ok(())),
            TryRead::Failed(failure) => Some(Err(failure)),
            TryRead::Miss => None,
        }
    }

    /// Hands back what is due and done, until the store closes.
    fn work(&self) {
        // By default the kernel may extend a sleep by 50 us, to wake several threads at once. If this fails, lateness shows it.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let (mut done_on_file, mut finished) = (Vec::new(), Vec::new());
        let mut state = lock(&self.bell.state);
        while !state.closing {
            state.under_way.advance(self.now());
            // Said before looking: what is done from now on rings.
            self.bell.awaits_file.store(state.under_way.awaits_file(), Ordering::SeqCst);
            self.on_file.take(&mut done_on_file);
            for done in done_on_file.drain(..) {
                state.under_way.file_done(usize::try_from(done.id).unwrap_or(usize::MAX), done.result, done.data);
            }
            let now = self.now();
            state.under_way.take_finished(now, &mut finished);
            if !finished.is_empty() {
                drop(state);
                self.completions.push_all(&mut finished);
                state = lock(&self.bell.state);
                continue;
            }
            let until = state.under_way.next_due_at(now).unwrap_or(UNTIL_CALLED);
            if until > now {
                state.sleeps_until = until;
                state = if until == UNTIL_CALLED {
                    self.bell.rung.wait(state).unwrap_or_else(PoisonError::into_inner)
                } else {
                    self.bell.rung.wait_timeout(state, until.since(now)).unwrap_or_else(PoisonError::into_inner).0
                };
                state.sleeps_until = Time::default();
            }
        }
    }
}

#[cfg(test)]
mod tests;
