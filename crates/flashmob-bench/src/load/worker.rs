//! One thread of a load: keeps the slots of its connections filled, and takes in the answers.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use flashmob_core::op::Op;
use rustix::time::{ClockId, clock_gettime};

use super::measure::{Measured, Tally};
use super::offsets::Offsets;
use super::{Load, Shared, Stop, Verifier};
use crate::error::Error;
use crate::nbd::connection::{Connection, ReceiveBuffer};
use crate::nbd::handshake::Export;
use crate::nbd::pump::Pump;

/// How often a thread looks for silent servers, for the end, and tells how far it is.
const TICK: Duration = Duration::from_millis(100);
/// No more requests are queued on a connection while so many bytes wait to be sent: large writes
/// shall not take memory for all slots at once.
const QUEUE_BYTES_MAX: usize = 4 << 20;

/// One connection, and where its requests go.
pub(super) struct Client {
    connection: Connection,
    offsets: Offsets,
    block_bytes: u32,
}

impl Client {
    pub fn new(connection: Connection, offsets: Offsets, load: &Load) -> Client {
        Client { connection, offsets, block_bytes: load.block_bytes }
    }

    /// Fills the free slots, as far as `quota` allows, and sends.
    fn refill(&mut self, quota: &mut u64, reference: &Verifier) -> Result<(), Error> {
        if self.connection.free() > 0 && *quota > 0 {
            let now = Instant::now();
            while *quota > 0 && self.connection.free() > 0 && self.connection.queued_bytes() < QUEUE_BYTES_MAX {
                let (offset_bytes, read) = self.offsets.next_request();
                let op = if read { Op::Read } else { Op::Write };
                self.connection.submit(now, op, 0, offset_bytes, self.block_bytes, |bytes| {
                    reference.fill(offset_bytes, bytes);
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
    pump: Pump,
    /// Requests that are still to be asked.
    quota: u64,
    stop: Stop,
    rest: Duration,
    reference: Verifier,
    verify: bool,
}

impl Worker {
    pub fn new(clients: Vec<Client>, load: &Load, quota: u64, reference: Verifier) -> Result<Worker, Error> {
        let pump = Pump::new(clients.iter().map(|client| &client.connection))?;
        Ok(Worker { clients, pump, quota, stop: load.stop, rest: load.rest, reference, verify: load.verify.is_some() })
    }

    /// The export; every thread has at least one connection.
    pub fn export(&self) -> &Export {
        self.clients[0].connection.export()
    }

    /// Runs to the end of the load, or to the first connection that breaks.
    pub fn run(mut self, begun: Instant, shared: &Shared) -> Result<Measured, Error> {
        let cpu_before = thread_cpu();
        let mut measured = Measured::new();
        let mut buffer = ReceiveBuffer::new();
        let deadline = match self.stop {
            Stop::After(limit) => begun.checked_add(limit),
            Stop::Requests(_) => None,
        };
        for (index, client) in self.clients.iter_mut().enumerate() {
            client.refill(&mut self.quota, &self.reference)?;
            self.pump.sent(index, &client.connection)?;
        }
        let mut next_tick = begun + TICK;
        let mut told = 0;
        loop {
            let now = Instant::now();
            if deadline.is_some_and(|deadline| now >= deadline) {
                self.quota = 0;
            }
            if now >= next_tick {
                next_tick = now + TICK;
                if shared.give_up.load(Ordering::Relaxed) {
                    break;
                }
                let answered = measured.answered();
                shared.answered.fetch_add(answered - told, Ordering::Relaxed);
                told = answered;
                for client in &self.clients {
                    client.connection.check_silence(now)?;
                }
            }
            if self.quota == 0 && self.outstanding() == 0 {
                break;
            }
            let wake = deadline.filter(|_| self.quota > 0).map_or(next_tick, |deadline| deadline.min(next_tick));
            let answered = measured.answered();
            self.round(wake.saturating_duration_since(now), &mut measured, &mut buffer)?;
            if !self.rest.is_zero() && (measured.answered() - answered) * 8 < self.outstanding() {
                std::thread::sleep(self.rest);
            }
        }
        measured.cpu = thread_cpu().saturating_sub(cpu_before);
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
        let ready = self.pump.wait(wait)?;
        for nth in 0..ready {
            let Some(index) = self.pump.ready(nth) else { break };
            let Some(client) = self.clients.get_mut(index) else { continue };
            let verify = self.verify.then_some(&*self.reference);
            client.connection.receive(buffer, &mut Tally { measured, verify })?;
            client.refill(&mut self.quota, &self.reference)?;
            self.pump.sent(index, &client.connection)?;
        }
        Ok(())
    }
}

/// Processor time of this thread so far, user and system.
fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}
