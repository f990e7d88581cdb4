//! The MTU of a path, determined by UDP packets to a closed port.
//!
//! The peer answers such a packet with ICMP "port unreachable", which shows that it arrived. A small one comes first: if it is not answered,
//! nothing is known about large ones. Packets are sent without fragmentation, and the kernel's cached MTU of the path is ignored.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::time::Duration;

use rustix::net::sockopt::{self, Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery};

/// The port of traceroute, where nothing listens.
const PORT: u16 = 33_434;
/// Kernels limit the rate of ICMP errors: repeating after a pause distinguishes that from a loss.
const TRIES: u32 = 3;
const WAIT_MIN: Duration = Duration::from_millis(120);
/// Time after which the rate limit of ICMP errors allows another answer.
const ANSWERS_AGAIN: Duration = Duration::from_millis(1100);
/// Common sizes: PPPoE, tunnels, IPv6's minimum, old modems, IPv4's minimum.
const USUAL: [u32; 8] = [1492, 1472, 1420, 1400, 1280, 1000, 576, 296];
/// Largest packet that is sent; larger ones are for data centres.
const SENT_BYTES_MAX: u32 = 9000;
const SMALL_BYTES: u32 = 64;

/// The findings about a path's MTU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathMtu {
    /// The peer does not answer.
    Unknown,
    /// Packets of the interface's MTU arrive.
    Whole(u32),
    /// A router reports a smaller MTU.
    Told {
        /// Size sent.
        sent_bytes: u32,
        /// The reported MTU.
        mtu_bytes: u32,
    },
    /// Packets of that size vanish.
    Lost {
        /// Size sent.
        sent_bytes: u32,
        /// The largest common size that arrives.
        arrived_bytes: Option<u32>,
    },
}

enum Fate {
    Arrived,
    TooLarge,
    Silent,
}

/// Determines the MTU.
pub(super) fn path_mtu(peer: IpAddr, interface_mtu_bytes: u32, rtt_s: f64) -> PathMtu {
    let wait = WAIT_MIN.max(Duration::from_secs_f64((rtt_s * 3.0).clamp(0.0, 1.0)));
    let sent_bytes = interface_mtu_bytes.min(SENT_BYTES_MAX);
    if !matches!(send(peer, SMALL_BYTES, wait).0, Fate::Arrived) {
        return PathMtu::Unknown;
    }
    match send(peer, sent_bytes, wait) {
        (Fate::Arrived, _) => PathMtu::Whole(sent_bytes),
        (Fate::TooLarge, Some(mtu_bytes)) if mtu_bytes < sent_bytes => PathMtu::Told { sent_bytes, mtu_bytes },
        (Fate::TooLarge, _) => PathMtu::Unknown,
        (Fate::Silent, _) => {
            // The peer may have reached its rate limit: it must still answer a small one.
            if !matches!(send(peer, SMALL_BYTES, wait).0, Fate::Arrived) {
                return PathMtu::Unknown;
            }
            // Or the limit ended in between: kernels allow about one answer per second.
            std::thread::sleep(ANSWERS_AGAIN);
            if matches!(send(peer, sent_bytes, wait).0, Fate::Arrived) {
                return PathMtu::Whole(sent_bytes);
            }
            let smaller: Vec<u32> = USUAL.into_iter().filter(|&size| size < sent_bytes).collect();
            // Sizes below one that arrives arrive as well, so a binary search suffices.
            let first = smaller.partition_point(|&size| !matches!(send(peer, size, wait).0, Fate::Arrived));
            let arrived_bytes = smaller.get(first).copied();
            PathMtu::Lost { sent_bytes, arrived_bytes }
        }
    }
}

/// Sends packets of this size, including headers, until the fate of one is known.
fn send(peer: IpAddr, size_bytes: u32, wait: Duration) -> (Fate, Option<u32>) {
    let Some(socket) = open(peer, wait) else { return (Fate::Silent, None) };
    let header_bytes = if peer.is_ipv4() { 28 } else { 48 };
    let payload = vec![0u8; size_bytes.saturating_sub(header_bytes) as usize];
    for _ in 0..TRIES {
        let fate = match socket.send(&payload) {
            // The answer to an earlier packet.
            Err(error) => fate(&error),
            Ok(_) => match socket.recv(&mut [0; 16]) {
                // A program listens there.
                Ok(_) => Some(Fate::Arrived),
                Err(error) => fate(&error),
            },
        };
        match fate {
            Some(Fate::TooLarge) => return (Fate::TooLarge, known_mtu(&socket, peer)),
            Some(fate) => return (fate, None),
            None => {}
        }
    }
    (Fate::Silent, None)
}

fn fate(error: &std::io::Error) -> Option<Fate> {
    match error.kind() {
        ErrorKind::ConnectionRefused => Some(Fate::Arrived),
        _ if error.raw_os_error() == Some(libc::EMSGSIZE) => Some(Fate::TooLarge),
        _ => None,
    }
}

fn open(peer: IpAddr, wait: Duration) -> Option<UdpSocket> {
    let any: IpAddr = if peer.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    // Otherwise packets would be fragmented and all arrive.
    match peer {
        IpAddr::V4(_) => sockopt::set_ip_mtu_discover(&socket, Ipv4PathMtuDiscovery::PROBE).ok()?,
        IpAddr::V6(_) => sockopt::set_ipv6_mtu_discover(&socket, Ipv6PathMtuDiscovery::PROBE).ok()?,
    }
    socket.set_read_timeout(Some(wait)).ok()?;
    socket.connect((peer, PORT)).ok()?;
    Some(socket)
}

/// The kernel's current value for the path.
fn known_mtu(socket: &UdpSocket, peer: IpAddr) -> Option<u32> {
    if peer.is_ipv4() { sockopt::ip_mtu(socket).ok() } else { sockopt::ipv6_mtu(socket).ok() }
}
