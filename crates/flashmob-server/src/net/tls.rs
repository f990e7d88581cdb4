//! TLS 1.3. Between a gateway and a node, or a device that is to be one, each end proves an Ed25519 key of its own, without certificates (RFC 7250); NBD and
//! administration have certificates, and NBD takes 1.2 as well.
//!
//! Nothing is resumed, and nothing is sent early: each connection verifies both keys. No other file knows the library.

mod accept;
mod config;
pub mod pem;
#[cfg(test)]
mod tests;
mod verify;
mod waiting;

use std::cell::RefCell;
use std::io::{self, IoSlice, Read, Write};
use std::time::Duration;

use flashmob_core::buffers::{OutQueue, RxBuf};
use rustls::{AlertDescription, CertificateError, CommonState, Connection, Error};

pub use accept::{Proven, accept};
pub use config::{AskedCertificates, CertifiedIdentity, TlsEnd, TlsIdentity, Versions};
pub use waiting::WaitingTls;

use super::Filled;
use super::stream::{READ_BYTES, SLICES, Socket};

/// Most bytes that are read before keys are proven: many times what raw keys, or a chain of certificates, need.
pub const HANDSHAKE_BYTES_MAX: usize = 16 * 1024;
/// How long a program waits for a handshake, and for a message.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// The first byte of a connection that begins with a handshake.
pub const HANDSHAKE_RECORD: u8 = 22;

thread_local! {
    /// Where encrypted bytes arrive: a thread fills one connection at a time.
    static ARRIVED: RefCell<Vec<u8>> = RefCell::new(vec![0; READ_BYTES]);
}

/// What encrypts the bytes of a connection.
#[derive(Debug)]
pub(super) struct Session {
    connection: Connection,
    /// Bytes at the front of the queue that are encrypted, and not all in the socket yet.
    taken_bytes: usize,
    /// Bytes read before keys were proven.
    unproven_bytes: usize,
    /// The other end has closed its side.
    has_ended: bool,
}

impl Session {
    pub fn begin(end: &TlsEnd) -> io::Result<Session> {
        let connection = end.begin().map_err(io::Error::other)?;
        Ok(Session { connection, taken_bytes: 0, unproven_bytes: 0, has_ended: false })
    }

    /// Whether the handshake is over, so that the other end's key is proven.
    pub fn is_secured(&self) -> bool {
        !self.connection.is_handshaking()
    }

    /// The other end's key, as a SubjectPublicKeyInfo, if the handshake is over and was for `purpose`.
    pub fn peer_spki(&self, purpose: &[u8]) -> Option<&[u8]> {
        spki_of(&self.connection, purpose)
    }

    /// The other end's own certificate, in DER, if the handshake is over.
    pub fn peer_certificate(&self) -> Option<&[u8]> {
        if self.connection.is_handshaking() {
            return None;
        }
        self.connection.peer_certificates()?.first().map(AsRef::as_ref)
    }

    /// Writes what the session itself has to say.
    pub fn flush(&mut self, socket: &mut Socket) -> io::Result<bool> {
        while self.connection.wants_write() {
            match self.connection.write_tls(socket) {
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(true)
    }

    /// Reads once from the socket, at most `limit` bytes, and decrypts all whole records.
    pub fn fill(&mut self, socket: &mut Socket, rx: &mut RxBuf, limit: usize) -> io::Result<Filled> {
        ARRIVED.with_borrow_mut(|room| {
            let limit = limit.min(room.len());
            let count = loop {
                match socket.read(&mut room[..limit]) {
                    Ok(0) => return Ok(Filled::End),
                    Ok(count) => break count,
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(Filled::Drained(0)),
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                    Err(e) => return Err(e),
                }
            };
            if self.connection.is_handshaking() {
                self.unproven_bytes += count;
                if self.unproven_bytes > HANDSHAKE_BYTES_MAX {
                    return Err(too_long());
                }
            }
            let filled = self.decrypt(&room[..count], rx);
            // Also an alert that says what was wrong.
            let flushed = self.flush(socket);
            let filled = filled?;
            flushed?;
            if self.has_ended && filled == 0 {
                return Ok(Filled::End);
            }
            Ok(if count < limit { Filled::Drained(filled) } else { Filled::More(filled) })
        })
    }

    fn decrypt(&mut self, mut bytes: &[u8], rx: &mut RxBuf) -> io::Result<usize> {
        let mut filled = 0;
        while !bytes.is_empty() && !self.has_ended {
            self.connection.read_tls(&mut bytes)?;
            let state = self.connection.process_new_packets().map_err(failed)?;
            self.has_ended = state.peer_has_closed();
            let mut waiting = state.plaintext_bytes_to_read();
            while waiting > 0 {
                let count = self.connection.reader().read(&mut rx.space(waiting)[..waiting])?;
                rx.filled(count);
                (waiting, filled) = (waiting - count, filled + count);
            }
        }
        Ok(filled)
    }

    /// Encrypts what waits, and writes it. Returns how many bytes of the queue are all in the socket; 0 if it takes none now. Nothing more is encrypted
    /// before that, so what the queue counts as waiting does wait.
    pub fn drain_once(&mut self, socket: &mut Socket, out: &OutQueue) -> io::Result<usize> {
        if self.taken_bytes == 0 {
            let mut slices = [IoSlice::new(&[]); SLICES];
            let count = out.fill_slices(&mut slices);
            self.taken_bytes = self.connection.writer().write_vectored(&slices[..count])?;
        }
        if !self.flush(socket)? {
            return Ok(0);
        }
        Ok(std::mem::take(&mut self.taken_bytes))
    }

    pub fn send_first(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.connection.writer().write_all(bytes)
    }

    /// Tells the other end that nothing was cut off. It may be gone.
    pub fn close(&mut self, socket: &mut Socket) {
        self.connection.send_close_notify();
        let _ = self.flush(socket);
    }
}

fn too_long() -> io::Error {
    let text = format!("the handshake has more than {HANDSHAKE_BYTES_MAX} bytes");
    io::Error::new(io::ErrorKind::InvalidData, text)
}

/// The other end's key, if it is proven and for this purpose. Who names no purpose passes the library's check.
fn spki_of<'a>(common: &'a CommonState, purpose: &[u8]) -> Option<&'a [u8]> {
    if common.is_handshaking() || common.alpn_protocol() != Some(purpose) {
        return None;
    }
    match common.peer_certificates()? {
        [key] => Some(key.as_ref()),
        _ => None,
    }
}

/// The other end has proven a key, and it is none that is known.
pub(crate) const UNKNOWN_KEY: &str = "the other end has a key that is not known here";

/// What went wrong, for people. [`io::ErrorKind::PermissionDenied`]: it will go wrong again until somebody does something.
fn failed(error: Error) -> io::Error {
    use AlertDescription as Alert;
    let (kind, text) = match &error {
        Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType) => (
            io::ErrorKind::PermissionDenied,
            "the other end does not speak TLS: it has no keys, or is no flashmob".to_string(),
        ),
        Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure) => {
            (io::ErrorKind::PermissionDenied, UNKNOWN_KEY.to_string())
        }
        Error::InvalidCertificate(CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. }) => (
            io::ErrorKind::PermissionDenied,
            "the other end's certificate does not have this name or address: list the name in 'admin_hosts' (gateway) or --admin-host (node)".to_string(),
        ),
        Error::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature) => (
            io::ErrorKind::PermissionDenied,
            "the other end's certificate is of another authority than that which is known here (ca-cert.pem)".to_string(),
        ),
        Error::AlertReceived(Alert::AccessDenied | Alert::CertificateUnknown | Alert::BadCertificate) => {
            (io::ErrorKind::PermissionDenied, "the other end does not accept this key".to_string())
        }
        Error::AlertReceived(Alert::NoApplicationProtocol | Alert::ProtocolVersion) => (
            io::ErrorKind::PermissionDenied,
            "the other end serves another purpose, or runs another version".to_string(),
        ),
        Error::DecryptError => (io::ErrorKind::InvalidData, "bytes were changed on the way".to_string()),
        Error::AlertReceived(alert) => {
            (io::ErrorKind::InvalidData, format!("the other end ended the connection: {alert:?}"))
        }
        other => (io::ErrorKind::InvalidData, format!("TLS: {other}")),
    };
    io::Error::new(kind, Failure { text, cause: error })
}

/// What went wrong, for people and for programs.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
struct Failure {
    text: String,
    cause: Error,
}

/// What the library says of it, for a server that is no flashmob; `None` if TLS is not why.
#[must_use]
pub fn library_reason(error: &io::Error) -> Option<String> {
    Some(failure(error)?.cause.to_string())
}

/// Whether the other end refused what it was shown, or that nothing was. With TLS 1.3 that comes after the handshake, and
/// before anything is read there.
#[must_use]
pub fn is_refusal(error: &io::Error) -> bool {
    use AlertDescription as Alert;
    matches!(
        failure(error).map(|failure| &failure.cause),
        Some(Error::AlertReceived(
            Alert::AccessDenied
                | Alert::BadCertificate
                | Alert::CertificateExpired
                | Alert::CertificateRequired
                | Alert::CertificateRevoked
                | Alert::CertificateUnknown
                | Alert::DecryptError
                | Alert::HandshakeFailure
                | Alert::UnknownCA
                | Alert::UnsupportedCertificate
        ))
    )
}

fn failure(error: &io::Error) -> Option<&Failure> {
    error.get_ref()?.downcast_ref()
}
