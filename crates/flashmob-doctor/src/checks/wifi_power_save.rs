//! Wi-Fi's power save: the station sleeps between beacons, and whatever is for it waits at the access point.

use super::Finding;
use crate::change::{Change, Place};
use crate::view::View;

/// A beacon interval is 100 time units of 1,024 us, unless an access point was told otherwise.
const BEACON_MS: &str = "102 ms";

pub(super) fn look(view: &View) -> Finding {
    let wireless: Vec<_> = view.interfaces_in_use().into_iter().filter(|each| each.is_wireless).collect();
    if wireless.is_empty() {
        return Finding::not_applicable("no Wi-Fi interface is in use");
    }
    let mut saving = Vec::new();
    let mut not_saving = Vec::new();
    let mut unknown = Vec::new();
    for each in wireless {
        match crate::change::power_save(view, &each.name) {
            Ok(true) => saving.push(each.name),
            Ok(false) => not_saving.push(each.name),
            Err(why) => unknown.push(format!("{}: {why}", each.name)),
        }
    }
    if !saving.is_empty() {
        let cost = format!(
            "what arrives while it sleeps waits for the next beacon, up to {BEACON_MS}, and longer where it skips some; a request and its answer after each pause"
        );
        let finding = Finding::wrong(format!("power save is on for {}", saving.join(", ")), cost)
            .with_advice("it saves battery: leave it on where nobody waits for this device");
        return saving.into_iter().fold(finding, |finding, interface| {
            finding.with_change(Change { place: Place::PowerSave { interface }, new: "off".into() })
        });
    }
    if unknown.is_empty() {
        return Finding::well(format!("power save is off for {}", not_saving.join(", ")));
    }
    let advice = if view.is_android() {
        "Android decides it by itself: keep the device charging and its screen's lock from dozing; 'iw dev wlan0 set power_save off' as root"
    } else {
        "install iw; what it says is 'iw dev INTERFACE get power_save'"
    };
    Finding::unknown(format!("whether Wi-Fi saves power is not known: {}", unknown.join("; "))).with_advice(advice)
}
