//! The device that a node runs on: how it is, whether that is near a limit, and when it was away.
//!
//! | file | what is in it |
//! |---|---|
//! | `state_file.rs` | what an app writes for the node, which may read more than a program does |
//! | `space.rs` | room in the data file's file system, and what the extent has yet to take of it |
//! | `limits.rs` | below, or above, what the node says so |
//! | `pauses.rs` | when it was away, how long, and why |
//! | `watch.rs` | the thread that looks, as rarely as will do |
//!
//! Nothing here fails because something cannot be read, and nothing here is on the way of a request: files in `/sys` may take
//! milliseconds to read, so a thread of its own does that.

mod limits;
mod pauses;
mod space;
pub mod state_file;
mod watch;

pub use limits::{FreeSpaceMin, Limits};
pub use pauses::{Pause, Pauses};
pub use watch::{DeviceOptions, DeviceWatch};
