//! The same TLS for programs that wait for each byte, with a socket of their own.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustls::Connection;

use super::{HANDSHAKE_BYTES_MAX, PATIENCE, TlsEnd, failed, spki_of, too_long};

/// A connection for programs that wait for each byte.
#[derive(Debug)]
pub struct WaitingTls {
    connection: Connection,
    tcp: TcpStream,
    /// The socket's own timeout.
    timeout: Option<Duration>,
    /// When waiting ends, in its place.
    until: Option<Instant>,
}

impl WaitingTls {
    /// Waits until both keys are proven, at most [`PATIENCE`], however slowly bytes come.
    ///
    /// # Errors
    /// They are not, or the connection failed.
    pub fn begin(end: &TlsEnd, tcp: TcpStream) -> io::Result<WaitingTls> {
        WaitingTls::begin_until(end, tcp, Instant::now() + PATIENCE)
    }

    /// The same until this time.
    ///
    /// # Errors
    /// As [`WaitingTls::begin`].
    pub fn begin_until(end: &TlsEnd, tcp: TcpStream, until: Instant) -> io::Result<WaitingTls> {
        let connection = end.begin().map_err(io::Error::other)?;
        let (timeout, until) = (tcp.read_timeout()?, Some(until));
        let mut tls = WaitingTls { connection, tcp, timeout, until };
        tls.prove()?;
        tls.wait_until(None)?;
        Ok(tls)
    }

    fn prove(&mut self) -> io::Result<()> {
        let left = self.until.map_or(PATIENCE, |until| until.saturating_duration_since(Instant::now()));
        self.tcp.set_write_timeout(Some(left.max(Duration::from_millis(1))))?;
        let mut received_bytes = 0;
        while self.connection.is_handshaking() {
            self.send()?;
            if self.connection.is_handshaking() {
                received_bytes += self.receive()?;
                if received_bytes > HANDSHAKE_BYTES_MAX {
                    return Err(too_long());
                }
            }
        }
        self.send()
    }

    /// Reads from the socket once. Returns how many bytes came.
    fn receive(&mut self) -> io::Result<usize> {
        if let Some(until) = self.until {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(late());
            }
            self.tcp.set_read_timeout(Some(left))?;
        }
        let count = match self.connection.read_tls(&mut self.tcp) {
            Err(e) if is_late(&e) && self.until.is_some() => return Err(late()),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => return Ok(0),
            read => read?,
        };
        if let Err(error) = self.connection.process_new_packets() {
            // An alert says what was wrong.
            let _ = self.send();
            return Err(failed(error));
        }
        if count == 0 && self.connection.is_handshaking() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(count)
    }

    fn send(&mut self) -> io::Result<()> {
        while self.connection.wants_write() {
            match self.connection.write_tls(&mut self.tcp) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                written => {
                    written?;
                }
            }
        }
        Ok(())
    }

    /// The other end's key, as a SubjectPublicKeyInfo, if it is for this purpose.
    #[must_use]
    pub fn peer_spki(&self, purpose: &[u8]) -> Option<&[u8]> {
        spki_of(&self.connection, purpose)
    }

    /// What this session alone has, on both ends, for this label (RFC 8446, 7.5).
    ///
    /// # Errors
    /// The library's.
    pub fn export(&self, label: &[u8]) -> io::Result<[u8; 32]> {
        self.connection.export_keying_material([0; 32], label, None).map_err(io::Error::other)
    }

    /// Lets waiting for bytes end at this time, or when the timeout that the socket had at first is over.
    ///
    /// # Errors
    /// The socket's.
    pub fn wait_until(&mut self, until: Option<Instant>) -> io::Result<()> {
        self.until = until;
        if until.is_none() { self.tcp.set_read_timeout(self.timeout) } else { Ok(()) }
    }

    /// Whether bytes have come that nobody has read.
    pub fn holds_bytes(&mut self) -> bool {
        self.connection.process_new_packets().is_ok_and(|state| state.plaintext_bytes_to_read() > 0)
    }

    /// The socket below, for its options and its state, not for its bytes.
    #[must_use]
    pub fn socket(&self) -> &TcpStream {
        &self.tcp
    }
}

/// Tells the other end that nothing was cut off. It may be gone.
impl Drop for WaitingTls {
    fn drop(&mut self) {
        self.connection.send_close_notify();
        let _ = self.send();
    }
}

impl Read for WaitingTls {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.connection.reader().read(room) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => self.receive()?,
                Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => {
                    return Err(io::Error::new(e.kind(), "the other end was cut off"));
                }
                read => return read,
            };
        }
    }
}

impl Write for WaitingTls {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.connection.writer().write(bytes)?;
        self.send()?;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.send()
    }
}

/// Whether a socket's timeout is over.
fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

fn late() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "no answer in time")
}
