//! A network interface by ioctl, in this process's own network namespace.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType};

/// Longest name, with the terminating byte (IFNAMSIZ).
const NAME_BYTES_MAX: usize = libc::IFNAMSIZ;

/// Whether this can be the name of an interface. Kernels allow more, but names are part of commands to paste: characters with a meaning in a
/// shell or in udev are refused.
#[must_use]
pub fn is_name(name: &str) -> bool {
    let sound = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b'@' | b'+' | b',' | b'=' | b'%');
    let is_option = name.starts_with('-');
    !name.is_empty()
        && name.len() < NAME_BYTES_MAX
        && name != "."
        && name != ".."
        && !is_option
        && name.bytes().all(sound)
}

/// The kernel's number of an interface; `None` if there is none of that name.
#[must_use]
pub fn number(name: &str) -> Option<u32> {
    rustix::net::netdevice::name_to_index(socket().ok()?, name).ok()
}

/// The MTU in bytes.
///
/// # Errors
/// The system's.
pub fn mtu(name: &str) -> io::Result<u32> {
    let request = ask(libc::SIOCGIFMTU as _, request(name)?)?;
    // SAFETY: the kernel has filled in this one of the union.
    let mtu = unsafe { request.ifr_ifru.ifru_mtu };
    u32::try_from(mtu).map_err(io::Error::other)
}

/// The kernel's flags.
///
/// # Errors
/// The system's.
pub fn flags(name: &str) -> io::Result<u32> {
    let request = ask(libc::SIOCGIFFLAGS as _, request(name)?)?;
    // SAFETY: the kernel has filled in this one of the union.
    let flags = unsafe { request.ifr_ifru.ifru_flags };
    Ok(u32::from(flags.cast_unsigned()))
}

/// Sets the MTU.
///
/// # Errors
/// The system's.
pub fn set_mtu(name: &str, mtu_bytes: u32) -> io::Result<()> {
    let mut request = request(name)?;
    request.ifr_ifru.ifru_mtu = i32::try_from(mtu_bytes).map_err(io::Error::other)?;
    ask(libc::SIOCSIFMTU as _, request).map(drop)
}

fn request(name: &str) -> io::Result<libc::ifreq> {
    if !is_name(name) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a valid name of an interface"));
    }
    // SAFETY: an all-zero `ifreq` is valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    Ok(request)
}

/// A socket for requests about interfaces; its type does not matter.
fn socket() -> io::Result<OwnedFd> {
    Ok(rustix::net::socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?)
}

fn ask(what: libc::Ioctl, mut request: libc::ifreq) -> io::Result<libc::ifreq> {
    let socket = socket()?;
    // SAFETY: these requests read and write an ifreq, which this is.
    let status = unsafe { libc::ioctl(socket.as_raw_fd(), what, &raw mut request) };
    if status < 0 { Err(io::Error::last_os_error()) } else { Ok(request) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_says_what_it_is() {
        assert!(mtu("lo").unwrap() >= 1280);
        assert!(flags("lo").unwrap() & 8 != 0);
        assert!(number("lo").is_some());
    }

    #[test]
    fn what_is_not_there_is_an_error() {
        assert!(mtu("nosuch0").is_err() && set_mtu("nosuch0", 1500).is_err() && number("nosuch0").is_none());
        assert_eq!(mtu("a/b").unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
