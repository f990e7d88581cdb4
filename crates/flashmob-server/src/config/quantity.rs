//! Numbers, sizes and times as a configuration writes them: read from a TOML value, shown as TOML.
//!
//! What is shown reads back as exactly the same value. It must never round.

use std::time::Duration;

use flashmob_text::{GIB, KIB, MIB, SizeError, exact_duration, parse_duration, parse_size};
use toml::de::{DeInteger, DeValue};

use super::report::quoted;

/// Why a value is not what its key wants, and what to write instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wrong {
    /// Follows the key: "is text", "'4 apples' is not a size".
    pub problem: String,
    /// What to write instead.
    pub help: String,
}

/// Something with a smallest and a largest value.
pub trait Quantity: Copy + PartialOrd + Sized {
    /// What it is called in messages, with its article.
    const KIND: &'static str;
    /// Values that show how it is written.
    const EXAMPLES: &'static str;

    /// As the right-hand side of a TOML line.
    fn to_toml(self) -> String;
}

/// Reads a quantity out of a TOML value.
pub(super) trait FromToml: Quantity {
    /// The value, or why it is none.
    fn from_toml(value: &DeValue<'_>) -> Result<Self, Wrong>;
}

/// A number of things.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd)]
pub struct Count(pub u64);

/// A number of bytes, written with a unit: `"64KiB"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd)]
pub struct Size(pub u64);

/// A length of time, written with a unit: `"500ms"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd)]
pub struct Period(pub Duration);

impl Quantity for Count {
    const KIND: &'static str = "a whole number";
    const EXAMPLES: &'static str = "such as 4";

    fn to_toml(self) -> String {
        self.0.to_string()
    }
}

impl Quantity for Size {
    const KIND: &'static str = "a size";
    const EXAMPLES: &'static str = "such as \"512B\", \"64KiB\" or \"10GiB\"";

    fn to_toml(self) -> String {
        let units = [(GIB << 10, "TiB"), (GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")];
        match units.into_iter().find(|(unit, _)| self.0 != 0 && self.0.is_multiple_of(*unit)) {
            Some((unit, name)) => format!("\"{}{name}\"", self.0 / unit),
            None => format!("\"{}B\"", self.0),
        }
    }
}

impl Quantity for Period {
    const KIND: &'static str = "a length of time";
    const EXAMPLES: &'static str = "such as \"500ms\", \"10s\", \"2m\" or \"1h\"";

    fn to_toml(self) -> String {
        format!("\"{}\"", exact_duration(self.0))
    }
}

impl FromToml for Count {
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

impl FromToml for Size {
    fn from_toml(value: &DeValue<'_>) -> Result<Self, Wrong> {
        match value {
            // A bare number is a number of bytes, as everywhere else on the command line.
            DeValue::Integer(_) => Count::from_toml(value).map(|Count(bytes)| Size(bytes)).map_err(|wrong| Wrong {
                help: format!("write a number and a unit in quotes, {}", Self::EXAMPLES),
                ..wrong
            }),
            DeValue::String(text) => parse_size(text).map(Size).map_err(|why| match why {
                SizeError::Malformed(_) => Wrong {
                    problem: format!("must be {}, not {}", Self::KIND, quoted(text)),
                    help: format!("write a number and a unit, {}", Self::EXAMPLES),
                },
                SizeError::TooLarge(_) => Wrong {
                    problem: format!("is {}, which is more than 8 EiB", quoted(text)),
                    help: format!("write a number and a unit, {}", Self::EXAMPLES),
                },
            }),
            other => Err(wrong_type::<Self>(other)),
        }
    }
}

impl FromToml for Period {
    fn from_toml(value: &DeValue<'_>) -> Result<Self, Wrong> {
        match value {
            // A bare number is a number of seconds, as everywhere else on the command line.
            DeValue::Integer(_) => {
                Count::from_toml(value).map(|Count(seconds)| Period(Duration::from_secs(seconds))).map_err(|wrong| {
                    Wrong { help: format!("write a number and a unit in quotes, {}", Self::EXAMPLES), ..wrong }
                })
            }
            DeValue::String(text) => parse_duration(text).map(Period).map_err(|_| Wrong {
                problem: format!("must be {}, not {}", Self::KIND, quoted(text)),
                help: format!("write a number and a unit, {}", Self::EXAMPLES),
            }),
            other => Err(wrong_type::<Self>(other)),
        }
    }
}

/// On which side an integer leaves a `u64`.
fn beyond(integer: &DeInteger<'_>) -> &'static str {
    if integer.as_str().starts_with('-') { "negative" } else { "more than any limit" }
}

/// What a TOML value is, in words.
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
