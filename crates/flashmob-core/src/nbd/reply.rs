//! The bytes of replies in the transmission phase.
//!
//! Reads have the form that was agreed on, simple or structured. Success of other commands is always told by a
//! simple reply, which both forms allow and which is shortest; errors under structured replies come as an error
//! chunk, because that carries a text for the user. Nothing here may allocate but through the [`OutQueue`].

use super::protocol::*;
use crate::buffers::OutQueue;
use crate::op::Failure;

/// A simple reply.
#[must_use]
pub fn simple(errno: u32, cookie: u64) -> [u8; SIMPLE_REPLY_BYTES] {
    let mut bytes = [0; SIMPLE_REPLY_BYTES];
    bytes[0..4].copy_from_slice(&SIMPLE_REPLY_MAGIC.to_be_bytes());
    bytes[4..8].copy_from_slice(&errno.to_be_bytes());
    bytes[8..16].copy_from_slice(&cookie.to_be_bytes());
    bytes
}

/// The header of a reply's only chunk.
#[must_use]
pub fn chunk(kind: u16, cookie: u64, payload_len_bytes: u32) -> [u8; CHUNK_HEADER_BYTES] {
    let mut bytes = [0; CHUNK_HEADER_BYTES];
    bytes[0..4].copy_from_slice(&STRUCTURED_REPLY_MAGIC.to_be_bytes());
    bytes[4..6].copy_from_slice(&REPLY_FLAG_DONE.to_be_bytes());
    bytes[6..8].copy_from_slice(&kind.to_be_bytes());
    bytes[8..16].copy_from_slice(&cookie.to_be_bytes());
    bytes[16..20].copy_from_slice(&payload_len_bytes.to_be_bytes());
    bytes
}

/// The most bytes that [`read_header`] gives.
pub const READ_HEADER_BYTES_MAX: usize = CHUNK_HEADER_BYTES + 8;

/// What precedes the `len_bytes` of data that answer a read, and how many bytes of it count.
#[must_use]
pub fn read_header(
    structured: bool,
    cookie: u64,
    offset_bytes: u64,
    len_bytes: u32,
) -> ([u8; READ_HEADER_BYTES_MAX], usize) {
    let mut header = [0; READ_HEADER_BYTES_MAX];
    if structured {
        // Cannot overflow: a read has at most 32 MiB.
        let chunk = chunk(REPLY_TYPE_OFFSET_DATA, cookie, len_bytes.saturating_add(8));
        header[..CHUNK_HEADER_BYTES].copy_from_slice(&chunk);
        header[CHUNK_HEADER_BYTES..].copy_from_slice(&offset_bytes.to_be_bytes());
        (header, READ_HEADER_BYTES_MAX)
    } else {
        header[..SIMPLE_REPLY_BYTES].copy_from_slice(&simple(0, cookie));
        (header, SIMPLE_REPLY_BYTES)
    }
}

/// Appends the answer to a request that failed with `errno`. `text` is for the user; a simple reply has no
/// room for it.
pub fn error(out: &mut OutQueue, structured: bool, cookie: u64, errno: u32, text: &str) {
    if !structured {
        out.push_bytes(&simple(errno, cookie));
        return;
    }
    let text = clip(text);
    let payload = 6 + text.len();
    out.append(|to| {
        to.extend_from_slice(&chunk(REPLY_TYPE_ERROR, cookie, payload as u32));
        to.extend_from_slice(&errno.to_be_bytes());
        to.extend_from_slice(&(text.len() as u16).to_be_bytes());
        to.extend_from_slice(text.as_bytes());
    });
}

/// As much of `text` as a string of the protocol may have.
pub(super) fn clip(text: &str) -> &str {
    &text[..text.floor_char_boundary(STRING_BYTES_MAX)]
}

/// The error value for a failure. `is_read` says whether it answers a read, `structured` how.
///
/// The document wants ENOTSUP for fast zeroing only and EOVERFLOW for structured reads only; elsewhere both
/// become EINVAL.
#[must_use]
pub fn errno(failure: Failure, is_read: bool, structured: bool) -> u32 {
    match failure {
        Failure::Io => EIO,
        Failure::NoSpace => ENOSPC,
        Failure::NotPermitted => EPERM,
        Failure::NoMemory => ENOMEM,
        Failure::ShuttingDown => ESHUTDOWN,
        Failure::TooLarge if is_read && structured => EOVERFLOW,
        Failure::TooLarge | Failure::Invalid | Failure::NotSupported => EINVAL,
    }
}
