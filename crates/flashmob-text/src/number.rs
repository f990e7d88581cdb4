//! Numbers for people; which form is for what stands at the crate's head.

/// Parts of a column's unit below this are noise: a table has no room for an exponent.
const NOISE: f64 = 0.000_5;
const THOUSANDS: [&str; 7] = ["", "k", "M", "G", "T", "P", "E"];

/// A number in a table: `0.5`, `12.3`, `1235`; `-` if there is none. Below 0.0005 it is `0`.
#[must_use]
pub fn number(value: f64) -> String {
    digits(if value.abs() < NOISE { 0.0 } else { value }).unwrap_or_else(|| "-".to_string())
}

/// A number in a sentence or on a page: `0.5`, `12.3`, `1,235`; `–` if there is none. Below 0.0001 and from 10^15 on it has an exponent.
#[must_use]
pub fn sentence(value: f64) -> String {
    digits(value).map_or_else(|| "–".to_string(), |text| grouped(&text))
}

/// A whole number in a sentence or on a page, with all its digits: `1,234,567`.
#[must_use]
pub fn count(value: u64) -> String {
    grouped(&value.to_string())
}

/// A number where room is fixed, six columns at most from 0.001 on: `800`, `9999`, `12.3k`, `1.5M`; `-` if there is none.
#[must_use]
pub fn short(value: f64) -> String {
    if value.abs() < 9_999.5 || !value.is_finite() { number(value) } else { scaled(value, 1e3, &THOUSANDS) }
}

/// A part of one as `95 %`, with a decimal where that is what matters. It does not break between the two.
#[must_use]
pub fn percent(fraction: f64) -> String {
    format!("{}\u{a0}%", sentence((fraction * 1_000.0).round() / 10.0))
}

/// Bits per second, in decimal units: `800 bit/s`, `10.8 Mbit/s`.
#[must_use]
pub fn bits_per_second(rate: f64) -> String {
    scaled(rate, 1e3, &[" bit/s", " kbit/s", " Mbit/s", " Gbit/s", " Tbit/s"])
}

/// Seconds in the unit that suits them: `999 ns`, `1.2 us`, `2.5 ms`, `3 s`.
#[must_use]
pub fn time(seconds: f64) -> String {
    if seconds == 0.0 || seconds.abs() >= 0.999_5 {
        return format!("{} s", sentence(seconds));
    }
    scaled(seconds * 1e9, 1e3, &[" ns", " us", " ms"])
}

/// `value` in the largest of `units`, each `step` times the one before, that leaves it at 1 or more.
pub(crate) fn scaled(mut value: f64, step: f64, units: &[&str]) -> String {
    let mut unit = 0;
    // Half a unit below the step it would be rounded to a digit more.
    while value.abs() >= step - 0.5 && unit + 1 < units.len() {
        value /= step;
        unit += 1;
    }
    number(value) + units[unit]
}

/// Three significant digits, or all that are whole; none of a value that is not finite.
fn digits(value: f64) -> Option<String> {
    // Nothing is less than nothing: an empty sum is -0.
    let value = value + 0.0;
    let size = value.abs();
    Some(match size {
        _ if !size.is_finite() => return None,
        _ if size >= 1e15 => format!("{value:.2e}"),
        _ if size >= 100.0 || size == 0.0 => format!("{:.0}", value.round()),
        _ if size >= 0.000_1 => {
            // Each zero after the point takes one decimal more.
            let decimals = (2.0 - size.log10().floor()) as usize;
            let text = format!("{value:.decimals$}");
            text.trim_end_matches('0').trim_end_matches('.').to_string()
        }
        _ => format!("{value:.1e}"),
    })
}

/// Commas between thousands; what has a point or an exponent has none.
fn grouped(text: &str) -> String {
    let (sign, digits) = text.strip_prefix('-').map_or(("", text), |digits| ("-", digits));
    if !digits.bytes().all(|b| b.is_ascii_digit()) {
        return text.to_string();
    }
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().filter_map(|group| std::str::from_utf8(group).ok()).collect();
    format!("{sign}{}", groups.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_two_forms_differ_in_commas_alone() {
        for (value, table, page) in [
            (0.0, "0", "0"),
            (-0.0, "0", "0"),
            (0.000_01, "0", "1.0e-5"),
            (0.001_234, "0.00123", "0.00123"),
            (0.049_87, "0.0499", "0.0499"),
            (0.5, "0.5", "0.5"),
            (9.999, "10", "10"),
            (12.34, "12.3", "12.3"),
            (99.96, "100", "100"),
            (999.6, "1000", "1,000"),
            (1_234.5, "1235", "1,235"),
            (-1_234_567.0, "-1234567", "-1,234,567"),
            (1e300, "1.00e300", "1.00e300"),
            (f64::NAN, "-", "–"),
            (f64::INFINITY, "-", "–"),
        ] {
            assert_eq!((number(value).as_str(), sentence(value).as_str()), (table, page));
        }
        assert_eq!([0, 999, 1_000, u64::MAX].map(count), ["0", "999", "1,000", "18,446,744,073,709,551,615"]);
    }

    #[test]
    fn short_numbers_step_at_ten_thousand() {
        for (value, expected) in [
            (800.0, "800"),
            (9_999.0, "9999"),
            (10_000.0, "10k"),
            (12_345.0, "12.3k"),
            (999_499.0, "999k"),
            (999_500.0, "1M"),
            (1.5e6, "1.5M"),
            (u64::MAX as f64, "18.4E"),
            (f64::NAN, "-"),
        ] {
            assert_eq!(short(value), expected);
        }
    }

    #[test]
    fn units_suit_their_numbers() {
        let times = [0.0, 4.2e-7, 1.2e-6, 0.002_5, 0.999_6, 3.0, 1_234.0].map(time);
        assert_eq!(times, ["0 s", "420 ns", "1.2 us", "2.5 ms", "1 s", "3 s", "1,234 s"]);
        let rates = [0.0, 800.0, 999.6, 10.8e6, 2.5e9].map(bits_per_second);
        assert_eq!(rates, ["0 bit/s", "800 bit/s", "1 kbit/s", "10.8 Mbit/s", "2.5 Gbit/s"]);
        assert_eq!([0.95, 0.012_3, 12.34].map(percent), ["95\u{a0}%", "1.2\u{a0}%", "1,234\u{a0}%"]);
    }

    proptest! {
        #[test]
        fn numbers_read_back_within_half_of_their_last_digit(value in -1e14f64..1e14) {
            let read: f64 = sentence(value).replace(',', "").parse().unwrap();
            prop_assert!((read - value).abs() <= (value.abs() * 0.005).max(1e-5), "{value}: {read}");
            prop_assert_eq!(number(value), sentence(if value.abs() < NOISE { 0.0 } else { value }).replace(',', ""));
        }

        #[test]
        fn short_numbers_have_room(value: u64) {
            prop_assert!(short(value as f64).len() <= 6);
        }
    }
}
