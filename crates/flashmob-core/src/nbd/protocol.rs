//! The numbers of the NBD protocol, for both of its ends.
//!
//! Source: "The NBD protocol", doc/proto.md of github.com/NetworkBlockDevice/nbd. Names are that document's
//! without the leading `NBD_`. All integers on the wire are big-endian. This file holds facts of that document only,
//! those that an end here uses; how this server applies them is in the other files.

/// First eight bytes of a server's greeting: "NBDMAGIC".
pub const GREETING_MAGIC: u64 = 0x4e42_444d_4147_4943;
/// Second eight bytes of a newstyle greeting, and the first eight of every option: "IHAVEOPT".
pub const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// First eight bytes of every reply to an option.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// First four bytes of a request.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// First four bytes of a simple reply.
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// First four bytes of a chunk of a structured reply.
pub const STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;

/// A greeting: two magics and 16 bits of handshake flags.
pub const GREETING_BYTES: usize = 18;
/// The client's answer to the greeting: 32 bits of client flags.
pub const CLIENT_FLAGS_BYTES: usize = 4;
/// An option's header: magic, option (32 bits), length of its data (32 bits).
pub const OPTION_HEADER_BYTES: usize = 16;
/// Header of a reply to an option: magic, option, reply type, length of its data (32 bits each but the magic).
pub const OPTION_REPLY_HEADER_BYTES: usize = 20;
/// Zeros that end the answer to `OPT_EXPORT_NAME`, unless both sides agreed to leave them out.
pub const EXPORT_NAME_ZEROES_BYTES: usize = 124;
/// A request's header: magic (32 bits), flags, type (16 each), cookie, offset (64 each), length (32).
pub const REQUEST_HEADER_BYTES: usize = 28;
/// A simple reply: magic, error (32 bits each), cookie (64 bits).
pub const SIMPLE_REPLY_BYTES: usize = 16;
/// Header of a chunk: magic (32 bits), flags, type (16 each), cookie (64), length of the payload (32).
pub const CHUNK_HEADER_BYTES: usize = 20;
/// The most bytes that a string (an export's name, a message) may have.
pub const STRING_BYTES_MAX: usize = 4096;

/// Handshake flag: the server speaks fixed newstyle.
pub const FLAG_FIXED_NEWSTYLE: u16 = 1 << 0;
/// Handshake flag: the server can leave out the zeros that end the answer to `OPT_EXPORT_NAME`.
pub const FLAG_NO_ZEROES: u16 = 1 << 1;

/// Client flag: the client speaks fixed newstyle.
pub const FLAG_C_FIXED_NEWSTYLE: u32 = 1 << 0;
/// Client flag: the client does not want those zeros.
pub const FLAG_C_NO_ZEROES: u32 = 1 << 1;

/// Transmission flag: always set.
pub const FLAG_HAS_FLAGS: u16 = 1 << 0;
/// Transmission flag: writes will be refused.
pub const FLAG_READ_ONLY: u16 = 1 << 1;
/// Transmission flag: `CMD_FLUSH` is understood.
pub const FLAG_SEND_FLUSH: u16 = 1 << 2;
/// Transmission flag: `CMD_FLAG_FUA` is understood, on every command.
pub const FLAG_SEND_FUA: u16 = 1 << 3;
/// Transmission flag: `CMD_TRIM` is understood.
pub const FLAG_SEND_TRIM: u16 = 1 << 5;
/// Transmission flag: `CMD_WRITE_ZEROES` and `CMD_FLAG_NO_HOLE` are understood.
pub const FLAG_SEND_WRITE_ZEROES: u16 = 1 << 6;
/// Transmission flag: `CMD_FLAG_DF` is understood; only with structured replies.
pub const FLAG_SEND_DF: u16 = 1 << 7;
/// Transmission flag: a flush on one connection covers what was acknowledged on others of the same export.
pub const FLAG_CAN_MULTI_CONN: u16 = 1 << 8;

/// Option: choose an export and begin transmission; cannot be refused but by closing.
pub const OPT_EXPORT_NAME: u32 = 1;
/// Option: end the session.
pub const OPT_ABORT: u32 = 2;
/// Option: name the exports.
pub const OPT_LIST: u32 = 3;
/// Option: withdrawn.
pub const OPT_PEEK_EXPORT: u32 = 4;
/// Option: go on under TLS.
pub const OPT_STARTTLS: u32 = 5;
/// Option: describe an export.
pub const OPT_INFO: u32 = 6;
/// Option: describe an export and begin transmission.
pub const OPT_GO: u32 = 7;
/// Option: use structured replies.
pub const OPT_STRUCTURED_REPLY: u32 = 8;
/// Option: name the metadata contexts.
pub const OPT_LIST_META_CONTEXT: u32 = 9;
/// Option: choose metadata contexts.
pub const OPT_SET_META_CONTEXT: u32 = 10;
/// Option: use the experimental extended headers.
pub const OPT_EXTENDED_HEADERS: u32 = 11;

/// Reply to an option: done.
pub const REP_ACK: u32 = 1;
/// Reply to an option: the name of one export.
pub const REP_SERVER: u32 = 2;
/// Reply to an option: one piece of information on an export, of an `INFO_` type.
pub const REP_INFO: u32 = 3;
/// Reply to an option: the number (32 bits) and name of one metadata context.
pub const REP_META_CONTEXT: u32 = 4;
/// Set in all replies that are errors; the data is then a message for a human being.
pub const REP_FLAG_ERROR: u32 = 1 << 31;
/// Error reply to an option: not known here.
pub const REP_ERR_UNSUP: u32 = REP_FLAG_ERROR + 1;
/// Error reply to an option: its data or the moment is wrong.
pub const REP_ERR_INVALID: u32 = REP_FLAG_ERROR + 3;
/// The server answers this option only inside TLS.
pub const REP_ERR_TLS_REQD: u32 = REP_FLAG_ERROR + 5;
/// Error reply to an option: the export is not available.
pub const REP_ERR_UNKNOWN: u32 = REP_FLAG_ERROR + 6;
/// Error reply to an option: the request or its reply is too large.
pub const REP_ERR_TOO_BIG: u32 = REP_FLAG_ERROR + 9;

/// Information: size (64 bits) and transmission flags (16 bits).
pub const INFO_EXPORT: u16 = 0;
/// Information: the canonical name.
pub const INFO_NAME: u16 = 1;
/// Information: a description for a human being.
pub const INFO_DESCRIPTION: u16 = 2;
/// Information: minimum and preferred block size, maximum payload (32 bits each, in bytes).
pub const INFO_BLOCK_SIZE: u16 = 3;

/// Command: read.
pub const CMD_READ: u16 = 0;
/// Command: write; the only one whose request has a payload.
pub const CMD_WRITE: u16 = 1;
/// Command: end the session; has no reply.
pub const CMD_DISC: u16 = 2;
/// Command: everything answered so far to permanent storage.
pub const CMD_FLUSH: u16 = 3;
/// Command: the bytes are no longer needed.
pub const CMD_TRIM: u16 = 4;
/// Command: the bytes will be read soon.
pub const CMD_CACHE: u16 = 5;
/// Command: write zeros without sending them.
pub const CMD_WRITE_ZEROES: u16 = 6;
/// Command: which bytes are allocated.
pub const CMD_BLOCK_STATUS: u16 = 7;
/// Command: the experimental resize.
pub const CMD_RESIZE: u16 = 8;

/// Command flag: permanent before the reply.
pub const CMD_FLAG_FUA: u16 = 1 << 0;
/// Command flag of `CMD_WRITE_ZEROES`: keep the space allocated.
pub const CMD_FLAG_NO_HOLE: u16 = 1 << 1;
/// Command flag of `CMD_READ`: one content chunk at most.
pub const CMD_FLAG_DF: u16 = 1 << 2;
/// Command flag of `CMD_BLOCK_STATUS`: one extent only.
pub const CMD_FLAG_REQ_ONE: u16 = 1 << 3;
/// Command flag of `CMD_WRITE_ZEROES`: fail rather than be as slow as a write.
pub const CMD_FLAG_FAST_ZERO: u16 = 1 << 4;

/// Chunk flag: the last chunk of its reply.
pub const REPLY_FLAG_DONE: u16 = 1 << 0;

/// Chunk: no payload; the last one of a reply.
pub const REPLY_TYPE_NONE: u16 = 0;
/// Chunk: offset (64 bits), then data.
pub const REPLY_TYPE_OFFSET_DATA: u16 = 1;
/// Chunk: offset (64 bits) and length (32 bits) of a hole.
pub const REPLY_TYPE_OFFSET_HOLE: u16 = 2;
/// Chunk: the number of a metadata context (32 bits), then extents: length and status (32 bits each).
pub const REPLY_TYPE_BLOCK_STATUS: u16 = 5;
/// Set in the types of all chunks that are errors.
pub const REPLY_TYPE_FLAG_ERROR: u16 = 1 << 15;
/// Chunk: error (32 bits), length of a message (16 bits), the message.
pub const REPLY_TYPE_ERROR: u16 = REPLY_TYPE_FLAG_ERROR + 1;

/// The metadata context that tells which bytes are allocated, and which read as zeros.
pub const CONTEXT_ALLOCATION: &str = "base:allocation";
/// Status in that context: not allocated.
pub const STATE_HOLE: u32 = 1 << 0;
/// Status in that context: reads as zeros.
pub const STATE_ZERO: u32 = 1 << 1;

/// Error: not permitted; a write to a read-only export.
pub const EPERM: u32 = 1;
/// Error: input/output.
pub const EIO: u32 = 5;
/// Error: out of memory.
pub const ENOMEM: u32 = 12;
/// Error: the request makes no sense.
pub const EINVAL: u32 = 22;
/// Error: no space; also a write beyond the end.
pub const ENOSPC: u32 = 28;
/// Error: too large to send in one piece.
pub const EOVERFLOW: u32 = 75;
/// Error: not supported; only for `CMD_FLAG_FAST_ZERO`.
pub const ENOTSUP: u32 = 95;
/// Error: the server is shutting down.
pub const ESHUTDOWN: u32 = 108;
