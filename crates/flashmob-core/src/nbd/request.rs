//! Request headers: encoding, decoding and checks.
//!
//! [`RequestHeader`] serves both ends. [`check`] decides on the header alone, before memory is taken for the request: it refuses what
//! lies outside the export, exceeds a limit or has an invalid flag. The errors are those of the document ("Error values" in
//! doc/proto.md, and the paragraphs on each command); where it leaves the choice open, a comment states the choice.

use super::fields::Fields;
use super::protocol::*;
use crate::op::{Op, OpFlags};
use crate::request::REQUEST_BYTES_MAX;

/// The header of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestHeader {
    /// `CMD_FLAG_` bits.
    pub flags: u16,
    /// A `CMD_` number.
    pub command: u16,
    /// The client's name for the request.
    pub cookie: u64,
    /// First byte in the export.
    pub offset_bytes: u64,
    /// Length in bytes.
    pub len_bytes: u32,
}

impl RequestHeader {
    /// Decodes the header at the front of `data`; `None` if it is incomplete. The error is the wrong magic number.
    pub fn decode(data: &[u8]) -> Result<Option<RequestHeader>, u32> {
        let Some(header) = data.first_chunk::<REQUEST_HEADER_BYTES>() else { return Ok(None) };
        let mut fields = Fields(header);
        let magic = fields.u32().unwrap_or_default();
        if magic != REQUEST_MAGIC {
            return Err(magic);
        }
        let mut rest = || {
            Some(RequestHeader {
                flags: fields.u16()?,
                command: fields.u16()?,
                cookie: fields.u64()?,
                offset_bytes: fields.u64()?,
                len_bytes: fields.u32()?,
            })
        };
        Ok(rest())
    }

    /// The header's bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; REQUEST_HEADER_BYTES] {
        let mut bytes = [0; REQUEST_HEADER_BYTES];
        bytes[0..4].copy_from_slice(&REQUEST_MAGIC.to_be_bytes());
        bytes[4..6].copy_from_slice(&self.flags.to_be_bytes());
        bytes[6..8].copy_from_slice(&self.command.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.cookie.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.offset_bytes.to_be_bytes());
        bytes[24..28].copy_from_slice(&self.len_bytes.to_be_bytes());
        bytes
    }

    /// Bytes of payload behind the header, even if the request is invalid.
    #[must_use]
    pub fn payload_bytes(&self) -> u32 {
        if self.command == CMD_WRITE { self.len_bytes } else { 0 }
    }
}

/// The terms of an open export, for checking requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The export's size.
    pub size_bytes: u64,
    /// Whether it refuses writes.
    pub read_only: bool,
    /// Whether structured replies were agreed on.
    pub structured: bool,
    /// Whether `base:allocation` was agreed on.
    pub maps: bool,
}

impl Terms {
    /// The transmission flags for these terms.
    #[must_use]
    pub fn transmission_flags(&self) -> u16 {
        let mut flags = FLAG_HAS_FLAGS
            | FLAG_SEND_FLUSH
            | FLAG_SEND_FUA
            | FLAG_SEND_TRIM
            | FLAG_SEND_WRITE_ZEROES
            | FLAG_CAN_MULTI_CONN;
        if self.structured {
            flags |= FLAG_SEND_DF;
        }
        if self.read_only {
            flags |= FLAG_READ_ONLY;
        }
        flags
    }
}

/// Why a request is refused, for the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// One of the document's error values.
    pub errno: u32,
    /// The reason.
    pub text: &'static str,
}

const fn refuse<T>(errno: u32, text: &'static str) -> Result<T, Refusal> {
    Err(Refusal { errno, text })
}

/// Checks a request and returns its operation.
///
/// FUA is allowed on every command and kept on changes. `CMD_DISC` is handled elsewhere: it has no reply, so it cannot be refused.
pub fn check(header: &RequestHeader, terms: &Terms) -> Result<(Op, OpFlags), Refusal> {
    let op = match header.command {
        CMD_READ => Op::Read,
        CMD_WRITE => Op::Write,
        CMD_FLUSH => Op::Flush,
        CMD_TRIM => Op::Trim,
        CMD_WRITE_ZEROES => Op::WriteZeroes,
        CMD_BLOCK_STATUS if terms.maps => Op::Map,
        CMD_CACHE | CMD_BLOCK_STATUS => return refuse(EINVAL, "command was not negotiated"),
        _ => return refuse(EINVAL, "unknown command"),
    };
    if op.mutates() && terms.read_only {
        return refuse(EPERM, "export is read-only");
    }
    check_flags(header.flags, op, terms)?;
    if op != Op::Flush {
        // A flush should have neither offset nor length; they are ignored.
        check_range(header, op, terms)?;
    }
    let mut flags = OpFlags::NONE;
    if header.flags == 0 {
        return Ok((op, flags));
    }
    if op.mutates() && header.flags & CMD_FLAG_FUA != 0 {
        flags = flags.with(OpFlags::FUA);
    }
    if header.flags & CMD_FLAG_NO_HOLE != 0 {
        flags = flags.with(OpFlags::NO_HOLE);
    }
    if header.flags & CMD_FLAG_REQ_ONE != 0 {
        flags = flags.with(OpFlags::ONE_RUN);
    }
    Ok((op, flags))
}

fn check_flags(flags: u16, op: Op, terms: &Terms) -> Result<(), Refusal> {
    let allowed = match op {
        Op::Read if terms.structured => CMD_FLAG_FUA | CMD_FLAG_DF,
        Op::WriteZeroes => CMD_FLAG_FUA | CMD_FLAG_NO_HOLE,
        Op::Map => CMD_FLAG_FUA | CMD_FLAG_REQ_ONE,
        _ => CMD_FLAG_FUA,
    };
    if flags & !allowed == 0 {
        return Ok(());
    }
    if flags & CMD_FLAG_DF != 0 && op == Op::Read {
        return refuse(EINVAL, "the DF flag needs structured replies");
    }
    if flags & CMD_FLAG_FAST_ZERO != 0 && op == Op::WriteZeroes {
        return refuse(EINVAL, "the FAST_ZERO flag was not offered");
    }
    refuse(EINVAL, "flag is unknown or does not belong to this command")
}

fn check_range(header: &RequestHeader, op: Op, terms: &Terms) -> Result<(), Refusal> {
    if header.len_bytes == 0 {
        // The document leaves the effect open; such a request is a bug of the client.
        return refuse(EINVAL, "length is zero");
    }
    if header.len_bytes > REQUEST_BYTES_MAX {
        match op {
            // EOVERFLOW is documented for reads that structured replies could have split.
            Op::Read if terms.structured => return refuse(EOVERFLOW, "read is longer than 32 MiB"),
            Op::Read => return refuse(EINVAL, "read is longer than 32 MiB"),
            Op::Write => return refuse(EINVAL, "write is longer than 32 MiB"),
            // The limit is for payloads; these have none.
            Op::Flush | Op::Trim | Op::WriteZeroes | Op::Map | Op::Digest => {}
        }
    }
    let end = header.offset_bytes.checked_add(u64::from(header.len_bytes));
    if end.is_none_or(|end| end > terms.size_bytes) {
        return match op {
            Op::Write | Op::WriteZeroes => refuse(ENOSPC, "request ends beyond the export"),
            _ => refuse(EINVAL, "request ends beyond the export"),
        };
    }
    Ok(())
}
