//! Numbers of the NBD protocol that a client needs. Source of all of them: the NBD project's
//! document "The NBD protocol" (doc/proto.md), section "Values". All integers travel big-endian.

/// TCP port that IANA assigned to NBD.
pub const PORT_DEFAULT: u16 = 10809;
/// Longest string, such as an export's name, in bytes.
pub const STRING_BYTES_MAX: usize = 4096;

/// First eight bytes of a server: `NBDMAGIC`.
pub const MAGIC_INIT: u64 = 0x4e42_444d_4147_4943;
/// Second eight bytes of a newstyle server, and first eight of every option: `IHAVEOPT`.
pub const MAGIC_OPTION: u64 = 0x4948_4156_454f_5054;
/// Second eight bytes of an oldstyle server.
pub const MAGIC_OLDSTYLE: u64 = 0x0000_4202_8186_1253;
/// First eight bytes of the reply to an option.
pub const MAGIC_OPTION_REPLY: u64 = 0x0003_e889_0455_65a9;
/// First four bytes of a request.
pub const MAGIC_REQUEST: u32 = 0x2560_9513;
/// First four bytes of a simple reply.
pub const MAGIC_SIMPLE_REPLY: u32 = 0x6744_6698;
/// First four bytes of a chunk of a structured reply.
pub const MAGIC_STRUCTURED_REPLY: u32 = 0x668e_33ef;

/// Handshake flag of both sides: fixed newstyle negotiation.
pub const HANDSHAKE_FIXED_NEWSTYLE: u16 = 1 << 0;
/// Handshake flag of both sides: no padding of zeroes after the export's description.
pub const HANDSHAKE_NO_ZEROES: u16 = 1 << 1;

/// Option: serve structured replies.
pub const OPTION_STRUCTURED_REPLY: u32 = 8;
/// Option: describe an export and begin transmission.
pub const OPTION_GO: u32 = 7;

/// Option reply: done.
pub const OPTION_REPLY_ACK: u32 = 1;
/// Option reply: a piece of information about the export.
pub const OPTION_REPLY_INFO: u32 = 3;
/// Option replies with this bit are errors.
pub const OPTION_REPLY_ERROR: u32 = 1 << 31;

/// Information: size and transmission flags.
pub const INFO_EXPORT: u16 = 0;
/// Information: block sizes.
pub const INFO_BLOCK_SIZE: u16 = 3;

/// Transmission flag: the others mean something.
pub const FLAG_HAS_FLAGS: u16 = 1 << 0;
/// Transmission flag: read-only.
pub const FLAG_READ_ONLY: u16 = 1 << 1;
/// Transmission flag: flush is supported.
pub const FLAG_SEND_FLUSH: u16 = 1 << 2;
/// Transmission flag: FUA is supported.
pub const FLAG_SEND_FUA: u16 = 1 << 3;
/// Transmission flag: trim is supported.
pub const FLAG_SEND_TRIM: u16 = 1 << 5;
/// Transmission flag: write-zeroes is supported.
pub const FLAG_SEND_WRITE_ZEROES: u16 = 1 << 6;
/// Transmission flag: several connections see each other's writes after a flush.
pub const FLAG_CAN_MULTI_CONN: u16 = 1 << 8;

/// Request type: read.
pub const COMMAND_READ: u16 = 0;
/// Request type: write.
pub const COMMAND_WRITE: u16 = 1;
/// Request type: disconnect; it has no reply.
pub const COMMAND_DISCONNECT: u16 = 2;
/// Request type: flush.
pub const COMMAND_FLUSH: u16 = 3;
/// Request type: trim.
pub const COMMAND_TRIM: u16 = 4;
/// Request type: write zeroes.
pub const COMMAND_WRITE_ZEROES: u16 = 6;

/// Request flag: onto the medium before the reply.
pub const COMMAND_FLAG_FUA: u16 = 1 << 0;
/// Request flag of write-zeroes: keep the space allocated.
pub const COMMAND_FLAG_NO_HOLE: u16 = 1 << 1;

/// Chunk flag: the last one of its reply.
pub const CHUNK_FLAG_DONE: u16 = 1 << 0;
/// Chunk: nothing, only the flag.
pub const CHUNK_NONE: u16 = 0;
/// Chunk: an offset and data.
pub const CHUNK_OFFSET_DATA: u16 = 1;
/// Chunk: an offset and a count of zeroes.
pub const CHUNK_OFFSET_HOLE: u16 = 2;
/// Chunks with this bit are errors.
pub const CHUNK_ERROR: u16 = 1 << 15;

/// Bytes of a request's header.
pub const REQUEST_HEADER_BYTES: usize = 28;
/// Bytes of a simple reply's header.
pub const SIMPLE_REPLY_HEADER_BYTES: usize = 16;
/// Bytes of a structured reply's chunk header.
pub const CHUNK_HEADER_BYTES: usize = 20;

/// The header of a request.
#[must_use]
pub fn request_header(flags: u16, command: u16, cookie: u64, offset_bytes: u64, len_bytes: u32) -> [u8; 28] {
    let mut header = [0; REQUEST_HEADER_BYTES];
    header[0..4].copy_from_slice(&MAGIC_REQUEST.to_be_bytes());
    header[4..6].copy_from_slice(&flags.to_be_bytes());
    header[6..8].copy_from_slice(&command.to_be_bytes());
    header[8..16].copy_from_slice(&cookie.to_be_bytes());
    header[16..24].copy_from_slice(&offset_bytes.to_be_bytes());
    header[24..28].copy_from_slice(&len_bytes.to_be_bytes());
    header
}

/// The big-endian number in the two bytes of `bytes` from `at` on. Panics if they are not there: the
/// caller has checked.
#[must_use]
pub fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// As [`be16`], with four bytes.
#[must_use]
pub fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// As [`be16`], with eight bytes.
#[must_use]
pub fn be64(bytes: &[u8], at: usize) -> u64 {
    u64::from(be32(bytes, at)) << 32 | u64::from(be32(bytes, at + 4))
}
