//! The batch protocol between a gateway and a node: frames and their contents.
//!
//! docs/wire-protocol.md has the byte tables. All integers are little-endian. A frame is a fixed header, `meta` (requests or answers)
//! and `payload` (bytes of the volume); the header's checksum covers header and meta, the payload has its own. Decoding never
//! allocates more than its limits and never panics, whatever the bytes.

pub mod batch;
pub mod condition;
pub mod digest;
pub mod frame;
pub mod generation;
pub mod hello;
pub mod map;
pub mod mirror;
pub mod replies;
pub mod service;
pub mod trace;

pub use frame::{Decoded, Frame, FrameKind, WireError, decode_frame};

/// First two bytes of every frame: "FM".
pub const MAGIC: u16 = u16::from_le_bytes(*b"FM");
/// Version of the protocol. A peer with another version is refused; the error names both.
pub const VERSION: u8 = 1;
/// Bytes of a frame's header.
pub const HEADER_BYTES: usize = 20;
/// Most bytes of a frame's meta: room for [`BATCH_PIECES_MAX`] groups of one piece each.
pub const META_BYTES_MAX: usize = 128 * 1024;
/// Most bytes of a frame's payload.
pub const PAYLOAD_BYTES_MAX: usize = 1 << 20;
/// Most pieces in one batch.
pub const BATCH_PIECES_MAX: usize = 4096;
/// Most bytes of one piece of a read or write. Larger requests are cut, so that one of them neither fills a frame nor delays the
/// frames behind it for long.
pub const PIECE_BYTES_MAX: u32 = 256 * 1024;

const _: () = assert!(PIECE_BYTES_MAX as usize <= PAYLOAD_BYTES_MAX);
const _: () = assert!(BATCH_PIECES_MAX * batch::GROUP_HEADER_BYTES + batch::BATCH_HEADER_BYTES <= META_BYTES_MAX);
const _: () = assert!(trace::TIMES_MAX * trace::TIMES_BYTES + 2 <= META_BYTES_MAX);
