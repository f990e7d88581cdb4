//! The lease: taken, renewed, confirmed, and given up.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use flashmob_core::gateway::lasts_until;
use flashmob_core::units::Time;

use super::{AGAIN_AFTER, Bid, DEADLINE, Leader, Shared, TELL_EVERY, Tenure, Terms, described, leader_in, lock, range};
use crate::config::EtcdConfig;
use crate::etcd::{Compare, EtcdError, Ranged, Txn, TxnOp};
use crate::gateway::etcd_map::Keys;
use crate::net::clock::boottime_ns;
use crate::store::extent_id::unique_id;

/// The lease is renewed so many times while it lasts.
const RENEWALS: u32 = 5;

/// Renews a lease. Dropping it gives the lease up, so that a standby takes over at once.
#[derive(Debug)]
pub struct Keeper {
    pub(super) tenure: Tenure,
    pub(super) thread: Option<JoinHandle<()>>,
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
    pub(super) fn new(terms: &Terms<'_>) -> anyhow::Result<Shared> {
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
    pub(super) fn bid(&self, is_first: bool) -> Result<Bid, EtcdError> {
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
    pub(super) fn keep(&self) {
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
    pub(super) fn look(&self, key: fn(&Keys) -> Vec<u8>) -> Result<Vec<Ranged>, EtcdError> {
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

    pub(super) fn depose(&self, by: Option<String>) {
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
    pub(super) fn resign(&self) {
        let lease = self.lease.load(Ordering::SeqCst);
        if lease != 0
            && let Err(error) = self.etcd.revoke(lease, DEADLINE)
        {
            log::warn!("{}: the lease is not given up, and ends by itself: {error}", self.name);
        }
    }

    /// Whether nobody waits for etcd any more. While clients are served, requests in progress are completed after a signal, and need it.
    pub(super) fn is_over(&self) -> bool {
        let is_stopped = self.stop.load(Ordering::SeqCst) && !self.serves.load(Ordering::SeqCst);
        is_stopped || self.is_over.load(Ordering::SeqCst)
    }

    /// Waits, but not beyond the end.
    pub(super) fn sleep(&self, pause: Duration) {
        let guard = lock(&self.ending.0);
        drop(self.ending.1.wait_timeout_while(guard, pause, |()| !self.is_over()));
    }

    pub(super) fn note_trouble(&self, error: &EtcdError) {
        let mut trouble = lock(&self.trouble);
        trouble.why = Some(error.to_string());
        if trouble.told.is_none_or(|told| told.elapsed() >= TELL_EVERY) {
            trouble.told = Some(Instant::now());
            log::warn!("{}: {error}", self.name);
        }
    }

    pub(super) fn note_answer(&self) {
        let mut trouble = lock(&self.trouble);
        if trouble.why.take().is_some() && trouble.told.take().is_some() {
            log::info!("{}: it answers again", self.name);
        }
    }
}
