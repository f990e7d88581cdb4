//! Decodes simple and structured replies, in pieces of any size.
//!
//! Data is passed on in the receive buffer, without copying. Sans-IO: bytes in, calls of [`Replies`] out. Whatever a server sends, the worst
//! outcome is an error that says what was wrong.

use std::time::Instant;

use flashmob_core::nbd::protocol as p;
use flashmob_core::op::Op;

use super::slots::{Request, Slots};
use super::{be16, be32, be64};
use crate::error::{Errno, ServerError};

/// Longest payload of an error chunk, in bytes: number, length, a string, an offset.
const ERROR_CHUNK_BYTES_MAX: usize = 6 + p::STRING_BYTES_MAX + 8;
/// Most error chunks in one reply, so that a reply ends.
const ERROR_CHUNKS_MAX: u32 = 64;
/// Zeroes that are passed on for a hole, in pieces of this size.
static ZEROES: [u8; 64 * 1024] = [0; 64 * 1024];

/// A receiver of a server's answers.
pub trait Replies {
    /// `bytes` of the answer to `request` (always a read) arrived; they belong at `offset_bytes` of the export, within the request. Called any
    /// number of times before [`Replies::done`], in ascending order for simple replies. An error may still follow.
    fn data(&mut self, request: &Request, offset_bytes: u64, bytes: &[u8]);

    /// The answer to `request` was complete at `at`.
    fn done(&mut self, request: &Request, outcome: Result<(), &ServerError>, at: Instant);
}

/// The decoder's position in a reply.
#[derive(Debug, Clone, Copy)]
enum State {
    Header,
    /// In the data of a reply; `last` if it is the end of the reply.
    Data {
        index: u32,
        request: Request,
        at_bytes: u32,
        left_bytes: u32,
        last: bool,
    },
}

/// The decoder of one connection.
#[derive(Debug)]
pub struct ReplyDecoder {
    state: State,
    structured: bool,
}

impl ReplyDecoder {
    /// A decoder; `structured` says whether structured replies were agreed.
    #[must_use]
    pub fn new(structured: bool) -> ReplyDecoder {
        ReplyDecoder { state: State::Header, structured }
    }

    /// Decodes as much of `bytes` as possible, received at `at`, and returns its length. The rest (less than a header or an error chunk) has to
    /// be passed again with more bytes. After an error the connection cannot be used any more.
    pub fn decode(
        &mut self,
        bytes: &[u8],
        slots: &mut Slots,
        at: Instant,
        replies: &mut impl Replies,
    ) -> Result<usize, String> {
        let mut used = 0;
        loop {
            let rest = &bytes[used..];
            match &mut self.state {
                State::Header => match self.header(rest, slots, at, replies)? {
                    0 => return Ok(used),
                    n => used += n,
                },
                State::Data { index, request, at_bytes, left_bytes, last } => {
                    let n = rest.len().min(*left_bytes as usize);
                    if n == 0 {
                        return Ok(used);
                    }
                    replies.data(request, request.offset_bytes + u64::from(*at_bytes), &rest[..n]);
                    used += n;
                    *at_bytes += n as u32;
                    *left_bytes -= n as u32;
                    if *left_bytes == 0 {
                        let (index, last) = (*index, *last);
                        self.state = State::Header;
                        if last {
                            self.finish(index, slots, at, replies)?;
                        }
                    }
                }
            }
        }
    }

    /// Takes one header, with everything but data, from the front of `bytes`. Returns its length, or 0 if it is not complete.
    fn header(
        &mut self,
        bytes: &[u8],
        slots: &mut Slots,
        at: Instant,
        replies: &mut impl Replies,
    ) -> Result<usize, String> {
        if bytes.len() < p::SIMPLE_REPLY_BYTES {
            return Ok(0);
        }
        match be32(bytes, 0) {
            p::SIMPLE_REPLY_MAGIC => self.simple(bytes, slots, at, replies),
            p::STRUCTURED_REPLY_MAGIC if self.structured => self.chunk(bytes, slots, at, replies),
            p::STRUCTURED_REPLY_MAGIC => Err("it sent a structured reply although none was agreed".into()),
            magic => Err(format!("a reply begins with 0x{magic:08x}")),
        }
    }

    fn simple(
        &mut self,
        bytes: &[u8],
        slots: &mut Slots,
        at: Instant,
        replies: &mut impl Replies,
    ) -> Result<usize, String> {
        let (errno, cookie) = (be32(bytes, 4), be64(bytes, 8));
        let (index, request) = find(slots, cookie)?;
        if self.structured && request.op == Op::Read {
            return Err("it sent a simple reply to a read although structured replies were agreed".into());
        }
        if errno != 0 {
            slots.slot(index).error = Some(ServerError { errno: Errno(errno), text: String::new() });
        } else if request.op == Op::Read && request.len_bytes > 0 {
            self.state = State::Data { index, request, at_bytes: 0, left_bytes: request.len_bytes, last: true };
            return Ok(p::SIMPLE_REPLY_BYTES);
        }
        self.finish(index, slots, at, replies)?;
        Ok(p::SIMPLE_REPLY_BYTES)
    }

    fn chunk(
        &mut self,
        bytes: &[u8],
        slots: &mut Slots,
        at: Instant,
        replies: &mut impl Replies,
    ) -> Result<usize, String> {
        const HEADER: usize = p::CHUNK_HEADER_BYTES;
        if bytes.len() < HEADER {
            return Ok(0);
        }
        let (flags, kind) = (be16(bytes, 4), be16(bytes, 6));
        let (cookie, len) = (be64(bytes, 8), be32(bytes, 16));
        let last = flags & p::REPLY_FLAG_DONE != 0;
        let (index, request) = find(slots, cookie)?;
        let wrong_len = || Err(format!("a chunk of type {kind} claims {len} bytes"));
        let used = match kind {
            p::REPLY_TYPE_NONE if len == 0 && last => HEADER,
            p::REPLY_TYPE_NONE => return Err("a chunk of type NONE has a payload or is not the last one".into()),
            p::REPLY_TYPE_OFFSET_DATA if len < 9 => return wrong_len(),
            p::REPLY_TYPE_OFFSET_DATA => {
                if bytes.len() < HEADER + 8 {
                    return Ok(0);
                }
                let left_bytes = len - 8;
                let at_bytes = place(slots, index, &request, be64(bytes, HEADER), left_bytes)?;
                self.state = State::Data { index, request, at_bytes, left_bytes, last };
                return Ok(HEADER + 8);
            }
            p::REPLY_TYPE_OFFSET_HOLE if len != 12 => return wrong_len(),
            p::REPLY_TYPE_OFFSET_HOLE => {
                if bytes.len() < HEADER + 12 {
                    return Ok(0);
                }
                let mut offset_bytes = be64(bytes, HEADER);
                let mut left = be32(bytes, HEADER + 8) as usize;
                place(slots, index, &request, offset_bytes, left as u32)?;
                while left > 0 {
                    let n = left.min(ZEROES.len());
                    replies.data(&request, offset_bytes, &ZEROES[..n]);
                    offset_bytes += n as u64;
                    left -= n;
                }
                HEADER + 12
            }
            kind if kind & p::REPLY_TYPE_FLAG_ERROR != 0 => {
                let len = len as usize;
                if !(6..=ERROR_CHUNK_BYTES_MAX).contains(&len) {
                    return wrong_len();
                }
                if bytes.len() < HEADER + len {
                    return Ok(0);
                }
                let error = error_chunk(&bytes[HEADER..HEADER + len])?;
                let slot = slots.slot(index);
                slot.error.get_or_insert(error);
                slot.errors += 1;
                if slot.errors > ERROR_CHUNKS_MAX {
                    return Err(format!("its reply to the {} has too many errors", request.describe()));
                }
                HEADER + len
            }
            kind => return Err(format!("a chunk has the unknown type {kind}")),
        };
        if last {
            self.finish(index, slots, at, replies)?;
        }
        Ok(used)
    }

    /// Ends the reply of slot `index`: checks that it is complete, and frees the slot.
    fn finish(&mut self, index: u32, slots: &mut Slots, at: Instant, replies: &mut impl Replies) -> Result<(), String> {
        let structured = self.structured;
        let slot = slots.slot(index);
        let Some(request) = slot.request else {
            return Err("a reply ended twice".into());
        };
        match slot.error.take() {
            Some(error) => replies.done(&request, Err(&error), at),
            None => {
                if structured && request.op == Op::Read {
                    check_pieces(&mut slot.pieces, request.len_bytes)
                        .map_err(|reason| format!("its reply to the {} {reason}", request.describe()))?;
                }
                replies.done(&request, Ok(()), at);
            }
        }
        slots.release(index);
        Ok(())
    }
}

fn find(slots: &Slots, cookie: u64) -> Result<(u32, Request), String> {
    slots.find(cookie).ok_or_else(|| format!("it replied to cookie 0x{cookie:016x}, which no request is waiting under"))
}

/// Records that `len` bytes at `offset_bytes` arrived for the request in slot `index`. Returns their offset within the request.
fn place(slots: &mut Slots, index: u32, request: &Request, offset_bytes: u64, len: u32) -> Result<u32, String> {
    let outside = || format!("it sent {len} bytes of data at {offset_bytes} in reply to a {}", request.describe());
    if request.op != Op::Read || len == 0 {
        return Err(outside());
    }
    let begin = offset_bytes.checked_sub(request.offset_bytes).ok_or_else(outside)?;
    if begin > u64::from(request.len_bytes) || u64::from(len) > u64::from(request.len_bytes) - begin {
        return Err(outside());
    }
    let begin = begin as u32;
    let pieces = &mut slots.slot(index).pieces;
    // A piece that continues the last one extends it: a reply in order takes no memory.
    if let Some((_, end)) = pieces.last_mut().filter(|(_, end)| *end == begin) {
        *end += len;
    } else if pieces.len() < request.len_bytes as usize {
        pieces.push((begin, begin + len));
    } else {
        // More pieces than bytes.
        return Err(format!("its reply to the {} has overlapping pieces", request.describe()));
    }
    Ok(begin)
}

/// Checks that the pieces cover the request, each byte once.
fn check_pieces(pieces: &mut [(u32, u32)], len_bytes: u32) -> Result<(), &'static str> {
    pieces.sort_unstable();
    let mut reached = 0;
    for &(begin, end) in pieces.iter() {
        if begin > reached {
            return Err("leaves bytes out");
        }
        if begin < reached {
            return Err("has overlapping pieces");
        }
        reached = end;
    }
    if reached < len_bytes { Err("leaves bytes out") } else { Ok(()) }
}

/// An error chunk's payload: number, length of the text, the text; an offset may follow.
fn error_chunk(payload: &[u8]) -> Result<ServerError, String> {
    let (errno, len) = (be32(payload, 0), usize::from(be16(payload, 4)));
    let Some(text) = payload.get(6..6 + len) else {
        return Err("an error chunk is shorter than its own text".into());
    };
    if errno == 0 {
        return Err("an error chunk has the number 0".into());
    }
    let text = String::from_utf8_lossy(text).chars().filter(|c| !c.is_control()).collect();
    Ok(ServerError { errno: Errno(errno), text })
}

#[cfg(test)]
#[path = "reply_tests.rs"]
mod tests;
