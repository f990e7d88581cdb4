//! The interface that leads to an address.
//!
//! Asked without root or netlink, which Android denies to apps: a UDP socket is connected, which sends nothing and makes the kernel choose;
//! then whoever has the address that it got is the one.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// `None` if nothing leads there, or nobody says which.
pub(super) fn interface(peer: SocketAddr) -> Option<String> {
    let any: IpAddr = if peer.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect(peer).ok()?;
    let own = socket.local_addr().ok()?.ip();
    // To one's own addresses packets go by the loopback, whoever has them.
    let name = if own == peer.ip() { loopback() } else { None };
    name.or_else(|| holder(own))
}

fn loopback() -> Option<String> {
    holder(Ipv4Addr::LOCALHOST.into()).or_else(|| holder(Ipv6Addr::LOCALHOST.into()))
}

/// Who has this address.
fn holder(own: IpAddr) -> Option<String> {
    let mut list: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: the system fills in the pointer, and it is freed below.
    if unsafe { libc::getifaddrs(&raw mut list) } != 0 {
        return None;
    }
    let mut next = list;
    let mut found = None;
    while !next.is_null() && found.is_none() {
        // SAFETY: an entry of the list, which lives until it is freed.
        let entry = unsafe { &*next };
        // SAFETY: the address is null or one of its family, and the name ends with a NUL.
        if unsafe { address(entry.ifa_addr) } == Some(own) {
            // SAFETY: as above.
            found = unsafe { std::ffi::CStr::from_ptr(entry.ifa_name) }.to_str().ok().map(str::to_string);
        }
        next = entry.ifa_next;
    }
    // SAFETY: what getifaddrs gave, once.
    unsafe { libc::freeifaddrs(list) };
    found
}

/// # Safety
/// Null, or an address of the family that it says.
unsafe fn address(address: *const libc::sockaddr) -> Option<IpAddr> {
    if address.is_null() {
        return None;
    }
    // SAFETY: not null; see above.
    match i32::from(unsafe { (*address).sa_family }) {
        libc::AF_INET => {
            // SAFETY: of this family; it need not lie as Rust would have it.
            let v4 = unsafe { address.cast::<libc::sockaddr_in>().read_unaligned() };
            Some(Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let v6 = unsafe { address.cast::<libc::sockaddr_in6>().read_unaligned() };
            Some(Ipv6Addr::from(v6.sin6_addr.s6_addr).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_leads_to_this_device() {
        assert_eq!(interface("127.0.0.1:9".parse().unwrap()).as_deref(), Some("lo"));
    }
}
