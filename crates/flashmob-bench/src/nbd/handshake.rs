//! The handshake: fixed newstyle negotiation with the option GO, over any blocking stream whose reads and writes time out.

use std::io::{self, Read, Write};

use flashmob_core::nbd::protocol as p;
use flashmob_core::request::REQUEST_BYTES_MAX;

use super::{be16, be32, be64};

/// Second eight bytes of an oldstyle server, in place of [`p::OPTION_MAGIC`].
const MAGIC_OLDSTYLE: u64 = 0x0000_4202_8186_1253;

/// Longest reply to an option that is accepted, in bytes: more than any documented one needs.
const OPTION_REPLY_BYTES_MAX: u32 = 16 * 1024;
/// Most replies to one option, so that the handshake ends.
const OPTION_REPLIES_MAX: usize = 64;
/// Largest size of an export: the range of signed 64-bit offsets.
const EXPORT_BYTES_MAX: u64 = i64::MAX as u64;

/// A server's description of its export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// Size in bytes.
    pub size_bytes: u64,
    /// Transmission flags, `flashmob_core::nbd::protocol::FLAG_*`.
    pub flags: u16,
    /// Smallest unit of offset and length, in bytes; a power of two.
    pub block_bytes_min: u32,
    /// The server's preferred unit, in bytes; a power of two.
    pub block_bytes_preferred: u32,
    /// Most bytes in a read or write.
    pub block_bytes_max: u32,
    /// Whether structured replies were agreed.
    pub structured_replies: bool,
}

impl Export {
    /// Whether all transmission flags in `flags` are set.
    #[must_use]
    pub fn has(&self, flags: u16) -> bool {
        self.flags & flags == flags
    }
}

/// Why the handshake failed.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are what the messages show")]
pub enum HandshakeError {
    /// The stream failed; `UnexpectedEof` if the server closed it, `WouldBlock` or `TimedOut` if it was silent.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The server violated the protocol, or speaks another one.
    #[error("{0}")]
    Protocol(String),
    /// The server refused.
    #[error("{reason}")]
    Refused { what: String, reason: String },
}

/// Opens the export `name` of the server at the other end of `stream`.
///
/// With `structured_replies` they are requested; a server without them is not an error, and [`Export::structured_replies`] has the outcome.
pub fn handshake(
    stream: &mut (impl Read + Write),
    name: &str,
    structured_replies: bool,
) -> Result<Export, HandshakeError> {
    greet(stream)?;
    let structured_replies = structured_replies && agree_structured_replies(stream)?;
    go(stream, name, structured_replies)
}

fn bad<T>(reason: impl Into<String>) -> Result<T, HandshakeError> {
    Err(HandshakeError::Protocol(reason.into()))
}

fn greet(stream: &mut (impl Read + Write)) -> Result<(), HandshakeError> {
    let mut greeting = [0; 18];
    stream.read_exact(&mut greeting[..8])?;
    if be64(&greeting, 0) != p::GREETING_MAGIC {
        let shown = String::from_utf8_lossy(&greeting[..8]).escape_debug().to_string();
        return bad(format!("it begins with \"{shown}\", not with \"NBDMAGIC\""));
    }
    stream.read_exact(&mut greeting[8..16])?;
    match be64(&greeting, 8) {
        p::OPTION_MAGIC => {}
        MAGIC_OLDSTYLE => return bad("it uses the oldstyle handshake, which knows no export names"),
        other => {
            return bad(format!("0x{other:016x} follows its greeting in place of \"IHAVEOPT\""));
        }
    }
    stream.read_exact(&mut greeting[16..])?;
    let flags = be16(&greeting, 16);
    if flags & p::FLAG_FIXED_NEWSTYLE == 0 {
        return bad("it does not offer the fixed newstyle handshake");
    }
    let answer = u32::from(flags & (p::FLAG_FIXED_NEWSTYLE | p::FLAG_NO_ZEROES));
    stream.write_all(&answer.to_be_bytes())?;
    Ok(())
}

fn agree_structured_replies(stream: &mut (impl Read + Write)) -> Result<bool, HandshakeError> {
    send_option(stream, p::OPT_STRUCTURED_REPLY, &[])?;
    match read_option_reply(stream, p::OPT_STRUCTURED_REPLY)? {
        OptionReply { kind: p::REP_ACK, .. } => Ok(true),
        reply if reply.kind & p::REP_FLAG_ERROR != 0 => Ok(false),
        reply => Err(unexpected(&reply, "structured replies")),
    }
}

fn go(stream: &mut (impl Read + Write), name: &str, structured_replies: bool) -> Result<Export, HandshakeError> {
    // Length of the name, the name, and one information request: the block sizes.
    let mut data = Vec::with_capacity(name.len() + 8);
    data.extend_from_slice(&(name.len() as u32).to_be_bytes());
    data.extend_from_slice(name.as_bytes());
    data.extend_from_slice(&1u16.to_be_bytes());
    data.extend_from_slice(&p::INFO_BLOCK_SIZE.to_be_bytes());
    send_option(stream, p::OPT_GO, &data)?;

    let mut described = false;
    let mut export = Export {
        size_bytes: 0,
        flags: 0,
        block_bytes_min: 1,
        block_bytes_preferred: 4096,
        block_bytes_max: REQUEST_BYTES_MAX,
        structured_replies,
    };
    for _ in 0..OPTION_REPLIES_MAX {
        let reply = read_option_reply(stream, p::OPT_GO)?;
        match reply.kind {
            p::REP_ACK if described => return Ok(export),
            p::REP_ACK => return bad("it gave the export without saying its size"),
            p::REP_INFO => described |= read_info(&reply.data, &mut export)?,
            kind if kind & p::REP_FLAG_ERROR != 0 => {
                return Err(HandshakeError::Refused { what: format!("the export '{name}'"), reason: refusal(&reply) });
            }
            _ => return Err(unexpected(&reply, "the export")),
        }
    }
    bad(format!("it sent more than {OPTION_REPLIES_MAX} pieces of information about the export"))
}

/// Reads one piece of information into `export`; returns whether it was its size.
fn read_info(data: &[u8], export: &mut Export) -> Result<bool, HandshakeError> {
    let wrong = |what: &str| bad(format!("its {what} ({} bytes)", data.len()));
    if data.len() < 2 {
        return wrong("information about the export has no type");
    }
    match be16(data, 0) {
        p::INFO_EXPORT if data.len() != 12 => wrong("description of the export has the wrong length"),
        p::INFO_EXPORT => {
            let size_bytes = be64(data, 2);
            if size_bytes > EXPORT_BYTES_MAX {
                return wrong("export is larger than 8 EiB");
            }
            let flags = be16(data, 10);
            export.size_bytes = size_bytes;
            export.flags = if flags & p::FLAG_HAS_FLAGS == 0 { 0 } else { flags };
            Ok(true)
        }
        p::INFO_BLOCK_SIZE if data.len() != 14 => wrong("information about block sizes has the wrong length"),
        p::INFO_BLOCK_SIZE => {
            let (min, preferred, max) = (be32(data, 2), be32(data, 6), be32(data, 10));
            if !min.is_power_of_two() || !preferred.is_power_of_two() || preferred < min || max < min {
                return bad(format!(
                    "its block sizes contradict each other: at least {min}, best {preferred}, at most {max} bytes"
                ));
            }
            export.block_bytes_min = min;
            export.block_bytes_preferred = preferred;
            export.block_bytes_max = max;
            Ok(false)
        }
        _ => Ok(false),
    }
}

struct OptionReply {
    kind: u32,
    data: Vec<u8>,
}

fn send_option(stream: &mut impl Write, option: u32, data: &[u8]) -> io::Result<()> {
    let mut message = Vec::with_capacity(16 + data.len());
    message.extend_from_slice(&p::OPTION_MAGIC.to_be_bytes());
    message.extend_from_slice(&option.to_be_bytes());
    message.extend_from_slice(&(data.len() as u32).to_be_bytes());
    message.extend_from_slice(data);
    stream.write_all(&message)
}

fn read_option_reply(stream: &mut impl Read, option: u32) -> Result<OptionReply, HandshakeError> {
    let mut header = [0; 20];
    stream.read_exact(&mut header)?;
    let (magic, about, kind, len) = (be64(&header, 0), be32(&header, 8), be32(&header, 12), be32(&header, 16));
    if magic != p::OPTION_REPLY_MAGIC {
        return bad(format!("its reply to option {option} begins with 0x{magic:016x}"));
    }
    if about != option {
        return bad(format!("it replied to option {about}, but {option} was sent"));
    }
    if len > OPTION_REPLY_BYTES_MAX {
        return bad(format!("its reply to option {option} claims {len} bytes"));
    }
    let mut data = vec![0; len as usize];
    stream.read_exact(&mut data)?;
    Ok(OptionReply { kind, data })
}

fn unexpected(reply: &OptionReply, about: &str) -> HandshakeError {
    HandshakeError::Protocol(format!("it sent a reply of unknown type {} about {about}", reply.kind))
}

/// The meaning of the server's error, and its message.
fn refusal(reply: &OptionReply) -> String {
    let meaning = match reply.kind & !p::REP_FLAG_ERROR {
        1 => "it does not know the option GO; a newer server does",
        2 => "its policy forbids it",
        3 => "it calls the request invalid",
        4 => "its platform does not support it",
        5 => "it wants TLS, which is not supported here",
        6 => "it has no such export",
        7 => "it is shutting down",
        8 => "it insists on its block sizes",
        9 => "it calls the request too big",
        _ => "unknown error",
    };
    let words = String::from_utf8_lossy(&reply.data);
    let words: String = words.chars().filter(|c| !c.is_control()).take(p::STRING_BYTES_MAX).collect();
    if words.is_empty() { meaning.into() } else { format!("{meaning} (\"{words}\")") }
}

#[cfg(test)]
#[path = "handshake_tests.rs"]
mod tests;
