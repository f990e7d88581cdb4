//! P5's workload, INSERTs that are each a transaction of their own, and what SQLite itself does for each of them.
//!
//! It needs no rights: SQLite tells of statements, and a shim before its own VFS tells of each call to a file, by name. It knows nothing of
//! kernels, results or tables; whoever wants more traces the thread that runs it.
//!
//! - [`settings`]: what is to be done: [`Workload`]
//! - [`run`]: doing it: at once, or in steps ([`run::Prepared`]) for those who look at the INSERTs alone
//! - [`report`]: what is told of it
//! - `place`: a fresh database for each run, and never somebody else's in its place
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
