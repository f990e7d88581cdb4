//! How one device answers: reads and writes of a file, in many combinations of order, size and threads.
//!
//! A request costs one system call, one look at the clock and one step of a random number; nothing else is done between two of them, so that
//! the figures are the device's. The parameters and results are those of [`flashmob_results::disk`].
//!
//! | file | what it holds |
//! |---|---|
//! | `plan` | all combinations, checked |
//! | `sweep` | round after round, with page cache and scheduler as asked for |
//! | `page_cache`, `schedulers` | the state before a repetition, and what is done where it cannot be had |
//! | `subject` | the file or the model |
//! | `commands` | what the device is given meanwhile |
//! | `crew` | the threads of one repetition |
//! | `worker`, `uring` | the loop of one thread |
//! | `offsets`, `limit`, `buffer` | where requests go, when they end, the memory they use |
//! | `doubts` | what makes the figures doubtful |

mod buffer;
mod commands;
mod crew;
pub mod doubts;
mod error;
pub mod limit;
pub mod offsets;
mod page_cache;
pub mod plan;
mod schedulers;
mod subject;
mod sweep;
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod uring;
mod worker;

pub use error::DiskError;
pub use flashmob_lab::flash::Scheduler;
pub use subject::{FileSubject, ModelSubject};
pub use sweep::{Event, Plan, Subject, Swept, run};
