//! Options, one behaviour per test.

use super::*;
use crate::nbd::{OPTION_BYTES_MAX, OPTION_DISCARD_BYTES_MAX, OPTIONS_MAX};

const FIXED: u32 = FLAG_C_FIXED_NEWSTYLE;

fn kinds(replies: &[OptionReply]) -> Vec<u32> {
    replies.iter().map(|reply| reply.kind).collect()
}

/// The payload of the information of that kind.
fn info(replies: &[OptionReply], kind: u16) -> Option<&[u8]> {
    replies.iter().find(|r| r.kind == REP_INFO && r.data.starts_with(&kind.to_be_bytes())).map(|r| &r.data[2..])
}

fn refused(server: &mut Server, number: u32, data: &[u8], kind: u32) {
    let replies = server.option(number, data);
    assert_eq!(kinds(&replies), [kind], "option {number}");
    assert_eq!(replies[0].option, number);
    assert!(!replies[0].data.is_empty(), "a refusal says why");
}

#[test]
fn the_greeting_is_that_of_fixed_newstyle() {
    let mut session = Session::default();
    assert_eq!(session.out_mut().take_all(), b"NBDMAGICIHAVEOPT\x00\x03");
    assert!(!session.is_open());
}

#[test]
fn unknown_client_flags_end_the_session() {
    for flags in [4u32, 0x8000_0003] {
        let mut server = Server::new();
        server.rx.extend(&flags.to_be_bytes());
        assert_eq!(server.next(), Err(SessionError::ClientFlags(flags)));
        assert_eq!(server.next(), Ok(Event::Closed));
        assert!(server.sent().is_empty());
    }
}

#[test]
fn an_option_without_its_magic_ends_the_session() {
    let mut server = Server::with_flags(FIXED);
    server.rx.extend(b"GET / HTTP/1.1\r\n\r\n");
    assert_eq!(server.next(), Err(SessionError::OptionMagic(u64::from_be_bytes(*b"GET / HT"))));
}

#[test]
fn export_name_opens_with_zeroes_unless_they_were_declined() {
    for (flags, len) in [(0, 134), (FIXED, 134), (FIXED | FLAG_C_NO_ZEROES, 10), (FLAG_C_NO_ZEROES, 10)] {
        let mut server = Server::with_flags(flags);
        server.rx.extend(&option(OPT_EXPORT_NAME, b"rom"));
        assert_eq!(server.next(), Ok(Event::Opened { export: 1 }));
        assert!(server.session.is_open());
        let sent = server.sent();
        assert_eq!(sent.len(), len);
        assert_eq!(sent[..8], DISK_BYTES.to_be_bytes());
        assert_eq!(u16::from_be_bytes([sent[8], sent[9]]), 0b1_0110_1111);
        assert!(sent[10..].iter().all(|&b| b == 0));
    }
}

#[test]
fn export_name_of_what_cannot_be_opened_ends_the_session_and_says_why() {
    for (name, reason) in [
        ("cold", "waiting for node b"),
        ("nope", "there is no export of that name"),
        ("a\0b", "export name contains a NUL"),
    ] {
        let mut server = Server::with_flags(FIXED);
        server.rx.extend(&option(OPT_EXPORT_NAME, name.as_bytes()));
        let expected = SessionError::ExportRefused { name: name.into(), reason: reason.into() };
        assert_eq!(server.next(), Err(expected));
    }
    let mut server = Server::with_flags(FIXED);
    server.rx.extend(&option(OPT_EXPORT_NAME, b"\xff"));
    assert!(matches!(server.next(), Err(SessionError::ExportRefused { .. })));
}

#[test]
fn export_names_are_limited_to_what_a_string_may_have() {
    for (len, at_limit) in [(4096, true), (4097, false), (OPTION_BYTES_MAX + 1, false)] {
        let mut server = Server::with_flags(FIXED);
        server.rx.extend(&option(OPT_EXPORT_NAME, &vec![b'n'; len as usize]));
        match server.next() {
            Err(SessionError::ExportRefused { .. }) => assert!(at_limit),
            Err(SessionError::ExportNameTooLong(seen)) => assert!(!at_limit && seen == len),
            other => panic!("{other:?}"),
        }
        let mut server = Server::with_flags(FIXED);
        let replies = server.option(OPT_INFO, &go_data(&"n".repeat(len as usize), &[]));
        assert_eq!(kinds(&replies), [if at_limit { REP_ERR_UNKNOWN } else { REP_ERR_TOO_BIG }]);
    }
}

#[test]
fn abort_is_acknowledged_and_ends_the_session() {
    for (flags, data) in [(FIXED, &b""[..]), (FIXED, b"goodbye"), (0, b"")] {
        let mut server = Server::with_flags(flags);
        server.rx.extend(&option(OPT_ABORT, data));
        assert_eq!(server.next(), Ok(Event::Closed));
        assert_eq!(kinds(&server.replies()), [REP_ACK]);
        server.rx.extend(&option(OPT_LIST, &[]));
        assert_eq!(server.next(), Ok(Event::Closed));
        assert!(server.sent().is_empty());
    }
}

#[test]
fn list_names_every_export() {
    let mut server = Server::with_flags(FIXED);
    let replies = server.option(OPT_LIST, &[]);
    assert_eq!(kinds(&replies), [REP_SERVER, REP_SERVER, REP_SERVER, REP_SERVER, REP_ACK]);
    assert_eq!(replies[0].data, b"\0\0\0\x04disk");
    assert_eq!(replies[3].data, b"\0\0\0\x04cold");
}

#[test]
fn info_tells_what_was_asked_for_and_goes_on_haggling() {
    let mut server = Server::with_flags(FIXED);
    let replies = server.option(OPT_INFO, &go_data("", &[]));
    assert_eq!(kinds(&replies), [REP_INFO, REP_INFO, REP_ACK]);
    let mut expected = DISK_BYTES.to_be_bytes().to_vec();
    expected.extend_from_slice(&0b1_0110_1101u16.to_be_bytes());
    assert_eq!(info(&replies, INFO_EXPORT).unwrap(), expected);
    assert_eq!(info(&replies, INFO_BLOCK_SIZE).unwrap(), [0, 0, 0, 1, 0, 0, 16, 0, 2, 0, 0, 0]);

    let asked = go_data("", &[INFO_DESCRIPTION, 77, INFO_NAME, INFO_BLOCK_SIZE]);
    let replies = server.option(OPT_INFO, &asked);
    assert_eq!(replies.len(), 5, "each kind once, unknown kinds ignored");
    assert_eq!(info(&replies, INFO_NAME).unwrap(), b"disk", "the default export has its own name");
    assert_eq!(info(&replies, INFO_DESCRIPTION).unwrap(), b"what disk is");
    assert!(!server.session.is_open());
}

#[test]
fn structured_replies_bring_the_df_flag() {
    let mut server = Server::with_flags(FIXED);
    assert_eq!(kinds(&server.option(OPT_STRUCTURED_REPLY, &[])), [REP_ACK]);
    assert!(!server.session.structured(), "not before transmission");
    let replies = server.option(OPT_INFO, &go_data("rom", &[]));
    let flags = &info(&replies, INFO_EXPORT).unwrap()[8..];
    assert_eq!(flags, 0b1_1110_1111u16.to_be_bytes());
    server.rx.extend(&option(OPT_GO, &go_data("rom", &[])));
    assert_eq!(server.next(), Ok(Event::Opened { export: 1 }));
    assert!(server.session.structured());
}

#[test]
fn what_is_not_supported_is_refused_and_skipped() {
    let mut server = Server::with_flags(FIXED);
    for number in [OPT_PEEK_EXPORT, OPT_STARTTLS, OPT_EXTENDED_HEADERS, 0, 12, u32::MAX] {
        refused(&mut server, number, b"", REP_ERR_UNSUP);
        refused(&mut server, number, &[7; 1000], REP_ERR_UNSUP);
    }
    assert_eq!(kinds(&server.option(OPT_INFO, &go_data("disk", &[]))).last(), Some(&REP_ACK), "still in step");
}

#[test]
fn unknown_exports_and_those_not_ready_are_refused_with_the_reason() {
    for number in [OPT_INFO, OPT_GO] {
        let mut server = Server::with_flags(FIXED);
        refused(&mut server, number, &go_data("nope", &[]), REP_ERR_UNKNOWN);
        let replies = server.option(number, &go_data("cold", &[INFO_NAME]));
        assert_eq!(kinds(&replies), [REP_ERR_UNKNOWN]);
        assert_eq!(replies[0].data, b"waiting for node b");
        assert!(!server.session.is_open());
    }
}

#[test]
fn malformed_data_is_refused_as_invalid() {
    let mut longer = go_data("disk", &[INFO_NAME]);
    longer.push(0);
    let mut server = Server::with_flags(FIXED);
    for number in [OPT_INFO, OPT_GO] {
        for data in [
            &b""[..],
            b"\0\0\0",
            b"\0\0\0\0",
            b"\0\0\0\0\0",
            b"\0\0\0\x04dis",
            b"\0\0\0\x04disk",
            b"\0\0\0\x04disk\0\x01",
            b"\0\0\0\x04disk\0\x01\0",
            b"\0\0\0\x04di\0k\0\0",
            b"\0\0\0\x04di\xffk\0\0",
            &longer,
        ] {
            refused(&mut server, number, data, REP_ERR_INVALID);
        }
        refused(&mut server, number, b"\xff\xff\xff\xffdisk\0\0", REP_ERR_TOO_BIG);
    }
    refused(&mut server, OPT_LIST, b"x", REP_ERR_INVALID);
    refused(&mut server, OPT_STRUCTURED_REPLY, b"x", REP_ERR_INVALID);
    assert!(!server.session.is_open());
}

#[test]
fn data_beyond_the_limit_is_refused_at_once_and_never_kept() {
    let just_beyond = OPTION_BYTES_MAX + 1;
    for (number, len) in
        [(99, OPTION_DISCARD_BYTES_MAX), (OPT_LIST, just_beyond), (OPT_INFO, just_beyond), (OPT_GO, just_beyond)]
    {
        let mut server = Server::with_flags(FIXED);
        let mut head = option(number, &[]);
        head[12..].copy_from_slice(&len.to_be_bytes());
        server.rx.extend(&head);
        assert_eq!(server.next(), Ok(Event::NeedMore));
        assert_eq!(kinds(&server.replies()), [REP_ERR_TOO_BIG]);
        let mut left = len as usize;
        while left > 0 {
            let n = left.min(1 << 16);
            server.rx.extend(&[0xAA; 1 << 16][..n]);
            assert_eq!(server.next(), Ok(Event::NeedMore));
            assert!(server.rx.is_empty());
            left -= n;
        }
        refused(&mut server, 99, &[], REP_ERR_UNSUP);
    }
}

#[test]
fn an_option_that_announces_more_than_anyone_means_ends_the_session() {
    for len in [OPTION_DISCARD_BYTES_MAX + 1, u32::MAX] {
        let mut server = Server::with_flags(FIXED);
        let mut head = option(OPT_INFO, &[]);
        head[12..].copy_from_slice(&len.to_be_bytes());
        server.rx.extend(&head);
        assert_eq!(server.next(), Err(SessionError::OptionTooLong(len)));
    }
}

#[test]
fn data_at_the_limit_is_read() {
    let at = (OPTION_BYTES_MAX as usize - 6) / 2;
    let mut server = Server::with_flags(FIXED);
    let replies = server.option(OPT_INFO, &go_data("", &vec![INFO_NAME; at]));
    assert_eq!(kinds(&replies), [REP_INFO, REP_INFO, REP_INFO, REP_ACK]);
    refused(&mut server, OPT_INFO, &go_data("", &vec![INFO_NAME; at + 1]), REP_ERR_TOO_BIG);
}

#[test]
fn a_client_without_fixed_newstyle_may_only_name_an_export() {
    let mut server = Server::with_flags(0);
    for number in [OPT_LIST, OPT_GO, OPT_INFO, OPT_STRUCTURED_REPLY, 99] {
        refused(&mut server, number, &go_data("disk", &[]), REP_ERR_INVALID);
    }
    server.rx.extend(&option(OPT_EXPORT_NAME, b"disk"));
    assert_eq!(server.next(), Ok(Event::Opened { export: 0 }));
}

#[test]
fn nobody_haggles_for_ever() {
    let mut server = Server::with_flags(FIXED);
    for _ in 0..OPTIONS_MAX - 1 {
        server.option(OPT_LIST, &[]);
    }
    server.rx.extend(&option(OPT_GO, &go_data("disk", &[])));
    assert_eq!(server.next(), Ok(Event::Opened { export: 0 }), "the last that is allowed");

    let mut server = Server::with_flags(FIXED);
    for _ in 0..OPTIONS_MAX {
        server.option(99, &[]);
    }
    server.rx.extend(&option(OPT_GO, &go_data("disk", &[])));
    assert_eq!(server.next(), Err(SessionError::TooManyOptions));
}
