//! Results of `flashmob trace`: the time of operations, layer by layer, and the timelines of a few of them.
//!
//! An *operation* is something that a program waits for: one INSERT, one system call of a command, one read of a volume. A *span* is work
//! of a layer, from its begin to its end. At every moment an operation's time belongs to exactly one layer, the lowest that worked for it,
//! or is unattributed: [`Operation::unattributed_ns`]. All times are nanoseconds of one clock, CLOCK_MONOTONIC of the process that traced.

use serde::{Deserialize, Serialize};

use crate::disk::{Operation as Direction, Spread};
use crate::latency::Latency;
use crate::warning::Warning;

/// Runs of a traced workload: one for each setting.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Trace {
    /// In the order in which they were made.
    pub runs: Vec<Run>,
}

/// One workload with one setting.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// What to call it in tables: what sets it apart from its neighbours, such as `DELETE, FULL`.
    pub name: String,
    /// What was done.
    pub workload: Workload,
    /// What it was done on.
    pub system: System,
    /// Where knowledge came from, and what is missing of it.
    pub sources: Vec<Source>,
    /// Events that the kernel could not keep.
    pub losses: Losses,
    /// What tracing cost; absent if it was not measured.
    pub overhead: Option<Overhead>,
    /// From the first operation to the end of the last, traced.
    pub elapsed_s: f64,
    /// All operations together.
    pub operations: Operations,
    /// What each layer did for all operations, from the top down.
    pub layers: Vec<LayerTotal>,
    /// Time between the end of a layer's work and the begin of the next one's, by pairs.
    pub handovers: Vec<Handover>,
    /// What was done to each file, by kind of work.
    pub files: Vec<FileTotal>,
    /// Commands of the driver, in the order of their issue.
    pub commands: Option<Commands>,
    /// A few operations in full, one after the other: what figures show.
    pub timeline: Timeline,
    /// Before and after the last write to the database; absent if nobody looked, or nothing was written there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_last_write: Option<AfterLastWrite>,
    /// Warnings about this run.
    pub warnings: Vec<Warning>,
}

/// What was traced.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Workload {
    /// P5's: INSERTs, each its own transaction.
    Sqlite {
        /// SQLite's version.
        version: String,
        /// How many.
        inserts: u64,
        /// Bytes of the string in each.
        string_bytes: u64,
        /// `journal_mode`: `DELETE`, `TRUNCATE`, `PERSIST`, `WAL`.
        journal_mode: String,
        /// `synchronous`: `OFF`, `NORMAL`, `FULL`, `EXTRA`.
        synchronous: String,
    },
    /// A command of the user's; its operations are its own spans, or its system calls where it marks none.
    Command {
        /// The command and its arguments.
        command: Vec<String>,
        /// Its exit status; absent if a signal ended it.
        status: Option<i32>,
    },
    /// Requests of a volume, through its gateway.
    Cluster {
        /// Nodes of the volume.
        nodes: u32,
        /// One request in so many was followed.
        sampled_one_in: u64,
    },
}

/// What lies below.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct System {
    /// Release of the kernel.
    pub kernel: String,
    /// Type of the file system, such as `ext4`; absent if it is not known.
    pub filesystem: Option<String>,
    /// Its options that matter here, such as `no journal`.
    pub filesystem_options: Option<String>,
    /// The block device below.
    pub device: Option<String>,
    /// The driver of that device, such as `mmcblk`, `loop`, `virtio_blk`.
    pub driver: Option<String>,
    /// Its I/O scheduler.
    pub scheduler: Option<String>,
}

/// Where knowledge of layers came from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// Such as `block`, `ext4`, `names of files`.
    pub name: String,
    /// The layers that it shows.
    pub layers: Vec<Layer>,
    /// It was used.
    pub is_used: bool,
    /// Why not, or what of it is missing, with the remedy.
    pub why: Option<String>,
}

/// Events that are missing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Losses {
    /// Events that were read.
    pub events: u64,
    /// Events that the kernel dropped because a buffer was full.
    pub lost: u64,
    /// Bytes that could not be decoded.
    pub unreadable_bytes: u64,
    /// Size of the kernel's buffer for each processor.
    pub buffer_bytes: u64,
}

/// Traced against untraced, in turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Overhead {
    /// Operations each second without tracing, one for each pair.
    pub untraced_per_second: Vec<f64>,
    /// Operations each second with tracing.
    pub traced_per_second: Vec<f64>,
    /// Median over the pairs of how much slower the traced one was, in percent; negative if it was faster.
    pub slowdown_percent: f64,
}

impl Overhead {
    /// From pairs of rates in operations per second, without and with tracing; `None` without a pair.
    #[must_use]
    pub fn of_pairs(untraced_per_second: Vec<f64>, traced_per_second: Vec<f64>) -> Option<Overhead> {
        let pairs = untraced_per_second.iter().zip(&traced_per_second);
        let slower: Vec<f64> = pairs.map(|(without, with)| 100.0 * (1.0 - with / without)).collect();
        if slower.is_empty() {
            return None;
        }
        let slowdown_percent = Spread::of(slower).median;
        Some(Overhead { untraced_per_second, traced_per_second, slowdown_percent })
    }
}

/// All operations of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Operations {
    /// What one is: `insert`, `system call`, `read`.
    pub name: String,
    /// How many.
    pub count: u64,
    /// Operations each second, from the first's begin to the last's end.
    pub per_second: f64,
    /// From an operation's begin to its end.
    pub latency_ns: Latency,
    /// The sum of those.
    pub total_ns: u64,
    /// Unattributed part of that sum.
    pub unattributed_ns: u64,
    /// When operations began, in seconds after the first, thinned evenly to at most 4,096.
    pub begins_s: Vec<f64>,
    /// How long those took.
    pub durations_ms: Vec<f64>,
}

/// Layers, from the top down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    /// The program that somebody runs.
    Application,
    /// SQLite inside it.
    Sqlite,
    /// The gateway of a volume.
    Gateway,
    /// Between gateway and node: sockets and the air.
    Link,
    /// The node.
    Node,
    /// The node's store.
    Store,
    /// System calls.
    SystemCall,
    /// The file system, with its journal's thread.
    FileSystem,
    /// The page cache: pages added, fetched, written back.
    PageCache,
    /// The block layer: from a bio's queueing until the command's issue.
    Block,
    /// The driver and the device: from a command's issue to its completion.
    Driver,
    /// Ready to run and waiting for a processor.
    Processor,
}

impl Layer {
    /// All layers, from the top down.
    pub const ALL: [Layer; 12] = [
        Layer::Application,
        Layer::Sqlite,
        Layer::Gateway,
        Layer::Link,
        Layer::Node,
        Layer::Store,
        Layer::SystemCall,
        Layer::FileSystem,
        Layer::PageCache,
        Layer::Block,
        Layer::Driver,
        Layer::Processor,
    ];

    /// Its name in texts.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Layer::Application => "application",
            Layer::Sqlite => "SQLite",
            Layer::Gateway => "gateway",
            Layer::Link => "link",
            Layer::Node => "node",
            Layer::Store => "store",
            Layer::SystemCall => "system call",
            Layer::FileSystem => "file system",
            Layer::PageCache => "page cache",
            Layer::Block => "block",
            Layer::Driver => "driver",
            Layer::Processor => "processor",
        }
    }
}

/// What one layer did for all operations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct LayerTotal {
    /// The layer.
    pub layer: Layer,
    /// Its spans, those of no operation included.
    pub spans: u64,
    /// Bytes that those moved.
    pub bytes: u64,
    /// Operations' time that belongs to it: the lowest layer at work.
    pub time_ns: u64,
    /// Operations' time in which it had a span at all, lower layers' included.
    pub inclusive_ns: u64,
    /// Spans of no operation: work of others, or of unknown origin.
    pub unowned_spans: u64,
}

/// From the end of a layer's last span to the begin of the next one's, within an operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Handover {
    /// The layer that hands over.
    pub from: Layer,
    /// The layer that takes over.
    pub to: Layer,
    /// How often.
    pub count: u64,
    /// The sum of the times.
    pub total_ns: u64,
    /// The longest.
    pub longest_ns: u64,
}

/// What was done to one file, or to files of one role: one row for each layer and kind of work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct FileTotal {
    /// What it is.
    pub role: Role,
    /// Its name; of files that come and go under one name, that name.
    pub file: String,
    /// The layer.
    pub layer: Layer,
    /// What was done: the spans' name, such as `pwrite64`.
    pub work: String,
    /// How often.
    pub count: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// The spans' time, from begin to end.
    pub time_ns: u64,
}

/// What a file is to the workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The database.
    Database,
    /// SQLite's rollback journal.
    Journal,
    /// SQLite's write-ahead log.
    Wal,
    /// Shared memory beside it.
    SharedMemory,
    /// A folder.
    Directory,
    /// A node's extent.
    Extent,
    /// The file system's own journal.
    FilesystemJournal,
    /// The file system's own blocks: inodes, bitmaps.
    Metadata,
    /// Flushes of the device's cache, which have no address.
    Flush,
    /// Any other file.
    Other,
    /// Unknown.
    Unknown,
}

/// Commands that the driver gave to the device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Commands {
    /// All of them, also those that were thinned out.
    pub count: u64,
    /// Those whose address lay above the end of the one issued before, or at it.
    pub forward: Option<Steps>,
    /// Those whose address lay below.
    pub backward: Option<Steps>,
    /// Thinned evenly to at most 4,096.
    pub list: Vec<Command>,
}

/// Commands with a step in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Steps {
    /// How many.
    pub count: u64,
    /// Median of their service times.
    pub p50_us: f64,
    /// Mean of their service times.
    pub mean_us: f64,
}

/// One command.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Command {
    /// Its issue, in seconds after the first's.
    pub begin_s: f64,
    /// Reads or writes.
    pub direction: Direction,
    /// Where it begins.
    pub address_bytes: u64,
    /// How long it is.
    pub bytes: u64,
    /// From the end of the command issued before to its begin; absent for the first.
    pub step_bytes: Option<i64>,
    /// From issue to completion.
    pub service_us: f64,
    /// Commands that were with the device when it was issued, itself included.
    pub outstanding: u32,
}

/// Where the time from one operation's begin to the next one's lies: before or after the operation's last write to the database has returned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct AfterLastWrite {
    /// Runs whose sums these are: 1, or more where rounds were merged.
    #[serde(default = "one")]
    pub rounds: u64,
    /// Operations that it is about: those with such a write, and with another operation right after them.
    pub operations: u64,
    /// The sum of their times from the begin until the last write to the database had returned.
    pub before_ns: u64,
    /// The part of it from the begin of the first write to the journal to the begin of the last one; 0 where there are not two.
    #[serde(default)]
    pub journal_ns: u64,
    /// The sum of the times from then to the next operation's begin.
    pub after_ns: u64,
    /// Commands that the driver issued in the first; absent if none could be seen.
    pub commands_before: Option<u64>,
    /// Commands that it issued in the second.
    pub commands_after: Option<u64>,
}

fn one() -> u64 {
    1
}

impl AfterLastWrite {
    /// Those of two runs; commands only if both saw them.
    #[must_use]
    pub fn and(self, other: AfterLastWrite) -> AfterLastWrite {
        let both = |a: Option<u64>, b: Option<u64>| Some(a?.saturating_add(b?));
        AfterLastWrite {
            rounds: self.rounds.saturating_add(other.rounds),
            operations: self.operations.saturating_add(other.operations),
            before_ns: self.before_ns.saturating_add(other.before_ns),
            journal_ns: self.journal_ns.saturating_add(other.journal_ns),
            after_ns: self.after_ns.saturating_add(other.after_ns),
            commands_before: both(self.commands_before, other.commands_before),
            commands_after: both(self.commands_after, other.commands_after),
        }
    }
}

/// Operations in full.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Timeline {
    /// What spans are called: [`Span::name`] is an index.
    pub names: Vec<String>,
    /// Files: [`Span::file`] is an index.
    pub files: Vec<File>,
    /// Threads: [`Span::thread`] is an index.
    pub threads: Vec<Thread>,
    /// In the order of their begins.
    pub operations: Vec<Operation>,
    /// In the order of their begins; an outer span comes before those within.
    pub spans: Vec<Span>,
}

/// A file that spans are about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct File {
    /// Its path, or what it is called if it has none.
    pub name: String,
    /// What it is to the workload.
    pub role: Role,
}

/// A thread, or a place in the kernel or a device that does work by itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Thread {
    /// Its name, such as `jbd2/loop0-8`.
    pub name: String,
    /// Its number in the kernel; 0 if it is none.
    pub id: u32,
    /// The process or device that it belongs to: `this device`, `node 3`.
    pub place: String,
    /// How far that place's clock may be off after it was related to the tracing one's; absent if it is the same clock.
    pub clock_error_ns: Option<u64>,
}

/// One operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Operation {
    /// Its number in the run, from 0.
    pub number: u64,
    /// What it is, an index of [`Timeline::names`].
    pub name: u32,
    /// The thread that waits for it.
    pub thread: u32,
    /// When it began.
    pub begin_ns: u64,
    /// When it ended.
    pub end_ns: u64,
    /// Its time by layers: what belongs to each. Layers with none are left out.
    pub layers_ns: Vec<(Layer, u64)>,
    /// Unattributed time. All layers and this add up to the time from begin to end.
    pub unattributed_ns: u64,
}

/// Something that a layer did.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Span {
    /// The layer.
    pub layer: Layer,
    /// What it did, an index of [`Timeline::names`].
    pub name: u32,
    /// Thread that did it, an index of [`Timeline::threads`].
    pub thread: u32,
    /// Begin.
    pub begin_ns: u64,
    /// End; the begin if it is a moment.
    pub end_ns: u64,
    /// The file, an index of [`Timeline::files`].
    pub file: Option<u32>,
    /// Where: an offset in the file for layers above block, a byte of the device from block on.
    pub address_bytes: Option<u64>,
    /// Bytes moved.
    pub bytes: u64,
    /// Number of the operation that it was done for; absent if unknown or none.
    pub operation: Option<u64>,
    /// How the operation is known.
    pub cause: Cause,
}

/// How it is known for which operation a span was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The operation's own thread did it.
    Direct,
    /// Another did it, and the operation's thread waited for that: its request, its file or its transaction.
    Waited,
    /// The operation is unknown; it is shown as such and never guessed.
    Unknown,
}

impl Timeline {
    /// Checks that all indices are valid and nothing ends before it begins.
    ///
    /// # Errors
    /// The violation.
    pub fn check(&self) -> Result<(), String> {
        let has = |index: u32, of: usize| (index as usize) < of;
        for operation in &self.operations {
            if !has(operation.name, self.names.len()) || !has(operation.thread, self.threads.len()) {
                return Err(format!("has no name or thread for operation {}", operation.number));
            }
            if operation.end_ns < operation.begin_ns {
                return Err(format!("has operation {} end before it begins", operation.number));
            }
        }
        for (at, span) in self.spans.iter().enumerate() {
            let has_file = span.file.is_none_or(|file| has(file, self.files.len()));
            if !has(span.name, self.names.len()) || !has(span.thread, self.threads.len()) || !has_file {
                return Err(format!("has no name, thread or file for span {}", at + 1));
            }
            if span.end_ns < span.begin_ns {
                return Err(format!("has span {} end before it begins", at + 1));
            }
        }
        Ok(())
    }

    /// The name of a span.
    #[must_use]
    pub fn name(&self, index: u32) -> &str {
        self.names.get(index as usize).map_or("", String::as_str)
    }
}
