//! Encoding of replies in the transmission phase.
//!
//! Replies to reads are simple or structured, as agreed. Success of other commands is always a simple reply, which both forms allow and
//! which is shortest; errors under structured replies are error chunks, which carry a text. Only the [`OutQueue`] allocates.

use super::protocol::*;
use crate::buffers::OutQueue;
use crate::op::Failure;

/// This server's number of `base:allocation`.
pub const ALLOCATION_ID: u32 = 1;

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

/// Most bytes of [`read_header`].
pub const READ_HEADER_BYTES_MAX: usize = CHUNK_HEADER_BYTES + 8;

/// The header before the `len_bytes` of data of a read's reply, and its length.
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

/// Appends the reply to `CMD_BLOCK_STATUS`: lengths, and whether each is a hole.
pub fn block_status(out: &mut OutQueue, cookie: u64, runs: &[(u32, bool)]) {
    out.append(|to| {
        to.extend_from_slice(&chunk(REPLY_TYPE_BLOCK_STATUS, cookie, 4 + 8 * runs.len() as u32));
        to.extend_from_slice(&ALLOCATION_ID.to_be_bytes());
        for &(len_bytes, is_hole) in runs {
            to.extend_from_slice(&len_bytes.to_be_bytes());
            to.extend_from_slice(&(if is_hole { STATE_HOLE | STATE_ZERO } else { 0 }).to_be_bytes());
        }
    });
}

/// Appends the reply to a request that failed with `errno`. A simple reply has no room for `text`.
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

/// `text`, cut to the length limit of strings.
pub(super) fn clip(text: &str) -> &str {
    &text[..text.floor_char_boundary(STRING_BYTES_MAX)]
}

/// The error value of a failure; `is_read` and `structured` describe the reply.
///
/// The document allows ENOTSUP for fast zeroing only and EOVERFLOW for structured reads only; otherwise both become EINVAL.
#[must_use]
pub fn errno(failure: Failure, is_read: bool, structured: bool) -> u32 {
    match failure {
        Failure::Io | Failure::Corrupt => EIO,
        Failure::NoSpace => ENOSPC,
        Failure::NotPermitted => EPERM,
        Failure::NoMemory => ENOMEM,
        Failure::ShuttingDown => ESHUTDOWN,
        Failure::TooLarge if is_read && structured => EOVERFLOW,
        Failure::TooLarge | Failure::Invalid | Failure::NotSupported => EINVAL,
    }
}
