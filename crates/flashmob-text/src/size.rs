//! Sizes: `512`, `4k`, `64KiB`, `10 GiB`, `1.5GB`.

use std::fmt;

use crate::number::scaled;

/// One kibibyte in bytes.
pub const KIB: u64 = 1 << 10;
/// One mebibyte in bytes.
pub const MIB: u64 = 1 << 20;
/// One gibibyte in bytes.
pub const GIB: u64 = 1 << 30;

/// Why a text is not a size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SizeError {
    /// No digits, or something that is neither a digit nor a known unit.
    Malformed(String),
    /// The value does not fit 63 bits.
    TooLarge(String),
}

impl fmt::Display for SizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SizeError::Malformed(text) => {
                write!(f, "'{text}' is not a size; write a number and a unit, such as 512, 64KiB, 10GiB or 1.5TB")
            }
            SizeError::TooLarge(text) => write!(f, "'{text}' is too large: a size is less than 8 EiB"),
        }
    }
}

impl std::error::Error for SizeError {}

/// Parses `512`, `4k`, `64KiB`, `10 GiB`, `1.5GB` into bytes.
///
/// Powers of two for `K`, `M`, `G`, `T`, `P`, `E` and `KiB`...`EiB` (as fio and qemu do), powers of ten for
/// `kB`, `KB`, `MB`, `GB`, `TB`, `PB`, `EB` (as the IEC writes them). A fraction is allowed and rounded down.
///
/// # Errors
/// No number with a known unit, or more than 63 bits.
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
        "p" | "pib" => GIB << 20,
        "e" | "eib" => GIB << 30,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        "pb" => 1_000_000_000_000_000,
        "eb" => 1_000_000_000_000_000_000,
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

/// Bytes as people read them: `512 B`, `64 KiB`, `1.5 GiB`, `9.31 GiB`. A width pads to the right of the text, `{:>9}` to its left.
#[derive(Clone, Copy, Debug)]
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = scaled(self.0 as f64, 1024.0, &[" B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB"]);
        f.pad(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
            ("7EiB", 7 << 60),
            ("2PB", 2_000_000_000_000_000),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for text in ["", "GiB", "ten", "1.2.3", "-1", "4 kilobytes", "1e9", "."] {
            assert!(matches!(parse_size(text), Err(SizeError::Malformed(_))), "{text}");
        }
        for text in ["9223372036854775808", "99999999TiB", "8EiB"] {
            assert!(matches!(parse_size(text), Err(SizeError::TooLarge(_))), "{text}");
        }
        assert_eq!(parse_size("9223372036854775807"), Ok(i64::MAX as u64));
    }

    #[test]
    fn sizes_are_shown_with_a_unit() {
        assert_eq!(Bytes(512).to_string(), "512 B");
        assert_eq!(Bytes(64 * KIB).to_string(), "64 KiB");
        assert_eq!(Bytes(GIB + GIB / 2).to_string(), "1.5 GiB");
        assert_eq!(
            [0, 1023, 10_000_000_000, u64::MAX].map(|n| Bytes(n).to_string()),
            ["0 B", "1023 B", "9.31 GiB", "16 EiB"]
        );
        assert_eq!(Bytes(GIB - 1).to_string(), "1 GiB", "it does not round to 1024 of a smaller unit");
        assert_eq!(format!("[{:>8}]", Bytes(512)), "[   512 B]");
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back_within_three_digits(n in 0..=i64::MAX as u64 / 2) {
            prop_assert!(parse_size(&Bytes(n).to_string()).unwrap().abs_diff(n) as f64 <= n as f64 * 0.005);
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[0-9._]{0,22} ?[a-zA-Z]{0,3}") {
            match parse_size(&text) {
                Ok(bytes) => prop_assert_eq!(parse_size(&bytes.to_string()), Ok(bytes)),
                Err(error) => prop_assert!(error.to_string().contains(&text)),
            }
        }
    }
}
