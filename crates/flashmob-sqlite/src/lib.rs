//! P5's workload, INSERTs that are each a transaction of their own, and SQLite's calls for each of them.
//!
//! It needs no rights: SQLite reports statements, and a shim before its own VFS reports each call to a file, by name. It is independent of
//! kernels, results or tables; a caller that wants more traces the thread that runs it.
//!
//! - [`settings`]: its settings: [`Workload`]
//! - [`run`]: running it: at once, or in steps ([`run::Prepared`]) to measure the INSERTs alone
//! - [`report`]: its results
//! - `place`: a fresh database for each run
//! - `shim`, `hooks`: the two places where SQLite lets others look; all `unsafe` code of this crate is there
//! - `notes`: where both write down what they see

pub mod error;
mod hooks;
mod notes;
mod place;
pub mod report;
pub mod run;
pub mod settings;
mod shim;

#[cfg(test)]
mod tests;

pub use error::Error;
pub use place::remove;
pub use report::{Call, CallKind, FileKind, OpenFile, Report};
pub use run::{Prepared, run};
pub use settings::{JournalMode, Synchronous, Workload};

/// SQLite's version.
#[must_use]
pub fn version() -> &'static str {
    rusqlite::version()
}
