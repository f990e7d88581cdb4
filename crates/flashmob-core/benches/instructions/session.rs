//! Cases of an NBD session alone: requests in, replies out.

use flashmob_core::buffers::{Budget, OutQueue, RxBuf};
use flashmob_core::nbd::client::ClientHandshake;
use flashmob_core::nbd::protocol::{CMD_READ, CMD_WRITE};
use flashmob_core::nbd::request::RequestHeader;
use flashmob_core::nbd::{Event, ExportInfo, Exports, FindError, Session};
use flashmob_core::op::Op;
use flashmob_core::units::{GIB, MIB};

use crate::count_off;
use crate::harness::Turn;

struct OneExport;

impl Exports for OneExport {
    fn names(&self) -> Vec<String> {
        vec!["v".to_string()]
    }

    fn find(&self, _: &str) -> Result<(usize, ExportInfo), FindError> {
        let info = ExportInfo { name: "v".to_string(), description: String::new(), size_bytes: GIB, read_only: false };
        Ok((0, info))
    }
}

/// A session whose client has opened the export.
fn open_session() -> Session {
    let mut session = Session::default();
    let mut client = ClientHandshake::new("v", true).expect("a short name");
    let (mut to_server, mut to_client, mut out) = (RxBuf::new(), RxBuf::new(), OutQueue::new());
    let mut budget = Budget::new(MIB);
    for _ in 0..8 {
        to_client.extend(&session.out_mut().take_all());
        if client.next(&mut to_client, &mut out).expect("a handshake").is_some() {
            return session;
        }
        to_server.extend(&out.take_all());
        while !matches!(session.next(&mut to_server, &OneExport, &mut budget).expect("a session"), Event::NeedMore) {}
    }
    panic!("the export was not opened");
}

/// `count` requests that came together are decoded and checked; a write's payload is copied.
pub fn decode(op: Op, count: u64, len_bytes: u32) -> Turn {
    let mut session = open_session();
    let (mut rx, mut budget) = (RxBuf::new(), Budget::new(GIB));
    let mut bytes = Vec::new();
    let command = if op == Op::Write { CMD_WRITE } else { CMD_READ };
    for cookie in 0..count {
        let offset_bytes = cookie * u64::from(len_bytes);
        bytes.extend_from_slice(&RequestHeader { flags: 0, command, cookie, offset_bytes, len_bytes }.encode());
        if op == Op::Write {
            bytes.resize(bytes.len() + len_bytes as usize, 7);
        }
    }
    Box::new(move || {
        count_off(|| rx.extend(&bytes));
        let mut decoded = 0;
        while let Event::Request { request, reserved_bytes } =
            session.next(&mut rx, &OneExport, &mut budget).expect("a session")
        {
            assert_eq!(request.len_bytes, len_bytes);
            budget.release(reserved_bytes);
            decoded += 1;
        }
        assert_eq!(decoded, count);
    })
}

/// `count` reads are answered; a kernel takes the answers.
pub fn reply(count: u64, len_bytes: usize) -> Turn {
    let mut session = open_session();
    let data = vec![7; len_bytes];
    Box::new(move || {
        for cookie in 0..count {
            session.reply_read(cookie, cookie, &data);
        }
        let n = session.out().len();
        assert_eq!(n, count as usize * (28 + len_bytes));
        session.out_mut().advance(n);
    })
}
