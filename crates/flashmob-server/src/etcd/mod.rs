//! A client of etcd 3.4 and later: keys, transactions and leases, over etcd's HTTP and JSON gateway.
//!
//! Every call blocks, at most until its deadline, and its error says whether the request can have been executed:
//! [`EtcdError`]. Several threads may call at once; no thread is started here. The endpoint that answered last is asked
//! first. The deadline does not cover resolving a host *name*: that happens at the first connection, and again when no
//! known address can be connected to. Give addresses where it matters.

pub mod answer;
mod connection;
mod error;
mod files;
mod json;
pub mod members;
mod refusal;
mod request;
mod socket;
#[cfg(test)]
mod tests;
mod tried;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use serde_json::{Value, json};

pub use self::answer::{KeyValue, Lease, Ranged, TxnDone};
use self::connection::{Endpoint, Request};
pub use self::error::EtcdError;
use self::files::Files;
pub use self::files::Tls;
pub use self::json::LIST_MAX;
pub use self::members::{Alarm, AlarmKind, Member, MemberStatus};
pub use self::refusal::{Refusal, refusal};
pub use self::request::{Compare, Txn, TxnOp};
use self::tried::{Tried, understood};
use crate::net::fetch::{Target, authority};

/// The longest answer that has keys in it.
pub const KEYS_BYTES_MAX: usize = 64 << 20;
/// The longest answer of any other kind.
pub const ANSWER_BYTES_MAX: usize = 64 << 10;
/// The longest wait for one endpoint while there is another to ask.
const SHARE_MAX: Duration = Duration::from_secs(2);

/// A longer deadline is taken for this one.
const DEADLINE_MAX: Duration = Duration::from_secs(86400);

/// The members of an etcd cluster, or some of them.
#[derive(Debug)]
pub struct Etcd {
    endpoints: Vec<Endpoint>,
    /// The one that is asked first.
    first: AtomicUsize,
}

/// When the next endpoint is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// If the request was certainly not executed.
    IfNotSent,
    /// Also if that is not known: twice does no harm.
    Always,
}

/// A request, and how it is sent.
struct Asked<'a> {
    path: &'a str,
    body: Value,
    next: Next,
    needs_leader: bool,
    answer_bytes_max: usize,
}

impl<'a> Asked<'a> {
    fn new(path: &'a str, body: Value, next: Next) -> Asked<'a> {
        Asked { path, body, next, needs_leader: true, answer_bytes_max: ANSWER_BYTES_MAX }
    }
}

impl Etcd {
    /// The cluster with these endpoints, each `HOST:PORT`. Nothing is connected to yet; the files are read once.
    ///
    /// # Errors
    /// An endpoint is none, or a file cannot be used.
    pub fn new(endpoints: &[String], tls: Option<&Tls>) -> anyhow::Result<Etcd> {
        ensure!(!endpoints.is_empty(), "no etcd endpoint is given; give at least one HOST:PORT");
        let files = tls.map(Files::read).transpose()?;
        let endpoint = |text: &String| -> anyhow::Result<Endpoint> {
            let (authority, is_secret) = authority(text)
                .with_context(|| format!("'{text}' is no etcd endpoint; write HOST:PORT, such as 192.168.1.10:2379"))?;
            if is_secret && files.is_none() {
                bail!(
                    "the etcd endpoint '{text}' has TLS; name the file with its authority's certificate: ca = \"FILE\" in [etcd]"
                );
            }
            if files.is_some() && text.trim().starts_with("http://") {
                bail!(
                    "the etcd endpoint '{text}' has no TLS, but files for TLS are given; write https:// or HOST:PORT"
                );
            }
            let end = files.as_ref().map(|files| files.end(Target::host(authority)?)).transpose()?;
            Ok(Endpoint::new(authority, end))
        };
        let endpoints = endpoints.iter().map(endpoint).collect::<Result<_, _>>()?;
        Ok(Etcd { endpoints, first: AtomicUsize::new(0) })
    }

    /// The endpoints, each `HOST:PORT`.
    pub fn endpoints(&self) -> impl Iterator<Item = &str> {
        self.endpoints.iter().map(Endpoint::authority)
    }

    /// Reads a key, or all keys from it to before `range_end`; at most `limit`, 0 being all. What was written before
    /// the call is in it.
    ///
    /// # Errors
    /// See [`EtcdError`].
    pub fn range(
        &self,
        key: &[u8],
        range_end: Option<&[u8]>,
        limit: u32,
        deadline: Duration,
    ) -> Result<Ranged, EtcdError> {
        let asked = Asked::new("/v3/kv/range", request::range(key, range_end, limit), Next::Always);
        self.ask(&Asked { answer_bytes_max: KEYS_BYTES_MAX, ..asked }, deadline, answer::ranged)
    }

    /// Executes a transaction. After [`EtcdError::Unknown`] it is for the caller to find out what became of it.
    ///
    /// # Errors
    /// See [`EtcdError`].
    pub fn txn(&self, txn: &Txn, deadline: Duration) -> Result<TxnDone, EtcdError> {
        let answer_bytes_max = if txn.reads() { KEYS_BYTES_MAX } else { ANSWER_BYTES_MAX };
        let asked = Asked::new("/v3/kv/txn", txn.to_json(), Next::IfNotSent);
        self.ask(&Asked { answer_bytes_max, ..asked }, deadline, |body| {
            let done = answer::txn_done(body)?;
            let read = txn.ranges(done.succeeded);
            if done.responses.len() != read {
                return Err(answer::BadAnswer(format!("{} answers to {read} ranges", done.responses.len())));
            }
            Ok(done)
        })
    }

    /// Takes a lease. After [`EtcdError::Unknown`] there may be one that nobody knows, until its time is over.
    ///
    /// # Errors
    /// See [`EtcdError`].
    pub fn grant(&self, ttl_s: i64, deadline: Duration) -> Result<Lease, EtcdError> {
        let body = json!({ "TTL": ttl_s.to_string() });
        self.ask(&Asked::new("/v3/lease/grant", body, Next::IfNotSent), deadline, answer::lease)
    }

    /// Lets a lease begin anew. Returns how many seconds it has; `None` if it is gone.
    ///
    /// # Errors
    /// See [`EtcdError`].
    pub fn keep_alive(&self, id: i64, deadline: Duration) -> Result<Option<i64>, EtcdError> {
        let asked = Asked::new("/v3/lease/keepalive", json!({ "ID": id.to_string() }), Next::Always);
        match self.ask(&asked, deadline, |body| answer::kept_alive(body, id)) {
            Err(EtcdError::NoLease) => Ok(None),
            kept => kept,
        }
    }

    /// Ends a lease, and removes the keys that go with it. That there is none is no error.
    ///
    /// # Errors
    /// See [`EtcdError`].
    pub fn revoke(&self, id: i64, deadline: Duration) -> Result<(), EtcdError> {
        let asked = Asked::new("/v3/lease/revoke", json!({ "ID": id.to_string() }), Next::Always);
        match self.ask(&asked, deadline, answer::done) {
            Err(EtcdError::NoLease) => Ok(()),
            done => done,
        }
    }

    /// What the member at one of [`Etcd::endpoints`] says of itself, whether it has a leader or not.
    ///
    /// # Errors
    /// See [`EtcdError`].
    pub fn status(&self, endpoint: &str, deadline: Duration) -> Result<MemberStatus, EtcdError> {
        let asked = Asked::new("/v3/maintenance/status", json!({}), Next::Always);
        let Some(at) = self.endpoints.iter().position(|known| known.authority() == endpoint) else {
            return Err(EtcdError::NotSent { tried: format!("{endpoint} is none of the endpoints") });
        };
        let asked = Asked { needs_leader: false, ..asked };
        self.ask_each(&asked, &[at], deadline, members::member_status)
    }

    /// The members of the cluster, as the one that answers knows them.
    ///
    /// # Errors
    /// See [`EtcdError`].
    pub fn members(&self, deadline: Duration) -> Result<Vec<Member>, EtcdError> {
        let asked = Asked::new("/v3/cluster/member/list", json!({}), Next::Always);
        self.ask(&Asked { needs_leader: false, ..asked }, deadline, members::members)
    }

    /// The alarms of the cluster.
    ///
    /// # Errors
    /// See [`EtcdError`].
    pub fn alarms(&self, deadline: Duration) -> Result<Vec<Alarm>, EtcdError> {
        let asked = Asked::new("/v3/maintenance/alarm", json!({}), Next::Always);
        self.ask(&asked, deadline, members::alarms)
    }

    fn ask<T>(
        &self,
        asked: &Asked<'_>,
        deadline: Duration,
        parse: impl Fn(&[u8]) -> Result<T, answer::BadAnswer>,
    ) -> Result<T, EtcdError> {
        let (first, count) = (self.first.load(Ordering::Relaxed), self.endpoints.len());
        let order: Vec<usize> = (0..count).map(|turn| (first + turn) % count).collect();
        self.ask_each(asked, &order, deadline, parse)
    }

    fn ask_each<T>(
        &self,
        asked: &Asked<'_>,
        order: &[usize],
        deadline: Duration,
        parse: impl Fn(&[u8]) -> Result<T, answer::BadAnswer>,
    ) -> Result<T, EtcdError> {
        let (begun, deadline) = (Instant::now(), deadline.min(DEADLINE_MAX));
        let body = asked.body.to_string();
        let request = Request {
            path: asked.path,
            body: body.as_bytes(),
            needs_leader: asked.needs_leader,
            answer_bytes_max: asked.answer_bytes_max,
        };
        let mut tried = Tried::default();
        for (turn, &at) in order.iter().enumerate() {
            let now = Instant::now();
            let left = deadline.saturating_sub(now.duration_since(begun));
            let is_last = turn + 1 == order.len();
            let share = if is_last { left } else { left.min(SHARE_MAX).min(deadline / 3) };
            // A request that is not sent twice has all the remaining time once it was sent.
            let wait = if asked.next == Next::Always { share } else { left };
            let endpoint = &self.endpoints[at];
            let answered = endpoint.ask(&request, now + share, now + wait);
            let why = match answered.and_then(|(status, body)| understood(status, &body, &parse)) {
                Ok(value) => {
                    self.prefer(at, order, true);
                    return Ok(value);
                }
                Err(why) => why,
            };
            self.prefer(at, order, why.is_final());
            let is_unknown = matches!(why, Refusal::Unknown(_));
            tried.add(endpoint.authority(), asked.path, why)?;
            if is_unknown && asked.next == Next::IfNotSent {
                break;
            }
        }
        Err(tried.error())
    }

    /// The next call begins with the endpoint that answered, and ends with one that did not. A call to one endpoint of
    /// several changes nothing.
    fn prefer(&self, at: usize, order: &[usize], has_answered: bool) {
        if order.len() < self.endpoints.len() {
            return;
        }
        if has_answered {
            self.first.store(at, Ordering::Relaxed);
        } else {
            let next = (at + 1) % self.endpoints.len();
            // Another thread may know better.
            let _ = self.first.compare_exchange(at, next, Ordering::Relaxed, Ordering::Relaxed);
        }
    }
}
