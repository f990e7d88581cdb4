//! Progress of all runs, on a terminal.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use flashmob_bench::progress::{self, ProgressLine, Unit};

use super::worker::Shared;

/// Frequent enough to look smooth, and rare enough not to disturb the measurement.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Progress of all runs.
pub struct Progress {
    inserts_all: u64,
    inserts_each: u64,
    /// INSERTs of completed runs.
    over: AtomicU64,
}

impl Progress {
    /// For this many runs with this many INSERTs each.
    #[must_use]
    pub fn new(runs: u64, inserts_each: u64) -> Progress {
        Progress { inserts_all: runs.saturating_mul(inserts_each), inserts_each, over: AtomicU64::new(0) }
    }

    /// A run is complete.
    pub fn ran(&self, shared: &Shared) {
        shared.done.store(0, Ordering::Relaxed);
        self.over.fetch_add(self.inserts_each, Ordering::Relaxed);
    }

    /// Does the work; a terminal shows the progress.
    pub fn shown_while<T>(&self, shared: &Shared, work: impl FnOnce() -> T) -> T {
        if !std::io::stderr().is_terminal() {
            return work();
        }
        thread::scope(|scope| {
            let (over, is_over) = sync_channel::<()>(0);
            scope.spawn(move || {
                let mut line = ProgressLine::new("tracing");
                while is_over.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
                    let done = self.over.load(Ordering::Relaxed) + shared.done.load(Ordering::Relaxed);
                    line.show(&progress::Progress { done, total: self.inserts_all, unit: Unit::Requests });
                }
            });
            let outcome = work();
            // The line is removed before other output.
            drop(over);
            outcome
        })
    }
}
