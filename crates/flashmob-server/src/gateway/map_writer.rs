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
    done: Receiver<Finished>,
    is_busy: bool,
    /// Whether the store wanted compaction after the last job.
    wants_compaction: bool,
    /// Whether other keys should sign the map.
    wants_snapshot: bool,
    /// Why the last job failed, if it did.
    trouble: Option<String>,
    /// A failure beside the map.
    trouble_beside: Option<String>,
}

/// A job was carried out.
struct Finished {
    /// Nobody waits for other jobs.
    done: Option<MapDone>,
    wants_compaction: bool,
    wants_snapshot: bool,
    trouble_beside: Option<String>,
}

enum Job {
    /// A batch, and the number of its last record.
    Append(u64, Vec<u8>),
    /// A snapshot with all records up to this number.
    Rewrite(u64, Vec<u8>),
    Sign(MapKeys),
    /// Tries again what fails beside the map.
    Look,
}

impl MapWriter {
    /// Starts the thread. It calls `wake` whenever it has finished something.
    pub fn start(store: Box<dyn MapStore>, wake: impl Fn() + Send + 'static) -> io::Result<MapWriter> {
        let (finished, done) = channel();
        let wants_compaction = store.wants_compaction();
        let mut store = store;
        let trouble_beside = store.look();
        let work = move |waiting: Receiver<Job>| {
            for job in waiting {
                let (done, wants_snapshot) = carry_out(&mut *store, job);
                let (wants_compaction, trouble_beside) = (store.wants_compaction(), store.look());
                let is_news = done.is_some() || wants_snapshot;
                // If nobody receives it, the writer is being dropped.
                let _ = finished.send(Finished { done, wants_compaction, wants_snapshot, trouble_beside });
                if is_news {
                    wake();
                }
            }
        };
        let jobs = Worker::with_stack("map", STACK_BYTES, work)?;
        let (is_busy, wants_snapshot, trouble) = (false, false, None);
        Ok(MapWriter { jobs, done, is_busy, wants_compaction, wants_snapshot, trouble, trouble_beside })
    }

    /// Appends a batch whose last record has this number. Nothing else may be under way.
    pub fn append(&mut self, number: u64, batch: Vec<u8>) {
        self.begin(Job::Append(number, batch));
    }

    /// Writes the file anew. The snapshot has all records up to this number. Nothing else may be under way.
    pub fn rewrite(&mut self, number: u64, snapshot: Vec<u8>) {
        self.begin(Job::Rewrite(number, snapshot));
    }

    /// The gateway's keys are others from now on: the next snapshot is signed with them.
    pub fn sign_with(&self, keys: MapKeys) {
        self.give(Job::Sign(keys));
    }

    /// Tries again what fails beside the map, if something does.
    pub fn look(&self) {
        if self.trouble_beside.is_some() {
            self.give(Job::Look);
        }
    }

    fn begin(&mut self, job: Job) {
        assert!(!self.is_busy, "the map is written one batch at a time");
        self.is_busy = true;
        self.give(job);
    }

    fn give(&self, job: Job) {
        if self.jobs.give(job).is_err() {
            log::error!("the thread that writes the map has ended; nothing that needs it goes on");
        }
    }

    /// What was finished since the last call.
    pub fn take_done(&mut self) -> Option<MapDone> {
        while let Ok(finished) = self.done.try_recv() {
            let Finished { done, wants_compaction, wants_snapshot, trouble_beside } = finished;
            (self.wants_compaction, self.trouble_beside) = (wants_compaction, trouble_beside);
            self.wants_snapshot |= wants_snapshot;
            if let Some(done) = done {
                self.is_busy = false;
                self.trouble = done.result.as_ref().err().map(|failure| failure.text.clone());
                return Some(done);
            }
        }
        None
    }

    /// Whether a snapshot should come soon, as other keys sign the map. Once for each time that this is so.
    pub fn take_wants_snapshot(&mut self) -> bool {
        std::mem::take(&mut self.wants_snapshot)
    }

    /// Whether a snapshot should come next, because it has grown.
    #[must_use]
    pub fn wants_compaction(&self) -> bool {
        self.wants_compaction
    }

    /// Why the map, or what is kept beside it, cannot be written, while it cannot: the place and a remedy.
    #[must_use]
    pub fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref().or(self.trouble_beside.as_deref())
    }
}

impl fmt::Debug for MapWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MapWriter").field("is_busy", &self.is_busy).finish_non_exhaustive()
    }
}

/// Does a job: what came of it, and whether a snapshot should come. One that panics has said so on standard error and fails: without an answer, the loop
/// would wait for ever.
fn carry_out(store: &mut dyn MapStore, job: Job) -> (Option<MapDone>, bool) {
    let number = match job {
        Job::Append(number, _) | Job::Rewrite(number, _) => number,
        Job::Sign(keys) => return (None, store.sign_with(keys)),
        Job::Look => return (None, false),
    };
    let write = || match &job {
        Job::Append(number, batch) => store.append(*number, batch),
        Job::Rewrite(_, snapshot) => store.rewrite(snapshot),
        Job::Sign(_) | Job::Look => Ok(()),
    };
    let result = catch_unwind(AssertUnwindSafe(write)).unwrap_or_else(|_| {
        store.give_up();
        Err(MapFailure { failure: Failure::Io, text: format!("cannot write the map {}: internal error", store.name()) })
    });
    (Some(MapDone { number, result }), false)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::Sender;

    use flashmob_core::copies::{SIGNATURE_BYTES, Sign, Signer, Verify};

    use super::*;

    /// A store that fails as it is told, and tells what it does.
    struct Store {
        told: Sender<&'static str>,
        beside: Receiver<Option<String>>,
        fails: bool,
    }

    impl MapStore for Store {
        fn append(&mut self, _number: u64, _batch: &[u8]) -> Result<(), MapFailure> {
            let _ = self.told.send("append");
            Ok(())
        }

        fn rewrite(&mut self, _snapshot: &[u8]) -> Result<(), MapFailure> {
            let _ = self.told.send("rewrite");
            let failure = MapFailure { failure: Failure::Io, text: "no room".to_string() };
            if std::mem::take(&mut self.fails) { Err(failure) } else { Ok(()) }
        }

        fn wants_compaction(&self) -> bool {
            false
        }

        fn give_up(&mut self) {}

        fn sign_with(&mut self, keys: MapKeys) -> bool {
            let _ = self.told.send("sign");
            keys.generation > 1
        }

        fn look(&mut self) -> Option<String> {
            self.beside.try_recv().ok().flatten()
        }

        fn name(&self) -> String {
            "here".to_string()
        }
    }

    #[derive(Debug)]
    struct NoKey;

    impl Sign for NoKey {
        fn signer(&self) -> &[u8] {
            b"key"
        }

        fn sign(&self, _header: &[u8], _content: &[u8]) -> [u8; SIGNATURE_BYTES] {
            [0; SIGNATURE_BYTES]
        }
    }

    impl Verify for NoKey {
        fn signer(&self, _signer: &[u8]) -> Option<Box<dyn Signer>> {
            None
        }
    }

    fn keys(generation: u64) -> MapKeys {
        MapKeys { sign: Box::new(NoKey), generation, verify: Box::new(NoKey) }
    }

    #[test]
    fn another_key_asks_for_a_snapshot_once_and_what_fails_is_told_until_it_does_not() {
        let ((told, does), (beside, looks), (wake, woken)) = (channel(), channel(), channel());
        beside.send(Some("no file".to_string())).unwrap();
        let store = Box::new(Store { told, beside: looks, fails: true });
        let wake = move || {
            let _ = wake.send(());
        };
        let mut writer = MapWriter::start(store, wake).unwrap();
        assert_eq!(writer.trouble(), Some("no file"), "from the start on");
        writer.sign_with(keys(1));
        writer.sign_with(keys(2));
        woken.recv().unwrap();
        assert_eq!(
            (writer.take_done(), writer.take_wants_snapshot(), writer.take_wants_snapshot()),
            (None, true, false)
        );
        assert_eq!(writer.trouble(), None);
        for (trouble, is_ok) in [(Some("no room"), false), (None, true)] {
            writer.rewrite(7, Vec::new());
            woken.recv().unwrap();
            let done = writer.take_done().unwrap();
            assert_eq!((done.number, done.result.is_ok(), writer.trouble()), (7, is_ok, trouble));
        }
        writer.look();
        beside.send(Some("no file".to_string())).unwrap();
        writer.append(8, Vec::new());
        woken.recv().unwrap();
        writer.take_done().unwrap();
        assert_eq!(writer.trouble(), Some("no file"));
        // It is tried again, as often as somebody asks.
        writer.look();
        drop(writer.jobs);
        assert_eq!(does.try_iter().collect::<Vec<_>>(), ["sign", "sign", "rewrite", "rewrite", "append"]);
        assert!(writer.done.try_iter().all(|finished| finished.done.is_none() && finished.trouble_beside.is_none()));
    }
}
