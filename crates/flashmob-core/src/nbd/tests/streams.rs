//! However a stream of bytes is cut, it means the same.

use super::*;
use crate::nbd::UNREAD_BYTES_MAX;
use proptest::prelude::*;

/// Everything that a session made of a stream.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Heard {
    pub(super) requests: Vec<Request>,
    pub(super) opened: Option<usize>,
    pub(super) end: Option<Result<(), SessionError>>,
    pub(super) sent: Vec<u8>,
}

/// Feeds the stream in pieces of these lengths, over and over; answers requests at once and sends at once. Every
/// request is made to wait once for the budget.
pub(super) fn hear(stream: &[u8], cuts: &[usize]) -> Heard {
    let mut session = Session::default();
    let (mut rx, mut budget) = (RxBuf::new(), Budget::new(1));
    let mut heard = Heard { requests: Vec::new(), opened: None, end: None, sent: Vec::new() };
    let mut rest = stream;
    for &cut in cuts.iter().cycle() {
        let (piece, later) = rest.split_at(cut.min(rest.len()));
        rx.extend(piece);
        rest = later;
        assert!(budget.try_reserve(1) || budget.used_bytes() > 1, "held by nobody, or by a write that is arriving");
        let mut obstacle = budget.used_bytes() == 1;
        loop {
            match session.next(&mut rx, &Shelf, &mut budget) {
                Ok(Event::NeedMore) => break,
                Ok(Event::Blocked) if obstacle => {
                    budget.release(1);
                    obstacle = false;
                }
                Ok(Event::Blocked) => {
                    assert!(session.out().len() >= UNREAD_BYTES_MAX, "an empty budget lets anything pass");
                    heard.sent.extend_from_slice(&session.out_mut().take_all());
                }
                Ok(Event::Opened { export }) => heard.opened = Some(export),
                Ok(Event::Request { request, reserved_bytes }) => {
                    budget.release(reserved_bytes);
                    answer(&mut session, &request);
                    heard.requests.push(request);
                }
                Ok(Event::WaitsToArrive) => unreachable!("there is room for all"),
                Ok(Event::StartTls) => unreachable!("it was not demanded"),
                Ok(Event::Closed) => {
                    heard.end = Some(Ok(()));
                    break;
                }
                Err(error) => {
                    heard.end = Some(Err(error));
                    break;
                }
            }
        }
        if obstacle {
            budget.release(1);
        }
        heard.sent.extend_from_slice(&session.out_mut().take_all());
        if heard.end.is_some() || rest.is_empty() {
            break;
        }
    }
    session.abandon(&mut budget);
    assert_eq!(budget.used_bytes(), 0, "everything is given back");
    heard
}

fn options() -> impl Strategy<Value = Vec<u8>> {
    let name = prop_oneof![Just("disk"), Just(""), Just("nope"), Just("cold")];
    prop_oneof![
        Just(option(OPT_LIST, &[])),
        Just(option(OPT_STRUCTURED_REPLY, &[])),
        (name, prop::collection::vec(0u16..6, 0..4)).prop_map(|(name, kinds)| option(OPT_INFO, &go_data(name, &kinds))),
        (0u32..14, prop::collection::vec(any::<u8>(), 0..40))
            .prop_filter("must not end the haggling", |(number, _)| ![1, 2].contains(number))
            .prop_map(|(number, data)| option(number, &data)),
        (70_000usize..80_000).prop_map(|len| option(OPT_GO, &vec![1; len])),
    ]
}

fn requests() -> impl Strategy<Value = Vec<u8>> {
    let command = prop_oneof![9 => prop::sample::select(vec![0u16, 1, 3, 4, 6]), 1 => 5u16..12];
    let flags = prop_oneof![4 => Just(0u16), 1 => 0u16..64];
    let offset = prop_oneof![8 => 0..DISK_BYTES, 1 => DISK_BYTES - 3000..DISK_BYTES + 10, 1 => any::<u64>()];
    let len = prop_oneof![8 => 0u32..3000, 1 => 0u32..100_000];
    (command, flags, any::<u64>(), offset, len).prop_map(|(command, flags, cookie, offset_bytes, len_bytes)| {
        let header = RequestHeader { flags, command, cookie, offset_bytes, len_bytes };
        let mut bytes = header.encode().to_vec();
        bytes.extend_from_slice(&content(cookie % 1000, header.payload_bytes()));
        bytes
    })
}

/// A whole session of a client that makes mistakes but keeps to the form.
pub(super) fn streams() -> impl Strategy<Value = Vec<u8>> {
    let open = prop_oneof![
        Just(option(OPT_EXPORT_NAME, b"disk")),
        Just(option(OPT_EXPORT_NAME, b"rom")),
        Just(option(OPT_GO, &go_data("", &[3]))),
    ];
    let end = prop_oneof![
        Just(Vec::new()),
        Just(header(CMD_DISC, 0, 0, 0).encode().to_vec()),
        prop::collection::vec(any::<u8>(), 0..40),
    ];
    let parts = (1u32..4, prop::collection::vec(options(), 0..5), open, prop::collection::vec(requests(), 0..25), end);
    parts.prop_map(|(flags, options, open, requests, end)| {
        let mut stream = flags.to_be_bytes().to_vec();
        stream.extend(options.concat());
        stream.extend(open);
        stream.extend(requests.concat());
        stream.extend(end);
        stream
    })
}

fn cuts() -> impl Strategy<Value = Vec<usize>> {
    prop_oneof![Just(vec![1]), prop::collection::vec(1usize..64, 1..20), prop::collection::vec(1usize..100_000, 1..10),]
}

proptest! {
    #[test]
    fn any_chunking_gives_the_same_events_and_bytes(stream in streams(), cuts in cuts()) {
        let whole = hear(&stream, &[stream.len().max(1)]);
        let fixed_newstyle = stream[3] & 1 != 0;
        prop_assert!(whole.opened.is_some() || !fixed_newstyle);
        let cut = hear(&stream, &cuts);
        prop_assert_eq!(whole, cut);
    }
}
