//! Requests: what passes, what is refused with which error, and what waits for the budget.

use super::*;
use crate::nbd::client::{ReplyHeader, decode_error_chunk};
use crate::nbd::{REQUEST_COST_BYTES, UNREAD_BYTES_MAX, reply};
use crate::op::OpFlags;
use crate::request::REQUEST_BYTES_MAX;

const END: u64 = DISK_BYTES;
const MAX: u32 = REQUEST_BYTES_MAX;

/// The error value of the only reply in `sent`, in the form that was agreed on.
fn errno(sent: &[u8], structured: bool) -> u32 {
    let (reply, len) = ReplyHeader::decode(sent).unwrap().unwrap();
    match reply {
        ReplyHeader::Simple { errno, cookie } => {
            assert_eq!((cookie, sent.len()), (0x1122_3344_5566_7788, len));
            assert!(!structured || errno == 0, "an error without its text");
            errno
        }
        ReplyHeader::Chunk { flags, kind, cookie, len_bytes } => {
            assert!(structured);
            assert_eq!((flags, kind, cookie), (REPLY_FLAG_DONE, REPLY_TYPE_ERROR, 0x1122_3344_5566_7788));
            assert_eq!(sent.len(), len + len_bytes as usize);
            let (errno, text) = decode_error_chunk(&sent[len..]).unwrap();
            assert!(!text.is_empty());
            errno
        }
    }
}

#[track_caller]
fn refused(export: &str, structured: bool, header: RequestHeader, expected: u32) {
    let mut server = Server::open(export, structured);
    server.rx.extend(&header.encode());
    for _ in 0..header.payload_bytes() >> 16 {
        server.rx.extend(&[0xEE; 1 << 16]);
        assert_eq!(server.next(), Ok(Event::NeedMore));
    }
    server.rx.extend(&vec![0xEE; header.payload_bytes() as usize % (1 << 16)]);
    assert_eq!(server.next(), Ok(Event::NeedMore));
    assert_eq!(errno(&server.sent(), structured), expected, "{header:?}");
    assert_eq!(server.budget.peak_bytes(), 0, "refused before anything is taken");
    let next = server.request(super::header(CMD_READ, 0, 0, 1), &[]);
    assert_eq!(next.op, Op::Read, "the stream is still in step");
}

#[test]
fn every_bad_request_gets_its_error() {
    for structured in [false, true] {
        let check = |command, flags, offset, len, expected| {
            refused("disk", structured, header(command, flags, offset, len), expected);
        };
        // Beyond the end.
        for (command, expected) in
            [(CMD_READ, EINVAL), (CMD_WRITE, ENOSPC), (CMD_TRIM, EINVAL), (CMD_WRITE_ZEROES, ENOSPC)]
        {
            check(command, 0, END, 1, expected);
            check(command, 0, END - 1, 2, expected);
            check(command, 0, u64::MAX, 1, expected);
            check(command, 0, u64::MAX - 5, 7, expected);
        }
        // Without a length.
        for command in [CMD_READ, CMD_WRITE, CMD_TRIM, CMD_WRITE_ZEROES] {
            check(command, 0, 0, 0, EINVAL);
        }
        // Commands that are not known or not offered.
        for command in [CMD_CACHE, CMD_BLOCK_STATUS, CMD_RESIZE, 9, u16::MAX] {
            check(command, 0, 0, 512, EINVAL);
        }
        // Flags that are not known or belong elsewhere.
        for (command, allowed) in [
            (CMD_READ, CMD_FLAG_FUA | if structured { CMD_FLAG_DF } else { 0 }),
            (CMD_WRITE, CMD_FLAG_FUA),
            (CMD_FLUSH, CMD_FLAG_FUA),
            (CMD_TRIM, CMD_FLAG_FUA),
            (CMD_WRITE_ZEROES, CMD_FLAG_FUA | CMD_FLAG_NO_HOLE),
        ] {
            for bit in (0..16).map(|bit| 1 << bit).filter(|bit| bit & allowed == 0) {
                check(command, bit, 0, 512, EINVAL);
                check(command, bit | CMD_FLAG_FUA, 0, 512, EINVAL);
            }
        }
        // Too long.
        check(CMD_READ, 0, 0, MAX + 1, if structured { EOVERFLOW } else { EINVAL });
        check(CMD_WRITE, 0, 0, MAX + 1, EINVAL);
        // Read-only.
        for command in [CMD_WRITE, CMD_TRIM, CMD_WRITE_ZEROES] {
            refused("rom", structured, header(command, 0, 0, 512), EPERM);
            refused("rom", structured, header(command, 0, END, 512), EPERM);
        }
    }
}

#[test]
fn a_refused_write_of_any_length_is_skipped_as_it_comes() {
    refused("disk", true, header(CMD_WRITE, 0, 0, u32::MAX), EINVAL);
}

#[test]
fn requests_at_the_limits_pass() {
    for (command, flags, offset, len) in [
        (CMD_READ, 0, 0, 1),
        (CMD_READ, 0, END - 1, 1),
        (CMD_READ, CMD_FLAG_DF | CMD_FLAG_FUA, END - u64::from(MAX), MAX),
        (CMD_READ, 0, 0, MAX),
        (CMD_WRITE, 0, END - 1, 1),
        (CMD_WRITE, CMD_FLAG_FUA, 0, MAX),
        (CMD_TRIM, CMD_FLAG_FUA, 0, END as u32),
        (CMD_WRITE_ZEROES, CMD_FLAG_FUA | CMD_FLAG_NO_HOLE, 0, END as u32),
    ] {
        let mut server = Server::open("disk", true);
        let header = header(command, flags, offset, len);
        let payload = if command == CMD_WRITE { content(offset, len) } else { Vec::new() };
        let request = server.request(header, &payload);
        assert_eq!((request.cookie, request.offset_bytes, request.len_bytes), (header.cookie, offset, len));
        assert_eq!(request.payload, payload);
        assert_eq!(request.payload.capacity(), payload.len(), "allocated once");
        let mut expected = OpFlags::NONE;
        if flags & CMD_FLAG_FUA != 0 && command != CMD_READ {
            expected = expected.with(OpFlags::FUA);
        }
        if flags & CMD_FLAG_NO_HOLE != 0 {
            expected = expected.with(OpFlags::NO_HOLE);
        }
        assert_eq!(request.flags, expected);
    }
    for (offset, len) in [(u64::MAX - 7, 7), (0, MAX)] {
        let request = Server::open("huge", false).request(header(CMD_READ, 0, offset, len), &[]);
        assert_eq!(request.offset_bytes, offset);
    }
    let (offset, len) = (u64::MAX - u64::from(u32::MAX), u32::MAX);
    let request = Server::open("huge", false).request(header(CMD_TRIM, 0, offset, len), &[]);
    assert_eq!(request.len_bytes, u32::MAX);
}

#[test]
fn a_flush_passes_whatever_else_it_says() {
    for export in ["disk", "rom"] {
        for (flags, offset, len) in [(0, 0, 0), (CMD_FLAG_FUA, 0, 0), (0, 4096, 512), (0, u64::MAX, u32::MAX)] {
            let request = Server::open(export, false).request(header(CMD_FLUSH, flags, offset, len), &[]);
            assert_eq!((request.op, request.flags), (Op::Flush, OpFlags::NONE));
            assert_eq!((request.offset_bytes, request.len_bytes), (0, 0));
        }
    }
}

#[test]
fn disconnect_ends_the_session_but_not_what_is_owed() {
    let mut server = Server::open("disk", true);
    let request = server.request(header(CMD_READ, 0, 2, 3), &[]);
    server.rx.extend(&header(CMD_DISC, 0xffff, 1, 2).encode());
    server.rx.extend(b"a client must not go on");
    assert_eq!(server.next(), Ok(Event::Closed));
    assert_eq!(server.next(), Ok(Event::Closed));
    assert!(server.sent().is_empty());
    server.session.reply_read(request.cookie, 2, &content(2, 3));
    assert_eq!(server.sent().len(), CHUNK_HEADER_BYTES + 8 + 3);
}

#[test]
fn a_request_without_its_magic_ends_the_session() {
    let mut server = Server::open("disk", false);
    let mut bytes = header(CMD_READ, 0, 0, 1).encode();
    bytes[0] = 0x26;
    server.rx.extend(&bytes[..27]);
    assert_eq!(server.next(), Ok(Event::NeedMore));
    server.rx.extend(&bytes[27..]);
    assert_eq!(server.next(), Err(SessionError::RequestMagic(0x2660_9513)));
    assert_eq!(server.next(), Ok(Event::Closed));
}

#[test]
fn a_request_waits_for_the_budget_and_goes_on_where_it_was() {
    for (command, cost) in [
        (CMD_READ, 4096 + REQUEST_COST_BYTES),
        (CMD_WRITE, 4096 + REQUEST_COST_BYTES),
        (CMD_TRIM, REQUEST_COST_BYTES),
        (CMD_WRITE_ZEROES, REQUEST_COST_BYTES),
        (CMD_FLUSH, REQUEST_COST_BYTES),
    ] {
        let mut server = Server::open("disk", false);
        server.budget = Budget::new(10_000);
        assert!(server.budget.try_reserve(10_000 - cost + 1), "one byte short");
        server.rx.extend(&header(command, 0, 0, 4096).encode());
        server.rx.extend(&content(0, if command == CMD_WRITE { 4096 } else { 0 }));
        let waiting = server.rx.len();
        for _ in 0..3 {
            assert_eq!(server.next(), Ok(Event::Blocked));
            assert_eq!(server.rx.len(), waiting, "nothing is lost");
        }
        server.budget.release(1);
        match server.next() {
            Ok(Event::Request { request, reserved_bytes }) => {
                assert_eq!(reserved_bytes, cost);
                assert_eq!(request.payload, content(0, if command == CMD_WRITE { 4096 } else { 0 }));
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(server.budget.used_bytes(), 10_000);
        assert_eq!(server.next(), Ok(Event::NeedMore));
    }
}

#[test]
fn a_refusal_needs_no_budget_and_disconnect_neither() {
    let mut server = Server::open("disk", false);
    server.budget = Budget::new(1);
    assert!(server.budget.try_reserve(1));
    server.rx.extend(&header(CMD_READ, 0, END, 1).encode());
    server.rx.extend(&header(CMD_DISC, 0, 0, 0).encode());
    assert_eq!(server.next(), Ok(Event::Closed));
    assert_eq!(errno(&server.sent(), false), EINVAL);
}

#[test]
fn a_half_received_write_gives_its_budget_back_when_abandoned() {
    let mut server = Server::open("disk", false);
    server.rx.extend(&header(CMD_WRITE, 0, 0, 4096).encode());
    server.rx.extend(&[1; 4095]);
    assert_eq!(server.next(), Ok(Event::NeedMore));
    assert!(server.rx.is_empty(), "payload does not pile up in the receive buffer");
    assert_eq!(server.budget.used_bytes(), 4096 + REQUEST_COST_BYTES);
    server.session.abandon(&mut server.budget);
    assert_eq!(server.budget.used_bytes(), 0);
    server.session.abandon(&mut server.budget);
    server.rx.extend(&[1]);
    assert_eq!(server.next(), Ok(Event::Closed));
}

#[test]
fn an_abandoned_session_is_closed_even_if_it_was_skipping_a_payload() {
    let mut server = Server::open("disk", false);
    server.rx.extend(&header(CMD_WRITE, 0, DISK_BYTES, 4096).encode());
    assert_eq!(server.next(), Ok(Event::NeedMore), "the refused write's payload is still to come");
    server.session.abandon(&mut server.budget);
    assert_eq!(server.next(), Ok(Event::Closed));
}

#[test]
fn a_client_that_sends_nonsense_and_never_reads_is_not_heard_further() {
    let mut server = Server::open("disk", true);
    let bad = header(CMD_READ, 0, END, 1).encode();
    let mut sent = 0;
    while server.next() != Ok(Event::Blocked) {
        for _ in 0..100 {
            server.rx.extend(&bad);
            sent += 1;
        }
    }
    assert!(server.session.out().len() < UNREAD_BYTES_MAX + 100);
    server.rx.extend(&header(CMD_DISC, 0, 0, 0).encode());
    let mut answered = 0;
    let each = CHUNK_HEADER_BYTES + 6 + "request ends beyond the export".len();
    loop {
        answered += server.sent().len() / each;
        if server.next() == Ok(Event::Closed) {
            break;
        }
    }
    answered += server.sent().len() / each;
    assert_eq!(answered, sent, "each gets its answer in the end");
}

#[test]
fn a_client_that_haggles_and_never_reads_is_not_heard_further() {
    let mut server = Server::with_flags(FLAG_C_FIXED_NEWSTYLE);
    server.session.out_mut().push_bytes(&vec![0; UNREAD_BYTES_MAX]);
    server.rx.extend(&option(OPT_LIST, &[]));
    assert_eq!(server.next(), Ok(Event::Blocked));
    server.session.out_mut().advance(1);
    assert_eq!(server.next(), Ok(Event::NeedMore));
}

#[test]
fn failures_get_the_documents_error_values() {
    for structured in [false, true] {
        for is_read in [false, true] {
            for (failure, expected) in [
                (Failure::Io, EIO),
                (Failure::Corrupt, EIO),
                (Failure::NoSpace, ENOSPC),
                (Failure::Invalid, EINVAL),
                (Failure::NotPermitted, EPERM),
                (Failure::NoMemory, ENOMEM),
                (Failure::NotSupported, EINVAL),
                (Failure::ShuttingDown, ESHUTDOWN),
                (Failure::TooLarge, if is_read && structured { EOVERFLOW } else { EINVAL }),
            ] {
                let mut server = Server::open("disk", structured);
                server.session.reply_error(0x1122_3344_5566_7788, failure, is_read);
                assert_eq!(errno(&server.sent(), structured), expected);
            }
        }
    }
}

#[test]
fn replies_are_the_documents_bytes() {
    let cookie = 0x0102_0304_0506_0708;
    let mut simple = Server::open("disk", false);
    simple.session.reply_done(cookie);
    simple.session.reply_read(cookie, 9, b"data");
    simple.session.reply_error(cookie, Failure::Io, true);
    let expected = b"\x67\x44\x66\x98\0\0\0\0\x01\x02\x03\x04\x05\x06\x07\x08\
          \x67\x44\x66\x98\0\0\0\0\x01\x02\x03\x04\x05\x06\x07\x08data\
          \x67\x44\x66\x98\0\0\0\x05\x01\x02\x03\x04\x05\x06\x07\x08";
    assert_eq!(simple.sent(), expected);

    let mut structured = Server::open("disk", true);
    structured.session.reply_done(cookie);
    structured.session.reply_read_buffer(cookie, 9, b"data".to_vec());
    reply::error(structured.session.out_mut(), true, cookie, EIO, "node b");
    let expected = b"\x67\x44\x66\x98\0\0\0\0\x01\x02\x03\x04\x05\x06\x07\x08\
          \x66\x8e\x33\xef\0\x01\0\x01\x01\x02\x03\x04\x05\x06\x07\x08\0\0\0\x0c\0\0\0\0\0\0\0\x09data\
          \x66\x8e\x33\xef\0\x01\x80\x01\x01\x02\x03\x04\x05\x06\x07\x08\0\0\0\x0c\0\0\0\x05\0\x06node b";
    assert_eq!(structured.sent(), expected);
}

#[test]
fn texts_are_cut_to_what_a_string_may_have() {
    let mut server = Server::open("disk", true);
    reply::error(server.session.out_mut(), true, 1, EIO, &"ü".repeat(3000));
    let sent = server.sent();
    let (_, text) = decode_error_chunk(&sent[CHUNK_HEADER_BYTES..]).unwrap();
    assert_eq!(text, "ü".repeat(2048));
    reply::error(server.session.out_mut(), true, 1, EIO, &format!("x{}", "ü".repeat(3000)));
    let sent = server.sent();
    assert_eq!(sent.len(), CHUNK_HEADER_BYTES + 6 + 4095, "a character is not cut in two");
}
