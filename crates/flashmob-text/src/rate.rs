//! Rates and percentages on a command line.

use std::ops::RangeInclusive;

/// Reads bits per second with iperf3's decimal letters: `9600`, `800K`, `50M`, `1.5G`, `50Mbit/s`.
///
/// # Errors
/// No number, an unknown unit, or outside the limits; a message for people.
pub fn parse_bit_rate(text: &str, limits: RangeInclusive<f64>) -> Result<f64, String> {
    let wrong = || format!("'{text}' is not a rate; write bits per second, such as 800K, 50M or 1.5G");
    let bare = text.trim();
    let bare = bare.strip_suffix("/s").unwrap_or(bare);
    let bare = bare.strip_suffix("bit").unwrap_or(bare);
    let (digits, unit) = bare.split_at(bare.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(bare.len()));
    let factor = match unit {
        "" => 1.0,
        "k" | "K" => 1e3,
        "m" | "M" => 1e6,
        "g" | "G" => 1e9,
        _ => return Err(wrong()),
    };
    let rate = digits.parse::<f64>().map_err(|_| wrong())? * factor;
    if limits.contains(&rate) {
        return Ok(rate);
    }
    let [least, most] = [*limits.start(), *limits.end()].map(|bits| crate::short(bits).replace('T', "000G"));
    Err(format!("'{text}' is out of range: give {least} to {most} bits per second, such as 50M"))
}

/// Reads a percentage from 0 to 100, with or without its sign: `5`, `0.1%`.
///
/// # Errors
/// No number, or outside 0 to 100; a message for people.
pub fn parse_percent(text: &str) -> Result<f64, String> {
    let bare = text.trim();
    let number: Option<f64> = bare.strip_suffix('%').unwrap_or(bare).trim_end().parse().ok();
    number
        .filter(|percent| (0.0..=100.0).contains(percent))
        .ok_or_else(|| format!("'{text}' is not a percentage: give a number from 0 to 100, such as 5 or 0.1%"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_as_iperf3_reads_them() {
        let rate = |text| parse_bit_rate(text, 1.0..=1e12);
        for (text, bits) in [
            ("9600", 9600.0),
            ("1.5G", 1.5e9),
            ("800k", 8e5),
            ("50Mbit/s", 5e7),
            ("50Mbit", 5e7),
            ("1000G", 1e12),
            ("1", 1.0),
        ] {
            assert_eq!(rate(text), Ok(bits), "{text}");
        }
        for text in ["", "M", "10X", "-1", "nan", "inf", "1e3", "1.2.3M", "10 M/s/s"] {
            assert!(rate(text).is_err_and(|e| e.contains("such as") && e.contains(text)), "{text}");
        }
        assert_eq!(rate("0.9").unwrap_err(), "'0.9' is out of range: give 1 to 1000G bits per second, such as 50M");
        assert!(rate("1001G").is_err());
    }

    #[test]
    fn percentages_end_at_their_limits() {
        assert_eq!(["0", "0.1%", " 100 % "].map(parse_percent), [Ok(0.0), Ok(0.1), Ok(100.0)]);
        for text in ["", "%", "-0.1", "100.1", "nan", "inf", "x", "5%%"] {
            assert!(parse_percent(text).is_err_and(|e| e.contains("0 to 100") && e.contains(text)), "{text}");
        }
    }
}
