//! The server: one test after the other, for any client.
//!
//! Every connection has a thread that reads its cookie. A new cookie is a test, which that thread serves; the cookie of the running test
//! belongs to one of its data connections; other clients are told that the server is busy. So a client that sends no cookie, or half of one,
//! delays no other client.

pub(super) mod failure;
mod session;

use std::io;
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::control::{Control, read_exact};
use super::error::NetError;
use super::protocol::{COOKIE_BYTES, Cookie, State};
use super::setup;
use session::Session;

/// Time limit for a cookie.
const COOKIE_TIMEOUT: Duration = Duration::from_secs(5);
/// Most connections whose cookies are read at once; others are closed.
const GREETED_MAX: usize = 512;
/// Interval of checks for the end.
const LOOKS_EVERY: Duration = Duration::from_millis(100);
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
}

/// A server that listens.
#[derive(Debug)]
pub struct Server {
    listener: Arc<TcpListener>,
    bind: Option<IpAddr>,
    address: SocketAddr,
}

struct Active {
    cookie: Cookie,
    /// It accepts data connections.
    wants_streams: bool,
    streams: Sender<(u64, TcpStream)>,
}

/// State shared by the threads of the server.
struct Desk {
    active: Mutex<Option<Active>>,
    greeted: AtomicUsize,
    told: Sender<(Told, bool)>,
    cancel: Arc<AtomicBool>,
    bind: Option<IpAddr>,
    port: u16,
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
    /// Listens on this address, or on all.
    ///
    /// # Errors
    /// The port is taken, or the address is not this device's.
    pub fn bind(bind: Option<IpAddr>, port: u16) -> Result<Server, NetError> {
        let listen = || {
            let listener = setup::listen(bind, port)?;
            let address = listener.local_addr()?;
            Ok((listener, address))
        };
        let (listener, address) = listen().map_err(|error: io::Error| match error.kind() {
            io::ErrorKind::AddrInUse => {
                NetError::Unsuitable(format!("port {port} is taken: another server runs; choose another with --port"))
            }
            io::ErrorKind::AddrNotAvailable => NetError::Unsuitable(format!(
                "{} is not an address of this device",
                bind.map_or_else(String::new, |address| address.to_string())
            )),
            _ => NetError::System { doing: "listen", source: error },
        })?;
        Ok(Server { listener: Arc::new(listener), bind, address })
    }

    /// Its address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `cancel`, or one test. Returns whether the last test succeeded.
    ///
    /// # Errors
    /// It cannot listen any more.
    pub fn run(
        self,
        is_one_off: bool,
        cancel: &Arc<AtomicBool>,
        tell: &mut dyn FnMut(&Told),
    ) -> Result<bool, NetError> {
        let (sender, told) = channel();
        let desk = Arc::new(Desk {
            active: Mutex::new(None),
            greeted: AtomicUsize::new(0),
            told: sender,
            cancel: Arc::clone(cancel),
            bind: self.bind,
            port: self.address.port(),
        });
        let outcome = self.serve(&desk, is_one_off, &told, tell);
        cancel.store(true, Ordering::Relaxed);
        let until = Instant::now() + ENDS_WITHIN;
        while desk.active().is_some() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
        }
        told.try_iter().for_each(|(told, _)| tell(&told));
        outcome
    }

    fn serve(
        &self,
        desk: &Arc<Desk>,
        is_one_off: bool,
        told: &Receiver<(Told, bool)>,
        tell: &mut dyn FnMut(&Told),
    ) -> Result<bool, NetError> {
        let (mut is_good, mut count) = (true, 0);
        loop {
            for (told, is_test) in told.try_iter() {
                tell(&told);
                if is_test {
                    is_good = matches!(told, Told::Test { .. });
                    if is_one_off {
                        return Ok(is_good);
                    }
                }
            }
            if desk.cancel.load(Ordering::Relaxed) {
                return Ok(is_good);
            }
            let wait = Timespec { tv_sec: 0, tv_nsec: i64::from(LOOKS_EVERY.subsec_nanos()) };
            // Accept reports the outcome.
            let _ = poll(&mut [PollFd::from_borrowed_fd(self.listener.as_fd(), PollFlags::IN)], Some(&wait));
            match self.listener.accept() {
                Ok((stream, client)) => {
                    count += 1;
                    greet(stream, client, count, desk, &self.listener);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // The client has gone, or descriptors are exhausted.
                Err(_) => std::thread::sleep(Duration::from_millis(10)),
            }
        }
    }
}

/// Reads the cookie on a thread of its own, and handles the connection. `count` is the number of the connection in order of arrival.
fn greet(stream: TcpStream, client: SocketAddr, count: u64, desk: &Arc<Desk>, listener: &Arc<TcpListener>) {
    // Show IPv4 addresses as such.
    let client = SocketAddr::new(client.ip().to_canonical(), client.port());
    // Only this thread adds to it.
    if desk.greeted.load(Ordering::Relaxed) >= GREETED_MAX {
        return;
    }
    desk.greeted.fetch_add(1, Ordering::Relaxed);
    let (thread_desk, listener) = (Arc::clone(desk), Arc::clone(listener));
    let thread = std::thread::Builder::new().name("client".into()).stack_size(512 << 10).spawn(move || {
        let cookie = read_cookie(&stream);
        thread_desk.greeted.fetch_sub(1, Ordering::Relaxed);
        let Some(cookie) = cookie else {
            return thread_desk.tell(Told::Failed { client, why: "it did not send an iperf3 cookie".into() }, false);
        };
        if let Some(streams) = thread_desk.take(&cookie, &stream, client, count) {
            let session = Control::new(stream, client.to_string())
                .map(|control| Session::new(control, client, &thread_desk, listener, streams));
            let outcome = session.as_ref().map_or_else(|_| Err(NetError::Cancelled), Session::run);
            *thread_desk.active() = None;
            // For clients the closed connection means that the next test may begin.
            drop(session);
            let told = match outcome {
                Ok(what) => Told::Test { client, what },
                Err(NetError::Cancelled) => Told::Failed { client, why: "this server was stopped".into() },
                Err(error) => Told::Failed { client, why: error.to_string() },
            };
            thread_desk.tell(told, true);
        }
    });
    if thread.is_err() {
        desk.greeted.fetch_sub(1, Ordering::Relaxed);
    }
}

fn read_cookie(stream: &TcpStream) -> Option<Cookie> {
    // On some systems accepted sockets inherit the listener's mode.
    stream.set_nonblocking(false).ok()?;
    let mut bytes = [0; COOKIE_BYTES];
    read_exact(stream, &mut bytes, Instant::now() + COOKIE_TIMEOUT).ok()?;
    Cookie::parse(bytes).ok()
}

impl Desk {
    /// Handles a connection with this cookie. For a new test, returns the channel of its data connections.
    fn take(
        &self,
        cookie: &Cookie,
        stream: &TcpStream,
        client: SocketAddr,
        count: u64,
    ) -> Option<Receiver<(u64, TcpStream)>> {
        let mut active = self.active();
        match &*active {
            None => {
                let (streams, arriving) = channel();
                *active = Some(Active { cookie: cookie.clone(), wants_streams: false, streams });
                return Some(arriving);
            }
            Some(test) if test.cookie == *cookie && test.wants_streams => {
                if let Ok(stream) = stream.try_clone() {
                    // The test may be over.
                    let _ = test.streams.send((count, stream));
                }
            }
            Some(_) => {
                drop(active);
                deny(stream);
                self.tell(Told::Busy { client }, false);
            }
        }
        None
    }

    fn want_streams(&self, wants: bool) {
        if let Some(active) = &mut *self.active() {
            active.wants_streams = wants;
        }
    }
}

fn deny(stream: &TcpStream) {
    use std::io::Write;
    // The client may not wait for the answer.
    let mut stream = stream;
    let _ = stream.write_all(&[State::AccessDenied.byte()]);
    let _ = stream.shutdown(Shutdown::Write);
}
