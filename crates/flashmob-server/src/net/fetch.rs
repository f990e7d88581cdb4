//! Fetches `/status` from a running process, or sends it something: one request over one connection, plain or inside TLS.
//!
//! Time, head and body of the answer have limits, and each error says what to do.

mod secured;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::str::FromStr;
use std::time::{Duration, Instant};

use ureq::config::{Config, ConfigBuilder};
use ureq::http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST};
use ureq::http::{Request, Response, Uri};
use ureq::typestate::AgentScope;
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{DefaultConnector, NextTimeout};
use ureq::{Agent, Body, Timeout};
use zeroize::Zeroizing;

use self::secured::{Once, left, secure};
use super::tls::TlsEnd;

/// The largest head of an answer.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// The largest report accepted. One of a thousand nodes with eight links each takes about 6 MiB.
pub const BODY_BYTES_MAX: usize = 64 << 20;
/// The whole answer arrives within this.
pub const TIMEOUT: Duration = Duration::from_secs(10);

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are what the messages show")]
pub enum FetchError {
    /// The target is not ADDR:PORT.
    #[error("'{0}' is not ADDR:PORT; give the --admin address of the gateway or node, such as 127.0.0.1:9100")]
    Target(String),
    /// It is to be secret, and nothing to prove is known.
    #[error(
        "{0} is an HTTPS address: give --credentials DIR, the folder from `flashmob client add`, or give the gateway's configuration file in its place"
    )]
    NoCredentials(String),
    /// The name has no address.
    #[error("cannot resolve the host of '{target}': {source}")]
    Resolve { target: String, source: io::Error },
    /// The port is closed.
    #[error("nothing listens on {0}; start the gateway or node with --admin {0}, or give its --admin address")]
    Refused(String),
    /// No connection for another reason.
    #[error("cannot connect to {target}: {source}")]
    Connect { target: String, source: io::Error },
    /// No answer, or only a part of it, within the timeout.
    #[error("{0} did not answer within {1:?}; check that the process is running and that this is its --admin port")]
    Timeout(String, Duration),
    /// The connection ended in the middle of the answer or before it.
    #[error("{0} closed the connection before its answer was complete; check that this is its --admin port")]
    Cut(String),
    /// The connection failed otherwise.
    #[error("the connection to {target} failed: {source}")]
    Io { target: String, source: io::Error },
    /// The answer is not HTTP, or not flashmob's.
    #[error("{0} is not a flashmob admin port; give the --admin address of the gateway or node")]
    Foreign(String),
    /// The request was rejected.
    #[error("{0} rejected the request: {1}")]
    Rejected(String, String),
    /// The process took the request and does not answer.
    #[error("{0} has the request and does not answer: it may have been carried out, as `flashmob volume show` tells")]
    Unknown(String),
    /// The process cannot answer now.
    #[error("{0}: the process is exiting or overloaded; try again")]
    Busy(String),
    /// The report is larger than any that flashmob makes.
    #[error("the report of {0} is larger than {limit} MiB", limit = BODY_BYTES_MAX >> 20)]
    TooLarge(String),
}

/// A token, for `Authorization`. It is shown on purpose alone.
#[derive(Clone)]
pub struct Token(pub Zeroizing<String>);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

/// How a request gets there.
#[derive(Debug, Clone)]
enum Way {
    Plain,
    Tls(TlsEnd, Option<Token>),
}

/// An administrative port: `ADDR:PORT`, also with `http://` before it or a path behind.
#[derive(Debug, Clone)]
pub struct Target {
    authority: String,
    way: Way,
}

impl Target {
    /// One that is asked inside TLS; the text may begin with `https://`.
    ///
    /// # Errors
    /// It is no address.
    pub fn secured(text: &str, end: TlsEnd, token: Option<Token>) -> Result<Target, FetchError> {
        let (authority, _) = authority(text).ok_or_else(|| FetchError::Target(text.to_string()))?;
        Ok(Target { authority: authority.to_string(), way: Way::Tls(end, token) })
    }

    /// The name or address of the host in such a text.
    ///
    /// # Errors
    /// It is no address.
    pub fn host(text: &str) -> Result<&str, FetchError> {
        let host = authority(text).and_then(|(authority, _)| authority.rsplit_once(':')).map(|(host, _)| host);
        let host = host.ok_or_else(|| FetchError::Target(text.to_string()))?;
        let host = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
        // Which interface leads to it is no part of the name.
        Ok(host.split_once('%').map_or(host, |(host, _)| host))
    }
}

impl FromStr for Target {
    type Err = FetchError;

    fn from_str(text: &str) -> Result<Target, FetchError> {
        match authority(text).ok_or_else(|| FetchError::Target(text.to_string()))? {
            (authority, true) => Err(FetchError::NoCredentials(authority.to_string())),
            (authority, false) => Ok(Target { authority: authority.to_string(), way: Way::Plain }),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.authority)
    }
}

/// The body at a path there.
///
/// # Errors
/// See [`FetchError`].
pub fn fetch(target: &Target, path: &str) -> Result<Vec<u8>, FetchError> {
    exchange(target, path, None, TIMEOUT)
}

/// The body of `/status` there.
///
/// # Errors
/// See [`FetchError`].
pub fn fetch_status(target: &Target) -> Result<Vec<u8>, FetchError> {
    fetch(target, "/status")
}

/// The body of `/live` from a second on, in the same way.
///
/// # Errors
/// See [`FetchError`]; a node's port, which has no history, is [`FetchError::Foreign`].
pub fn fetch_live(target: &Target, since: u64) -> Result<Vec<u8>, FetchError> {
    fetch(target, &format!("/live?since={since}"))
}

/// The body of `/trace`, in the same way.
///
/// # Errors
/// See [`FetchError`]; a node's port, which has no samples, is [`FetchError::Foreign`].
pub fn fetch_trace(target: &Target) -> Result<Vec<u8>, FetchError> {
    fetch(target, "/trace")
}

/// The body of `/volumes`, in the same way.
///
/// # Errors
/// See [`FetchError`]; a node's port, which has no volumes, is [`FetchError::Foreign`].
pub fn fetch_volumes(target: &Target) -> Result<Vec<u8>, FetchError> {
    fetch(target, "/volumes")
}

/// Sends JSON to a path there and returns the answer's body. All of it takes at most `timeout` for each address.
///
/// # Errors
/// See [`FetchError`].
pub fn post(target: &Target, path: &str, body: &[u8], timeout: Duration) -> Result<Vec<u8>, FetchError> {
    exchange(target, path, Some(body), timeout)
}

fn exchange(target: &Target, path: &str, sent: Option<&[u8]>, timeout: Duration) -> Result<Vec<u8>, FetchError> {
    let asked = Asked { target, path, sent, timeout };
    let name = || target.to_string();
    let addrs = flashmob_host::addresses_of_authority(&target.authority)
        .map_err(|source| FetchError::Resolve { target: name(), source })?;
    let mut last = io::Error::new(ErrorKind::NotFound, "the name has no address");
    for addr in addrs {
        // If no connection comes about, another address of the same name may do.
        let until = Instant::now() + timeout;
        let secret = match &target.way {
            Way::Plain => None,
            Way::Tls(end, _) => match secure(end, addr, until) {
                Ok(secret) => Some(secret),
                // Somebody is there, and it will not come to anything.
                Err(source) if source.kind() == ErrorKind::PermissionDenied => {
                    return Err(FetchError::Connect { target: name(), source });
                }
                Err(error) => {
                    last = error;
                    continue;
                }
            },
        };
        let is_secret = secret.is_some();
        match asked.ask(addr, secret, until) {
            Ok(response) => return asked.body_of(response),
            Err(ureq::Error::Timeout(Timeout::Connect)) => last = ErrorKind::TimedOut.into(),
            Err(ureq::Error::Io(e)) if !is_secret && !is_of_connection(&e) => last = e,
            Err(error) => return Err(asked.failed(error)),
        }
    }
    Err(match last.kind() {
        ErrorKind::ConnectionRefused => FetchError::Refused(name()),
        _ => FetchError::Connect { target: name(), source: last },
    })
}

/// Whether the error is that of an established connection.
fn is_of_connection(error: &io::Error) -> bool {
    use ErrorKind::{BrokenPipe, ConnectionReset, TimedOut, UnexpectedEof, WouldBlock};
    matches!(error.kind(), BrokenPipe | ConnectionReset | TimedOut | UnexpectedEof | WouldBlock)
}

/// Resolves to one address, whatever the URI. The system's resolver blocks where there is no name service, and ureq's default one starts a
/// thread for it.
#[derive(Debug)]
struct Known(SocketAddr);

impl Resolver for Known {
    fn resolve(&self, _: &Uri, _: &Config, _: NextTimeout) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let mut addrs = self.empty();
        addrs.push(self.0);
        Ok(addrs)
    }
}

/// One request.
struct Asked<'a> {
    target: &'a Target,
    path: &'a str,
    /// The JSON that it brings.
    sent: Option<&'a [u8]>,
    timeout: Duration,
}

/// One exchange with a server that is known: no redirects, no proxy, and a short head.
pub(crate) fn agent_config() -> ConfigBuilder<AgentScope> {
    Agent::config_builder()
        .max_response_header_size(HEAD_BYTES_MAX)
        .max_redirects(0)
        .http_status_as_error(false)
        .proxy(None)
        .user_agent(concat!("flashmob/", env!("CARGO_PKG_VERSION")))
}

impl Asked<'_> {
    /// Asks over the connection that is secret already, or a new one.
    fn ask(&self, addr: SocketAddr, secret: Option<Once>, until: Instant) -> Result<Response<Body>, ureq::Error> {
        let config = agent_config().timeout_connect(Some(left(until))).timeout_global(Some(left(until))).build();
        let agent = match secret {
            None => Agent::with_parts(config, DefaultConnector::default(), Known(addr)),
            Some(secret) => Agent::with_parts(config, secret, Known(addr)),
        };
        // The host is a placeholder: the resolver has the address, and a URI cannot hold an IPv6 address with a scope.
        // Named by its address: that is accepted under any name.
        let mut request =
            Request::builder().uri(format!("http://flashmob{}", self.path)).header(ACCEPT, "application/json");
        if let Way::Tls(_, Some(Token(token))) = &self.target.way {
            request = request.header(AUTHORIZATION, format!("Bearer {}", **token));
        }
        match self.sent {
            None => agent.run(request.header(HOST, addr.to_string()).body(())?),
            Some(json) => agent.run(
                request
                    .method("POST")
                    .header(HOST, addr.to_string())
                    .header(CONTENT_TYPE, "application/json")
                    .body(json)?,
            ),
        }
    }

    fn body_of(&self, mut response: Response<Body>) -> Result<Vec<u8>, FetchError> {
        let target = || self.target.to_string();
        let status = response.status().as_u16();
        // Of a server that says that it is not to be taken for a page, as ours do.
        let is_ours = response.headers().contains_key("x-content-type-options");
        let is_refusal =
            matches!(status, 401 | 403) && is_ours || self.sent.is_some() && matches!(status, 400 | 404 | 409 | 429);
        match status {
            200 => {}
            // It is carried out, and the body says what is left.
            202 if self.sent.is_some() => {}
            503 => return Err(FetchError::Busy(target())),
            504 if self.sent.is_some() => return Err(FetchError::Unknown(target())),
            _ if is_refusal => {}
            _ => return Err(FetchError::Foreign(target())),
        }
        let limit = BODY_BYTES_MAX as u64;
        if response.body().content_length().is_some_and(|len| len > limit) {
            return Err(FetchError::TooLarge(target()));
        }
        let body = response.body_mut().with_config().limit(limit).read_to_vec().map_err(|e| self.failed(e))?;
        if is_refusal {
            let words = flashmob_text::one_line(&String::from_utf8_lossy(&body), 600);
            return Err(FetchError::Rejected(target(), words));
        }
        Ok(body)
    }

    fn failed(&self, error: ureq::Error) -> FetchError {
        let target = self.target.to_string();
        match error {
            ureq::Error::Timeout(_) => FetchError::Timeout(target, self.timeout),
            ureq::Error::BodyExceedsLimit(_) => FetchError::TooLarge(target),
            ureq::Error::Io(source) => match source.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut => FetchError::Timeout(target, self.timeout),
                ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::UnexpectedEof => {
                    FetchError::Cut(target)
                }
                _ => FetchError::Io { target, source },
            },
            _ => FetchError::Foreign(target),
        }
    }
}

/// `ADDR:PORT` from a target that may be a copied URL, and whether it is to be secret.
pub(crate) fn authority(target: &str) -> Option<(&str, bool)> {
    let text = target.trim();
    let secret = text.strip_prefix("https://");
    let rest = secret.or_else(|| text.strip_prefix("http://")).unwrap_or(text);
    let authority = rest.split('/').next()?;
    let (host, port) = authority.rsplit_once(':')?;
    let good = !host.is_empty()
        && port.parse::<u16>().is_ok_and(|port| port != 0)
        && authority.chars().all(|c| c.is_ascii_graphic());
    good.then_some((authority, secret.is_some()))
}
