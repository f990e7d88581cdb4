//! Tests of the session as its users see it: bytes in, events and bytes out.

mod handshake;
mod hostile;
mod maps;
mod requests;
mod round_trip;
mod streams;
mod tls;

use super::client::{ClientHandshake, Connected, OptionReply, push_option};
use super::protocol::*;
use super::request::RequestHeader;
use super::{Event, ExportInfo, Exports, FindError, Session, SessionError};
use crate::buffers::{Budget, OutQueue, RxBuf};
use crate::op::{Failure, Op};
use crate::request::Request;

/// Size of the export "disk" of [`Shelf`]: larger than the largest request, and odd.
const DISK_BYTES: u64 = (64 << 20) + 3;

/// Four exports: "disk" (also the default), "rom" (read-only), "huge" (all 64 bits), and "cold", which is not ready.
struct Shelf;

impl Exports for Shelf {
    fn names(&self) -> Vec<String> {
        ["disk", "rom", "huge", "cold"].map(String::from).to_vec()
    }

    fn find(&self, name: &str) -> Result<(usize, ExportInfo), FindError> {
        let (index, size_bytes) = match name {
            "" | "disk" => (0, DISK_BYTES),
            "rom" => (1, DISK_BYTES),
            "huge" => (2, u64::MAX),
            "cold" => return Err(FindError::NotReady("waiting for node b".into())),
            _ => return Err(FindError::Unknown),
        };
        let name = if index == 0 { "disk" } else { name };
        let description = format!("what {name} is");
        Ok((index, ExportInfo { name: name.into(), description, size_bytes, read_only: index == 1 }))
    }
}

/// A session with what belongs to it.
struct Server {
    session: Session,
    rx: RxBuf,
    budget: Budget,
}

impl Server {
    /// One that has said nothing but its greeting, which is taken away.
    fn new() -> Server {
        let mut session = Session::default();
        assert_eq!(session.out_mut().take_all().len(), GREETING_BYTES);
        Server { session, rx: RxBuf::new(), budget: Budget::new(1 << 30) }
    }

    /// One that has had these client flags.
    fn with_flags(flags: u32) -> Server {
        let mut server = Server::new();
        server.rx.extend(&flags.to_be_bytes());
        assert_eq!(server.next(), Ok(Event::NeedMore));
        server
    }

    /// One with an open export.
    fn open(name: &str, structured: bool) -> Server {
        let mut server = Server::with_flags(FLAG_C_FIXED_NEWSTYLE | FLAG_C_NO_ZEROES);
        if structured {
            assert_eq!(server.option(OPT_STRUCTURED_REPLY, &[]).last().unwrap().kind, REP_ACK);
        }
        server.rx.extend(&option(OPT_GO, &go_data(name, &[])));
        assert!(matches!(server.next(), Ok(Event::Opened { .. })));
        server.sent();
        server
    }

    fn next(&mut self) -> Result<Event, SessionError> {
        self.session.next(&mut self.rx, &Shelf, &mut self.budget)
    }

    fn sent(&mut self) -> Vec<u8> {
        self.session.out_mut().take_all()
    }

    /// Sends an option that does not open an export, and takes the replies to it.
    fn option(&mut self, number: u32, data: &[u8]) -> Vec<OptionReply> {
        self.rx.extend(&option(number, data));
        assert_eq!(self.next(), Ok(Event::NeedMore));
        self.replies()
    }

    fn replies(&mut self) -> Vec<OptionReply> {
        let mut rx = RxBuf::new();
        rx.extend(&self.sent());
        let replies = std::iter::from_fn(|| OptionReply::take(&mut rx).unwrap()).collect();
        assert!(rx.is_empty());
        replies
    }

    /// Sends a request that makes an event.
    fn request(&mut self, header: RequestHeader, payload: &[u8]) -> Request {
        self.rx.extend(&header.encode());
        self.rx.extend(payload);
        match self.next() {
            Ok(Event::Request { request, reserved_bytes }) => {
                self.budget.release(reserved_bytes);
                request
            }
            other => panic!("{other:?}"),
        }
    }
}

fn option(number: u32, data: &[u8]) -> Vec<u8> {
    let mut out = OutQueue::new();
    push_option(&mut out, number, &[data]);
    out.take_all()
}

fn go_data(name: &str, kinds: &[u16]) -> Vec<u8> {
    let mut data = (name.len() as u32).to_be_bytes().to_vec();
    data.extend_from_slice(name.as_bytes());
    data.extend_from_slice(&(kinds.len() as u16).to_be_bytes());
    kinds.iter().for_each(|kind| data.extend_from_slice(&kind.to_be_bytes()));
    data
}

fn header(command: u16, flags: u16, offset_bytes: u64, len_bytes: u32) -> RequestHeader {
    RequestHeader { flags, command, cookie: 0x1122_3344_5566_7788, offset_bytes, len_bytes }
}

/// What a test's disk holds.
fn content(offset_bytes: u64, len_bytes: u32) -> Vec<u8> {
    (offset_bytes..offset_bytes + u64::from(len_bytes)).map(|i| (i % 251) as u8).collect()
}

/// Answers a request as a disk would that never changes; every seventh of an odd offset fails.
fn answer(session: &mut Session, request: &Request) {
    let is_read = request.op == Op::Read;
    if request.offset_bytes % 14 == 7 {
        session.reply_error(request.cookie, Failure::Io, is_read);
    } else if !is_read {
        session.reply_done(request.cookie);
    } else if request.offset_bytes.is_multiple_of(2) {
        session.reply_read(request.cookie, request.offset_bytes, &content(request.offset_bytes, request.len_bytes));
    } else {
        let data = content(request.offset_bytes, request.len_bytes);
        session.reply_read_buffer(request.cookie, request.offset_bytes, data);
    }
}
