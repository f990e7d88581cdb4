//! Whether a node's port answers: a connection that is closed without data. A node treats it as a client that
//! gave up.

use std::collections::VecDeque;
use std::net::{SocketAddr, TcpStream};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use flashmob_server::discovery::ExtentId;

/// Time limit for an answer: a tablet with its screen off takes some hundred milliseconds.
const TIMEOUT: Duration = Duration::from_millis(1000);
/// Connections at once.
const AT_ONCE: usize = 32;
/// Most addresses of a node that are tried.
const ADDRESSES_MAX: usize = 4;

/// A node to try.
pub type Trial = (ExtentId, Vec<SocketAddr>);
/// The outcome: the address that answered.
pub type Outcome = (ExtentId, Option<SocketAddr>);

/// Tries all nodes.
pub fn try_all(trials: Vec<Trial>) -> Vec<Outcome> {
    let count = trials.len().min(AT_ONCE);
    let queue = Mutex::new(VecDeque::from(trials));
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    let outcomes = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..count {
            scope.spawn(|| {
                while let Some((extent, addrs)) = next() {
                    let answers = |addr: &&SocketAddr| TcpStream::connect_timeout(addr, TIMEOUT).is_ok();
                    let found = addrs.iter().take(ADDRESSES_MAX).find(answers).copied();
                    outcomes.lock().unwrap_or_else(PoisonError::into_inner).push((extent, found));
                }
            });
        }
    });
    outcomes.into_inner().unwrap_or_else(PoisonError::into_inner)
}
