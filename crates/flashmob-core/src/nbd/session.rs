//! One client's connection, from the greeting to its end.
//!
//! It decodes, checks and refuses requests, and encodes the caller's answers; requests are executed elsewhere, in any order. Its memory
//! is limited: bytes for a request are reserved from a [`Budget`] before memory is taken, and a client that does not read its refusals
//! is not decoded further until it does.

use super::handshake::{Handshake, OPTION_DISCARD_BYTES_MAX, OPTIONS_MAX, Step, greet};
use super::protocol::{CMD_DISC, REQUEST_HEADER_BYTES};
use super::reply;
use super::request::{RequestHeader, Terms, check};
use super::{Exports, protocol::STRING_BYTES_MAX};
use crate::buffers::{Budget, OutQueue, RxBuf};
use crate::op::{Failure, Op};
use crate::request::Request;
use crate::wire::map::MAP_BYTES;

/// From this length on an answer may be split between segments.
const SPLIT_BYTES: usize = 8 * 1024;

/// What a request reserves of the budget beside its data, in bytes: about what the gateway keeps for it.
pub const REQUEST_COST_BYTES: u64 = 256;

/// Most extents in the answer to a request for a map.
pub const MAP_EXTENTS_MAX: usize = 2048;
/// Most nodes whose maps one answer joins.
pub const MAP_NODES_MAX: usize = 64;
/// What a request for a map reserves beside [`REQUEST_COST_BYTES`]: its answer, and the maps of the nodes.
pub const MAP_COST_BYTES: u32 = (8 * MAP_EXTENTS_MAX + MAP_NODES_MAX * MAP_BYTES) as u32;

/// While this many bytes are queued, [`Session::next`] queues no refusals: a client that sends invalid requests and never reads cannot
/// make the queue grow.
pub const UNREAD_BYTES_MAX: usize = 1 << 20;

/// The result of [`Session::next`].
#[derive(Debug, PartialEq, Eq)]
pub enum Event {
    /// The next message is incomplete: call again when more bytes have arrived.
    NeedMore,
    /// The next request does not fit the budget, or its refusal the queue: call again when some of the budget was released or some of
    /// the queue was sent. Nothing is lost.
    Blocked,
    /// The client opened the export with this index; only requests and the end follow.
    Opened {
        /// As [`Exports::find`] returned it.
        export: usize,
    },
    /// A request, checked against the export. Answer it exactly once, with one of the `reply_` methods.
    Request {
        /// The request with its payload.
        request: Request,
        /// What it reserved of the budget; the caller releases it when the answer is sent or dropped.
        reserved_bytes: u64,
    },
    /// The client begins TLS: send what is queued, and call [`Session::secured`] when its handshake is over. Bytes that come before are not
    /// decoded.
    StartTls,
    /// The next request is a large write that has not arrived, and too many of these are held already: in the same way.
    WaitsToArrive,
    /// The client ended the session properly. Outstanding requests may still be answered.
    Closed,
}

/// Why a session cannot continue: the client violates the protocol, or asked for something that has no error reply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// Undefined client flags: the document requires that the connection is dropped.
    #[error("client flags {0:#010x} have bits that NBD does not define")]
    ClientFlags(u32),
    /// Something other than an option came.
    #[error("an option starts with {0:#018x}, which is not NBD's magic number")]
    OptionMagic(u64),
    /// An option announces too much data.
    #[error("an option announces {0} bytes of data, more than {max}", max = OPTION_DISCARD_BYTES_MAX)]
    OptionTooLong(u32),
    /// The client sent too many options.
    #[error("client sent more than {max} options without opening an export", max = OPTIONS_MAX)]
    TooManyOptions,
    /// `OPT_EXPORT_NAME` with more bytes than a string may have.
    #[error("client asked for an export by a name of {0} bytes, more than {max}", max = STRING_BYTES_MAX)]
    ExportNameTooLong(u32),
    /// `OPT_EXPORT_NAME` of an export that cannot be opened; the option has no error reply.
    #[error("client asked for export {name:?}: {reason}")]
    ExportRefused {
        /// The beginning of the name.
        name: String,
        /// Why not.
        reason: String,
    },
    /// `OPT_EXPORT_NAME` outside of TLS; the option has no error reply.
    #[error("client asked for an export outside of TLS")]
    TlsDemanded,
    /// Bytes came behind `OPT_STARTTLS`, outside of TLS.
    #[error("bytes came behind STARTTLS, before TLS had begun")]
    BehindStartTls,
    /// Something other than a request came.
    #[error("a request starts with {0:#010x}, which is not NBD's magic number")]
    RequestMagic(u32),
}

/// One client's connection.
///
/// Poll order: after bytes came in, call [`Session::next`] until it gives [`Event::NeedMore`],
/// [`Event::Blocked`], [`Event::WaitsToArrive`] or [`Event::Closed`], or fails; then send [`Session::out`]. Before dropping it call
/// [`Session::abandon`].
#[derive(Debug)]
pub struct Session {
    out: OutQueue,
    phase: Phase,
    structured: bool,
    /// Bytes of a refused option or request that are still to be skipped.
    skip_bytes: u64,
}

#[derive(Debug)]
enum Phase {
    Handshake(Handshake),
    Transmission(Transmission),
    Closed,
}

/// The phase in which requests come.
#[derive(Debug)]
struct Transmission {
    terms: Terms,
    /// A write whose payload is incomplete.
    arriving: Option<Arriving>,
}

/// A write and its reservation. Its payload has its full capacity from the start.
#[derive(Debug)]
struct Arriving {
    request: Request,
    reserved_bytes: u64,
}

impl Default for Session {
    /// A new connection; the greeting is in [`Session::out`].
    fn default() -> Session {
        let mut out = OutQueue::new();
        greet(&mut out);
        Session { out, phase: Phase::Handshake(Handshake::default()), structured: false, skip_bytes: 0 }
    }
}

impl Session {
    /// A new connection that answers nothing but the beginning of TLS, until that has begun.
    #[must_use]
    pub fn demanding_tls() -> Session {
        Session { phase: Phase::Handshake(Handshake::demanding_tls()), ..Session::default() }
    }

    /// What comes from now on was inside TLS.
    pub fn secured(&mut self) {
        if let Phase::Handshake(handshake) = &mut self.phase {
            handshake.secured();
        }
    }

    /// The bytes to send to the client.
    #[must_use]
    pub fn out(&self) -> &OutQueue {
        &self.out
    }

    /// The same, to be advanced.
    pub fn out_mut(&mut self) -> &mut OutQueue {
        &mut self.out
    }

    /// Whether an export is open.
    #[must_use]
    pub fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Transmission(_))
    }

    /// Whether structured replies were agreed on.
    #[cfg(test)]
    pub fn structured(&self) -> bool {
        self.structured
    }

    /// Decodes the next event from `rx`.
    ///
    /// A request reserves [`REQUEST_COST_BYTES`] of `budget`, and a read or write its length on top, a request for a map [`MAP_COST_BYTES`], before any memory is taken for it;
    /// if that is refused, its header stays in `rx`. Invalid requests are refused here and make no event. After an error, and after the
    /// end, every further call returns [`Event::Closed`].
    pub fn next(&mut self, rx: &mut RxBuf, exports: &dyn Exports, budget: &mut Budget) -> Result<Event, SessionError> {
        let event = self.decode(rx, exports, budget);
        if matches!(event, Ok(Event::Closed) | Err(_)) {
            self.phase = Phase::Closed;
        }
        event
    }

    fn decode(&mut self, rx: &mut RxBuf, exports: &dyn Exports, budget: &mut Budget) -> Result<Event, SessionError> {
        loop {
            if self.skip_bytes > 0 {
                let n = usize::try_from(self.skip_bytes).unwrap_or(usize::MAX).min(rx.len());
                rx.consume(n);
                self.skip_bytes -= n as u64;
                if self.skip_bytes > 0 {
                    return Ok(Event::NeedMore);
                }
            }
            match &mut self.phase {
                Phase::Transmission(transmission) => match transmission.step(rx, &mut self.out, budget)? {
                    Decoded::Event(event) => return Ok(event),
                    Decoded::Refused { skip_bytes } => self.skip_bytes = skip_bytes,
                },
                Phase::Handshake(handshake) => match handshake.step(rx, &mut self.out, exports)? {
                    Step::NeedMore => return Ok(Event::NeedMore),
                    Step::Blocked => return Ok(Event::Blocked),
                    Step::Done { skip_bytes } => self.skip_bytes = skip_bytes,
                    Step::Aborted => return Ok(Event::Closed),
                    Step::StartTls => return Ok(Event::StartTls),
                    Step::Opened { export, terms } => {
                        self.structured = terms.structured;
                        self.phase = Phase::Transmission(Transmission { terms, arriving: None });
                        return Ok(Event::Opened { export });
                    }
                },
                Phase::Closed => return Ok(Event::Closed),
            }
        }
    }

    /// How many bytes an incomplete write has reserved, and how many of them have come.
    #[must_use]
    pub fn arriving_bytes(&self) -> Option<(u64, u64)> {
        let Phase::Transmission(Transmission { arriving: Some(arriving), .. }) = &self.phase else { return None };
        Some((arriving.reserved_bytes, arriving.request.payload.len() as u64))
    }

    /// Releases the reservation of an incomplete write and closes the session. Call it when the connection has ended.
    pub fn abandon(&mut self, budget: &mut Budget) {
        if let Phase::Transmission(Transmission { arriving: Some(arriving), .. }) = &self.phase {
            budget.release(arriving.reserved_bytes);
        }
        // Bytes that were to be skipped will not come.
        self.skip_bytes = 0;
        self.phase = Phase::Closed;
    }

    /// Answers a request other than a read with success.
    pub fn reply_done(&mut self, cookie: u64) {
        self.out.push_bytes(&reply::simple(0, cookie));
    }

    /// Answers a read with a copy of `data`, all that was asked for, from `offset_bytes` on.
    pub fn reply_read(&mut self, cookie: u64, offset_bytes: u64, data: &[u8]) {
        if data.len() >= SPLIT_BYTES {
            // May be split where a segment ends. Unsplit, answers of a little over half a segment would each take a whole one.
            let (header, header_bytes) = reply::read_header(self.structured, cookie, offset_bytes, data.len() as u32);
            self.out.push_bytes(&header[..header_bytes]);
            self.out.push_bytes(data);
            return;
        }
        self.try_reply_read(cookie, offset_bytes, data.len() as u32, |to| {
            to.copy_from_slice(data);
            true
        });
    }

    /// Answers a read of `len_bytes` with the slice that `fill` fills. If `fill` returns false, nothing is answered. Returns its result.
    pub fn try_reply_read(
        &mut self,
        cookie: u64,
        offset_bytes: u64,
        len_bytes: u32,
        fill: impl FnOnce(&mut [u8]) -> bool,
    ) -> bool {
        let (header, header_bytes) = reply::read_header(self.structured, cookie, offset_bytes, len_bytes);
        let mut is_filled = false;
        self.out.append_with(header_bytes + len_bytes as usize, |room| {
            let (head, data) = room.split_at_mut(header_bytes);
            is_filled = fill(data);
            head.copy_from_slice(&header[..header_bytes]);
            if is_filled { room.len() } else { 0 }
        });
        is_filled
    }

    /// Answers a read with `data`, all that was asked for, from `offset_bytes` on, without a copy if it is large.
    pub fn reply_read_buffer(&mut self, cookie: u64, offset_bytes: u64, data: Vec<u8>) {
        let (header, header_bytes) = reply::read_header(self.structured, cookie, offset_bytes, data.len() as u32);
        self.out.push_bytes(&header[..header_bytes]);
        self.out.push_buffer(data);
    }

    /// Answers a request for a map: lengths, and whether each is a hole. At least one, at most [`MAP_EXTENTS_MAX`].
    pub fn reply_map(&mut self, cookie: u64, runs: &[(u32, bool)]) {
        reply::block_status(&mut self.out, cookie, runs);
    }

    /// Answers a request with an error; `is_read` says whether it was a read. See [`reply::errno`].
    pub fn reply_error(&mut self, cookie: u64, failure: Failure, is_read: bool) {
        let errno = reply::errno(failure, is_read, self.structured);
        reply::error(&mut self.out, self.structured, cookie, errno, &failure.to_string());
    }
}

/// The result of a step in the transmission phase.
enum Decoded {
    Event(Event),
    /// A request was refused; this many bytes of its payload are to be skipped.
    Refused {
        skip_bytes: u64,
    },
}

impl Transmission {
    /// Decodes the request at the front of `rx`, or the payload of the one before.
    fn step(&mut self, rx: &mut RxBuf, out: &mut OutQueue, budget: &mut Budget) -> Result<Decoded, SessionError> {
        if self.arriving.is_some() {
            return Ok(Decoded::Event(self.arrive(rx)));
        }
        let Some(header) = RequestHeader::decode(rx.data()).map_err(SessionError::RequestMagic)? else {
            return Ok(Decoded::Event(Event::NeedMore));
        };
        if header.command == CMD_DISC {
            rx.consume(REQUEST_HEADER_BYTES);
            return Ok(Decoded::Event(Event::Closed));
        }
        let (op, flags) = match check(&header, &self.terms) {
            Ok(accepted) => accepted,
            Err(_) if out.len() >= UNREAD_BYTES_MAX => return Ok(Decoded::Event(Event::Blocked)),
            Err(refusal) => {
                rx.consume(REQUEST_HEADER_BYTES);
                reply::error(out, self.terms.structured, header.cookie, refusal.errno, refusal.text);
                return Ok(Decoded::Refused { skip_bytes: u64::from(header.payload_bytes()) });
            }
        };
        let data_bytes = match op {
            Op::Read | Op::Write => header.len_bytes,
            Op::Map => MAP_COST_BYTES,
            Op::Flush | Op::Trim | Op::WriteZeroes | Op::Digest => 0,
        };
        let reserved_bytes = REQUEST_COST_BYTES + u64::from(data_bytes);
        let has_arrived = rx.len() - REQUEST_HEADER_BYTES >= header.payload_bytes() as usize;
        if !has_arrived && !budget.may_arrive(reserved_bytes) {
            return Ok(Decoded::Event(Event::WaitsToArrive));
        }
        if !budget.try_reserve(reserved_bytes) {
            return Ok(Decoded::Event(Event::Blocked));
        }
        rx.consume(REQUEST_HEADER_BYTES);
        // The range of a flush has no meaning and is cleared.
        let (offset_bytes, len_bytes) = if op == Op::Flush { (0, 0) } else { (header.offset_bytes, header.len_bytes) };
        let payload = Vec::with_capacity(header.payload_bytes() as usize);
        let request = Request { cookie: header.cookie, op, flags, offset_bytes, len_bytes, payload };
        if op == Op::Write {
            self.arriving = Some(Arriving { request, reserved_bytes });
            return Ok(Decoded::Event(self.arrive(rx)));
        }
        Ok(Decoded::Event(Event::Request { request, reserved_bytes }))
    }

    /// Moves payload from `rx` into the arriving write, and returns that when it is complete.
    fn arrive(&mut self, rx: &mut RxBuf) -> Event {
        let Some(mut arriving) = self.arriving.take() else { return Event::NeedMore };
        let request = &mut arriving.request;
        let missing = request.len_bytes as usize - request.payload.len();
        let n = missing.min(rx.len());
        request.payload.extend_from_slice(&rx.data()[..n]);
        rx.consume(n);
        if n < missing {
            self.arriving = Some(arriving);
            return Event::NeedMore;
        }
        let Arriving { request, reserved_bytes } = arriving;
        Event::Request { request, reserved_bytes }
    }
}
