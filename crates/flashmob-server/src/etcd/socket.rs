//! The socket of a connection, plain or inside TLS, whose waits end at a given time, and those that wait for a request.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::net::tls::{WaitingTls, is_refusal};

/// The most idle connections that are kept.
const IDLE_MAX: usize = 4;
/// An idle connection is not used after this: a router on the way may have forgotten it.
const IDLE_AGE: Duration = Duration::from_secs(30);

/// How much is written before the deadline is checked again.
const PART_BYTES: usize = 16 << 10;

/// The socket of a connection.
#[derive(Debug)]
pub(super) enum Socket {
    Plain(TcpStream),
    Tls(Box<WaitingTls>),
}

impl Socket {
    fn tcp(&self) -> &TcpStream {
        match self {
            Socket::Plain(tcp) => tcp,
            Socket::Tls(tls) => tls.socket(),
        }
    }

    /// Whether there are received bytes that were decrypted and not read yet.
    fn holds_bytes(&mut self) -> bool {
        match self {
            Socket::Plain(_) => false,
            Socket::Tls(tls) => tls.holds_bytes(),
        }
    }

    /// Whether the server has neither closed the connection nor sent anything unasked, so that it can be used again.
    fn is_quiet(&mut self) -> bool {
        if self.holds_bytes() {
            return false;
        }
        let tcp = self.tcp();
        let is_quiet = tcp.set_nonblocking(true).is_ok()
            && matches!(tcp.peek(&mut [0]), Err(e) if e.kind() == ErrorKind::WouldBlock);
        tcp.set_nonblocking(false).is_ok() && is_quiet
    }

    pub fn write_until(&mut self, bytes: &[u8], until: Instant) -> io::Result<()> {
        bytes.chunks(PART_BYTES).try_for_each(|part| {
            self.tcp().set_write_timeout(Some(left(until)?))?;
            self.write(part, until)
        })
    }

    fn write(&mut self, bytes: &[u8], until: Instant) -> io::Result<()> {
        let tls = match self {
            Socket::Plain(tcp) => return tcp.write_all(bytes),
            Socket::Tls(tls) => tls,
        };
        tls.write_all(bytes).and_then(|()| tls.flush()).map_err(|error| {
            // A server that refuses the certificate sends an alert and closes, while this end already writes.
            let _ = tls.wait_until(Some(until));
            match tls.read(&mut [0]) {
                Err(reason) if is_refusal(&reason) => reason,
                _ => error,
            }
        })
    }

    pub fn read_until(&mut self, room: &mut [u8], until: Instant) -> io::Result<usize> {
        if !self.holds_bytes() {
            self.await_bytes(until)?;
        }
        let left = left(until)?;
        match self {
            Socket::Plain(tcp) => {
                tcp.set_read_timeout(Some(left))?;
                tcp.read(room)
            }
            Socket::Tls(tls) => {
                tls.wait_until(Some(until))?;
                tls.read(room)
            }
        }
    }

    /// Waits until there is something to read. A socket's own timeout can last an eighth longer than it was set to.
    fn await_bytes(&self, until: Instant) -> io::Result<()> {
        loop {
            let timeout = Timespec::try_from(left(until)?).map_err(io::Error::other)?;
            match poll(&mut [PollFd::new(self.tcp(), PollFlags::IN)], Some(&timeout)) {
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// The time that is left, or that it is over.
fn left(until: Instant) -> io::Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
}

/// Idle connections.
#[derive(Debug, Default)]
pub(super) struct Idle(Mutex<Vec<(Socket, Instant)>>);

impl Idle {
    pub fn take(&self) -> Option<Socket> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|(_, since)| since.elapsed() < IDLE_AGE);
        loop {
            let (mut socket, _) = all.pop()?;
            if socket.is_quiet() {
                return Some(socket);
            }
        }
    }

    pub fn put(&self, socket: Socket) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() < IDLE_MAX {
            all.push((socket, Instant::now()));
        }
    }
}
