//! The threads of one repetition.

use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use flashmob_results::disk::{Engine, Operation, Parameters, Pattern, Sync};

use super::buffer::Buffer;
use super::error::DiskError;
use super::limit::{Limit, Stop};
use super::offsets::{Offsets, Order};
use super::subject::Opened;
use super::worker::{self, Model, Reads, Tally, Writes};
use crate::load::random::Random;
use flashmob_host::is_android;

const TICK: Duration = Duration::from_millis(100);
/// Stack of a thread; its buffers are on the heap.
const STACK_BYTES: usize = 256 * 1024;

enum Report {
    Ready,
    Done(Result<Tally, DiskError>),
}

/// Runs one repetition of `parameters`. `tick` gets the completed fraction several times a second.
///
/// # Errors
/// A thread or a ring cannot be created. Requests that fail are counted.
pub(super) fn run(
    opened: &Opened<'_>,
    parameters: &Parameters,
    order: &Order,
    stop: Stop,
    cancel: &AtomicBool,
    tick: &mut dyn FnMut(f64),
) -> Result<Tally, DiskError> {
    let limit = Limit::new(stop, parameters.threads, parameters.pattern == Pattern::Sequential, cancel);
    // Threads wait here until all are ready, and learn whether to begin.
    let gate = OnceLock::new();
    std::thread::scope(|scope| {
        let (report, reports) = mpsc::channel();
        let mut started = 0;
        let mut outcome = Ok(());
        for (thread, mut offsets) in (0..).zip(order.offsets()) {
            let (gate, limit, report) = (&gate, &limit, report.clone());
            // The receiver waits for all reports, so that sending does not fail.
            let body = move || {
                let mut member = match Member::new(opened, parameters, thread, order.seed) {
                    Ok(member) => member,
                    Err(error) => {
                        let _ = report.send(Report::Done(Err(error)));
                        return;
                    }
                };
                let _ = report.send(Report::Ready);
                if *gate.wait() {
                    let _ = report.send(Report::Done(member.work(limit, &mut offsets)));
                }
            };
            let builder = std::thread::Builder::new().name(format!("load-{thread}")).stack_size(STACK_BYTES);
            match builder.spawn_scoped(scope, body) {
                Ok(_) => started += 1,
                Err(error) => {
                    outcome = Err(DiskError::Thread(error));
                    break;
                }
            }
        }
        drop(report);
        for _ in 0..started {
            if let Ok(Report::Done(Err(error))) = reports.recv() {
                outcome = Err(error);
            }
        }
        // If one thread fails, none begins: the figures would be those of fewer threads.
        let _ = gate.set(outcome.is_ok());
        outcome?;
        gather(&reports, &limit, stop, tick)
    })
}

/// Waits for all threads, and adds up their counts.
fn gather(
    reports: &mpsc::Receiver<Report>,
    limit: &Limit<'_>,
    stop: Stop,
    tick: &mut dyn FnMut(f64),
) -> Result<Tally, DiskError> {
    let begun = Instant::now();
    let mut all: Option<Tally> = None;
    let mut outcome = Ok(());
    loop {
        match reports.recv_timeout(TICK) {
            Ok(Report::Done(Ok(tally))) => match &mut all {
                Some(all) => all.add(&tally),
                None => all = Some(tally),
            },
            Ok(Report::Done(Err(error))) => outcome = Err(error),
            Ok(Report::Ready) => {}
            Err(RecvTimeoutError::Timeout) => tick(match stop {
                Stop::After(time) => (begun.elapsed().as_secs_f64() / time.as_secs_f64()).min(1.0),
                Stop::Requests(count) => (limit.taken() as f64 / count.max(1) as f64).min(1.0),
            }),
            // The last thread has ended.
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    outcome?;
    Ok(all.unwrap_or_else(Tally::new))
}

/// One thread with its buffers.
struct Member<'a> {
    opened: &'a Opened<'a>,
    parameters: &'a Parameters,
    thread: u32,
    tools: Tools,
}

enum Tools {
    Buffer(Buffer),
    #[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
    Ring(Box<super::uring::Ring>),
}

impl<'a> Member<'a> {
    fn new(
        opened: &'a Opened<'a>,
        parameters: &'a Parameters,
        thread: u32,
        seed: u64,
    ) -> Result<Member<'a>, DiskError> {
        let block_bytes = parameters.block_bytes as usize;
        let mut random = Random::new(!seed, thread.into());
        let writes = parameters.operation == Operation::Write;
        let tools = match (parameters.engine, opened) {
            (Engine::IoUring, Opened::File(_)) if is_android() => return Err(DiskError::UringOnAndroid),
            #[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
            (Engine::IoUring, Opened::File(_)) => {
                let mut ring = super::uring::Ring::new(parameters.depth, block_bytes).map_err(DiskError::Uring)?;
                ring.buffers().filter(|_| writes).for_each(|b| b.fill(&mut random));
                Tools::Ring(Box::new(ring))
            }
            #[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
            (Engine::IoUring, Opened::File(_)) => return Err(DiskError::Uring(std::io::ErrorKind::Unsupported.into())),
            (Engine::Pread, _) | (Engine::IoUring, Opened::Model(_)) => {
                let mut buffer = Buffer::new(block_bytes);
                if writes {
                    buffer.fill(&mut random);
                }
                Tools::Buffer(buffer)
            }
        };
        Ok(Member { opened, parameters, thread, tools })
    }

    fn work(&mut self, limit: &Limit<'_>, offsets: &mut Offsets) -> Result<Tally, DiskError> {
        let Parameters { operation, sync, .. } = *self.parameters;
        let verb = operation.word();
        let mut turnstile = limit.turnstile(self.thread);
        let buffer = match &mut self.tools {
            Tools::Buffer(buffer) => buffer,
            #[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
            Tools::Ring(ring) => {
                let Opened::File(file) = self.opened else { unreachable!("rings are made for files alone") };
                let kind = super::uring::Kind { file, operation, sync };
                return ring.run(kind, verb, offsets, &mut turnstile).map_err(DiskError::Uring);
            }
        };
        Ok(match (self.opened, operation) {
            (Opened::File(file), Operation::Read) => {
                worker::run(&Reads(file), self.thread, verb, offsets, buffer, &mut turnstile)
            }
            (Opened::File(file), Operation::Write) => {
                let writes = Writes { file, sync: sync.unwrap_or(Sync::None) };
                worker::run(&writes, self.thread, verb, offsets, buffer, &mut turnstile)
            }
            (Opened::Model(disk), _) => {
                let direct = self.parameters.cache == flashmob_results::disk::Cache::Direct;
                let model = Model { disk, operation, sync, direct };
                worker::run(&model, self.thread, verb, offsets, buffer, &mut turnstile)
            }
        })
    }
}
