//! A client's request, in the form that every kind of client hands to the gateway.

use crate::op::{Op, OpFlags};

/// The most bytes that one read or write may have: 32 MiB, what NBD clients may assume.
pub const REQUEST_BYTES_MAX: u32 = 32 << 20;

/// One request of a client, decoded but not yet checked against the volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// What the client calls it; the reply carries it back.
    pub cookie: u64,
    /// What it asks for.
    pub op: Op,
    /// Modifiers.
    pub flags: OpFlags,
    /// First byte of the volume that it concerns.
    pub offset_bytes: u64,
    /// How many bytes it concerns; up to [`REQUEST_BYTES_MAX`] for reads and writes, `u32::MAX` for others.
    pub len_bytes: u32,
    /// What is to be written: `len_bytes` of it for a write, empty otherwise.
    pub payload: Vec<u8>,
}
