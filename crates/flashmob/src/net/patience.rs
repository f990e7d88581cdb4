//! Looking once more before sleeping: who is woken on another processor waits for it to wake up first.

use std::io;
use std::time::{Duration, Instant};

use mio::{Events, Poll};

/// The shortest time that is spent on looking; below it is none.
const WINDOW_MIN: Duration = Duration::from_micros(10);

/// How long a loop looks for events before it sleeps, learnt from how soon they came.
///
/// A loop that answers a client which sends the next request at once would sleep for less time than falling asleep and
/// waking up takes. It looks for the next event instead, and lets every other process that could run do so in between.
/// When events come later than the longest time that it may look, it stops looking: an idle loop costs nothing, and
/// neither does one with a request now and then.
#[derive(Debug)]
pub struct Patience {
    window: Duration,
    longest: Duration,
}

impl Patience {
    /// Looks for at most `longest` before it sleeps; zero: never.
    #[must_use]
    pub fn new(longest: Duration) -> Patience {
        Patience { window: Duration::ZERO, longest }
    }

    /// Waits for events like [`Poll::poll`].
    pub fn poll(&mut self, poll: &mut Poll, events: &mut Events, timeout: Option<Duration>) -> io::Result<()> {
        if self.longest.is_zero() || timeout.is_some_and(|t| t <= self.longest) {
            return poll.poll(events, timeout);
        }
        let started = Instant::now();
        while started.elapsed() < self.window {
            poll.poll(events, Some(Duration::ZERO))?;
            if !events.is_empty() {
                return Ok(());
            }
            std::thread::yield_now();
        }
        let result = poll.poll(events, timeout.map(|t| t.saturating_sub(self.window)));
        self.learn(started.elapsed());
        result
    }

    /// Takes in how long it took until something came.
    fn learn(&mut self, waited: Duration) {
        if waited <= self.longest {
            self.window = (self.window * 2).clamp(WINDOW_MIN, self.longest);
        } else {
            self.window /= 2;
            if self.window < WINDOW_MIN {
                self.window = Duration::ZERO;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_looks_longer_when_events_come_soon_and_stops_when_they_do_not() {
        let mut patience = Patience::new(Duration::from_micros(100));
        assert_eq!(patience.window, Duration::ZERO, "no looking before anything is known");
        for expected in [10, 20, 40, 80, 100, 100] {
            patience.learn(Duration::from_micros(100));
            assert_eq!(patience.window, Duration::from_micros(expected));
        }
        for expected in [50, 25, 12, 0, 0] {
            patience.learn(Duration::from_micros(101));
            assert_eq!(patience.window.as_micros(), expected);
        }
    }

    #[test]
    fn it_sleeps_for_the_timeout_and_no_longer() {
        let mut poll = Poll::new().expect("a poll");
        let mut events = Events::with_capacity(4);
        let mut patience = Patience::new(Duration::from_micros(200));
        for timeout_us in [0, 200, 201, 5_000] {
            patience.window = patience.longest;
            let (timeout, started) = (Duration::from_micros(timeout_us), Instant::now());
            patience.poll(&mut poll, &mut events, Some(timeout)).expect("polled");
            assert!(started.elapsed() >= timeout && events.is_empty(), "{timeout_us} us");
        }
    }
}
