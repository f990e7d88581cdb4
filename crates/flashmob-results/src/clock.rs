//! The start time of a measurement, by a clock that may not be set.
//!
//! A device without a battery for its clock starts in 1970 until the network sets the time. Durations never come from this clock,
//! so figures are valid; but the date of a result, and the order of results in time, may be wrong.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::warning::{Code, Warning};

/// 2026-01-01: this program is younger.
pub const EARLIEST_UNIX_S: u64 = 1_767_225_600;
/// 2100-01-01: a clock that shows a later time had an empty battery.
pub const LATEST_UNIX_S: u64 = 4_102_444_800;

/// Whether a clock with this time can be right.
#[must_use]
pub fn is_set(unix_s: u64) -> bool {
    (EARLIEST_UNIX_S..LATEST_UNIX_S).contains(&unix_s)
}

/// Seconds since 1970; 0 before.
#[must_use]
pub fn unix_s(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// `warnings`, with one more if the clock was not set.
#[must_use]
pub fn with_doubt(started_unix_s: u64, mut warnings: Vec<Warning>) -> Vec<Warning> {
    if !is_set(started_unix_s) {
        let year = 1970 + started_unix_s / 31_556_952;
        warnings.push(Warning::new(
            Code::ClockNotSet,
            format!("the clock is not set: it showed the year {year}; the figures are right, the date is not. Set it, or wait for the network's time"),
        ));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_clock_is_set_between_the_programs_birth_and_the_next_century() {
        for (unix_s, expected) in [
            (0, false),
            (EARLIEST_UNIX_S - 1, false),
            (EARLIEST_UNIX_S, true),
            (LATEST_UNIX_S - 1, true),
            (LATEST_UNIX_S, false),
            (u64::MAX, false),
        ] {
            assert_eq!(is_set(unix_s), expected, "{unix_s}");
            let codes: Vec<Code> = with_doubt(unix_s, Vec::new()).iter().map(|warning| warning.code).collect();
            assert_eq!(codes == [Code::ClockNotSet], !expected, "{unix_s}: {codes:?}");
        }
        assert_eq!(unix_s(UNIX_EPOCH - Duration::from_secs(1)), 0);
        assert_eq!(unix_s(UNIX_EPOCH + Duration::from_secs(7)), 7);
    }
}
