//! P5's workload: INSERTs that are each a transaction of their own, and SQLite's calls for each of them.
//!
//! It needs no privileges: SQLite reports statements, and a shim in front of its VFS records each file call by name. It is independent of
//! kernels, results or tables; a caller that needs more traces the thread that runs it.
//!
//! - [`settings`]: its settings: [`Workload`]
//! - [`run`]: running it: at once, or in steps ([`run::Prepared`]) to measure the INSERTs alone
//! - [`report`]: its results
//! - `place`: a fresh database for each run
//! - `shim`, `hooks`: SQLite's two extension points; all `unsafe` code of this crate is there
//! - `notes`: the records of both

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
