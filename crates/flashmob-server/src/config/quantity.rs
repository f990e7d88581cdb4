//! Numbers, sizes and times of a configuration: read from TOML values, written as TOML.
//!
//! The text of a value reads back as exactly the same value: nothing is rounded.

use std::time::Duration;

use flashmob_text::{GIB, KIB, MIB, SizeError, exact_duration, parse_duration, parse_size};
use toml::de::{DeInteger, DeValue};

use super::report::quoted;

/// Why a value is not of the type that its key takes, and what to write instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wrong {
    /// Follows the key: "must be a size, not text".
    pub problem: String,
    /// What to write instead.
    pub help: String,
}

/// A value with a smallest and a largest one.
pub(super) trait Quantity: Copy + PartialOrd + Sized {
    /// Its name in messages, with the article.
    const KIND: &'static str;
    /// Values that show how it is written.
    const EXAMPLES: &'static str;

    /// As the right-hand side of a TOML line.
    fn to_toml(self) -> String;
    /// The value that TOML has, or why it has none.
    fn from_toml(value: &DeValue<'_>) -> Result<Self, Wrong>;
}

/// A number of things.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd)]
pub(super) struct Count(pub u64);

/// A number of bytes, written with a unit: `"64KiB"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd)]
pub struct Size(pub u64);

/// A length of time, written with a unit: `"500ms"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd)]
pub(super) struct Period(pub Duration);

impl Quantity for Count {
    const KIND: &'static str = "a whole number";
    const EXAMPLES: &'static str = "such as 4";

    fn to_toml(self) -> String {
        self.0.to_string()
    }

    fn from_toml(value: &DeValue<'_>) -> Result<Self, Wrong> {
        match value {
            DeValue::Integer(n) => u64::from_str_radix(n.as_str(), n.radix()).map(Count).map_err(|_| Wrong {
                problem: format!("is {}, which is {}", quoted(&n.to_string()), beyond(n)),
                help: format!("write {}, {}", Self::KIND, Self::EXAMPLES),
            }),
            DeValue::String(s) if !s.is_empty() && s.len() < 20 && s.bytes().all(|b| b.is_ascii_digit()) => {
                Err(Wrong { problem: "must be a number, not text".into(), help: format!("write {s}, without quotes") })
            }
            other => Err(wrong_type::<Self>(other)),
        }
    }
}

impl Size {
    /// As the right-hand side of a TOML line.
    #[must_use]
    pub fn to_toml(self) -> String {
        let units = [(GIB << 10, "TiB"), (GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")];
        match units.into_iter().find(|(unit, _)| self.0 != 0 && self.0.is_multiple_of(*unit)) {
            Some((unit, name)) => format!("\"{}{name}\"", self.0 / unit),
            None => format!("\"{}B\"", self.0),
        }
    }
}

impl Quantity for Size {
    const KIND: &'static str = "a size";
    const EXAMPLES: &'static str = "such as \"512B\", \"64KiB\" or \"10GiB\"";

    fn to_toml(self) -> String {
        Size::to_toml(self)
    }

    fn from_toml(value: &DeValue<'_>) -> Result<Self, Wrong> {
        with_unit(value, Size, |text| {
            parse_size(text).map(Size).map_err(|why| match why {
                SizeError::Malformed(_) => not_a::<Self>(text),
                SizeError::TooLarge(_) => format!("is {}, which is more than 8 EiB", quoted(text)),
            })
        })
    }
}

impl Quantity for Period {
    const KIND: &'static str = "a length of time";
    const EXAMPLES: &'static str = "such as \"500ms\", \"10s\", \"2m\" or \"1h\"";

    fn to_toml(self) -> String {
        const DAY: u128 = 86_400_000_000_000;
        let nanos = self.0.as_nanos();
        if nanos > 0 && nanos.is_multiple_of(DAY) {
            return format!("\"{}d\"", nanos / DAY);
        }
        format!("\"{}\"", exact_duration(self.0))
    }

    fn from_toml(value: &DeValue<'_>) -> Result<Self, Wrong> {
        let seconds = |seconds| Period(Duration::from_secs(seconds));
        with_unit(value, seconds, |text| parse_duration(text).map(Period).map_err(|_| not_a::<Self>(text)))
    }
}

/// Text with a unit, or a bare number, which counts `bare` units as everywhere on the command line.
fn with_unit<Q: Quantity>(
    value: &DeValue<'_>,
    bare: impl Fn(u64) -> Q,
    parse: impl Fn(&str) -> Result<Q, String>,
) -> Result<Q, Wrong> {
    let unit = |quotes: &str| format!("write a number and a unit{quotes}, {}", Q::EXAMPLES);
    match value {
        DeValue::Integer(_) => {
            Count::from_toml(value).map(|Count(n)| bare(n)).map_err(|wrong| Wrong { help: unit(" in quotes"), ..wrong })
        }
        DeValue::String(text) => parse(text).map_err(|problem| Wrong { problem, help: unit("") }),
        other => Err(wrong_type::<Q>(other)),
    }
}

fn not_a<Q: Quantity>(text: &str) -> String {
    format!("must be {}, not {}", Q::KIND, quoted(text))
}

/// On which side an integer leaves a `u64`.
fn beyond(integer: &DeInteger<'_>) -> &'static str {
    if integer.as_str().starts_with('-') { "negative" } else { "more than any limit" }
}

/// The type of a TOML value, in words.
pub(super) fn type_name(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "text",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number with a fraction",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a section",
    }
}

fn wrong_type<Q: Quantity>(value: &DeValue<'_>) -> Wrong {
    Wrong {
        problem: format!("must be {}, not {}", Q::KIND, type_name(value)),
        help: format!("write one, {}", Q::EXAMPLES),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_shown_reads_back_exactly(n in 0..=i64::MAX as u64, zeros in 0u32..40) {
            let n = n >> zeros << zeros;
            let size = Size(n).to_toml();
            prop_assert_eq!(parse_size(size.trim_matches('"')), Ok(n));
            let period = Duration::from_nanos(n);
            prop_assert_eq!(parse_duration(Period(period).to_toml().trim_matches('"')), Ok(period));
        }
    }
}
