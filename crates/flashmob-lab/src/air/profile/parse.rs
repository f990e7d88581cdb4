//! From a text such as `11n,ampdu=16,loss=1%` to numbers, and the name that gives them again.

use super::known::{self, Known};
use super::{Dcf, Line, Medium, Profile, ProfileError, value};
use crate::resembling::resembling;

/// A number that can be changed.
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

/// What can be changed, in the order in which names have it.
pub(super) fn keys(medium: &Medium) -> &'static [Key] {
    match medium {
        Medium::Ideal { .. } => &[],
        Medium::Lines(_) => &[Key::Rate, Key::Delay, Key::Jitter, Key::Loss, Key::Queue],
        Medium::Cell(_) => {
            &[Key::Rate, Key::Ampdu, Key::Loss, Key::Retries, Key::CwMin, Key::CwMax, Key::Queue, Key::ApQueue]
        }
    }
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

    /// The least and the most that it may be. Times and rates are such that no sum of them overflows.
    fn range(self, medium: &Medium) -> (u64, u64) {
        match (self, medium) {
            (Key::Rate, Medium::Cell(_)) => (1_000_000, 100_000_000_000),
            (Key::Rate, _) => (1_000, 100_000_000_000),
            (Key::Delay | Key::Jitter, _) => (0, 10_000_000_000),
            (Key::Loss, _) => (0, 1_000_000),
            (Key::Queue | Key::ApQueue, _) => (1, 1_000_000),
            // A window of one frame stands for a standard without aggregation.
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

    fn get(self, medium: &Medium) -> u64 {
        match medium {
            Medium::Ideal { .. } => 0,
            Medium::Lines(line) => self.of_line(line),
            Medium::Cell(dcf) => self.of_cell(dcf),
        }
    }

    fn of_line(self, line: &Line) -> u64 {
        match self {
            Key::Rate => line.rate_bps,
            Key::Delay => line.delay_ns,
            Key::Jitter => line.jitter_ns,
            Key::Loss => u64::from(line.loss_ppm),
            Key::Queue => u64::from(line.queue_frames),
            _ => 0,
        }
    }

    fn of_cell(self, dcf: &Dcf) -> u64 {
        let small = match self {
            Key::Rate => return dcf.rate_bps,
            Key::Loss => dcf.loss_ppm,
            Key::Queue => dcf.queue_frames,
            Key::ApQueue => dcf.ap_queue_frames,
            Key::Ampdu => dcf.ampdu_frames,
            Key::Retries => dcf.retries,
            Key::CwMin => dcf.cw_min,
            Key::CwMax => dcf.cw_max,
            Key::Delay | Key::Jitter => 0,
        };
        u64::from(small)
    }

    /// `number` is in its range, and so fits.
    fn set(self, medium: &mut Medium, number: u64) {
        let small = u32::try_from(number).unwrap_or(u32::MAX);
        match medium {
            Medium::Ideal { .. } => {}
            Medium::Lines(line) => match self {
                Key::Rate => line.rate_bps = number,
                Key::Delay => line.delay_ns = number,
                Key::Jitter => line.jitter_ns = number,
                Key::Loss => line.loss_ppm = small,
                Key::Queue => line.queue_frames = small,
                _ => {}
            },
            Medium::Cell(dcf) => match self {
                Key::Rate => dcf.rate_bps = number,
                Key::Loss => dcf.loss_ppm = small,
                Key::Queue => dcf.queue_frames = small,
                Key::ApQueue => dcf.ap_queue_frames = small,
                Key::Ampdu => dcf.ampdu_frames = small,
                Key::Retries => dcf.retries = small,
                Key::CwMin => dcf.cw_min = small,
                Key::CwMax => dcf.cw_max = small,
                Key::Delay | Key::Jitter => {}
            },
        }
    }
}

pub(super) fn parse(text: &str) -> Result<Profile, ProfileError> {
    let mut parts = text.split(',').map(str::trim);
    let base = named(parts.next().unwrap_or_default())?;
    let (profile, mut medium) = (base.name, base.medium);
    let keys = keys(&medium);
    let mut given: Vec<(Key, &str)> = Vec::new();
    for part in parts {
        let no_value = || ProfileError::NoValue { profile, text: part.to_string() };
        let (name, number) = part.split_once('=').ok_or_else(no_value)?;
        let (name, number) = (name.trim(), number.trim());
        let plain = name.to_lowercase().replace('_', "-");
        let key = keys.iter().copied().find(|key| key.name() == plain).ok_or_else(|| {
            let known: Vec<_> = keys.iter().map(|key| key.name()).collect();
            let meant = resembling(name, &known);
            ProfileError::UnknownKey { profile, key: name.to_string(), known, meant }
        })?;
        if given.iter().any(|&(other, _)| other == key) {
            return Err(ProfileError::Twice { profile, key: key.name() });
        }
        let (least, most) = key.range(&medium);
        let out_of_range = || ProfileError::OutOfRange {
            profile,
            key: key.name(),
            value: number.to_string(),
            range: format!("{} to {}", key.write(least), key.write(most)),
        };
        let value = value::read(number, key.units()).filter(|v| (least..=most).contains(v)).ok_or_else(out_of_range)?;
        key.set(&mut medium, value);
        given.push((key, number));
    }
    check_window(profile, &medium, &given)?;
    let changes = keys.iter().filter(|key| key.get(&medium) != key.get(&base.medium));
    let changes: String = changes.map(|key| format!(",{}={}", key.name(), key.write(key.get(&medium)))).collect();
    Ok(Profile { name: format!("{profile}{changes}"), description: base.description.to_string(), medium })
}

fn named(name: &str) -> Result<&'static Known, ProfileError> {
    let plain = name.to_lowercase().replace('_', "-");
    known::ALL
        .iter()
        .find(|known| known.name == plain)
        .ok_or_else(|| ProfileError::Unknown { name: name.to_string(), meant: resembling(name, &Profile::names()) })
}

/// The first window of backoff must not be wider than the last one.
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
    Err(ProfileError::OutOfRange { profile, key: key.name(), value: (*value).to_string(), range })
}
