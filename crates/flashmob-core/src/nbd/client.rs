//! The client's side of NBD, as far as the simulator and tests need it.
//!
//! [`ClientHandshake`] opens an export with `OPT_GO`; then requests are encoded by
//! [`RequestHeader::encode`](super::request::RequestHeader::encode) and headers of replies decoded by [`ReplyHeader::decode`]. The caller
//! keeps track of outstanding requests. A server's lengths are checked against limits.

use super::fields::Fields;
use super::protocol::*;
use crate::buffers::{OutQueue, RxBuf};

/// Most bytes of data of a reply to an option.
pub const OPTION_REPLY_BYTES_MAX: u32 = 64 * 1024;

/// Why a server cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// The greeting is not that of newstyle NBD.
    #[error("server greets with {0:#018x} {1:#018x}, which is not newstyle NBD")]
    Greeting(u64, u64),
    /// The server does not speak fixed newstyle, so it has no `OPT_GO`.
    #[error("server does not speak fixed newstyle NBD")]
    NotFixedNewstyle,
    /// The name is longer than a string may be.
    #[error("export name has {0} bytes, more than {max}", max = STRING_BYTES_MAX)]
    NameTooLong(usize),
    /// Something other than a reply to an option came.
    #[error("a reply to an option starts with {0:#018x}, which is not NBD's magic number")]
    OptionReplyMagic(u64),
    /// A reply to another option than the one that was sent.
    #[error("server replies to option {got} instead of {sent}")]
    OtherOption {
        /// The option that was sent.
        sent: u32,
        /// The option that the reply names.
        got: u32,
    },
    /// A reply above [`OPTION_REPLY_BYTES_MAX`].
    #[error("a reply to an option has {0} bytes, more than {max}", max = OPTION_REPLY_BYTES_MAX)]
    OptionReplyTooLong(u32),
    /// The server refused an option.
    #[error("server refuses option {option} with error {reply:#x}: {text}")]
    Refused {
        /// The option that was refused.
        option: u32,
        /// A `REP_ERR_` number.
        reply: u32,
        /// The server's explanation, perhaps empty.
        text: String,
    },
    /// A reply that is invalid at this point, or whose data is malformed.
    #[error("server replies to option {option} with {reply:#x}, which makes no sense there")]
    Senseless {
        /// The option that was sent.
        option: u32,
        /// A `REP_` number.
        reply: u32,
    },
    /// Something other than a reply to a request came.
    #[error("a reply starts with {0:#010x}, which is not NBD's magic number")]
    ReplyMagic(u32),
    /// A chunk of block status that is cut off or has an empty extent.
    #[error("a chunk of block status of {0} bytes is malformed")]
    StatusChunk(usize),
    /// An error chunk that is too short, or whose message does not fit it.
    #[error("an error chunk of {0} bytes is malformed")]
    ErrorChunk(usize),
}

/// The result of the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connected {
    /// The export's size.
    pub size_bytes: u64,
    /// `FLAG_` bits of the transmission phase.
    pub transmission_flags: u16,
    /// Whether reads are answered by structured replies.
    pub structured: bool,
    /// The server's number of `base:allocation`, if it was chosen.
    pub context: Option<u32>,
}

/// The handshake, from a new connection to an open export.
#[derive(Debug)]
pub struct ClientHandshake {
    name: String,
    want_structured: bool,
    want_maps: bool,
    state: State,
}

#[derive(Debug)]
enum State {
    Greeting,
    /// `OPT_STRUCTURED_REPLY` is sent.
    Structured,
    /// `OPT_SET_META_CONTEXT` is sent; the number of `base:allocation`, once received.
    Context(Option<u32>),
    /// `OPT_GO` is sent; the export's size and flags, once received.
    Go {
        structured: bool,
        context: Option<u32>,
        export: Option<(u64, u16)>,
    },
}

impl ClientHandshake {
    /// A handshake for the export `name` ("" is the server's default) that asks for structured replies or not.
    pub fn new(name: &str, want_structured: bool) -> Result<ClientHandshake, ClientError> {
        if name.len() > STRING_BYTES_MAX {
            return Err(ClientError::NameTooLong(name.len()));
        }
        Ok(ClientHandshake { name: name.to_string(), want_structured, want_maps: false, state: State::Greeting })
    }

    /// The same, and chooses `base:allocation` if structured replies are agreed on.
    #[must_use]
    pub fn with_maps(self) -> ClientHandshake {
        ClientHandshake { want_maps: true, ..self }
    }

    /// Consumes received bytes from `rx` and queues bytes to send in `out`. Returns the result once the export is open, `None` while more
    /// bytes are needed. Do not call it again after a result or an error.
    pub fn next(&mut self, rx: &mut RxBuf, out: &mut OutQueue) -> Result<Option<Connected>, ClientError> {
        loop {
            let done = match self.state {
                State::Greeting => self.greeting(rx, out)?,
                State::Structured | State::Context(_) | State::Go { .. } => {
                    let Some(reply) = OptionReply::take(rx)? else { return Ok(None) };
                    if let Some(connected) = self.reply(&reply, out)? {
                        return Ok(Some(connected));
                    }
                    true
                }
            };
            if !done {
                return Ok(None);
            }
        }
    }

    /// Answers the greeting; false if it is incomplete.
    fn greeting(&mut self, rx: &mut RxBuf, out: &mut OutQueue) -> Result<bool, ClientError> {
        let mut fields = Fields(rx.data());
        let (Some(first), Some(second), Some(flags)) = (fields.u64(), fields.u64(), fields.u16()) else {
            return Ok(false);
        };
        if (first, second) != (GREETING_MAGIC, OPTION_MAGIC) {
            return Err(ClientError::Greeting(first, second));
        }
        if flags & FLAG_FIXED_NEWSTYLE == 0 {
            return Err(ClientError::NotFixedNewstyle);
        }
        rx.consume(GREETING_BYTES);
        let no_zeroes = if flags & FLAG_NO_ZEROES == 0 { 0 } else { FLAG_C_NO_ZEROES };
        out.push_bytes(&(FLAG_C_FIXED_NEWSTYLE | no_zeroes).to_be_bytes());
        if self.want_structured {
            push_option(out, OPT_STRUCTURED_REPLY, &[]);
            self.state = State::Structured;
        } else {
            self.go(out, false, None);
        }
        Ok(true)
    }

    fn choose_context(&mut self, out: &mut OutQueue) {
        let (name, context) = (self.name.as_bytes(), CONTEXT_ALLOCATION.as_bytes());
        let lengths = [name.len(), 1, context.len()].map(|len| (len as u32).to_be_bytes());
        push_option(out, OPT_SET_META_CONTEXT, &[&lengths[0], name, &lengths[1], &lengths[2], context]);
        self.state = State::Context(None);
    }

    fn go(&mut self, out: &mut OutQueue, structured: bool, context: Option<u32>) {
        let name = self.name.as_bytes();
        push_option(out, OPT_GO, &[&(name.len() as u32).to_be_bytes(), name, &0u16.to_be_bytes()]);
        self.state = State::Go { structured, context, export: None };
    }

    fn reply(&mut self, reply: &OptionReply, out: &mut OutQueue) -> Result<Option<Connected>, ClientError> {
        let sent = match self.state {
            State::Structured => OPT_STRUCTURED_REPLY,
            State::Context(_) => OPT_SET_META_CONTEXT,
            State::Greeting | State::Go { .. } => OPT_GO,
        };
        if reply.option != sent {
            return Err(ClientError::OtherOption { sent, got: reply.option });
        }
        let senseless = ClientError::Senseless { option: sent, reply: reply.kind };
        match &mut self.state {
            State::Structured if reply.kind == REP_ACK && self.want_maps => self.choose_context(out),
            State::Structured if reply.kind == REP_ACK => self.go(out, true, None),
            // A server without structured replies says so; simple ones do as well.
            State::Structured if reply.kind & REP_FLAG_ERROR != 0 => self.go(out, false, None),
            State::Context(context) if reply.kind == REP_META_CONTEXT => {
                let mut fields = Fields(&reply.data);
                let id = fields.u32().ok_or(senseless.clone())?;
                if fields.0 != CONTEXT_ALLOCATION.as_bytes() {
                    return Err(senseless);
                }
                *context = Some(id);
            }
            State::Context(context) if reply.kind == REP_ACK => {
                let context = *context;
                self.go(out, true, context);
            }
            // A server without metadata contexts.
            State::Context(_) if reply.kind & REP_FLAG_ERROR != 0 => self.go(out, true, None),
            State::Go { export, .. } if reply.kind == REP_INFO => {
                let mut fields = Fields(&reply.data);
                let kind = fields.u16().ok_or(senseless.clone())?;
                if kind == INFO_EXPORT {
                    let (Some(size_bytes), Some(flags)) = (fields.u64(), fields.u16()) else { return Err(senseless) };
                    *export = Some((size_bytes, flags));
                }
            }
            State::Go { structured, context, export } if reply.kind == REP_ACK => {
                let (size_bytes, transmission_flags) = export.ok_or(senseless)?;
                let (structured, context) = (*structured, *context);
                return Ok(Some(Connected { size_bytes, transmission_flags, structured, context }));
            }
            State::Go { .. } if reply.kind & REP_FLAG_ERROR != 0 => {
                let text = String::from_utf8_lossy(&reply.data).into_owned();
                return Err(ClientError::Refused { option: sent, reply: reply.kind, text });
            }
            _ => return Err(senseless),
        }
        Ok(None)
    }
}

/// Appends an option, its data given in parts.
pub fn push_option(out: &mut OutQueue, option: u32, parts: &[&[u8]]) {
    let len: usize = parts.iter().map(|part| part.len()).sum();
    out.append(|to| {
        to.extend_from_slice(&OPTION_MAGIC.to_be_bytes());
        to.extend_from_slice(&option.to_be_bytes());
        to.extend_from_slice(&(len as u32).to_be_bytes());
        parts.iter().for_each(|part| to.extend_from_slice(part));
    });
}

/// One reply to an option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OptionReply {
    /// The option that is answered.
    pub option: u32,
    /// A `REP_` number.
    pub kind: u32,
    /// Its data; a message as text if it is an error.
    pub data: Vec<u8>,
}

impl OptionReply {
    /// Takes the reply at the front of `rx`; `None` if it is incomplete.
    pub fn take(rx: &mut RxBuf) -> Result<Option<OptionReply>, ClientError> {
        let mut fields = Fields(rx.data());
        let (Some(magic), Some(option), Some(kind), Some(len_bytes)) =
            (fields.u64(), fields.u32(), fields.u32(), fields.u32())
        else {
            return Ok(None);
        };
        if magic != OPTION_REPLY_MAGIC {
            return Err(ClientError::OptionReplyMagic(magic));
        }
        if len_bytes > OPTION_REPLY_BYTES_MAX {
            return Err(ClientError::OptionReplyTooLong(len_bytes));
        }
        let Some(data) = fields.bytes(len_bytes as usize) else { return Ok(None) };
        let reply = OptionReply { option, kind, data: data.to_vec() };
        rx.consume(OPTION_REPLY_HEADER_BYTES + len_bytes as usize);
        Ok(Some(reply))
    }
}

/// The header of a reply to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyHeader {
    /// A simple reply. If `errno` is 0 and it answers a read, the data follows.
    Simple {
        /// One of the document's error values, 0 for success.
        errno: u32,
        /// As in the request.
        cookie: u64,
    },
    /// One chunk of a structured reply; its payload follows.
    Chunk {
        /// `REPLY_FLAG_` bits.
        flags: u16,
        /// A `REPLY_TYPE_` number.
        kind: u16,
        /// As in the request.
        cookie: u64,
        /// Length of the payload that follows, the 8 bytes of an offset included.
        len_bytes: u32,
    },
}

impl ReplyHeader {
    /// Decodes the header at the front of `data` and returns its length, too; `None` if it is incomplete.
    pub fn decode(data: &[u8]) -> Result<Option<(ReplyHeader, usize)>, ClientError> {
        let mut fields = Fields(data);
        let Some(magic) = fields.u32() else { return Ok(None) };
        let mut decode = || {
            if magic == SIMPLE_REPLY_MAGIC {
                return Some((ReplyHeader::Simple { errno: fields.u32()?, cookie: fields.u64()? }, SIMPLE_REPLY_BYTES));
            }
            let (flags, kind, cookie, len_bytes) = (fields.u16()?, fields.u16()?, fields.u64()?, fields.u32()?);
            Some((ReplyHeader::Chunk { flags, kind, cookie, len_bytes }, CHUNK_HEADER_BYTES))
        };
        match magic {
            SIMPLE_REPLY_MAGIC | STRUCTURED_REPLY_MAGIC => Ok(decode()),
            _ => Err(ClientError::ReplyMagic(magic)),
        }
    }
}

/// The context and the extents, lengths and status, in the payload of a chunk of block status. At least one, none empty.
pub fn decode_block_status(payload: &[u8]) -> Result<(u32, Vec<(u32, u32)>), ClientError> {
    let mut fields = Fields(payload);
    let malformed = ClientError::StatusChunk(payload.len());
    let context = fields.u32().ok_or(malformed.clone())?;
    let mut extents = Vec::new();
    while let Some(len_bytes) = fields.u32() {
        extents.push((len_bytes, fields.u32().ok_or(malformed.clone())?));
    }
    if !fields.0.is_empty() || extents.is_empty() || extents.iter().any(|&(len, _)| len == 0) {
        return Err(malformed);
    }
    Ok((context, extents))
}

/// The error value and the message in the payload of an error chunk.
pub fn decode_error_chunk(payload: &[u8]) -> Result<(u32, String), ClientError> {
    let mut fields = Fields(payload);
    let mut decode = || {
        let errno = fields.u32()?;
        let len = usize::from(fields.u16()?);
        Some((errno, String::from_utf8_lossy(fields.bytes(len)?).into_owned()))
    };
    decode().ok_or(ClientError::ErrorChunk(payload.len()))
}
