//! Addresses of this device, and whether it can send multicast.
//!
//! Since Android 11 apps cannot list interfaces. There the kernel is asked for the address that it would use towards a target:
//! a datagram socket that is connected and never sends.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};

use if_addrs::IfAddr;
use socket2::{Domain, Socket, Type};

/// Where multicast DNS is spoken.
const GROUP: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(224, 0, 0, 251)), 5353);
/// An empty message of multicast DNS, to find out whether one can be sent.
const EMPTY_QUERY: [u8; 12] = [0; 12];
/// An address for documentation (RFC 5737), reached by the default route.
const ELSEWHERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 9);

/// The address that this device has towards `target`.
pub fn towards(target: SocketAddr) -> io::Result<IpAddr> {
    let any: SocketAddr = if target.is_ipv4() { ([0; 4], 0).into() } else { ([0u16; 8], 0).into() };
    let socket = UdpSocket::bind(any)?;
    socket.connect(target)?;
    Ok(socket.local_addr()?.ip())
}

/// Addresses at which others may reach this device, best first; the likeliest alone where they cannot be listed.
#[must_use]
pub fn addresses() -> Vec<IpAddr> {
    let listed = if_addrs::get_if_addrs().unwrap_or_default();
    let mut found: Vec<IpAddr> = listed.iter().filter(|i| i.is_oper_up()).map(|i| i.ip()).collect();
    if found.iter().all(IpAddr::is_loopback) {
        found.extend(towards(ELSEWHERE));
    }
    let is_local = |ip: &IpAddr| match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        // Without a scope it is no address for others.
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    found.retain(|ip| !ip.is_loopback() && !ip.is_unspecified() && !is_local(ip));
    found.sort_by_key(|ip| (ip.is_ipv6(), usual_last(ip)));
    found.dedup();
    found
}

/// Where others reach what listens at `listen`: at one of this device's addresses, unless it listens at a certain one.
#[must_use]
pub fn reachable(listen: SocketAddr) -> Option<SocketAddr> {
    if !listen.ip().is_unspecified() {
        return Some(listen);
    }
    let fits = |ip: &IpAddr| listen.is_ipv6() || ip.is_ipv4();
    addresses().into_iter().find(fits).map(|ip| SocketAddr::new(ip, listen.port()))
}

/// Those of the addresses that are in a network of this device: who announces others could make it try them, anywhere.
#[must_use]
pub fn near(addrs: &[SocketAddr]) -> Vec<SocketAddr> {
    let networks = Networks::now();
    addrs.iter().filter(|addr| networks.have(addr.ip())).copied().collect()
}

/// The networks that this device is in.
pub(super) struct Networks(Option<Vec<(IpAddr, u8)>>);

impl Networks {
    /// As they are now.
    pub fn now() -> Networks {
        let of = |interface: if_addrs::Interface| match interface.addr {
            IfAddr::V4(v4) => (IpAddr::V4(v4.ip), v4.prefixlen),
            // An address from DHCPv6 has no prefix; networks have one of 64 (RFC 4291, 2.5.4).
            IfAddr::V6(v6) => (IpAddr::V6(v6.ip), v6.prefixlen.min(64)),
        };
        let listed = if_addrs::get_if_addrs().ok();
        Networks(listed.map(|all| all.into_iter().filter(|i| i.is_oper_up() && !i.is_loopback()).map(of).collect()))
    }

    /// Whether the address is in one of them; where they cannot be listed, whether it is a private one.
    pub fn have(&self, ip: IpAddr) -> bool {
        match (&self.0, ip.to_canonical()) {
            (Some(networks), ip) => networks.iter().any(|&(own, prefix)| is_within(own, prefix, ip)),
            (None, IpAddr::V4(ip)) => ip.is_private() || ip.is_link_local(),
            (None, IpAddr::V6(ip)) => ip.is_unique_local() || ip.is_unicast_link_local(),
        }
    }
}

fn is_within(own: IpAddr, prefix: u8, ip: IpAddr) -> bool {
    let differ = match (own, ip) {
        (IpAddr::V4(own), IpAddr::V4(ip)) => u128::from(own.to_bits() ^ ip.to_bits()) << 96,
        (IpAddr::V6(own), IpAddr::V6(ip)) => own.to_bits() ^ ip.to_bits(),
        _ => return false,
    };
    differ.leading_zeros() >= u32::from(prefix)
}

/// Sorts the usual addresses of bridges after those of homes and offices.
fn usual_last(ip: &IpAddr) -> bool {
    matches!(ip, IpAddr::V4(ip) if ip.octets()[0] == 172 && (17..=31).contains(&ip.octets()[1]))
}

/// Why multicast DNS does not work here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoMulticast {
    /// As on Android.
    #[error("this system, like Android, does not allow listing network interfaces ({0})")]
    NotListed(String),
    /// Only loopback, or nothing that is up.
    #[error("no network interface except loopback is up")]
    NoInterface,
    /// The kernel does not send it.
    #[error("cannot send multicast from any interface ({0})")]
    NotSent(String),
}

/// Whether multicast DNS works here; sends an empty message to find out.
pub fn multicast() -> Result<(), NoMulticast> {
    let listed = if_addrs::get_if_addrs().map_err(|error| NoMulticast::NotListed(error.to_string()))?;
    let mut last = NoMulticast::NoInterface;
    for interface in listed.iter().filter(|i| i.is_oper_up() && !i.is_loopback()) {
        let IpAddr::V4(ip) = interface.ip() else { continue };
        match send_from(ip) {
            Ok(()) => return Ok(()),
            Err(error) => last = NoMulticast::NotSent(format!("{}: {error}", interface.name)),
        }
    }
    Err(last)
}

fn send_from(ip: Ipv4Addr) -> io::Result<()> {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
    socket.set_multicast_if_v4(&ip)?;
    // Received on this network only, and not by this device.
    socket.set_multicast_ttl_v4(255)?;
    socket.set_multicast_loop_v4(false)?;
    socket.bind(&SocketAddr::new(ip.into(), 0).into())?;
    socket.send_to(&EMPTY_QUERY, &GROUP.into()).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_says_which_address_it_would_use() {
        assert!(towards(([127, 0, 0, 1], 9).into()).unwrap().is_loopback());
    }

    #[test]
    fn what_is_near_is_in_the_same_network() {
        let networks = Networks(Some(vec![("192.168.1.7".parse().unwrap(), 24), ("fd00::7".parse().unwrap(), 64)]));
        for (ip, is_near) in [
            ("192.168.1.1", true),
            ("192.168.1.255", true),
            ("::ffff:192.168.1.1", true),
            ("192.168.2.1", false),
            ("127.0.0.1", false),
            ("8.8.8.8", false),
            ("fd00::1", true),
            ("fd00:0:0:1::1", false),
            ("::1", false),
        ] {
            assert_eq!(networks.have(ip.parse().unwrap()), is_near, "{ip}");
        }
        let none = Networks(Some(vec![("10.0.0.1".parse().unwrap(), 32), ("10.0.1.1".parse().unwrap(), 0)]));
        assert!(none.have("10.0.0.1".parse().unwrap()) && none.have("8.8.8.8".parse().unwrap()), "of any length");
        assert!(!none.have("fd00::1".parse().unwrap()));
        // As on Android.
        let unknown = Networks(None);
        for (ip, is_near) in [("192.168.2.1", true), ("8.8.8.8", false), ("127.0.0.1", false), ("fe80::1", true)] {
            assert_eq!(unknown.have(ip.parse().unwrap()), is_near, "{ip}");
        }
    }

    #[test]
    fn homes_come_before_bridges_of_this_machine() {
        let mut ips: Vec<IpAddr> =
            ["fd00::1", "172.17.0.1", "192.168.1.2"].iter().map(|text| text.parse().unwrap()).collect();
        ips.sort_by_key(|ip| (ip.is_ipv6(), usual_last(ip)));
        assert_eq!(ips.iter().map(ToString::to_string).collect::<Vec<_>>(), ["192.168.1.2", "172.17.0.1", "fd00::1"]);
    }
}
