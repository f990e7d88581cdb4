//! The clock of a process: nanoseconds since it started.

use std::time::{Duration, Instant};

use flashmob_core::units::Time;

/// Number of readings of the start; the narrowest counts.
const START_TRIES: usize = 5;

/// Converts the monotonic clock to the [`Time`] of the state machines.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    start: Instant,
    /// CLOCK_MONOTONIC at the start, in nanoseconds.
    start_monotonic_ns: u64,
}

impl Clock {
    /// Starts at zero now.
    #[must_use]
    pub fn start() -> Clock {
        // Both are the same clock, but an `Instant` does not reveal its value. An interruption between the two readings makes
        // the result inaccurate, and so does a first call, whose code is loaded or translated only then.
        let mut best: Option<(u64, Clock)> = None;
        for _ in 0..START_TRIES {
            let before_ns = monotonic_ns();
            let start = Instant::now();
            let after_ns = monotonic_ns();
            let width_ns = after_ns.saturating_sub(before_ns);
            if best.is_none_or(|(narrowest_ns, _)| width_ns < narrowest_ns) {
                best = Some((width_ns, Clock { start, start_monotonic_ns: before_ns.midpoint(after_ns) }));
            }
        }
        best.map_or_else(|| Clock { start: Instant::now(), start_monotonic_ns: monotonic_ns() }, |(_, clock)| clock)
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

    /// CLOCK_MONOTONIC, which all processes of a device share, at the start, in nanoseconds. Accurate to a few hundred.
    #[must_use]
    pub fn start_monotonic_ns(&self) -> u64 {
        self.start_monotonic_ns
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

/// CLOCK_MONOTONIC now, in nanoseconds.
#[must_use]
pub fn monotonic_ns() -> u64 {
    nanos(rustix::time::ClockId::Monotonic)
}

fn nanos(clock: rustix::time::ClockId) -> u64 {
    let now = rustix::time::clock_gettime(clock);
    let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
    seconds.saturating_mul(1_000_000_000).saturating_add(u64::try_from(now.tv_nsec).unwrap_or_default())
}

/// CLOCK_BOOTTIME now, in nanoseconds: it goes on while the machine sleeps.
#[must_use]
pub fn boottime_ns() -> u64 {
    nanos(rustix::time::ClockId::Boottime)
}
