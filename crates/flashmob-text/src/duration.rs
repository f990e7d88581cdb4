//! Durations: `500ms`, `3s`, `3`, `1.5m`, `1h30m`.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

/// Units, each with its names and its nanoseconds, the largest first. `m` is a minute, as fio has it.
const UNITS: [(&[&str], u64); 7] = [
    (&["d"], 86_400_000_000_000),
    (&["h"], 3_600_000_000_000),
    (&["m", "min"], 60_000_000_000),
    (&["s", "sec"], 1_000_000_000),
    (&["ms", "msec"], 1_000_000),
    (&["us", "usec", "µs"], 1_000),
    (&["ns"], 1),
];
/// The longest that is read.
const NANOS_MAX: u128 = u64::MAX as u128 * 1_000_000;

/// Why a text is not a duration, or not one that is allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DurationError {
    /// It is not a number with a unit, several of them, or a bare number: the text, and what is wrong with it.
    Malformed(String, &'static str),
    /// More than `u64::MAX` milliseconds: the text.
    TooLong(String),
    /// Outside the limits: the text, the shortest and the longest duration.
    OutOfRange(String, Duration, Duration),
}

impl fmt::Display for DurationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const EXAMPLES: &str = "write a number and a unit, such as 500ms, 3s, 1.5m or 2h; a bare number means seconds";
        match self {
            DurationError::Malformed(text, problem) => write!(f, "'{text}' is not a time: {problem}; {EXAMPLES}"),
            DurationError::TooLong(text) => write!(f, "'{text}' is longer than any time; {EXAMPLES}"),
            DurationError::OutOfRange(text, least, most) if least.as_nanos() <= 1 => {
                write!(
                    f,
                    "'{text}' is out of range: give more than 0 and at most {}, such as 500ms or 3s",
                    exact_duration(*most)
                )
            }
            DurationError::OutOfRange(text, least, most) => {
                write!(f, "'{text}' is out of range: give {} to {}", exact_duration(*least), exact_duration(*most))
            }
        }
    }
}

impl std::error::Error for DurationError {}

/// Reads `500ms`, `3s`, `1.5m`, `2h`, `250us`, `1h30m`, and `3` as seconds.
///
/// Units: `ns`, `us` (`usec`, `µs`), `ms` (`msec`), `s` (`sec`), `m` (`min`), `h`, `d`. Fractions have a point and are rounded down to a whole
/// nanosecond. Several parts follow each other from the largest unit to the smallest.
///
/// # Errors
/// Empty, negative, no number (`inf` and `NaN` are none), an unknown unit, or more than `u64::MAX` milliseconds.
pub fn parse_duration(text: &str) -> Result<Duration, DurationError> {
    let malformed = |problem| DurationError::Malformed(text.to_string(), problem);
    let too_long = || DurationError::TooLong(text.to_string());
    let mut rest = text.trim();
    match rest.chars().next() {
        None => return Err(malformed("it is empty")),
        Some('-') => return Err(malformed("it is negative")),
        Some(_) => {}
    }
    let (mut nanos, mut units_left) = (0u128, UNITS.as_slice());
    while !rest.is_empty() {
        let (digits, after) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len()));
        let after = after.trim_start();
        let (unit, after) = after.split_at(after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len()));
        let unit = unit.trim_end();
        let one = if unit.is_empty() && units_left.len() == UNITS.len() {
            1_000_000_000
        } else {
            if digits.is_empty() {
                return Err(malformed("it does not begin with a number"));
            }
            let known = |units: &[(&[&str], u64)]| units.iter().position(|(names, _)| names.contains(&unit));
            let at = known(units_left).ok_or_else(|| {
                malformed(match known(&UNITS) {
                    Some(_) => "units go from the largest to the smallest",
                    None if unit.is_empty() => "the last number has no unit",
                    None => "the unit is none of ns, us, ms, s, m, h and d",
                })
            })?;
            let one = units_left[at].1;
            units_left = &units_left[at + 1..];
            one
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') || fraction.len() > 18 {
            return Err(malformed("that is no number"));
        }
        // Digits only: what cannot be read is too large.
        let read = |digits: &str| if digits.is_empty() { Ok(0) } else { digits.parse::<u64>().map_err(|_| too_long()) };
        nanos += u128::from(read(whole)?) * u128::from(one);
        nanos += u128::from(read(fraction)?) * u128::from(one) / 10u128.pow(fraction.len() as u32);
        rest = after;
    }
    if nanos > NANOS_MAX {
        return Err(too_long());
    }
    let seconds = u64::try_from(nanos / 1_000_000_000).map_err(|_| too_long())?;
    Ok(Duration::new(seconds, (nanos % 1_000_000_000) as u32))
}

/// Reads a duration within limits. A lower limit of 1 ns means: above 0.
///
/// # Errors
/// As [`parse_duration`], and outside the limits.
pub fn parse_duration_in(text: &str, limits: &RangeInclusive<Duration>) -> Result<Duration, DurationError> {
    let duration = parse_duration(text)?;
    if limits.contains(&duration) {
        return Ok(duration);
    }
    Err(DurationError::OutOfRange(text.to_string(), *limits.start(), *limits.end()))
}

/// A duration as [`parse_duration`] reads it again, exactly: a whole number of the largest unit up to an hour that divides it.
#[must_use]
pub fn exact_duration(duration: Duration) -> String {
    let nanos = duration.as_nanos();
    if nanos == 0 {
        return "0ms".to_string();
    }
    let fits = UNITS[1..].iter().find(|(_, one)| nanos.is_multiple_of(u128::from(*one)));
    fits.map_or_else(String::new, |(names, one)| format!("{}{}", nanos / u128::from(*one), names[0]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn durations_are_read_as_people_write_them() {
        for (text, ns) in [
            ("500ms", 500_000_000),
            ("3s", 3_000_000_000),
            ("3", 3_000_000_000),
            ("0.5", 500_000_000),
            (".5s", 500_000_000),
            ("1.5m", 90_000_000_000),
            ("2h", 7_200_000_000_000),
            ("1d", 86_400_000_000_000),
            ("250us", 250_000),
            ("250 µs", 250_000),
            ("7ns", 7),
            ("1h30m", 5_400_000_000_000),
            ("1m 30s 5ms", 90_005_000_000),
            (" 7 s ", 7_000_000_000),
            ("5min", 300_000_000_000),
            ("0", 0),
            ("0.0000000009", 0),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_nanos(ns)), "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_is_refused_by_name_and_with_an_example() {
        for (text, problem) in [
            ("", "empty"),
            ("  ", "empty"),
            ("-1", "negative"),
            ("-1s", "negative"),
            ("+1s", "does not begin with a number"),
            ("s", "does not begin with a number"),
            ("NaN", "does not begin with a number"),
            ("inf", "does not begin with a number"),
            ("١s", "does not begin with a number"),
            ("10 S", "the unit is none of"),
            ("10 seconds", "the unit is none of"),
            ("1e3", "the unit is none of"),
            ("1,5s", "the unit is none of"),
            ("30m1h", "from the largest to the smallest"),
            ("1s1s", "from the largest to the smallest"),
            ("1h30", "the last number has no unit"),
            ("1.2.3s", "no number"),
            (".", "no number"),
            (".s", "no number"),
        ] {
            let message = parse_duration(text).unwrap_err().to_string();
            assert!(message.contains(&format!("'{text}'")) && message.contains(problem), "{text}: {message}");
            assert!(message.contains("500ms") && message.contains("a bare number means seconds"), "{message}");
        }
    }

    #[test]
    fn the_longest_duration() {
        assert_eq!(parse_duration("18446744073709551615ms"), Ok(Duration::from_millis(u64::MAX)));
        for text in [
            "18446744073709551615001us",
            "18446744073709551616ms",
            "18446744073709551615s",
            "99999999999999999999999999999d",
        ] {
            assert!(matches!(parse_duration(text), Err(DurationError::TooLong(_))), "{text}");
        }
    }

    #[test]
    fn limits_are_part_of_the_range() {
        let limits = Duration::from_millis(100)..=Duration::from_secs(60);
        for (text, is_in) in [("99999us", false), ("100ms", true), ("60", true), ("1m", true), ("60.001s", false)] {
            assert_eq!(parse_duration_in(text, &limits).is_ok(), is_in, "{text}");
        }
        let message = |text, limits| parse_duration_in(text, &limits).unwrap_err().to_string();
        assert_eq!(message("2m", limits), "'2m' is out of range: give 100ms to 1m");
        let above_zero = Duration::from_nanos(1)..=Duration::from_secs(86_400);
        assert_eq!(
            message("0", above_zero),
            "'0' is out of range: give more than 0 and at most 24h, such as 500ms or 3s"
        );
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back_exactly(ns: u64, zeros in 0u32..12) {
            let duration = Duration::from_nanos(ns / 10u64.pow(zeros) * 10u64.pow(zeros));
            prop_assert_eq!(parse_duration(&exact_duration(duration)), Ok(duration));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[0-9.]{0,22}[a-zµ -]{0,3}[0-9.]{0,3}[a-z]{0,2}") {
            match parse_duration(&text) {
                Ok(duration) => prop_assert_eq!(parse_duration(&format!(" {text} ")), Ok(duration)),
                Err(error) => prop_assert!(error.to_string().contains(&text)),
            }
        }
    }
}
