//! What is to be done.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// INSERTs into a fresh database, each its own transaction.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// Where the database is made. What is there is replaced only if an earlier run made it.
    pub path: PathBuf,
    /// How many INSERTs.
    pub inserts: u64,
    /// Bytes of the string in each; P5 has 100.
    pub string_bytes: usize,
    /// How SQLite keeps a transaction whole.
    pub journal_mode: JournalMode,
    /// How much it waits for the disk.
    pub synchronous: Synchronous,
    /// Each call of SQLite to a file is noted, with its times.
    pub is_watched: bool,
    /// The database stays when it is done.
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

/// SQLite's `journal_mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum JournalMode {
    /// The journal is deleted at each commit.
    Delete,
    /// It is cut to nothing.
    Truncate,
    /// Its header is overwritten with zeros.
    Persist,
    /// Changes go to a log and later into the database.
    Wal,
    /// The journal is in memory: a crash may cost the database.
    Memory,
    /// There is none: neither rollback nor safety.
    Off,
}

impl JournalMode {
    /// All of them.
    pub const ALL: [JournalMode; 6] = [
        JournalMode::Delete,
        JournalMode::Truncate,
        JournalMode::Persist,
        JournalMode::Wal,
        JournalMode::Memory,
        JournalMode::Off,
    ];

    /// As SQLite writes it, in capitals.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            JournalMode::Delete => "DELETE",
            JournalMode::Truncate => "TRUNCATE",
            JournalMode::Persist => "PERSIST",
            JournalMode::Wal => "WAL",
            JournalMode::Memory => "MEMORY",
            JournalMode::Off => "OFF",
        }
    }
}

/// SQLite's `synchronous`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Synchronous {
    /// Never waits for the disk.
    Off,
    /// Waits where a crash would cost the database.
    Normal,
    /// Waits also where a crash would cost the last transaction.
    Full,
    /// Waits for the folder too once a journal is gone.
    Extra,
}

impl Synchronous {
    /// All of them.
    pub const ALL: [Synchronous; 4] = [Synchronous::Off, Synchronous::Normal, Synchronous::Full, Synchronous::Extra];

    /// As SQLite writes it, in capitals.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Synchronous::Off => "OFF",
            Synchronous::Normal => "NORMAL",
            Synchronous::Full => "FULL",
            Synchronous::Extra => "EXTRA",
        }
    }

    /// SQLite's number for it.
    pub(crate) fn number(self) -> i64 {
        match self {
            Synchronous::Off => 0,
            Synchronous::Normal => 1,
            Synchronous::Full => 2,
            Synchronous::Extra => 3,
        }
    }
}

impl fmt::Display for JournalMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Synchronous {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for JournalMode {
    type Err = String;

    fn from_str(text: &str) -> Result<JournalMode, String> {
        let found = JournalMode::ALL.into_iter().find(|mode| mode.name().eq_ignore_ascii_case(text.trim()));
        found.ok_or_else(|| unknown("journal mode", text, JournalMode::ALL.map(JournalMode::name)))
    }
}

impl FromStr for Synchronous {
    type Err = String;

    fn from_str(text: &str) -> Result<Synchronous, String> {
        let found = Synchronous::ALL.into_iter().find(|level| level.name().eq_ignore_ascii_case(text.trim()));
        found.ok_or_else(|| unknown("synchronous level", text, Synchronous::ALL.map(Synchronous::name)))
    }
}

fn unknown<const N: usize>(what: &str, text: &str, names: [&str; N]) -> String {
    format!("SQLite has no {what} '{text}'; it has {}", names.join(", "))
}
