//! Parsing and formatting of numbers with units. Integers only, so that a formatted number is
//! parsed to the same value on every machine.

/// A unit and its factor.
pub(super) type Unit = (&'static str, u64);

pub(super) const RATE: [Unit; 4] = [("Gbit", 1_000_000_000), ("Mbit", 1_000_000), ("kbit", 1_000), ("bit", 1)];
pub(super) const TIME: [Unit; 4] = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)];
/// Parts per million. A number without a unit is a fraction of 1.
pub(super) const SHARE: [Unit; 2] = [("", 1_000_000), ("%", 10_000)];
pub(super) const COUNT: [Unit; 1] = [("", 1)];

/// Parses `text` in one of `units`; `None` if it is malformed, or finer than the finest unit.
pub(super) fn read(text: &str, units: &[Unit]) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let unit = unit.strip_suffix("bit/s").map_or(unit, |_| unit.trim_end_matches("/s"));
    let one = units.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit))?.1;
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() || fraction.contains('.') || (digits.contains('.') && fraction.is_empty()) {
        return None;
    }
    let mut value = whole.parse::<u64>().ok()?.checked_mul(one)?;
    let mut place = one;
    for digit in fraction.bytes() {
        let digit = u64::from(digit - b'0');
        if !place.is_multiple_of(10) && digit != 0 {
            return None;
        }
        place /= 10;
        value = value.checked_add(digit * place)?;
    }
    Some(value)
}

/// Formats `value` in the largest of `units` that needs no fraction, or else in the last one.
pub(super) fn write(value: u64, units: &[Unit]) -> String {
    let fits = units.iter().find(|(_, one)| value.is_multiple_of(*one) && value != 0).or(units.last());
    fits.map_or_else(String::new, |(name, one)| format!("{}{name}", value / one))
}

/// Formats `ppm` in percent.
pub(super) fn write_share(ppm: u64) -> String {
    let (whole, rest) = (ppm / 10_000, ppm % 10_000);
    let text = format!("{whole}.{rest:04}");
    format!("{}%", text.trim_end_matches('0').trim_end_matches('.'))
}
