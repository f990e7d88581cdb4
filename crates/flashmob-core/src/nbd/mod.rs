//! The NBD protocol without a socket: the server's side, and a part of the client's.
//!
//! [`Session`] is one client's connection. It takes received bytes from an [`RxBuf`](crate::buffers::RxBuf), returns [`Event`]s, and
//! queues bytes to send in its [`OutQueue`](crate::buffers::OutQueue). [`client`] is the other end. Whatever a peer sends, nothing here
//! panics, waits, or takes memory beyond the limits.

pub mod client;
mod fields;
mod handshake;
mod options;
pub mod protocol;
pub mod reply;
pub mod request;
mod session;
#[cfg(test)]
mod tests;

pub use handshake::{OPTION_BYTES_MAX, OPTION_DISCARD_BYTES_MAX, OPTIONS_MAX};
pub use session::{
    Event, MAP_COST_BYTES, MAP_EXTENTS_MAX, MAP_NODES_MAX, REQUEST_COST_BYTES, Session, SessionError, UNREAD_BYTES_MAX,
};

/// The minimum block size, in bytes.
pub const BLOCK_BYTES_MIN: u32 = 1;
/// The preferred block size, in bytes: a page of the nodes' caches.
pub const BLOCK_BYTES_PREFERRED: u32 = 4096;

/// The description of an export for clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportInfo {
    /// Its name; at most 4,096 bytes are sent.
    pub name: String,
    /// A description, empty for none; at most 4,096 bytes are sent.
    pub description: String,
    /// Its size.
    pub size_bytes: u64,
    /// Whether writes are refused.
    pub read_only: bool,
}

/// Why an export cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FindError {
    /// There is no export of this name.
    #[error("there is no export of that name")]
    Unknown,
    /// The export cannot be used now. The text, such as "waiting for node b", goes to the client.
    #[error("{0}")]
    NotReady(String),
}

/// The exports of a server. The implementor decides which is the default export, whose name is "".
pub trait Exports {
    /// The names of all exports, for a client that asks for a list.
    fn names(&self) -> Vec<String>;
    /// The export of that name, and its index for [`Event::Opened`].
    fn find(&self, name: &str) -> Result<(usize, ExportInfo), FindError>;
}
