//! Socket buffers: how large they may become, and how large a path wants them.
//!
//! A connection moves at most a window each round trip, so a window has to hold what the path does: bandwidth times delay
//! (RFC 7323, section 1.1). The kernel grows windows by itself up to the third value of `net.ipv4.tcp_rmem` and `tcp_wmem`; a program that
//! sets a size with SO_RCVBUF or SO_SNDBUF ends that, and gets at most `net.core.rmem_max` or `wmem_max`.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::net::UnixDatagram;

pub mod rule;

/// Three values of `tcp_rmem` or `tcp_wmem`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Autotuning {
    /// Kept even when memory is short.
    pub min_bytes: u64,
    /// What a socket begins with.
    pub default_bytes: u64,
    /// What it grows to at most.
    pub max_bytes: u64,
}

/// Which of the two buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Buffer {
    /// SO_RCVBUF.
    Receive,
    /// SO_SNDBUF.
    Send,
}

impl Buffer {
    /// The kernel's setting for buffers that grow by themselves, as `sysctl` names it.
    #[must_use]
    pub fn autotuning_name(self) -> &'static str {
        match self {
            Buffer::Receive => "net.ipv4.tcp_rmem",
            Buffer::Send => "net.ipv4.tcp_wmem",
        }
    }

    /// The kernel's limit for buffers that a program sets, as `sysctl` names it.
    #[must_use]
    pub fn limit_name(self) -> &'static str {
        match self {
            Buffer::Receive => "net.core.rmem_max",
            Buffer::Send => "net.core.wmem_max",
        }
    }

    fn option(self) -> libc::c_int {
        match self {
            Buffer::Receive => libc::SO_RCVBUF,
            Buffer::Send => libc::SO_SNDBUF,
        }
    }
}

/// What buffers grow to by themselves; `None` if the system does not say.
#[must_use]
pub fn autotuning(buffer: Buffer) -> Option<Autotuning> {
    parse(&read(buffer.autotuning_name())?)
}

/// What a program may set at most; `None` if the system does not say. In a network namespace of its own, a container's for instance, older
/// kernels do not: [`tried_limit_bytes`] does.
#[must_use]
pub fn limit_bytes(buffer: Buffer) -> Option<u64> {
    read(buffer.limit_name())?.trim().parse().ok()
}

/// What a program may set at most, found out with a socket that nobody uses: to try it with one that is used might make its buffer smaller,
/// for good. `None` if even that is not allowed.
#[must_use]
pub fn tried_limit_bytes(buffer: Buffer) -> Option<u64> {
    let socket = UnixDatagram::unbound().ok()?;
    set(socket.as_fd(), buffer, u64::MAX).ok().map(|has_bytes| has_bytes / 2)
}

/// Reads three numbers.
#[must_use]
pub fn parse(text: &str) -> Option<Autotuning> {
    let mut numbers = text.split_whitespace().map(|word| word.parse::<u64>().ok());
    let (min_bytes, default_bytes, max_bytes) = (numbers.next()??, numbers.next()??, numbers.next()??);
    numbers.next().is_none().then_some(Autotuning { min_bytes, default_bytes, max_bytes })
}

fn read(name: &str) -> Option<String> {
    std::fs::read_to_string(format!("/proc/sys/{}", name.replace('.', "/"))).ok()
}

/// The size of a socket's buffer as the kernel counts it: with room for its own records, about twice what fits in.
///
/// # Errors
/// The system's.
pub fn of_socket(fd: BorrowedFd<'_>, buffer: Buffer) -> io::Result<u64> {
    let mut value: libc::c_int = 0;
    let mut len = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes, which is the size of `value`, and the descriptor is open.
    let status = unsafe {
        libc::getsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, buffer.option(), (&raw mut value).cast(), &raw mut len)
    };
    if status == 0 { Ok(u64::try_from(value).unwrap_or(0)) } else { Err(io::Error::last_os_error()) }
}

/// Sets a socket's buffer; the kernel doubles it, cuts it to its limit, and does not grow it any more. Returns what it has then.
///
/// # Errors
/// The system's.
pub fn set(fd: BorrowedFd<'_>, buffer: Buffer, bytes: u64) -> io::Result<u64> {
    let value = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    // SAFETY: the kernel reads as many bytes as `value` has, and the descriptor is open.
    let status = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            buffer.option(),
            (&raw const value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if status == 0 { of_socket(fd, buffer) } else { Err(io::Error::last_os_error()) }
}

/// Makes the buffer of a connection larger while it lives: [`set`], and for receiving the clamp as well, which would hold the window where
/// it was. The scale of windows was chosen when the connection was made, for whatever a program may set. Returns what it has then.
///
/// # Errors
/// The system's.
pub fn raise(fd: BorrowedFd<'_>, buffer: Buffer, bytes: u64) -> io::Result<u64> {
    let has_bytes = set(fd, buffer, bytes)?;
    if buffer == Buffer::Receive {
        let clamp = libc::c_int::try_from(has_bytes / 2).unwrap_or(libc::c_int::MAX);
        // SAFETY: the kernel reads as many bytes as `clamp` has, and the descriptor is open.
        let status = unsafe {
            libc::setsockopt(
                fd.as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_WINDOW_CLAMP,
                (&raw const clamp).cast(),
                size_of::<libc::c_int>() as libc::socklen_t,
            )
        };
        if status != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(has_bytes)
}

/// What a path has under way at once when it is full.
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
