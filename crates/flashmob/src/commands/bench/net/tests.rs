//! Arguments, points and lines.

use std::time::Duration;

use clap::Parser;
use flashmob_results::cluster::Lateness;
use flashmob_results::latency::{Latency, histogram};
use flashmob_results::net::{
    Direction, Exchange, Flow, Interval, Messages, Parameters, Protocol, Repetition, Stream, TcpEnd, Udp,
};
use flashmob_results::warning::Code;

use super::args::{NetArgs, host_and_port, rate};
use super::{lines, record};

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    net: NetArgs,
}

fn parse(line: &str) -> Result<NetArgs, clap::Error> {
    Line::try_parse_from(["net"].into_iter().chain(line.split_whitespace())).map(|line| line.net)
}

fn points(line: &str) -> Vec<Parameters> {
    parse(line).unwrap().load.points(None).unwrap()
}

#[test]
fn options_are_those_that_iperf3s_users_know() {
    let args = parse("-c host -t 3 -P 2 -R -w 64K -C cubic -O 1 -i 0.5 -p 5300 -B 10.0.0.1").unwrap();
    assert_eq!((args.port, args.load.omit, args.load.reverse), (5300, std::time::Duration::from_secs(1), true));
    let point = args.load.points(None).unwrap().remove(0);
    assert_eq!((point.direction, point.streams, point.window_bytes), (Direction::Down, 2, Some(65_536)));
    assert_eq!((point.congestion.as_deref(), point.block_bytes), (Some("cubic"), 131_072));
    assert!(parse("-s -1 -p 0").unwrap().one_off);
    let longest = |line: &str| parse(line).unwrap().longest.as_secs();
    assert_eq!((longest("-s"), longest("-s --longest 2"), longest("-s --longest 24h")), (300, 2, 86_400));
    for wrong in [
        "",
        "-s -c host",
        "-c host -R --bidir",
        "-c host -t 3 -n 1M",
        "-c host -u --messages 1:1:1",
        "-c host -P 0",
        "-c host -P 129",
        "-c host -O 61",
        "-c host -1",
        "-c host --longest 5m",
        "--rtt 1 --longest 5m",
        "-s --longest 0",
        "-s --longest 24h1s",
        "-c host --messages 1:1",
        "-c host --messages 0:1:1",
        "-c host --messages 1:1:65537",
        "-c host -u -C cubic",
    ] {
        assert!(parse(wrong).is_err(), "{wrong}");
    }
    assert!(parse("-c host -P 128").is_ok() && parse("-c host --messages 16M:16M:65536").is_ok());
}

#[test]
fn lists_make_all_combinations() {
    let all = points("-c host --direction up,both -P 1,4 -C reno,cubic,bbr -w 64K,1M --rate 0,10M");
    assert_eq!(all.len(), 2 * 2 * 3 * 2 * 2);
    assert_eq!((all[0].rate_bits_per_second, all[1].rate_bits_per_second), (None, Some(10_000_000)));
    let udp = points("-c host -u");
    assert_eq!((udp[0].protocol, udp[0].rate_bits_per_second), (Protocol::Udp, Some(1_000_000)), "as iperf3 does");
    assert_eq!(points("-c host -u -b 0")[0].rate_bits_per_second, None);
    let messages = points("-c host --messages 40:4k:1,40:4k:32");
    let expected = Messages { request_bytes: 40, answer_bytes: 4096, depth: 32 };
    assert_eq!((messages[1].protocol, messages[1].messages), (Protocol::Messages, Some(expected)));
    let length = |line: &str| parse(line).unwrap().load.points(None).map(|p| p[0].block_bytes);
    assert_eq!(length("-c host -u -l 65507").unwrap(), 65_507);
    assert!(length("-c host -u -l 65508").unwrap_err().to_string().contains("16 to 65507"));
    assert!(length("-c host -u -l 15").is_err() && length("-c host -l 15").is_ok() && length("-c host -l 2M").is_err());
}

#[test]
fn hosts_and_ports_as_people_write_them() {
    for (text, host, port) in [
        ("tablet", "tablet", 1),
        ("tablet:99", "tablet", 99),
        ("10.0.0.1:99", "10.0.0.1", 99),
        ("fe80::1", "fe80::1", 1),
        ("[fe80::1]", "fe80::1", 1),
        ("[::1]:99", "::1", 99),
    ] {
        assert_eq!(host_and_port(text, 1).unwrap(), (host.to_string(), port), "{text}");
    }
    assert!(host_and_port("tablet:x", 1).is_err() && host_and_port("tablet:0", 1).is_err());
}

#[test]
fn rates_are_decimal() {
    for (text, bits) in [("0", 0), ("1M", 1_000_000), ("2.5g", 2_500_000_000), ("500Kbit/s", 500_000), ("7", 7)] {
        assert_eq!(rate(text), Ok(bits), "{text}");
    }
    for wrong in ["", "M", "-1", "1T", "1e9", "1 apple", "99999999999999G"] {
        assert!(rate(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn figures_have_three_digits() {
    let bits: Vec<String> = [0.0, 999.4, 1000.0, 9_994e3, 99.96e6, 123.4e9].map(lines::bits).to_vec();
    assert_eq!(bits, ["0 bit/s", "999 bit/s", "1 kbit/s", "9.99 Mbit/s", "100 Mbit/s", "123 Gbit/s"]);
    assert_eq!([1023, 1024, 5 << 30].map(lines::transfer), ["1023 Bytes", "1 KBytes", "5 GBytes"]);
}

fn interval(stream: u32, direction: Direction, tcp: Option<TcpEnd>, udp: Option<Udp>) -> Interval {
    let (bytes, bits_per_second) = (1_000_000, 8e6);
    Interval { stream, direction, begin_s: 1.0, end_s: 2.0, bytes, bits_per_second, omitted: stream == 2, tcp, udp }
}

#[test]
fn each_way_has_its_sum() {
    let parameters = &points("-c host --bidir -P 2")[0];
    let tcp = TcpEnd { retransmissions: 3, congestion_window_bytes: 2048, rtt_ms: 1.5, ..TcpEnd::default() };
    let all = [(1, Direction::Up), (2, Direction::Up), (3, Direction::Down), (4, Direction::Down)]
        .map(|(stream, way)| interval(stream, way, Some(tcp.clone()), None));
    let text = lines::intervals(&all, parameters);
    let rows: Vec<&str> = text.lines().collect();
    assert_eq!(rows.len(), 6, "{text}");
    assert!(rows[0].starts_with("[  1][up  ]") && rows[0].contains("2 KBytes") && rows[0].contains("1.50 ms"));
    assert!(rows[1].ends_with("(omitted)") && rows[2].starts_with("[  3][down]") && !rows[2].contains("1.50 ms"));
    assert!(rows[4].starts_with("[SUM][up  ]") && rows[4].contains("16 Mbit/s") && rows[4].ends_with(" 6"), "{text}");
    assert!(rows[5].starts_with("[SUM][down]"));
    let udp = Udp { sent: 100, lost: 5, out_of_order: 0, jitter_ms: 0.25 };
    let text = lines::intervals(&[interval(1, Direction::Down, None, Some(udp))], &points("-c host -u -R")[0]);
    assert!(text.contains("0.250 ms  5/100 (5.00%)"), "{text}");
}

fn repetition(bits_per_second: f64, udp: Option<Udp>) -> Repetition {
    let mut latencies = histogram();
    latencies.record_n(2_000_000, 1000).unwrap();
    let direction = Direction::Up;
    Repetition {
        begin_s: 0.0,
        elapsed_s: 1.0,
        peer: "iperf3".into(),
        flows: vec![Flow {
            direction,
            sent_bytes: 1000,
            received_bytes: 900,
            sent_bits_per_second: bits_per_second,
            received_bits_per_second: bits_per_second,
            retransmissions: udp.is_none().then_some(4),
            udp,
        }],
        streams: vec![Stream {
            id: 1,
            direction,
            sent_bytes: 1000,
            received_bytes: 900,
            sender: None,
            receiver: None,
            udp,
        }],
        intervals: Vec::new(),
        exchange: Some(Exchange { requests: 1000, requests_per_second: 1000.0, latency_ns: Latency::new(&latencies) }),
        cpu_s: 0.5,
        peer_cpu_s: None,
        lateness: None,
        is_void: false,
    }
}

fn document(parameters: &Parameters, repetitions: Vec<Repetition>) -> flashmob_results::Document {
    let subject = record::Subject {
        setting: flashmob_results::cluster::Setting::Network,
        server: "host:5201".into(),
        label: Some("home".into()),
        repeat: 2,
        omit: Duration::ZERO,
        begun: crate::commands::tell::Begun::now(),
        interrupted: false,
    };
    record::document(subject, vec![(parameters.clone(), repetitions)], None)
}

#[test]
fn sums_tell_both_ends() {
    let text = lines::sums(&repetition(8000.0, None), &points("-c host")[0]);
    assert!(text.contains("1000 Bytes") && text.contains("4  sender") && text.contains("900 Bytes"), "{text}");
    assert!(text.contains("1000/s; latency p50 2.0") && text.contains("the other end is iperf3"), "{text}");
}

#[test]
fn what_is_doubtful_is_said() {
    let codes = |parameters: &Parameters, repetitions: Vec<Repetition>| -> Vec<Code> {
        let document = document(parameters, repetitions);
        document.net().unwrap().points[0].warnings.iter().map(|w| w.code).collect()
    };
    let tcp = &points("-c host")[0];
    assert_eq!(codes(tcp, vec![repetition(1e6, None), repetition(1.05e6, None)]), []);
    let mut unlike = repetition(2e6, None);
    unlike.exchange.as_mut().unwrap().requests_per_second = 3000.0;
    assert_eq!(codes(tcp, vec![repetition(1e6, None), unlike]), [Code::WideSpread]);
    assert_eq!(codes(tcp, vec![Repetition { elapsed_s: 0.1, ..repetition(1e6, None) }]), [Code::Short]);
    let late = || {
        let lateness = Lateness { late_fraction: 0.5, ..Lateness::default() };
        Repetition { lateness: Some(lateness), is_void: true, ..repetition(1e6, None) }
    };
    assert_eq!(codes(tcp, vec![late(), repetition(1e6, None)]), [Code::Late], "one of two is missing");
    assert_eq!(codes(tcp, vec![late(), repetition(1e6, None), repetition(1e6, None)]), [], "replaced");
    let udp = &points("-c host -u -b 10M")[0];
    let datagrams = Some(Udp { sent: 10, ..Udp::default() });
    assert_eq!(codes(udp, vec![repetition(5e6, datagrams)]), [Code::Changed], "the sender was too slow");
    assert_eq!(codes(udp, vec![repetition(9.9e6, datagrams)]), []);
    let shaken = |jitter_ms| vec![repetition(9.9e6, Some(Udp { sent: 10, jitter_ms, ..Udp::default() }))];
    assert_eq!(codes(udp, shaken(125.0)), [], "an eighth of the test");
    assert_eq!(codes(udp, shaken(125.1)), [Code::ClockStepped]);
}

#[test]
fn a_sweep_is_a_table_and_its_document_is_read_again() {
    let document = document(&points("-c host -C cubic")[0], vec![repetition(8e6, None), repetition(9e6, None)]);
    let text = super::table::render(&document);
    assert!(text.starts_with("home: measured over the network, server host:5201"), "{text}");
    assert!(text.contains("congestion") && text.contains("8.5 Mbit/s") && text.contains("cubic"), "{text}");
    let json = serde_json::to_string(&document).unwrap();
    let again = flashmob_results::read::text(&json, std::path::Path::new("net.json")).unwrap();
    assert_eq!(again, document);
}

#[test]
fn a_labs_lines_are_a_path() {
    let profile = flashmob_lab::air::Profile::parse("wan,rate=11Mbit,delay=8ms,loss=1%").unwrap();
    let path = record::path(&profile.name, &profile).unwrap();
    assert_eq!((path.rtt_ms, path.loss_percent, path.rate_bits_per_second), (16.0, 1.0, Some(11_000_000)));
    let cell = flashmob_lab::air::Profile::parse("11n").unwrap();
    assert_eq!(record::path("11n", &cell), None);
}
