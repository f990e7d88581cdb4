//! Metadata contexts and block status.

use super::*;
use crate::nbd::client::{ReplyHeader, decode_block_status};
use crate::nbd::reply;
use crate::op::OpFlags;
use proptest::prelude::*;

/// The data of an option on metadata contexts.
fn context_data(name: &str, queries: &[&str]) -> Vec<u8> {
    let mut data = Vec::new();
    let mut put = |text: &str| {
        data.extend_from_slice(&(text.len() as u32).to_be_bytes());
        data.extend_from_slice(text.as_bytes());
    };
    put(name);
    let at = 4 + name.len();
    queries.iter().for_each(|query| put(query));
    data.splice(at..at, (queries.len() as u32).to_be_bytes());
    data
}

fn kinds(replies: &[OptionReply]) -> Vec<u32> {
    replies.iter().map(|reply| reply.kind).collect()
}

fn with_structured_replies() -> Server {
    let mut server = Server::with_flags(FLAG_C_FIXED_NEWSTYLE | FLAG_C_NO_ZEROES);
    assert_eq!(kinds(&server.option(OPT_STRUCTURED_REPLY, &[])), [REP_ACK]);
    server
}

/// Whether a request for block status is accepted after this.
fn may_map(mut server: Server, export: &str) -> bool {
    server.rx.extend(&option(OPT_GO, &go_data(export, &[])));
    assert!(matches!(server.next(), Ok(Event::Opened { .. })));
    server.sent();
    server.rx.extend(&header(CMD_BLOCK_STATUS, 0, 0, 512).encode());
    match server.next() {
        Ok(Event::Request { request, .. }) => request.op == Op::Map,
        Ok(Event::NeedMore) => false,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_context_is_chosen_by_its_name_for_one_export() {
    for (queries, is_chosen) in [
        (&["base:allocation"][..], true),
        (&["qemu:dirty-bitmap:x", "base:allocation"], true),
        (&[], false),
        (&["base:"], false),
        (&["base:allocation "], false),
        (&[""], false),
    ] {
        let mut server = with_structured_replies();
        let replies = server.option(OPT_SET_META_CONTEXT, &context_data("disk", queries));
        let expected = if is_chosen { vec![REP_META_CONTEXT, REP_ACK] } else { vec![REP_ACK] };
        assert_eq!(kinds(&replies), expected, "{queries:?}");
        if is_chosen {
            assert_eq!(replies[0].data, [&reply::ALLOCATION_ID.to_be_bytes()[..], b"base:allocation"].concat());
        }
        assert_eq!(may_map(server, "disk"), is_chosen, "{queries:?}");
    }
    let chosen = || {
        let mut server = with_structured_replies();
        server.option(OPT_SET_META_CONTEXT, &context_data("disk", &["base:allocation"]));
        server
    };
    assert!(may_map(chosen(), ""), "the same export by its other name");
    assert!(!may_map(chosen(), "rom"), "another export");
    // The last choice counts, even one that failed.
    for data in
        [context_data("disk", &[]), context_data("nope", &["base:allocation"]), b"\0\0".to_vec(), vec![0; 65_537]]
    {
        let mut server = chosen();
        server.option(OPT_SET_META_CONTEXT, &data);
        assert!(!may_map(server, "disk"));
    }
    // A list chooses nothing, and ends no choice.
    let mut server = chosen();
    server.option(OPT_LIST_META_CONTEXT, &context_data("rom", &[]));
    assert!(may_map(server, "disk"));
}

#[test]
fn contexts_are_listed_by_name_by_namespace_or_all() {
    let mut server = Server::with_flags(FLAG_C_FIXED_NEWSTYLE);
    for (queries, is_listed) in
        [(&[][..], true), (&["base:"], true), (&["base:allocation"], true), (&["qemu:"], false), (&["base"], false)]
    {
        let replies = server.option(OPT_LIST_META_CONTEXT, &context_data("disk", queries));
        assert_eq!(replies.len(), 1 + usize::from(is_listed), "{queries:?}");
        assert_eq!(replies.last().unwrap().kind, REP_ACK);
    }
}

#[test]
fn wrong_options_on_contexts_are_refused() {
    let mut server = Server::with_flags(FLAG_C_FIXED_NEWSTYLE | FLAG_C_NO_ZEROES);
    let good = context_data("disk", &["base:allocation"]);
    assert_eq!(kinds(&server.option(OPT_SET_META_CONTEXT, &good)), [REP_ERR_INVALID], "without structured replies");
    let mut server = with_structured_replies();
    for number in [OPT_LIST_META_CONTEXT, OPT_SET_META_CONTEXT] {
        let refused = |server: &mut Server, data: &[u8]| kinds(&server.option(number, data));
        for len in 0..good.len() {
            assert_eq!(refused(&mut server, &good[..len]), [REP_ERR_INVALID], "cut at {len}");
        }
        assert_eq!(refused(&mut server, &[&good[..], b"x"].concat()), [REP_ERR_INVALID]);
        assert_eq!(refused(&mut server, &context_data("nope", &[])), [REP_ERR_UNKNOWN]);
        assert_eq!(refused(&mut server, &context_data("a\0b", &[])), [REP_ERR_INVALID]);
        for (len, expected) in [(4096, REP_ACK), (4097, REP_ERR_TOO_BIG)] {
            assert_eq!(refused(&mut server, &context_data("disk", &[&"q".repeat(len)])), [expected]);
        }
    }
}

#[test]
fn block_status_takes_any_length_within_the_export_and_one_extent_on_request() {
    let mut server = with_structured_replies();
    server.option(OPT_SET_META_CONTEXT, &context_data("disk", &["base:allocation"]));
    server.rx.extend(&option(OPT_GO, &go_data("disk", &[])));
    assert!(matches!(server.next(), Ok(Event::Opened { .. })));
    server.sent();
    for (flags, expected) in [(0, OpFlags::NONE), (CMD_FLAG_REQ_ONE, OpFlags::ONE_RUN), (CMD_FLAG_FUA, OpFlags::NONE)] {
        let request = server.request(header(CMD_BLOCK_STATUS, flags, 0, DISK_BYTES as u32), &[]);
        assert_eq!((request.op, request.flags, request.len_bytes), (Op::Map, expected, DISK_BYTES as u32));
    }
    let rejected =
        [(0, DISK_BYTES, 1), (0, DISK_BYTES - 1, 2), (0, 0, 0), (CMD_FLAG_NO_HOLE, 0, 1), (CMD_FLAG_DF, 0, 1)];
    for (flags, offset_bytes, len_bytes) in rejected {
        server.rx.extend(&header(CMD_BLOCK_STATUS, flags, offset_bytes, len_bytes).encode());
        assert_eq!(server.next(), Ok(Event::NeedMore), "refused: {flags} {offset_bytes} {len_bytes}");
        assert_ne!(server.sent(), [0_u8; 0]);
    }
}

proptest! {
    #[test]
    fn block_status_round_trips(runs in prop::collection::vec((1u32.., any::<bool>()), 1..50), cookie: u64) {
        let mut server = Server::open("disk", true);
        server.session.reply_map(cookie, &runs);
        let sent = server.sent();
        let (header, len) = ReplyHeader::decode(&sent).unwrap().unwrap();
        let len_bytes = sent.len() as u32 - len as u32;
        let expected =
            ReplyHeader::Chunk { flags: REPLY_FLAG_DONE, kind: REPLY_TYPE_BLOCK_STATUS, cookie, len_bytes };
        prop_assert_eq!(header, expected);
        let (context, extents) = decode_block_status(&sent[len..]).unwrap();
        prop_assert_eq!(context, reply::ALLOCATION_ID);
        let expected: Vec<(u32, u32)> =
            runs.iter().map(|&(len, is_hole)| (len, if is_hole { STATE_HOLE | STATE_ZERO } else { 0 })).collect();
        prop_assert_eq!(extents, expected);
        prop_assert!(decode_block_status(&sent[len..sent.len() - 1]).is_err());
        prop_assert!(decode_block_status(&sent[len..len + 4]).is_err(), "no extent");
    }

    #[test]
    fn options_on_contexts_survive_anything(data in prop::collection::vec(any::<u8>(), 0..200), is_choice: bool) {
        let mut server = with_structured_replies();
        let number = if is_choice { OPT_SET_META_CONTEXT } else { OPT_LIST_META_CONTEXT };
        prop_assert!(!server.option(number, &data).is_empty());
    }
}
