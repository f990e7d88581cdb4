//! A timeline in forms that other programs read. Nothing is left out, and nothing is made up.
//!
//! - [`csv`]: a row for each span
//! - [`perfetto`]: a trace for Perfetto's viewer and trace processor

pub mod csv;
pub mod perfetto;

#[cfg(test)]
mod tests;

use flashmob_results::trace::{Cause, Role};

/// The word for it in what others read, as in results.
fn role(role: Role) -> &'static str {
    match role {
        Role::Database => "database",
        Role::Journal => "journal",
        Role::Wal => "wal",
        Role::SharedMemory => "shared_memory",
        Role::Directory => "directory",
        Role::Extent => "extent",
        Role::FilesystemJournal => "filesystem_journal",
        Role::Metadata => "metadata",
        Role::Flush => "flush",
        Role::Other => "other",
        Role::Unknown => "unknown",
    }
}

fn cause(cause: Cause) -> &'static str {
    match cause {
        Cause::Direct => "direct",
        Cause::Waited => "waited",
        Cause::Unknown => "unknown",
    }
}
