//! How a node's device is: battery, heat, room, and whether it was away. The node tells its gateways, people read it.
//!
//! What cannot be read is absent, never guessed. Whether a limit is crossed the node decides, who knows its limits; here it
//! is only put into words, with what helps.

use std::time::Duration;

use crate::units::Bytes;

/// What the device is connected by, where that can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Network {
    /// Wi-Fi.
    Wifi = 1,
    /// A cable.
    Ethernet = 2,
    /// Mobile data.
    Cellular = 3,
    /// Nothing.
    None = 4,
}

impl Network {
    /// All of them.
    pub const ALL: [Network; 4] = [Network::Wifi, Network::Ethernet, Network::Cellular, Network::None];

    /// As it is written.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Network::Wifi => "wifi",
            Network::Ethernet => "ethernet",
            Network::Cellular => "cellular",
            Network::None => "none",
        }
    }
}

/// Which of the node's limits are crossed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Crossed {
    /// The battery is below its limit and not being charged.
    pub low_battery: bool,
    /// The device is hotter than its limit, or says itself that it is too hot.
    pub hot: bool,
    /// Less is free than the limit, or than what the extent has yet to take.
    pub little_space: bool,
}

/// One time in which the node did nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastPause {
    /// How long it was, in milliseconds.
    pub lasted_ms: u64,
    /// Why, as far as that can be said: "the device slept (screen off, not charging, battery 41 %)".
    pub reason: String,
}

/// The highest thermal status that Android knows: the device shuts down.
pub const THERMAL_STATUS_MAX: u8 = 6;

/// A device's condition at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Condition {
    /// Charge of the battery, 0 to 100.
    pub battery_percent: Option<u8>,
    /// Whether it is being charged, or fed from outside.
    pub charging: Option<bool>,
    /// Temperature of the battery, or else of the device, in tenths of a degree.
    pub celsius_tenths: Option<i16>,
    /// Whether the screen is on.
    pub screen_on: Option<bool>,
    /// Android's own judgement: 0 none to 6 shutdown.
    pub thermal_status: Option<u8>,
    /// The owner turned power saving on.
    pub power_save: Option<bool>,
    /// The device dozes.
    pub doze: Option<bool>,
    /// The program is exempt from battery optimisation.
    pub battery_exempt: Option<bool>,
    /// What it is connected by.
    pub network: Option<Network>,
    /// Bytes that the file system of the data file has free for the node.
    pub free_bytes: Option<u64>,
    /// Bytes of the extent that the file system has yet to find room for.
    pub unallocated_bytes: Option<u64>,
    /// Limits that are crossed.
    pub crossed: Crossed,
    /// How often the node was away since its start.
    pub pauses: u32,
    /// The last time.
    pub last_pause: Option<LastPause>,
}

impl Condition {
    /// Whether it tells something new to whoever knows `told`. Figures that waver do not: a device that sleeps would be woken
    /// for nothing.
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

    /// What an operator should do something about, each in a sentence with what helps.
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

    /// What is known of why the device may rest, such as "screen off, not charging, battery 41 %"; empty if nothing is.
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

/// A temperature for people.
#[must_use]
pub fn celsius(tenths: i16) -> String {
    format!("{:.1} °C", f64::from(tenths) / 10.0)
}

fn to_i64(n: Option<u64>) -> Option<i64> {
    n.map(|n| i64::try_from(n).unwrap_or(i64::MAX))
}

/// Whether a figure came, went, or moved by as much as `least` says of what it was.
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
