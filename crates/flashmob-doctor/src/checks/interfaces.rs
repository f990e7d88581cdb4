//! The network interfaces in use.

use super::Finding;
use crate::change::{Change, Place};
use crate::view::View;

const MTU_BYTES_MIN: u32 = 1280;
/// Ethernet's.
const MTU_BYTES_USUAL: u32 = 1500;
/// IPv4's and TCP's headers with timestamps.
const HEADER_BYTES: u32 = 52;

/// The MTU of the interfaces in use.
///
/// Tunnels need a little less than 1,500 bytes. An MTU below 1,280, the minimum of IPv6 (RFC 8200, section 5), is seldom intended. On Wi-Fi
/// the cost of a packet hardly depends on its size, so smaller packets cost nearly in proportion.
pub(super) fn mtu(view: &View) -> Finding {
    let interfaces: Vec<_> =
        view.interfaces_in_use().into_iter().filter_map(|each| each.mtu_bytes.map(|mtu| (each, mtu))).collect();
    if interfaces.is_empty() {
        return Finding::unknown("no interface says how large its packets may be");
    }
    let said: Vec<String> = interfaces.iter().map(|(each, mtu)| format!("{} has {mtu} bytes", each.name)).collect();
    let small: Vec<_> = interfaces.into_iter().filter(|(_, mtu)| *mtu < MTU_BYTES_MIN).collect();
    let Some((_, least)) = small.iter().min_by_key(|(_, mtu)| *mtu) else {
        return Finding::well(format!("the largest packet: {}", said.join(", ")));
    };
    let data = |mtu: u32| f64::from(mtu.saturating_sub(HEADER_BYTES).max(1));
    let times = data(MTU_BYTES_USUAL) / data(*least);
    let cost = format!(
        "{times:.1} times as many packets as with {MTU_BYTES_USUAL} bytes for the same data, and IPv6 is switched off there"
    );
    let names: Vec<String> = small.iter().map(|(each, mtu)| format!("{} has {mtu}", each.name)).collect();
    let found =
        format!("packets are smaller than {MTU_BYTES_MIN} bytes, the least that IPv6 allows: {}", names.join(", "));
    let finding = Finding::wrong(found, cost)
        .with_advice("what a tunnel may have follows from what it travels over: raise that first");
    // Other interfaces, such as tunnels, have small MTUs for a reason.
    small.into_iter().filter(|(each, _)| each.is_ethernet).fold(finding, |finding, (each, _)| {
        let place = Place::Mtu { interface: each.name };
        finding.with_change(Change { place, new: MTU_BYTES_USUAL.to_string() })
    })
}

/// The usual beacon interval: 100 time units of 1,024 us.
const BEACON_MS: &str = "102 ms";

/// Wi-Fi's power save: the station sleeps between beacons, and packets to it wait at the access point.
pub(super) fn power_save(view: &View) -> Finding {
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
