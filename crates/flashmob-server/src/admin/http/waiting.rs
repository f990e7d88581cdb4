//! Open connections, of which one makes room for a newcomer while it is not being answered.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use flashmob_host::newcomer::to_replace;
use tokio::task::AbortHandle;

/// Whether a connection's request is being answered: it is complete, and its answer is not ready yet.
#[derive(Debug, Clone, Default)]
pub(super) struct Answering(Arc<AtomicBool>);

impl Answering {
    pub fn set(&self, is: bool) {
        self.0.store(is, Ordering::Relaxed);
    }
}

#[derive(Debug)]
struct Open {
    from: IpAddr,
    since: Instant,
    answering: Answering,
    task: AbortHandle,
}

/// The open connections.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    open: Mutex<HashMap<u64, Open>>,
}

impl Waiting {
    pub fn add(&self, number: u64, from: IpAddr, answering: Answering, task: AbortHandle) {
        // It may have ended before it is entered; nothing removes it then.
        if !task.is_finished() {
            self.lock().insert(number, Open { from, since: Instant::now(), answering, task });
        }
    }

    pub fn remove(&self, number: u64) {
        self.lock().remove(&number);
    }

    /// Ends one that is not being answered although it has been open for `silence`, if there is any.
    pub fn make_room(&self, silence: Duration) {
        let mut open = self.lock();
        let is_silent = |open: &Open| !open.answering.0.load(Ordering::Relaxed) && open.since.elapsed() >= silence;
        let silent = open.iter().filter(|(_, open)| is_silent(open));
        if let Some(key) = to_replace(silent.map(|(&key, open)| (key, Some(open.from))))
            && let Some(open) = open.remove(&key)
        {
            open.task.abort();
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Open>> {
        // It is consistent even after a panic.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
