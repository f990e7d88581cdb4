//! Link-layer headers.

/// EtherTypes.
const ETHER_IPV4: u16 = 0x0800;
const ETHER_IPV6: u16 = 0x86dd;
/// EtherTypes of VLAN tags.
const ETHER_TAGS: [u16; 4] = [0x8100, 0x88a8, 0x9100, 0x9200];
/// Maximum of stacked tags.
const TAGS_MAX: usize = 4;

/// A number of the registry of link types (tcpdump.org/linktypes.html).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LinkType(pub u32);

/// The network layer after the link's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Network {
    Ipv4,
    Ipv6,
    /// IPv4 or IPv6.
    Ip,
    Other,
}

impl LinkType {
    /// Loopback of BSD.
    pub const NULL: LinkType = LinkType(0);
    /// Ethernet.
    pub const ETHERNET: LinkType = LinkType(1);
    /// IP without a link header.
    pub const RAW: LinkType = LinkType(101);
    /// Loopback of OpenBSD.
    pub const LOOP: LinkType = LinkType(108);
    /// `tcpdump -i any`, old.
    pub const LINUX_SLL: LinkType = LinkType(113);
    /// `tcpdump -i any`.
    pub const LINUX_SLL2: LinkType = LinkType(276);

    /// The name in results.
    #[must_use]
    pub fn name(self) -> String {
        match self.0 {
            0 => "null".into(),
            1 => "ethernet".into(),
            12 | 14 | 101 => "raw".into(),
            108 => "loop".into(),
            113 => "linux_sll".into(),
            228 => "ipv4".into(),
            229 => "ipv6".into(),
            276 => "linux_sll2".into(),
            number => format!("link_type_{number}"),
        }
    }

    /// The network layer and its offset; `None` if the link type is unknown or the header is truncated.
    pub(super) fn network(self, data: &[u8]) -> Option<(Network, usize)> {
        match self.0 {
            0 | 108 => family(data.first_chunk::<4>()?, self == LinkType::LOOP).map(|network| (network, 4)),
            1 => tagged(data, 12),
            12 | 14 | 101 => Some((Network::Ip, 0)),
            113 => tagged(data, 14),
            228 => Some((Network::Ipv4, 0)),
            229 => Some((Network::Ipv6, 0)),
            276 => match of_ether_type(number(data, 0)?) {
                // VLAN tags follow its header, which does not end with the EtherType.
                None if ETHER_TAGS.contains(&number(data, 0)?) => tagged(data, 20 + 2),
                network => Some((network.unwrap_or(Network::Other), 20)),
            },
            _ => None,
        }
    }
}

fn number(data: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(data.get(at..at + 2)?.try_into().ok()?))
}

fn of_ether_type(ether_type: u16) -> Option<Network> {
    match ether_type {
        ETHER_IPV4 => Some(Network::Ipv4),
        ETHER_IPV6 => Some(Network::Ipv6),
        _ => None,
    }
}

/// Reads the EtherType at `at`, or after VLAN tags.
fn tagged(data: &[u8], at: usize) -> Option<(Network, usize)> {
    let mut at = at;
    for _ in 0..=TAGS_MAX {
        let ether_type = number(data, at)?;
        if !ETHER_TAGS.contains(&ether_type) {
            return Some((of_ether_type(ether_type).unwrap_or(Network::Other), at + 2));
        }
        at += 4;
    }
    Some((Network::Other, at))
}

/// BSD's loopback header has the address family in the capturing machine's numbering and byte order; OpenBSD's is in network order.
fn family(bytes: &[u8; 4], is_network_order: bool) -> Option<Network> {
    let network = |number: u32| match number {
        2 => Some(Network::Ipv4),
        // Linux, NetBSD and OpenBSD, FreeBSD, macOS.
        10 | 24 | 28 | 30 => Some(Network::Ipv6),
        _ => None,
    };
    let (big, little) = (network(u32::from_be_bytes(*bytes)), network(u32::from_le_bytes(*bytes)));
    if is_network_order { big.or(Some(Network::Other)) } else { big.or(little).or(Some(Network::Other)) }
}
