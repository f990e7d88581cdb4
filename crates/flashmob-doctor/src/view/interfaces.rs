//! Network interfaces.
//!
//! `/sys` may be that of another network namespace. So system calls are preferred, and `/sys` is used only for interfaces with the same
//! number.

use std::path::Path;

use super::View;
use crate::change::interface;

/// The kernel's type of Ethernet and similar interfaces, including Wi-Fi (ARPHRD_ETHER).
const TYPE_ETHERNET: u32 = 1;
/// The kernel's types of tunnels that look like Ethernet. Those of programs, such as VPNs, have a file `tun_flags` instead.
const TUNNELS: [&str; 3] = ["vxlan", "geneve", "macsec"];
/// The kernel's flag for an interface that is up (IFF_UP).
const FLAG_UP: u32 = 1;
/// The kernel's flag for the loopback (IFF_LOOPBACK).
const FLAG_LOOPBACK: u32 = 8;

/// One interface.
#[derive(Clone, Debug, PartialEq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its MTU.
    pub mtu_bytes: Option<u32>,
    /// It is up.
    pub is_up: bool,
    /// It is the loopback.
    pub is_loopback: bool,
    /// It is a Wi-Fi interface.
    pub is_wireless: bool,
    /// It is Ethernet and not a tunnel, so its MTU is usually 1,500 bytes.
    pub is_ethernet: bool,
    /// Its speed.
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

    /// The interface of this name; `None` if the name is invalid.
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
            // In Mbit/s; -1 if unknown.
            speed_bits_per_second: said("speed")
                .and_then(|text| text.parse::<i64>().ok())
                .filter(|&megabits| megabits > 0)
                .map(|megabits| megabits as f64 * 1e6),
        })
    }

    /// The interface that leads to the peer, or else all that are up, without the loopback.
    #[must_use]
    pub fn interfaces_in_use(&self) -> Vec<Interface> {
        match self.path.as_ref().and_then(|path| path.interface.as_deref()) {
            Some(name) => self.interface(name).into_iter().collect(),
            None => self.interfaces().into_iter().filter(|each| each.is_up && !each.is_loopback).collect(),
        }
    }
}
