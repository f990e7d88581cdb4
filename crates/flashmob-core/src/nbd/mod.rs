//! The NBD protocol without a socket: the server's side, and the little of a client's side that load needs.
//!
//! [`Session`] is one client's connection. Received bytes go in through an [`RxBuf`](crate::buffers::RxBuf),
//! [`Event`]s come out, and bytes to send gather in its [`OutQueue`](crate::buffers::OutQueue). [`client`] is the
//! other end. Whatever a peer sends, nothing here panics, waits, or takes memory that no limit covers.
//!
//! | file | what is in it |
//! |---|---|
//! | `protocol.rs` | the numbers of the protocol document |
//! | `handshake.rs` | the client's flags and options, until an export is open |
//! | `request.rs` | a request's header, and which requests are refused with which error |
//! | `reply.rs` | the bytes of replies |
//! | `session.rs` | the connection that joins them |
//! | `client.rs` | the client's side |

pub mod client;
mod fields;
mod handshake;
pub mod protocol;
pub mod reply;
pub mod request;
mod session;
#[cfg(test)]
mod tests;

pub use handshake::{OPTION_BYTES_MAX, OPTION_DISCARD_BYTES_MAX, OPTIONS_MAX};
pub use session::{Event, REQUEST_COST_BYTES, Session, SessionError, UNREAD_BYTES_MAX};

/// The block size that every request may have as its unit, in bytes.
pub const BLOCK_BYTES_MIN: u32 = 1;
/// The block size that serves best, in bytes: a page of the nodes' caches.
pub const BLOCK_BYTES_PREFERRED: u32 = 4096;

/// What a client is told about an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportInfo {
    /// Its name; at most 4,096 bytes are sent.
    pub name: String,
    /// What it is, for a human being; empty for nothing. At most 4,096 bytes are sent.
    pub description: String,
    /// Its size.
    pub size_bytes: u64,
    /// Whether writes are refused.
    pub read_only: bool,
}

/// Why an export cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FindError {
    /// There is none of that name.
    #[error("there is no export of that name")]
    Unknown,
    /// There is, but it cannot be used now. The text goes to the client, such as "waiting for node b".
    #[error("{0}")]
    NotReady(String),
}

/// The exports that a server has. What the default export is, whose name is "", the implementor decides.
pub trait Exports {
    /// The names of all exports, for a client that asks for a list.
    fn names(&self) -> Vec<String>;
    /// The export of that name, with the index by which [`Event::Opened`] shall tell of it.
    fn find(&self, name: &str) -> Result<(usize, ExportInfo), FindError>;
}
