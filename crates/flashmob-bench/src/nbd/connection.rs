//! A pipelining connection: requests are queued and sent together; replies are received many at a time and matched by their cookies.
//!
//! It does not block after the handshake: [`crate::nbd::pump`] waits. It allocates nothing per request.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use flashmob_core::nbd::protocol as p;
use flashmob_core::nbd::request::RequestHeader;
use flashmob_core::op::Op;
use flashmob_host::addresses_of;
use rustix::net::SendFlags;
use socket2::{Domain, SockAddr, Socket, Type};

use super::handshake::{Export, HandshakeError, handshake};
use super::reply::{Replies, ReplyDecoder};
use super::slots::{Request, Slots};
use super::uri::{Address, Uri};
use crate::error::Error;

/// Bytes of one receive: some sixty replies of 4 KiB, which fit into a core's cache.
pub const RECEIVE_BYTES: usize = 256 * 1024;
/// Room before them for undecoded bytes of the last receive: more than the longest error chunk.
const LEFTOVER_BYTES_MAX: usize = 8 * 1024;
/// Sent bytes at the front of the send queue after which the rest is moved.
const COMPACT_BYTES: usize = 256 * 1024;
/// Pause between attempts to connect to a unix socket whose backlog is full.
const CONNECT_RETRY: Duration = Duration::from_millis(10);

/// How to connect.
#[derive(Clone, Debug)]
pub struct Options {
    /// Longest silence of the server: for the whole handshake, and while requests are outstanding.
    pub timeout: Duration,
    /// Ask for structured replies. Simple ones cost less at both ends.
    pub structured_replies: bool,
    /// Most outstanding requests.
    pub outstanding: u32,
}

impl Default for Options {
    fn default() -> Options {
        Options { timeout: Duration::from_secs(30), structured_replies: false, outstanding: 1 }
    }
}

/// A receive buffer. One serves all connections of a thread, so that it stays in the cache.
#[derive(Debug)]
pub struct ReceiveBuffer(Box<[u8]>);

impl Default for ReceiveBuffer {
    fn default() -> Self {
        ReceiveBuffer(vec![0; LEFTOVER_BYTES_MAX + RECEIVE_BYTES].into_boxed_slice())
    }
}

/// A connection after its handshake.
#[derive(Debug)]
pub struct Connection {
    socket: Socket,
    server: String,
    export: Export,
    timeout: Duration,
    slots: Slots,
    decoder: ReplyDecoder,
    /// Requests to send, from `sent_bytes` on.
    queue: Vec<u8>,
    sent_bytes: usize,
    /// Whether the socket is full.
    blocked: bool,
    /// Received bytes that are not decoded yet: a part of a header.
    leftover: Vec<u8>,
    /// Time of the last transfer, or of the first request.
    alive: Instant,
}

impl Connection {
    /// Connects and agrees on the export; blocks for up to the timeout.
    pub fn open(uri: &Uri, options: &Options) -> Result<Connection, Error> {
        let server = uri.to_string();
        let until = Instant::now() + options.timeout;
        let socket = connect(&uri.address, until, options.timeout)
            .map_err(|source| Error::Connect { server: server.clone(), source })?;
        let export = handshake(&mut Deadline { socket: &socket, until }, &uri.export, options.structured_replies)
            .map_err(|error| handshake_failed(error, &server, options.timeout))?;
        socket.set_nonblocking(true).map_err(|source| Error::System { doing: "make a socket non-blocking", source })?;
        Ok(Connection {
            socket,
            server,
            timeout: options.timeout,
            slots: Slots::new(options.outstanding.max(1)),
            decoder: ReplyDecoder::new(export.structured_replies),
            export,
            queue: Vec::new(),
            sent_bytes: 0,
            blocked: false,
            leftover: Vec::new(),
            alive: Instant::now(),
        })
    }

    /// Makes [`Connection::receive`] and [`Connection::send`] block for up to `limit` (at least 1 ms). For a single connection without a
    /// pump.
    pub fn block_for(&mut self, limit: Duration) -> Result<(), Error> {
        let limit = Some(limit.max(Duration::from_millis(1)));
        let socket = &self.socket;
        (socket.set_nonblocking(false))
            .and_then(|()| socket.set_read_timeout(limit))
            .and_then(|()| socket.set_write_timeout(limit))
            .map_err(|source| Error::System { doing: "set the timeouts of a socket", source })
    }

    /// The server's description of its export.
    #[must_use]
    pub fn export(&self) -> &Export {
        &self.export
    }

    /// The server and the export, as a URI.
    #[must_use]
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Number of requests that may still be submitted.
    #[must_use]
    pub fn free(&self) -> usize {
        self.slots.free()
    }

    /// Number of requests without a reply, sent or not.
    #[must_use]
    pub fn outstanding(&self) -> usize {
        self.slots.taken()
    }

    /// Bytes to send.
    #[must_use]
    pub fn queued_bytes(&self) -> usize {
        self.queue.len() - self.sent_bytes
    }

    /// Whether the socket has to become writable before more can be sent.
    #[must_use]
    pub fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// Queues a request, without sending it. `flags` are `flashmob_core::nbd::protocol::CMD_FLAG_*`. `fill` is called for a write only, with the
    /// `len_bytes` to fill with its contents.
    ///
    /// Returns `false`, having done nothing, if no slot is free.
    pub fn submit(
        &mut self,
        now: Instant,
        op: Op,
        flags: u16,
        offset_bytes: u64,
        len_bytes: u32,
        fill: impl FnOnce(&mut [u8]),
    ) -> bool {
        if self.slots.taken() == 0 {
            self.alive = now;
        }
        let Some(cookie) = self.slots.take(Request { op, offset_bytes, len_bytes, submitted: now }) else {
            return false;
        };
        if self.sent_bytes >= COMPACT_BYTES && self.sent_bytes >= self.queue.len() / 2 {
            self.queue.drain(..self.sent_bytes);
            self.sent_bytes = 0;
        }
        let header = RequestHeader { flags, command: command(op), cookie, offset_bytes, len_bytes };
        self.queue.extend_from_slice(&header.encode());
        if op == Op::Write {
            let begin = self.queue.len();
            self.queue.resize(begin + len_bytes as usize, 0);
            fill(&mut self.queue[begin..]);
        }
        true
    }

    /// Sends the queue, as far as the socket takes it without blocking.
    pub fn send(&mut self) -> Result<(), Error> {
        while self.sent_bytes < self.queue.len() {
            match send_without_signal(&self.socket, &self.queue[self.sent_bytes..]) {
                Ok(n) => {
                    self.sent_bytes += n;
                    if self.blocked {
                        self.alive = Instant::now();
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    self.blocked = true;
                    return Ok(());
                }
                Err(source) => return Err(self.broken(source)),
            }
        }
        self.queue.clear();
        self.sent_bytes = 0;
        self.blocked = false;
        Ok(())
    }

    /// Receives once and passes the answers on. Returns whether everything available was received.
    pub fn receive(&mut self, buffer: &mut ReceiveBuffer, replies: &mut impl Replies) -> Result<bool, Error> {
        let kept = self.leftover.len();
        let buffer = &mut buffer.0;
        buffer[..kept].copy_from_slice(&self.leftover);
        let received = loop {
            match (&self.socket).read(&mut buffer[kept..kept + RECEIVE_BYTES]) {
                Ok(0) => return Err(self.closed()),
                Ok(n) => break n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(source) => return Err(self.broken(source)),
            }
        };
        let now = Instant::now();
        self.alive = now;
        let bytes = &buffer[..kept + received];
        let used = self.decoder.decode(bytes, &mut self.slots, now, replies).map_err(|reason| self.protocol(reason))?;
        let rest = &bytes[used..];
        if rest.len() > LEFTOVER_BYTES_MAX {
            return Err(self.protocol(format!("{} bytes of its reply cannot be decoded", rest.len())));
        }
        self.leftover.clear();
        self.leftover.extend_from_slice(rest);
        Ok(received < RECEIVE_BYTES)
    }

    /// An error if requests are outstanding and nothing was transferred for the timeout.
    pub fn check_silence(&self, now: Instant) -> Result<(), Error> {
        if (self.slots.taken() > 0 || self.queued_bytes() > 0)
            && now.saturating_duration_since(self.alive) >= self.timeout
        {
            return Err(Error::Timeout { server: self.server.clone(), doing: self.doing(), after: self.timeout });
        }
        Ok(())
    }

    /// The time from `now` until [`Connection::check_silence`] fails.
    #[must_use]
    pub fn patience(&self, now: Instant) -> Duration {
        self.timeout.saturating_sub(now.saturating_duration_since(self.alive))
    }

    /// Sends a disconnect request, if the socket takes it without blocking. Outstanding requests get no reply.
    pub fn disconnect(mut self) {
        let goodbye = RequestHeader { flags: 0, command: p::CMD_DISC, cookie: 0, offset_bytes: 0, len_bytes: 0 };
        self.queue.extend_from_slice(&goodbye.encode());
        // The server may have closed before.
        let _ = self.send();
        let _ = self.socket.shutdown(std::net::Shutdown::Write);
    }

    /// What the connection is waiting for, for messages.
    fn doing(&self) -> String {
        match self.slots.oldest() {
            Some(request) => {
                format!("{} requests waited, the oldest a {}", self.slots.taken(), request.describe())
            }
            None => "no request waited".into(),
        }
    }

    fn closed(&self) -> Error {
        Error::Closed { server: self.server.clone(), doing: self.doing() }
    }

    fn broken(&self, source: io::Error) -> Error {
        match source.kind() {
            io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => self.closed(),
            _ => Error::Io { server: self.server.clone(), doing: self.doing(), source },
        }
    }

    fn protocol(&self, reason: String) -> Error {
        Error::Protocol { server: self.server.clone(), reason }
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn command(op: Op) -> u16 {
    match op {
        Op::Read => p::CMD_READ,
        Op::Write => p::CMD_WRITE,
        Op::Flush => p::CMD_FLUSH,
        Op::Trim => p::CMD_TRIM,
        Op::WriteZeroes => p::CMD_WRITE_ZEROES,
        Op::Map => p::CMD_BLOCK_STATUS,
        // NBD has none: servers refuse it.
        Op::Digest => u16::MAX,
    }
}

fn handshake_failed(error: HandshakeError, server: &str, timeout: Duration) -> Error {
    let (server, doing) = (server.to_string(), "negotiating the export".to_string());
    match error {
        HandshakeError::Protocol(reason) => Error::Protocol { server, reason },
        HandshakeError::Refused { what, reason } => Error::Refused { server, what, reason },
        HandshakeError::Io(source) => match source.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Error::Timeout { server, doing, after: timeout },
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => {
                Error::Closed { server, doing }
            }
            _ => Error::Io { server, doing, source },
        },
    }
}

fn connect(address: &Address, until: Instant, timeout: Duration) -> io::Result<Socket> {
    match address {
        Address::Unix { path } => {
            let address = SockAddr::unix(path)?;
            let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
            // A unix socket does not connect in the background: it reports a full backlog at once.
            socket.set_nonblocking(true)?;
            loop {
                match socket.connect(&address) {
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock && Instant::now() < until => {
                        std::thread::sleep(CONNECT_RETRY);
                    }
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Err(silent(timeout)),
                    Err(e) => return Err(e),
                    Ok(()) => break,
                }
            }
            socket.set_nonblocking(false)?;
            Ok(socket)
        }
        Address::Tcp { host, port } => {
            let mut failure = io::Error::new(io::ErrorKind::NotFound, "its name has no address");
            for address in addresses_of(host, *port)? {
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return Err(silent(timeout));
                }
                let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
                match socket.connect_timeout(&address.into(), left) {
                    Ok(()) => {
                        socket.set_tcp_nodelay(true)?;
                        return Ok(socket);
                    }
                    Err(e) => failure = e,
                }
            }
            Err(failure)
        }
    }
}

/// Without SIGPIPE: a closed connection is an error.
fn send_without_signal(socket: &Socket, bytes: &[u8]) -> io::Result<usize> {
    Ok(rustix::net::send(socket, bytes, SendFlags::NOSIGNAL)?)
}

fn silent(timeout: Duration) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, format!("no answer within {} s", timeout.as_secs_f64()))
}

/// A blocking stream that fails with `TimedOut` after a deadline.
struct Deadline<'a> {
    socket: &'a Socket,
    until: Instant,
}

impl Deadline<'_> {
    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(Some(left)) }
    }
}

impl Read for Deadline<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.socket.set_read_timeout(self.left()?)?;
        (&mut &*self.socket).read(buf)
    }
}

impl Write for Deadline<'_> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.socket.set_write_timeout(self.left()?)?;
        send_without_signal(self.socket, buf)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
