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
pub enum Listener {
    /// Over TCP.
    Tcp(TcpListener),
    /// Over a unix socket at this path.
    Unix(UnixListener, PathBuf),
}

impl Listener {
    /// Listens. A stale unix socket is replaced.
    pub fn bind(addr: &ListenAddr) -> io::Result<Listener> {
        match addr {
            ListenAddr::Tcp(addr) => Ok(Listener::Tcp(TcpListener::bind(*addr)?)),
            ListenAddr::Unix(path) => {
                remove_stale(path)?;
                Ok(Listener::Unix(UnixListener::bind(path)?, path.clone()))
            }
        }
    }

    /// The address that it listens on, with the port that the kernel chose.
    pub fn local_addr(&self) -> io::Result<ListenAddr> {
        match self {
            Listener::Tcp(listener) => Ok(ListenAddr::Tcp(listener.local_addr()?)),
            Listener::Unix(_, path) => Ok(ListenAddr::Unix(path.clone())),
        }
    }

    /// The next connection; `None` if there is none now.
    pub fn accept(&self, options: &SocketOptions) -> io::Result<Option<Stream>> {
        let stream = match self {
            Listener::Tcp(listener) => listener.accept().and_then(|(stream, _)| {
                configure(&SockRef::from(&stream), options)?;
                Ok(Stream::Tcp(stream))
            }),
            Listener::Unix(listener, _) => listener.accept().map(|(stream, _)| Stream::Unix(stream)),
        };
        match stream {
            Ok(stream) => Ok(Some(stream)),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Asks for events under `token`.
    pub fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        match self {
            Listener::Tcp(listener) => registry.register(listener, token, Interest::READABLE),
            Listener::Unix(listener, _) => registry.register(listener, token, Interest::READABLE),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Listener::Unix(_, path) = self {
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
