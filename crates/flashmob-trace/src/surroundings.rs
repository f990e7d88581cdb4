//! Knowledge that the join needs and the kernel's events lack.

use flashmob_results::trace::{Layer, Role};

/// All of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Surroundings {
    /// Threads whose system calls are of interest: those of the workload when it began. Children are learnt from events.
    pub threads: Vec<u32>,
    /// Files that are known by name, each for a time.
    pub files: Vec<NamedFile>,
    /// Block devices that the files lie on.
    pub devices: Vec<BlockDevice>,
    /// Operations, if the application reported them.
    pub operations: Vec<AppOperation>,
    /// Spans that the application and SQLite reported themselves.
    pub spans: Vec<AppSpan>,
    /// Names of threads, as far as they were asked for.
    pub thread_names: Vec<(u32, String)>,
}

/// A file with a name, for a time: inode numbers are used again, by the next journal for one.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedFile {
    /// Its path.
    pub path: String,
    /// What it is.
    pub role: Role,
    /// Device number as the kernel's events have it: `major << 20 | minor`.
    pub device: u32,
    /// Its inode.
    pub inode: u64,
    /// The inode is this file from then on; 0 if always.
    pub from_ns: u64,
    /// Until then; `u64::MAX` if to the end.
    pub until_ns: u64,
    /// Where it lies, as far as it was asked for.
    pub extents: Vec<Extent>,
}

/// Bytes of a file on its block device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Offset in the file.
    pub logical_bytes: u64,
    /// Offset on the file system's device.
    pub physical_bytes: u64,
    /// Length.
    pub bytes: u64,
}

/// A block device with a file system on it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BlockDevice {
    /// Device number of the file system: `major << 20 | minor`.
    pub number: u32,
    /// Device number of the whole disk, which block events name; the same if it is no partition.
    pub disk_number: u32,
    /// Where the partition begins on the disk.
    pub begin_bytes: u64,
    /// Its name, such as `loop0`.
    pub name: String,
    /// Type of the file system.
    pub filesystem: String,
    /// Bytes of a block of the file system.
    pub block_bytes: u64,
    /// Where the file system's own journal lies, as far as it is known.
    pub journal: Vec<Extent>,
}

/// One operation as the application reports it.
#[derive(Clone, Debug, PartialEq)]
pub struct AppOperation {
    /// Its name, such as `insert`.
    pub name: String,
    /// Who waits for it.
    pub thread: u32,
    /// Begin, in nanoseconds of CLOCK_MONOTONIC.
    pub begin_ns: u64,
    /// End.
    pub end_ns: u64,
}

/// Something that the application or SQLite did.
#[derive(Clone, Debug, PartialEq)]
pub struct AppSpan {
    /// Its layer: application or SQLite.
    pub layer: Layer,
    /// What, such as `xWrite`.
    pub name: String,
    /// Who.
    pub thread: u32,
    /// The file, an index of [`Surroundings::files`].
    pub file: Option<usize>,
    /// Offset in the file.
    pub offset_bytes: Option<u64>,
    /// Bytes moved.
    pub bytes: u64,
    /// Begin, in nanoseconds of CLOCK_MONOTONIC.
    pub begin_ns: u64,
    /// End.
    pub end_ns: u64,
}
