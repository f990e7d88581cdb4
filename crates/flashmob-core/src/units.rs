//! Time and sizes, each with its unit in the type or in the name.

use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;

/// One kibibyte in bytes.
pub const KIB: u64 = 1 << 10;
/// One mebibyte in bytes.
pub const MIB: u64 = 1 << 20;
/// One gibibyte in bytes.
pub const GIB: u64 = 1 << 30;

/// A point in time: nanoseconds since a start that the caller chose.
///
/// The shell counts from a monotonic clock, the simulator from zero. Only differences mean anything.
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

/// Why a text is not a size.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SizeError {
    /// No digits, or something that is neither a digit nor a known unit.
    #[error("'{0}' is not a size; write a number and a unit, such as 512, 64KiB, 10GiB or 1.5TB")]
    Malformed(String),
    /// The value does not fit 63 bits.
    #[error("'{0}' is larger than 8 EiB")]
    TooLarge(String),
}

/// Parses `512`, `4k`, `64KiB`, `10 GiB`, `1.5GB` into bytes.
///
/// Powers of two for `K`, `M`, `G`, `T` and `KiB`...`TiB` (as fio and qemu do), powers of ten for
/// `kB`, `KB`, `MB`, `GB`, `TB` (as the IEC writes them). A fraction is allowed and rounded down.
pub fn parse_size(text: &str) -> Result<u64, SizeError> {
    let malformed = || SizeError::Malformed(text.to_string());
    let trimmed = text.trim();
    let split = trimmed.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_')).unwrap_or(trimmed.len());
    let (digits, unit) = trimmed.split_at(split);
    let digits: String = digits.chars().filter(|&c| c != '_').collect();
    let factor: u64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => KIB,
        "m" | "mib" => MIB,
        "g" | "gib" => GIB,
        "t" | "tib" => GIB << 10,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => return Err(malformed()),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((&digits, ""));
    if whole.is_empty() || fraction.contains('.') || fraction.len() > 9 {
        return Err(malformed());
    }
    let whole: u128 = whole.parse().map_err(|_| malformed())?;
    let mut bytes = whole.checked_mul(u128::from(factor)).ok_or_else(|| SizeError::TooLarge(text.to_string()))?;
    if !fraction.is_empty() {
        let scale = 10u128.pow(fraction.len() as u32);
        let parts: u128 = fraction.parse().map_err(|_| malformed())?;
        bytes += parts * u128::from(factor) / scale;
    }
    match u64::try_from(bytes) {
        Ok(n) if n <= i64::MAX as u64 => Ok(n),
        _ => Err(SizeError::TooLarge(text.to_string())),
    }
}

/// Bytes as people read them: `512 B`, `64 KiB`, `1.5 GiB`.
#[derive(Clone, Copy, Debug)]
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
        let mut value = self.0 as f64;
        let mut unit = 0;
        while value >= 1024.0 && unit < units.len() - 1 {
            value /= 1024.0;
            unit += 1;
        }
        let text = if value.fract() == 0.0 {
            format!("{value:.0} {}", units[unit])
        } else {
            format!("{value:.1} {}", units[unit])
        };
        f.pad(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        for (text, bytes) in [
            ("0", 0),
            ("512", 512),
            ("4k", 4096),
            ("64KiB", 65536),
            (" 10 GiB ", 10 * GIB),
            ("1.5GB", 1_500_000_000),
            ("1_000", 1000),
            ("0.5MiB", MIB / 2),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for text in ["", "GiB", "ten", "1.2.3", "-1", "4 kilobytes", "1e9", "."] {
            assert!(matches!(parse_size(text), Err(SizeError::Malformed(_))), "{text}");
        }
        for text in ["9223372036854775808", "99999999TiB"] {
            assert!(matches!(parse_size(text), Err(SizeError::TooLarge(_))), "{text}");
        }
        assert_eq!(parse_size("9223372036854775807"), Ok(i64::MAX as u64));
    }

    #[test]
    fn sizes_are_shown_with_a_unit() {
        assert_eq!(Bytes(512).to_string(), "512 B");
        assert_eq!(Bytes(64 * KIB).to_string(), "64 KiB");
        assert_eq!(Bytes(GIB + GIB / 2).to_string(), "1.5 GiB");
    }
}
