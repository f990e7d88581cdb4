//! Who is in charge: one gateway at a time takes charge of its volumes in etcd, and holds a lease on that.
//!
//! Two things are kept apart. The *term*, a random number, says whose changes of the map count: it is written when a gateway takes charge, and
//! every change depends on it, so no clock is involved. The *leader* key is there while the lease lasts: nobody takes charge as long as it is,
//! and its gateway answers reads only so long (`flashmob_core::gateway::lasts_until`). A gateway whose lease ran out takes it again if the
//! term is still its own. Time is CLOCK_BOOTTIME, which goes on while the machine sleeps.

mod changes;
mod lease;

use std::collections::BTreeSet;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};

use anyhow::bail;
use serde::{Deserialize, Serialize};

pub use self::changes::{Exchange, NotExchanged};
pub use self::lease::Keeper;
use super::Keys;
use crate::config::{EtcdConfig, VolumeConfig};
use crate::etcd::{Etcd, EtcdError, Ranged, TxnOp};

/// How long one request may take. Asking another member, or again, helps more than waiting: a follower holds requests for 7 s after its leader is gone.
const DEADLINE: Duration = Duration::from_secs(if cfg!(test) { 20 } else { 3 });
/// How often a standby looks whether the gateway in charge is gone.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// The pause after a request that had no answer.
const AGAIN_AFTER: Duration = Duration::from_millis(250);
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

    /// Whether etcd says that this gateway is the last that took charge; `None` if it does not answer.
    pub fn is_unfollowed(&self) -> Option<bool> {
        let shared = &*self.0;
        let is_ours = |found: &Ranged| found.kvs.iter().any(|kv| kv.value == self.term().as_bytes());
        Some(shared.look(Keys::term).ok()?.iter().all(is_ours))
    }

    /// Why etcd cannot be used at present.
    pub fn trouble(&self) -> Option<String> {
        lock(&self.0.trouble).why.clone()
    }

    /// The random number of this gateway's time in charge, as text.
    pub fn term(&self) -> &str {
        &self.0.leader.term
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
