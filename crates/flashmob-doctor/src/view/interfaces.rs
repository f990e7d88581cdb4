//! Network interfaces: which there are, and what they say of themselves.
//!
//! `/sys` may be that of another network namespace. So what can be asked by a system call is, and what `/sys` says of an interface is
//! believed only if it says the same number of it.

use std::path::Path;

use super::View;
use crate::change::interface;

/// The kernel's number for Ethernet and what looks like it, Wi-Fi included (ARPHRD_ETHER).
const TYPE_ETHERNET: u32 = 1;
/// Tunnels that look like Ethernet, as the kernel calls their kinds. Those of programs, such as VPNs, have a file `tun_flags` instead.
const TUNNELS: [&str; 3] = ["vxlan", "geneve", "macsec"];
/// The kernel's flag for an interface that is switched on (IFF_UP).
const FLAG_UP: u32 = 1;
/// The kernel's flag for the loopback (IFF_LOOPBACK).
const FLAG_LOOPBACK: u32 = 8;

/// One interface.
#[derive(Clone, Debug, PartialEq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Largest packet.
    pub mtu_bytes: Option<u32>,
    /// It is switched on.
    pub is_up: bool,
    /// It leads to this device itself.
    pub is_loopback: bool,
    /// It is a Wi-Fi interface.
    pub is_wireless: bool,
    /// It carries Ethernet's frames and is no tunnel, so that it has 1,500 bytes as a rule.
    pub is_ethernet: bool,
    /// What it calls its speed.
    pub speed_bits_per_second: Option<f64>,
}

impl View {
    /// All interfaces.
    #[must_use]
    pub fn interfaces(&self) -> Vec<Interface> {
        let listed = self.text("proc/net/dev").unwrap_or_default();
        let mut names: Vec<String> =
            listed.lines().filter_map(|line| Some(line.split_once(':')?.0.trim().to_string())).collect();
        if names.is_empty() {
            names = self.names("sys/class/net");
        }
        names.iter().filter_map(|name| self.interface(name)).collect()
    }

    /// The one of this name; `None` if it cannot be one.
    #[must_use]
    pub fn interface(&self, name: &str) -> Option<Interface> {
        if !interface::is_name(name) {
            return None;
        }
        let dir = format!("sys/class/net/{name}");
        let is_ours = match (self.is_live, self.number::<u32>(&format!("{dir}/ifindex"))) {
            (true, Some(number)) => interface::number(name).is_none_or(|own| own == number),
            _ => true,
        };
        let said = |file: &str| if is_ours { self.text(&format!("{dir}/{file}")) } else { None };
        let live = |ask: fn(&str) -> std::io::Result<u32>| if self.is_live { ask(name).ok() } else { None };
        let flags = live(interface::flags)
            .or_else(|| u32::from_str_radix(said("flags")?.trim_start_matches("0x"), 16).ok())
            .unwrap_or(0);
        let is_there = |file: &str| is_ours && self.root.join(Path::new(&dir)).join(file).symlink_metadata().is_ok();
        let kind = said("uevent").and_then(|text| {
            let kind = text.lines().find_map(|line| line.strip_prefix("DEVTYPE="))?;
            Some(kind.trim().to_string())
        });
        let is_tunnel = is_there("tun_flags") || kind.is_some_and(|kind| TUNNELS.contains(&kind.as_str()));
        Some(Interface {
            name: name.to_string(),
            mtu_bytes: live(interface::mtu).or_else(|| said("mtu")?.parse().ok()),
            is_up: flags & FLAG_UP != 0,
            is_loopback: flags & FLAG_LOOPBACK != 0,
            is_wireless: is_there("wireless") || is_there("phy80211"),
            is_ethernet: !is_tunnel && said("type").is_some_and(|text| text.parse() == Ok(TYPE_ETHERNET)),
            // In Mbit/s; -1 where it does not know.
            speed_bits_per_second: said("speed")
                .and_then(|text| text.parse::<i64>().ok())
                .filter(|&megabits| megabits > 0)
                .map(|megabits| megabits as f64 * 1e6),
        })
    }

    /// Those that a check is about: the one that leads to the peer, or else all that are switched on and lead elsewhere.
    #[must_use]
    pub fn interfaces_in_use(&self) -> Vec<Interface> {
        match self.path.as_ref().and_then(|path| path.interface.as_deref()) {
            Some(name) => self.interface(name).into_iter().collect(),
            None => self.interfaces().into_iter().filter(|each| each.is_up && !each.is_loopback).collect(),
        }
    }
}
