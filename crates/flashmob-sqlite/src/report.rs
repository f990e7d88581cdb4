//! The results of the workload.

/// The results of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// SQLite's version.
    pub version: String,
    /// The kernel's number of the thread that did it.
    pub thread_id: u32,
    /// The INSERTs: begin and end on CLOCK_MONOTONIC, in nanoseconds, as the application saw them.
    pub inserts: Vec<(u64, u64)>,
    /// SQLite's calls, in the order of begins. Empty without [`Workload::is_watched`](crate::Workload::is_watched).
    pub calls: Vec<Call>,
    /// The files that SQLite opened. A path may occur several times: journals are deleted and created again.
    pub files: Vec<OpenFile>,
    /// Calls that are missing because there was no memory to record them.
    pub missed_calls: u64,
    /// The run was cancelled: there are fewer INSERTs than wanted.
    pub is_stopped: bool,
}

impl Report {
    /// INSERTs each second, from the first's begin to the last's end; 0 if there were none.
    #[must_use]
    pub fn inserts_per_second(&self) -> f64 {
        match (self.inserts.first(), self.inserts.last()) {
            (Some(first), Some(last)) if last.1 > first.0 => {
                self.inserts.len() as f64 / ((last.1 - first.0) as f64 / 1e9)
            }
            _ => 0.0,
        }
    }
}

/// A call of SQLite's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Call {
    /// Its kind.
    pub kind: CallKind,
    /// The file, an index of [`Report::files`]; absent for statements.
    pub file: Option<u32>,
    /// Offset in the file, for reads, writes and truncations.
    pub offset: Option<u64>,
    /// Bytes moved.
    pub bytes: u64,
    /// Begin on CLOCK_MONOTONIC, in nanoseconds.
    pub begin_ns: u64,
    /// End.
    pub end_ns: u64,
}

/// The kinds of calls, each with SQLite's name for it.
macro_rules! call_kinds {
    ($($(#[$doc:meta])* $kind:ident = $name:literal,)*) => {
        /// A kind of call.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum CallKind {
            $(#[doc = $name] $(#[$doc])* $kind,)*
        }

        impl CallKind {
            /// SQLite's name for it.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(CallKind::$kind => $name,)*
                }
            }
        }
    };
}

call_kinds! {
    /// `sqlite3_step` of the INSERT.
    Statement = "statement",
    /// The commit within it, up to the statement's end: SQLite reports only its begin.
    Commit = "commit",
    Open = "xOpen",
    Close = "xClose",
    Read = "xRead",
    Write = "xWrite",
    Truncate = "xTruncate",
    Sync = "xSync",
    Size = "xFileSize",
    Lock = "xLock",
    Unlock = "xUnlock",
    /// Locks of the write-ahead log's index.
    SharedLock = "xShmLock",
    /// Memory of the write-ahead log's index.
    SharedMap = "xShmMap",
    /// Of a journal.
    Delete = "xDelete",
    /// Whether a file exists.
    Access = "xAccess",
}

/// The kind of an opened file, by the flags that it was opened with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileKind {
    /// The database.
    Database,
    /// The rollback journal.
    Journal,
    /// The write-ahead log.
    Wal,
    /// The write-ahead log's index, which SQLite maps and opens by itself.
    SharedMemory,
    /// Anything else: temporary files.
    Other,
}

/// A file while it was open.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenFile {
    /// Its path.
    pub path: String,
    /// Its kind.
    pub kind: FileKind,
    /// The device that it lies on: `st_dev`; 0 if it could not be asked.
    pub device: u64,
    /// Its inode; 0 if it could not be asked.
    pub inode: u64,
    /// When it was opened, in nanoseconds of CLOCK_MONOTONIC.
    pub opened_ns: u64,
    /// When it was closed; absent if it was still open at the end.
    pub closed_ns: Option<u64>,
}
