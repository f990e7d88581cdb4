//! The server: one test after the other, for any client.
//!
//! One thread accepts connections and reads their cookies. A new cookie is a test, which a thread serves; the cookie of the running
//! test belongs to one of its data connections; other clients are told that the server is busy. So a client that sends no cookie, or half of
//! one, delays no other client.

pub(super) mod failure;
mod limited;
mod reception;
mod session;
mod waiting;

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::control::Control;
use super::error::NetError;
use super::protocol::Cookie;
use super::setup;
use reception::Reception;
use session::Session;

/// Time limit for a test to end.
const ENDS_WITHIN: Duration = Duration::from_secs(3);

/// An event, for a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// A test is over.
    Test {
        /// The client.
        client: SocketAddr,
        /// The test and its outcome.
        what: String,
    },
    /// A test failed, or a connection was not a test.
    Failed {
        /// The client.
        client: SocketAddr,
        /// The reason.
        why: String,
    },
    /// A client was refused because the server is busy.
    Busy {
        /// The client.
        client: SocketAddr,
    },
    /// Further events of a kind that were not told one by one, because there were too many.
    More {
        /// Their number, within about a minute.
        number: u64,
        /// What they were: "tests gave no result".
        what: &'static str,
    },
}

/// A server that listens.
#[derive(Debug)]
pub struct Server {
    listener: Arc<TcpListener>,
    bind: IpAddr,
    address: SocketAddr,
    longest: Duration,
}

struct Active {
    cookie: Cookie,
    /// How many data connections it still accepts.
    wanted_streams: usize,
    /// The control connection, to see whether its client is still there; absent if no descriptor was left.
    control: Option<TcpStream>,
    streams: Sender<(u64, TcpStream)>,
}

/// State shared by the threads of the server.
struct Desk {
    active: Mutex<Option<Active>>,
    told: Sender<(Told, bool)>,
    cancel: Arc<AtomicBool>,
    bind: IpAddr,
    port: u16,
    /// The longest test that is served.
    longest: Duration,
}

impl Desk {
    fn active(&self) -> MutexGuard<'_, Option<Active>> {
        // It is consistent even after a panic.
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `is_test` if a test had begun, whatever its outcome.
    fn tell(&self, told: Told, is_test: bool) {
        // The receiver may have ended.
        let _ = self.told.send((told, is_test));
    }
}

impl Server {
    /// Listens on this address. [`Ipv4Addr::UNSPECIFIED`](std::net::Ipv4Addr::UNSPECIFIED) stands for all addresses of IPv4, and
    /// [`Ipv6Addr::UNSPECIFIED`](std::net::Ipv6Addr::UNSPECIFIED) for those of both families. A test lasts `longest` at most.
    ///
    /// # Errors
    /// The port is taken, or the address is not this device's.
    pub fn bind(bind: IpAddr, port: u16, longest: Duration) -> Result<Server, NetError> {
        let listen = || {
            let listener = setup::listen(bind, port)?;
            let address = listener.local_addr()?;
            Ok((listener, address))
        };
        let (listener, address) = listen().map_err(|error: io::Error| match error.kind() {
            io::ErrorKind::AddrInUse => {
                NetError::Unsuitable(format!("port {port} is taken: another server runs; choose another with --port"))
            }
            io::ErrorKind::AddrNotAvailable => NetError::Unsuitable(format!("{bind} is not an address of this device")),
            _ => NetError::System { doing: "listen", source: error },
        })?;
        Ok(Server { listener: Arc::new(listener), bind, address, longest })
    }

    /// Its address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `cancel`, or one test. Returns whether the last test succeeded.
    pub fn run(self, is_one_off: bool, cancel: &Arc<AtomicBool>, tell: &mut dyn FnMut(&Told)) -> bool {
        let (sender, told) = channel();
        let desk = Arc::new(Desk {
            active: Mutex::new(None),
            told: sender,
            cancel: Arc::clone(cancel),
            bind: self.bind,
            port: self.address.port(),
            longest: self.longest,
        });
        let mut reception = Reception::new(desk, self.listener);
        let is_good = reception.serve(is_one_off, &told, tell);
        cancel.store(true, Ordering::Relaxed);
        reception.end(Instant::now() + ENDS_WITHIN, &told, tell);
        is_good
    }
}

impl Desk {
    /// Serves a test.
    fn serve(
        &self,
        stream: TcpStream,
        client: SocketAddr,
        listener: Arc<TcpListener>,
        arriving: Receiver<(u64, TcpStream)>,
    ) {
        let session = stream
            .set_nonblocking(false)
            .map_err(NetError::system("set up the control connection"))
            .and_then(|()| Control::new(stream, client.to_string()))
            .map(|control| Session::new(control, client, self, listener, arriving));
        let (session, outcome) = match session {
            Ok(session) => {
                let outcome = session.run();
                (Some(session), outcome)
            }
            Err(error) => (None, Err(error)),
        };
        *self.active() = None;
        // For clients the closed connection means that the next test may begin.
        drop(session);
        let told = match outcome {
            Ok(what) => Told::Test { client, what },
            Err(NetError::Cancelled) => Told::Failed { client, why: "this server was stopped".into() },
            Err(error) => Told::Failed { client, why: error.to_string() },
        };
        self.tell(told, true);
    }

    fn want_streams(&self, count: usize) {
        if let Some(active) = &mut *self.active() {
            active.wanted_streams = count;
        }
    }
}
