//! Who is in charge: one gateway at a time takes charge of its volumes in etcd, and holds a lease on that.
//!
//! Two things are kept apart. The *term*, a random number, says whose changes of the map count: it is written when a gateway takes charge, and
//! every change depends on it, so no clock is involved. The *leader* key is there while the lease lasts: nobody takes charge as long as it is,
//! and its gateway answers reads only so long (`flashmob_core::gateway::lasts_until`). A gateway whose lease ran out takes it again if the
//! term is still its own. Time is CLOCK_BOOTTIME, which goes on while the machine sleeps.

use std::collections::BTreeSet;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::bail;
use flashmob_core::gateway::lasts_until;
use flashmob_core::op::Failure;
use flashmob_core::units::Time;
use serde::{Deserialize, Serialize};

use super::{Keys, Unwritten};
use crate::config::{EtcdConfig, VolumeConfig};
use crate::etcd::{Compare, Etcd, EtcdError, Ranged, Txn, TxnOp};
use crate::gateway::map_store::MapFailure;
use crate::net::clock::boottime_ns;
use crate::store::extent_id::unique_id;

/// How long one request may take. Asking another member, or again, helps more than waiting: a follower holds requests for 7 s after its leader is gone.
const DEADLINE: Duration = Duration::from_secs(if cfg!(test) { 20 } else { 3 });
/// How often a standby looks whether the gateway in charge is gone.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// The pause after a request that had no answer.
const AGAIN_AFTER: Duration = Duration::from_millis(250);
/// The lease is renewed so many times while it lasts.
const RENEWALS: u32 = 5;
/// How much longer than a lease a gateway without `--standby` waits for the end of another one's.
const PATIENCE: Duration = Duration::from_secs(if cfg!(test) { 0 } else { 5 });
/// How often it is told that etcd does not answer.
const TELL_EVERY: Duration = Duration::from_secs(30);
/// The threads encode JSON, and may have TLS.
const STACK_BYTES: usize = 1 << 20;

/// How a gateway takes charge.
#[derive(Debug, Clone, Copy)]
pub struct Terms<'a> {
    /// Where etcd is, and how long a lease lasts.
    pub config: &'a EtcdConfig,
    /// The volumes. It takes charge of all, or none.
    pub volumes: &'a [VolumeConfig],
    /// Its name, for people.
    pub name: &'a str,
    /// It waits for as long as another one is in charge.
    pub stands_by: bool,
    /// Ends the wait, and all waits for etcd.
    pub stop: &'a Arc<AtomicBool>,
}

/// The value of a leader key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leader {
    /// The gateway's name.
    gateway: String,
    /// The machine that it runs on.
    host: String,
    /// Its process there.
    process: u32,
    /// When it took charge, in milliseconds since 1970.
    since_unix_ms: u64,
    /// Its term.
    term: String,
}

impl fmt::Display for Leader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("gateway {} on {}, process {}", self.gateway, self.host, self.process);
        f.write_str(&flashmob_text::harmless(&text))
    }
}

/// A gateway's time in charge. Clones share it.
#[derive(Debug, Clone)]
pub struct Tenure(Arc<Shared>);

struct Shared {
    etcd: Etcd,
    name: String,
    volumes: Vec<Keys>,
    leader: Leader,
    lasts: Duration,
    lease: AtomicI64,
    /// Until when the lease lasts, by CLOCK_BOOTTIME in nanoseconds.
    until_ns: AtomicU64,
    deposed: OnceLock<String>,
    trouble: Mutex<Trouble>,
    is_over: AtomicBool,
    /// The process is to end.
    stop: Arc<AtomicBool>,
    /// Clients are served.
    serves: AtomicBool,
    /// Ends sleeps at once when it is over.
    ending: (Mutex<()>, Condvar),
    wake: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

#[derive(Debug, Default)]
struct Trouble {
    why: Option<String>,
    told: Option<Instant>,
}

/// What came of an attempt to take charge.
enum Bid {
    Won,
    /// Somebody is in charge.
    Held(String),
    /// Somebody took charge after this gateway.
    Lost(String),
}

impl Tenure {
    /// Takes charge, once nobody else is. `None` if it was stopped.
    pub fn begin(terms: &Terms<'_>) -> anyhow::Result<Option<Tenure>> {
        let tenure = Tenure(Arc::new(Shared::new(terms)?));
        let shared = &*tenure.0;
        let begun = Instant::now();
        let mut told = BTreeSet::new();
        while !terms.stop.load(Ordering::SeqCst) {
            match shared.bid(true) {
                Ok(Bid::Won) => {
                    shared.note_answer();
                    log::info!("{}: this gateway is in charge, with a lease of {:?}", shared.name, shared.lasts);
                    return Ok(Some(tenure));
                }
                Ok(Bid::Held(by) | Bid::Lost(by)) => {
                    if !terms.stands_by && begun.elapsed() > shared.lasts + PATIENCE {
                        bail!(
                            "{by} is in charge; stop it, or start this one with --standby, and it takes over when that one is gone"
                        );
                    }
                    if told.insert(by.clone()) {
                        log::info!("standing by: {by} is in charge");
                    }
                }
                Err(error) if terms.stands_by => shared.note_trouble(&error),
                Err(error) => {
                    shared.resign();
                    bail!("{}: {error}", shared.name);
                }
            }
            std::thread::sleep(LOOK_EVERY);
        }
        shared.resign();
        Ok(None)
    }

    /// Renews the lease from now on, on a thread, until the keeper is dropped; it calls `wake` when something has changed.
    pub fn keep(&self, wake: impl Fn() + Send + Sync + 'static) -> std::io::Result<Keeper> {
        let _ = self.0.wake.set(Box::new(wake));
        let shared = Arc::clone(&self.0);
        let keep = move || {
            if catch_unwind(AssertUnwindSafe(|| shared.keep())).is_err() {
                // It was reported on standard error.
                shared.depose(Some("the thread that renews the lease has ended; another gateway".to_string()));
            }
        };
        let thread = Builder::new().name("lease".into()).stack_size(STACK_BYTES).spawn(keep)?;
        Ok(Keeper { tenure: self.clone(), thread: Some(thread) })
    }

    pub fn etcd(&self) -> &Etcd {
        &self.0.etcd
    }

    /// Clients are served from now on.
    pub fn serve(&self) {
        self.0.serves.store(true, Ordering::SeqCst);
    }

    /// Where it is held, for people.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Until when no other gateway can be in charge, by CLOCK_BOOTTIME in nanoseconds.
    pub fn until_ns(&self) -> u64 {
        self.0.until_ns.load(Ordering::Acquire)
    }

    /// Why this gateway is not in charge any more.
    pub fn deposed(&self) -> Option<&str> {
        self.0.deposed.get().map(String::as_str)
    }

    /// Whether etcd says that this gateway is the last that took charge. If it does not answer, that is not known.
    pub fn is_unfollowed(&self) -> bool {
        let shared = &*self.0;
        let is_ours = |found: &Ranged| found.kvs.iter().any(|kv| kv.value == self.term().as_bytes());
        shared.look(Keys::term).is_ok_and(|found| found.iter().all(is_ours))
    }

    /// Why etcd cannot be used at present.
    pub fn trouble(&self) -> Option<String> {
        lock(&self.0.trouble).why.clone()
    }

    /// The random number of this gateway's time in charge, as text.
    pub fn term(&self) -> &str {
        &self.0.leader.term
    }

    /// Carries out a change of a volume's map, if this gateway was the last that took charge of it. Waits for etcd as long as it takes, or until the end.
    /// It may be executed more than once.
    pub fn commit(&self, keys: &Keys, ops: Vec<TxnOp>) -> Result<(), MapFailure> {
        self.carry_out(keys, None, ops).map_err(|failed| failed.failure)
    }

    /// The same, once only: a key's value is exchanged for another one.
    pub fn exchange(&self, keys: &Keys, exchange: &Exchange, ops: Vec<TxnOp>) -> Result<(), NotExchanged> {
        self.carry_out(keys, Some(exchange), ops)
    }

    /// Refuses to go on if another gateway has taken charge of a volume.
    pub fn must_be_in_charge(&self, keys: &Keys) -> anyhow::Result<()> {
        Ok(self.commit(keys, Vec::new()).map_err(Unwritten)?)
    }

    /// Reads again for as long as etcd does not answer, or until the end.
    pub fn patient<T>(&self, read: impl Fn() -> anyhow::Result<T>) -> anyhow::Result<T> {
        loop {
            let result = read();
            let error = result.as_ref().err().and_then(|error| error.downcast_ref::<EtcdError>());
            let Some(error @ (EtcdError::Unknown { .. } | EtcdError::NotSent { .. })) = error else { return result };
            self.0.note_trouble(error);
            if self.0.is_over() {
                return result;
            }
            self.0.sleep(AGAIN_AFTER);
        }
    }

    fn carry_out(&self, keys: &Keys, exchange: Option<&Exchange>, ops: Vec<TxnOp>) -> Result<(), NotExchanged> {
        let shared = &*self.0;
        let failed = |failure, text: String| Err(NotExchanged { failure: MapFailure { failure, text }, found: None });
        let term = self.term().as_bytes();
        let mut txn = Txn {
            compare: vec![Compare::Value(keys.term(), term.to_vec())],
            success: ops,
            failure: vec![range(keys.leader()), range(keys.term())],
        };
        if let Some(Exchange { key, from, to }) = exchange {
            txn.compare.push(match from {
                Some(from) => Compare::Value(key.clone(), from.clone()),
                None => Compare::CreateRevision(key.clone(), 0),
            });
            txn.success.push(TxnOp::Put { key: key.clone(), value: to.clone(), lease: 0 });
            txn.failure.push(range(key.clone()));
        }
        loop {
            let error = match shared.etcd.txn(&txn, DEADLINE) {
                Ok(done) => {
                    shared.note_answer();
                    let found = |key: &[u8], value: &[u8]| {
                        done.responses.iter().flat_map(|found| &found.kvs).any(|kv| kv.key == key && kv.value == value)
                    };
                    // An attempt of which no answer came was executed.
                    let is_done = exchange.is_some_and(|exchange| found(&exchange.key, &exchange.to));
                    return match (done.succeeded, found(&keys.term(), term)) {
                        (true, _) => Ok(()),
                        (false, true) if is_done => Ok(()),
                        (false, true) => {
                            let text =
                                format!("{}: the map was written by an attempt that seemed to fail", shared.name);
                            let mut values = done.responses.iter().flat_map(|found| &found.kvs);
                            let found = values.find(|kv| exchange.is_some_and(|exchange| kv.key == exchange.key));
                            let failure = MapFailure { failure: Failure::Io, text };
                            Err(NotExchanged { failure, found: found.map(|kv| kv.value.clone()) })
                        }
                        (false, false) => {
                            shared.depose(done.responses.iter().find_map(leader_in));
                            failed(Failure::Io, format!("{}: another gateway has taken charge", shared.name))
                        }
                    };
                }
                Err(error) => error,
            };
            match error {
                EtcdError::Unknown { .. } | EtcdError::NotSent { .. } => shared.note_trouble(&error),
                EtcdError::NoSpace => return failed(Failure::NoSpace, format!("{}: {error}", shared.name)),
                error => return failed(Failure::Io, format!("{}: {error}", shared.name)),
            }
            if shared.is_over() {
                return failed(Failure::Io, format!("{}: the gateway ends", shared.name));
            }
            shared.sleep(AGAIN_AFTER);
        }
    }
}

/// A key's value, and the one that it gets; none is that there is no key.
#[derive(Debug)]
pub struct Exchange {
    pub key: Vec<u8>,
    pub from: Option<Vec<u8>>,
    pub to: Vec<u8>,
}

/// A key's value was not exchanged.
#[derive(Debug)]
pub struct NotExchanged {
    pub failure: MapFailure,
    /// The value that it has, if that is another one.
    pub found: Option<Vec<u8>>,
}

/// Renews a lease. Dropping it gives the lease up, so that a standby takes over at once.
#[derive(Debug)]
pub struct Keeper {
    tenure: Tenure,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    pub fn tenure(&self) -> &Tenure {
        &self.tenure
    }

    /// Whoever waits for etcd waits no longer.
    pub fn end(&mut self) {
        let shared = &*self.tenure.0;
        shared.is_over.store(true, Ordering::SeqCst);
        drop(lock(&shared.ending.0));
        shared.ending.1.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic was reported on standard error.
            let _ = thread.join();
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.end();
        // Where etcd does not answer, the lease ends by itself.
        if self.tenure.deposed().is_none() && self.tenure.trouble().is_none() {
            self.tenure.0.resign();
        }
    }
}

impl Shared {
    fn new(terms: &Terms<'_>) -> anyhow::Result<Shared> {
        let EtcdConfig { endpoints, prefix, lease, .. } = terms.config;
        let term = u128::from_be_bytes(unique_id());
        let since_unix_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
        let leader = Leader {
            gateway: terms.name.to_string(),
            host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            process: std::process::id(),
            since_unix_ms,
            term: format!("{term:032x}"),
        };
        Ok(Shared {
            etcd: terms.config.client()?,
            name: format!("etcd at {}", endpoints.join(", ")),
            volumes: terms.volumes.iter().map(|volume| Keys::new(prefix, &volume.id)).collect(),
            leader,
            lasts: *lease,
            lease: AtomicI64::new(0),
            until_ns: AtomicU64::new(0),
            deposed: OnceLock::new(),
            trouble: Mutex::default(),
            is_over: AtomicBool::new(false),
            stop: Arc::clone(terms.stop),
            serves: AtomicBool::new(false),
            ending: Default::default(),
            wake: OnceLock::new(),
        })
    }

    /// Takes charge with a new lease; not the first time only if nobody did meanwhile.
    fn bid(&self, is_first: bool) -> Result<Bid, EtcdError> {
        let found = self.look(Keys::leader)?;
        let others = found.iter().flat_map(|found| &found.kvs).find(|found| found.value != self.value());
        if let Some(other) = others.filter(|_| is_first) {
            return Ok(Bid::Held(described(&other.value)));
        }
        // What an attempt of which no answer came has left.
        for found in found.iter().flat_map(|found| &found.kvs).filter(|found| found.value == self.value()) {
            self.etcd.revoke(found.lease, DEADLINE)?;
        }
        if self.is_over() {
            return Err(EtcdError::NotSent { tried: "the gateway ends".to_string() });
        }
        let asked_ns = boottime_ns();
        let lease = self.etcd.grant(self.lasts.as_secs() as i64, DEADLINE)?;
        self.lease.store(lease.id, Ordering::SeqCst);
        let term = self.leader.term.clone().into_bytes();
        let mut bid = Txn::default();
        for keys in &self.volumes {
            bid.compare.push(Compare::CreateRevision(keys.leader(), 0));
            bid.success.push(TxnOp::Put { key: keys.leader(), value: self.value(), lease: lease.id });
            if is_first {
                bid.success.push(TxnOp::Put { key: keys.term(), value: term.clone(), lease: 0 });
            } else {
                bid.compare.push(Compare::Value(keys.term(), term.clone()));
            }
            bid.failure.extend([range(keys.leader()), range(keys.term())]);
        }
        let done = self.etcd.txn(&bid, DEADLINE)?;
        if done.succeeded {
            self.extend(asked_ns, lease.ttl_s);
            return Ok(Bid::Won);
        }
        // Not needed; it would end by itself.
        let _ = self.etcd.revoke(lease.id, DEADLINE);
        let by = done.responses.iter().find_map(leader_in);
        let is_ours = |keys: &Keys| {
            let mut values = done.responses.iter().flat_map(|found| &found.kvs);
            values.any(|found| found.key == keys.term() && found.value == term)
        };
        let is_lost = !is_first && !self.volumes.iter().all(is_ours);
        let by = by.unwrap_or_else(|| "another gateway".to_string());
        Ok(if is_lost { Bid::Lost(by) } else { Bid::Held(by) })
    }

    fn value(&self) -> Vec<u8> {
        serde_json::to_vec(&self.leader).unwrap_or_default()
    }

    /// Renews the lease until the end.
    fn keep(&self) {
        let mut pause = self.lasts / RENEWALS;
        // A lease that was granted for a bid of which no answer came may have no leader key: it is none to renew.
        let mut is_gone = false;
        loop {
            self.sleep(pause);
            if self.is_over() || self.deposed.get().is_some() {
                return;
            }
            let asked_ns = boottime_ns();
            let lease = self.lease.load(Ordering::SeqCst);
            let kept = if is_gone { Ok(None) } else { self.etcd.keep_alive(lease, DEADLINE.min(self.lasts / 3)) };
            let kept = match kept {
                Ok(Some(ttl_s)) => self.confirm(lease).map(|is_there| match is_there {
                    true => {
                        self.extend(asked_ns, ttl_s);
                        Bid::Won
                    }
                    false => {
                        is_gone = true;
                        self.lapse();
                        Bid::Held(String::new())
                    }
                }),
                Ok(None) => {
                    if !std::mem::replace(&mut is_gone, true) {
                        log::warn!(
                            "{}: the lease ran out; it is taken again if no other gateway is in charge",
                            self.name
                        );
                    }
                    self.lapse();
                    self.bid(false)
                }
                Err(error) => Err(error),
            };
            pause = match kept {
                Ok(Bid::Won) => {
                    is_gone = false;
                    self.note_answer();
                    self.lasts / RENEWALS
                }
                Ok(Bid::Lost(by)) => return self.depose(Some(by)),
                Ok(Bid::Held(_)) => AGAIN_AFTER,
                Err(error) => {
                    self.note_trouble(&error);
                    AGAIN_AFTER
                }
            };
        }
    }

    /// Whether the leader keys are there with this lease. A member that was the leader and does not know that it no longer is may have renewed a lease that is
    /// over; this it cannot answer.
    fn confirm(&self, lease: i64) -> Result<bool, EtcdError> {
        let is_there = |found: &Ranged| found.kvs.iter().any(|kv| kv.value == self.value() && kv.lease == lease);
        Ok(self.look(Keys::leader)?.iter().all(is_there))
    }

    /// Reads a key of each volume. Not in a transaction, which a full etcd refuses even if it only reads.
    fn look(&self, key: fn(&Keys) -> Vec<u8>) -> Result<Vec<Ranged>, EtcdError> {
        self.volumes.iter().map(|keys| self.etcd.range(&key(keys), None, 1, DEADLINE)).collect()
    }

    fn extend(&self, asked_ns: u64, ttl_s: i64) {
        let lasts = Duration::from_secs(ttl_s.max(0) as u64);
        let until = lasts_until(Time(asked_ns), Time(boottime_ns()), lasts);
        self.until_ns.store(until.0, Ordering::Release);
        self.wake();
    }

    /// The lease is known to be gone.
    fn lapse(&self) {
        self.until_ns.store(0, Ordering::Release);
        self.wake();
    }

    fn depose(&self, by: Option<String>) {
        let by = by.unwrap_or_else(|| "another gateway".to_string());
        let _ = self.deposed.set(format!("{by} has taken charge"));
        self.wake();
    }

    fn wake(&self) {
        if let Some(wake) = self.wake.get() {
            wake();
        }
    }

    /// Gives the lease up.
    fn resign(&self) {
        let lease = self.lease.load(Ordering::SeqCst);
        if lease != 0
            && let Err(error) = self.etcd.revoke(lease, DEADLINE)
        {
            log::warn!("{}: the lease is not given up, and ends by itself: {error}", self.name);
        }
    }

    /// Whether nobody waits for etcd any more. While clients are served, requests in progress are completed after a signal, and need it.
    fn is_over(&self) -> bool {
        let is_stopped = self.stop.load(Ordering::SeqCst) && !self.serves.load(Ordering::SeqCst);
        is_stopped || self.is_over.load(Ordering::SeqCst)
    }

    /// Waits, but not beyond the end.
    fn sleep(&self, pause: Duration) {
        let guard = lock(&self.ending.0);
        drop(self.ending.1.wait_timeout_while(guard, pause, |()| !self.is_over()));
    }

    fn note_trouble(&self, error: &EtcdError) {
        let mut trouble = lock(&self.trouble);
        trouble.why = Some(error.to_string());
        if trouble.told.is_none_or(|told| told.elapsed() >= TELL_EVERY) {
            trouble.told = Some(Instant::now());
            log::warn!("{}: {error}", self.name);
        }
    }

    fn note_answer(&self) {
        let mut trouble = lock(&self.trouble);
        if trouble.why.take().is_some() && trouble.told.take().is_some() {
            log::info!("{}: it answers again", self.name);
        }
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shared { name, leader, lease, until_ns, deposed, .. } = self;
        let mut text = f.debug_struct("Tenure");
        text.field("name", name).field("leader", leader).field("lease", lease);
        text.field("until_ns", until_ns).field("deposed", deposed).finish_non_exhaustive()
    }
}

fn range(key: Vec<u8>) -> TxnOp {
    TxnOp::Range { key, range_end: None, limit: 1 }
}

/// Who a leader key names.
fn leader_in(found: &Ranged) -> Option<String> {
    let found = found.kvs.first().filter(|found| found.key.ends_with(b"/leader"))?;
    Some(described(&found.value))
}

fn described(value: &[u8]) -> String {
    serde_json::from_slice(value).map_or_else(|_| "another gateway".to_string(), |leader: Leader| leader.to_string())
}

/// What a thread that panicked has left is whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
