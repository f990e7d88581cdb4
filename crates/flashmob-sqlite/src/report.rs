//! What the workload tells of itself.

/// What the workload told of itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// SQLite's version.
    pub version: String,
    /// The kernel's number of the thread that did it.
    pub thread_id: u32,
    /// The INSERTs: begin and end on CLOCK_MONOTONIC, in nanoseconds, as the application saw them.
    pub inserts: Vec<(u64, u64)>,
    /// What SQLite did meanwhile, in the order of begins. Empty if it was not asked to tell.
    pub calls: Vec<Call>,
    /// Files that it opened; one path may come again, for a journal is deleted and made anew.
    pub files: Vec<OpenFile>,
    /// Calls that are missing above, for there was no memory to note them.
    pub missed_calls: u64,
    /// It was asked to stop, and there are fewer INSERTs than were wanted.
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

/// One thing that SQLite did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Call {
    /// What.
    pub kind: CallKind,
    /// Of which file, an index of [`Report::files`]; absent for statements.
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

/// Kinds of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CallKind {
    /// `sqlite3_step` of the INSERT.
    Statement,
    /// The commit within it, up to the statement's end: SQLite tells of its begin alone.
    Commit,
    /// xOpen.
    Open,
    /// xClose.
    Close,
    /// xRead.
    Read,
    /// xWrite.
    Write,
    /// xTruncate.
    Truncate,
    /// xSync.
    Sync,
    /// xFileSize.
    Size,
    /// xLock.
    Lock,
    /// xUnlock.
    Unlock,
    /// xShmLock: locks of the write-ahead log's index.
    SharedLock,
    /// xShmMap: memory of the write-ahead log's index.
    SharedMap,
    /// xDelete: of a journal.
    Delete,
    /// xAccess: whether a file is there.
    Access,
}

impl CallKind {
    /// What SQLite calls it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            CallKind::Statement => "statement",
            CallKind::Commit => "commit",
            CallKind::Open => "xOpen",
            CallKind::Close => "xClose",
            CallKind::Read => "xRead",
            CallKind::Write => "xWrite",
            CallKind::Truncate => "xTruncate",
            CallKind::Sync => "xSync",
            CallKind::Size => "xFileSize",
            CallKind::Lock => "xLock",
            CallKind::Unlock => "xUnlock",
            CallKind::SharedLock => "xShmLock",
            CallKind::SharedMap => "xShmMap",
            CallKind::Delete => "xDelete",
            CallKind::Access => "xAccess",
        }
    }
}

/// What an opened file is to SQLite, by the flags that it was opened with.
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
    /// What it is.
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
