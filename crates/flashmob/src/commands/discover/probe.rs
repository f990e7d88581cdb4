//! Whether a node's port answers: a connection that is closed again without a word. A node takes it for somebody who
//! changed their mind.

use std::collections::VecDeque;
use std::net::{SocketAddr, TcpStream};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use flashmob_server::discovery::ExtentId;

/// How long an answer may take: a tablet with its screen off takes some hundred milliseconds.
const TIMEOUT: Duration = Duration::from_millis(1000);
/// So many at once.
const AT_ONCE: usize = 32;
/// Of a node's addresses so many are tried.
const ADDRESSES_MAX: usize = 4;

/// Whom to try.
pub type Trial = (ExtentId, Vec<SocketAddr>);
/// What came of it: the address that answered.
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
