//! One connection, TCP or unix: filling a receive buffer, draining a queue, and the options of its socket.

use std::io::{self, IoSlice, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use flashmob_core::buffers::{OutQueue, RxBuf};
use flashmob_core::strangers;
use flashmob_path::congestion;
use mio::event::Source;
use mio::net::{TcpStream, UnixStream};
use mio::{Interest, Registry, Token};
use socket2::{SockRef, TcpKeepalive};

use super::report::TcpReport;
use super::tls::{Session, TlsEnd};

/// Maximum bytes read from one socket per turn.
pub(super) const READ_BYTES: usize = 256 * 1024;
/// Most slices in one gathering write.
pub(super) const SLICES: usize = 64;

/// Options of a socket. `None` leaves one to the system.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SocketOptions {
    /// Send buffer in bytes.
    pub send_buffer_bytes: Option<usize>,
    /// Receive buffer in bytes.
    pub receive_buffer_bytes: Option<usize>,
    /// Congestion control, such as `bbr`.
    pub congestion: Option<String>,
    /// Silence after which the kernel probes the peer.
    pub keepalive: Option<Duration>,
}

/// A connected, non-blocking socket, whose bytes may be encrypted.
#[derive(Debug)]
pub struct Stream {
    socket: Socket,
    session: Option<Box<Session>>,
}

#[derive(Debug)]
pub(super) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Read for Socket {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(s) => s.read(room),
            Socket::Unix(s) => s.read(room),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Socket::Tcp(s) => s.write_vectored(slices),
            Socket::Unix(s) => s.write_vectored(slices),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl From<TcpStream> for Stream {
    fn from(tcp: TcpStream) -> Stream {
        Stream { socket: Socket::Tcp(tcp), session: None }
    }
}

impl From<UnixStream> for Stream {
    fn from(unix: UnixStream) -> Stream {
        Stream { socket: Socket::Unix(unix), session: None }
    }
}

/// The result of filling a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Filled {
    /// Bytes received; no more for now.
    Drained(usize),
    /// Bytes received; there may be more.
    More(usize),
    /// The peer has ended the connection.
    End,
}

/// Whether a socket may have bytes, according to edge-triggered events.
#[derive(Debug, Clone, Copy, Default)]
pub struct Readiness {
    readable: bool,
    /// The peer has ended its side: an end (or an error) is there to be read, and no further event will say so.
    ended: bool,
}

impl Readiness {
    /// As after registering: it may have bytes already.
    #[must_use]
    pub fn unknown() -> Readiness {
        Readiness { readable: true, ended: false }
    }

    /// Takes in an event.
    pub fn note(&mut self, event: &mio::event::Event) {
        self.ended |= event.is_read_closed() || event.is_error();
        self.readable |= event.is_readable() || self.ended;
    }

    /// A read found the socket drained. With the peer's end already announced it must be read again, until the end
    /// itself is found: a short read does not reveal it.
    pub fn drained(&mut self) {
        self.readable = self.ended;
    }

    /// Whether to read.
    #[must_use]
    pub fn is_readable(self) -> bool {
        self.readable
    }
}

impl Stream {
    /// Reads once, as much as is there up to a limit. `wanted` more bytes make up a message: a hint.
    pub fn fill(&mut self, rx: &mut RxBuf, wanted: usize) -> io::Result<Filled> {
        let room = rx.space(wanted.clamp(READ_BYTES / 4, 2 * READ_BYTES));
        let limit = room.len().min(2 * READ_BYTES);
        self.fill_room(rx, limit)
    }

    /// In the same way, a few bytes from a peer that has not said who it is.
    pub fn fill_little(&mut self, rx: &mut RxBuf) -> io::Result<Filled> {
        self.fill_room(rx, strangers::READ_BYTES)
    }

    fn fill_room(&mut self, rx: &mut RxBuf, limit: usize) -> io::Result<Filled> {
        if let Some(session) = &mut self.session {
            return session.fill(&mut self.socket, rx, limit);
        }
        let room = &mut rx.space(limit)[..limit];
        loop {
            match self.socket.read(room) {
                Ok(0) => return Ok(Filled::End),
                Ok(n) => {
                    rx.filled(n);
                    // A stream socket that returned less than requested is empty; epoll reports when more arrives.
                    return Ok(if n < limit { Filled::Drained(n) } else { Filled::More(n) });
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(Filled::Drained(0)),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }

    /// Writes what waits in one gathering write. Returns the bytes taken; 0 if the socket takes none now.
    pub fn drain_once(&mut self, out: &OutQueue) -> io::Result<usize> {
        if let Some(session) = &mut self.session {
            return session.drain_once(&mut self.socket, out);
        }
        let mut slices = [IoSlice::new(&[]); SLICES];
        let count = out.fill_slices(&mut slices);
        loop {
            match self.socket.write_vectored(&slices[..count]) {
                Ok(n) => return Ok(n),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(0),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }

    /// The error that a connection attempt ended with, if any.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        match &self.socket {
            Socket::Tcp(s) => s.take_error(),
            Socket::Unix(s) => s.take_error(),
        }
    }

    /// Whether the connection is established.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        match &self.socket {
            Socket::Tcp(s) => s.peer_addr().is_ok(),
            Socket::Unix(s) => s.peer_addr().is_ok(),
        }
    }

    /// The other end, for messages.
    #[must_use]
    pub fn peer(&self) -> String {
        match self.tcp() {
            Some(tcp) => tcp.peer_addr().map_or_else(|_| "a TCP peer".to_string(), |a| a.to_string()),
            None => "a unix socket".to_string(),
        }
    }

    /// The address of the other end; `None` for a unix socket, or if the connection has ended.
    #[must_use]
    pub fn peer_ip(&self) -> Option<IpAddr> {
        self.tcp()?.peer_addr().ok().map(|addr| addr.ip())
    }

    /// The own address of the connection; `None` for a unix socket, or if the connection has ended.
    #[must_use]
    pub fn local_ip(&self) -> Option<IpAddr> {
        self.tcp()?.local_addr().ok().map(|addr| addr.ip().to_canonical())
    }

    /// The kernel's counters of the connection; `None` if it is not TCP.
    #[must_use]
    pub fn tcp_info(&self) -> Option<TcpReport> {
        TcpReport::of(self.tcp_fd()?)
    }

    /// Its descriptor, if it is TCP.
    #[must_use]
    pub fn tcp_fd(&self) -> Option<BorrowedFd<'_>> {
        self.tcp().map(AsFd::as_fd)
    }

    fn tcp(&self) -> Option<&TcpStream> {
        match &self.socket {
            Socket::Tcp(tcp) => Some(tcp),
            Socket::Unix(_) => None,
        }
    }

    /// The first byte that waits, which stays; `None` if there is none yet.
    pub fn peek_byte(&self) -> io::Result<Option<u8>> {
        let mut byte = [0];
        match self.tcp().map(|tcp| tcp.peek(&mut byte)) {
            None => Ok(None),
            Some(Ok(0)) => Err(io::ErrorKind::UnexpectedEof.into()),
            Some(Ok(_)) => Ok(Some(byte[0])),
            Some(Err(e)) if e.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Some(Err(e)) => Err(e),
        }
    }

    /// Everything from here on is encrypted, in both directions.
    ///
    /// # Errors
    /// The handshake cannot begin, or it is no TCP connection without encryption.
    pub fn secure(&mut self, end: &TlsEnd) -> io::Result<()> {
        let mut session = Session::begin(end)?;
        session.flush(&mut self.socket)?;
        self.session = Some(Box::new(session));
        Ok(())
    }

    /// Whether the other end's key is proven, if there is one: the handshake is over.
    #[must_use]
    pub fn is_secured(&self) -> bool {
        self.session.as_ref().is_none_or(|session| session.is_secured())
    }

    /// The other end's key, as a SubjectPublicKeyInfo, if it is proven, and for this purpose.
    #[must_use]
    pub fn peer_spki(&self, purpose: &[u8]) -> Option<&[u8]> {
        self.session.as_ref()?.peer_spki(purpose)
    }

    /// The other end's own certificate, in DER, if it is proven.
    #[must_use]
    pub fn peer_certificate(&self) -> Option<&[u8]> {
        self.session.as_ref()?.peer_certificate()
    }

    /// The user at the other end of a unix socket; `None` for others.
    #[must_use]
    pub fn peer_user(&self) -> Option<u32> {
        match &self.socket {
            Socket::Tcp(_) => None,
            Socket::Unix(unix) => rustix::net::sockopt::socket_peercred(unix).ok().map(|peer| peer.uid.as_raw()),
        }
    }

    /// Sends bytes before those of any queue, once the connection is secured.
    pub fn send_first(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(session) = &mut self.session else { return Err(io::ErrorKind::InvalidInput.into()) };
        session.send_first(bytes)
    }

    fn source(&mut self) -> &mut dyn Source {
        match &mut self.socket {
            Socket::Tcp(s) => s,
            Socket::Unix(s) => s,
        }
    }

    /// Asks for events under `token`.
    pub fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        registry.register(self.source(), token, Interest::READABLE | Interest::WRITABLE)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if let Some(session) = &mut self.session {
            session.close(&mut self.socket);
        }
    }
}

/// Refuses a congestion control that the kernel does not have, or that this process may not choose, with those that it has.
pub fn refuse_unknown_congestion(name: &str) -> anyhow::Result<()> {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM.cloexec(), None)?;
    let Err(error) = congestion::choose(socket.as_fd(), name) else { return Ok(()) };
    let available = congestion::available().join(", ");
    match error.kind() {
        io::ErrorKind::NotFound => {
            anyhow::bail!(
                "this kernel has no congestion control '{name}'; it has {available}; others may need a module (modprobe tcp_{name})"
            )
        }
        io::ErrorKind::PermissionDenied => anyhow::bail!(
            "congestion control '{name}' needs root; this kernel has {available}; \
             sysctl -w net.ipv4.tcp_allowed_congestion_control=\"... {name}\" allows it for all users"
        ),
        _ => anyhow::bail!("cannot set congestion control '{name}': {error}; this kernel has {available}"),
    }
}

/// Connects to `HOST:PORT` for a program that waits: each address that the name has is tried for so long.
pub fn connect_waiting(authority: &str, patience: Duration) -> io::Result<std::net::TcpStream> {
    connect_waiting_from(None, authority, patience)
}

/// The same from an own address, if the other end can be reached from there; otherwise from any.
pub fn connect_waiting_from(
    own: Option<IpAddr>,
    authority: &str,
    patience: Duration,
) -> io::Result<std::net::TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for addr in flashmob_host::addresses_of_authority(authority)? {
        if let Some(own) = own.filter(|own| own.is_ipv4() == addr.is_ipv4())
            && let Ok(stream) = connect_from(own, addr, patience)
        {
            return stream.set_nodelay(true).map(|()| stream);
        }
        match std::net::TcpStream::connect_timeout(&addr, patience) {
            Ok(stream) => return stream.set_nodelay(true).map(|()| stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn connect_from(own: IpAddr, addr: SocketAddr, patience: Duration) -> io::Result<std::net::TcpStream> {
    let socket = socket2::Socket::new(
        socket2::Domain::for_address(addr),
        socket2::Type::STREAM.cloexec(),
        Some(socket2::Protocol::TCP),
    )?;
    socket.bind(&SocketAddr::new(own, 0).into())?;
    socket.connect_timeout(&addr.into(), patience)?;
    Ok(socket.into())
}

/// Begins a TCP connection. The options that decide the window must be set before it is made.
pub fn connect(addr: SocketAddr, options: &SocketOptions) -> io::Result<Stream> {
    let domain = if addr.is_ipv4() { socket2::Domain::IPV4 } else { socket2::Domain::IPV6 };
    let socket =
        socket2::Socket::new(domain, socket2::Type::STREAM.cloexec().nonblocking(), Some(socket2::Protocol::TCP))?;
    configure(&SockRef::from(&socket), options)?;
    match socket.connect(&addr.into()) {
        Ok(()) => {}
        Err(e) if e.raw_os_error() == Some(rustix::io::Errno::INPROGRESS.raw_os_error()) => {}
        Err(e) => return Err(e),
    }
    Ok(TcpStream::from_std(socket.into()).into())
}

/// Sets the options of a TCP socket. Nagle's algorithm is always off: batches are formed above.
pub fn configure(socket: &SockRef<'_>, options: &SocketOptions) -> io::Result<()> {
    socket.set_tcp_nodelay(true)?;
    if let Some(bytes) = options.send_buffer_bytes {
        socket.set_send_buffer_size(bytes)?;
    }
    if let Some(bytes) = options.receive_buffer_bytes {
        socket.set_recv_buffer_size(bytes)?;
    }
    if let Some(congestion) = &options.congestion {
        socket.set_tcp_congestion(congestion.as_bytes())?;
    }
    if let Some(time) = options.keepalive {
        socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(time).with_interval(time).with_retries(3))?;
    }
    Ok(())
}
