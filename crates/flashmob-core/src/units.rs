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
