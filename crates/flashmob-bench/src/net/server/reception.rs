//! The thread that accepts connections, and decides what each of them is.

use std::io::{self, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::limited::Limited;
use super::waiting::{Arrived, Greeted, WAITING_MAX, Waiting};
use super::{Active, Desk, Told};
use crate::net::protocol::State;

/// Most connections that are accepted at once, before those that wait are read.
const ACCEPTED_MAX: usize = 64;
/// Interval of checks for the end.
const LOOKS_EVERY: Duration = Duration::from_millis(100);
/// Time to wait after an error before the next attempt to accept a connection.
const ACCEPTS_AGAIN: Duration = Duration::from_millis(10);
/// Interval of checks whether a test has ended.
const ENDS_AGAIN: Duration = Duration::from_millis(10);
/// Time limit for the end of a test whose client has gone: until then a newcomer waits for its place.
const ENDS_WITHIN: Duration = Duration::from_secs(1);

/// The thread that accepts connections.
pub(super) struct Reception {
    desk: Arc<Desk>,
    listener: Arc<TcpListener>,
    waiting: Waiting,
    limited: Limited,
    /// Connections so far.
    count: u64,
    /// The thread of the last test.
    thread: Option<JoinHandle<()>>,
}

impl Reception {
    pub fn new(desk: Arc<Desk>, listener: Arc<TcpListener>) -> Reception {
        let waiting = Waiting::new(WAITING_MAX);
        Reception { desk, listener, waiting, limited: Limited::default(), count: 0, thread: None }
    }

    /// Serves until the server is stopped, or one test. Returns whether the last test succeeded.
    pub fn serve(&mut self, is_one_off: bool, told: &Receiver<(Told, bool)>, tell: &mut dyn FnMut(&Told)) -> bool {
        let mut is_good = true;
        loop {
            if let Some(outcome) = self.tell(told, tell) {
                is_good = outcome;
                if is_one_off {
                    return is_good;
                }
            }
            self.limited.sums(Instant::now()).iter().for_each(&mut *tell);
            if self.desk.cancel.load(Ordering::Relaxed) {
                return is_good;
            }
            for greeted in self.waiting.wait(&self.listener, LOOKS_EVERY) {
                self.receive(greeted);
            }
            self.accept();
        }
    }

    /// Waits for the last test until a deadline, and tells the rest.
    pub fn end(&mut self, until: Instant, told: &Receiver<(Told, bool)>, tell: &mut dyn FnMut(&Told)) {
        while self.thread.as_ref().is_some_and(|test| !test.is_finished()) && Instant::now() < until {
            std::thread::sleep(ENDS_AGAIN);
        }
        self.tell(told, tell);
        self.limited.rest().iter().for_each(tell);
    }

    /// Tells what happened. Returns whether the last test succeeded, if one ended.
    fn tell(&mut self, told: &Receiver<(Told, bool)>, tell: &mut dyn FnMut(&Told)) -> Option<bool> {
        let mut is_good = None;
        for (told, is_test) in told.try_iter() {
            if self.limited.tells(&told, is_test, Instant::now()) {
                tell(&told);
            }
            if is_test {
                is_good = Some(matches!(told, Told::Test { .. }));
            }
        }
        is_good
    }

    /// Accepts connections that have arrived.
    fn accept(&mut self) {
        for _ in 0..ACCEPTED_MAX {
            match self.listener.accept() {
                Ok((stream, client)) => {
                    self.count += 1;
                    // IPv4 addresses are shown as such.
                    let client = SocketAddr::new(client.ip().to_canonical(), client.port());
                    if let Some(greeted) = self.waiting.add(Arrived { stream, client, count: self.count }) {
                        self.receive(greeted);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // The client has gone.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    let is_full = matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE));
                    match is_full.then(|| self.waiting.give_up_one()).flatten() {
                        // Its descriptor is free for the next.
                        Some(greeted) => self.receive(greeted),
                        // A resource is exhausted.
                        None => return std::thread::sleep(ACCEPTS_AGAIN),
                    }
                }
            }
        }
    }

    /// Handles a connection that no longer waits for its cookie.
    fn receive(&mut self, (arrived, outcome): Greeted) {
        let Arrived { stream, client, count } = arrived;
        let cookie = match outcome {
            Ok(cookie) => cookie,
            Err(why) => return self.desk.tell(Told::Failed { client, why: why.into() }, false),
        };
        let until = Instant::now() + ENDS_WITHIN;
        while self.desk.active().as_ref().is_some_and(Active::has_gone) && Instant::now() < until {
            std::thread::sleep(ENDS_AGAIN);
        }
        let mut active = self.desk.active();
        match &mut *active {
            None => {
                let (streams, arriving) = channel();
                *active = Some(Active { cookie, wanted_streams: 0, control: stream.try_clone().ok(), streams });
                drop(active);
                self.begin(stream, client, arriving);
            }
            Some(test) if test.cookie == cookie && test.wanted_streams > 0 => {
                test.wanted_streams -= 1;
                if stream.set_nonblocking(false).is_ok() {
                    // The test may be over.
                    let _ = test.streams.send((count, stream));
                }
            }
            Some(_) => {
                drop(active);
                deny(&stream);
                self.desk.tell(Told::Busy { client }, false);
            }
        }
    }

    /// Serves a test on a thread.
    fn begin(&mut self, stream: TcpStream, client: SocketAddr, arriving: Receiver<(u64, TcpStream)>) {
        let (desk, listener) = (Arc::clone(&self.desk), Arc::clone(&self.listener));
        let serve = move || desk.serve(stream, client, listener, arriving);
        match std::thread::Builder::new().name("client".into()).stack_size(512 << 10).spawn(serve) {
            Ok(thread) => self.thread = Some(thread),
            Err(error) => {
                *self.desk.active() = None;
                let why = format!("cannot start a thread: {error}");
                self.desk.tell(Told::Failed { client, why }, true);
            }
        }
    }
}

impl Active {
    /// Whether the client has closed its control connection.
    fn has_gone(&self) -> bool {
        let Some(control) = &self.control else { return false };
        let mut fds = [PollFd::from_borrowed_fd(control.as_fd(), PollFlags::RDHUP)];
        matches!(poll(&mut fds, Some(&Timespec::default())), Ok(1..))
    }
}

/// Tells a client that another test is running. The socket is non-blocking: this waits for no client.
fn deny(mut stream: &TcpStream) {
    let _ = stream.write(&[State::AccessDenied.byte()]);
    let _ = stream.shutdown(Shutdown::Write);
}
