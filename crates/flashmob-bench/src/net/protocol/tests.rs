//! Encoding and decoding of peers' messages; invalid input causes errors only.

use std::time::Duration;

use flashmob_results::net::{Direction, Messages, Protocol, TcpEnd};
use proptest::prelude::*;

use super::datagram::{Arrivals, Header, answer_to, header_bytes, hello, is_answer};
use super::parameters::Parameters;
use super::results::{Extension, ExtensionStream, Results, StreamResult};
use super::*;

/// What iperf3 3.12 sends for `-P 2 --bidir -w 100K -C cubic -n 300K`.
const IPERF3: &str = r#"{"tcp":true,"omit":0,"time":0,"num":307200,"blockcount":0,"parallel":2,"bidirectional":true,"window":102400,"len":131072,"pacing_timer":1000,"congestion":"cubic","client_version":"3.12"}"#;

fn parse(text: &str) -> Result<Parameters, Malformed> {
    Parameters::parse(text.as_bytes())
}

fn parameters() -> impl Strategy<Value = Parameters> {
    let direction = prop_oneof![Just(Direction::Up), Just(Direction::Down), Just(Direction::Both)];
    let sizes = (1..=STREAMS_MAX, 0..60_u32, 0..86_400_u32, prop::option::of(1..1_u64 << 50), 16..=65_507_u32);
    let choices = (
        prop::option::of(1..1_u64 << 40),
        prop::option::of(1..1_u64 << 30),
        prop::option::of("[a-z]{1,15}"),
        any::<(bool, bool)>(),
        0..3_u8,
    );
    (direction, sizes, choices).prop_map(|(direction, (streams, omit_s, time_s, bytes, block_bytes), choices)| {
        let (rate_bits_per_second, window_bytes, congestion, (nodelay, counters_64bit), kind) = choices;
        let messages = Messages { request_bytes: 1, answer_bytes: block_bytes, depth: streams };
        let (protocol, messages, direction) = match kind {
            0 => (Protocol::Tcp, None, direction),
            1 => (Protocol::Udp, None, direction),
            _ => (Protocol::Messages, Some(messages), Direction::Up),
        };
        Parameters {
            protocol,
            direction,
            streams,
            omit_s,
            time_s,
            bytes,
            block_bytes,
            rate_bits_per_second,
            window_bytes,
            congestion,
            nodelay,
            mss_bytes: None,
            counters_64bit,
            messages,
            client_version: "flashmob 0.1.0".into(),
            is_flashmob: true,
        }
    })
}

proptest! {
    #[test]
    fn parameters_come_back_as_they_were(parameters in parameters()) {
        prop_assert_eq!(Parameters::parse(parameters.to_json().to_string().as_bytes()), Ok(parameters));
    }

    #[test]
    fn results_come_back_as_they_were(bytes in prop::collection::vec(0..1_u64 << 54, 0..20), jitter_s in 0.0..10.0, lost in 0..1_u64 << 40) {
        let streams: Vec<StreamResult> = bytes.iter().enumerate().map(|(at, &bytes)| StreamResult {
            id: stream_id(at), bytes, retransmissions: (at % 2 == 0).then_some(lost), jitter_s, errors: lost,
            omitted_errors: Some(1), packets: lost, omitted_packets: Some(2), begin_s: 0.0, end_s: jitter_s,
        }).collect();
        let extension = Extension {
            version: "0.1.0".into(),
            streams: vec![ExtensionStream { tcp: Some(TcpEnd { rtt_ms: jitter_s, ..TcpEnd::default() }), out_of_order: lost, answer_bytes: 7 }; streams.len()],
        };
        let results = Results {
            cpu_percent: jitter_s, sender_has_retransmits: 1, congestion: Some("cubic".into()), streams, flashmob: Some(extension), ..Results::default()
        };
        prop_assert_eq!(Results::parse(results.to_json().to_string().as_bytes()), Ok(results));
    }

    #[test]
    fn headers_come_back_as_they_were(seconds in any::<u32>(), micros in 0..1_000_000_u32, number in any::<u64>(), is_64bit: bool) {
        let number = if is_64bit { number } else { number & u64::from(u32::MAX) };
        let header = Header { sent: Duration::new(seconds.into(), micros * 1000), number };
        let mut datagram = [0xAA; 20];
        header.write(&mut datagram, is_64bit);
        let len = header_bytes(is_64bit);
        prop_assert_eq!(Header::read(&datagram, is_64bit), Some(header));
        prop_assert_eq!(Header::read(&datagram[..len], is_64bit), Some(header));
        prop_assert_eq!(Header::read(&datagram[..len - 1], is_64bit), None);
        prop_assert!(datagram[len..].iter().all(|&b| b == 0xAA), "no byte beyond it");
    }

    #[test]
    fn anything_is_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), numbers in prop::collection::vec(any::<u64>(), 0..50)) {
        let _ = (Parameters::parse(&bytes), Results::parse(&bytes), Header::read(&bytes, true), answer_to(&bytes));
        let mut arrivals = Arrivals::default();
        for number in numbers {
            arrivals.came(&Header { sent: Duration::from_nanos(number), number }, Duration::ZERO);
        }
        prop_assert!(arrivals.lost <= arrivals.highest && arrivals.jitter_s.is_finite());
    }

    #[test]
    fn datagrams_are_all_accounted_for(order in Just((1..=40_u64).collect::<Vec<_>>()).prop_shuffle(), lost in prop::collection::btree_set(1..=39_u64, 0..20)) {
        let mut arrivals = Arrivals::default();
        let sent: Vec<u64> = order.into_iter().filter(|n| !lost.contains(n)).collect();
        for &number in &sent {
            arrivals.came(&Header { sent: Duration::ZERO, number }, Duration::ZERO);
        }
        // In any order: a datagram that is missing below the highest number is lost, the others were received.
        prop_assert_eq!((arrivals.highest, arrivals.lost, arrivals.received), (40, lost.len() as u64, sent.len() as u64));
    }
}

#[test]
fn parameters_of_a_real_iperf3() {
    let read = parse(IPERF3).unwrap();
    assert_eq!(
        (read.protocol, read.direction, read.streams, read.bytes),
        (Protocol::Tcp, Direction::Both, 2, Some(307_200))
    );
    assert_eq!(
        (read.window_bytes, read.block_bytes, read.congestion.as_deref()),
        (Some(102_400), 131_072, Some("cubic"))
    );
    assert_eq!((read.rate_bits_per_second, read.is_flashmob, read.client_version.as_str()), (None, false, "3.12"));
    // Keys of later versions are ignored, whatever their values.
    let later = IPERF3.replace("\"omit\"", "\"repeating_payload\":[1,{\"x\":null}],\"gsro\":true,\"omit\"");
    assert_eq!(parse(&later).unwrap(), read);
    // The oldest ones send little.
    let old = parse(r#"{"tcp":true,"omit":0,"time":10,"parallel":1,"len":131072,"client_version":"3.1.3"}"#).unwrap();
    assert_eq!((old.direction, old.streams, old.time_s), (Direction::Up, 1, 10));
}

#[test]
fn results_of_a_real_iperf3() {
    let text = r#"{"cpu_util_total":5.4,"cpu_util_user":0,"cpu_util_system":5.4,"sender_has_retransmits":18446744073709551615,
        "streams":[{"id":1,"bytes":1245184,"retransmits":18446744073709551615,"jitter":0.00016,"errors":0,"packets":77,"start_time":0,"end_time":1.001047},
        {"id":3,"bytes":-5,"retransmits":-1,"jitter":"x"}]}"#;
    let read = Results::parse(text.as_bytes()).unwrap();
    assert_eq!((read.sender_has_retransmits, read.flashmob.is_none(), read.streams.len()), (-1, true, 2));
    let first = read.stream(1).unwrap();
    assert_eq!((first.bytes, first.retransmissions, first.packets, first.omitted_packets), (1_245_184, None, 77, None));
    assert_eq!(first.elapsed_s(), Some(1.001047));
    let second = read.stream(3).unwrap();
    assert_eq!((second.bytes, second.retransmissions, second.jitter_s, second.elapsed_s()), (0, None, 0.0, None));
    assert!(Results::parse(b"{}").unwrap_err().0.contains("without streams"));
}

#[test]
fn every_limit_holds_at_below_and_above() {
    let with = |key: &str, value: u64| parse(&format!(r#"{{"tcp":true,"{key}":{value}}}"#));
    assert_eq!(with("parallel", 128).unwrap().streams, 128);
    assert!(with("parallel", 129).unwrap_err().0.contains("at most 128"));
    assert!(with("parallel", 0).is_err() && with("parallel", 1).is_ok());
    assert!(with("len", 1 << 20).is_ok() && with("len", (1 << 20) + 1).is_err() && with("len", 1).is_ok());
    assert_eq!(with("len", 0).unwrap().block_bytes, 131_072, "iperf3's way to say that it does not mind");
    assert!(with("time", 86_400).is_ok() && with("time", 86_401).is_err());
    let datagrams = |len: u64| parse(&format!(r#"{{"udp":true,"len":{len}}}"#));
    assert!(datagrams(65_507).is_ok() && datagrams(65_508).is_err() && datagrams(16).is_ok() && datagrams(15).is_err());
    let messages = |bytes: u64, depth: u64| {
        parse(&format!(
            r#"{{"tcp":true,"flashmob":{{"messages":{{"request_bytes":{bytes},"answer_bytes":1,"depth":{depth}}}}}}}"#
        ))
    };
    assert!(messages(16 << 20, 65_536).is_ok());
    assert!(
        messages((16 << 20) + 1, 1).is_err()
            && messages(1, 65_537).is_err()
            && messages(0, 1).is_err()
            && messages(1, 0).is_err()
    );
    let congestion = |name: &str| parse(&format!(r#"{{"tcp":true,"congestion":"{name}"}}"#));
    assert!(congestion("fifteen-letters").is_ok() && congestion("sixteen-letters-").is_err());
    assert_eq!(json_bytes(PARAMETERS_BYTES_MAX.to_be_bytes(), PARAMETERS_BYTES_MAX), Ok(65_536));
    assert_eq!(json_bytes(1_u32.to_be_bytes(), PARAMETERS_BYTES_MAX), Ok(1));
    assert!(json_bytes((PARAMETERS_BYTES_MAX + 1).to_be_bytes(), PARAMETERS_BYTES_MAX).is_err());
    assert!(json_bytes([0; 4], 10).is_err() && json_bytes([0xFF; 4], RESULTS_BYTES_MAX).is_err());
    let streams = |count: usize| format!(r#"{{"streams":[{}]}}"#, vec![r#"{"id":1}"#; count].join(","));
    assert!(Results::parse(streams(256).as_bytes()).is_ok() && Results::parse(streams(257).as_bytes()).is_err());
}

#[test]
fn results_of_the_largest_test_fit() {
    let stream = StreamResult {
        id: u32::MAX,
        bytes: i64::MAX as u64,
        jitter_s: 1.0 / 3.0,
        end_s: 1.0 / 3.0,
        ..StreamResult::default()
    };
    let tcp = TcpEnd {
        congestion: Some("x".repeat(15)),
        rtt_ms: 1.0 / 3.0,
        packets_sent: u64::MAX,
        busy_s: 1.0 / 3.0,
        ..TcpEnd::default()
    };
    let extension = ExtensionStream { tcp: Some(tcp), out_of_order: u64::MAX, answer_bytes: u64::MAX };
    let results = Results {
        streams: vec![stream; 256],
        flashmob: Some(Extension { version: "0.1.0".into(), streams: vec![extension; 256] }),
        ..Results::default()
    };
    assert!(2 * framed(&results.to_json()).len() < RESULTS_BYTES_MAX as usize);
}

#[test]
fn what_a_peer_calls_itself_can_be_shown_and_its_counts_added_up() {
    let stream = format!(r#"{{"id":1,"bytes":{},"packets":{}}}"#, i64::MAX, i64::MAX);
    let extension = r#"{"version":"\u001b]0;mine\u0007","streams":[{"tcp":null,"out_of_order":18446744073709551615,"answer_bytes":18446744073709551615}]}"#;
    let text = format!(r#"{{"streams":[{}],"flashmob":{extension}}}"#, vec![stream; 256].join(","));
    let results = Results::parse(text.as_bytes()).unwrap();
    assert!(results.streams.iter().try_fold(0_u64, |sum, stream| sum.checked_add(stream.bytes)).is_some());
    let extension = results.flashmob.unwrap();
    assert_eq!(extension.version, "]0;mine", "without what a terminal obeys");
    assert!(extension.streams[0].answer_bytes.checked_mul(256).is_some());
    let named = |name: &str| parse(&format!(r#"{{"tcp":true,"congestion":"{name}"}}"#));
    assert!(named("bbr2_x.y-z").is_ok() && named("\\u001b[2J").is_err() && named("a b").is_err());
}

#[test]
fn states_are_their_bytes() {
    for byte in 0..=255 {
        assert!(State::of(byte).is_none_or(|state| state.byte() == byte), "{byte}");
    }
    assert_eq!(State::of(0xFF), Some(State::AccessDenied));
    for byte in [0, 3, 15, b'S', b'H', b'<', 0xFD] {
        assert_eq!(State::of(byte), None, "{byte}");
    }
}

#[test]
fn cookies_are_36_visible_letters_at_most() {
    let cookie = Cookie::new([7; 36]);
    assert_eq!(Cookie::parse(*cookie.bytes()).unwrap(), cookie);
    // Old ones are shorter, with a host's name in them.
    let mut old = [0; COOKIE_BYTES];
    old[..20].copy_from_slice(b"tablet.1234567.00123");
    assert!(Cookie::parse(old).is_ok());
    old[30] = b'x';
    assert!(Cookie::parse(old).is_err(), "nothing comes after the end");
    assert!(Cookie::parse([0; COOKIE_BYTES]).is_err() && Cookie::parse([b'a'; COOKIE_BYTES]).is_err());
    let mut http = [0; COOKIE_BYTES];
    http[..36].copy_from_slice(b"GET / HTTP/1.1\r\nHost: somewhere.org\r");
    assert!(Cookie::parse(http).is_err());
}

#[test]
fn streams_have_iperf3s_numbers() {
    assert_eq!([0, 1, 2, 3].map(stream_id), [1, 3, 4, 5]);
}

#[test]
fn hellos_are_answered_in_their_own_order_of_bytes() {
    assert_eq!((answer_to(b"9876"), answer_to(b"6789")), (Some(*b"6789"), Some(*b"9876")));
    assert!(
        is_answer(b"6789") && is_answer(b"9876") && is_answer(&987_654_321_u32.to_be_bytes()) && !is_answer(b"678")
    );
    assert_eq!(answer_to(&123_456_789_u32.to_le_bytes()), Some(987_654_321_u32.to_le_bytes()));
    assert_eq!(answer_to(&123_456_789_u32.to_be_bytes()), Some(987_654_321_u32.to_be_bytes()));
    assert!(answer_to(&hello()).is_some() && answer_to(b"98765").is_none() && answer_to(b"").is_none());
}

#[test]
fn jitter_is_that_of_rfc_3550() {
    let mut arrivals = Arrivals::default();
    let ms = Duration::from_millis;
    // Transit times of 5, 5, 21 ms: differences of 0 and 16 ms.
    for (number, sent, came) in [(1, 0, 5), (2, 10, 15), (3, 20, 41)] {
        arrivals.came(&Header { sent: ms(sent), number }, ms(came));
    }
    assert!((arrivals.jitter_s - 0.001).abs() < 1e-9, "{}", arrivals.jitter_s);
}
