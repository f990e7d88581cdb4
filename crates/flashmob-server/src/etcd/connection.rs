//! Connections to one endpoint, which are kept from one request to the next, and requests over them.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use ureq::Agent;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::http::header::{CONTENT_TYPE, HOST};
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, Transport};

use super::refusal::Refusal;
use super::socket::{Idle, Socket};
use crate::net::fetch::agent_config;
use crate::net::tls::{TlsEnd, WaitingTls, is_refusal, library_reason};

/// A request.
#[derive(Debug)]
pub(super) struct Request<'a> {
    pub path: &'a str,
    pub body: &'a [u8],
    /// Whether a member that knows no leader is to refuse it at once, instead of waiting for one.
    pub needs_leader: bool,
    pub answer_bytes_max: usize,
}

/// An endpoint.
#[derive(Debug)]
pub(super) struct Endpoint {
    authority: String,
    tls: Option<TlsEnd>,
    /// The addresses of the name, the last one connected to first; empty if none could be connected to.
    known: Mutex<Vec<SocketAddr>>,
    idle: Arc<Idle>,
}

impl Endpoint {
    pub fn new(authority: &str, tls: Option<TlsEnd>) -> Endpoint {
        Endpoint { authority: authority.to_string(), tls, known: Mutex::default(), idle: Arc::default() }
    }

    /// `HOST:PORT`.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// Whether a connection waits for a request.
    #[cfg(test)]
    pub fn has_idle(&self) -> bool {
        self.idle.take().is_some_and(|socket| {
            self.idle.put(socket);
            true
        })
    }

    /// Sends a request, and returns the status and the body of the answer. A connection must be established by
    /// `connected_by`, and the answer be complete by `until`.
    pub fn ask(&self, request: &Request<'_>, connected_by: Instant, until: Instant) -> Result<(u16, Vec<u8>), Refusal> {
        let (socket, is_proven) = match self.idle.take() {
            Some(socket) => (socket, true),
            None => (self.connect(connected_by)?, self.tls.is_some()),
        };
        // From here on something may have been sent.
        let line = Line { socket: Mutex::new(Some(socket)), until, idle: Arc::clone(&self.idle) };
        exchange(line, request, &self.authority).map_err(|error| explained(error, is_proven))
    }

    fn connect(&self, until: Instant) -> Result<Socket, Refusal> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut addrs = match known.is_empty() {
            false => known,
            true => flashmob_host::addresses_of_authority(&self.authority)
                .map_err(|e| Refusal::NotSent(format!("cannot resolve it: {e}")))?,
        };
        let mut last = Refusal::NotSent("the name has no address".to_string());
        for at in 0..addrs.len() {
            let now = Instant::now();
            let share = until.saturating_duration_since(now) / u32::try_from(addrs.len() - at).unwrap_or(u32::MAX);
            match self.connect_to(addrs[at], now + share) {
                Ok(socket) => {
                    addrs.rotate_left(at);
                    *self.known.lock().unwrap_or_else(PoisonError::into_inner) = addrs;
                    return Ok(socket);
                }
                Err(error) => last = error,
            }
        }
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clear();
        Err(last)
    }

    fn connect_to(&self, addr: SocketAddr, until: Instant) -> Result<Socket, Refusal> {
        let not_sent = |e: io::Error| Refusal::NotSent(words(&e, "it did not accept a connection in time"));
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(not_sent(ErrorKind::TimedOut.into()));
        }
        let tcp = TcpStream::connect_timeout(&addr, left).map_err(not_sent)?;
        // A head and a body are written one after the other.
        tcp.set_nodelay(true).map_err(not_sent)?;
        let Some(end) = &self.tls else { return Ok(Socket::Plain(tcp)) };
        match WaitingTls::begin_until(end, tcp, until) {
            Ok(tls) => Ok(Socket::Tls(Box::new(tls))),
            Err(error) => Err(match library_reason(&error) {
                Some(reason) => Refusal::Denied(format!("TLS: {reason}")),
                None if is_closed(&error) => {
                    Refusal::NotSent("it closed the connection in the handshake (perhaps it has no TLS)".to_string())
                }
                None => not_sent(error),
            }),
        }
    }
}

fn is_closed(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::UnexpectedEof)
}

fn words(error: &io::Error, late: &str) -> String {
    match error.kind() {
        ErrorKind::TimedOut | ErrorKind::WouldBlock => late.to_string(),
        ErrorKind::ConnectionRefused => "nothing listens there".to_string(),
        _ if is_closed(error) => "it closed the connection".to_string(),
        _ => library_reason(error).map_or_else(|| error.to_string(), |reason| format!("TLS: {reason}")),
    }
}

fn explained(error: ureq::Error, is_proven: bool) -> Refusal {
    match error {
        ureq::Error::Io(error) if is_refusal(&error) => {
            Refusal::Denied(format!("TLS: {}", library_reason(&error).unwrap_or_default()))
        }
        ureq::Error::Io(error) if is_closed(&error) && !is_proven => {
            Refusal::Unknown("it closed the connection (perhaps it has TLS)".to_string())
        }
        ureq::Error::Io(error) => Refusal::Unknown(words(&error, "it did not answer in time")),
        ureq::Error::BodyExceedsLimit(_) => Refusal::Malformed("the answer is too long".to_string()),
        ureq::Error::Protocol(_) | ureq::Error::Http(_) => Refusal::Malformed(format!("not HTTP: {error}")),
        other => Refusal::Unknown(other.to_string()),
    }
}

fn exchange(line: Line, request: &Request<'_>, authority: &str) -> Result<(u16, Vec<u8>), ureq::Error> {
    // The transport keeps the deadline.
    let config = agent_config().build();
    let agent = Agent::with_parts(config, line, Anywhere);
    // The host of the URI is a placeholder: the connection is already established.
    let mut head = ureq::http::Request::builder()
        .method("POST")
        .uri(format!("http://etcd{}", request.path))
        .header(HOST, authority)
        .header(CONTENT_TYPE, "application/json");
    if request.needs_leader {
        head = head.header("Grpc-Metadata-hasleader", "true");
    }
    let mut response = agent.run(head.body(request.body)?)?;
    let limit = request.answer_bytes_max as u64;
    if response.body().content_length().is_some_and(|len| len > limit) {
        return Err(ureq::Error::BodyExceedsLimit(limit));
    }
    let status = response.status().as_u16();
    let body = response.body_mut().with_config().limit(limit + 1).read_to_vec()?;
    if body.len() > request.answer_bytes_max {
        return Err(ureq::Error::BodyExceedsLimit(limit));
    }
    Ok((status, body))
}

/// ureq needs an address, but the connection is already established.
#[derive(Debug)]
struct Anywhere;

impl Resolver for Anywhere {
    fn resolve(&self, _: &Uri, _: &Config, _: NextTimeout) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let mut addrs = self.empty();
        addrs.push(SocketAddr::from(([0; 4], 0)));
        Ok(addrs)
    }
}

/// Hands a connection to ureq, for one request.
#[derive(Debug)]
struct Line {
    socket: Mutex<Option<Socket>>,
    until: Instant,
    idle: Arc<Idle>,
}

impl Connector<()> for Line {
    type Out = InUse;

    fn connect(&self, details: &ConnectionDetails<'_>, _: Option<()>) -> Result<Option<InUse>, ureq::Error> {
        let socket = self.socket.lock().unwrap_or_else(PoisonError::into_inner).take();
        let buffers = LazyBuffers::new(details.config.input_buffer_size(), details.config.output_buffer_size());
        Ok(socket.map(|socket| InUse {
            socket: Mutex::new(Some(socket)),
            buffers,
            until: self.until,
            idle: Arc::clone(&self.idle),
        }))
    }
}

/// A connection during a request. One thread uses it; the mutex is there because ureq wants `Sync`.
#[derive(Debug)]
struct InUse {
    socket: Mutex<Option<Socket>>,
    buffers: LazyBuffers,
    until: Instant,
    idle: Arc<Idle>,
}

impl Transport for InUse {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, _: NextTimeout) -> Result<(), ureq::Error> {
        let socket = self.socket.get_mut().unwrap_or_else(PoisonError::into_inner).as_mut();
        let socket = socket.ok_or(ureq::Error::ConnectionFailed)?;
        Ok(socket.write_until(&self.buffers.output()[..amount], self.until)?)
    }

    fn await_input(&mut self, _: NextTimeout) -> Result<bool, ureq::Error> {
        let socket = self.socket.get_mut().unwrap_or_else(PoisonError::into_inner).as_mut();
        let socket = socket.ok_or(ureq::Error::ConnectionFailed)?;
        let amount = socket.read_until(self.buffers.input_append_buf(), self.until)?;
        self.buffers.input_appended(amount);
        Ok(amount > 0)
    }

    /// ureq calls this when the answer is complete and the connection can be reused. It is kept here and not in ureq's
    /// pool, because each request has an agent of its own.
    fn is_open(&mut self) -> bool {
        if let Some(socket) = self.socket.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            self.idle.put(socket);
        }
        false
    }
}
