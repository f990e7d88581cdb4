//! A socket that sees what passes an interface (packet(7)).

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use anyhow::{Context, bail};
use flashmob_flows::packet::LinkType;
use flashmob_flows::reader::Frame;

/// What is kept of a packet: headers of Ethernet, IPv6 and TCP with all their options, and some extension headers.
pub const KEPT_BYTES: usize = 160;
/// Room for what comes while nobody looks.
const BUFFER_BYTES: libc::c_int = 32 << 20;
/// A wait for a packet ends after this time, so that signals and the time are looked at.
const WAIT_US: i32 = 50_000;

/// What came.
pub enum Heard<'a> {
    /// Nothing in time.
    Nothing,
    /// A packet that comes again: loopback shows each when it is sent and when it arrives.
    Ours,
    /// A packet.
    Packet(Frame<'a>),
}

/// The socket.
pub struct Socket {
    fd: OwnedFd,
    link: LinkType,
    is_loopback: bool,
    lost_packets: u64,
    buffer: [u8; KEPT_BYTES],
}

impl Socket {
    /// Sees the packets of that interface from now on.
    pub fn open(interface: &str) -> anyhow::Result<Socket> {
        // SAFETY: no pointers. Protocol 0: nothing comes before the socket is bound to its interface.
        let raw = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        if raw < 0 {
            let error = io::Error::last_os_error();
            let remedy =
                format!("sudo tcpdump -i {interface} -s 128 -w capture.pcap, then: flashmob net analyze capture.pcap");
            return match error.raw_os_error() {
                Some(libc::EPERM | libc::EACCES) => {
                    bail!("capturing on {interface} needs root or CAP_NET_RAW; run it with sudo, or: {remedy}")
                }
                _ => Err(error)
                    .with_context(|| format!("this system does not allow capturing on {interface}; try: {remedy}")),
            };
        }
        // SAFETY: the descriptor was just opened and is nobody else's.
        let fd = unsafe { OwnedFd::from_raw_fd(raw) };
        let index = index(interface)?;
        for (option, value) in [(libc::SO_TIMESTAMPNS, 1), (libc::SO_RCVBUFFORCE, BUFFER_BYTES)] {
            // A smaller buffer loses packets sooner, and says so.
            if set(&fd, option, &value).is_err() && option == libc::SO_RCVBUFFORCE {
                let _ = set(&fd, libc::SO_RCVBUF, &BUFFER_BYTES);
            }
        }
        set(&fd, libc::SO_RCVTIMEO, &libc::timeval { tv_sec: 0, tv_usec: WAIT_US.into() })?;
        bind(&fd, index).with_context(|| format!("cannot capture on {interface}"))?;
        let hardware = hardware(interface)?;
        let link = match hardware {
            u32::MAX => bail!("{interface}: unknown link type"),
            // Ethernet and loopback; tunnels and whatever else begins with IP.
            1 | 772 => LinkType::ETHERNET,
            512 | 519 | 65534 => LinkType::RAW,
            other => {
                bail!("{interface}: unsupported link type ({other}); tcpdump supports more: -i {interface} -w FILE")
            }
        };
        let is_loopback = hardware == 772;
        Ok(Socket { fd, link, is_loopback, lost_packets: 0, buffer: [0; KEPT_BYTES] })
    }

    /// What its packets begin with.
    pub fn link(&self) -> LinkType {
        self.link
    }

    /// Waits for the next packet, not for long.
    pub fn next(&mut self) -> anyhow::Result<Heard<'_>> {
        // SAFETY: these are plain numbers and pointers, of which zero is a value.
        let (mut from, mut message): (libc::sockaddr_ll, libc::msghdr) =
            unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        // Words, so that the headers in it are aligned.
        let mut control = [0_u64; 16];
        let mut part = libc::iovec { iov_base: self.buffer.as_mut_ptr().cast(), iov_len: self.buffer.len() };
        message.msg_name = (&raw mut from).cast();
        message.msg_namelen = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control) as _;
        // SAFETY: all that the message points to lives until the call is over, with the lengths that it says.
        let length = unsafe { libc::recvmsg(self.fd.as_raw_fd(), &raw mut message, libc::MSG_TRUNC) };
        if length < 0 {
            let error = io::Error::last_os_error();
            return match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(Heard::Nothing),
                // The interface went down; it may come up again.
                _ if error.raw_os_error() == Some(libc::ENETDOWN) => Ok(Heard::Nothing),
                _ => Err(error).context("capturing failed"),
            };
        }
        if self.is_loopback && from.sll_pkttype == libc::PACKET_OUTGOING {
            return Ok(Heard::Ours);
        }
        let time_ns = stamp(&message);
        let original_bytes = u32::try_from(length).unwrap_or(u32::MAX);
        let kept = (original_bytes as usize).min(KEPT_BYTES);
        Ok(Heard::Packet(Frame { time_ns, link: self.link, data: &self.buffer[..kept], original_bytes }))
    }

    /// Packets that the kernel had no room for.
    pub fn lost_packets(&mut self) -> u64 {
        let mut statistics = [0_u32; 2];
        let mut len = size_of_val(&statistics) as libc::socklen_t;
        // SAFETY: the kernel writes at most `len` bytes, which is the size of the array; asking sets its counts to zero.
        let status = unsafe {
            libc::getsockopt(
                self.fd.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                statistics.as_mut_ptr().cast(),
                &raw mut len,
            )
        };
        if status == 0 {
            self.lost_packets += u64::from(statistics[1]);
        }
        self.lost_packets
    }
}

fn index(interface: &str) -> anyhow::Result<libc::c_int> {
    let name = CString::new(interface).context("invalid interface name")?;
    // SAFETY: the name ends with a zero and lives until the call is over.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    if index == 0 {
        let mut names: Vec<String> = std::fs::read_dir("/sys/class/net")
            .map(|dir| dir.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect())
            .unwrap_or_default();
        names.sort();
        bail!("no interface '{interface}'; the interfaces are: {}", names.join(", "));
    }
    Ok(index.cast_signed())
}

/// The kind of hardware (ARPHRD_...). It is asked of the kernel: in a lab's network /sys is another's.
fn hardware(interface: &str) -> anyhow::Result<u32> {
    // SAFETY: plain numbers, of which zero is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(interface.bytes().take(libc::IFNAMSIZ - 1)) {
        *to = from as libc::c_char;
    }
    // SAFETY: no pointers.
    let raw = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if raw < 0 {
        return Err(io::Error::last_os_error()).context("cannot query the kernel for interfaces");
    }
    // SAFETY: the descriptor was just opened and is nobody else's.
    let fd = unsafe { OwnedFd::from_raw_fd(raw) };
    // SAFETY: the kernel reads the name and writes an address into the request, which has room for it.
    let status = unsafe { libc::ioctl(fd.as_raw_fd(), libc::SIOCGIFHWADDR as _, &raw mut request) };
    if status < 0 {
        return Ok(u32::MAX);
    }
    // SAFETY: after this request the union holds an address.
    Ok(unsafe { request.ifr_ifru.ifru_hwaddr.sa_family }.into())
}

fn bind(fd: &OwnedFd, index: libc::c_int) -> io::Result<()> {
    // SAFETY: plain numbers, of which zero is a value.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = index;
    // SAFETY: the kernel reads as many bytes as the address has.
    let status =
        unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), size_of_val(&address) as libc::socklen_t) };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn set<T>(fd: &OwnedFd, option: libc::c_int, value: &T) -> io::Result<()> {
    // SAFETY: the kernel reads as many bytes as the value has, and the descriptor is open.
    let status = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            (value as *const T).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// When the kernel saw the packet.
fn stamp(message: &libc::msghdr) -> Option<i64> {
    // SAFETY: the message was filled by the kernel, and its control data lives as long as it.
    let mut header = unsafe { libc::CMSG_FIRSTHDR(message) };
    while !header.is_null() {
        // SAFETY: not null, so it is a header within the control data.
        let about = unsafe { &*header };
        if about.cmsg_level == libc::SOL_SOCKET && about.cmsg_type == libc::SCM_TIMESTAMPNS {
            // SAFETY: behind such a header is a timespec, which need not be aligned.
            let time = unsafe { libc::CMSG_DATA(header).cast::<libc::timespec>().read_unaligned() };
            #[allow(clippy::unnecessary_cast, reason = "32 bits on some systems")]
            return (time.tv_sec as i64).checked_mul(1_000_000_000)?.checked_add(time.tv_nsec as i64);
        }
        // SAFETY: both belong to the same message.
        header = unsafe { libc::CMSG_NXTHDR(message, header) };
    }
    None
}
