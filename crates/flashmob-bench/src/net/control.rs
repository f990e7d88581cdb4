//! The control connection: single bytes and JSON, all with time limits.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::Value;
use socket2::{SockRef, TcpKeepalive};

use super::error::NetError;
use super::protocol::{State, framed, json_bytes};

/// Time limit for sending a few bytes.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// The control connection is silent during the transfer: keepalives detect within a minute that the other end vanished, even if this end only
/// sends datagrams. Many probes, because data may crowd them out.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(15);
const KEEPALIVE_EVERY: Duration = Duration::from_secs(5);
const KEEPALIVE_TRIES: u32 = 9;
/// Interval of checks for cancellation.
const LOOKS_EVERY: Duration = Duration::from_millis(100);
/// Most bytes of a foreign answer that are quoted.
const SAID_BYTES_MAX: usize = 60;

#[derive(Debug)]
pub(super) struct Control {
    stream: TcpStream,
    /// The other end's name, for messages.
    pub peer: String,
}

/// The outcome of waiting for a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    Byte(u8),
    Nothing,
    Closed,
}

impl Control {
    pub fn new(stream: TcpStream, peer: String) -> Result<Control, NetError> {
        let set = || -> io::Result<()> {
            stream.set_nodelay(true)?;
            let keepalive = TcpKeepalive::new().with_time(KEEPALIVE_AFTER).with_interval(KEEPALIVE_EVERY);
            SockRef::from(&stream).set_tcp_keepalive(&keepalive.with_retries(KEEPALIVE_TRIES))?;
            stream.set_write_timeout(Some(WRITE_TIMEOUT))
        };
        set().map_err(NetError::system("set up the control connection"))?;
        Ok(Control { stream, peer })
    }

    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    pub fn hear(&self, wait: Duration) -> io::Result<Heard> {
        let wait = Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: i64::from(wait.subsec_nanos()) };
        let mut fds = [PollFd::from_borrowed_fd(self.stream.as_fd(), PollFlags::IN)];
        match poll(&mut fds, Some(&wait)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(Heard::Nothing),
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        let mut byte = [0];
        match (&self.stream).read(&mut byte) {
            Ok(0) => Ok(Heard::Closed),
            Ok(_) => Ok(Heard::Byte(byte[0])),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(Heard::Nothing),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(Heard::Closed),
            Err(error) => Err(error),
        }
    }

    pub fn byte(&self, limit: Duration, doing: &str, cancel: &AtomicBool) -> Result<u8, NetError> {
        let until = Instant::now() + limit;
        loop {
            if cancel.load(Ordering::Relaxed) {
                return Err(NetError::Cancelled);
            }
            let left = until.saturating_duration_since(Instant::now());
            match self.hear(left.min(LOOKS_EVERY)).map_err(|source| self.broken(doing, source))? {
                Heard::Byte(byte) => return Ok(byte),
                Heard::Closed => return Err(self.closed(doing)),
                Heard::Nothing if left.is_zero() => return Err(self.silent(doing, limit)),
                Heard::Nothing => {}
            }
        }
    }

    /// The next state; an error if it speaks another protocol.
    pub fn state(&self, limit: Duration, doing: &str, cancel: &AtomicBool) -> Result<State, NetError> {
        let byte = self.byte(limit, doing, cancel)?;
        State::of(byte).ok_or_else(|| self.foreign(byte))
    }

    /// The error for a peer that began with this byte.
    pub fn foreign(&self, byte: u8) -> NetError {
        let mut said = vec![byte];
        // A banner has arrived as a whole.
        while let (Ok(Heard::Byte(byte)), true) = (self.hear(LOOKS_EVERY), said.len() < SAID_BYTES_MAX) {
            said.push(byte);
        }
        let text = String::from_utf8_lossy(&said).lines().next().unwrap_or_default().escape_debug().to_string();
        let is_text = said.iter().all(|b| b.is_ascii_graphic() || b.is_ascii_whitespace());
        let said = if is_text { format!("'{text}'") } else { format!("byte {byte}, which is not a state of a test") };
        NetError::Foreign { peer: self.peer.clone(), said }
    }

    pub fn say(&self, state: State, doing: &str) -> Result<(), NetError> {
        self.write(&[state.byte()], doing)
    }

    pub fn write(&self, bytes: &[u8], doing: &str) -> Result<(), NetError> {
        (&self.stream).write_all(bytes).map_err(|source| self.broken(doing, source))
    }

    pub fn write_json(&self, json: &Value, doing: &str) -> Result<(), NetError> {
        self.write(&framed(json), doing)
    }

    pub fn read_json(&self, max: u32, limit: Duration, doing: &str) -> Result<Vec<u8>, NetError> {
        let until = Instant::now() + limit;
        let mut prefix = [0; 4];
        self.read(&mut prefix, until, limit, doing)?;
        let bytes = json_bytes(prefix, max).map_err(|error| self.protocol(error.to_string()))?;
        let mut text = vec![0; bytes];
        self.read(&mut text, until, limit, doing)?;
        Ok(text)
    }

    /// Two numbers that follow [`State::ServerError`].
    pub fn numbers(&self, limit: Duration, doing: &str) -> Result<(u32, u32), NetError> {
        let (mut first, mut second) = ([0; 4], [0; 4]);
        let until = Instant::now() + limit;
        self.read(&mut first, until, limit, doing)?;
        self.read(&mut second, until, limit, doing)?;
        Ok((u32::from_be_bytes(first), u32::from_be_bytes(second)))
    }

    fn read(&self, buffer: &mut [u8], until: Instant, limit: Duration, doing: &str) -> Result<(), NetError> {
        match read_exact(&self.stream, buffer, until) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => Err(self.silent(doing, limit)),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(self.closed(doing)),
            Err(source) => Err(self.broken(doing, source)),
        }
    }

    pub fn protocol(&self, reason: String) -> NetError {
        NetError::Protocol { peer: self.peer.clone(), reason }
    }

    pub fn silent(&self, doing: &str, after: Duration) -> NetError {
        NetError::Silent { peer: self.peer.clone(), doing: doing.into(), after }
    }

    pub fn closed(&self, doing: &str) -> NetError {
        NetError::Closed { peer: self.peer.clone(), doing: doing.into() }
    }

    fn broken(&self, doing: &str, source: io::Error) -> NetError {
        match source.kind() {
            io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => self.closed(doing),
            _ => NetError::Broken { peer: self.peer.clone(), doing: doing.into(), source },
        }
    }
}

/// Fills the buffer until a deadline, however slowly the bytes arrive.
pub(super) fn read_exact(stream: &TcpStream, buffer: &mut [u8], until: Instant) -> io::Result<()> {
    let mut filled = 0;
    while filled < buffer.len() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match (&*stream).read(&mut buffer[filled..]) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(bytes) => filled += bytes,
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(error) => return Err(error),
        }
    }
    stream.set_read_timeout(None)
}
