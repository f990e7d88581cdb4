//! One request at a time, each waited for: the client of tests, also of tests of what a server does
//! with bad input. Not for measurements.

use std::time::Instant;

use flashmob_core::op::Op;

use crate::error::{Errno, Error, ServerError};
use crate::nbd::connection::{Connection, Options};
use crate::nbd::handshake::Export;
use crate::nbd::protocol as p;
use crate::nbd::pump::Single;
use crate::nbd::reply::Replies;
use crate::nbd::slots::Request;
use crate::nbd::uri::Uri;

/// A connection that carries one request at a time.
#[derive(Debug)]
pub struct Client {
    single: Single,
    options: Options,
}

/// A simple reply's header as it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawReply {
    /// The cookie of the request that it answers.
    pub cookie: u64,
    /// The error, if it is one.
    pub errno: Option<Errno>,
}

struct Answer<'a> {
    into: &'a mut [u8],
    outcome: Option<Result<(), ServerError>>,
}

impl Replies for Answer<'_> {
    fn data(&mut self, request: &Request, offset_bytes: u64, bytes: &[u8]) {
        let begin = (offset_bytes - request.offset_bytes) as usize;
        if let Some(into) = self.into.get_mut(begin..begin + bytes.len()) {
            into.copy_from_slice(bytes);
        }
    }

    fn done(&mut self, _request: &Request, outcome: Result<(), &ServerError>, _at: Instant) {
        self.outcome = Some(outcome.map_err(Clone::clone));
    }
}

impl Client {
    /// Connects with a timeout of 30 s and simple replies.
    pub fn connect(uri: &Uri) -> Result<Client, Error> {
        Client::connect_with(uri, &Options::default())
    }

    /// Connects. More than one outstanding request has no meaning here.
    pub fn connect_with(uri: &Uri, options: &Options) -> Result<Client, Error> {
        let options = Options { outstanding: 1, ..options.clone() };
        Ok(Client { single: Single::new(Connection::open(uri, &options)?)?, options })
    }

    /// What the server says about its export.
    #[must_use]
    pub fn export(&self) -> &Export {
        self.single.connection.export()
    }

    /// The export's size in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.export().size_bytes
    }

    /// Reads `bytes.len()` bytes at `offset_bytes`.
    pub fn read_at(&mut self, offset_bytes: u64, bytes: &mut [u8]) -> Result<(), Error> {
        let len_bytes = self.len_bytes(bytes.len())?;
        self.ask(Op::Read, 0, offset_bytes, len_bytes, &[], bytes)
    }

    /// Writes `bytes` at `offset_bytes`; with `fua`, onto the medium before the answer.
    pub fn write_at(&mut self, offset_bytes: u64, bytes: &[u8], fua: bool) -> Result<(), Error> {
        let len_bytes = self.len_bytes(bytes.len())?;
        self.ask(Op::Write, fua_flag(fua), offset_bytes, len_bytes, bytes, &mut [])
    }

    /// Brings everything that was written onto the medium.
    pub fn flush(&mut self) -> Result<(), Error> {
        self.ask(Op::Flush, 0, 0, 0, &[], &mut [])
    }

    /// Declares `len_bytes` at `offset_bytes` as not needed any more.
    pub fn trim(&mut self, offset_bytes: u64, len_bytes: u32) -> Result<(), Error> {
        self.ask(Op::Trim, 0, offset_bytes, len_bytes, &[], &mut [])
    }

    /// Writes `len_bytes` zeroes at `offset_bytes`; `flags` are `protocol::COMMAND_FLAG_*`.
    pub fn write_zeroes(&mut self, offset_bytes: u64, len_bytes: u32, flags: u16) -> Result<(), Error> {
        self.ask(Op::WriteZeroes, flags, offset_bytes, len_bytes, &[], &mut [])
    }

    /// Says goodbye.
    pub fn disconnect(self) {
        self.single.connection.disconnect();
    }

    /// Sends any bytes. Answers to requests in them are read with [`Client::read_raw_reply`] and
    /// [`Client::read_raw`], before any other method is called.
    pub fn send_raw(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.single.connection.submit_raw(bytes);
        self.single.connection.send()
    }

    /// The next simple reply's header; its data, if any, is still to be read.
    pub fn read_raw_reply(&mut self) -> Result<RawReply, Error> {
        let mut header = [0; p::SIMPLE_REPLY_HEADER_BYTES];
        self.read_raw(&mut header)?;
        if p::be32(&header, 0) != p::MAGIC_SIMPLE_REPLY {
            let reason = format!("a reply begins with 0x{:08x}", p::be32(&header, 0));
            return Err(Error::Protocol { server: self.server(), reason });
        }
        let errno = p::be32(&header, 4);
        Ok(RawReply { cookie: p::be64(&header, 8), errno: (errno != 0).then_some(Errno(errno)) })
    }

    /// The next `bytes.len()` bytes as they come.
    pub fn read_raw(&mut self, bytes: &mut [u8]) -> Result<(), Error> {
        let begun = Instant::now();
        let mut filled = 0;
        while filled < bytes.len() {
            let left = self.options.timeout.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return Err(Error::Timeout {
                    server: self.server(),
                    doing: format!("{} of {} bytes had come", filled, bytes.len()),
                    after: self.options.timeout,
                });
            }
            filled += self.single.turn_raw(left, &mut bytes[filled..])?;
        }
        Ok(())
    }

    fn server(&self) -> String {
        self.single.connection.server().to_string()
    }

    fn len_bytes(&self, len: usize) -> Result<u32, Error> {
        u32::try_from(len).map_err(|_| Error::Unsuitable {
            server: self.server(),
            reason: format!("a request has at most {} bytes, not {len}", u32::MAX),
        })
    }

    fn ask(
        &mut self,
        op: Op,
        flags: u16,
        offset_bytes: u64,
        len_bytes: u32,
        payload: &[u8],
        into: &mut [u8],
    ) -> Result<(), Error> {
        let now = Instant::now();
        let connection = &mut self.single.connection;
        if !connection.submit(now, op, flags, offset_bytes, len_bytes, |bytes| bytes.copy_from_slice(payload)) {
            // A request before this one was given up; its answer may still come.
            return Err(Error::Closed { server: self.server(), doing: "the request before this one failed".into() });
        }
        let mut answer = Answer { into, outcome: None };
        loop {
            self.single.turn(&mut answer)?;
            if let Some(outcome) = answer.outcome.take() {
                let what = Request { op, offset_bytes, len_bytes, submitted: now }.describe();
                return outcome.map_err(|error| Error::Request { server: self.server(), what, error });
            }
        }
    }
}

fn fua_flag(fua: bool) -> u16 {
    if fua { p::COMMAND_FLAG_FUA } else { 0 }
}
