//! The settings of the workload.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// INSERTs into a fresh database, each its own transaction.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// The database's path. An existing file is replaced only if an earlier run made it.
    pub path: PathBuf,
    /// The number of INSERTs.
    pub inserts: u64,
    /// Bytes of the string in each; P5 has 100.
    pub string_bytes: usize,
    /// The journal mode.
    pub journal_mode: JournalMode,
    /// When SQLite waits for the disk.
    pub synchronous: Synchronous,
    /// Record each call of SQLite to a file, with its times.
    pub is_watched: bool,
    /// Keep the database.
    pub is_kept: bool,
}

impl Workload {
    /// P5's: an int and a string of 100 bytes, with SQLite's defaults (DELETE, FULL), unwatched, and removed in the end.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>, inserts: u64) -> Workload {
        Workload {
            path: path.into(),
            inserts,
            string_bytes: 100,
            journal_mode: JournalMode::Delete,
            synchronous: Synchronous::Full,
            is_watched: false,
            is_kept: false,
        }
    }
}

/// Defines an enum with SQLite's name of each variant.
macro_rules! words {
    ($(#[$doc:meta])* $type:ident, $what:literal, $($(#[$doc_of:meta])* $variant:ident = $name:literal,)*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $type {
            $($(#[$doc_of])* $variant,)*
        }

        impl $type {
            /// All variants.
            pub const ALL: [$type; [$($name),*].len()] = [$($type::$variant),*];

            /// The name as SQLite writes it, in capitals.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $($type::$variant => $name,)*
                }
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }

        impl FromStr for $type {
            type Err = String;

            fn from_str(text: &str) -> Result<$type, String> {
                let found = $type::ALL.into_iter().find(|known| known.name().eq_ignore_ascii_case(text.trim()));
                let names = || $type::ALL.map($type::name).join(", ");
                found.ok_or_else(|| format!("SQLite has no {} '{text}'; it has {}", $what, names()))
            }
        }
    };
}

words! {
    /// SQLite's `journal_mode`.
    JournalMode, "journal mode",
    /// The journal is deleted at each commit.
    Delete = "DELETE",
    /// The journal is truncated to no bytes.
    Truncate = "TRUNCATE",
    /// The journal's header is overwritten with zeros.
    Persist = "PERSIST",
    /// Changes go to a write-ahead log, and later into the database.
    Wal = "WAL",
    /// The journal is in memory: a crash may destroy the database.
    Memory = "MEMORY",
    /// No journal: neither rollback nor safety.
    Off = "OFF",
}

words! {
    /// SQLite's `synchronous`, in the order of its numbers.
    Synchronous, "synchronous level",
    /// Never waits for the disk.
    Off = "OFF",
    /// Waits where a crash would destroy the database.
    Normal = "NORMAL",
    /// Waits also where a crash would lose the last transaction.
    Full = "FULL",
    /// Waits also for the folder once a journal is deleted.
    Extra = "EXTRA",
}
