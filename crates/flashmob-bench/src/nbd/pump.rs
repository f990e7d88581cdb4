//! Waits until connections can receive or send.
//!
//! Level-triggered epoll, so that a receive that leaves data behind is reported again.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

use super::connection::{Connection, ReceiveBuffer};
use super::reply::Replies;
use crate::error::Error;

/// Most connections that one wait reports; the others are reported by the next.
const EVENTS_MAX: usize = 64;

/// The connections of one thread, to be waited for together. A connection is known by its index.
#[derive(Debug)]
pub struct Pump {
    epoll: OwnedFd,
    /// Per connection, whether its room to send is waited for.
    sending: Vec<bool>,
    ready: Vec<usize>,
}

impl Pump {
    /// A pump for `connections`; every later call gets the same ones in the same order.
    pub fn new<'a>(connections: impl IntoIterator<Item = &'a Connection>) -> Result<Pump, Error> {
        let epoll = epoll::create(CreateFlags::CLOEXEC).map_err(|e| system("create an epoll instance", e))?;
        let mut sending = Vec::new();
        for (index, connection) in connections.into_iter().enumerate() {
            epoll::add(&epoll, connection, EventData::new_u64(index as u64), EventFlags::IN)
                .map_err(|e| system("watch a socket", e))?;
            sending.push(false);
        }
        Ok(Pump { epoll, sending, ready: Vec::with_capacity(EVENTS_MAX) })
    }

    /// Updates whether to wait for room to send. To be called after every send.
    pub fn sent(&mut self, index: usize, connection: &Connection) -> Result<(), Error> {
        if self.sending.get(index) == Some(&connection.is_blocked()) {
            return Ok(());
        }
        let flags = if connection.is_blocked() { EventFlags::IN | EventFlags::OUT } else { EventFlags::IN };
        epoll::modify(&self.epoll, connection, EventData::new_u64(index as u64), flags)
            .map_err(|e| system("watch a socket", e))?;
        if let Some(sending) = self.sending.get_mut(index) {
            *sending = connection.is_blocked();
        }
        Ok(())
    }

    /// The index of the `nth` connection that the last wait reported.
    #[must_use]
    pub fn ready(&self, nth: usize) -> Option<usize> {
        self.ready.get(nth).copied()
    }

    /// Waits until something can be received or sent, at most for `wait`. Returns the number of ready connections; [`Pump::ready`] gives
    /// their indexes.
    pub fn wait(&mut self, wait: Duration) -> Result<usize, Error> {
        let timeout = rustix::event::Timespec {
            tv_sec: i64::try_from(wait.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(wait.subsec_nanos()),
        };
        let mut events = [const { MaybeUninit::uninit() }; EVENTS_MAX];
        self.ready.clear();
        match epoll::wait(&self.epoll, &mut events, Some(&timeout)) {
            Ok((events, _)) => self.ready.extend(events.iter().map(|event| event.data.u64() as usize)),
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(system("wait for sockets", e)),
        }
        Ok(self.ready.len())
    }
}

fn system(doing: &'static str, errno: rustix::io::Errno) -> Error {
    Error::System { doing, source: io::Error::from(errno) }
}

/// One connection with its pump and its buffer.
#[derive(Debug)]
pub struct Single {
    /// The connection.
    pub connection: Connection,
    pump: Pump,
    buffer: ReceiveBuffer,
}

impl Single {
    /// Takes over a connection.
    pub fn new(connection: Connection) -> Result<Single, Error> {
        Ok(Single { pump: Pump::new([&connection])?, connection, buffer: ReceiveBuffer::default() })
    }

    /// Sends what is queued, waits until something arrives, and passes it on. An error if the server is silent for longer than the
    /// connection's timeout.
    pub fn turn(&mut self, replies: &mut impl Replies) -> Result<(), Error> {
        let patience = self.connection.patience(Instant::now());
        self.connection.send()?;
        self.pump.sent(0, &self.connection)?;
        self.pump.wait(patience)?;
        self.connection.receive(&mut self.buffer, replies)?;
        self.connection.check_silence(Instant::now())
    }
}
