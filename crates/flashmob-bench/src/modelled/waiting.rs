//! Who waits for which request of the model, and how they learn when it will be done.
//!
//! As soon as a request is in a slot, the time of its end is fixed, and its thread sleeps until then by itself. A
//! request that is still queued has no such time: its thread sleeps until whoever moves the model on tells it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, MutexGuard, PoisonError};
use std::time::Duration;

use flashmob_core::units::Time;
use flashmob_lab::flash::{BLOCK_BYTES, blocks_touched};
use flashmob_lab::flash::{Completion, Counters, FlashModel, Op, Request, RequestError, Start};
use flashmob_results::commands::{Gatherer, Served};
use flashmob_results::disk::Operation;

/// How long after the next event a queued request's thread looks for itself. Usually the thread whose event it was
/// has moved the model on long before; this is for when that one does not get to run.
const GRACE: Duration = Duration::from_millis(20);

/// No time is known yet.
const UNKNOWN: u64 = u64::MAX;

/// One request that somebody waits for.
#[derive(Debug)]
pub(super) struct Ticket {
    /// Nanoseconds of the model's time; [`UNKNOWN`] while the request is queued. Only touched under the disk's lock,
    /// which orders it.
    done_ns: AtomicU64,
    bell: Condvar,
}

impl Ticket {
    /// When the request will be done, or was; none while it is queued.
    pub(super) fn done_at(&self) -> Option<Time> {
        let done_ns = self.done_ns.load(Ordering::Relaxed);
        (done_ns != UNKNOWN).then_some(Time(done_ns))
    }

    /// Gives the lock away and sleeps, for `pause` at most.
    pub(super) fn sleep<'a, T>(&self, guard: MutexGuard<'a, T>, pause: Duration) -> MutexGuard<'a, T> {
        self.bell.wait_timeout(guard, pause).unwrap_or_else(PoisonError::into_inner).0
    }
}

/// The model, and those who wait for it.
#[derive(Debug)]
pub(super) struct Waiting {
    model: FlashModel,
    /// Of the requests that are queued.
    tickets: HashMap<u64, Arc<Ticket>>,
    next_id: u64,
    // Used again and again, so that nothing is allocated for them.
    starts: Vec<Start>,
    completions: Vec<Completion>,
    /// What the model served, if somebody wants to know.
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

    /// Hands `request` in under an id of its own.
    pub(super) fn submit(&mut self, now: Time, request: Request) -> Result<Arc<Ticket>, RequestError> {
        let id = self.next_id;
        self.model.submit(now, Request { id, ..request })?;
        self.next_id += 1;
        let ticket = Arc::new(Ticket { done_ns: AtomicU64::new(UNKNOWN), bell: Condvar::new() });
        self.tickets.insert(id, Arc::clone(&ticket));
        self.tell();
        Ok(ticket)
    }

    /// Moves the model on, and tells those whose requests got a slot.
    pub(super) fn advance(&mut self, now: Time) {
        self.model.advance(now, &mut self.completions);
        // Their threads know when; nobody needs to be told again.
        self.completions.clear();
        self.tell();
    }

    /// How long a thread whose request is queued may sleep before it looks for itself.
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

/// As a driver would tell of it: whole blocks. Nothing of a flush, which has no address.
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
