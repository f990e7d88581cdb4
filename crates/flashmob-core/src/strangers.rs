//! Connections whose peer has not said who it is: which of them makes room for a newcomer.
//!
//! A port that anybody reaches is never full of them. A newcomer takes the place of one that is still silent, of the address that has the most, at
//! random: whoever opens many connections displaces their own, and none of many addresses can hold a place for long.

use std::net::{IpAddr, Ipv6Addr};

/// The bytes that are read at once from a peer that has not said who it is.
pub const READ_BYTES: usize = 4096;

/// Who is counted as one: an IPv4 address, or the first 64 bits of an IPv6 address, as each device may use all of the others. Peers without an
/// address (unix sockets) count as one.
#[must_use]
pub fn origin(address: Option<IpAddr>) -> Option<IpAddr> {
    match address?.to_canonical() {
        IpAddr::V6(v6) => {
            let [a, b, c, d, ..] = v6.segments();
            Some(IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0)))
        }
        v4 => Some(v4),
    }
}

/// The connection that makes room for a newcomer, of those whose peer is still unknown: each with its key and address. `random` is any number that peers cannot
/// guess. `None` if there is none.
pub fn to_replace<K: Copy>(unknown: impl Iterator<Item = (K, Option<IpAddr>)>, random: u64) -> Option<K> {
    let mut unknown: Vec<(Option<IpAddr>, K)> = unknown.map(|(key, address)| (origin(address), key)).collect();
    unknown.sort_by_key(|(origin, _)| *origin);
    let groups = || unknown.chunk_by(|a, b| a.0 == b.0);
    let most = groups().map(<[_]>::len).max()?;
    let largest: Vec<K> = groups().filter(|group| group.len() == most).flatten().map(|(_, key)| *key).collect();
    largest.get((random % largest.len() as u64) as usize).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ip(text: &str) -> Option<IpAddr> {
        Some(text.parse().unwrap())
    }

    fn replaced(of: &[Option<IpAddr>]) -> Vec<usize> {
        let mut all: Vec<usize> =
            (0..100).filter_map(|random| to_replace(of.iter().copied().enumerate(), random)).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    #[test]
    fn the_address_with_the_most_makes_room() {
        assert_eq!(replaced(&[]), []);
        assert_eq!(replaced(&[ip("10.0.0.1")]), [0]);
        assert_eq!(replaced(&[ip("10.0.0.1"), ip("10.0.0.2"), ip("10.0.0.1")]), [0, 2]);
        assert_eq!(replaced(&[ip("10.0.0.1"), ip("10.0.0.2")]), [0, 1], "as many: any of them");
        assert_eq!(replaced(&[None, ip("10.0.0.1"), None]), [0, 2], "unix sockets count as one");
    }

    #[test]
    fn one_device_is_one_whatever_address_it_takes() {
        let of = [ip("2001:db8:0:1::1"), ip("2001:db8:0:2::1"), ip("2001:db8:0:1:ffff::9")];
        assert_eq!(replaced(&of), [0, 2], "the same 64 bits");
        assert_eq!(replaced(&[ip("10.0.0.1"), ip("10.0.0.2"), ip("::ffff:10.0.0.1")]), [0, 2], "IPv4 in IPv6");
        assert_eq!(replaced(&[ip("::ffff:10.0.0.1"), ip("::ffff:10.0.0.2"), ip("::ffff:10.0.0.3")]), [0, 1, 2]);
    }

    proptest! {
        /// Whatever the others do, who has one connection keeps it while somebody has more.
        #[test]
        fn one_connection_is_safe_from_who_has_many(mut hosts in prop::collection::vec(0u8..5, 2..64), random: u64) {
            hosts.extend([0, 0]);
            let address = |host: u8| Some(IpAddr::from([10, 0, 0, host]));
            let key = to_replace(hosts.iter().map(|&host| (host, address(host))), random).unwrap();
            prop_assert!(hosts.iter().filter(|&&host| host == key).count() > 1);
        }
    }
}
