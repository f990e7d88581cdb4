//! The thread that makes a volume's map durable beside the loop, wherever it is kept.

use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, channel};

use flashmob_core::op::Failure;

use super::etcd_map::MapKeys;
use super::map_store::{MapFailure, MapStore};
use crate::worker::Worker;

/// Stack of its thread in bytes: it may speak TLS and JSON to etcd.
const STACK_BYTES: usize = 1 << 20;

/// The outcome of an [`MapWriter::append`] or [`MapWriter::rewrite`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MapDone {
    /// The number that it was given: that of its last record.
    pub number: u64,
    /// Whether all up to that record is durable.
    pub result: Result<(), MapFailure>,
}

/// Writes a map on a thread of its own. One batch or snapshot at a time is under way. Dropping it waits for
/// that, and gives up the store, a file with its lock.
pub struct MapWriter {
    jobs: Worker<Job>,
    done: Receiver<(MapDone, bool)>,
    is_busy: bool,
    /// Whether the store wanted compaction after the last job.
    wants_compaction: bool,
    /// Why the last job failed, if it did.
    trouble: Option<String>,
}

enum Job {
    /// A batch, and the number of its last record.
    Append(u64, Vec<u8>),
    /// A snapshot with all records up to this number.
    Rewrite(u64, Vec<u8>),
    /// Nobody waits for it.
    Sign(MapKeys),
}

impl MapWriter {
    /// Starts the thread. It calls `wake` whenever it has finished something.
    pub fn start(store: Box<dyn MapStore>, wake: impl Fn() + Send + 'static) -> io::Result<MapWriter> {
        let (finished, done) = channel();
        let wants_compaction = store.wants_compaction();
        let mut store = store;
        let work = move |waiting: Receiver<Job>| {
            for job in waiting {
                let number = match &job {
                    Job::Append(number, _) | Job::Rewrite(number, _) => Some(*number),
                    Job::Sign(_) => None,
                };
                let result = carry_out(&mut *store, job);
                let Some(number) = number else {
                    if let Err(failure) = result {
                        log::error!("{}; the map is signed when it is written the next time", failure.text);
                    }
                    continue;
                };
                // If nobody receives it, the writer is being dropped.
                let _ = finished.send((MapDone { number, result }, store.wants_compaction()));
                wake();
            }
        };
        let jobs = Worker::with_stack("map", STACK_BYTES, work)?;
        Ok(MapWriter { jobs, done, is_busy: false, wants_compaction, trouble: None })
    }

    /// Appends a batch whose last record has this number. Nothing else may be under way.
    pub fn append(&mut self, number: u64, batch: Vec<u8>) {
        self.begin(Job::Append(number, batch));
    }

    /// Writes the file anew. The snapshot has all records up to this number. Nothing else may be under way.
    pub fn rewrite(&mut self, number: u64, snapshot: Vec<u8>) {
        self.begin(Job::Rewrite(number, snapshot));
    }

    /// The gateway's keys are others from now on: what is under way is signed with those before.
    pub fn sign_with(&mut self, keys: MapKeys) {
        self.give(Job::Sign(keys));
    }

    fn begin(&mut self, job: Job) {
        assert!(!self.is_busy, "the map is written one batch at a time");
        self.is_busy = true;
        self.give(job);
    }

    fn give(&mut self, job: Job) {
        if self.jobs.give(job).is_err() {
            log::error!("the thread that writes the map has ended; nothing that needs it goes on");
        }
    }

    /// What was finished since the last call.
    pub fn take_done(&mut self) -> Option<MapDone> {
        let (done, wants_compaction) = self.done.try_recv().ok()?;
        (self.is_busy, self.wants_compaction) = (false, wants_compaction);
        self.trouble = done.result.as_ref().err().map(|failure| failure.text.clone());
        Some(done)
    }

    /// Whether a snapshot should come next, because it has grown.
    #[must_use]
    pub fn wants_compaction(&self) -> bool {
        self.wants_compaction
    }

    /// Why the map cannot be written, while it cannot: the place and a remedy.
    #[must_use]
    pub fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }
}

impl fmt::Debug for MapWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MapWriter").field("is_busy", &self.is_busy).finish_non_exhaustive()
    }
}

/// Does a job. One that panics has said so on standard error and fails: without an answer, the loop would wait for
/// ever.
fn carry_out(store: &mut dyn MapStore, job: Job) -> Result<(), MapFailure> {
    let write = || match job {
        Job::Append(number, batch) => store.append(number, &batch),
        Job::Rewrite(_, snapshot) => store.rewrite(&snapshot),
        Job::Sign(keys) => store.sign_with(keys),
    };
    catch_unwind(AssertUnwindSafe(write)).unwrap_or_else(|_| {
        store.give_up();
        Err(MapFailure { failure: Failure::Io, text: format!("cannot write the map {}: internal error", store.name()) })
    })
}
