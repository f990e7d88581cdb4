//! The errors that etcd answers with, by what they say about whether the request was executed.

use serde::Deserialize;

use super::answer::shortened;

/// Status codes of gRPC.
const CANCELLED: i64 = 1;
const UNKNOWN: i64 = 2;
const DEADLINE_EXCEEDED: i64 = 4;
const PERMISSION_DENIED: i64 = 7;
const INTERNAL: i64 = 13;
const UNAVAILABLE: i64 = 14;
const UNAUTHENTICATED: i64 = 16;

/// An answer that is an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// It was not executed, and another member may accept it, or the same one later.
    NotSent(String),
    /// It may have been executed, or may yet be.
    Unknown(String),
    /// See [`super::EtcdError::NoSpace`].
    NoSpace,
    /// There is no such lease.
    NoLease,
    /// Access was refused.
    Denied(String),
    /// The request is too large.
    TooLarge,
    /// This is not an answer of etcd.
    Malformed(String),
    /// Another error, with which nothing is executed.
    Rejected(String),
}

impl Refusal {
    /// Whether the endpoint works, and another would answer the same.
    pub(super) fn is_final(&self) -> bool {
        matches!(self, Refusal::NoSpace | Refusal::NoLease | Refusal::TooLarge | Refusal::Rejected(_))
    }
}

/// Messages of etcd 3.4 and later with which a request was certainly not executed, and can be tried elsewhere.
const NOT_EXECUTED: [&str; 5] = [
    "etcdserver: no leader",
    "etcdserver: not capable",
    "etcdserver: rpc not supported for learner",
    "etcdserver: too many requests",
    "raft proposal dropped",
];
/// The message of Go's HTTP server with TLS for a client without.
const WANTS_TLS: &str = "Client sent an HTTP request to an HTTPS server";
/// Messages about users. They are not known by their code: that of a missing name is INVALID_ARGUMENT.
const OF_USERS: [&str; 5] = [
    "etcdserver: permission denied",
    "etcdserver: user name is empty",
    "etcdserver: invalid auth token",
    "etcdserver: authentication failed",
    "etcdserver: revision of auth store is old",
];
/// Messages about size. The last two are those of gRPC, whose limit etcd sets a little above its own.
const OF_SIZE: [&str; 4] = [
    "etcdserver: request is too large",
    "etcdserver: too many operations in txn request",
    "grpc: received message larger than max",
    "trying to send message larger than max",
];

#[derive(Deserialize)]
struct Body {
    #[serde(default)]
    error: Option<Words>,
    #[serde(default)]
    message: Option<String>,
    #[serde(default)]
    code: Option<i64>,
}

/// A text; in a stream an object. Later versions have no such field in other answers.
#[derive(Deserialize)]
#[serde(untagged)]
enum Words {
    Text(String),
    Object { message: String, grpc_code: Option<i64>, code: Option<i64> },
}

/// The error in an answer, with this HTTP status; in a stream the status of an error is 200.
#[must_use]
pub fn refusal(status: u16, body: &[u8]) -> Refusal {
    let first = serde_json::Deserializer::from_slice(body).into_iter::<Body>().next();
    let (words, code) = match first {
        Some(Ok(Body { error: Some(Words::Object { message, grpc_code, code }), .. })) => (message, grpc_code.or(code)),
        Some(Ok(Body { message: Some(message), code, .. })) => (message, code),
        Some(Ok(Body { error: Some(Words::Text(words)), code, .. })) => (words, code),
        _ => return of_others(status, body),
    };
    meaning(&shortened(&words), code)
}

fn meaning(words: &str, code: Option<i64>) -> Refusal {
    let is_one_of = |known: &[&str]| known.iter().any(|known| words.contains(known));
    if words.contains("mvcc: database space exceeded") {
        return Refusal::NoSpace;
    }
    if words.contains("requested lease not found") {
        return Refusal::NoLease;
    }
    if is_one_of(&OF_SIZE) {
        return Refusal::TooLarge;
    }
    let words = words.to_string();
    if is_one_of(&OF_USERS) {
        return Refusal::Denied(words);
    }
    if is_one_of(&NOT_EXECUTED) {
        return Refusal::NotSent(words);
    }
    match code {
        Some(PERMISSION_DENIED | UNAUTHENTICATED) => Refusal::Denied(words),
        None | Some(CANCELLED | UNKNOWN | DEADLINE_EXCEEDED | INTERNAL | UNAVAILABLE) => Refusal::Unknown(words),
        Some(_) => Refusal::Rejected(words),
    }
}

/// An answer that is not of etcd's gateway, but of its HTTP server or of a proxy in front of it.
fn of_others(status: u16, body: &[u8]) -> Refusal {
    // Enough for the message below.
    let text = String::from_utf8_lossy(&body[..body.len().min(4096)]);
    let words = shortened(&format!("HTTP status {status}: {}", text.trim()));
    match status {
        _ if text.contains(WANTS_TLS) => Refusal::Denied(words),
        401 | 403 | 421 => Refusal::Denied(words),
        502..=504 => Refusal::Unknown(words),
        _ => Refusal::Malformed(words),
    }
}
