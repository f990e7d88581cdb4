//! The kernel's side: instances of tracefs, read raw, that end with the process.
//!
//! ```text
//! Wanted ─▶ Session::open ─▶ start ─ reader: whole pages, rarely ─▶ stop ─▶ Capture ─▶ records
//!              │ what is missing: Session::sources
//!              ├─ tracefs     where it is, or a mount of its own that nobody sees
//!              ├─ instance    `…-threads` for the wanted threads' events, `…-devices` for the wanted devices'
//!              ├─ owner       whose instances those are: what a dead process left is removed
//!              └─ guardian    removes them when this process is killed
//! ```
//!
//! It never fails for want of rights or of events: what cannot be had is named in [`Session::sources`] with its remedy, and the rest works. It
//! leaves nothing in the kernel, and holds no more memory than [`Wanted::memory_bytes`]; what does not fit is counted as lost.

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
    /// Threads and processes whose events count, for events with [`Scope::Threads`]. With [`Wanted::follow_children`] a process means all threads
    /// that it has.
    pub threads: Vec<u32>,
    /// Their children too, from their begin on. With this, threads may also be named by [`Session::follow`] before the start: a command that is yet
    /// to be made is told the session's marker.
    pub follow_children: bool,
    /// Devices whose events count, for events with [`Scope::Devices`]: `major << 20 | minor`. Empty: all.
    pub devices: Vec<u32>,
    /// Bytes of the kernel's buffer for each processor; 0 for the default.
    pub buffer_bytes: u64,
    /// Names of files as system calls get them, through a small eBPF program.
    pub names: bool,
    /// Shared libraries or programs with SQLite in them, whose functions are to be probed.
    pub sqlite: Vec<std::path::PathBuf>,
    /// Bytes that may be captured in all; what comes later is counted as lost. 0 for the default: 1 GiB, and at most half of what memory is free.
    pub memory_bytes: u64,
}

/// One event to capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// `block`.
    pub system: String,
    /// `block_rq_issue`.
    pub name: String,
    /// Whose.
    pub scope: Scope,
    /// A filter of its own in the kernel's words, besides.
    pub filter: Option<String>,
}

/// Whose events count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Those of the wanted threads.
    Threads,
    /// Those of the wanted devices, kernel threads included. The event's field with the device is `dev` or `s_dev`.
    #[default]
    Devices,
    /// Everybody's.
    All,
}
