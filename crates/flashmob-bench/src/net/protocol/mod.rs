//! iperf3's protocol as bytes: nothing here opens a socket or waits.
//!
//! A client connects and sends its [`Cookie`]; the server leads through the [`State`]s, one byte each: parameters, data connections (each
//! begins with the cookie), the test, the exchange of results. Parameters and results are JSON after their length in four bytes, big-endian.
//! Peers are not trusted: every length has a limit, and unknown keys are ignored.
//!
//! - [`parameters`]: the client's parameters
//! - [`results`]: the counts of each end
//! - [`datagram`]: headers of datagrams

pub mod datagram;
pub mod parameters;
pub mod results;

#[cfg(test)]
mod tests;

use std::fmt;

use serde_json::Value;

/// Port that iperf3 listens on.
pub const PORT: u16 = 5201;
/// Bytes of a cookie, with its terminating zero.
pub const COOKIE_BYTES: usize = 37;
/// Most streams each way, as in iperf3.
pub const STREAMS_MAX: u32 = 128;
/// Most bytes of parameters.
pub const PARAMETERS_BYTES_MAX: u32 = 64 << 10;
/// Most bytes of results: twice those of 256 streams.
pub const RESULTS_BYTES_MAX: u32 = 1 << 20;
/// Most bytes of a write, as in iperf3.
pub const BLOCK_BYTES_MAX: u32 = 1 << 20;
/// Most bytes of data in a datagram: 65,535 less the headers of IPv4 and UDP.
pub const DATAGRAM_BYTES_MAX: u32 = 65_507;
/// Least bytes of a datagram: its time and its number.
pub const DATAGRAM_BYTES_MIN: u32 = 16;

/// Largest count that is accepted: those of all streams can be added up.
const COUNT_MAX: u64 = i64::MAX as u64 / 512;

/// A message of a peer that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(pub String);

/// State of a test; its byte is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum State {
    /// The streams exist.
    TestStart = 1,
    /// Data may be sent.
    TestRunning = 2,
    /// From the client: the test is over.
    TestEnd = 4,
    /// The server wants the parameters.
    ParameterExchange = 9,
    /// The server wants the data connections.
    CreateStreams = 10,
    /// The server ends the test early.
    ServerTerminate = 11,
    /// The client ends the test early.
    ClientTerminate = 12,
    /// Results are exchanged, the client's first.
    ExchangeResults = 13,
    /// The server has all results.
    DisplayResults = 14,
    /// From the client: the end.
    Done = 16,
    /// Of flashmob alone: a server grants what the parameters ask for under `flashmob`; [`State::CreateStreams`] follows.
    Granted = 70,
    /// -1: another client is being served.
    AccessDenied = 0xFF,
    /// -2: the server has failed; two numbers of four bytes follow, iperf3's and the system's.
    ServerError = 0xFE,
}

impl State {
    const ALL: [State; 13] = [
        State::TestStart,
        State::TestRunning,
        State::TestEnd,
        State::ParameterExchange,
        State::CreateStreams,
        State::ServerTerminate,
        State::ClientTerminate,
        State::ExchangeResults,
        State::DisplayResults,
        State::Done,
        State::Granted,
        State::AccessDenied,
        State::ServerError,
    ];

    /// Its byte.
    #[must_use]
    pub fn byte(self) -> u8 {
        self as u8
    }

    /// The state of a byte, if it is one.
    #[must_use]
    pub fn of(byte: u8) -> Option<State> {
        State::ALL.into_iter().find(|state| state.byte() == byte)
    }
}

/// The identifier that the connections of a test share.
#[derive(Clone, PartialEq, Eq)]
pub struct Cookie([u8; COOKIE_BYTES]);

impl Cookie {
    /// A cookie from 36 random bytes.
    #[must_use]
    pub fn new(random: [u8; COOKIE_BYTES - 1]) -> Cookie {
        let mut bytes = [0; COOKIE_BYTES];
        for (to, from) in bytes.iter_mut().zip(random) {
            *to = b"abcdefghijklmnopqrstuvwxyz234567"[usize::from(from % 32)];
        }
        Cookie(bytes)
    }

    /// Reads a cookie as iperf3 writes it: visible characters, then zeros.
    ///
    /// # Errors
    /// It is not a cookie.
    pub fn parse(bytes: [u8; COOKIE_BYTES]) -> Result<Cookie, Malformed> {
        let len = bytes.iter().position(|&b| b == 0).unwrap_or(COOKIE_BYTES);
        let is_cookie = (1..COOKIE_BYTES).contains(&len)
            && bytes[..len].iter().all(u8::is_ascii_graphic)
            && bytes[len..].iter().all(|&b| b == 0);
        if is_cookie { Ok(Cookie(bytes)) } else { Err(Malformed("no cookie of iperf3".into())) }
    }

    /// Its bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8; COOKIE_BYTES] {
        &self.0
    }
}

impl fmt::Debug for Cookie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cookie({})", String::from_utf8_lossy(&self.0[..COOKIE_BYTES - 1]))
    }
}

/// iperf3's number of the stream with this index: 1, 3, 4, 5 and so on; there is no 2.
#[must_use]
pub fn stream_id(index: usize) -> u32 {
    u32::try_from(if index == 0 { 1 } else { index + 2 }).unwrap_or(u32::MAX)
}

/// The length of a JSON text from its prefix.
///
/// # Errors
/// It is beyond the limit.
pub fn json_bytes(prefix: [u8; 4], max: u32) -> Result<usize, Malformed> {
    match u32::from_be_bytes(prefix) {
        0 => Err(Malformed("a JSON text of no bytes".into())),
        bytes if bytes > max => Err(Malformed(format!("a JSON text of {bytes} bytes, of at most {max}"))),
        bytes => Ok(bytes as usize),
    }
}

/// A JSON text after its length.
#[must_use]
pub fn framed(json: &Value) -> Vec<u8> {
    let text = json.to_string();
    let mut bytes = u32::try_from(text.len()).unwrap_or(u32::MAX).to_be_bytes().to_vec();
    bytes.extend_from_slice(text.as_bytes());
    bytes
}

fn object(text: &[u8]) -> Result<Value, Malformed> {
    let value: Value = serde_json::from_slice(text).map_err(|error| Malformed(format!("no JSON: {error}")))?;
    if value.is_object() { Ok(value) } else { Err(Malformed("JSON, but no object".into())) }
}

/// A whole number; `None` if it is absent, negative (iperf3's value for unknown) or not a number. Negative numbers that C wrote as unsigned
/// count as negative.
fn whole(of: &Value, key: &str) -> Option<u64> {
    let value = of.get(key)?;
    let number = value.as_u64().or_else(|| value.as_f64().filter(|f| *f >= 0.0 && *f < 9.2e18).map(|f| f as u64))?;
    (number <= i64::MAX as u64).then_some(number.min(COUNT_MAX))
}

/// A number that is finite; 0 if there is none.
fn real(of: &Value, key: &str) -> f64 {
    of.get(key).and_then(Value::as_f64).filter(|f| f.is_finite()).unwrap_or(0.0)
}

/// True, or a number other than 0.
fn truth(of: &Value, key: &str) -> bool {
    of.get(key).is_some_and(|v| v.as_bool().unwrap_or_else(|| v.as_f64().is_some_and(|f| f != 0.0)))
}
