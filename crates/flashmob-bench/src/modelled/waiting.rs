//! Threads that wait for requests of the model.
//!
//! As soon as a request is in a slot, its completion time is fixed, and its thread sleeps until then. A queued request has no such time: its
//! thread sleeps until another thread advances the model and wakes it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, MutexGuard, PoisonError};
use std::time::Duration;

use flashmob_core::units::Time;
use flashmob_lab::flash::{BLOCK_BYTES, blocks_touched};
use flashmob_lab::flash::{Completion, Counters, FlashModel, Op, Request, RequestError, Start};
use flashmob_results::commands::{Gatherer, Served};
use flashmob_results::disk::Operation;

/// Time after the next event at which the thread of a queued request advances the model itself. Usually the thread of that event has done so
/// long before; this covers the case that it is not scheduled.
const GRACE: Duration = Duration::from_millis(20);

/// The completion time is not known yet.
const UNKNOWN: u64 = u64::MAX;

/// A request that a thread waits for.
#[derive(Debug)]
pub(super) struct Ticket {
    /// Nanoseconds of the model's time; [`UNKNOWN`] while the request is queued. Only touched under the disk's lock,
    /// which orders it.
    done_ns: AtomicU64,
    bell: Condvar,
}

impl Ticket {
    /// The completion time; `None` while the request is queued.
    pub(super) fn done_at(&self) -> Option<Time> {
        let done_ns = self.done_ns.load(Ordering::Relaxed);
        (done_ns != UNKNOWN).then_some(Time(done_ns))
    }

    /// Releases the lock and sleeps, for `pause` at most.
    pub(super) fn sleep<'a, T>(&self, guard: MutexGuard<'a, T>, pause: Duration) -> MutexGuard<'a, T> {
        self.bell.wait_timeout(guard, pause).unwrap_or_else(PoisonError::into_inner).0
    }
}

#[derive(Debug)]
pub(super) struct Waiting {
    model: FlashModel,
    /// Of the requests that are queued.
    tickets: HashMap<u64, Arc<Ticket>>,
    next_id: u64,
    // Reused, so that nothing is allocated.
    starts: Vec<Start>,
    completions: Vec<Completion>,
    /// The commands that the model served, if they are recorded.
    pub(super) commands: Option<Box<Gatherer>>,
}

impl Waiting {
    pub(super) fn new(mut model: FlashModel) -> Self {
        model.record_starts();
        Waiting {
            model,
            tickets: HashMap::new(),
            next_id: 0,
            starts: Vec::new(),
            completions: Vec::new(),
            commands: None,
        }
    }

    /// Submits `request` with a new id.
    pub(super) fn submit(&mut self, now: Time, request: Request) -> Result<Arc<Ticket>, RequestError> {
        let id = self.next_id;
        self.model.submit(now, Request { id, ..request })?;
        self.next_id += 1;
        let ticket = Arc::new(Ticket { done_ns: AtomicU64::new(UNKNOWN), bell: Condvar::new() });
        self.tickets.insert(id, Arc::clone(&ticket));
        self.tell();
        Ok(ticket)
    }

    /// Advances the model, and wakes the threads whose requests got a slot.
    pub(super) fn advance(&mut self, now: Time) {
        self.model.advance(now, &mut self.completions);
        // Their threads know the time already.
        self.completions.clear();
        self.tell();
    }

    /// How long the thread of a queued request may sleep.
    pub(super) fn patience(&self, now: Time) -> Duration {
        self.model.next_event_in(now).unwrap_or_default() + GRACE
    }

    pub(super) fn counters(&self) -> Counters {
        self.model.counters()
    }

    pub(super) fn reset_counters(&mut self) {
        self.model.reset_counters();
    }

    fn tell(&mut self) {
        self.model.take_starts(&mut self.starts);
        for start in self.starts.drain(..) {
            if let Some(ticket) = self.tickets.remove(&start.request.id) {
                ticket.done_ns.store(start.done.as_nanos(), Ordering::Relaxed);
                ticket.bell.notify_one();
            }
            if let (Some(commands), Some(served)) = (&mut self.commands, served(&start)) {
                commands.add(&served);
            }
        }
    }
}

/// The command as a driver would report it, in whole blocks; `None` for a flush, which has no address.
fn served(start: &Start) -> Option<Served> {
    let Start { request, started, done, in_service } = start;
    let direction = match request.op {
        Op::Read => Operation::Read,
        Op::Write => Operation::Write,
        Op::Flush => return None,
    };
    let (first, end) = blocks_touched(request.offset_bytes, request.len_bytes);
    Some(Served {
        begin_ns: started.as_nanos(),
        end_ns: done.as_nanos(),
        direction,
        address_bytes: first * BLOCK_BYTES,
        bytes: (end - first) * BLOCK_BYTES,
        outstanding: u32::try_from(*in_service).unwrap_or(u32::MAX),
    })
}
