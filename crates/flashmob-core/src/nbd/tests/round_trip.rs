//! The client's half against the server's.

use super::*;
use crate::nbd::client::{ClientError, ReplyHeader};
use proptest::prelude::*;

/// Lets both halves talk until the export is open or one of them refuses.
fn connect(name: &str, structured: bool) -> (Server, Result<Connected, ClientError>) {
    let mut server = Server { session: Session::default(), rx: RxBuf::new(), budget: Budget::new(1 << 30) };
    let mut client = ClientHandshake::new(name, structured).unwrap();
    let (mut rx, mut out) = (RxBuf::new(), OutQueue::new());
    loop {
        rx.extend(&server.sent());
        match client.next(&mut rx, &mut out) {
            Ok(None) => {}
            Ok(Some(connected)) => {
                assert!(rx.is_empty() && out.is_empty());
                return (server, Ok(connected));
            }
            Err(error) => return (server, Err(error)),
        }
        let bytes = out.take_all();
        assert!(!bytes.is_empty(), "one of them must have something to say");
        server.rx.extend(&bytes);
        assert!(matches!(server.next(), Ok(Event::NeedMore | Event::Opened { .. })));
    }
}

#[test]
fn a_client_opens_an_export() {
    for structured in [false, true] {
        for (name, size_bytes, read_only) in
            [("", DISK_BYTES, false), ("disk", DISK_BYTES, false), ("rom", DISK_BYTES, true), ("huge", u64::MAX, false)]
        {
            let (server, connected) = connect(name, structured);
            let connected = connected.unwrap();
            assert!(server.session.is_open());
            assert_eq!(server.session.structured(), structured);
            assert_eq!((connected.size_bytes, connected.structured), (size_bytes, structured));
            assert_eq!(connected.transmission_flags & FLAG_READ_ONLY != 0, read_only);
            assert_eq!(connected.transmission_flags & FLAG_SEND_DF != 0, structured);
        }
    }
}

#[test]
fn a_client_is_told_why_not() {
    let (_, error) = connect("cold", true);
    let text = "waiting for node b".to_string();
    assert_eq!(error, Err(ClientError::Refused { option: OPT_GO, reply: REP_ERR_UNKNOWN, text }));
    assert_eq!(ClientHandshake::new(&"n".repeat(4097), true).err(), Some(ClientError::NameTooLong(4097)));
    assert!(ClientHandshake::new(&"n".repeat(4096), true).is_ok());
}

fn reply(option: u32, kind: u32, len_bytes: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = OPTION_REPLY_MAGIC.to_be_bytes().to_vec();
    [option, kind, len_bytes].iter().for_each(|n| bytes.extend_from_slice(&n.to_be_bytes()));
    bytes.extend_from_slice(data);
    bytes
}

/// What the client makes of a server that says this after a proper greeting.
fn client_hears(structured: bool, parts: &[Vec<u8>]) -> Result<Option<Connected>, ClientError> {
    let mut client = ClientHandshake::new("disk", structured).unwrap();
    let (mut rx, mut out) = (RxBuf::new(), OutQueue::new());
    rx.extend(b"NBDMAGICIHAVEOPT\0\x03");
    parts.iter().for_each(|part| rx.extend(part));
    client.next(&mut rx, &mut out)
}

#[test]
fn a_client_does_without_structured_replies_if_it_must() {
    let mut info = INFO_EXPORT.to_be_bytes().to_vec();
    info.extend_from_slice(&77u64.to_be_bytes());
    info.extend_from_slice(&1u16.to_be_bytes());
    let connected = client_hears(
        true,
        &[
            reply(OPT_STRUCTURED_REPLY, REP_ERR_UNSUP, 0, &[]),
            reply(OPT_GO, REP_INFO, 3, b"\0\x63x"),
            reply(OPT_GO, REP_INFO, 12, &info),
            reply(OPT_GO, REP_ACK, 0, &[]),
        ],
    );
    assert_eq!(
        connected,
        Ok(Some(Connected { size_bytes: 77, transmission_flags: 1, structured: false, context: None }))
    );
}

#[test]
fn a_client_refuses_servers_that_make_no_sense() {
    let senseless = |option, reply| Err(ClientError::Senseless { option, reply });
    for (structured, part, expected) in [
        (false, reply(OPT_GO, REP_ACK, 0, &[]), senseless(OPT_GO, REP_ACK)),
        (false, reply(OPT_GO, REP_INFO, 1, &[0]), senseless(OPT_GO, REP_INFO)),
        (false, reply(OPT_GO, REP_INFO, 11, &[0; 11]), senseless(OPT_GO, REP_INFO)),
        (false, reply(OPT_GO, REP_SERVER, 0, &[]), senseless(OPT_GO, REP_SERVER)),
        (true, reply(OPT_STRUCTURED_REPLY, REP_INFO, 0, &[]), senseless(OPT_STRUCTURED_REPLY, REP_INFO)),
        (
            true,
            reply(OPT_GO, REP_ACK, 0, &[]),
            Err(ClientError::OtherOption { sent: OPT_STRUCTURED_REPLY, got: OPT_GO }),
        ),
        (false, reply(OPT_GO, REP_INFO, 65_537, &[]), Err(ClientError::OptionReplyTooLong(65_537))),
        (false, reply(OPT_GO, REP_INFO, 65_536, &[]), Ok(None)),
        (false, vec![0; 20], Err(ClientError::OptionReplyMagic(0))),
    ] {
        assert_eq!(client_hears(structured, &[part]), expected);
    }
    for (greeting, expected) in [
        (&b"SSH-2.0-OpenSSH_9.2p1"[..], ClientError::Greeting(0x5353_482d_322e_302d, 0x4f70_656e_5353_485f)),
        (b"NBDMAGICIHAVEOPT\0\0", ClientError::NotFixedNewstyle),
    ] {
        let (mut rx, mut out) = (RxBuf::new(), OutQueue::new());
        rx.extend(greeting);
        assert_eq!(ClientHandshake::new("", false).unwrap().next(&mut rx, &mut out), Err(expected));
        assert!(out.is_empty());
    }
}

#[test]
fn reply_headers_are_refused_without_their_magic_and_awaited_until_whole() {
    assert_eq!(ReplyHeader::decode(&[1, 2, 3, 4]), Err(ClientError::ReplyMagic(0x0102_0304)));
    let mut server = Server::open("disk", true);
    server.session.reply_read(7, 0, &[1]);
    server.session.reply_done(8);
    let sent = server.sent();
    let (chunk, simple) = sent.split_at(CHUNK_HEADER_BYTES + 9);
    for (bytes, whole) in [(chunk, CHUNK_HEADER_BYTES), (simple, SIMPLE_REPLY_BYTES)] {
        for len in 0..whole {
            assert_eq!(ReplyHeader::decode(&bytes[..len]), Ok(None));
        }
        assert_eq!(ReplyHeader::decode(bytes).unwrap().unwrap().1, whole);
    }
}

#[test]
fn error_chunks_are_refused_when_their_message_does_not_fit() {
    use crate::nbd::client::decode_error_chunk;
    assert_eq!(decode_error_chunk(b"\0\0\0\x05\0\x02no"), Ok((EIO, "no".into())));
    assert_eq!(decode_error_chunk(b"\0\0\0\x05\0\x02no\0\0\0\0\0\0\0\0"), Ok((EIO, "no".into())), "with an offset");
    assert_eq!(decode_error_chunk(b"\0\0\0\x05\0\x03no"), Err(ClientError::ErrorChunk(8)));
    assert_eq!(decode_error_chunk(b"\0\0\0\x05\0"), Err(ClientError::ErrorChunk(5)));
}

proptest! {
    #[test]
    fn request_headers_round_trip(flags: u16, command: u16, cookie: u64, offset_bytes: u64, len_bytes: u32) {
        let header = RequestHeader { flags, command, cookie, offset_bytes, len_bytes };
        prop_assert_eq!(RequestHeader::decode(&header.encode()), Ok(Some(header)));
    }

    #[test]
    fn requests_and_answers_round_trip(
        structured: bool,
        reads in prop::collection::vec((any::<u64>(), 0..DISK_BYTES - 70_000, 1u32..70_000), 1..20),
    ) {
        let (mut server, connected) = connect("disk", structured);
        prop_assert!(connected.is_ok());
        for &(cookie, offset_bytes, len_bytes) in &reads {
            let header = RequestHeader { flags: 0, command: CMD_READ, cookie, offset_bytes, len_bytes };
            let request = server.request(header, &[]);
            answer(&mut server.session, &request);
        }
        let sent = server.sent();
        let mut rest = &sent[..];
        for &(cookie, offset_bytes, len_bytes) in &reads {
            let (reply, len) = ReplyHeader::decode(rest).unwrap().unwrap();
            rest = &rest[len..];
            let failed = offset_bytes % 14 == 7;
            let data_len = match reply {
                ReplyHeader::Simple { errno, cookie: seen } => {
                    prop_assert!(!structured);
                    prop_assert_eq!((errno, seen), (if failed { EIO } else { 0 }, cookie));
                    if failed { 0 } else { len_bytes as usize }
                }
                ReplyHeader::Chunk { flags, kind, cookie: seen, len_bytes: payload } => {
                    prop_assert!(structured);
                    prop_assert_eq!((flags, seen), (REPLY_FLAG_DONE, cookie));
                    if failed {
                        prop_assert_eq!(kind, REPLY_TYPE_ERROR);
                        payload as usize
                    } else {
                        prop_assert_eq!((kind, payload), (REPLY_TYPE_OFFSET_DATA, 8 + len_bytes));
                        prop_assert_eq!(&rest[..8], &offset_bytes.to_be_bytes());
                        rest = &rest[8..];
                        len_bytes as usize
                    }
                }
            };
            if !failed {
                prop_assert_eq!(&rest[..data_len], content(offset_bytes, len_bytes));
            }
            rest = &rest[data_len..];
        }
        prop_assert!(rest.is_empty());
    }
}
