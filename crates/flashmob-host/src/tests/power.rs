use std::path::Path;

use super::super::power::{Power, power};
use super::trees::Tree;

fn seen(files: &[(&str, &str)]) -> Power {
    power(Tree::new(files).root())
}

const BATTERY: &str = "sys/class/power_supply/battery";

#[test]
fn a_tablet_tells_battery_charger_heat_and_screen() {
    let power = seen(&[
        ("sys/class/power_supply/battery/type", "Battery\n"),
        ("sys/class/power_supply/battery/capacity", "41\n"),
        ("sys/class/power_supply/battery/status", "Discharging\n"),
        ("sys/class/power_supply/battery/temp", "312\n"),
        ("sys/class/power_supply/usb/type", "USB\n"),
        ("sys/class/power_supply/usb/online", "1\n"),
        ("sys/class/backlight/panel0/bl_power", "0\n"),
        ("sys/class/backlight/panel0/actual_brightness", "0\n"),
        ("sys/class/thermal/thermal_zone0/temp", "43500\n"),
        ("sys/class/thermal/thermal_zone1/temp", "51\n"),
        ("sys/class/thermal/thermal_zone1/trip_point_0_type", "passive\n"),
        ("sys/class/thermal/thermal_zone1/trip_point_0_temp", "51\n"),
    ]);
    assert_eq!(
        power,
        Power {
            battery_percent: Some(41),
            charging: Some(false),
            battery_celsius_tenths: Some(312),
            hottest_celsius_tenths: Some(510),
            is_slowed_by_heat: true,
            screen_on: Some(false),
        }
    );
}

#[test]
fn what_feeds_the_device_decides_where_the_battery_does_not_say() {
    for (status, online, expected) in [
        (Some("Charging"), Some("0"), Some(true)),
        (Some("Full"), None, Some(true)),
        (Some("Not charging"), Some("1"), Some(true)),
        (Some("Unknown"), Some("0"), Some(false)),
        (None, None, None),
    ] {
        let mut files = vec![("sys/class/power_supply/battery/type", "Battery")];
        files.extend(status.map(|status| ("sys/class/power_supply/battery/status", status)));
        if let Some(online) = online {
            files.extend([("sys/class/power_supply/ac/type", "Mains"), ("sys/class/power_supply/ac/online", online)]);
        }
        assert_eq!(seen(&files).charging, expected, "{status:?} {online:?}");
    }
}

#[test]
fn the_battery_of_a_mouse_is_not_the_devices() {
    let power = seen(&[
        ("sys/class/power_supply/hidpp_battery_0/type", "Battery"),
        ("sys/class/power_supply/hidpp_battery_0/scope", "Device"),
        ("sys/class/power_supply/hidpp_battery_0/capacity", "5"),
    ]);
    assert_eq!(power, Power::default());
}

#[test]
fn odd_files_are_not_known_and_never_fatal() {
    assert_eq!(power(Path::new("/nonexistent")), Power::default());
    for odd in ["", "-1", "101", "99999999999999999999", "nan", "\0\0", "41 %", "é"] {
        let (capacity, temp) = (format!("{BATTERY}/capacity"), format!("{BATTERY}/temp"));
        let kind = format!("{BATTERY}/type");
        let power = seen(&[
            (&kind, "Battery"),
            (&capacity, odd),
            (&temp, "battery"),
            ("sys/class/backlight/a/brightness", "x"),
            ("sys/class/thermal/thermal_zone0/temp", "hot"),
        ]);
        assert_eq!(power, Power::default(), "{odd:?}");
    }
    // A file in place of a directory, and the reverse.
    let power = seen(&[("sys/class/power_supply", "x"), ("sys/class/backlight/a/bl_power/x", "0")]);
    assert_eq!(power, Power::default());
}
