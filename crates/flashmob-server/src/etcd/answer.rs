//! What etcd answers about keys and leases, from its JSON. No bytes make this panic.

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::json::{bytes, integer, list};

/// Most characters of a text from elsewhere in a message.
const WORDS_CHARS_MAX: usize = 300;

/// Keys that were read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ranged {
    /// The revision of the database at which they were read.
    pub revision: i64,
    /// There are more than the limit allowed.
    pub more: bool,
    /// The keys, in order.
    pub kvs: Vec<KeyValue>,
}

/// A key, what it has, and since when.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct KeyValue {
    /// The key, which is not empty.
    #[serde(deserialize_with = "bytes")]
    pub key: Vec<u8>,
    /// Its value.
    #[serde(default, deserialize_with = "bytes")]
    pub value: Vec<u8>,
    /// The revision at which it came into being.
    #[serde(default, deserialize_with = "integer")]
    pub create_revision: i64,
    /// The revision of its last change.
    #[serde(default, deserialize_with = "integer")]
    pub mod_revision: i64,
    /// How many times it was written since it came into being.
    #[serde(default, deserialize_with = "integer")]
    pub version: i64,
    /// The lease that it goes with; 0 is none.
    #[serde(default, deserialize_with = "integer")]
    pub lease: i64,
}

/// What came of a transaction.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TxnDone {
    /// Whether all conditions held.
    pub succeeded: bool,
    /// The revision of the database after it.
    pub revision: i64,
    /// What its ranges read, in their order.
    pub responses: Vec<Ranged>,
}

/// A lease that was granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    /// What it is called; not 0.
    pub id: i64,
    /// For how many seconds it holds; etcd may give more than was asked for.
    pub ttl_s: i64,
}

/// What is wrong with an answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadAnswer(pub String);

impl BadAnswer {
    /// The library's errors cite the answer, which may be long.
    fn of(error: serde_json::Error) -> BadAnswer {
        BadAnswer(shortened(&error.to_string()))
    }
}

/// The first words of a text from elsewhere, for a message.
pub(super) fn shortened(text: &str) -> String {
    flashmob_text::one_line(text, WORDS_CHARS_MAX)
}

/// What nearly every answer begins with.
#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Header {
    #[serde(deserialize_with = "integer")]
    revision: i64,
    #[serde(deserialize_with = "integer")]
    pub member_id: u64,
}

#[derive(Deserialize)]
struct RangeAnswer {
    header: Header,
    #[serde(default)]
    more: bool,
    #[serde(default, deserialize_with = "list")]
    kvs: Vec<KeyValue>,
}

impl RangeAnswer {
    fn checked(self) -> Result<Ranged, BadAnswer> {
        if self.kvs.iter().any(|kv| kv.key.is_empty()) {
            return Err(BadAnswer("a key is empty".to_string()));
        }
        Ok(Ranged { revision: self.header.revision, more: self.more, kvs: self.kvs })
    }
}

pub(super) fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, BadAnswer> {
    serde_json::from_slice(body).map_err(BadAnswer::of)
}

/// The answer of `/v3/kv/range`.
///
/// # Errors
/// It is something else.
pub fn ranged(body: &[u8]) -> Result<Ranged, BadAnswer> {
    read::<RangeAnswer>(body)?.checked()
}

/// The answer of `/v3/kv/txn`.
///
/// # Errors
/// It is something else.
pub fn txn_done(body: &[u8]) -> Result<TxnDone, BadAnswer> {
    #[derive(Deserialize)]
    struct Answer {
        header: Header,
        #[serde(default)]
        succeeded: bool,
        #[serde(default, deserialize_with = "list")]
        responses: Vec<Part>,
    }
    #[derive(Deserialize)]
    struct Part {
        response_range: Option<RangeAnswer>,
    }
    let answer: Answer = read(body)?;
    let ranges = answer.responses.into_iter().filter_map(|part| part.response_range);
    Ok(TxnDone {
        succeeded: answer.succeeded,
        revision: answer.header.revision,
        responses: ranges.map(RangeAnswer::checked).collect::<Result<_, _>>()?,
    })
}

/// The answer of `/v3/lease/grant`.
///
/// # Errors
/// It is something else.
pub fn lease(body: &[u8]) -> Result<Lease, BadAnswer> {
    #[derive(Deserialize)]
    struct Answer {
        #[serde(rename = "ID", deserialize_with = "integer")]
        id: i64,
        #[serde(rename = "TTL", deserialize_with = "integer")]
        ttl: i64,
    }
    let Answer { id, ttl } = read(body)?;
    if id == 0 || ttl <= 0 {
        return Err(BadAnswer("a lease without an ID or a TTL".to_string()));
    }
    Ok(Lease { id, ttl_s: ttl })
}

/// The answer of `/v3/lease/keepalive` for this lease, the first of a stream: the seconds that are left; `None` if the
/// lease has expired.
///
/// # Errors
/// It is something else, or about another lease.
pub fn kept_alive(body: &[u8], id: i64) -> Result<Option<i64>, BadAnswer> {
    #[derive(Deserialize)]
    struct Answer {
        result: Kept,
    }
    #[derive(Deserialize)]
    struct Kept {
        #[serde(rename = "ID", deserialize_with = "integer")]
        id: i64,
        #[serde(default, rename = "TTL", deserialize_with = "integer")]
        ttl: i64,
    }
    let first = serde_json::Deserializer::from_slice(body).into_iter::<Answer>().next();
    let Answer { result } = first.ok_or_else(|| BadAnswer("it is empty".to_string()))?.map_err(BadAnswer::of)?;
    if result.id != id {
        return Err(BadAnswer("it is about another lease".to_string()));
    }
    Ok((result.ttl > 0).then_some(result.ttl))
}

/// An answer that says nothing but that it was done, as that of `/v3/lease/revoke`.
///
/// # Errors
/// It is something else.
pub fn done(body: &[u8]) -> Result<(), BadAnswer> {
    #[derive(Deserialize)]
    struct Answer {
        #[serde(rename = "header")]
        _header: Header,
    }
    read::<Answer>(body).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_etcd_says_is_one_line() {
        let told = shortened("no\n\u{1b}[2J\r error: all is \u{202e}well");
        assert_eq!(told, "no \u{fffd}[2J error: all is \u{fffd}well");
        assert!(shortened(&"long ".repeat(1000)).chars().count() <= WORDS_CHARS_MAX);
    }
}
