//! Limits of a device's condition. Exceeding one produces a warning and nothing else.

use flashmob_core::condition::{Condition, Crossed};

/// Below this much charge a device that is not being charged should be plugged in: phones save power from 15 % on.
pub const LOW_BATTERY_PERCENT: u8 = 15;
/// Above this a battery wears, and chargers slow down or stop.
pub const HOT_CELSIUS: f64 = 45.0;
/// Android's thermal status "severe": from here on the device is slowed down so much that people notice.
const HOT_THERMAL_STATUS: u8 = 3;
/// Without `--free-space-min`: this, or a twentieth of the file system where that is less.
const FREE_SPACE_MIN_BYTES: u64 = 256 << 20;

/// Minimum free space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FreeSpaceMin {
    /// 256 MiB, or a twentieth of the file system where that is less.
    #[default]
    Auto,
    /// This many bytes.
    Bytes(u64),
}

/// A node's limits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Least charge of a battery that is not being charged.
    pub low_battery_percent: u8,
    /// Highest temperature of the battery.
    pub hot_celsius: f64,
    /// Least free space.
    pub free_space_min: FreeSpaceMin,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            low_battery_percent: LOW_BATTERY_PERCENT,
            hot_celsius: HOT_CELSIUS,
            free_space_min: FreeSpaceMin::Auto,
        }
    }
}

/// Values that the limits need beside the condition.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Beside {
    /// The condition's temperature is that of the battery, not of a part that is normally hot.
    pub is_of_battery: bool,
    /// The kernel slows the device down because it is hot.
    pub is_slowed_by_heat: bool,
    /// Total bytes of the data file's file system.
    pub file_system_bytes: Option<u64>,
}

impl Limits {
    /// The limits that a condition crosses. Unknown values cross none.
    pub(super) fn crossed_by(&self, condition: &Condition, beside: Beside) -> Crossed {
        let is_hot = condition.celsius_tenths.is_some_and(|tenths| f64::from(tenths) / 10.0 >= self.hot_celsius);
        Crossed {
            low_battery: condition.charging != Some(true)
                && condition.battery_percent.is_some_and(|percent| percent < self.low_battery_percent),
            hot: (beside.is_of_battery && is_hot)
                || beside.is_slowed_by_heat
                || condition.thermal_status.is_some_and(|status| status >= HOT_THERMAL_STATUS),
            little_space: condition.free_bytes.is_some_and(|free| {
                free < self.least_bytes(beside.file_system_bytes)
                    || condition.unallocated_bytes.is_some_and(|n| free < n)
            }),
        }
    }

    fn least_bytes(&self, file_system_bytes: Option<u64>) -> u64 {
        match self.free_space_min {
            FreeSpaceMin::Bytes(bytes) => bytes,
            FreeSpaceMin::Auto => {
                file_system_bytes.map_or(FREE_SPACE_MIN_BYTES, |all| FREE_SPACE_MIN_BYTES.min(all / 20))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crossed(condition: Condition, beside: Beside) -> Crossed {
        Limits::default().crossed_by(&condition, beside)
    }

    #[test]
    fn a_battery_is_low_below_its_limit_unless_it_is_charged() {
        for (percent, charging, expected) in [
            (14, Some(false), true),
            (15, Some(false), false),
            (14, Some(true), false),
            (14, None, true),
            (0, Some(false), true),
        ] {
            let condition = Condition { battery_percent: Some(percent), charging, ..Condition::default() };
            assert_eq!(crossed(condition, Beside::default()).low_battery, expected, "{percent} {charging:?}");
        }
    }

    #[test]
    fn heat_is_that_of_the_battery_or_what_the_device_says_itself() {
        let battery = Beside { is_of_battery: true, ..Beside::default() };
        for (celsius_tenths, thermal_status, beside, expected) in [
            (Some(449), None, battery, false),
            (Some(450), None, battery, true),
            (Some(800), None, Beside::default(), false),
            (None, Some(2), battery, false),
            (None, Some(3), battery, true),
            (None, None, Beside { is_slowed_by_heat: true, ..battery }, true),
        ] {
            let condition = Condition { celsius_tenths, thermal_status, ..Condition::default() };
            assert_eq!(crossed(condition, beside).hot, expected, "{celsius_tenths:?} {thermal_status:?}");
        }
    }

    #[test]
    fn space_is_short_below_the_limit_or_below_what_the_extent_has_yet_to_take() {
        let of = |bytes| Beside { file_system_bytes: Some(bytes), ..Beside::default() };
        for (free, unallocated, all, expected) in [
            ((256 << 20) - 1, 0, 1u64 << 40, true),
            (256 << 20, 0, 1 << 40, false),
            (256 << 20, (256 << 20) + 1, 1 << 40, true),
            (49, 0, 1000, true),
            (50, 0, 1000, false),
        ] {
            let condition =
                Condition { free_bytes: Some(free), unallocated_bytes: Some(unallocated), ..Condition::default() };
            assert_eq!(crossed(condition, of(all)).little_space, expected, "{free} {unallocated} of {all}");
        }
    }

    #[test]
    fn what_is_not_known_crosses_nothing() {
        assert_eq!(crossed(Condition::default(), Beside::default()), Crossed::default());
    }
}
