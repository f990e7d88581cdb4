//! The end of a repetition.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::worker::now_ns;
pub use crate::load::Stop;

/// Requests between progress reports of a thread that has its own part.
const COUNTED_BY: u64 = 64;

/// The end of one repetition, shared by its threads.
#[derive(Debug)]
pub(super) struct Limit<'a> {
    stop: Stop,
    taken: AtomicU64,
    /// Requests that a thread takes at once, to avoid contention for the counter. 0 if each thread has its own part.
    portion: u64,
    threads: u32,
    cancel: &'a AtomicBool,
}

/// A thread's view of the limit.
#[derive(Debug)]
pub(super) struct Turnstile<'a> {
    limit: &'a Limit<'a>,
    left: u64,
    /// `u64::MAX` without a deadline.
    deadline_ns: u64,
}

impl<'a> Limit<'a> {
    /// For `threads` threads. If each has its own part of the file, each also has an equal share of the requests: otherwise the fastest
    /// would start its part again before the others have finished theirs.
    pub fn new(stop: Stop, threads: u32, own_parts: bool, cancel: &'a AtomicBool) -> Limit<'a> {
        let portion = match stop {
            // Threads finish within a portion of each other.
            Stop::Requests(count) if !own_parts => (count / (u64::from(threads) * 256)).clamp(1, 64),
            Stop::Requests(_) | Stop::After(_) => 0,
        };
        Limit { stop, taken: AtomicU64::new(0), portion, threads, cancel }
    }

    /// Requests begun; 0 if time is the limit.
    pub fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// For one thread; its time begins now.
    pub fn turnstile(&'a self, thread: u32) -> Turnstile<'a> {
        let deadline_ns = match self.stop {
            Stop::After(time) => now_ns().saturating_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)),
            Stop::Requests(_) => u64::MAX,
        };
        let left = match self.stop {
            Stop::Requests(count) if self.portion == 0 => {
                let bound = |thread: u32| u128::from(count) * u128::from(thread) / u128::from(self.threads);
                (bound(thread + 1) - bound(thread)) as u64
            }
            Stop::Requests(_) | Stop::After(_) => 0,
        };
        Turnstile { limit: self, left, deadline_ns }
    }
}

impl Turnstile<'_> {
    /// True if one more request may begin, at `now_ns`.
    #[inline]
    pub fn lets_through(&mut self, now_ns: u64) -> bool {
        if self.limit.cancel.load(Ordering::Relaxed) {
            return false;
        }
        match self.limit.stop {
            Stop::After(_) => now_ns < self.deadline_ns,
            Stop::Requests(count) => {
                if self.left == 0 && self.limit.portion > 0 {
                    let from = self.limit.taken.fetch_add(self.limit.portion, Ordering::Relaxed);
                    self.left = count.saturating_sub(from).min(self.limit.portion);
                }
                let through = self.left > 0;
                if self.limit.portion == 0 && self.left % COUNTED_BY == 1 {
                    self.limit.taken.fetch_add(COUNTED_BY, Ordering::Relaxed);
                }
                self.left = self.left.saturating_sub(1);
                through
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn all_threads_together_get_as_many_as_asked_for() {
        for (count, threads) in [(0, 1), (1, 1), (1, 8), (1000, 3), (100_000, 7)] {
            let cancel = AtomicBool::new(false);
            for own_parts in [false, true] {
                let limit = Limit::new(Stop::Requests(count), threads, own_parts, &cancel);
                let through: Vec<u64> = std::thread::scope(|scope| {
                    let limit = &limit;
                    let run = move |thread| {
                        let mut turnstile = limit.turnstile(thread);
                        (0..).take_while(|_: &u64| turnstile.lets_through(0)).count() as u64
                    };
                    let threads: Vec<_> = (0..threads).map(|thread| scope.spawn(move || run(thread))).collect();
                    threads.into_iter().map(|t| t.join().unwrap()).collect()
                });
                assert_eq!(through.iter().sum::<u64>(), count, "{threads} threads");
                let (least, most) = (through.iter().min().unwrap(), through.iter().max().unwrap());
                assert!(!own_parts || most - least <= 1, "{through:?}");
            }
        }
    }

    #[test]
    fn time_and_cancelling_end_it() {
        let cancel = AtomicBool::new(false);
        let limit = Limit::new(Stop::After(Duration::from_secs(60)), 1, false, &cancel);
        let mut turnstile = limit.turnstile(0);
        let begun = now_ns();
        assert!(turnstile.lets_through(begun) && turnstile.lets_through(begun + 59_000_000_000));
        assert!(!turnstile.lets_through(begun + 61_000_000_000));
        cancel.store(true, Ordering::Relaxed);
        assert!(!turnstile.lets_through(begun));
        cancel.store(false, Ordering::Relaxed);
        let endless = Limit::new(Stop::After(Duration::MAX), 1, false, &cancel);
        assert!(endless.turnstile(0).lets_through(begun));
    }
}
