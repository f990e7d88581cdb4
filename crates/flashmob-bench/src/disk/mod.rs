//! Loads on one device: reads and writes of a file, in many combinations of order, size and threads.
//!
//! A request costs one system call, one reading of the clock and one random number; nothing else is done between two requests, so that
//! the figures are those of the device. The parameters and results are those of [`flashmob_results::disk`].
//!
//! | file | what it holds |
//! |---|---|
//! | `plan` | all combinations, checked |
//! | `sweep` | round after round, with page cache and scheduler as asked for |
//! | `page_cache`, `schedulers` | the state before a repetition, and the fallback where it is not possible |
//! | `subject` | the file or the model |
//! | `commands` | the commands that the device receives |
//! | `crew` | the threads of one repetition |
//! | `worker`, `uring` | the loop of one thread |
//! | `offsets`, `limit`, `buffer` | offsets of requests, end of a repetition, memory of requests |
//! | `doubts` | reasons for doubtful figures |

mod buffer;
mod commands;
mod crew;
mod doubts;
mod error;
pub mod limit;
mod offsets;
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
pub(crate) use worker::now_ns;
