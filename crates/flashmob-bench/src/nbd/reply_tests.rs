//! The decoder: every chunking gives the same answers, and nothing that a server sends makes it panic.

use super::*;
use proptest::prelude::*;

#[derive(Default, Debug, PartialEq, Eq, Clone)]
struct Got {
    /// Received bytes of each request, by its offset.
    data: std::collections::BTreeMap<u64, Vec<u8>>,
    done: Vec<(u64, Result<(), ServerError>)>,
}

impl Replies for Got {
    fn data(&mut self, request: &Request, offset_bytes: u64, bytes: &[u8]) {
        let begin = (offset_bytes - request.offset_bytes) as usize;
        let into = self.data.entry(request.offset_bytes).or_insert_with(|| vec![0xee; request.len_bytes as usize]);
        into[begin..begin + bytes.len()].copy_from_slice(bytes);
    }

    fn done(&mut self, request: &Request, outcome: Result<(), &ServerError>, _at: Instant) {
        self.done.push((request.offset_bytes, outcome.map_err(Clone::clone)));
    }
}

struct Bench {
    decoder: ReplyDecoder,
    slots: Slots,
    got: Got,
}

impl Bench {
    fn new(structured: bool) -> Bench {
        Bench { decoder: ReplyDecoder::new(structured), slots: Slots::new(8), got: Got::default() }
    }

    fn ask(&mut self, op: Op, offset_bytes: u64, len_bytes: u32) -> u64 {
        let submitted = Instant::now();
        self.slots.take(Request { op, offset_bytes, len_bytes, submitted }).expect("a free slot")
    }

    /// Feeds `bytes` in pieces of `step`; returns the number of bytes left undecoded.
    fn feed(&mut self, bytes: &[u8], step: usize) -> Result<usize, String> {
        let mut waiting = Vec::new();
        for piece in bytes.chunks(step.max(1)) {
            waiting.extend_from_slice(piece);
            let used = self.decoder.decode(&waiting, &mut self.slots, Instant::now(), &mut self.got)?;
            waiting.drain(..used);
        }
        Ok(waiting.len())
    }

    fn complaint(&mut self, bytes: &[u8]) -> String {
        self.feed(bytes, usize::MAX).expect_err("a bad reply")
    }
}

fn simple(cookie: u64, errno: u32) -> Vec<u8> {
    [&p::SIMPLE_REPLY_MAGIC.to_be_bytes()[..], &errno.to_be_bytes(), &cookie.to_be_bytes()].concat()
}

fn chunk(cookie: u64, last: bool, kind: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = p::STRUCTURED_REPLY_MAGIC.to_be_bytes().to_vec();
    bytes.extend_from_slice(&u16::from(last).to_be_bytes());
    bytes.extend_from_slice(&kind.to_be_bytes());
    bytes.extend_from_slice(&cookie.to_be_bytes());
    bytes.extend_from_slice(&(payload.len() as u32).to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

fn data(cookie: u64, last: bool, offset: u64, bytes: &[u8]) -> Vec<u8> {
    chunk(cookie, last, p::REPLY_TYPE_OFFSET_DATA, &[&offset.to_be_bytes(), bytes].concat())
}

fn hole(cookie: u64, last: bool, offset: u64, len: u32) -> Vec<u8> {
    chunk(cookie, last, p::REPLY_TYPE_OFFSET_HOLE, &[&offset.to_be_bytes()[..], &len.to_be_bytes()].concat())
}

fn error(cookie: u64, last: bool, errno: u32, text: &[u8]) -> Vec<u8> {
    let payload = [&errno.to_be_bytes()[..], &(text.len() as u16).to_be_bytes(), text].concat();
    chunk(cookie, last, p::REPLY_TYPE_FLAG_ERROR | 1, &payload)
}

proptest! {
    #[test]
    fn simple_replies_mean_the_same_in_any_pieces(step in 1usize..60) {
        let mut bench = Bench::new(false);
        let read = bench.ask(Op::Read, 100, 40);
        let write = bench.ask(Op::Write, 300, 5);
        let bad = bench.ask(Op::Read, 500, 7);
        let body: Vec<u8> = (0..40).collect();
        let bytes = [simple(write, 0), simple(read, 0), body.clone(), simple(bad, 5)].concat();
        prop_assert_eq!(bench.feed(&bytes, step), Ok(0));
        prop_assert_eq!(&bench.got.data[&100], &body);
        let eio = ServerError { errno: Errno(5), text: String::new() };
        prop_assert_eq!(&bench.got.done, &vec![(300, Ok(())), (100, Ok(())), (500, Err(eio))]);
        prop_assert_eq!(bench.slots.taken(), 0);
        prop_assert!(matches!(bench.decoder.state, State::Header));
    }

    #[test]
    fn structured_replies_mean_the_same_in_any_pieces_and_order(step in 1usize..90, order in Just([0usize, 1, 2, 3, 4]).prop_shuffle()) {
        let mut bench = Bench::new(true);
        let read = bench.ask(Op::Read, 1000, 30);
        let bad = bench.ask(Op::Read, 2000, 30);
        let body: Vec<u8> = (1..=30).collect();
        let mut expected = body.clone();
        expected[10..20].fill(0);
        let parts = [
            data(read, false, 1000, &body[..10]),
            hole(read, false, 1010, 10),
            data(read, false, 1020, &body[20..]),
            data(bad, false, 2003, &body[..5]),
            error(bad, false, 28, b"disk full"),
        ];
        let mut bytes: Vec<u8> = order.iter().flat_map(|&i| parts[i].clone()).collect();
        bytes.extend(chunk(bad, true, p::REPLY_TYPE_NONE, &[]));
        bytes.extend(chunk(read, true, p::REPLY_TYPE_NONE, &[]));
        prop_assert_eq!(bench.feed(&bytes, step), Ok(0));
        prop_assert_eq!(&bench.got.data[&1000], &expected);
        let full = ServerError { errno: Errno(28), text: "disk full".into() };
        prop_assert_eq!(&bench.got.done, &vec![(2000, Err(full)), (1000, Ok(()))]);
    }

    #[test]
    fn nothing_makes_the_decoder_panic(structured: bool, noise in prop::collection::vec(any::<u8>(), 0..100), kind in prop_oneof![0u16..7, 32767u16..32772], flags in 0u16..4, len in 0u32..60, offset in 0u64..200, slot in 0u64..4, step in 1usize..50) {
        let mut bench = Bench::new(structured);
        let cookies = [bench.ask(Op::Read, 100, 40), bench.ask(Op::Write, 10, 5), bench.ask(Op::Read, 7, 1), 9];
        let cookie = cookies[slot as usize];
        let mut bytes = chunk(cookie, flags & 1 == 1, kind, &[&offset.to_be_bytes()[..], &noise].concat());
        bytes[16..20].copy_from_slice(&len.to_be_bytes());
        let _ = bench.feed(&[bytes, simple(cookie, len), noise].concat(), step);
    }
}

#[test]
fn a_reply_to_nobody_or_twice_is_an_error() {
    let mut bench = Bench::new(false);
    let cookie = bench.ask(Op::Write, 0, 1);
    assert!(bench.complaint(&simple(cookie + 1, 0)).contains("no request is waiting"));
    assert_eq!(bench.feed(&simple(cookie, 0), 99), Ok(0));
    let again = bench.ask(Op::Write, 0, 1);
    assert_ne!(again, cookie);
    assert!(bench.complaint(&simple(cookie, 0)).contains("no request is waiting"));
}

#[test]
fn kinds_of_reply_that_were_not_agreed_are_errors() {
    let mut plain = Bench::new(false);
    let cookie = plain.ask(Op::Read, 0, 4);
    assert!(plain.complaint(&data(cookie, true, 0, b"abcd")).contains("none was agreed"));
    let mut structured = Bench::new(true);
    let cookie = structured.ask(Op::Read, 0, 4);
    assert!(structured.complaint(&simple(cookie, 0)).contains("simple reply to a read"));
    let cookie = structured.ask(Op::Flush, 0, 0);
    assert_eq!(structured.feed(&simple(cookie, 0), 99), Ok(0), "a simple reply to anything else is allowed");
    assert!(plain.complaint(&[0xab; 16]).contains("0xabababab"));
}

#[test]
fn structured_data_must_be_the_request_and_nothing_else() {
    let read = |parts: &dyn Fn(u64) -> Vec<Vec<u8>>| {
        let mut bench = Bench::new(true);
        let cookie = bench.ask(Op::Read, 100, 8);
        bench.feed(&parts(cookie).concat(), usize::MAX).map(|_| bench.got.done.len())
    };
    assert_eq!(read(&|c| vec![data(c, true, 100, &[1; 8])]), Ok(1));
    assert_eq!(read(&|c| vec![hole(c, true, 100, 8)]), Ok(1));
    for (part, parts) in [
        ("leaves bytes out", &(|c| vec![data(c, true, 100, &[1; 7])]) as &dyn Fn(u64) -> Vec<Vec<u8>>),
        ("leaves bytes out", &|c| vec![data(c, true, 101, &[1; 7])]),
        ("leaves bytes out", &|c| vec![chunk(c, true, p::REPLY_TYPE_NONE, &[])]),
        ("overlapping", &|c| vec![data(c, false, 100, &[1; 5]), data(c, true, 104, &[1; 4])]),
        ("overlapping", &|c| (0..9).map(|_| data(c, false, 100, &[1])).collect()),
        ("bytes of data at", &|c| vec![data(c, true, 100, &[1; 9])]),
        ("bytes of data at", &|c| vec![data(c, true, 99, &[1; 2])]),
        ("bytes of data at", &|c| vec![data(c, true, 108, &[1])]),
        ("bytes of data at", &|c| vec![data(c, true, u64::MAX, &[1])]),
        ("bytes of data at", &|c| vec![hole(c, true, 100, 9)]),
        ("bytes of data at", &|c| vec![hole(c, true, 100, 0)]),
        ("claims 8 bytes", &|c| vec![data(c, true, 100, &[])]),
        ("claims 3 bytes", &|c| vec![chunk(c, true, p::REPLY_TYPE_OFFSET_HOLE, &[0; 3])]),
        ("NONE", &|c| vec![chunk(c, false, p::REPLY_TYPE_NONE, &[])]),
        ("NONE", &|c| vec![chunk(c, true, p::REPLY_TYPE_NONE, &[0])]),
        ("unknown type 5", &|c| vec![chunk(c, true, 5, &[0; 12])]),
        ("number 0", &|c| vec![error(c, true, 0, b"")]),
        ("claims 5 bytes", &|c| vec![chunk(c, true, p::REPLY_TYPE_FLAG_ERROR | 1, &[0; 5])]),
        ("shorter than its own text", &|c| vec![chunk(c, true, p::REPLY_TYPE_FLAG_ERROR | 1, &[0, 0, 0, 5, 0, 1])]),
        ("too many errors", &|c| (0..65).map(|_| error(c, false, 5, b"")).collect()),
    ] {
        let complaint = read(parts).expect_err(part);
        assert!(complaint.contains(part), "{part}: {complaint}");
    }
    let mut bench = Bench::new(true);
    let cookie = bench.ask(Op::Write, 100, 8);
    assert!(bench.complaint(&data(cookie, true, 100, &[1; 8])).contains("in reply to a write"));
}

#[test]
fn the_longest_error_text_is_taken_and_a_longer_one_not() {
    let mut bench = Bench::new(true);
    let cookie = bench.ask(Op::Read, 0, 1);
    let mut longest = [&5u32.to_be_bytes()[..], &4096u16.to_be_bytes(), &[b'x'; 4096], &[0; 8]].concat();
    assert_eq!(bench.feed(&chunk(cookie, true, p::REPLY_TYPE_FLAG_ERROR | 2, &longest), 1000), Ok(0));
    assert_eq!(bench.got.done[0].1.as_ref().unwrap_err().text.len(), 4096);
    let cookie = bench.ask(Op::Read, 0, 1);
    longest.push(0);
    assert!(bench.complaint(&chunk(cookie, true, p::REPLY_TYPE_FLAG_ERROR | 2, &longest)).contains("4111 bytes"));
}
