//! A model of a storage device and of the scheduler before it: requests with the time of their arrival in,
//! completions with the time of their end out.
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
//! - [`Profile`]: the numbers of a device, and those that are built in
//! - [`Scheduler`]: in what order waiting requests go to the device
//! - [`FlashModel`]: the device with its queue
//! - [`PageCache`]: a much simplified page cache with readahead, to be put in front where one is wanted
//!
//! Its purpose is to show the effects that the papers behind this project describe. Random reads grow with threads up to
//! the number of slots and then stay flat; a read of one byte costs a block; an upward step is cheaper than a
//! downward one, so the scheduler's order counts. **It is no forecast for a particular device**: which numbers
//! were published and which were chosen stands beside each of them in [`profile`] and in `docs/models.md`.

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

/// The unit in which devices and page cache work, in bytes: the block of ext4 and the page of Linux. P1 found that
/// reads smaller than this are no cheaper.
pub const BLOCK_BYTES: u64 = 4096;

/// The blocks that `len_bytes` from `offset_bytes` touch: the first, and the one after the last.
#[must_use]
pub fn blocks_touched(offset_bytes: u64, len_bytes: u64) -> (u64, u64) {
    (offset_bytes / BLOCK_BYTES, (offset_bytes + len_bytes).div_ceil(BLOCK_BYTES))
}

#[cfg(test)]
mod tests;
