//! Fetches `/status` from a running process, or tells it something: one request over one plain connection.
//!
//! It trusts nothing about what answers: the time, the head and the body have limits, and whatever goes wrong is an error that says what to do.

#[cfg(test)]
mod tests;

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// The largest head of an answer.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// Headers in an answer.
const HEADERS_MAX: usize = 64;
/// The largest report. One of a thousand nodes with eight links each takes about 6 MiB.
pub const BODY_BYTES_MAX: usize = 64 << 20;
/// A connection is made within this, and all of the answer has arrived within this again.
pub const TIMEOUT: Duration = Duration::from_secs(10);

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The target is not of the form that is asked for.
    #[error("'{0}' is not ADDR:PORT; give the --admin address of the gateway or node, such as 127.0.0.1:9100")]
    Target(String),
    /// The name has no address.
    #[error("cannot resolve the host of '{target}': {source}")]
    Resolve {
        /// As it was given.
        target: String,
        /// What the resolver says.
        source: io::Error,
    },
    /// The port is closed.
    #[error("nothing listens on {0}; start the gateway or node with --admin {0}, or give its --admin address")]
    Refused(String),
    /// No connection for another reason.
    #[error("cannot connect to {target}: {source}")]
    Connect {
        /// As it was given.
        target: String,
        /// What the system says.
        source: io::Error,
    },
    /// Nothing, or only a part, came in time.
    #[error("{0} did not answer within {1:?}; check that the process is running and that this is its --admin port")]
    Timeout(String, Duration),
    /// The connection ended in the middle of the answer or before it.
    #[error("{0} closed the connection before its answer was complete; check that this is its --admin port")]
    Cut(String),
    /// The connection failed otherwise.
    #[error("the connection to {target} failed: {source}")]
    Io {
        /// As it was given.
        target: String,
        /// What the system says.
        source: io::Error,
    },
    /// The answer is not HTTP, or not as flashmob speaks it.
    #[error("{0} is not a flashmob admin port; give the --admin address of the gateway or node")]
    Foreign(String),
    /// What was told is not taken.
    #[error("{0} rejected the request: {1}")]
    Rejected(String, String),
    /// The process says that it cannot answer now.
    #[error("{0}: the process is exiting or overloaded; try again")]
    Busy(String),
    /// The report is larger than any that flashmob makes.
    #[error("the report of {0} is larger than {limit} MiB", limit = BODY_BYTES_MAX >> 20)]
    TooLarge(String),
}

/// The body of `http://TARGET/status`, where `target` is `ADDR:PORT`, also with `http://` before it or a path behind.
///
/// # Errors
/// See [`FetchError`].
pub fn fetch_status(target: &str) -> Result<Vec<u8>, FetchError> {
    fetch_within(target, "/status", TIMEOUT)
}

/// The body of `http://TARGET/trace`, in the same way.
///
/// # Errors
/// See [`FetchError`]; a node's port, which has no samples, is [`FetchError::Foreign`].
pub fn fetch_trace(target: &str) -> Result<Vec<u8>, FetchError> {
    fetch_within(target, "/trace", TIMEOUT)
}

fn fetch_within(target: &str, path: &str, timeout: Duration) -> Result<Vec<u8>, FetchError> {
    exchange(target, &format!("GET {path}"), None, timeout)
}

/// Sends JSON to `http://TARGET PATH` and returns the answer's body. Connecting takes at most `timeout`, and the rest as long again.
///
/// # Errors
/// See [`FetchError`].
pub fn post(target: &str, path: &str, body: &[u8], timeout: Duration) -> Result<Vec<u8>, FetchError> {
    exchange(target, &format!("POST {path}"), Some(body), timeout)
}

fn exchange(target: &str, what: &str, body: Option<&[u8]>, timeout: Duration) -> Result<Vec<u8>, FetchError> {
    let authority = authority(target).ok_or_else(|| FetchError::Target(target.to_string()))?;
    let mut stream = connect(authority, timeout)?;
    let mut conversation =
        Conversation { authority, timeout, deadline: Instant::now() + timeout, tells: body.is_some() };
    let sent = body
        .map_or(String::new(), |body| format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len()));
    let mut request = format!(
        "{what} HTTP/1.1\r\nHost: {authority}\r\nAccept: application/json\r\nUser-Agent: flashmob/{}\r\n{sent}Connection: close\r\n\r\n",
        env!("CARGO_PKG_VERSION")
    )
    .into_bytes();
    request.extend_from_slice(body.unwrap_or_default());
    stream.set_write_timeout(Some(timeout)).map_err(|e| conversation.failed(e))?;
    stream.write_all(&request).map_err(|e| conversation.failed(e))?;
    conversation.read_answer(&mut stream)
}

/// `ADDR:PORT` out of what a person may have copied.
fn authority(target: &str) -> Option<&str> {
    let rest = target.trim();
    let rest = rest.strip_prefix("http://").unwrap_or(rest);
    let authority = rest.split('/').next()?;
    let (host, port) = authority.rsplit_once(':')?;
    let good = !host.is_empty()
        && port.parse::<u16>().is_ok_and(|port| port != 0)
        && authority.chars().all(|c| c.is_ascii_graphic());
    good.then_some(authority)
}

fn connect(authority: &str, timeout: Duration) -> Result<TcpStream, FetchError> {
    let target = authority.to_string();
    let addrs = match flashmob_host::addresses_of_authority(authority) {
        Ok(addrs) => addrs,
        Err(source) => return Err(FetchError::Resolve { target, source }),
    };
    let mut last = io::Error::new(ErrorKind::NotFound, "the name has no address");
    for addr in addrs {
        match TcpStream::connect_timeout(&addr, timeout) {
            Ok(stream) => return Ok(stream),
            Err(e) => last = e,
        }
    }
    Err(match last.kind() {
        ErrorKind::ConnectionRefused => FetchError::Refused(target),
        _ => FetchError::Connect { target, source: last },
    })
}

/// Where the answer of one request stands.
struct Conversation<'a> {
    authority: &'a str,
    timeout: Duration,
    deadline: Instant,
    /// It tells something, so that a refusal says why.
    tells: bool,
}

/// What the head of an answer tells.
struct Head {
    len: usize,
    status: u16,
    body_len: Option<usize>,
}

impl Conversation<'_> {
    fn read_answer(&mut self, stream: &mut TcpStream) -> Result<Vec<u8>, FetchError> {
        let mut bytes = Vec::new();
        let head = loop {
            if let Some(head) = self.head(&bytes)? {
                break head;
            }
            if bytes.len() >= HEAD_BYTES_MAX {
                return Err(FetchError::Foreign(self.authority.to_string()));
            }
            if !self.read_some(stream, &mut bytes)? {
                return Err(FetchError::Cut(self.authority.to_string()));
            }
        };
        let target = || self.authority.to_string();
        let body = bytes.split_off(head.len);
        match head.status {
            200 => self.read_body(stream, &head, body),
            503 => Err(FetchError::Busy(target())),
            400 | 404 | 429 if self.tells => {
                let why = self.read_body(stream, &head, body)?;
                let words = String::from_utf8_lossy(&why).chars().filter(|c| !c.is_control()).take(300).collect();
                Err(FetchError::Rejected(target(), words))
            }
            _ => Err(FetchError::Foreign(target())),
        }
    }

    fn read_body(&mut self, stream: &mut TcpStream, head: &Head, mut body: Vec<u8>) -> Result<Vec<u8>, FetchError> {
        loop {
            if body.len().max(head.body_len.unwrap_or(0)) > BODY_BYTES_MAX {
                return Err(FetchError::TooLarge(self.authority.to_string()));
            }
            if let Some(len) = head.body_len.filter(|&len| body.len() >= len) {
                body.truncate(len);
                return Ok(body);
            }
            if !self.read_some(stream, &mut body)? {
                return match head.body_len {
                    Some(_) => Err(FetchError::Cut(self.authority.to_string())),
                    None => Ok(body),
                };
            }
        }
    }

    /// The head, once it is complete.
    fn head(&self, bytes: &[u8]) -> Result<Option<Head>, FetchError> {
        let foreign = || FetchError::Foreign(self.authority.to_string());
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut response = httparse::Response::new(&mut headers);
        let httparse::Status::Complete(len) = response.parse(bytes).map_err(|_| foreign())? else {
            return Ok(None);
        };
        let mut head = Head { len, status: response.code.unwrap_or(0), body_len: None };
        for header in response.headers.iter() {
            if header.name.eq_ignore_ascii_case("transfer-encoding") {
                // flashmob always knows the length of what it sends.
                return Err(foreign());
            }
            if header.name.eq_ignore_ascii_case("content-length") {
                let len = std::str::from_utf8(header.value).ok().and_then(|text| text.trim().parse().ok());
                head.body_len = Some(len.ok_or_else(foreign)?);
            }
        }
        Ok(Some(head))
    }

    /// Reads what there is; false at the end of the stream.
    fn read_some(&self, stream: &mut TcpStream, bytes: &mut Vec<u8>) -> Result<bool, FetchError> {
        let mut chunk = [0; 16 << 10];
        loop {
            let left = self.deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(FetchError::Timeout(self.authority.to_string(), self.timeout));
            }
            stream.set_read_timeout(Some(left)).map_err(|e| self.failed(e))?;
            match stream.read(&mut chunk) {
                Ok(len) => {
                    bytes.extend_from_slice(&chunk[..len]);
                    return Ok(len > 0);
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(self.failed(e)),
            }
        }
    }

    fn failed(&self, source: io::Error) -> FetchError {
        let target = self.authority.to_string();
        match source.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => FetchError::Timeout(target, self.timeout),
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => FetchError::Cut(target),
            _ => FetchError::Io { target, source },
        }
    }
}
