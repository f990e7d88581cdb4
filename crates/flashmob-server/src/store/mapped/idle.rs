//! Returns the page tables of a mapping when it has not been read for a while.
//!
//! Mapped pages count as memory of this process, although they are page cache and can be reclaimed as easily. Returning the
//! tables makes an idle node look as small as it is. That takes milliseconds, so it has a thread of its own, which sleeps
//! while nothing is mapped.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::super::completions::lock;
use super::super::threads::STACK_BYTES;

/// How often it looks whether there were reads.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How many looks without a read make a mapping idle.
const IDLE_LOOKS: u32 = 4;

/// The thread. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Idle {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    /// There may be page tables to give back.
    in_use: AtomicBool,
    ending: Mutex<bool>,
    changed: Condvar,
}

impl Idle {
    /// Starts it. `reads` counts reads so far; `drop_tables` is called, on the thread, when it stood still.
    pub fn start(
        reads: impl Fn() -> u64 + Send + 'static,
        drop_tables: impl Fn() + Send + 'static,
    ) -> io::Result<Idle> {
        let shared = Arc::new(Shared::default());
        let inner = Arc::clone(&shared);
        let builder = std::thread::Builder::new().name("store-idle".to_string()).stack_size(STACK_BYTES);
        let thread = builder.spawn(move || inner.watch(reads, drop_tables, LOOK_EVERY))?;
        Ok(Idle { shared, thread: Some(thread) })
    }

    /// To be called when something is about to be mapped.
    pub fn note_use(&self) {
        if !self.shared.in_use.swap(true, Ordering::AcqRel) {
            // Under the lock, or it could come between the thread's look and its sleep.
            let _ending = lock(&self.shared.ending);
            self.shared.changed.notify_one();
        }
    }
}

impl Shared {
    fn watch(&self, reads: impl Fn() -> u64, drop_tables: impl Fn(), look_every: Duration) {
        let (mut seen, mut quiet) = (reads(), 0);
        let mut ending = lock(&self.ending);
        while !*ending {
            if !self.in_use.load(Ordering::Acquire) {
                ending = self.changed.wait(ending).unwrap_or_else(PoisonError::into_inner);
                quiet = 0;
                continue;
            }
            ending = self.changed.wait_timeout(ending, look_every).unwrap_or_else(PoisonError::into_inner).0;
            let now = reads();
            quiet = if now == seen { quiet + 1 } else { 0 };
            seen = now;
            if quiet >= IDLE_LOOKS && !*ending {
                drop(ending);
                // First the mark: whoever maps anew from here on sets it again.
                self.in_use.store(false, Ordering::Release);
                drop_tables();
                ending = lock(&self.ending);
            }
        }
    }
}

impl Drop for Idle {
    fn drop(&mut self) {
        *lock(&self.shared.ending) = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // If it has panicked it has said so already.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;
    use std::sync::mpsc::channel;

    #[test]
    fn tables_are_dropped_after_a_while_without_reads_and_not_before() {
        let shared = Arc::new(Shared::default());
        let reads = Arc::new(AtomicU64::new(0));
        let (dropped, drops) = channel();
        let (inner, counted) = (Arc::clone(&shared), Arc::clone(&reads));
        let thread = std::thread::spawn(move || {
            let busy_looks = AtomicU64::new(0);
            let count = || {
                // Reads go on for the first 20 looks.
                if busy_looks.fetch_add(1, Ordering::Relaxed) < 20 {
                    counted.fetch_add(1, Ordering::Relaxed);
                }
                counted.load(Ordering::Relaxed)
            };
            inner.watch(count, || dropped.send(busy_looks.load(Ordering::Relaxed)).unwrap(), Duration::from_millis(1));
        });
        assert!(drops.recv_timeout(Duration::from_millis(50)).is_err(), "nothing is mapped yet");
        let idle = Idle { shared, thread: Some(thread) };
        idle.note_use();
        let looks = drops.recv_timeout(Duration::from_secs(20)).expect("dropped");
        assert_eq!(looks, 20 + u64::from(IDLE_LOOKS));
        assert!(drops.recv_timeout(Duration::from_millis(50)).is_err(), "and once only");
        idle.note_use();
        drops.recv_timeout(Duration::from_secs(20)).expect("dropped again after it was used again");
        drop(idle);
    }
}
