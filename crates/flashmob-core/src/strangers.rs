//! Connections whose peer has not said who it is: which of them makes room for a newcomer.
//!
//! A port that anybody reaches is never full of them. A newcomer takes the place of one that has proven nothing, of the address that has the most: whoever
//! opens many connections displaces their own. Where all have as many, the one goes that has made no progress for longest. Progress has few steps, so nobody
//! keeps a place, and everybody has as long for the next step as newcomers need to fill all places.

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

/// A connection that has proven nothing.
#[derive(Debug, Clone, Copy)]
pub struct Unproven<K, T> {
    /// The key by which its owner knows it.
    pub key: K,
    /// The address of its peer.
    pub from: Option<IpAddr>,
    /// Whether that address was let in lately.
    pub was_let_in: bool,
    /// When it last made a step, in any unit: bytes alone are none.
    pub stepped: T,
}

/// The connection that makes room for a newcomer; `None` if there is none.
///
/// Addresses that were let in make no room for strangers, unless they have more than half of the places.
pub fn to_replace<K: Copy, T: Ord + Copy>(unproven: impl Iterator<Item = Unproven<K, T>>) -> Option<K> {
    let (let_in, strangers): (Vec<_>, Vec<_>) = unproven.partition(|conn| conn.was_let_in);
    let mut candidates = if strangers.len() >= let_in.len() { strangers } else { let_in };
    candidates.sort_by_key(|conn| origin(conn.from));
    let groups = || candidates.chunk_by(|a, b| origin(a.from) == origin(b.from));
    let most = groups().map(<[_]>::len).max()?;
    let largest = groups().filter(|group| group.len() == most).flatten();
    largest.min_by_key(|conn| conn.stepped).map(|conn| conn.key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ip(text: &str) -> Option<IpAddr> {
        Some(text.parse().unwrap())
    }

    /// The connection that makes room, by the place in this list, in which the one that stepped longest ago is first.
    fn replaced(of: &[Option<IpAddr>]) -> Option<usize> {
        let unproven =
            |(at, from): (usize, &Option<IpAddr>)| Unproven { key: at, from: *from, was_let_in: false, stepped: at };
        to_replace(of.iter().enumerate().map(unproven))
    }

    #[test]
    fn the_address_with_the_most_makes_room_and_of_those_the_one_without_progress() {
        assert_eq!(replaced(&[]), None);
        assert_eq!(replaced(&[ip("10.0.0.1")]), Some(0));
        assert_eq!(replaced(&[ip("10.0.0.2"), ip("10.0.0.1"), ip("10.0.0.3"), ip("10.0.0.1")]), Some(1));
        assert_eq!(replaced(&[ip("10.0.0.2"), ip("10.0.0.1")]), Some(0), "as many: the one without progress");
        assert_eq!(replaced(&[ip("10.0.0.1"), None, None]), Some(1), "unix sockets count as one");
    }

    #[test]
    fn one_device_is_one_whatever_address_it_takes() {
        let of = [ip("2001:db8:0:2::1"), ip("2001:db8:0:1::1"), ip("2001:db8:0:1:ffff::9")];
        assert_eq!(replaced(&of), Some(1), "the same 64 bits");
        assert_eq!(replaced(&[ip("10.0.0.2"), ip("10.0.0.1"), ip("::ffff:10.0.0.1")]), Some(1), "IPv4 in IPv6");
        assert_eq!(replaced(&[ip("::ffff:10.0.0.1"), ip("::ffff:10.0.0.2"), ip("::ffff:10.0.0.3")]), Some(0));
    }

    #[test]
    fn who_was_let_in_makes_no_room_for_strangers_and_takes_no_more_than_half() {
        let port = |let_in: usize, strangers: usize| {
            let unproven = move |key: usize| {
                let was_let_in = key < let_in;
                let host = if was_let_in { 1 } else { key as u8 };
                Unproven {
                    key,
                    from: Some(IpAddr::from([10, 0, u8::from(was_let_in), host])),
                    was_let_in,
                    stepped: key,
                }
            };
            to_replace((0..let_in + strangers).map(unproven))
        };
        assert_eq!(port(3, 4), Some(3), "a stranger, though the others are of one address and older");
        assert_eq!(port(4, 4), Some(4));
        assert_eq!(port(5, 4), Some(0), "more than half");
        assert_eq!(port(5, 0), Some(0));
    }

    proptest! {
        /// Whatever the others do, who has one connection keeps it while a stranger has more.
        #[test]
        fn one_connection_is_safe_from_who_has_many(mut hosts in prop::collection::vec(0u8..5, 2..64), salt: u8) {
            hosts.extend([0, 0]);
            let unproven = |&host: &u8| Unproven {
                key: host,
                from: Some(IpAddr::from([10, 0, 0, host])),
                was_let_in: false,
                stepped: host ^ salt,
            };
            let key = to_replace(hosts.iter().map(unproven)).unwrap();
            prop_assert!(hosts.iter().filter(|&&host| host == key).count() > 1);
        }
    }
}
