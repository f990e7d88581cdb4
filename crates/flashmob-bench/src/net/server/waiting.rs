//! Connections whose cookie has not arrived yet. One thread reads all of them without blocking, so a connection that sends nothing costs a
//! descriptor and no thread, and delays nobody.

use std::io::{self, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use flashmob_core::strangers::{Unproven, to_replace};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::net::protocol::{COOKIE_BYTES, Cookie};

/// Time limit for a cookie.
const COOKIE_TIMEOUT: Duration = Duration::from_secs(5);
/// Most connections that may wait for their cookie.
pub(super) const WAITING_MAX: usize = 512;

const NO_COOKIE: &str = "it did not send an iperf3 cookie";
const REPLACED: &str = "it had not sent an iperf3 cookie when too many others connected";

/// A connection that was accepted. Its socket is non-blocking.
#[derive(Debug)]
pub(super) struct Arrived {
    pub stream: TcpStream,
    pub client: SocketAddr,
    /// The number of the connection in order of arrival.
    pub count: u64,
}

/// A connection that no longer waits: its cookie, or why it has none.
pub(super) type Greeted = (Arrived, Result<Cookie, &'static str>);

struct Newcomer {
    arrived: Arrived,
    bytes: [u8; COOKIE_BYTES],
    filled: usize,
    until: Instant,
}

/// The connections whose cookie is awaited.
pub(super) struct Waiting {
    all: Vec<Newcomer>,
    max: usize,
}

impl Waiting {
    /// None yet, and at most `max` at any time.
    pub fn new(max: usize) -> Waiting {
        Waiting { all: Vec::new(), max }
    }

    /// Waits until there is a further connection, or something to read from one of those that wait, at most for `limit`. Returns the
    /// connections that no longer wait.
    pub fn wait(&mut self, listener: &TcpListener, limit: Duration) -> Vec<Greeted> {
        let limit = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: i64::from(limit.subsec_nanos()) };
        let streams = self.all.iter().map(|newcomer| newcomer.arrived.stream.as_fd());
        let mut fds: Vec<PollFd<'_>> = std::iter::once(listener.as_fd())
            .chain(streams)
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
            .collect();
        // If it fails, nothing is ready.
        let _ = poll(&mut fds, Some(&limit));
        let ready: Vec<bool> = fds.iter().skip(1).map(|fd| !fd.revents().is_empty()).collect();
        self.read(&ready, Instant::now())
    }

    /// Reads those that are ready, and gives up those that are late.
    fn read(&mut self, ready: &[bool], now: Instant) -> Vec<Greeted> {
        let mut greeted = Vec::new();
        for (mut newcomer, is_ready) in std::mem::take(&mut self.all).into_iter().zip(ready) {
            let outcome = if *is_ready { newcomer.read() } else { None };
            match outcome.or_else(|| (now >= newcomer.until).then_some(Err(NO_COOKIE))) {
                Some(outcome) => greeted.push((newcomer.arrived, outcome)),
                None => self.all.push(newcomer),
            }
        }
        greeted
    }

    /// Adds a connection, unless its cookie has arrived already. If too many wait, it replaces one of the others. Returns the connection that
    /// does not wait: the new one with its cookie, or the one that was replaced.
    pub fn add(&mut self, arrived: Arrived) -> Option<Greeted> {
        let until = Instant::now() + COOKIE_TIMEOUT;
        let mut newcomer = Newcomer { arrived, bytes: [0; COOKIE_BYTES], filled: 0, until };
        let is_non_blocking = newcomer.arrived.stream.set_nonblocking(true).is_ok();
        if let Some(outcome) = if is_non_blocking { newcomer.read() } else { Some(Err(NO_COOKIE)) } {
            return Some((newcomer.arrived, outcome));
        }
        let replaced = if self.all.len() >= self.max { self.give_up_one() } else { None };
        self.all.push(newcomer);
        replaced
    }

    /// Gives up one connection, so that there is room or a descriptor for another one. Who has many connections loses one of them.
    pub fn give_up_one(&mut self) -> Option<Greeted> {
        let unproven = self.all.iter().enumerate().map(|(key, newcomer)| {
            let (from, stepped) = (Some(newcomer.arrived.client.ip()), newcomer.until);
            Unproven { key, from, was_let_in: false, stepped }
        });
        let at = to_replace(unproven)?;
        Some((self.all.swap_remove(at).arrived, Err(REPLACED)))
    }
}

impl Newcomer {
    /// Reads what has arrived. `None` if more is to come.
    fn read(&mut self) -> Option<Result<Cookie, &'static str>> {
        while self.filled < COOKIE_BYTES {
            match (&self.arrived.stream).read(&mut self.bytes[self.filled..]) {
                Ok(0) => return Some(Err(NO_COOKIE)),
                Ok(bytes) => self.filled += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
                Err(_) => return Some(Err(NO_COOKIE)),
            }
        }
        Some(Cookie::parse(self.bytes).map_err(|_| NO_COOKIE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    const SOON: Duration = Duration::from_secs(60);

    struct Door {
        listener: TcpListener,
        waiting: Waiting,
        count: u64,
    }

    impl Door {
        fn new(max: usize) -> Door {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            Door { listener, waiting: Waiting::new(max), count: 0 }
        }

        /// A connection from this address, as far as the rule is concerned.
        fn come(&mut self, from: &str, bytes: &[u8]) -> (TcpStream, Option<Greeted>) {
            let mut stream = TcpStream::connect(self.listener.local_addr().unwrap()).unwrap();
            stream.write_all(bytes).unwrap();
            let (accepted, _) = self.listener.accept().unwrap();
            self.count += 1;
            let client = SocketAddr::new(from.parse().unwrap(), 1);
            let greeted = self.waiting.add(Arrived { stream: accepted, client, count: self.count });
            (stream, greeted)
        }

        fn next(&mut self) -> Greeted {
            loop {
                if let Some(greeted) = self.waiting.wait(&self.listener, SOON).pop() {
                    return greeted;
                }
            }
        }
    }

    #[test]
    fn a_cookie_in_pieces_is_read_while_others_are_silent() {
        let mut door = Door::new(WAITING_MAX);
        let cookie = Cookie::new([5; COOKIE_BYTES - 1]);
        let _silent = door.come("10.0.0.1", b"");
        let (mut slow, greeted) = door.come("10.0.0.2", &cookie.bytes()[..10]);
        assert!(greeted.is_none());
        slow.write_all(&cookie.bytes()[10..]).unwrap();
        slow.write_all(b"more").unwrap();
        let (arrived, outcome) = door.next();
        assert_eq!((arrived.count, outcome), (2, Ok(cookie)));
        let mut more = [0; 4];
        arrived.stream.set_nonblocking(false).unwrap();
        (&arrived.stream).read_exact(&mut more).unwrap();
        assert_eq!(&more, b"more", "nothing beyond the cookie was read");
        let (closed, _) = door.come("10.0.0.3", b"half");
        drop(closed);
        let (arrived, outcome) = door.next();
        assert_eq!((arrived.count, outcome), (3, Err(NO_COOKIE)));
        let (_garbage, greeted) = door.come("10.0.0.4", &[0xFF; COOKIE_BYTES]);
        let (arrived, outcome) = greeted.unwrap_or_else(|| door.next());
        assert_eq!((arrived.count, outcome), (4, Err(NO_COOKIE)));
        assert_eq!(door.waiting.all.len(), 1);
    }

    #[test]
    fn a_newcomer_replaces_one_of_who_has_the_most() {
        let mut door = Door::new(4);
        let (_one, greeted) = door.come("10.0.0.2", b"");
        assert!(greeted.is_none());
        let _many: Vec<_> = (0..3).map(|_| door.come("10.0.0.1", b"")).collect();
        for _ in 0..50 {
            let (_stream, greeted) = door.come("10.0.0.1", b"");
            let (arrived, outcome) = greeted.unwrap();
            assert_eq!((arrived.client.ip().to_string().as_str(), outcome), ("10.0.0.1", Err(REPLACED)));
            assert_eq!(door.waiting.all.len(), 4);
        }
        let (_stream, greeted) = door.come("10.0.0.3", b"");
        assert_eq!(greeted.unwrap().0.client.ip().to_string(), "10.0.0.1");
    }

    #[test]
    fn whoever_is_late_is_given_up() {
        let mut door = Door::new(WAITING_MAX);
        let (_stream, _) = door.come("10.0.0.1", b"half");
        assert!(door.waiting.read(&[true], Instant::now()).is_empty());
        let greeted = door.waiting.read(&[false], Instant::now() + COOKIE_TIMEOUT);
        assert_eq!(greeted[0].1, Err(NO_COOKIE));
    }
}
