//! Time and sizes.

use std::ops::{Add, Sub};
use std::time::Duration;

pub use flashmob_text::{Bytes, GIB, KIB, MIB, SizeError, parse_size};

/// A point in time: nanoseconds since a start that the caller chose. Only differences have a meaning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

impl Time {
    /// Nanoseconds since the start.
    #[must_use]
    pub fn as_nanos(self) -> u64 {
        self.0
    }

    /// How long ago `earlier` was; zero if it lies ahead.
    #[must_use]
    pub fn since(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// Nanoseconds since `earlier`; zero if it lies ahead.
    #[must_use]
    pub fn nanos_since(self, earlier: Time) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// Sets a deadline that is not there yet, or is later, to `at`.
#[inline]
pub fn bring_forward(due: &mut Option<Time>, at: Time) {
    *due = Some(due.map_or(at, |due| due.min(at)));
}

impl Add<Duration> for Time {
    type Output = Time;
    fn add(self, d: Duration) -> Time {
        Time(self.0.saturating_add(u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl Sub<Time> for Time {
    type Output = Duration;
    fn sub(self, earlier: Time) -> Duration {
        self.since(earlier)
    }
}
/// Times of tests.
#[cfg(test)]
pub mod testing {
    use super::{Duration, Time};

    /// So many milliseconds.
    pub fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// So many milliseconds after the first moment of a test, which is not the start of all time.
    pub fn at(ms: u64) -> Time {
        Time(1) + Duration::from_millis(ms)
    }
}
