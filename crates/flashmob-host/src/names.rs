//! Resolving host names with the system's resolver, where there is one.
//!
//! Android has no /etc/resolv.conf: its apps use a system service that this C library does not support. Without the file the C library
//! would query the device itself and wait for many seconds. So addresses bypass the resolver, and on Android a name is an error that says
//! what to write instead.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::Path;

use super::is_android;

/// The addresses of a host, in the order in which to try them. Blocks while the resolver does.
pub fn addresses_of(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    with_resolver(host, port, !is_android() || Path::new("/etc/resolv.conf").exists())
}

/// The addresses of `host:port`, an IPv6 address in brackets.
pub fn addresses_of_authority(authority: &str) -> io::Result<Vec<SocketAddr>> {
    if let Ok(address) = authority.parse() {
        return Ok(vec![address]);
    }
    let parts = authority.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
    let (host, port) = parts.ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidInput, "write a host and a port, such as 192.168.1.11:7411")
    })?;
    addresses_of(host, port)
}

fn with_resolver(host: &str, port: u16, has_resolver: bool) -> io::Result<Vec<SocketAddr>> {
    if let Ok(ip) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(ip, port)]);
    }
    // Android's hosts file has this one.
    if !has_resolver && host != "localhost" {
        return Err(io::Error::new(
            io::ErrorKind::Unsupported,
            format!(
                "'{host}' is a name, and on Android only apps can look names up; write the address, such as 192.168.1.11"
            ),
        ));
    }
    Ok((host, port).to_socket_addrs()?.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_need_no_resolver() {
        for (text, expected) in [("192.168.1.11", "192.168.1.11:7411"), ("fd00::11", "[fd00::11]:7411")] {
            assert_eq!(with_resolver(text, 7411, false).unwrap(), [expected.parse().unwrap()]);
            assert_eq!(addresses_of_authority(expected).unwrap(), [expected.parse().unwrap()]);
        }
    }

    #[test]
    fn a_name_without_a_resolver_says_what_to_write() {
        let error = with_resolver("tablet.local", 7411, false).unwrap_err();
        assert!(error.to_string().contains("write the address"), "{error}");
        assert!(addresses_of_authority("tablet").is_err());
    }
}
