//! How large packets may be on a path, asked by UDP to a port where nobody listens.
//!
//! A device answers such a packet by ICMP that the port is closed, and that is how one learns that it arrived. First a small one: if that
//! is not answered, nothing is known of large ones either. Packets are not to be cut into pieces, and what the kernel believes of the path
//! is put aside.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::time::Duration;

use rustix::net::sockopt::{self, Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery};

/// The port where traceroute expects nobody.
const PORT: u16 = 33_434;
/// Kernels answer only so many closed ports in a second: waiting a little and asking again tells that from a loss.
const TRIES: u32 = 3;
const WAIT_MIN: Duration = Duration::from_millis(120);
/// After so long a kernel that had answered too often answers again.
const ANSWERS_AGAIN: Duration = Duration::from_millis(1100);
/// Sizes that occur: PPPoE, tunnels of several kinds, IPv6's least, old modems, IPv4's least.
const USUAL: [u32; 8] = [1492, 1472, 1420, 1400, 1280, 1000, 576, 296];
/// Above it packets are for the inside of a data centre; a path elsewhere is not judged by them.
const SENT_BYTES_MAX: u32 = 9000;
const SMALL_BYTES: u32 = 64;

/// What is known of a path's largest packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathMtu {
    /// The peer answers no such question.
    Unknown,
    /// Packets as large as the interface sends arrive.
    Whole(u32),
    /// They do not, and somebody on the way says how large they may be.
    Told {
        /// What was sent.
        sent_bytes: u32,
        /// What may be.
        mtu_bytes: u32,
    },
    /// They vanish.
    Lost {
        /// What was sent.
        sent_bytes: u32,
        /// The largest of the usual sizes that arrives.
        arrived_bytes: Option<u32>,
    },
}

enum Fate {
    Arrived,
    TooLarge,
    Silent,
}

/// Asks.
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
            // The peer may just have had enough of being asked: it must still answer a small one.
            if !matches!(send(peer, SMALL_BYTES, wait).0, Fate::Arrived) {
                return PathMtu::Unknown;
            }
            // Or it was still silent then and had begun to answer again: kernels give each asker about one answer a second.
            std::thread::sleep(ANSWERS_AGAIN);
            if matches!(send(peer, sent_bytes, wait).0, Fate::Arrived) {
                return PathMtu::Whole(sent_bytes);
            }
            let smaller: Vec<u32> = USUAL.into_iter().filter(|&size| size < sent_bytes).collect();
            // What is smaller than one that arrives arrives as well, so that not all need to be sent.
            let first = smaller.partition_point(|&size| !matches!(send(peer, size, wait).0, Fate::Arrived));
            let arrived_bytes = smaller.get(first).copied();
            PathMtu::Lost { sent_bytes, arrived_bytes }
        }
    }
}

/// Sends packets of this size, headers included, until something is known of one.
fn send(peer: IpAddr, size_bytes: u32, wait: Duration) -> (Fate, Option<u32>) {
    let Some(socket) = open(peer, wait) else { return (Fate::Silent, None) };
    let header_bytes = if peer.is_ipv4() { 28 } else { 48 };
    let payload = vec![0u8; size_bytes.saturating_sub(header_bytes) as usize];
    for _ in 0..TRIES {
        let fate = match socket.send(&payload) {
            // What came back for an earlier one is told here.
            Err(error) => fate(&error),
            Ok(_) => match socket.recv(&mut [0; 16]) {
                // Somebody listens after all.
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
