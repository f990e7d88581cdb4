//! The same TLS on tokio's sockets, for a port that serves several purposes: what a client asks for says which end it gets.

use std::io;

use rustls::server::Acceptor;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;

use super::{TlsEnd, failed};

/// What a client has proven.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Proven {
    /// Nothing.
    Nothing,
    /// That it has the key of this certificate, in DER.
    Certificate(Vec<u8>),
    /// That it has the private half of this SubjectPublicKeyInfo.
    Key(Vec<u8>),
}

/// Makes a connection secret. `end_for` is asked whether the client names `purpose`, which is for keys without certificates; others name none, or one
/// that is not known here. Nothing but the socket limits how long it takes.
///
/// # Errors
/// The keys are not good, or the connection failed; or there is no such end.
pub async fn accept<S: AsyncRead + AsyncWrite + Unpin>(
    socket: S,
    purpose: &[u8],
    end_for: impl FnOnce(bool) -> io::Result<TlsEnd>,
) -> io::Result<(TlsStream<S>, Proven)> {
    let start = LazyConfigAcceptor::new(Acceptor::default(), socket).await?;
    let has_purpose = start.client_hello().alpn().is_some_and(|mut names| names.any(|name| name == purpose));
    let end = end_for(has_purpose)?;
    let config = end.serving_config().ok_or(io::ErrorKind::Unsupported)?;
    let stream = start.into_stream(config).await.map_err(explained)?;
    let shown = stream.get_ref().1.peer_certificates().and_then(|shown| shown.first());
    let proven = match shown {
        None => Proven::Nothing,
        Some(key) if has_purpose => Proven::Key(key.to_vec()),
        Some(certificate) => Proven::Certificate(certificate.to_vec()),
    };
    Ok((stream, proven))
}

/// The library's errors arrive inside those of the socket.
fn explained(error: io::Error) -> io::Error {
    match error.downcast::<rustls::Error>() {
        Ok(error) => failed(error),
        Err(error) => error,
    }
}
