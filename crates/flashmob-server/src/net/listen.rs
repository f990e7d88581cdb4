//! Where clients and gateways connect: TCP addresses and unix sockets.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use mio::net::{TcpListener, UnixListener};
use mio::{Interest, Registry, Token};
use socket2::SockRef;

use super::stream::{SocketOptions, Stream, configure};

/// An address to listen on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ListenAddr {
    /// TCP; port 0 takes any free one.
    Tcp(SocketAddr),
    /// A unix socket at this path.
    Unix(PathBuf),
}

impl ListenAddr {
    /// Whether other machines may reach it.
    #[must_use]
    pub fn is_for_others(&self) -> bool {
        matches!(self, ListenAddr::Tcp(addr) if !addr.ip().to_canonical().is_loopback())
    }
}

impl fmt::Display for ListenAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListenAddr::Tcp(addr) => addr.fmt(f),
            ListenAddr::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// A socket that takes connections. A unix socket's file is removed with it.
#[derive(Debug)]
pub struct Listener {
    socket: Socket,
    must_retry: bool,
}

#[derive(Debug)]
enum Socket {
    Tcp(TcpListener),
    Unix(UnixListener, PathBuf),
}

impl Listener {
    /// Listens. A stale unix socket is replaced.
    pub fn bind(addr: &ListenAddr) -> io::Result<Listener> {
        let socket = match addr {
            ListenAddr::Tcp(addr) => Socket::Tcp(TcpListener::bind(*addr)?),
            ListenAddr::Unix(path) => {
                remove_stale(path)?;
                Socket::Unix(UnixListener::bind(path)?, path.clone())
            }
        };
        Ok(Listener { socket, must_retry: false })
    }

    /// The address that it listens on, with the port that the kernel chose.
    pub fn local_addr(&self) -> io::Result<ListenAddr> {
        match &self.socket {
            Socket::Tcp(listener) => Ok(ListenAddr::Tcp(listener.local_addr()?)),
            Socket::Unix(_, path) => Ok(ListenAddr::Unix(path.clone())),
        }
    }

    /// The next connection; `None` if there is none now. A failure is logged.
    pub fn accept(&mut self, options: &SocketOptions) -> Option<Stream> {
        let stream = match &self.socket {
            Socket::Tcp(listener) => listener.accept().and_then(|(stream, _)| {
                configure(&SockRef::from(&stream), options)?;
                Ok(Stream::from(stream))
            }),
            Socket::Unix(listener, _) => listener.accept().map(|(stream, _)| Stream::from(stream)),
        };
        self.must_retry = stream.as_ref().is_err_and(|e| e.kind() != io::ErrorKind::WouldBlock);
        if let (Err(error), true) = (&stream, self.must_retry) {
            let at = self.local_addr().map_or_else(|_| String::new(), |addr| format!(" at {addr}"));
            log::warn!("cannot accept a connection{at}: {error}; retrying");
        }
        stream.ok()
    }

    /// The last accept failed, perhaps for lack of descriptors: there is no further event for connections that wait already.
    #[must_use]
    pub fn must_retry(&self) -> bool {
        self.must_retry
    }

    /// Asks for events under `token`.
    pub fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        match &mut self.socket {
            Socket::Tcp(listener) => registry.register(listener, token, Interest::READABLE),
            Socket::Unix(listener, _) => registry.register(listener, token, Interest::READABLE),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Socket::Unix(_, path) = &self.socket {
            // If that fails, the next start replaces the stale socket.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Removes the file of a unix socket without a listener.
fn remove_stale(path: &Path) -> io::Result<()> {
    let Ok(metadata) = std::fs::symlink_metadata(path) else { return Ok(()) };
    if !metadata.file_type().is_socket() {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "a file that is not a socket has this path"));
    }
    match std::os::unix::net::UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => std::fs::remove_file(path),
        Err(error) => Err(error),
        Ok(_) => Err(io::Error::new(io::ErrorKind::AddrInUse, "another process listens on it")),
    }
}
