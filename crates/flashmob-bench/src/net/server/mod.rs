//! The server: one test after the other, for whoever comes, for ever.
//!
//! Every connection has a short thread that reads its cookie. The first cookie is a test, and that thread serves it; a cookie of the
//! running test is one of its data connections; all others are told that the server is busy. So nobody who says half a cookie, or
//! none, keeps anybody else waiting.

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

/// A cookie may take so long.
const COOKIE_TIMEOUT: Duration = Duration::from_secs(5);
/// Connections whose cookies are being read at once; more are closed at once.
const GREETED_MAX: usize = 512;
/// How often it is looked whether it shall end.
const LOOKS_EVERY: Duration = Duration::from_millis(100);
/// A test that is told to end gets so long.
const ENDS_WITHIN: Duration = Duration::from_secs(3);

/// What happened, for a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// A test is over.
    Test {
        /// Who asked for it.
        client: SocketAddr,
        /// What it was, and what came of it.
        what: String,
    },
    /// A test could not be finished, or was none.
    Failed {
        /// Who asked for it.
        client: SocketAddr,
        /// Why.
        why: String,
    },
    /// Somebody was sent away.
    Busy {
        /// Who.
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

/// The test that is served.
struct Active {
    cookie: Cookie,
    /// It waits for data connections.
    wants_streams: bool,
    streams: Sender<(u64, TcpStream)>,
}

/// What all threads of the server share.
struct Desk {
    active: Mutex<Option<Active>>,
    greeted: AtomicUsize,
    told: Mutex<Sender<(Told, bool)>>,
    cancel: Arc<AtomicBool>,
    bind: Option<IpAddr>,
    port: u16,
}

impl Desk {
    fn active(&self) -> MutexGuard<'_, Option<Active>> {
        // Whoever panicked with it left it whole.
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `is_test` if a test began, however it ended.
    fn tell(&self, told: Told, is_test: bool) {
        // Whoever listens may have gone: then nobody wants to know.
        let _ = self.told.lock().unwrap_or_else(PoisonError::into_inner).send((told, is_test));
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
                "{} is no address of this device",
                bind.map_or_else(String::new, |address| address.to_string())
            )),
            _ => NetError::System { doing: "listen", source: error },
        })?;
        Ok(Server { listener: Arc::new(listener), bind, address })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `cancel`, or for one test. Tells whether the last test was finished.
    ///
    /// # Errors
    /// It can no longer listen.
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
            told: Mutex::new(sender),
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
            // Whatever it says, accept knows.
            let _ = poll(&mut [PollFd::from_borrowed_fd(self.listener.as_fd(), PollFlags::IN)], Some(&wait));
            match self.listener.accept() {
                Ok((stream, client)) => {
                    count += 1;
                    greet(stream, client, count, desk, &self.listener);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // Whoever came is gone again, or there are no descriptors for the moment.
                Err(_) => std::thread::sleep(Duration::from_millis(10)),
            }
        }
    }
}

/// Reads the cookie on a thread of its own, and does what it asks for. `count` says in which order connections came.
fn greet(stream: TcpStream, client: SocketAddr, count: u64, desk: &Arc<Desk>, listener: &Arc<TcpListener>) {
    // People know IPv4 addresses as such.
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
            return thread_desk.tell(Told::Failed { client, why: "it said nothing that iperf3 says".into() }, false);
        };
        if let Some(streams) = thread_desk.take(&cookie, &stream, client, count) {
            let session = Control::new(stream, client.to_string())
                .map(|control| Session::new(control, client, &thread_desk, listener, streams));
            let outcome = session.as_ref().map_or_else(|_| Err(NetError::Cancelled), Session::run);
            *thread_desk.active() = None;
            // A client that waits for this knows that the next test may come.
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
    // Where accept hands it on, the listener's mode does not come along; elsewhere it may.
    stream.set_nonblocking(false).ok()?;
    let mut bytes = [0; COOKIE_BYTES];
    read_exact(stream, &mut bytes, Instant::now() + COOKIE_TIMEOUT).ok()?;
    Cookie::parse(bytes).ok()
}

impl Desk {
    /// What a connection with this cookie is: a test to be served gets its data connections from what is returned.
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
                    // A test that is over wants none.
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
    // Who does not wait for the answer does not get it.
    let mut stream = stream;
    let _ = stream.write_all(&[State::AccessDenied.byte()]);
    let _ = stream.shutdown(Shutdown::Write);
}
