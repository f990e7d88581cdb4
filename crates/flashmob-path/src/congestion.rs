//! Congestion control: those available, and that of a socket.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::net::sockopt;

/// Longest name in bytes, with the terminating byte (the kernel's TCP_CA_NAME_MAX).
pub const NAME_BYTES_MAX: usize = 16;

const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";
const SYSTEM: &str = "/proc/sys/net/ipv4/tcp_congestion_control";

/// The algorithms that the kernel has loaded; empty if it does not report them. More may be available as modules.
#[must_use]
pub fn available() -> Vec<String> {
    let text = std::fs::read_to_string(AVAILABLE).unwrap_or_default();
    text.split_whitespace().map(str::to_string).collect()
}

/// The system's default.
#[must_use]
pub fn of_system() -> Option<String> {
    let text = std::fs::read_to_string(SYSTEM).ok()?;
    Some(text.trim().to_string()).filter(|name| !name.is_empty())
}

/// The congestion control of this socket; `None` if it has none.
#[must_use]
pub fn of_socket(fd: BorrowedFd<'_>) -> Option<String> {
    sockopt::tcp_congestion(fd).ok()
}

/// Sets the congestion control of this socket.
///
/// # Errors
/// `NotFound`: the kernel has none of this name. `PermissionDenied`: it has, but only root may choose it
/// (`net.ipv4.tcp_allowed_congestion_control`). `InvalidInput`: not a valid name.
pub fn choose(fd: BorrowedFd<'_>, name: &str) -> io::Result<()> {
    if name.is_empty() || name.len() >= NAME_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a valid name of a congestion control"));
    }
    Ok(sockopt::set_tcp_congestion(fd, name)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::os::fd::AsFd;

    #[test]
    fn a_socket_has_what_was_chosen() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        assert_eq!(of_socket(listener.as_fd()), of_system());
        assert!(available().contains(&"reno".to_string()), "every kernel has it");
        choose(listener.as_fd(), "reno").unwrap();
        assert_eq!(of_socket(listener.as_fd()).as_deref(), Some("reno"));
    }

    #[test]
    fn what_there_is_not_is_refused() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        assert_eq!(choose(listener.as_fd(), "nosuch").unwrap_err().kind(), io::ErrorKind::NotFound);
        for wrong in ["", "sixteen-letters-"] {
            assert_eq!(choose(listener.as_fd(), wrong).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        }
        assert_ne!(choose(listener.as_fd(), "fifteen-letters").unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
