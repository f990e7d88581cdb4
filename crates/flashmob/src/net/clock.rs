//! The clock of a process: nanoseconds since it started.

use std::time::{Duration, Instant};

use flashmob_core::units::Time;

/// Turns the monotonic clock into the [`Time`] that state machines are given.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    start: Instant,
}

impl Clock {
    /// Starts at zero now.
    #[must_use]
    pub fn start() -> Clock {
        Clock { start: Instant::now() }
    }

    /// The time now.
    #[must_use]
    pub fn now(&self) -> Time {
        self.at(Instant::now())
    }

    /// The time at `instant`; zero if that was before the start.
    #[must_use]
    pub fn at(&self, instant: Instant) -> Time {
        let nanos = instant.saturating_duration_since(self.start).as_nanos();
        Time(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// How long it has run.
    #[must_use]
    pub fn uptime(&self) -> Duration {
        self.start.elapsed()
    }

    /// When it started.
    #[must_use]
    pub fn started(&self) -> Instant {
        self.start
    }

    /// How long from now until `deadline`: zero if it is past.
    #[must_use]
    pub fn until(&self, deadline: Time) -> Duration {
        deadline.since(self.now())
    }
}
