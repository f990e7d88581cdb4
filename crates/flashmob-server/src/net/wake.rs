//! Wakes an event loop from any thread.

use std::io;
use std::sync::Arc;

use mio::{Registry, Token, Waker};

/// Wakes the event loop that it was made for.
#[derive(Debug, Clone)]
pub struct Wake(Option<Arc<Waker>>);

impl Wake {
    /// A way to wake the loop of `registry`, which sees `token` then.
    pub fn new(registry: &Registry, token: Token) -> io::Result<Wake> {
        Ok(Wake(Some(Arc::new(Waker::new(registry, token)?))))
    }

    /// Wakes the loop. Cheap, and several calls may become one.
    pub fn wake(&self) {
        if let Some(Err(error)) = self.0.as_ref().map(|waker| waker.wake()) {
            log::error!("cannot wake an event loop: {error}");
        }
    }

    /// Wakes nobody: for tests that look by themselves.
    #[cfg(any(test, feature = "testing"))]
    #[must_use]
    pub fn nobody() -> Wake {
        Wake(None)
    }
}
