//! Requests inside TLS: a connection that is secret already, for ureq.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use ureq::unversioned::transport::{Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, Transport};

use crate::net::tls::{TlsEnd, WaitingTls};

/// Makes a connection secret, until then at the latest.
pub(super) fn secure(end: &TlsEnd, addr: SocketAddr, until: Instant) -> io::Result<Once> {
    let tcp = TcpStream::connect_timeout(&addr, left(until))?;
    Ok(Once(Mutex::new(Some(WaitingTls::begin_until(end, tcp, until)?))))
}

/// The time until then; not none at all, which sockets do not take.
pub(super) fn left(until: Instant) -> Duration {
    until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1))
}

/// Hands the connection over, once.
#[derive(Debug)]
pub(super) struct Once(Mutex<Option<WaitingTls>>);

impl Connector<()> for Once {
    type Out = Secured;

    fn connect(&self, details: &ConnectionDetails<'_>, _: Option<()>) -> Result<Option<Secured>, ureq::Error> {
        let tls = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let buffers = LazyBuffers::new(details.config.input_buffer_size(), details.config.output_buffer_size());
        Ok(tls.map(|tls| Secured { tls: Mutex::new(tls), buffers }))
    }
}

/// The connection. One thread uses it; ureq asks for one that several could.
#[derive(Debug)]
pub(super) struct Secured {
    tls: Mutex<WaitingTls>,
    buffers: LazyBuffers,
}

fn explained(error: io::Error, timeout: NextTimeout) -> ureq::Error {
    match error.kind() {
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => ureq::Error::Timeout(timeout.reason),
        _ => error.into(),
    }
}

impl Transport for Secured {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), ureq::Error> {
        let tls = self.tls.get_mut().unwrap_or_else(PoisonError::into_inner);
        let sent = tls.write_all(&self.buffers.output()[..amount]).and_then(|()| tls.flush());
        sent.map_err(|error| explained(error, timeout.for_write()))
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, ureq::Error> {
        let timeout = timeout.for_read();
        let tls = self.tls.get_mut().unwrap_or_else(PoisonError::into_inner);
        let room = self.buffers.input_append_buf();
        let read = tls.wait_until(Instant::now().checked_add(*timeout.after)).and_then(|()| tls.read(room));
        let amount = read.map_err(|error| explained(error, timeout))?;
        self.buffers.input_appended(amount);
        Ok(amount > 0)
    }

    fn is_open(&mut self) -> bool {
        // Each serves one request.
        false
    }
}
