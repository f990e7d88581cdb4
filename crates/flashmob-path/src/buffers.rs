//! Socket buffers: their limits, and the sizes that a path needs.
//!
//! A connection transfers at most one window per round trip, so a window needs the bandwidth-delay product of its path (RFC 7323, section
//! 1.1). The kernel grows windows up to the third value of `net.ipv4.tcp_rmem` and `tcp_wmem`; setting a size with SO_RCVBUF or SO_SNDBUF
//! ends that, and gives at most `net.core.rmem_max` or `wmem_max`.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::net::UnixDatagram;

use rustix::net::sockopt;

pub mod rule;

/// The three values of `tcp_rmem` or `tcp_wmem`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Autotuning {
    /// Minimum size, even under memory pressure.
    pub min_bytes: u64,
    /// Initial size.
    pub default_bytes: u64,
    /// Maximum size.
    pub max_bytes: u64,
}

/// One of a socket's two buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Buffer {
    /// SO_RCVBUF.
    Receive,
    /// SO_SNDBUF.
    Send,
}

impl Buffer {
    /// The `sysctl` name of the autotuning limits.
    #[must_use]
    pub fn autotuning_name(self) -> &'static str {
        match self {
            Buffer::Receive => "net.ipv4.tcp_rmem",
            Buffer::Send => "net.ipv4.tcp_wmem",
        }
    }

    /// The `sysctl` name of the limit for sizes set by a program.
    #[must_use]
    pub fn limit_name(self) -> &'static str {
        match self {
            Buffer::Receive => "net.core.rmem_max",
            Buffer::Send => "net.core.wmem_max",
        }
    }
}

/// The autotuning limits; `None` if the system does not report them.
#[must_use]
pub fn autotuning(buffer: Buffer) -> Option<Autotuning> {
    parse(&read(buffer.autotuning_name())?)
}

/// The largest size that a program may set; `None` if the system does not report it, as older kernels in a network namespace of their own
/// (a container): use [`tried_limit_bytes`] then.
#[must_use]
pub fn limit_bytes(buffer: Buffer) -> Option<u64> {
    read(buffer.limit_name())?.trim().parse().ok()
}

/// The largest size that a program may set, determined with a new socket: trying it with one in use could shrink its buffer for good.
/// `None` if that fails.
#[must_use]
pub fn tried_limit_bytes(buffer: Buffer) -> Option<u64> {
    let socket = UnixDatagram::unbound().ok()?;
    set(socket.as_fd(), buffer, u64::MAX).ok().map(|has_bytes| has_bytes / 2)
}

/// Parses the three values.
#[must_use]
pub fn parse(text: &str) -> Option<Autotuning> {
    let mut numbers = text.split_whitespace().map(|word| word.parse::<u64>().ok());
    let (min_bytes, default_bytes, max_bytes) = (numbers.next()??, numbers.next()??, numbers.next()??);
    numbers.next().is_none().then_some(Autotuning { min_bytes, default_bytes, max_bytes })
}

fn read(name: &str) -> Option<String> {
    std::fs::read_to_string(format!("/proc/sys/{}", name.replace('.', "/"))).ok()
}

/// The size of a socket's buffer as the kernel counts it, including its own records: about twice the capacity.
///
/// # Errors
/// The system's.
pub fn of_socket(fd: BorrowedFd<'_>, buffer: Buffer) -> io::Result<u64> {
    let bytes = match buffer {
        Buffer::Receive => sockopt::socket_recv_buffer_size(fd)?,
        Buffer::Send => sockopt::socket_send_buffer_size(fd)?,
    };
    Ok(bytes as u64)
}

/// Sets the size of a socket's buffer; the kernel doubles it, cuts it to its limit, and stops growing it. Returns the resulting size.
///
/// # Errors
/// The system's.
pub fn set(fd: BorrowedFd<'_>, buffer: Buffer, bytes: u64) -> io::Result<u64> {
    let bytes = bytes.min(i32::MAX as u64) as usize;
    match buffer {
        Buffer::Receive => sockopt::set_socket_recv_buffer_size(fd, bytes)?,
        Buffer::Send => sockopt::set_socket_send_buffer_size(fd, bytes)?,
    }
    of_socket(fd, buffer)
}

/// Enlarges the buffer of an established connection: [`set`], and for receiving TCP_WINDOW_CLAMP as well, which would keep the window at
/// its size. The window scale was negotiated when the connection was made, for the largest buffer that a program may set. Returns the
/// resulting size.
///
/// # Errors
/// The system's.
pub fn raise(fd: BorrowedFd<'_>, buffer: Buffer, bytes: u64) -> io::Result<u64> {
    let has_bytes = set(fd, buffer, bytes)?;
    if buffer == Buffer::Receive {
        let clamp = i32::try_from(has_bytes / 2).unwrap_or(i32::MAX);
        set_option(fd, libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP, clamp)?;
    }
    Ok(has_bytes)
}

/// Sets an option of a socket whose value is a number.
///
/// # Errors
/// The system's.
pub fn set_option(fd: BorrowedFd<'_>, level: libc::c_int, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
    let len = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the kernel reads as many bytes as `value` has, and the descriptor is open.
    let status = unsafe { libc::setsockopt(fd.as_raw_fd(), level, option, (&raw const value).cast(), len) };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The bandwidth-delay product: the bytes in flight on a fully used path.
#[must_use]
pub fn bandwidth_delay_bytes(bits_per_second: f64, rtt_s: f64) -> f64 {
    bits_per_second / 8.0 * rtt_s
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn the_system_says_what_it_allows() {
        let receive = autotuning(Buffer::Receive).unwrap();
        assert!(receive.min_bytes <= receive.default_bytes && receive.default_bytes <= receive.max_bytes);
        assert!(autotuning(Buffer::Send).is_some());
    }

    #[test]
    fn what_is_tried_is_what_the_system_says() {
        for buffer in [Buffer::Receive, Buffer::Send] {
            let said = limit_bytes(buffer).map(|bytes| bytes.min(i32::MAX as u64 / 2));
            let tried = tried_limit_bytes(buffer);
            assert!(tried.is_some() && (said.is_none() || said == tried), "{buffer:?}: {said:?}, {tried:?}");
        }
    }

    #[test]
    fn three_numbers_and_nothing_else() {
        assert_eq!(
            parse("4096\t131072\t6291456\n"),
            Some(Autotuning { min_bytes: 4096, default_bytes: 131_072, max_bytes: 6_291_456 })
        );
        for wrong in ["", "1 2", "1 2 3 4", "1 2 x", "1 -2 3"] {
            assert_eq!(parse(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_set_buffer_is_doubled() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        assert_eq!(set(listener.as_fd(), Buffer::Receive, 32_768).unwrap(), 65_536);
        assert_eq!(of_socket(listener.as_fd(), Buffer::Receive).unwrap(), 65_536);
    }

    #[test]
    fn a_path_of_100_mbit_and_40_ms_holds_500_kb() {
        assert!((bandwidth_delay_bytes(100e6, 0.04) - 500_000.0).abs() < 1e-6);
    }
}
