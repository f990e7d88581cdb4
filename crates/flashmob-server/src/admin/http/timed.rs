//! The processor's time that a task takes.

use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::keys::thread_time;

/// How much of a processor's time a task has taken.
#[derive(Debug, Clone, Default)]
pub(super) struct Took(Arc<AtomicU64>);

impl Took {
    pub fn get(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

/// A task that measures itself, and the time that it takes, also if it is not run to its end. Time in which it waits does not count.
pub(super) fn timed<F: Future>(task: F) -> (impl Future<Output = F::Output>, Took) {
    let took = Took::default();
    let (count, mut task) = (took.clone(), Box::pin(task));
    let timed = poll_fn(move |context| {
        let before = thread_time();
        let polled = task.as_mut().poll(context);
        let nanos = thread_time().saturating_sub(before).as_nanos();
        count.0.fetch_add(u64::try_from(nanos).unwrap_or(u64::MAX), Ordering::Relaxed);
        polled
    });
    (timed, took)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_counts_and_waiting_does_not() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let (idle, idles) = timed(async { tokio::time::sleep(Duration::from_millis(200)).await });
        let (busy, works) = timed(async {
            let begun = thread_time();
            while thread_time() - begun < Duration::from_millis(20) {}
            tokio::task::yield_now().await;
            let begun = thread_time();
            while thread_time() - begun < Duration::from_millis(20) {}
        });
        runtime.block_on(idle);
        runtime.block_on(busy);
        assert!(works.get() >= Duration::from_millis(40), "{:?}", works.get());
        assert!(idles.get() < Duration::from_millis(200), "{:?}", idles.get());
    }
}
