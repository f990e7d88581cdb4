//! Busy polling before sleep: a sleeping thread on another processor takes time to wake up.

use std::io;
use std::time::{Duration, Instant};

use mio::{Events, Poll};

/// The shortest polling window; below it the loop does not poll.
const WINDOW_MIN: Duration = Duration::from_micros(10);
/// How long polling stays off after another process kept the processor.
const REST: Duration = Duration::from_secs(1);

/// How long a loop polls for events before it sleeps, adapted to how soon they came.
///
/// With a client that sends its next request at once, sleeping and waking up take longer than the wait. The loop polls
/// instead, and yields to other processes in between. When events come later than the longest window, it stops polling, so
/// an idle loop costs nothing. It also stops when another process kept the processor for longer than that: on a busy
/// machine sleeping is better, because a thread that is woken is scheduled first.
#[derive(Debug)]
pub struct Patience {
    window: Duration,
    longest: Duration,
    /// No polling before that.
    rest_until: Option<Instant>,
}

impl Patience {
    /// Polls for at most `longest` before it sleeps; zero: never.
    #[must_use]
    pub fn new(longest: Duration) -> Patience {
        Patience { window: Duration::ZERO, longest, rest_until: None }
    }

    /// Waits for events like [`Poll::poll`].
    pub fn poll(&mut self, poll: &mut Poll, events: &mut Events, timeout: Option<Duration>) -> io::Result<()> {
        if self.longest.is_zero() || timeout.is_some_and(|t| t <= self.longest) {
            return poll.poll(events, timeout);
        }
        let started = Instant::now();
        if self.rest_until.is_some_and(|until| started < until) {
            return poll.poll(events, timeout);
        }
        let mut looked = started;
        while looked - started < self.window {
            poll.poll(events, Some(Duration::ZERO))?;
            if !events.is_empty() {
                return Ok(());
            }
            std::thread::yield_now();
            let now = Instant::now();
            self.note_absence(now, now - looked);
            looked = now;
        }
        let result = poll.poll(events, timeout.map(|t| t.saturating_sub(looked - started)));
        self.learn(started.elapsed());
        result
    }

    /// Notes for how long other processes had the processor.
    fn note_absence(&mut self, now: Instant, absent: Duration) {
        if absent > 2 * self.longest {
            self.window = Duration::ZERO;
            self.rest_until = Some(now + REST);
        }
    }

    /// Notes how long it took until an event came.
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
    fn it_rests_when_others_keep_the_processor() {
        let mut patience = Patience::new(Duration::from_micros(100));
        patience.window = patience.longest;
        let now = Instant::now();
        patience.note_absence(now, Duration::from_micros(200));
        assert_eq!((patience.window, patience.rest_until), (patience.longest, None));
        patience.note_absence(now, Duration::from_micros(201));
        assert_eq!((patience.window, patience.rest_until), (Duration::ZERO, Some(now + REST)));
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
