//! Documents of networks and captures that nobody would write do not make it panic, and their figures are still XML.

use flashmob_results::capture::{Capture, Cause, Flow, Quantiles, Series, Verdict, Way};
use flashmob_results::cluster::Setting;
use flashmob_results::net::{Direction, Messages, Net, Parameters, Path, Point, Protocol};
use flashmob_results::{Document, Measurement};
use proptest::prelude::*;
use proptest::sample::select;

use super::builder::report;
use super::net_builder::{capture_of, document_of, repetition};
use super::page::figures;

const DIRECTIONS: [Direction; 3] = [Direction::Up, Direction::Down, Direction::Both];

fn number() -> impl Strategy<Value = f64> + Clone {
    prop_oneof![
        Just(0.0),
        1.0..1e5,
        select(vec![16.0, 128.0, 1e6, 1e300, 1e-300, f64::MAX]),
        Just(-1.0),
        Just(f64::NAN),
        Just(f64::INFINITY)
    ]
}

fn count() -> impl Strategy<Value = u64> + Clone {
    prop_oneof![Just(0), 1..100_000u64, Just(u64::MAX)]
}

fn parameters() -> impl Strategy<Value = Parameters> {
    let path = (select(vec![0.0, 2.0, 16.0, 128.0]), number(), select(vec![0.0, 1.0]), any::<Option<u64>>(), 0..4u8);
    // Mostly round trips that others have as well, or no two points could be compared.
    let path = path.prop_map(|(rtt, any, loss, rate, which)| Path {
        air: "wan".into(),
        rtt_ms: if which == 0 { any } else { rtt },
        loss_percent: if which == 1 { any } else { loss },
        rate_bits_per_second: rate,
    });
    let congestion = select(vec![None, Some("reno"), Some("cubic"), Some("bbr"), Some("\u{0}<x>")]);
    let max = || select(vec![None, Some(0), Some(32_768), Some(327_680), Some(u64::MAX)]);
    let kinds =
        (select(vec![Protocol::Tcp, Protocol::Tcp, Protocol::Udp, Protocol::Messages]), select(DIRECTIONS.to_vec()));
    let path = prop_oneof![3 => path.prop_map(Some), 1 => Just(None)];
    let sizes = (select(vec![1u32, 1, 4]), select(vec![None, Some(0), Some(u64::MAX)]), any::<bool>());
    (kinds, path, congestion, max(), max(), sizes).prop_map(
        |((protocol, direction), path, congestion, client, server, sizes)| {
            let (streams, rate, has_messages) = sizes;
            let messages = Messages { request_bytes: 0, answer_bytes: 0, depth: u32::MAX };
            Parameters {
                protocol,
                direction,
                streams,
                congestion: congestion.map(str::to_string),
                rate_bits_per_second: rate.filter(|_| streams == 4),
                block_bytes: 1,
                window_bytes: rate.filter(|_| has_messages),
                messages: has_messages.then_some(messages),
                path,
                client_receive_max_bytes: client,
                server_receive_max_bytes: server,
            }
        },
    )
}

fn point() -> impl Strategy<Value = Point> {
    let odd = (number(), count(), 0..8u8);
    (parameters(), proptest::collection::vec(number(), 0..4), odd).prop_map(|(p, rates, (value, many, which))| {
        let mut repetitions: Vec<_> = rates.iter().map(|rate| repetition(&p, |_| *rate)).collect();
        for r in &mut repetitions {
            match which {
                0 => r.is_void = true,
                1 => (r.begin_s, r.elapsed_s) = (value, value),
                2 => r.streams.clear(),
                3 => r.intervals.iter_mut().for_each(|i| (i.begin_s, i.bits_per_second) = (value, value)),
                4 => r.streams.iter_mut().filter_map(|s| s.sender.as_mut()).for_each(|end| {
                    (end.send_window_max_bytes, end.rtt_ms) = (many, value);
                }),
                5 => r.flows.iter_mut().for_each(|f| f.retransmissions = Some(many)),
                _ => {}
            }
        }
        let mut point = Point::new(p, repetitions);
        if which == 6 {
            // A summary that its repetitions do not bear out.
            point.summary.repetitions = u32::MAX;
            point.repetitions.truncate(1);
        }
        point
    })
}

fn quantiles() -> impl Strategy<Value = Option<Quantiles>> {
    let all = (count(), number(), number(), number());
    let some = all.prop_map(|(count, min, median, max)| Quantiles { count, min, median, mean: median, p99: max, max });
    prop_oneof![3 => some.prop_map(Some), 1 => Just(None)]
}

fn series() -> impl Strategy<Value = Vec<(f64, f64)>> {
    proptest::collection::vec((number(), number()), 0..20)
}

fn way() -> impl Strategy<Value = Way> {
    let all = (count(), number(), [quantiles(), quantiles(), quantiles()], [series(), series(), series(), series()]);
    (all, any::<Option<String>>()).prop_map(|((many, value, quantiles, series), text)| {
        let [packets, flight_bytes, rtt_ms, window_bytes] = series;
        let [rtt, flight, window] = quantiles;
        Way {
            data_packets: many,
            unique_bytes: many,
            bits_per_second: value,
            segments_per_acknowledgement: value,
            full_windows: many,
            rtt_ms: rtt,
            flight_bytes: flight,
            window_bytes: window,
            verdict: text.map(|text| Verdict {
                cause: Cause::SenderLimited,
                fraction: value,
                evidence: vec![text.clone(), String::new()],
                remedy: text,
            }),
            series: Series { packets, flight_bytes, rtt_ms, window_bytes },
            ..Way::default()
        }
    })
}

fn capture() -> impl Strategy<Value = Document> {
    let flow = (way(), way(), any::<String>(), number()).prop_map(|(up, down, client, value)| Flow {
        number: 0,
        client,
        server: String::new(),
        begin_s: value,
        elapsed_s: value,
        has_opening: false,
        opening_rtt_ms: Some(value),
        doubts: Vec::new(),
        up,
        down,
    });
    let label = select(vec![None, Some("small"), Some("tenfold"), Some("")]);
    (proptest::collection::vec(flow, 0..3), label, number(), count()).prop_map(|(flows, label, value, many)| {
        let mut document = capture_of(label, flows);
        let Measurement::Capture(capture) = &mut document.measurement else { panic!("a capture") };
        *capture = Capture { begun_unix_s: value, elapsed_s: value, left_out: many, packets: many, ..capture.clone() };
        document
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn no_network_makes_it_panic(
        points in proptest::collection::vec(point(), 0..60),
        few in proptest::collection::vec(point(), 0..6),
        server in any::<String>(),
        captures in proptest::collection::vec(capture(), 0..3),
    ) {
        let of = |setting, points| document_of(Net { setting, server: server.clone(), points });
        let mut documents = vec![of(Setting::Lab, points), of(Setting::Network, few), of(Setting::Simulator, Vec::new())];
        documents.extend(captures);
        let report = report(documents);
        figures(&report.html().unwrap());
        report.networks_csv().unwrap();
    }
}
