//! A TAP device: a network interface of the kernel whose frames this program reads and writes; and the configuration of such an
//! interface: addresses, neighbours, a route. All of it applies to the network namespace of the calling thread.
//!
//! The device is not persistent: it is removed when its descriptor is closed.

use std::ffi::c_char;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use anyhow::Context;

use super::frame::MTU_BYTES;
use super::netlink;

/// The interface's name inside.
pub const INTERFACE: &str = "air0";
/// Frames that the kernel queues until the medium reads them. Only the model's queues may drop frames, not this one.
const QUEUE_FRAMES: u32 = 4096;

/// The device node that creates TAP devices.
const TUN: &str = "/dev/net/tun";

/// Creates the device.
pub fn open() -> anyhow::Result<OwnedFd> {
    let file = File::options().read(true).write(true).open(TUN).map_err(|error| {
        let remedy = match error.kind() {
            io::ErrorKind::NotFound => "load its module as root: modprobe tun",
            io::ErrorKind::PermissionDenied => {
                "run as root, or allow all users to use it, as most systems do: chmod 666 /dev/net/tun"
            }
            _ => "the lab needs TAP devices",
        };
        anyhow::anyhow!("cannot open {TUN}: {error}; {remedy}")
    })?;
    rustix::io::ioctl_fionbio(&file, true)?;
    let mut request = request();
    request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI) as libc::c_short;
    ioctl(&file, libc::TUNSETIFF as libc::c_ulong, &mut request).context("cannot create a TAP device")?;
    Ok(file.into())
}

/// Sets the addresses of the interface, and sets it up.
pub fn configure(mac: [u8; 6], address: Ipv4Addr, prefix_bits: u8) -> io::Result<()> {
    let socket = socket(libc::AF_INET, libc::SOCK_DGRAM, 0)?;
    let mut hardware = request();
    hardware.ifr_ifru.ifru_hwaddr = hardware_address(mac);
    ioctl(&socket, libc::SIOCSIFHWADDR, &mut hardware)?;
    let mut mtu = request();
    mtu.ifr_ifru.ifru_mtu = MTU_BYTES as i32;
    ioctl(&socket, libc::SIOCSIFMTU, &mut mtu)?;
    tell_kernel(&netlink::queue(interface_index()?, QUEUE_FRAMES))?;
    let mask = Ipv4Addr::from_bits(u32::MAX << (32 - u32::from(prefix_bits)));
    for (what, ip) in [(libc::SIOCSIFADDR, address), (libc::SIOCSIFNETMASK, mask)] {
        let mut request = request();
        request.ifr_ifru.ifru_addr = internet_address(ip);
        ioctl(&socket, what, &mut request)?;
    }
    up(&socket, INTERFACE)
}

/// Sets the loopback interface up.
pub fn loopback_up() -> io::Result<()> {
    up(&socket(libc::AF_INET, libc::SOCK_DGRAM, 0)?, "lo")
}

/// Adds permanent neighbour entries, so that address resolution takes no air time.
pub fn neighbours(others: impl Iterator<Item = (Ipv4Addr, [u8; 6])>) -> io::Result<()> {
    let socket = socket(libc::AF_INET, libc::SOCK_DGRAM, 0)?;
    for (address, mac) in others {
        // SAFETY: all-zero bytes are a valid arpreq.
        let mut entry: libc::arpreq = unsafe { std::mem::zeroed() };
        entry.arp_pa = internet_address(address);
        entry.arp_ha = hardware_address(mac);
        entry.arp_flags = libc::ATF_PERM | libc::ATF_COM;
        set_name(&mut entry.arp_dev, INTERFACE);
        ioctl(&socket, libc::SIOCSARP, &mut entry)?;
    }
    Ok(())
}

/// Sets the congestion control of TCP over the interface.
///
/// As a property of the route: the setting of a network namespace accepts only those that are allowed for all users.
pub fn route_congestion(network: Ipv4Addr, prefix_bits: u8, source: Ipv4Addr, congestion: &str) -> anyhow::Result<()> {
    let message = netlink::route(interface_index()?, network, prefix_bits, source, congestion);
    tell_kernel(&message).map_err(|error| {
        let available = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
        anyhow::anyhow!(
            "cannot set TCP congestion control '{congestion}': {error}; this kernel has {} (others may need a module)",
            available.unwrap_or_default().trim()
        )
    })
}

fn tell_kernel(message: &[u8]) -> io::Result<()> {
    let mut socket = File::from(socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE)?);
    socket.write_all(message)?;
    let mut answer = [0; 4096];
    let len = socket.read(&mut answer)?;
    netlink::verdict(&answer[..len])
}

fn interface_index() -> io::Result<u32> {
    let socket = socket(libc::AF_INET, libc::SOCK_DGRAM, 0)?;
    let mut request = request();
    ioctl(&socket, libc::SIOCGIFINDEX, &mut request)?;
    // SAFETY: the kernel has just filled in this member.
    Ok(unsafe { request.ifr_ifru.ifru_ifindex } as u32)
}

fn up(socket: &OwnedFd, interface: &str) -> io::Result<()> {
    let mut flags = request();
    set_name(&mut flags.ifr_name, interface);
    flags.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    ioctl(socket, libc::SIOCSIFFLAGS, &mut flags)
}

fn socket(family: i32, kind: i32, protocol: i32) -> io::Result<OwnedFd> {
    // SAFETY: a plain system call.
    let fd = unsafe { libc::socket(family, kind | libc::SOCK_CLOEXEC, protocol) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A request about the interface.
fn request() -> libc::ifreq {
    // SAFETY: all-zero bytes are a valid ifreq.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    set_name(&mut request.ifr_name, INTERFACE);
    request
}

fn set_name(place: &mut [c_char; libc::IFNAMSIZ], name: &str) {
    place.fill(0);
    // The last byte stays zero, as the terminator.
    for (to, &from) in place[..libc::IFNAMSIZ - 1].iter_mut().zip(name.as_bytes()) {
        *to = from as c_char;
    }
}

fn hardware_address(mac: [u8; 6]) -> libc::sockaddr {
    // SAFETY: all-zero bytes are a valid sockaddr.
    let mut address: libc::sockaddr = unsafe { std::mem::zeroed() };
    address.sa_family = libc::ARPHRD_ETHER;
    for (to, from) in address.sa_data.iter_mut().zip(mac) {
        *to = from as c_char;
    }
    address
}

fn internet_address(ip: Ipv4Addr) -> libc::sockaddr {
    // SAFETY: all-zero bytes are a valid sockaddr.
    let mut address: libc::sockaddr = unsafe { std::mem::zeroed() };
    address.sa_family = libc::AF_INET as libc::sa_family_t;
    // Two bytes of port, then the address.
    for (to, from) in address.sa_data[2..].iter_mut().zip(ip.octets()) {
        *to = from as c_char;
    }
    address
}

/// The type of request numbers differs from the function's parameter, and between C libraries.
fn ioctl<T>(fd: &impl AsRawFd, what: libc::c_ulong, argument: &mut T) -> io::Result<()> {
    // SAFETY: every caller passes the structure that the request is documented to use.
    if unsafe { libc::ioctl(fd.as_raw_fd(), what as libc::Ioctl, std::ptr::from_mut(argument)) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
