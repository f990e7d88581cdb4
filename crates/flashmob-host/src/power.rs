//! Battery, charger, screen and highest temperature, as far as the kernel reports them. Android lets few programs read them.

use std::path::Path;

use super::{number, text, thermal};

/// The state of a device; values that cannot be read are absent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Power {
    /// Charge of the battery, 0 to 100.
    pub battery_percent: Option<u8>,
    /// Whether the device has external power.
    pub charging: Option<bool>,
    /// Temperature of the battery, in tenths of a degree.
    pub battery_celsius_tenths: Option<i16>,
    /// Temperature of the warmest thermal zone, in tenths of a degree.
    pub hottest_celsius_tenths: Option<i16>,
    /// The kernel throttles the device because of its temperature.
    pub is_slowed_by_heat: bool,
    /// Whether a screen is on.
    pub screen_on: Option<bool>,
}

/// Reads the state below `root`, usually `/`.
#[must_use]
pub fn power(root: &Path) -> Power {
    let mut power = Power { screen_on: screen_on(root), ..Power::default() };
    read_supplies(root, &mut power);
    let (hottest, is_slowed) = thermal::hottest(root);
    (power.hottest_celsius_tenths, power.is_slowed_by_heat) = (hottest, is_slowed);
    power
}

/// Uses the first battery and all external supplies.
fn read_supplies(root: &Path, power: &mut Power) {
    let Ok(entries) = std::fs::read_dir(root.join("sys/class/power_supply")) else { return };
    let mut supplies: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    supplies.sort();
    let mut online = None;
    for supply in supplies {
        // A mouse has a battery too; its scope is not the system's.
        if text(supply.join("scope")).is_some_and(|scope| scope == "Device") {
            continue;
        }
        match text(supply.join("type")).as_deref() {
            Some("Battery") if power.battery_percent.is_none() => {
                power.battery_percent = number::<u8>(supply.join("capacity")).filter(|&percent| percent <= 100);
                power.battery_celsius_tenths = number(supply.join("temp"));
                power.charging = text(supply.join("status")).and_then(|status| match &*status {
                    "Charging" | "Full" => Some(true),
                    "Discharging" => Some(false),
                    // "Not charging": full enough, or the charger is too weak. The external supplies decide.
                    _ => None,
                });
            }
            Some("Mains" | "USB" | "Wireless") => {
                if let Some(is_online) = number::<u8>(supply.join("online")) {
                    online = Some(online.unwrap_or(false) || is_online != 0);
                }
            }
            _ => {}
        }
    }
    power.charging = power.charging.or(online);
}

/// On if any backlight is. Power 0 is on (FB_BLANK_UNBLANK); a brightness of 0 is off whatever the power.
fn screen_on(root: &Path) -> Option<bool> {
    let entries = std::fs::read_dir(root.join("sys/class/backlight")).ok()?;
    entries.flatten().fold(None, |lit, entry| {
        let read = |file: &str| number::<i64>(entry.path().join(file));
        let is_powered = read("bl_power").map(|power| power == 0);
        let is_bright = read("actual_brightness").or_else(|| read("brightness")).map(|level| level > 0);
        match (is_powered, is_bright) {
            (None, None) => lit,
            (powered, bright) => Some(lit.unwrap_or(false) || (powered.unwrap_or(true) && bright.unwrap_or(true))),
        }
    })
}
