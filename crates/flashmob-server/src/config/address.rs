//! Addresses in a configuration: of nodes (`host:port`), of listeners (`ip:port` or `unix:path`). Names are not resolved
//! here, but when a connection is made.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::path::{Path, PathBuf};

use super::limits::{NODE_PORT, SOCKET_PATH_BYTES_MAX};
use super::types::Listen;

/// The longest host name of the DNS, in bytes (RFC 1035, section 2.3.4).
const HOST_BYTES_MAX: usize = 253;
/// The longest part between two dots of it.
const LABEL_BYTES_MAX: usize = 63;
/// The prefix of a listener's path.
const UNIX_PREFIX: &str = "unix:";

/// Why a text is not an address. The message says what to write instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// Nothing where the host should be.
    #[error("must be a host and a port, such as 192.168.1.11:7411 or tablet.local:7411")]
    NoHost,
    /// Letters that no host name has.
    #[error("must be a host name of letters, digits, dots and hyphens, or an IP address; no scheme and no path")]
    BadHost,
    /// Digits and dots, but no IPv4 address.
    #[error("an IPv4 address is four numbers from 0 to 255, such as 192.168.1.11")]
    BadIpv4,
    /// Several colons without brackets.
    #[error("write an IPv6 address in brackets, such as [fd00::11]:7411")]
    Brackets,
    /// In brackets, but no IPv6 address.
    #[error("write an IPv6 address in brackets, such as [fd00::11]:7411; an interface as its number, [fe80::1%3]:7411")]
    BadIpv6,
    /// Not a number from 1 to 65535, or from 0 for a listener.
    #[error("a port is a number from 1 to 65535")]
    BadPort,
    /// A host name where only an IP address makes sense.
    #[error("write the IP address to listen on: 127.0.0.1 for this machine only, 0.0.0.0 for whoever can reach it")]
    NotAnIp,
    /// `unix:` and nothing else, or more than fits a socket's address.
    #[error("write a path of 1 to 107 bytes after unix:, the folder of this file included if it is relative")]
    BadSocketPath,
}

/// Checks `host[:port]` and gives it back with its port: names as they are, IP addresses in their usual form.
///
/// IPv6 stands in brackets. Without a port it is 7411.
pub fn parse_node_address(text: &str) -> Result<String, AddressError> {
    parse_node_address_at(text, NODE_PORT)
}

/// The same, with another default port.
pub(super) fn parse_node_address_at(text: &str, default_port: u16) -> Result<String, AddressError> {
    if text.starts_with('[') {
        return Ok(bracketed(text, default_port, 1)?.to_string());
    }
    let (host, port) = host_and_port(text, default_port, 1)?;
    if host.len() > HOST_BYTES_MAX || !host.split('.').all(is_label) {
        return Err(AddressError::BadHost);
    }
    // No host name ends in a number (RFC 3696, section 2): it is a mistyped address.
    let last = host.rsplit('.').next().unwrap_or_default();
    if last.bytes().all(|b| b.is_ascii_digit()) && host.parse::<Ipv4Addr>().is_err() {
        return Err(AddressError::BadIpv4);
    }
    Ok(format!("{host}:{port}"))
}

/// Parses `ip[:port]`; without a port it is `default_port`. Port 0 lets the kernel choose.
pub fn parse_ip_address(text: &str, default_port: u16) -> Result<SocketAddr, AddressError> {
    if text.starts_with('[') {
        return bracketed(text, default_port, 0);
    }
    let (host, port) = host_and_port(text, default_port, 0)?;
    match host.parse::<Ipv4Addr>() {
        Ok(ip) => Ok(SocketAddr::new(IpAddr::V4(ip), port)),
        Err(_) if host.bytes().all(|b| b.is_ascii_digit() || b == b'.') => Err(AddressError::BadIpv4),
        Err(_) => Err(AddressError::NotAnIp),
    }
}

/// Parses `ip[:port]` or `unix:path`; a relative path starts at `base_dir`.
pub fn parse_listen(text: &str, default_port: u16, base_dir: &Path) -> Result<Listen, AddressError> {
    let Some(path) = text.strip_prefix(UNIX_PREFIX) else {
        return parse_ip_address(text, default_port).map(Listen::Tcp);
    };
    if path.is_empty() || path.contains('\0') || path.ends_with('/') {
        return Err(AddressError::BadSocketPath);
    }
    let path = tidy(&base_dir.join(path));
    if path.as_os_str().len() > SOCKET_PATH_BYTES_MAX {
        return Err(AddressError::BadSocketPath);
    }
    Ok(Listen::Unix(path))
}

/// The path without `.` and doubled slashes. `..` stays: what it means depends on symbolic links.
#[must_use]
pub fn tidy(path: &Path) -> PathBuf {
    path.components().filter(|part| !matches!(part, std::path::Component::CurDir)).collect()
}

fn host_and_port(text: &str, default_port: u16, port_min: u16) -> Result<(&str, u16), AddressError> {
    let (host, port) = match text.split_once(':') {
        Some((_, rest)) if text.parse::<Ipv6Addr>().is_ok() || rest.contains("::") => {
            return Err(AddressError::Brackets);
        }
        Some((host, port)) if port.contains(':') => {
            // "http://tablet:7411" is not an IPv6 address without brackets.
            let colons = host.bytes().all(|b| b.is_ascii_hexdigit());
            return Err(if colons { AddressError::Brackets } else { AddressError::BadHost });
        }
        Some((host, port)) => (host, parse_port(port, port_min)?),
        None => (text, default_port),
    };
    if host.is_empty() { Err(AddressError::NoHost) } else { Ok((host, port)) }
}

fn bracketed(text: &str, default_port: u16, port_min: u16) -> Result<SocketAddr, AddressError> {
    let (ip, rest) = text[1..].split_once(']').ok_or(AddressError::BadIpv6)?;
    let port = match rest.strip_prefix(':') {
        Some(port) => parse_port(port, port_min)?,
        None if rest.is_empty() => default_port,
        None => return Err(AddressError::BadIpv6),
    };
    // The standard library reads a scope only as part of a whole address.
    let address = format!("[{ip}]:{port}").parse::<SocketAddrV6>().map_err(|_| AddressError::BadIpv6)?;
    Ok(SocketAddr::V6(address))
}

fn parse_port(text: &str, min: u16) -> Result<u16, AddressError> {
    // `parse` alone would accept a plus sign.
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|&port: &u16| digits && port >= min).ok_or(AddressError::BadPort)
}

fn is_label(label: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    (1..=LABEL_BYTES_MAX).contains(&label.len())
        && label.bytes().all(allowed)
        && !label.starts_with('-')
        && !label.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_addresses_get_their_port_and_usual_form() {
        for (text, address) in [
            ("192.168.1.11:7411", "192.168.1.11:7411"),
            ("192.168.1.11", "192.168.1.11:7411"),
            ("tablet.local", "tablet.local:7411"),
            ("Tablet-1:1", "Tablet-1:1"),
            ("a_b:65535", "a_b:65535"),
            ("[::1]", "[::1]:7411"),
            ("[FD00:0::11]:9", "[fd00::11]:9"),
            ("[fe80::1%3]:7411", "[fe80::1%3]:7411"),
        ] {
            assert_eq!(parse_node_address(text).as_deref(), Ok(address), "{text}");
            assert_eq!(parse_node_address(address).as_deref(), Ok(address), "{address} again");
        }
        let longest = format!("{0}.{0}.{0}.{1}", "a".repeat(63), "b".repeat(61));
        assert_eq!(longest.len(), HOST_BYTES_MAX);
        assert!(parse_node_address(&longest).is_ok());
    }

    #[test]
    fn what_is_no_node_address_is_refused_with_what_to_write() {
        let long_name = format!("{0}.{0}.{0}.{1}", "a".repeat(63), "b".repeat(62));
        let long_label = "a".repeat(64);
        for (text, why) in [
            ("", AddressError::NoHost),
            (":7411", AddressError::NoHost),
            ("192.168.1", AddressError::BadIpv4),
            ("192.168.1.256:7411", AddressError::BadIpv4),
            ("7411", AddressError::BadIpv4),
            ("tablet:0", AddressError::BadPort),
            ("tablet:65536", AddressError::BadPort),
            ("tablet:", AddressError::BadPort),
            ("tablet:+1", AddressError::BadPort),
            ("::1", AddressError::Brackets),
            ("fe80::1:7411", AddressError::Brackets),
            ("[::1", AddressError::BadIpv6),
            ("[::1]7411", AddressError::BadIpv6),
            ("[fe80::1%wlan0]:7411", AddressError::BadIpv6),
            ("[127.0.0.1]:7411", AddressError::BadIpv6),
            ("http://tablet:7411", AddressError::BadHost),
            ("tablet/x", AddressError::BadHost),
            ("a..b", AddressError::BadHost),
            ("-a", AddressError::BadHost),
            ("a-", AddressError::BadHost),
            ("two words", AddressError::BadHost),
            (&long_name, AddressError::BadHost),
            (&long_label, AddressError::BadHost),
        ] {
            assert_eq!(parse_node_address(text), Err(why), "{text}");
        }
    }

    #[test]
    fn listeners_are_ip_addresses_or_paths() {
        let listen = |text: &str| parse_listen(text, 10809, Path::new("/etc/flashmob"));
        assert_eq!(listen("127.0.0.1"), Ok(Listen::Tcp(([127, 0, 0, 1], 10809).into())));
        assert_eq!(listen("0.0.0.0:0"), Ok(Listen::Tcp(([0, 0, 0, 0], 0).into())));
        assert_eq!(listen("[::]:1"), Ok(Listen::Tcp((Ipv6Addr::UNSPECIFIED, 1).into())));
        assert_eq!(listen("unix:/run//./nbd.sock"), Ok(Listen::Unix("/run/nbd.sock".into())));
        assert_eq!(listen("unix:nbd.sock"), Ok(Listen::Unix("/etc/flashmob/nbd.sock".into())));
        assert_eq!(listen("localhost:10809"), Err(AddressError::NotAnIp));
        assert_eq!(listen("127.0.0.1.1"), Err(AddressError::BadIpv4));
        assert_eq!(listen("::1"), Err(AddressError::Brackets));
        assert_eq!(listen(""), Err(AddressError::NoHost));
        for text in ["unix:", "unix:/", "unix:/run/", "unix:/a\0b"] {
            assert_eq!(listen(text), Err(AddressError::BadSocketPath), "{text:?}");
        }
        let path = |len: usize| format!("unix:/{}", "s".repeat(len - 1));
        assert!(listen(&path(SOCKET_PATH_BYTES_MAX)).is_ok());
        assert_eq!(listen(&path(SOCKET_PATH_BYTES_MAX + 1)), Err(AddressError::BadSocketPath));
    }
}
