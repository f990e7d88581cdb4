//! The condition of a node's device: battery, temperature, free space, pauses. The node reports it to its gateways.
//!
//! Figures that cannot be read are absent. The node decides which of its limits are crossed; this module puts that into words, with
//! the remedy.

use std::time::Duration;

use crate::enums::listed;
use crate::units::Bytes;

listed! {
    /// The device's connection.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    #[repr(u8)]
    pub enum Network {
        /// Wi-Fi.
        Wifi = 1 => "wifi",
        /// Ethernet.
        Ethernet = 2 => "ethernet",
        /// Mobile data.
        Cellular = 3 => "cellular",
        /// No connection.
        None = 4 => "none",
    }
}

/// Which of the node's limits are crossed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Crossed {
    /// The battery is below the limit and not charging.
    pub low_battery: bool,
    /// The device is hotter than the limit, or reports that it is too hot.
    pub hot: bool,
    /// The free space is below the limit, or below what the extent still has to allocate.
    pub little_space: bool,
}

/// A pause: the node did not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastPause {
    /// Its length in milliseconds.
    pub lasted_ms: u64,
    /// The likely reason, such as "the device slept (screen off, not charging, battery 41 %)".
    pub reason: String,
}

/// Android's highest thermal status: the device shuts down.
pub const THERMAL_STATUS_MAX: u8 = 6;

/// The condition of a device at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Condition {
    /// Charge of the battery, 0 to 100.
    pub battery_percent: Option<u8>,
    /// Whether it is charging or on external power.
    pub charging: Option<bool>,
    /// Temperature of the battery, or else of the device, in tenths of a degree Celsius.
    pub celsius_tenths: Option<i16>,
    /// Whether the screen is on.
    pub screen_on: Option<bool>,
    /// Android's thermal status: 0 (none) to 6 (shutdown).
    pub thermal_status: Option<u8>,
    /// Whether power saving is on.
    pub power_save: Option<bool>,
    /// Whether the device is in doze mode.
    pub doze: Option<bool>,
    /// Whether the program is exempt from battery optimisation.
    pub battery_exempt: Option<bool>,
    /// Its connection.
    pub network: Option<Network>,
    /// Free bytes of the data file's file system, available to the node.
    pub free_bytes: Option<u64>,
    /// Bytes of the extent that the file system has not allocated yet.
    pub unallocated_bytes: Option<u64>,
    /// The disk that the extent is on: equal on all nodes of a disk, until its system restarts. It has no other meaning.
    pub disk_id: Option<u64>,
    /// The limits that are crossed.
    pub crossed: Crossed,
    /// Pauses since the node's start.
    pub pauses: u32,
    /// The last pause.
    pub last_pause: Option<LastPause>,
}

impl Condition {
    /// Whether it differs enough from the last report, `told`. Small changes of temperature and free space do not count: a report wakes the
    /// device's radio.
    #[must_use]
    pub fn is_news_after(&self, told: &Condition) -> bool {
        let exact = |c: &Condition| {
            (
                (c.battery_percent, c.charging, c.screen_on, c.thermal_status, c.power_save),
                (c.doze, c.battery_exempt, c.network, c.crossed, c.pauses),
            )
        };
        exact(self) != exact(told)
            || self.last_pause != told.last_pause
            || has_moved(self.celsius_tenths.map(i64::from), told.celsius_tenths.map(i64::from), |_| 10)
            || has_moved(to_i64(self.free_bytes), to_i64(told.free_bytes), |before| (before / 64).max(1 << 20))
            || has_moved(to_i64(self.unallocated_bytes), to_i64(told.unallocated_bytes), |before| {
                (before / 64).max(1 << 20)
            })
    }

    /// Problems for the operator, each a sentence with the remedy.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.crossed.low_battery {
            let percent = self.battery_percent.map_or("low".to_string(), |p| format!("at {p} %"));
            warnings.push(format!("its battery is {percent} and not charging: plug it in before it switches off"));
        }
        if self.crossed.hot {
            let heat = match (self.celsius_tenths, self.thermal_status) {
                (Some(tenths), _) => format!("it is hot ({})", celsius(tenths)),
                (None, Some(status)) => format!("it is hot (thermal status {status} of {THERMAL_STATUS_MAX})"),
                (None, None) => "it is hot".to_string(),
            };
            warnings.push(format!("{heat} and will slow down: take its case off, give it air, charge it more slowly"));
        }
        if self.crossed.little_space {
            warnings.push(match (self.free_bytes, self.unallocated_bytes) {
                (Some(free), Some(wanted)) if free < wanted => format!(
                    "its extent has yet to take {} and only {} are free: writes will fail with no space; free some, or \
                     make the extent smaller",
                    Bytes(wanted),
                    Bytes(free)
                ),
                (Some(free), _) => format!("only {} are free beside its extent: free some", Bytes(free)),
                (None, _) => "its file system is nearly full: free some space".to_string(),
            });
        }
        warnings
    }

    /// Why the device may sleep, such as "screen off, not charging, battery 41 %"; empty if nothing is known.
    #[must_use]
    pub fn circumstances(&self) -> String {
        let mut words: Vec<String> = Vec::new();
        let mut say = |known: Option<bool>, yes: &str, no: &str| match known {
            Some(true) if !yes.is_empty() => words.push(yes.to_string()),
            Some(false) if !no.is_empty() => words.push(no.to_string()),
            _ => {}
        };
        say(self.doze, "dozing", "");
        say(self.screen_on, "screen on", "screen off");
        say(self.charging, "charging", "not charging");
        say(self.power_save, "power saving on", "");
        say(self.battery_exempt, "", "not exempt from battery optimisation");
        if let Some(percent) = self.battery_percent {
            words.push(format!("battery {percent} %"));
        }
        if let Some(status) = self.thermal_status.filter(|&s| s > 0) {
            words.push(format!("thermal status {status}"));
        }
        if let Some(tenths) = self.celsius_tenths {
            words.push(celsius(tenths));
        }
        if self.network == Some(Network::None) {
            words.push("no network".to_string());
        }
        words.join(", ")
    }
}

impl LastPause {
    /// "paused 312 s: the device slept (...)".
    #[must_use]
    pub fn sentence(&self) -> String {
        let lasted = Duration::from_millis(self.lasted_ms);
        if self.lasted_ms < 10_000 {
            return format!("paused {:.1} s: {}", lasted.as_secs_f64(), self.reason);
        }
        format!("paused {} s: {}", lasted.as_secs(), self.reason)
    }
}

/// A temperature as text.
#[must_use]
pub fn celsius(tenths: i16) -> String {
    format!("{:.1} °C", f64::from(tenths) / 10.0)
}

fn to_i64(n: Option<u64>) -> Option<i64> {
    n.map(|n| i64::try_from(n).unwrap_or(i64::MAX))
}

/// Whether a figure appeared, disappeared, or changed by at least `least` of the value before.
fn has_moved(now: Option<i64>, before: Option<i64>, least: impl Fn(i64) -> i64) -> bool {
    match (now, before) {
        (Some(now), Some(before)) => now.abs_diff(before) >= least(before).unsigned_abs(),
        (now, before) => now != before,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tired() -> Condition {
        Condition {
            battery_percent: Some(12),
            charging: Some(false),
            celsius_tenths: Some(461),
            screen_on: Some(false),
            free_bytes: Some(1 << 30),
            unallocated_bytes: Some(4 << 30),
            crossed: Crossed { low_battery: true, hot: true, little_space: true },
            ..Condition::default()
        }
    }

    #[test]
    fn every_limit_that_is_crossed_is_said_with_what_helps() {
        let warnings = tired().warnings().join("\n");
        for part in ["at 12 % and not charging: plug it in", "46.1 °C", "4 GiB and only 1 GiB are free"] {
            assert!(warnings.contains(part), "{part}: {warnings}");
        }
        assert_eq!(Condition { crossed: Crossed::default(), ..tired() }.warnings(), Vec::<String>::new());
    }

    #[test]
    fn circumstances_say_only_what_is_known() {
        assert_eq!(tired().circumstances(), "screen off, not charging, battery 12 %, 46.1 °C");
        assert_eq!(Condition::default().circumstances(), "");
    }

    #[test]
    fn wavering_figures_are_no_news_and_real_changes_are() {
        let told = tired();
        for (now, is_news) in [
            (told.clone(), false),
            (Condition { celsius_tenths: Some(470), ..told.clone() }, false),
            (Condition { celsius_tenths: Some(471), ..told.clone() }, true),
            (Condition { celsius_tenths: None, ..told.clone() }, true),
            (Condition { free_bytes: Some((1 << 30) - (1 << 24) + 1), ..told.clone() }, false),
            (Condition { free_bytes: Some((1 << 30) - (1 << 24)), ..told.clone() }, true),
            (Condition { battery_percent: Some(11), ..told.clone() }, true),
            (Condition { pauses: 1, ..told.clone() }, true),
        ] {
            assert_eq!(now.is_news_after(&told), is_news, "{now:?}");
        }
    }
}
