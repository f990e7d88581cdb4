//! Addresses in a lab: the gateway is port 0 of the air, nodes follow; an address identifies its port.

use std::net::Ipv4Addr;

use flashmob_lab::air::Port;

/// The gateway's port.
pub const GATEWAY: Port = Port(0);
/// The network of a lab, and its prefix length in bits.
pub const NETWORK: (Ipv4Addr, u8) = (Ipv4Addr::new(10, 77, 0, 0), 16);
/// Prefix of every hardware address: locally administered, unicast.
const MAC_PREFIX: [u8; 4] = [0x02, b'f', b'm', 0];

/// The port of the node with this number.
#[must_use]
pub fn node(number: u32) -> Port {
    Port(number + 1)
}

/// The IPv4 address of a port: the gateway has .0.1.
#[must_use]
pub fn ip(port: Port) -> Ipv4Addr {
    Ipv4Addr::from_bits(NETWORK.0.to_bits() + 1 + u32::from(low(port)))
}

/// The hardware address of a port.
#[must_use]
pub fn mac(port: Port) -> [u8; 6] {
    let [high, low] = low(port).to_be_bytes();
    let [a, b, c, d] = MAC_PREFIX;
    [a, b, c, d, high, low]
}

/// The port with this hardware address; `None` if it is not an address of a lab.
#[must_use]
pub fn port_of(mac: [u8; 6]) -> Option<Port> {
    let [a, b, c, d, high, low] = mac;
    ([a, b, c, d] == MAC_PREFIX).then(|| Port(u32::from(u16::from_be_bytes([high, low]))))
}

/// There are few ports: see [`super::NODES_MAX`].
fn low(port: Port) -> u16 {
    port.0 as u16
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn the_gateway_is_first_and_nodes_follow() {
        assert_eq!(ip(GATEWAY), Ipv4Addr::new(10, 77, 0, 1));
        assert_eq!(ip(node(0)), Ipv4Addr::new(10, 77, 0, 2));
        assert_eq!(ip(node(254)), Ipv4Addr::new(10, 77, 1, 0));
    }

    #[test]
    fn every_port_has_addresses_of_its_own_that_tell_it() {
        let ports = || (0..=super::super::NODES_MAX).map(Port);
        assert!(ports().all(|port| port_of(mac(port)) == Some(port)));
        assert_eq!(ports().map(ip).collect::<HashSet<_>>().len(), ports().count());
        assert_eq!(port_of([0xff; 6]), None);
        assert_eq!(port_of([0x02, b'f', b'm', 1, 0, 1]), None);
    }

    #[test]
    fn hardware_addresses_are_for_one_receiver_and_local() {
        assert_eq!(mac(GATEWAY)[0] & 0b11, 0b10);
    }
}
