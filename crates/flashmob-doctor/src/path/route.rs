//! The interface that leads to an address.
//!
//! Determined without root or netlink, which Android denies to apps: connecting a UDP socket sends nothing and makes the kernel choose a
//! source address; the interface with that address is the one.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// `None` if there is no route, or the interface cannot be determined.
pub(super) fn interface(peer: SocketAddr) -> Option<String> {
    let any: IpAddr = if peer.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect(peer).ok()?;
    let own = socket.local_addr().ok()?.ip();
    // Packets to the device's own addresses use the loopback.
    let name = if own == peer.ip() { loopback() } else { None };
    name.or_else(|| holder(own))
}

fn loopback() -> Option<String> {
    holder(Ipv4Addr::LOCALHOST.into()).or_else(|| holder(Ipv6Addr::LOCALHOST.into()))
}

/// The interface that has this address.
fn holder(own: IpAddr) -> Option<String> {
    if_addrs::get_if_addrs().ok()?.into_iter().find(|interface| interface.ip() == own).map(|interface| interface.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_leads_to_this_device() {
        assert_eq!(interface("127.0.0.1:9".parse().unwrap()).as_deref(), Some("lo"));
    }
}
