//! The kernel's side: instances of tracefs, read raw, that end with the process.
//!
//! ```text
//! Wanted ─▶ Session::open ─▶ start ─ reader: whole pages, rarely ─▶ stop ─▶ Capture ─▶ records
//!              │ what is missing: Session::sources
//!              ├─ tracefs     the mounted tracefs, or a private mount of it
//!              ├─ instance    `…-threads` for events of the traced threads, `…-devices` for events of the traced devices
//!              ├─ owner       names instances after their process; removes those of processes that have exited
//!              └─ guardian    removes them when this process is killed
//! ```
//!
//! Missing permissions or events are not errors: [`Session::sources`] lists each missing source with its remedy, and the others are captured. A
//! session leaves nothing in the kernel, and holds at most [`Wanted::memory_bytes`]; events beyond that are counted as lost.

mod captured;
mod error;
mod guardian;
mod instance;
mod limits;
pub mod names;
mod owner;
mod reader;
mod recording;
mod session;
mod sources;
pub mod sqlite;
#[cfg(test)]
mod tests;
mod tracefs;
mod tracing;

pub use captured::Capture;
pub use error::CaptureError;
pub use recording::RecordingError;
pub use session::Session;

/// The wanted events of a capture.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Events as `system:name`. [`Session::sources`] names those that the kernel lacks.
    pub events: Vec<Event>,
    /// Threads and processes to trace, for events with [`Scope::Threads`]. With [`Wanted::follow_children`] a process id includes all its threads.
    pub threads: Vec<u32>,
    /// Also trace children, from their creation. Threads can then also be added by [`Session::follow`] before the start, such as a command that
    /// needs the path of the session's marker when it is spawned.
    pub follow_children: bool,
    /// Devices to trace, for events with [`Scope::Devices`]: `major << 20 | minor`. Empty: all.
    pub devices: Vec<u32>,
    /// Bytes of the kernel's buffer for each processor; 0 for the default.
    pub buffer_bytes: u64,
    /// Capture the file names passed to system calls, with a small eBPF program.
    pub names: bool,
    /// Shared libraries or programs that contain SQLite; its functions are probed.
    pub sqlite: Vec<std::path::PathBuf>,
    /// Maximum bytes captured; later events are counted as lost. 0 for the default: 1 GiB, but at most half of the free memory.
    pub memory_bytes: u64,
}

/// One event to capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// `block`.
    pub system: String,
    /// `block_rq_issue`.
    pub name: String,
    /// Threads or devices that it is captured for.
    pub scope: Scope,
    /// An additional filter, in the kernel's filter syntax.
    pub filter: Option<String>,
}

/// Threads or devices whose events are captured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// [`Wanted::threads`].
    Threads,
    /// [`Wanted::devices`], from any thread, including kernel threads. The event's device field is `dev` or `s_dev`.
    #[default]
    Devices,
    /// All threads and devices.
    All,
}
