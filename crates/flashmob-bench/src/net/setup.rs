//! Sockets, set up according to the parameters.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use flashmob_path::buffers::{self, Buffer};
use flashmob_path::congestion;
use socket2::{Domain, Protocol, SockRef, Socket, Type};

use super::error::NetError;
use super::protocol::parameters::Parameters;

/// Most connections waiting to be accepted: more than one test has.
const BACKLOG: i32 = 512;

/// Checks that this congestion control may be used on this machine.
///
/// # Errors
/// It is unknown, or only root may choose it; the message lists those available.
pub fn check_congestion(name: &str) -> Result<(), NetError> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)
        .or_else(|_| Socket::new(Domain::IPV6, Type::STREAM, None))
        .map_err(NetError::system("make a socket"))?;
    congestion::choose(socket.as_fd(), name).map_err(|error| {
        let there = congestion::available().join(", ");
        let names = if there.is_empty() { String::new() } else { format!("; this system has {there}") };
        NetError::Unsuitable(match error.kind() {
            io::ErrorKind::PermissionDenied => format!(
                "congestion control '{name}': only root may choose it here; allow it with \
                 'sysctl net.ipv4.tcp_allowed_congestion_control', or run this as root"
            ),
            io::ErrorKind::NotFound | io::ErrorKind::InvalidInput => {
                format!("congestion control '{name}' is unknown to this system{names}")
            }
            _ => format!("congestion control '{name}' cannot be chosen: {error}{names}"),
        })
    })
}

/// Sets both buffers of a socket, if a size is given.
pub(super) fn set_window(fd: BorrowedFd<'_>, window_bytes: Option<u64>) -> Result<(), NetError> {
    set_buffers(fd, window_bytes).map_err(NetError::system("set the buffers of a socket"))
}

fn set_buffers(fd: BorrowedFd<'_>, window_bytes: Option<u64>) -> io::Result<()> {
    let Some(bytes) = window_bytes else { return Ok(()) };
    [Buffer::Receive, Buffer::Send].into_iter().try_for_each(|buffer| buffers::set(fd, buffer, bytes).map(drop))
}

/// Buffer sizes of a listener, while this lives: accepted sockets have them from their first packet on, which negotiates the window scale.
/// Only where autotuning can be restored afterwards; elsewhere only the accepted sockets are set.
pub(super) struct ListenersWindow<'a>(Option<&'a TcpListener>);

impl<'a> ListenersWindow<'a> {
    pub fn set(listener: &'a TcpListener, window_bytes: Option<u64>) -> Result<ListenersWindow<'a>, NetError> {
        if window_bytes.is_none() || !unlock_buffers(listener.as_fd()) {
            return Ok(ListenersWindow(None));
        }
        let window = ListenersWindow(Some(listener));
        set_window(listener.as_fd(), window_bytes).map(|()| window)
    }
}

impl Drop for ListenersWindow<'_> {
    /// Restores autotuning of the listener's buffers.
    fn drop(&mut self) {
        let Some(listener) = self.0 else { return };
        for buffer in [Buffer::Receive, Buffer::Send] {
            if let Some(kernels) = buffers::autotuning(buffer) {
                // The kernel doubles what is set.
                let _ = buffers::set(listener.as_fd(), buffer, kernels.default_bytes / 2);
            }
        }
        unlock_buffers(listener.as_fd());
    }
}

/// Lets the kernel size the buffers itself again; false if it cannot (before Linux 5.14).
fn unlock_buffers(fd: BorrowedFd<'_>) -> bool {
    /// Of include/uapi/asm-generic/socket.h.
    const SO_BUF_LOCK: libc::c_int = 72;
    buffers::set_option(fd, libc::SOL_SOCKET, SO_BUF_LOCK, 0).is_ok()
}

/// Sets the parameters of an open connection.
pub(super) fn set_tcp(stream: &TcpStream, parameters: &Parameters) -> Result<(), NetError> {
    if parameters.nodelay || parameters.messages.is_some() {
        stream.set_nodelay(true).map_err(NetError::system("set TCP_NODELAY"))?;
    }
    if let Some(name) = &parameters.congestion {
        congestion::choose(stream.as_fd(), name).map_err(NetError::system("choose the congestion control"))?;
    }
    Ok(())
}

/// Connects; buffers are set before, because the first packet negotiates the window scale.
pub(super) fn connect(
    to: SocketAddr,
    from: Option<IpAddr>,
    parameters: Option<&Parameters>,
    timeout: Duration,
) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(to), Type::STREAM, Some(Protocol::TCP))?;
    if let Some(parameters) = parameters {
        set_buffers(socket.as_fd(), parameters.window_bytes)?;
        if let Some(bytes) = parameters.mss_bytes {
            socket.set_tcp_mss(bytes)?;
        }
    }
    if let Some(from) = from {
        socket.bind(&SocketAddr::new(from, 0).into())?;
    }
    socket.connect_timeout(&to.into(), timeout)?;
    Ok(socket.into())
}

/// A flow's socket at the client.
pub(super) fn connect_udp(
    to: SocketAddr,
    from: Option<IpAddr>,
    window_bytes: Option<u64>,
) -> Result<UdpSocket, NetError> {
    let any = if to.is_ipv4() { IpAddr::V4(Ipv4Addr::UNSPECIFIED) } else { IpAddr::V6(Ipv6Addr::UNSPECIFIED) };
    let make = || {
        let socket = UdpSocket::bind(SocketAddr::new(from.unwrap_or(any), 0))?;
        socket.connect(to)?;
        Ok(socket)
    };
    let socket = make().map_err(NetError::system("make a socket for datagrams"))?;
    set_window(socket.as_fd(), window_bytes)?;
    Ok(socket)
}

/// Listens. `::` stands for all addresses, of both families where available.
pub(super) fn listen(address: IpAddr, port: u16) -> io::Result<TcpListener> {
    let listener: TcpListener = bound(Type::STREAM, address, port)?.into();
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// A socket for the datagrams of a server, beside others on the same port.
pub(super) fn bind_udp(address: IpAddr, port: u16, window_bytes: Option<u64>) -> Result<UdpSocket, NetError> {
    let socket: UdpSocket =
        bound(Type::DGRAM, address, port).map_err(NetError::system("make a socket for datagrams"))?.into();
    set_window(socket.as_fd(), window_bytes)?;
    Ok(socket)
}

fn bound(kind: Type, address: IpAddr, port: u16) -> io::Result<Socket> {
    let make = |address: IpAddr| {
        let address = SocketAddr::new(address, port);
        let socket = Socket::new(Domain::for_address(address), kind, None)?;
        socket.set_reuse_address(true)?;
        if address.is_ipv6() {
            SockRef::from(&socket).set_only_v6(address.ip() != IpAddr::V6(Ipv6Addr::UNSPECIFIED))?;
        }
        socket.bind(&address.into())?;
        if kind == Type::STREAM {
            socket.listen(BACKLOG)?;
        }
        Ok(socket)
    };
    make(address).or_else(|error: io::Error| match error.kind() {
        // Without IPv6, only IPv4.
        kind if address == IpAddr::V6(Ipv6Addr::UNSPECIFIED) && kind != io::ErrorKind::AddrInUse => {
            make(IpAddr::V4(Ipv4Addr::UNSPECIFIED))
        }
        _ => Err(error),
    })
}

/// Bytes of data in a full packet of this connection, as a datagram's size: iperf3 does the same.
pub(super) fn datagram_bytes(control: &TcpStream) -> u32 {
    let mss = SockRef::from(control).tcp_mss().unwrap_or(0);
    if (super::protocol::DATAGRAM_BYTES_MIN..=super::protocol::DATAGRAM_BYTES_MAX).contains(&mss) { mss } else { 1460 }
}
