//! NBD URIs: the NBD project's "NBD URI format" (doc/uri.md).
//!
//! `nbd://host[:port]/export` over TCP and `nbd+unix:///export?socket=/path` over a unix socket. TLS is refused, not ignored.

use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::str::FromStr;

use flashmob_core::nbd::protocol::STRING_BYTES_MAX;

/// TCP port that IANA assigned to NBD.
const PORT_DEFAULT: u16 = 10809;

/// An export of a server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Uri {
    /// The server's address.
    pub address: Address,
    /// The export's name; empty for the server's default.
    pub export: String,
}

/// A server's address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// A TCP port.
    Tcp {
        /// Name or address; an IPv6 address without brackets.
        host: String,
        /// Port.
        port: u16,
    },
    /// A unix socket.
    Unix {
        /// Its path; one that begins with a NUL is a name in Linux's abstract namespace.
        path: PathBuf,
    },
}

/// Why a text is not a usable NBD URI.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{uri}' cannot be used as an NBD URI: {reason}")]
pub struct UriError {
    /// The text.
    pub uri: String,
    /// The problem and the remedy.
    pub reason: String,
}

impl Uri {
    /// An export at a TCP port.
    #[must_use]
    pub fn tcp(host: &str, port: u16, export: &str) -> Uri {
        Uri { address: Address::Tcp { host: host.into(), port }, export: export.into() }
    }

    /// An export at a unix socket.
    #[must_use]
    pub fn unix(path: impl Into<PathBuf>, export: &str) -> Uri {
        Uri { address: Address::Unix { path: path.into() }, export: export.into() }
    }
}

impl FromStr for Uri {
    type Err = UriError;

    fn from_str(text: &str) -> Result<Uri, UriError> {
        parse(text).map_err(|reason| UriError { uri: text.to_string(), reason })
    }
}

fn parse(text: &str) -> Result<Uri, String> {
    const FORMS: &str = "write nbd://HOST:PORT/EXPORT or nbd+unix:///EXPORT?socket=PATH";
    let (scheme, rest) = text.split_once("://").ok_or(FORMS)?;
    let unix = match scheme.to_ascii_lowercase().as_str() {
        "nbd" => false,
        "nbd+unix" => true,
        "nbds" | "nbds+unix" => return Err("TLS is not supported here; use nbd:// or nbd+unix:// if you may".into()),
        "nbd+vsock" | "nbds+vsock" => return Err(format!("vsock is not supported; {FORMS}")),
        other => return Err(format!("unknown scheme '{other}'; {FORMS}")),
    };
    if rest.contains('#') {
        return Err("it has a fragment ('#'); write %23 if the character belongs to a name".into());
    }
    let (hierarchy, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, path) = hierarchy.split_once('/').unwrap_or((hierarchy, ""));
    let export = export_name(path)?;
    let socket = socket_parameter(query)?;
    let address = match (unix, socket) {
        (true, Some(path)) if authority.is_empty() => Address::Unix { path },
        (true, Some(_)) => {
            return Err(format!(
                "a unix socket has no host, but '{authority}' is given; write three slashes: nbd+unix:///"
            ));
        }
        (true, None) => return Err("the parameter 'socket' is missing; append ?socket=PATH".into()),
        (false, Some(_)) => return Err("'socket' goes with nbd+unix://, not with nbd://".into()),
        (false, None) => tcp_address(authority)?,
    };
    Ok(Uri { address, export })
}

fn export_name(path: &str) -> Result<String, String> {
    let name = String::from_utf8(percent_decode(path)?).map_err(|_| "the export's name is not UTF-8")?;
    if name.contains('\0') {
        return Err("the export's name contains a NUL".into());
    }
    if name.len() > STRING_BYTES_MAX {
        return Err(format!("the export's name has {} bytes; at most {STRING_BYTES_MAX} are allowed", name.len()));
    }
    Ok(name)
}

/// The value of the parameter `socket`, if there is one. Parameters of TLS have no meaning without it; others are errors, as documented.
fn socket_parameter(query: &str) -> Result<Option<PathBuf>, String> {
    let mut socket = None;
    for pair in query.split(['&', ';']).filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        match key {
            "socket" => {
                let path = PathBuf::from(OsString::from_vec(percent_decode(value)?));
                if path.as_os_str().is_empty() {
                    return Err("the parameter 'socket' is empty; write socket=PATH".into());
                }
                if socket.replace(path).is_some() {
                    return Err("the parameter 'socket' is given twice".into());
                }
            }
            "tls-type" | "tls-hostname" | "tls-verify-peer" | "tls-certificates" | "tls-psk-file" => {}
            other => return Err(format!("unknown parameter '{other}'; only 'socket' is known")),
        }
    }
    Ok(socket)
}

fn tcp_address(authority: &str) -> Result<Address, String> {
    // User names are for TLS only.
    let host_port = authority.rsplit_once('@').map_or(authority, |(_, rest)| rest);
    let (host, port) = if let Some(rest) = host_port.strip_prefix('[') {
        let (host, after) = rest.split_once(']').ok_or("the bracket of the IPv6 address is not closed")?;
        host.parse::<std::net::Ipv6Addr>().map_err(|_| format!("'{host}' is not an IPv6 address"))?;
        match after.strip_prefix(':') {
            Some(port) => (host.to_string(), port),
            None if after.is_empty() => (host.to_string(), ""),
            None => return Err(format!("'{after}' follows the IPv6 address; write [ADDRESS]:PORT")),
        }
    } else {
        let (host, port) = host_port.split_once(':').unwrap_or((host_port, ""));
        if port.contains(':') {
            return Err(format!("an IPv6 address needs brackets: [{host_port}]"));
        }
        (String::from_utf8(percent_decode(host)?).map_err(|_| "the host's name is not UTF-8")?, port)
    };
    if host.is_empty() {
        return Err("the host is missing; write nbd://HOST/EXPORT".into());
    }
    let port = match port {
        "" => PORT_DEFAULT,
        digits if digits.bytes().all(|b| b.is_ascii_digit()) => match digits.parse() {
            Ok(port) if port != 0 => port,
            _ => return Err(format!("'{digits}' is not a port; it lies between 1 and 65535")),
        },
        other => return Err(format!("'{other}' is not a port; it lies between 1 and 65535")),
    };
    Ok(Address::Tcp { host, port })
}

/// RFC 3986, section 2.1.
fn percent_decode(text: &str) -> Result<Vec<u8>, String> {
    let hex = |byte: Option<u8>| char::from(byte?).to_digit(16).map(|digit| digit as u8);
    let mut decoded = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'%' => match (hex(bytes.next()), hex(bytes.next())) {
                (Some(high), Some(low)) => high << 4 | low,
                _ => {
                    return Err(
                        "a '%' is not followed by two hexadecimal digits; write %25 for the character itself".into()
                    );
                }
            },
            byte => byte,
        });
    }
    Ok(decoded)
}

/// RFC 3986's unreserved characters and the slash stay, everything else is encoded.
fn percent_encode(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for &b in bytes {
        if b.is_ascii_alphanumeric() || b"-._~/".contains(&b) {
            write!(f, "{}", char::from(b))?;
        } else {
            write!(f, "%{b:02X}")?;
        }
    }
    Ok(())
}

impl fmt::Display for Uri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.address {
            Address::Tcp { host, port } => {
                f.write_str("nbd://")?;
                if host.contains(':') {
                    write!(f, "[{host}]")?;
                } else {
                    percent_encode(host.as_bytes(), f)?;
                }
                write!(f, ":{port}/")?;
                percent_encode(self.export.as_bytes(), f)
            }
            Address::Unix { path } => {
                f.write_str("nbd+unix:///")?;
                percent_encode(self.export.as_bytes(), f)?;
                f.write_str("?socket=")?;
                percent_encode(path.as_os_str().as_bytes(), f)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn reason(text: &str) -> String {
        text.parse::<Uri>().expect_err(text).reason
    }

    #[test]
    fn the_documents_examples_mean_what_it_says() {
        for (text, export) in [
            ("nbd://example.com/disk", "disk"),
            ("nbd://example.com/", ""),
            ("nbd://example.com", ""),
            ("nbd://example.com//disk", "/disk"),
            ("nbd://example.com/hello%20world", "hello world"),
        ] {
            assert_eq!(text.parse(), Ok(Uri::tcp("example.com", 10809, export)), "{text}");
        }
        assert_eq!("nbd+unix:///disk?socket=sock".parse(), Ok(Uri::unix("sock", "disk")));
        assert_eq!("nbd+unix:///?socket=%00/abstract".parse(), Ok(Uri::unix("\0/abstract", "")));
    }

    #[test]
    fn ports_users_and_ipv6_are_understood() {
        assert_eq!("nbd://h:1/x".parse(), Ok(Uri::tcp("h", 1, "x")));
        assert_eq!("nbd://h:65535/".parse(), Ok(Uri::tcp("h", 65535, "")));
        assert_eq!("NBD://alice@h:/x".parse(), Ok(Uri::tcp("h", 10809, "x")));
        assert_eq!("nbd://[::1]:7/x".parse(), Ok(Uri::tcp("::1", 7, "x")));
        assert_eq!("nbd://[::1]".parse(), Ok(Uri::tcp("::1", 10809, "")));
        assert_eq!("nbd://h/x?tls-type=psk".parse(), Ok(Uri::tcp("h", 10809, "x")));
    }

    #[test]
    fn what_cannot_be_used_is_refused_with_the_remedy() {
        for (text, part) in [
            ("", "nbd://HOST:PORT/EXPORT"),
            ("/dev/sda", "nbd://HOST:PORT/EXPORT"),
            ("http://h/x", "unknown scheme 'http'"),
            ("nbds://h/x", "TLS"),
            ("nbds+unix:///x?socket=s", "TLS"),
            ("nbd+vsock://2/x", "vsock"),
            ("nbd:///x", "host is missing"),
            ("nbd://:10809/x", "host is missing"),
            ("nbd://h:0/x", "not a port"),
            ("nbd://h:65536/x", "not a port"),
            ("nbd://h:+1/x", "not a port"),
            ("nbd://::1/x", "brackets"),
            ("nbd://[::1/x", "not closed"),
            ("nbd://[h]/x", "not an IPv6 address"),
            ("nbd://[::1]7/x", "[ADDRESS]:PORT"),
            ("nbd://h/x?socket=s", "goes with nbd+unix"),
            ("nbd+unix:///x", "'socket' is missing"),
            ("nbd+unix:///x?socket=", "'socket' is empty"),
            ("nbd+unix:///x?socket=a&socket=b", "twice"),
            ("nbd+unix://h/x?socket=a", "three slashes"),
            ("nbd+unix:///x?sokcet=a", "unknown parameter 'sokcet'"),
            ("nbd://h/%2", "two hexadecimal digits"),
            ("nbd://h/%+1", "two hexadecimal digits"),
            ("nbd://h/%zz", "two hexadecimal digits"),
            ("nbd://h/%00", "NUL"),
            ("nbd://h/%ff", "not UTF-8"),
            ("nbd://h/x#y", "%23"),
        ] {
            let reason = reason(text);
            assert!(reason.contains(part), "{text}: {reason}");
        }
    }

    #[test]
    fn an_exports_name_may_have_4096_bytes_and_no_more() {
        assert!(format!("nbd://h/{}", "x".repeat(4096)).parse::<Uri>().is_ok());
        assert!(reason(&format!("nbd://h/{}", "x".repeat(4097))).contains("4097 bytes"));
    }

    proptest! {
        #[test]
        fn what_is_shown_is_read_back(export in "[^\0]{0,40}", host in "[a-z0-9.-]{1,20}", port in 1u16.., path in prop::collection::vec(any::<u8>(), 1..60)) {
            let tcp = Uri::tcp(&host, port, &export);
            prop_assert_eq!(tcp.to_string().parse(), Ok(tcp));
            let unix = Uri::unix(OsString::from_vec(path), &export);
            prop_assert_eq!(unix.to_string().parse(), Ok(unix));
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in "(nbd|nbd\\+unix)?(://)?[ -~é]{0,60}") {
            let _ = text.parse::<Uri>();
        }
    }
}
