//! A client's request.

use crate::op::{Op, OpFlags};

/// The most bytes that one read or write may have: 32 MiB, what NBD clients may assume.
pub const REQUEST_BYTES_MAX: u32 = 32 << 20;

/// One request of a client, decoded but not yet checked against the volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The client's name for it, returned in the reply.
    pub cookie: u64,
    /// The operation.
    pub op: Op,
    /// Modifiers.
    pub flags: OpFlags,
    /// First byte of the volume.
    pub offset_bytes: u64,
    /// Length in bytes: up to [`REQUEST_BYTES_MAX`] for reads and writes, `u32::MAX` for others.
    pub len_bytes: u32,
    /// The `len_bytes` to write; empty for other operations.
    pub payload: Vec<u8>,
}
