//! The largest packet of the interfaces in use.
//!
//! Tunnels have a little less than 1,500 bytes and must. Below 1,280, the least that IPv6 may have (RFC 8200, section 5), it is seldom
//! meant. On Wi-Fi a packet costs nearly the same whatever is in it, so smaller packets cost nearly in proportion.

use super::Finding;
use crate::change::{Change, Place};
use crate::view::View;

const MTU_BYTES_MIN: u32 = 1280;
/// Ethernet's.
const MTU_BYTES_USUAL: u32 = 1500;
/// IPv4's and TCP's headers with timestamps.
const HEADER_BYTES: u32 = 52;

pub(super) fn look(view: &View) -> Finding {
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
    // What is no Ethernet, such as a tunnel, has its reasons.
    small.into_iter().filter(|(each, _)| each.is_ethernet).fold(finding, |finding, (each, _)| {
        let place = Place::Mtu { interface: each.name };
        finding.with_change(Change { place, new: MTU_BYTES_USUAL.to_string() })
    })
}
