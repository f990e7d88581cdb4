//! Loads on NBD exports: parameters, threads and results.
//!
//! [`run()`] opens all connections, divides them among threads, and adds up their counts.
//! Errors of a server are counted and the load continues; a broken connection ends the load.

mod measure;
pub mod offsets;
pub mod random;
pub mod reference;
mod worker;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use flashmob_core::nbd::protocol as p;
use hdrhistogram::Histogram;

use crate::error::{Errno, Error};
use crate::nbd::connection::{Connection, Options};
use crate::nbd::handshake::Export;
use crate::nbd::uri::Uri;
use crate::progress::{Progress, Unit};
use measure::Measured;
use offsets::{Alignment, Offsets, Pattern};
use reference::{PatternReference, Reference};
use worker::{Client, Worker};

/// How often progress is reported.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);
/// Most connections of one load: what a gateway admits.
pub const CONNECTIONS_MAX: u32 = 64;
/// Most outstanding requests of one connection.
pub const OUTSTANDING_MAX: u32 = 65_536;

/// The parameters of a load.
#[derive(Clone, Debug)]
pub struct Load {
    /// Connections, 1 to [`CONNECTIONS_MAX`].
    pub connections: u32,
    /// Threads that the connections are divided among; at most one per connection is started.
    pub threads: u32,
    /// Requests that each connection keeps outstanding, 1 to [`OUTSTANDING_MAX`].
    pub outstanding: u32,
    /// Bytes of each request.
    pub block_bytes: u32,
    /// Order of the offsets.
    pub pattern: Pattern,
    /// Alignment of the offsets.
    pub alignment: Alignment,
    /// The range of the export for requests; `None` for all.
    pub range_bytes: Option<Range<u64>>,
    /// Fraction of the requests that are reads, 0 to 1; the others are writes.
    pub read_fraction: f64,
    /// When to stop.
    pub stop: Stop,
    /// Time before counting begins; errors and wrong bytes count from the start.
    pub warmup: Duration,
    /// Expected contents: every byte read is compared with it, every byte written is taken from it. Without it nothing is compared, and
    /// writes carry [`PatternReference`] of the seed.
    pub verify: Option<Verifier>,
    /// Verify one in this many answers, chosen at random; 1 for all.
    pub verify_one_of: u32,
    /// Ask for structured replies.
    pub structured_replies: bool,
    /// How long a thread sleeps after it was woken for less than an eighth of its outstanding requests. Otherwise a server that sends its
    /// answers one by one wakes it for each, which takes most of the processor time. Adds to the latency of those answers: leave it at
    /// zero unless throughput matters; 50 us suffice.
    pub rest: Duration,
    /// Longest silence of the server before the load fails.
    pub timeout: Duration,
    /// Ends the load early when set.
    pub cancel: Option<Arc<AtomicBool>>,
}

/// An export that a load runs on.
#[derive(Clone, Debug)]
pub struct Target {
    /// Its URI.
    pub uri: Uri,
    /// Expected contents, in place of [`Load::verify`].
    pub verify: Option<Verifier>,
}

/// A reference that the threads of a load share.
pub type Verifier = Arc<dyn Reference>;

/// When to stop; outstanding requests are awaited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// After this time.
    After(Duration),
    /// After this many requests, over all connections and threads.
    Requests(u64),
}

impl Default for Load {
    /// Reads of 4 KiB at any byte, 64 outstanding on one connection, for five seconds.
    fn default() -> Load {
        Load {
            connections: 1,
            threads: 1,
            outstanding: 64,
            block_bytes: 4096,
            pattern: Pattern::Random { seed: 1 },
            alignment: Alignment::Byte,
            range_bytes: None,
            read_fraction: 1.0,
            stop: Stop::After(Duration::from_secs(5)),
            warmup: Duration::ZERO,
            verify: None,
            verify_one_of: 1,
            structured_replies: false,
            rest: Duration::ZERO,
            timeout: Duration::from_secs(30),
            cancel: None,
        }
    }
}

impl Load {
    /// The unit of offsets.
    #[must_use]
    pub fn unit_bytes(&self) -> u64 {
        match self.alignment {
            Alignment::Byte => 1,
            Alignment::Block => u64::from(self.block_bytes).max(1),
            Alignment::Bytes(unit) => unit.max(1),
        }
    }

    fn is_cancelled(&self) -> bool {
        self.cancel.as_ref().is_some_and(|cancel| cancel.load(Ordering::Relaxed))
    }
}

/// The result of a load.
#[derive(Clone, Debug)]
pub struct LoadResult {
    /// Reads that succeeded.
    pub reads: u64,
    /// Writes that succeeded.
    pub writes: u64,
    /// Bytes of both.
    pub bytes: u64,
    /// From the first request to the last reply.
    pub elapsed: Duration,
    /// Nanoseconds from submitting a request to receiving its answer, of all requests that succeeded; three significant digits, at most
    /// an hour.
    pub latency_ns: Histogram<u64>,
    /// Requests that the server answered with an error, by error.
    pub errors: BTreeMap<Errno, u64>,
    /// The text of the first of them, if any.
    pub first_error: Option<String>,
    /// Compared bytes that were right.
    pub verified_bytes: u64,
    /// Compared bytes that were wrong.
    pub mismatched_bytes: u64,
    /// Offset of the first wrong byte.
    pub first_mismatch_offset_bytes: Option<u64>,
    /// Processor time, user and system, of the load's own threads.
    pub cpu: Duration,
    /// Random seed of the offsets; 0 for a sequential load.
    pub seed: u64,
    /// The export of the load.
    pub export: Export,
}

impl LoadResult {
    /// Requests that succeeded, per second.
    #[must_use]
    pub fn requests_per_second(&self) -> f64 {
        (self.reads + self.writes) as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }

    /// Processor time of the load itself per request that succeeded, in nanoseconds.
    #[must_use]
    pub fn cpu_ns_per_request(&self) -> f64 {
        self.cpu.as_nanos() as f64 / ((self.reads + self.writes) as f64).max(1.0)
    }

    /// Requests that the server answered with an error.
    #[must_use]
    pub fn errors_total(&self) -> u64 {
        self.errors.values().sum()
    }
}

struct Shared {
    /// Set when one of them failed.
    give_up: AtomicBool,
    /// Requests answered so far, updated periodically.
    answered: AtomicU64,
}

/// Runs a load. `progress` is called a few times a second.
pub fn run(uri: &Uri, load: &Load, progress: &mut dyn FnMut(&Progress)) -> Result<LoadResult, Error> {
    run_on(&[Target { uri: uri.clone(), verify: load.verify.clone() }], load, progress)
}

/// Runs a load over several exports at once: connection `i` goes to export `i` modulo their number. All of
/// them count together; [`LoadResult::export`] is the first.
pub fn run_on(targets: &[Target], load: &Load, progress: &mut dyn FnMut(&Progress)) -> Result<LoadResult, Error> {
    check(load)?;
    if targets.is_empty() || targets.len() > load.connections as usize {
        let reason = format!("{} connections to {} exports; each needs one", load.connections, targets.len());
        return Err(Error::Load(reason));
    }
    let mut workers = workers(targets, load)?;
    let mut total = Measured::new(load.pattern.seed(), workers[0].export());
    let shared = Shared { give_up: AtomicBool::new(false), answered: AtomicU64::new(0) };
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let (report, reports) = mpsc::channel();
        for worker in workers.drain(..) {
            let (report, shared) = (report.clone(), &shared);
            scope.spawn(move || {
                let outcome = worker.run(begun, shared);
                if outcome.is_err() {
                    shared.give_up.store(true, Ordering::Relaxed);
                }
                // The receiver lives as long as the threads do.
                let _ = report.send(outcome);
            });
        }
        drop(report);
        collect(&mut total, &reports, || progress(&state(load, begun, &shared)))
    })?;
    Ok(total.into_result(begun + load.warmup))
}

/// Waits for all threads and adds up their counts; the first error, if any failed.
fn collect(
    total: &mut Measured,
    reports: &mpsc::Receiver<Result<Measured, Error>>,
    mut tick: impl FnMut(),
) -> Result<(), Error> {
    let mut failure = None;
    loop {
        match reports.recv_timeout(PROGRESS_INTERVAL) {
            Ok(Ok(measured)) => total.add(measured),
            Ok(Err(error)) => {
                failure.get_or_insert(error);
            }
            Err(RecvTimeoutError::Timeout) => tick(),
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    failure.map_or(Ok(()), Err)
}

fn state(load: &Load, begun: Instant, shared: &Shared) -> Progress {
    match load.stop {
        Stop::After(limit) => {
            let limit = limit.saturating_add(load.warmup);
            let (done, total) = (begun.elapsed().min(limit).as_millis() as u64, limit.as_millis() as u64);
            Progress { done, total, unit: Unit::Milliseconds }
        }
        Stop::Requests(total) => {
            Progress { done: shared.answered.load(Ordering::Relaxed).min(total), total, unit: Unit::Requests }
        }
    }
}

/// Opens the connections and divides them among threads.
fn workers(targets: &[Target], load: &Load) -> Result<Vec<Worker>, Error> {
    let options =
        Options { timeout: load.timeout, structured_replies: load.structured_replies, outstanding: load.outstanding };
    let pattern: Verifier = Arc::new(PatternReference { seed: load.pattern.seed() });
    let threads = load.threads.min(load.connections) as usize;
    let mut clients: Vec<Vec<Client>> = (0..threads).map(|_| Vec::new()).collect();
    for index in 0..load.connections {
        let target = &targets[index as usize % targets.len()];
        let connection = Connection::open(&target.uri, &options)?;
        suits(load, target, &connection)?;
        let size_bytes = connection.export().size_bytes;
        let offsets = Offsets::new(load, size_bytes, index);
        clients[index as usize % threads].push(Client::new(connection, offsets, load, target, &pattern));
    }
    let mut workers = Vec::with_capacity(threads);
    for (thread, clients) in clients.into_iter().enumerate() {
        let quota = match load.stop {
            Stop::After(_) => u64::MAX,
            Stop::Requests(total) => {
                let (threads, thread) = (threads as u64, thread as u64);
                total / threads + u64::from(thread < total % threads)
            }
        };
        workers.push(Worker::new(clients, load, quota, thread as u64)?);
    }
    Ok(workers)
}

/// Checks the load by itself.
fn check(load: &Load) -> Result<(), Error> {
    let wrong = |reason: String| Err(Error::Load(reason));
    if !(1..=CONNECTIONS_MAX).contains(&load.connections) {
        return wrong(format!("{} connections; choose 1 to {CONNECTIONS_MAX}", load.connections));
    }
    if load.threads == 0 {
        return wrong("no thread; choose at least 1".into());
    }
    if !(1..=OUTSTANDING_MAX).contains(&load.outstanding) {
        return wrong(format!("{} outstanding requests; choose 1 to {OUTSTANDING_MAX}", load.outstanding));
    }
    if load.block_bytes == 0 {
        return wrong("requests of 0 bytes; choose at least 1".into());
    }
    if load.verify_one_of == 0 {
        return wrong("one answer of 0 is to be verified; choose at least 1".into());
    }
    if let Some(range) = load.range_bytes.as_ref().filter(|range| range.is_empty()) {
        return wrong(format!("the range from {} to {} is empty", range.start, range.end));
    }
    if !(0.0..=1.0).contains(&load.read_fraction) {
        return wrong(format!("a read fraction of {}; choose 0 to 1", load.read_fraction));
    }
    Ok(())
}

/// Checks that the load fits the export.
fn suits(load: &Load, target: &Target, connection: &Connection) -> Result<(), Error> {
    let export = connection.export();
    let wrong = |reason: String| Err(Error::Unsuitable { server: connection.server().into(), reason });
    let block = load.block_bytes;
    if u64::from(block) > export.size_bytes {
        return wrong(format!("requests of {block} bytes do not fit its {} bytes", export.size_bytes));
    }
    if let Some(range) = &load.range_bytes
        && range.end > export.size_bytes
    {
        return wrong(format!("the range ends at {}, but it has {} bytes", range.end, export.size_bytes));
    }
    let (first, end) = Offsets::part(load, export.size_bytes);
    if u64::from(block) > end - first {
        return wrong(format!("no request of {block} bytes fits between {first} and {end}; widen the range"));
    }
    if block > export.block_bytes_max {
        return wrong(format!("it takes at most {} bytes per request, not {block}", export.block_bytes_max));
    }
    let unit = export.block_bytes_min;
    if !block.is_multiple_of(unit) {
        return wrong(format!("it takes multiples of {unit} bytes only, not {block}"));
    }
    if !load.unit_bytes().is_multiple_of(unit.into()) && !matches!(load.pattern, Pattern::Sequential) {
        return wrong(format!("it takes offsets that are multiples of {unit} only; align the offsets to the block"));
    }
    if !first.is_multiple_of(unit.into()) {
        return wrong(format!("it takes offsets that are multiples of {unit} only, and the range begins at {first}"));
    }
    if load.read_fraction < 1.0 && export.has(p::FLAG_READ_ONLY) {
        return wrong("it is read-only, but the load writes".into());
    }
    if let Some(held) = target.verify.as_ref().and_then(|reference| reference.len_bytes())
        && held < end
    {
        return wrong(format!("bytes up to {end} are asked for, but the reference to compare with has only {held}"));
    }
    Ok(())
}
