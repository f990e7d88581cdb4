//! Replaces io_uring where it is not built: starting it is an error.

use std::convert::Infallible;
use std::sync::Arc;

use super::StoreOp;
use super::completions::Completions;
use super::error::StoreError;
use super::medium::Medium;

/// How many operations a store without threads takes at once.
pub(super) const DEPTH: usize = 64;

/// An engine that cannot exist.
#[derive(Debug)]
pub(super) struct Ring(Infallible);

impl Ring {
    /// Always [`StoreError::IoUringAbsent`].
    pub fn start(_: &Arc<Medium>, _: &Arc<Completions>, _: usize) -> Result<Ring, StoreError> {
        Err(StoreError::IoUringAbsent)
    }

    /// Cannot be called.
    pub fn submit(&self, _: &mut Vec<StoreOp>) {
        match self.0 {}
    }
}
