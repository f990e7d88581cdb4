//! The thread that makes a volume's map durable beside the loop.

use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, channel};

use flashmob_core::op::Failure;

use super::{MapFile, MapFileError};
use crate::worker::Worker;

/// The outcome of an [`MapWriter::append`] or [`MapWriter::rewrite`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MapDone {
    /// The number that it was given: that of its last record.
    pub number: u64,
    /// Whether all up to that record is durable.
    pub result: Result<(), MapFailure>,
}

/// Why the map was not written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MapFailure {
    /// [`Failure::NoSpace`] if the disk is full.
    pub failure: Failure,
    /// The reason with the path and a remedy.
    pub text: String,
}

/// Writes a map's file on a thread of its own. One batch or snapshot at a time is under way. Dropping it waits for
/// that, and gives up the file with its lock.
pub struct MapWriter {
    jobs: Worker<Job>,
    done: Receiver<(MapDone, Condition)>,
    is_busy: bool,
    condition: Condition,
}

/// What the loop needs to know of the file between two jobs.
#[derive(Debug, Clone, Copy)]
struct Condition {
    needs_rewrite: bool,
    wants_compaction: bool,
}

impl Condition {
    fn of(file: &MapFile) -> Condition {
        Condition { needs_rewrite: file.needs_rewrite(), wants_compaction: file.wants_compaction() }
    }
}

struct Job {
    number: u64,
    bytes: Vec<u8>,
    /// The bytes are a batch, not a snapshot.
    is_batch: bool,
}

impl MapWriter {
    /// Starts the thread. It calls `wake` whenever it has finished something.
    pub fn start(file: MapFile, wake: impl Fn() + Send + 'static) -> io::Result<MapWriter> {
        let (finished, done) = channel();
        let condition = Condition::of(&file);
        let mut file = file;
        let work = move |waiting: Receiver<Job>| {
            for job in waiting {
                let number = job.number;
                let result = carry_out(&mut file, &job);
                // If nobody receives it, the writer is being dropped.
                let _ = finished.send((MapDone { number, result }, Condition::of(&file)));
                wake();
            }
        };
        Ok(MapWriter { jobs: Worker::start("map", work)?, done, is_busy: false, condition })
    }

    /// Appends a batch whose last record has this number. Nothing else may be under way.
    pub fn append(&mut self, number: u64, batch: Vec<u8>) {
        self.begin(Job { number, bytes: batch, is_batch: true });
    }

    /// Writes the file anew. The snapshot has all records up to this number. Nothing else may be under way.
    pub fn rewrite(&mut self, number: u64, snapshot: Vec<u8>) {
        self.begin(Job { number, bytes: snapshot, is_batch: false });
    }

    fn begin(&mut self, job: Job) {
        assert!(!self.is_busy, "the map is written one batch at a time");
        self.is_busy = true;
        if self.jobs.give(job).is_err() {
            log::error!("the thread that writes the map has ended; nothing that needs it goes on");
        }
    }

    /// What was finished since the last call.
    pub fn take_done(&mut self) -> Option<MapDone> {
        let (done, condition) = self.done.try_recv().ok()?;
        (self.is_busy, self.condition) = (false, condition);
        Some(done)
    }

    /// Whether something is under way: given to the thread and not taken by [`MapWriter::take_done`].
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.is_busy
    }

    /// Whether a snapshot has to come next, because an earlier write failed.
    #[must_use]
    pub fn needs_rewrite(&self) -> bool {
        self.condition.needs_rewrite
    }

    /// Whether a snapshot should come next, because the file has grown.
    #[must_use]
    pub fn wants_compaction(&self) -> bool {
        self.condition.wants_compaction
    }
}

impl fmt::Debug for MapWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MapWriter { is_busy, condition, .. } = self;
        f.debug_struct("MapWriter").field("is_busy", is_busy).field("condition", condition).finish_non_exhaustive()
    }
}

/// Does a job. One that panics has said so on standard error and fails: without an answer, the loop would wait for
/// ever.
fn carry_out(file: &mut MapFile, job: &Job) -> Result<(), MapFailure> {
    let Job { bytes, is_batch, .. } = job;
    let write = || if *is_batch { file.append(bytes) } else { file.rewrite(bytes) };
    let written = catch_unwind(AssertUnwindSafe(write)).unwrap_or_else(|_| {
        file.is_spent = true;
        let (action, path, source) = ("write", file.path().into(), io::Error::other("internal error"));
        Err(MapFileError::Other { action, path, source })
    });
    if let Err(error) = &written {
        log::error!("{error}");
    }
    written.map_err(|error| MapFailure { failure: error.failure(), text: error.to_string() })
}
