//! Parses a text such as `11n,ampdu=16,loss=1%` to parameters, and formats the name that is parsed to the same.

use super::known::{self, Known};
use super::{Medium, Profile, ProfileError, value};
use crate::resembling::resembling;

/// A parameter that can be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Rate,
    Delay,
    Jitter,
    Loss,
    Queue,
    ApQueue,
    Ampdu,
    Retries,
    CwMin,
    CwMax,
}

/// A parameter of a medium.
enum Number<'a> {
    Wide(&'a mut u64),
    Narrow(&'a mut u32),
}

/// The keys of a medium, in the order in which names list them.
pub(super) fn keys(medium: &Medium) -> Vec<Key> {
    let all = [
        Key::Rate,
        Key::Delay,
        Key::Jitter,
        Key::Ampdu,
        Key::Loss,
        Key::Retries,
        Key::CwMin,
        Key::CwMax,
        Key::Queue,
        Key::ApQueue,
    ];
    all.into_iter().filter(|key| key.number(&mut medium.clone()).is_some()).collect()
}

impl Key {
    pub(super) fn name(self) -> &'static str {
        match self {
            Key::Rate => "rate",
            Key::Delay => "delay",
            Key::Jitter => "jitter",
            Key::Loss => "loss",
            Key::Queue => "queue",
            Key::ApQueue => "ap-queue",
            Key::Ampdu => "ampdu",
            Key::Retries => "retries",
            Key::CwMin => "cwmin",
            Key::CwMax => "cwmax",
        }
    }

    fn units(self) -> &'static [value::Unit] {
        match self {
            Key::Rate => &value::RATE,
            Key::Delay | Key::Jitter => &value::TIME,
            Key::Loss => &value::SHARE,
            _ => &value::COUNT,
        }
    }

    /// The allowed range. Times and rates are limited so that no sum of them overflows.
    fn range(self, medium: &Medium) -> (u64, u64) {
        match (self, medium) {
            (Key::Rate, Medium::Cell(_)) => (1_000_000, 100_000_000_000),
            (Key::Rate, _) => (1_000, 100_000_000_000),
            (Key::Delay | Key::Jitter, _) => (0, 10_000_000_000),
            (Key::Loss, _) => (0, 1_000_000),
            (Key::Queue | Key::ApQueue, _) => (1, 1_000_000),
            // A window of one frame means no aggregation.
            (Key::Ampdu, Medium::Cell(dcf)) => (1, u64::from(dcf.window_frames)),
            (Key::Ampdu, _) => (1, 1),
            (Key::Retries, _) => (0, 255),
            (Key::CwMin | Key::CwMax, _) => (0, 32_767),
        }
    }

    fn write(self, number: u64) -> String {
        match self {
            Key::Loss => value::write_share(number),
            _ => value::write(number, self.units()),
        }
    }

    /// The value, if the medium has this parameter.
    fn number(self, medium: &mut Medium) -> Option<Number<'_>> {
        use Number::{Narrow, Wide};
        Some(match (medium, self) {
            (Medium::Lines(line), Key::Rate) => Wide(&mut line.rate_bps),
            (Medium::Lines(line), Key::Delay) => Wide(&mut line.delay_ns),
            (Medium::Lines(line), Key::Jitter) => Wide(&mut line.jitter_ns),
            (Medium::Lines(line), Key::Loss) => Narrow(&mut line.loss_ppm),
            (Medium::Lines(line), Key::Queue) => Narrow(&mut line.queue_frames),
            (Medium::Cell(dcf), Key::Rate) => Wide(&mut dcf.rate_bps),
            (Medium::Cell(dcf), Key::Ampdu) => Narrow(&mut dcf.ampdu_frames),
            (Medium::Cell(dcf), Key::Loss) => Narrow(&mut dcf.loss_ppm),
            (Medium::Cell(dcf), Key::Retries) => Narrow(&mut dcf.retries),
            (Medium::Cell(dcf), Key::CwMin) => Narrow(&mut dcf.cw_min),
            (Medium::Cell(dcf), Key::CwMax) => Narrow(&mut dcf.cw_max),
            (Medium::Cell(dcf), Key::Queue) => Narrow(&mut dcf.queue_frames),
            (Medium::Cell(dcf), Key::ApQueue) => Narrow(&mut dcf.ap_queue_frames),
            _ => return None,
        })
    }

    fn get(self, medium: &Medium) -> u64 {
        match self.number(&mut medium.clone()) {
            Some(Number::Wide(number)) => *number,
            Some(Number::Narrow(number)) => u64::from(*number),
            None => 0,
        }
    }

    /// `value` has been checked, so it fits.
    fn set(self, medium: &mut Medium, value: u64) {
        match self.number(medium) {
            Some(Number::Wide(number)) => *number = value,
            Some(Number::Narrow(number)) => *number = u32::try_from(value).unwrap_or(u32::MAX),
            None => {}
        }
    }
}

impl Profile {
    /// Parses a profile: a name with changes, such as `11n`, `11n,loss=1%`, `wan,rate=10Mbit,delay=20ms`.
    ///
    /// # Errors
    /// An unknown name or key, or a value out of range.
    pub fn parse(text: &str) -> Result<Profile, ProfileError> {
        let mut parts = text.split(',').map(str::trim);
        let base = named(parts.next().unwrap_or_default())?;
        let (profile, mut medium) = (base.name, base.medium);
        let keys = keys(&medium);
        let mut given: Vec<(Key, &str)> = Vec::new();
        for part in parts {
            let no_value = || ProfileError::NoValue(profile, part.to_string());
            let (name, number) = part.split_once('=').ok_or_else(no_value)?;
            let (name, number) = (name.trim(), number.trim());
            let plain = name.to_lowercase().replace('_', "-");
            let key = keys.iter().copied().find(|key| key.name() == plain).ok_or_else(|| {
                let known: Vec<_> = keys.iter().map(|key| key.name()).collect();
                let meant = resembling(name, &known);
                ProfileError::UnknownKey(profile, name.to_string(), known, meant)
            })?;
            if given.iter().any(|&(other, _)| other == key) {
                return Err(ProfileError::Twice(profile, key.name()));
            }
            let (least, most) = key.range(&medium);
            let out_of_range = || {
                let range = format!("{} to {}", key.write(least), key.write(most));
                ProfileError::OutOfRange(profile, key.name(), number.to_string(), range)
            };
            let value =
                value::read(number, key.units()).filter(|v| (least..=most).contains(v)).ok_or_else(out_of_range)?;
            key.set(&mut medium, value);
            given.push((key, number));
        }
        check_window(profile, &medium, &given)?;
        let changes = keys.iter().filter(|key| key.get(&medium) != key.get(&base.medium));
        let changes: String = changes.map(|key| format!(",{}={}", key.name(), key.write(key.get(&medium)))).collect();
        Ok(Profile { name: format!("{profile}{changes}"), description: base.description.to_string(), medium })
    }
}

fn named(name: &str) -> Result<&'static Known, ProfileError> {
    let plain = name.to_lowercase().replace('_', "-");
    known::ALL
        .iter()
        .find(|known| known.name == plain)
        .ok_or_else(|| ProfileError::Unknown(name.to_string(), resembling(name, &Profile::names())))
}

/// The initial contention window must not exceed the maximum.
fn check_window(profile: &'static str, medium: &Medium, given: &[(Key, &str)]) -> Result<(), ProfileError> {
    let Medium::Cell(dcf) = medium else { return Ok(()) };
    if dcf.cw_min <= dcf.cw_max {
        return Ok(());
    }
    let of = |key| given.iter().find(|(other, _)| *other == key);
    let (key, value, range) = match (of(Key::CwMin), of(Key::CwMax)) {
        (Some((_, value)), _) => (Key::CwMin, value, format!("0 to {}, which is cwmax", dcf.cw_max)),
        (None, Some((_, value))) => (Key::CwMax, value, format!("{0} to 32767, for cwmin is {0}", dcf.cw_min)),
        (None, None) => return Ok(()),
    };
    Err(ProfileError::OutOfRange(profile, key.name(), (*value).to_string(), range))
}
