//! A model of a storage device and its I/O scheduler. Input: requests with their arrival times. Output:
//! completions with their times.
//!
//! It does no I/O, reads no clock and moves no data: time is an argument, and the same profile, seed and requests
//! give the same completions on every machine. So it runs in virtual time as well as behind threads that wait for
//! its deadlines.
//!
//! ```text
//!  submit ─▶ queue of the scheduler ─▶ the drive's own queue ─▶ slots, each serving one request ─▶ completion
//!            none, mq-deadline, bfq    (disks only)             service time by size, step, op
//! ```
//!
//! - [`Profile`]: the parameters of a device, and the built-in devices
//! - [`Scheduler`]: the order in which waiting requests go to the device
//! - [`FlashModel`]: the device with its queue
//! - [`PageCache`]: an optional, much simplified page cache with readahead
//!
//! Its purpose is to show the effects that this project's papers describe. Random reads scale with threads up to
//! the number of slots and then stay flat; a read of one byte costs a block; an upward step is cheaper than a
//! downward one, so the scheduler's order matters. **It is no forecast for a particular device**: [`profile`] and
//! `docs/models.md` state for each number whether it was published or chosen.

pub mod cache;
pub mod model;
mod modelled;
pub mod profile;
pub mod request;
pub mod scheduler;
mod service;

pub use cache::{Lookup, PageCache};
pub use flashmob_core::device_model::Counters;
pub use model::{FlashModel, Start};
pub use modelled::Model;
pub use profile::{Cost, Profile, ProfileError, Rotation};
pub use request::{Completion, Op, Request, RequestError};
pub use scheduler::{Scheduler, SchedulerError};

/// The block size of devices and page cache in bytes: ext4's block and Linux's page. P1 found that
/// smaller reads are no cheaper.
pub const BLOCK_BYTES: u64 = 4096;

/// The blocks touched by `len_bytes` at `offset_bytes`: the first, and the one after the last.
#[must_use]
pub fn blocks_touched(offset_bytes: u64, len_bytes: u64) -> (u64, u64) {
    (offset_bytes / BLOCK_BYTES, (offset_bytes + len_bytes).div_ceil(BLOCK_BYTES))
}

#[cfg(test)]
mod tests;
