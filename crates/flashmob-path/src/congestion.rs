//! Congestion control: which there are, and which one a socket uses.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Most bytes of a name, with the byte that ends it (the kernel's TCP_CA_NAME_MAX).
pub const NAME_BYTES_MAX: usize = 16;

const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";
const SYSTEM: &str = "/proc/sys/net/ipv4/tcp_congestion_control";

/// What the kernel has loaded; empty if it does not say. More may be had where it loads modules.
#[must_use]
pub fn available() -> Vec<String> {
    let text = std::fs::read_to_string(AVAILABLE).unwrap_or_default();
    text.split_whitespace().map(str::to_string).collect()
}

/// What sockets have that chose none.
#[must_use]
pub fn of_system() -> Option<String> {
    let text = std::fs::read_to_string(SYSTEM).ok()?;
    Some(text.trim().to_string()).filter(|name| !name.is_empty())
}

/// What this socket has; `None` if it has none.
#[must_use]
pub fn of_socket(fd: BorrowedFd<'_>) -> Option<String> {
    let mut name = [0u8; NAME_BYTES_MAX];
    let mut len = NAME_BYTES_MAX as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes, which is the size of `name`, and the descriptor is open.
    let status = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_CONGESTION,
            name.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    let end = name.iter().position(|&b| b == 0).unwrap_or(NAME_BYTES_MAX);
    (status == 0).then(|| String::from_utf8_lossy(&name[..end]).into_owned())
}

/// Chooses one for this socket.
///
/// # Errors
/// `NotFound`: the kernel has none of this name. `PermissionDenied`: it has, but only root may choose it
/// (`net.ipv4.tcp_allowed_congestion_control`). `InvalidInput`: no name.
pub fn choose(fd: BorrowedFd<'_>, name: &str) -> io::Result<()> {
    if name.is_empty() || name.len() >= NAME_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "no name of a congestion control"));
    }
    // SAFETY: the kernel reads `len` bytes, which is the length of `name`, and the descriptor is open.
    let status = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_CONGESTION,
            name.as_ptr().cast(),
            name.len() as libc::socklen_t,
        )
    };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
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
