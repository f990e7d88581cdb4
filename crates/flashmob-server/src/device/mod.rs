//! The device that a node runs on: its condition, its limits, and its pauses.
//!
//! | file | contents |
//! |---|---|
//! | `state_file.rs` | the file that an app writes for the node, because it may read more than a program |
//! | `space.rs` | free space in the data file's file system, and the unallocated part of the extent |
//! | `limits.rs` | the limits that produce warnings |
//! | `pauses.rs` | periods in which the node did not serve, with reasons |
//! | `watch.rs` | the thread that watches the device, as rarely as possible |
//!
//! Unreadable values are no errors, and nothing here delays a request: files in `/sys` may take milliseconds to read, so a
//! separate thread reads them.

mod limits;
mod pauses;
mod space;
pub mod state_file;
mod watch;

pub use limits::{FreeSpaceMin, Limits};
pub use pauses::{Pause, Pauses};
pub use watch::{DeviceOptions, DeviceWatch};
