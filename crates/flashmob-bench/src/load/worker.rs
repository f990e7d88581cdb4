//! One thread of a load: keeps the slots of its connections filled, and receives the answers.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use flashmob_core::op::Op;
use rustix::time::{ClockId, clock_gettime};

use super::measure::{Measured, Sample, Tally};
use super::offsets::Offsets;
use super::{Load, Shared, Stop, Target, Verifier};
use crate::error::Error;
use crate::nbd::connection::{Connection, ReceiveBuffer};
use crate::nbd::handshake::Export;
use crate::nbd::pump::Pump;

/// Interval at which a thread checks for silent servers and the end, and reports its progress.
const TICK: Duration = Duration::from_millis(100);
/// Most queued bytes of a connection, so that large writes do not take memory for all slots at once.
const QUEUE_BYTES_MAX: usize = 4 << 20;
/// Most outstanding reads of a connection with blocking receives: their requests fit into any socket's buffer, so that sending never waits
/// for the server.
const BLOCKING_OUTSTANDING_MAX: u32 = 1024;

/// One connection with its offsets and expected contents.
pub(super) struct Client {
    connection: Connection,
    offsets: Offsets,
    block_bytes: u32,
    /// Contents of writes.
    contents: Verifier,
    /// Expected contents of reads.
    verify: Option<Verifier>,
}

impl Client {
    pub fn new(connection: Connection, offsets: Offsets, load: &Load, target: &Target, pattern: &Verifier) -> Client {
        let verify = target.verify.clone();
        let contents = verify.as_ref().unwrap_or(pattern).clone();
        Client { connection, offsets, block_bytes: load.block_bytes, contents, verify }
    }

    /// Fills the free slots, as far as `quota` allows, and sends.
    fn refill(&mut self, quota: &mut u64) -> Result<(), Error> {
        if self.connection.free() > 0 && *quota > 0 {
            let now = Instant::now();
            while *quota > 0 && self.connection.free() > 0 && self.connection.queued_bytes() < QUEUE_BYTES_MAX {
                let (offset_bytes, read) = self.offsets.next_request();
                let op = if read { Op::Read } else { Op::Write };
                self.connection.submit(now, op, 0, offset_bytes, self.block_bytes, |bytes| {
                    self.contents.fill(offset_bytes, bytes);
                });
                *quota -= 1;
            }
        }
        self.connection.send()
    }
}

/// One thread's share of a load.
pub(super) struct Worker {
    clients: Vec<Client>,
    wait: Wait,
    /// Requests that are still to be made.
    quota: u64,
    sample: Sample,
    load: Load,
}

/// How a thread waits for answers.
enum Wait {
    /// For several connections, or also for room to send.
    Poll(Pump),
    /// In the receive of the only connection, which saves a system call per turn.
    Receive,
}

impl Worker {
    pub fn new(mut clients: Vec<Client>, load: &Load, quota: u64, thread: u64) -> Result<Worker, Error> {
        let harmless =
            load.outstanding == 1 || load.read_fraction >= 1.0 && load.outstanding <= BLOCKING_OUTSTANDING_MAX;
        let wait = match clients.as_mut_slice() {
            [client] if harmless => {
                client.connection.block_for(TICK)?;
                Wait::Receive
            }
            clients => Wait::Poll(Pump::new(clients.iter().map(|client| &client.connection))?),
        };
        let sample = Sample::new(load.verify_one_of, load.pattern.seed(), thread);
        Ok(Worker { clients, wait, quota, sample, load: load.clone() })
    }

    /// The export; every thread has at least one connection.
    pub fn export(&self) -> &Export {
        self.clients[0].connection.export()
    }

    /// Runs to the end of the load, or to the first connection that breaks.
    pub fn run(mut self, begun: Instant, shared: &Shared) -> Result<Measured, Error> {
        let mut cpu_before = thread_cpu();
        let mut measured = Measured::new(self.load.pattern.seed(), self.export());
        let mut buffer = ReceiveBuffer::default();
        let mut warm_at = Some(begun + self.load.warmup).filter(|_| !self.load.warmup.is_zero());
        let deadline = match self.load.stop {
            Stop::After(limit) => begun.checked_add(limit.saturating_add(self.load.warmup)),
            Stop::Requests(_) => None,
        };
        // Requests during the warm-up do not count.
        let quota = self.quota;
        if warm_at.is_some() {
            self.quota = u64::MAX;
        }
        for index in 0..self.clients.len() {
            self.refill(index)?;
        }
        let mut next_tick = begun + TICK;
        let mut told = 0;
        loop {
            let now = Instant::now();
            // If more are outstanding than the quota, the excess is awaited first.
            let is_warm = warm_at.is_some_and(|at| now >= at);
            if is_warm && self.outstanding() > quota {
                self.quota = 0;
            } else if is_warm {
                warm_at = None;
                measured.begin_again();
                told = measured.answered();
                cpu_before = thread_cpu();
                self.quota = quota - self.outstanding();
                for index in 0..self.clients.len() {
                    self.refill(index)?;
                }
            }
            if deadline.is_some_and(|deadline| now >= deadline) {
                self.quota = 0;
            }
            if now >= next_tick {
                next_tick = now + TICK;
                if shared.give_up.load(Ordering::Relaxed) {
                    break;
                }
                if self.load.is_cancelled() {
                    self.quota = 0;
                }
                let answered = measured.answered();
                if warm_at.is_none() {
                    shared.answered.fetch_add(answered - told, Ordering::Relaxed);
                    told = answered;
                }
                for client in &self.clients {
                    client.connection.check_silence(now)?;
                }
            }
            if self.quota == 0 && self.outstanding() == 0 {
                break;
            }
            let mut wake = deadline.filter(|_| self.quota > 0).map_or(next_tick, |deadline| deadline.min(next_tick));
            wake = warm_at.filter(|_| !is_warm).map_or(wake, |at| at.min(wake));
            let answered = measured.answered();
            self.round(wake.saturating_duration_since(now), &mut measured, &mut buffer)?;
            let rest = self.load.rest;
            if !rest.is_zero() && (measured.answered() - answered) * 8 < self.outstanding() {
                std::thread::sleep(rest);
            }
        }
        measured.result.cpu = thread_cpu().saturating_sub(cpu_before);
        for client in self.clients {
            client.connection.disconnect();
        }
        Ok(measured)
    }

    fn outstanding(&self) -> u64 {
        self.clients.iter().map(|client| client.connection.outstanding() as u64).sum()
    }

    /// Waits for the connections, then receives from and refills those that are ready.
    fn round(&mut self, wait: Duration, measured: &mut Measured, buffer: &mut ReceiveBuffer) -> Result<(), Error> {
        let ready = match &mut self.wait {
            Wait::Poll(pump) => pump.wait(wait)?,
            Wait::Receive => 1,
        };
        for nth in 0..ready {
            let index = match &self.wait {
                Wait::Poll(pump) => pump.ready(nth),
                Wait::Receive => Some(nth),
            };
            let Some(client) = index.and_then(|index| self.clients.get_mut(index)) else { continue };
            let verify = client.verify.as_deref();
            client.connection.receive(buffer, &mut Tally { measured, verify, sample: &mut self.sample })?;
            self.refill(index.unwrap_or(nth))?;
        }
        Ok(())
    }

    /// Fills the free slots of a connection, sends, and notes whether the socket is full.
    fn refill(&mut self, index: usize) -> Result<(), Error> {
        let Some(client) = self.clients.get_mut(index) else { return Ok(()) };
        client.refill(&mut self.quota)?;
        match &mut self.wait {
            Wait::Poll(pump) => pump.sent(index, &client.connection),
            Wait::Receive => Ok(()),
        }
    }
}

/// Processor time of this thread so far, user and system.
fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}
