//! The engine for many operations in flight: one thread that owns an io_uring.
//!
//! The thread takes operations from a queue, puts reads and writes into the ring and collects completions.
//! Operations that io_uring would pass to kernel threads anyway, or that take several steps, go to a small pool of threads:
//! flushes, trims, zeroes, maps, digests, and direct writes that begin or end within a block. Of an extent with checksums reads alone go through
//! the ring; one whose bytes do not match goes to the pool, which looks again.
//!
//! The kernel writes into buffers while the thread goes on: a buffer in flight belongs to its [`Flight`], which must
//! never be dropped before its completion. io_uring is never tried unless the user chose it.

use std::collections::VecDeque;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use flashmob_core::op::{Failure, Op};
use io_uring::{IoUring, opcode, squeue, types};
use rustix::event::{EventfdFlags, PollFlags, eventfd};
use rustix::io::{Errno, ReadWriteFlags};

use super::StoreOp;
use super::completions::{Completions, lock};
use super::direct::{Bounce, CHUNK_BYTES, Window};
use super::error::StoreError;
use super::medium::{Medium, is_durable};
use super::threads::{Pool, STACK_BYTES};

/// How many operations are in flight at once.
pub(super) const DEPTH: usize = 64;
/// Entries of the submission queue: every operation has at most one in it, and so has the wake-up.
const RING_ENTRIES: u32 = 2 * DEPTH as u32;
/// The `user_data` of the watch on the eventfd; those of operations are their slots.
const WAKE: u64 = u64::MAX;
/// The most bytes of one read or write, far below the 2 GiB at which the kernel cuts.
const TRANSFER_BYTES_MAX: usize = 1 << 30;

/// The thread, its queue and its helpers. Dropping it carries out what is queued and joins it.
#[derive(Debug)]
pub(super) struct Ring {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Written to when the thread waits in the kernel for want of operations.
    wake: OwnedFd,
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<StoreOp>,
    /// The thread has seen the queue empty and will look again only after a wake-up or a completion.
    waiting: bool,
    closing: bool,
}

impl Ring {
    /// Sets the ring up and starts its thread, and `helpers` threads for what does not go through the ring.
    pub fn start(medium: &Arc<Medium>, completions: &Arc<Completions>, helpers: usize) -> Result<Ring, StoreError> {
        let ring = IoUring::new(RING_ENTRIES).map_err(StoreError::IoUringRefused)?;
        // This feature came with Linux 5.6, as did the read and write that need no vector.
        if !ring.params().is_feature_rw_cur_pos() {
            return Err(StoreError::IoUringTooOld);
        }
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|e| StoreError::IoUringRefused(e.into()))?;
        let shared = Arc::new(Shared { state: Mutex::default(), wake });
        let driver = Driver {
            ring,
            shared: Arc::clone(&shared),
            helpers: Pool::start(Arc::clone(medium), Arc::clone(completions), helpers)?,
            medium: Arc::clone(medium),
            completions: Arc::clone(completions),
            flights: Flights { slots: (0..DEPTH).map(|_| None).collect(), free: (0..DEPTH).rev().collect() },
            bounces: Vec::new(),
            wake_armed: false,
            arrived: Vec::new(),
        };
        let builder = std::thread::Builder::new().name("store-ring".into()).stack_size(STACK_BYTES);
        let thread = builder.spawn(move || driver.run()).map_err(StoreError::Spawn)?;
        Ok(Ring { shared, thread: Some(thread) })
    }

    /// Queues all of `ops` in their order and leaves it empty. Never waits for the device.
    pub fn submit(&self, ops: &mut Vec<StoreOp>) {
        let must_wake = {
            let mut state = lock(&self.shared.state);
            state.queue.extend(ops.drain(..));
            std::mem::take(&mut state.waiting)
        };
        if must_wake {
            self.shared.wake_up();
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        lock(&self.shared.state).closing = true;
        self.shared.wake_up();
        if let Some(thread) = self.thread.take() {
            // A thread that has panicked has said so on standard error already.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn wake_up(&self) {
        // Fails only if the counter is near 2^64, and then a wake-up is under way already.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }
}

/// An operation whose buffer the kernel may be using.
#[derive(Debug)]
struct Flight {
    op: StoreOp,
    started_nanos: u64,
    /// Bytes of the operation that are done.
    done_bytes: usize,
    /// With O_DIRECT: the blocks under way, and where they are.
    bounce: Option<(Bounce, Window)>,
    /// Bytes of the current transfer.
    asked_bytes: usize,
}

/// Operations in flight. If any are left when it is dropped, which only a panic can cause, the buffers are leaked: the
/// kernel may still write to them.
#[derive(Debug)]
struct Flights {
    slots: Vec<Option<Flight>>,
    free: Vec<usize>,
}

impl Flights {
    fn is_empty(&self) -> bool {
        self.free.len() == self.slots.len()
    }

    fn take(&mut self, slot: usize) -> Option<Flight> {
        let flight = self.slots.get_mut(slot)?.take()?;
        self.free.push(slot);
        Some(flight)
    }
}

impl Drop for Flights {
    fn drop(&mut self) {
        for flight in self.slots.drain(..).flatten() {
            std::mem::forget(flight);
        }
    }
}

/// The thread's own side.
struct Driver {
    // Closed first: its completions refer to everything below.
    ring: IoUring,
    shared: Arc<Shared>,
    helpers: Pool,
    medium: Arc<Medium>,
    completions: Arc<Completions>,
    flights: Flights,
    /// Bounce buffers that wait to be used again; with those in flight at most [`DEPTH`].
    bounces: Vec<Bounce>,
    /// Whether the ring watches the eventfd at the moment.
    wake_armed: bool,
    /// Completions taken out of the ring; kept for its memory.
    arrived: Vec<(u64, i32)>,
}

impl Driver {
    fn run(mut self) {
        let mut batch = Vec::new();
        let mut failures = 0u64;
        while let Some(drained) = self.next_batch(&mut batch) {
            for op in batch.drain(..) {
                self.begin(op);
            }
            self.arm_wake();
            // With something left in the queue and room for it, nothing need ever arrive.
            let wait_for = usize::from(drained || self.flights.free.is_empty());
            match self.ring.submit_and_wait(wait_for) {
                Ok(_) => {}
                // Interrupted, or the completion queue is full: collect and come again.
                Err(e) if matches!(Errno::from_io_error(&e), Some(Errno::INTR | Errno::BUSY)) => {}
                Err(e) => {
                    failures += 1;
                    if failures.is_power_of_two() {
                        log::warn!("io_uring rejects operations: {e} ({failures} times so far); retrying");
                    }
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            self.collect();
        }
    }

    /// Takes as many operations as there are slots. Returns whether that was all of them; `None` when the store is
    /// closing and all is done.
    fn next_batch(&mut self, batch: &mut Vec<StoreOp>) -> Option<bool> {
        let mut state = lock(&self.shared.state);
        let count = state.queue.len().min(self.flights.free.len());
        let closing = state.closing;
        // On closing there is no receiver for data.
        batch.extend(state.queue.drain(..count).filter(|op| !(closing && op.op.returns_data())));
        state.waiting = state.queue.is_empty();
        let over = closing && state.waiting && batch.is_empty() && self.flights.is_empty();
        (!over).then_some(state.waiting)
    }

    /// Starts one operation; there is a slot for it.
    fn begin(&mut self, op: StoreOp) {
        let started_nanos = self.completions.now_nanos();
        if let Err(failure) = self.medium.admit(&op) {
            return self.completions.push(op, Err(failure), started_nanos);
        }
        if self.is_for_helpers(&op) {
            return self.helpers.submit(&mut vec![op]);
        }
        if op.len_bytes == 0 {
            return self.completions.push(op, Ok(()), started_nanos);
        }
        self.launch(Flight { op, started_nanos, done_bytes: 0, bounce: None, asked_bytes: 0 });
    }

    fn is_for_helpers(&self, op: &StoreOp) -> bool {
        let align = self.medium.align_bytes();
        let whole = op.offset_bytes.is_multiple_of(align) && u64::from(op.len_bytes).is_multiple_of(align);
        if self.medium.is_summed() {
            return op.op != Op::Read || !self.medium.has_units_of(op.offset_bytes, u64::from(op.len_bytes));
        }
        match op.op {
            Op::Read => false,
            Op::Write => !whole || (is_durable(op) && !self.medium.writes_durably()),
            Op::Flush | Op::Trim | Op::WriteZeroes | Op::Map | Op::Digest => true,
        }
    }

    /// Puts the next part of an operation into the ring.
    fn launch(&mut self, mut flight: Flight) {
        let Some(&slot) = self.flights.free.last() else {
            // Cannot be: as many are begun as there are slots, and one that goes on has just left its own.
            return self.completions.push(flight.op, Err(Failure::NoMemory), flight.started_nanos);
        };
        let entry = self.entry(&mut flight).user_data(slot as u64);
        self.flights.free.pop();
        self.flights.slots[slot] = Some(flight);
        self.push(&entry);
    }

    fn entry(&mut self, flight: &mut Flight) -> squeue::Entry {
        let durable = is_durable(&flight.op);
        let fd = types::Fd(self.medium.file(durable).as_raw_fd());
        let done = flight.done_bytes;
        let is_summed = self.medium.is_summed();
        let (offset, memory) = if self.medium.is_direct() || is_summed {
            let align = if is_summed { self.medium.granule_bytes() } else { self.medium.align_bytes() };
            let at = flight.op.offset_bytes + done as u64;
            let window = Window::first(at, flight.op.data.len() - done, align);
            let mut bounce = match flight.bounce.take() {
                Some((bounce, _)) => bounce,
                None => self.bounces.pop().unwrap_or_else(|| Bounce::new(align)),
            };
            if flight.op.op == Op::Write {
                bounce.slice(window.len_bytes).copy_from_slice(&flight.op.data[done..done + window.take_bytes]);
            }
            let (bounce, _) = flight.bounce.insert((bounce, window));
            (window.start_bytes, bounce.slice(window.len_bytes))
        } else {
            (flight.op.offset_bytes + done as u64, &mut flight.op.data[done..])
        };
        let len = memory.len().min(TRANSFER_BYTES_MAX);
        flight.asked_bytes = len;
        if flight.op.op == Op::Read {
            opcode::Read::new(fd, memory.as_mut_ptr(), len as u32).offset(offset).build()
        } else {
            let flags = if durable { ReadWriteFlags::DSYNC.bits() } else { 0 };
            opcode::Write::new(fd, memory.as_ptr(), len as u32).offset(offset).rw_flags(flags as i32).build()
        }
    }

    fn push(&mut self, entry: &squeue::Entry) {
        loop {
            // SAFETY: the file is kept open by `medium` (the eventfd by `shared`), and the memory belongs to a flight in
            // `flights`. None is dropped or touched before its completion: `run` does not return before all have
            // come, and `Flights` leaks what a panic leaves behind. Moving a `Flight` moves no heap memory, and
            // nothing resizes its buffers. Watching the eventfd takes no memory.
            if unsafe { self.ring.submission().push(entry) }.is_ok() {
                return;
            }
            // The queue has more room than there are operations, so this empties it only after an error of submitting.
            if self.ring.submit().is_err() {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }

    /// Keeps a watch on the eventfd in the ring, which ends the wait in the kernel when there is something to do.
    fn arm_wake(&mut self) {
        if !self.wake_armed {
            const READABLE: u32 = PollFlags::IN.bits() as u32;
            let entry = opcode::PollAdd::new(types::Fd(self.shared.wake.as_raw_fd()), READABLE).build();
            self.push(&entry.user_data(WAKE));
            self.wake_armed = true;
        }
    }

    fn collect(&mut self) {
        let mut arrived = std::mem::take(&mut self.arrived);
        arrived.extend(self.ring.completion().map(|c| (c.user_data(), c.result())));
        for (user_data, result) in arrived.drain(..) {
            if user_data == WAKE {
                self.wake_armed = false;
                // Back to zero, or the next watch would end at once. It does not block, and nothing depends on the count.
                let _ = rustix::io::read(&self.shared.wake, &mut [0u8; 8]);
            } else if let Some(flight) = self.flights.take(user_data as usize) {
                self.landed(flight, result);
            }
        }
        self.arrived = arrived;
    }

    /// Goes on with an operation of which one transfer is over.
    fn landed(&mut self, mut flight: Flight, result: i32) {
        let moved = match usize::try_from(result) {
            Ok(moved) => moved,
            Err(_) => return self.landed_badly(flight, Errno::from_raw_os_error(result.saturating_neg())),
        };
        match flight.op.op {
            Op::Read if moved == 0 => {
                let failure = self.medium.ended_early();
                return self.finish(flight, Err(failure));
            }
            // The blocking way takes it up again in whole blocks. Doing the whole of it once more is harmless.
            _ if flight.bounce.is_some() && moved != flight.asked_bytes => return self.hand_over(flight),
            _ if moved == 0 => {
                let failure = self.medium.failed("write", Errno::IO);
                return self.finish(flight, Err(failure));
            }
            _ => {}
        }
        if let Some((bounce, window)) = flight.bounce.as_mut().filter(|_| self.medium.is_summed()) {
            if !self.medium.matches_cached(window.start_bytes, bounce.slice(window.len_bytes)) {
                return self.hand_over(flight);
            }
            self.medium.note_verified(window.start_bytes, window.len_bytes);
        }
        if flight.op.op == Op::Write && !is_durable(&flight.op) && !self.medium.is_direct() {
            self.medium.note_written(flight.op.offset_bytes + flight.done_bytes as u64, moved as u64);
            if self.medium.is_writeback_due() {
                self.helpers.start_writeback();
            }
        }
        let Flight { op, bounce, done_bytes, .. } = &mut flight;
        *done_bytes += match bounce {
            Some((bounce, window)) => {
                if op.op == Op::Read {
                    let blocks = bounce.slice(window.len_bytes);
                    let part = &blocks[window.skip_bytes..window.skip_bytes + window.take_bytes];
                    op.data[*done_bytes..*done_bytes + part.len()].copy_from_slice(part);
                }
                window.take_bytes
            }
            None => moved,
        };
        if *done_bytes < op.data.len() { self.launch(flight) } else { self.finish(flight, Ok(())) }
    }

    fn landed_badly(&mut self, flight: Flight, errno: Errno) {
        let failure = match flight.op.op {
            _ if matches!(errno, Errno::INTR | Errno::AGAIN) => return self.launch(flight),
            // Which of its blocks cannot be read is found out there.
            Op::Read if self.medium.is_summed() => return self.hand_over(flight),
            Op::Write if is_durable(&flight.op) => match self.medium.durable_failed(errno) {
                Some(failure) => failure,
                None => return self.hand_over(flight),
            },
            op => self.medium.failed(op.name(), errno),
        };
        self.finish(flight, Err(failure));
    }

    fn finish(&mut self, mut flight: Flight, result: Result<(), Failure>) {
        self.keep_bounce(&mut flight);
        self.completions.push(flight.op, result, flight.started_nanos);
    }

    fn hand_over(&mut self, mut flight: Flight) {
        self.keep_bounce(&mut flight);
        self.helpers.submit(&mut vec![flight.op]);
    }

    fn keep_bounce(&mut self, flight: &mut Flight) {
        self.bounces.extend(flight.bounce.take().map(|(bounce, _)| bounce));
    }
}

// A chunk must be one transfer, or a window could be cut in the middle of a block.
const _: () = assert!(CHUNK_BYTES <= TRANSFER_BYTES_MAX);
