//! Documents of networks and captures for tests: a small model of what P4 saw, to be bent where a test wants something else.

use flashmob_results::capture::{self, Capture, Cause, Quantiles, Series, Verdict};
use flashmob_results::cluster::Setting;
use flashmob_results::latency::{Latency, histogram};
use flashmob_results::net::{
    Direction, Exchange, Flow, Interval, Messages, Net, Parameters, Path, Point, Protocol, Repetition, Stream, TcpEnd,
    Udp,
};
use flashmob_results::{Document, Measurement};

use super::builder::document;

/// What P4's path carries, and what of it arrives as data.
pub const PATH_BITS: u64 = 11_000_000;
const CARRIED_BITS: f64 = 10.6e6;
/// A small receive maximum, and the tenfold one.
pub const SMALL: u64 = 32 << 10;
pub const TENFOLD: u64 = 320 << 10;
pub const RTTS: [f64; 8] = [0.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0];
/// Milliseconds that packets themselves need on the path.
const OWN_RTT_MS: f64 = 1.3;

/// One TCP connection of a real network.
pub fn parameters(direction: Direction) -> Parameters {
    Parameters {
        protocol: Protocol::Tcp,
        direction,
        streams: 1,
        congestion: None,
        rate_bits_per_second: None,
        block_bytes: 128 << 10,
        window_bytes: None,
        messages: None,
        path: None,
        client_receive_max_bytes: None,
        server_receive_max_bytes: None,
    }
}

/// Over P4's path.
pub fn over(direction: Direction, rtt_ms: f64, loss_percent: f64) -> Parameters {
    let delay = rtt_ms / 2.0;
    let path = Path {
        air: format!("wan,rate=11Mbit,delay={delay}ms,loss={loss_percent}%,queue=100"),
        rtt_ms,
        loss_percent,
        rate_bits_per_second: Some(PATH_BITS),
    };
    Parameters { path: Some(path), ..parameters(direction) }
}

/// With these receive maxima of client and server.
pub fn maxima(p: Parameters, client: u64, server: u64) -> Parameters {
    Parameters { client_receive_max_bytes: Some(client), server_receive_max_bytes: Some(server), ..p }
}

pub fn congestion(p: Parameters, name: &str) -> Parameters {
    Parameters { congestion: Some(name.into()), ..p }
}

pub fn datagrams(p: Parameters) -> Parameters {
    Parameters { protocol: Protocol::Udp, rate_bits_per_second: Some(10_500_000), block_bytes: 1_448, ..p }
}

pub fn messages(p: Parameters) -> Parameters {
    let messages = Messages { request_bytes: 32, answer_bytes: 4_096, depth: 8 };
    Parameters { protocol: Protocol::Messages, messages: Some(messages), ..p }
}

/// Two thirds of a receive buffer are offered as a window.
pub fn offered(max: Option<u64>) -> u64 {
    max.unwrap_or(6 << 20) / 3 * 2
}

/// What arrives this way, in bits each second, if things are as P4 saw them.
pub fn as_in_p4(p: &Parameters, direction: Direction) -> f64 {
    let path = p.path.clone().unwrap_or(Path {
        air: String::new(),
        rtt_ms: 0.0,
        loss_percent: 0.0,
        rate_bits_per_second: None,
    });
    if p.protocol == Protocol::Udp {
        let is_slower = direction == Direction::Up && p.client_receive_max_bytes < p.server_receive_max_bytes;
        let sent = p.rate_bits_per_second.unwrap_or(PATH_BITS) as f64 * if is_slower { 0.85 } else { 1.0 };
        return sent * (1.0 - path.loss_percent / 100.0);
    }
    let rtt_s = (path.rtt_ms + OWN_RTT_MS) / 1e3;
    let window = if direction == Direction::Down { p.client_receive_max_bytes } else { p.server_receive_max_bytes };
    let by_window = offered(window) as f64 * 8.0 / rtt_s;
    // By how often a window is halved; bbr does not mind.
    let by_loss = match (path.loss_percent > 0.0, p.congestion.as_deref()) {
        (false, _) => f64::INFINITY,
        (true, Some("bbr")) => CARRIED_BITS * 0.8,
        (true, name) => {
            let factor = if name == Some("cubic") { 1.3 } else { 1.22 };
            1_448.0 * 8.0 / rtt_s * factor / (path.loss_percent / 100.0).sqrt()
        }
    };
    CARRIED_BITS.min(by_window * 0.97).min(by_loss)
}

fn end(p: &Parameters, direction: Direction, bits: f64) -> TcpEnd {
    let receiving = if direction == Direction::Down { p.client_receive_max_bytes } else { p.server_receive_max_bytes };
    TcpEnd {
        congestion: Some(p.congestion.clone().unwrap_or("cubic".into())),
        retransmissions: 3,
        congestion_window_bytes: 40 * 1_448,
        rtt_ms: p.path.as_ref().map_or(0.2, |path| path.rtt_ms + OWN_RTT_MS),
        rtt_variation_ms: 0.3,
        min_rtt_ms: p.path.as_ref().map_or(0.1, |path| path.rtt_ms),
        delivery_rate_bits_per_second: bits,
        send_window_bytes: offered(receiving),
        send_window_max_bytes: offered(receiving),
        packets_sent: (bits / 8.0 / 1_448.0).clamp(0.0, 1e15) as u64,
        packet_bytes: 1_448.0,
        busy_s: 5.0,
        receiver_limited_s: 2.0,
        ..TcpEnd::default()
    }
}

/// Five seconds at this rate in each of the point's ways.
pub fn repetition(p: &Parameters, bits: impl Fn(Direction) -> f64) -> Repetition {
    let seconds = 5.0;
    let ways: &[Direction] = match p.direction {
        Direction::Both => &[Direction::Up, Direction::Down],
        Direction::Up => &[Direction::Up],
        Direction::Down => &[Direction::Down],
    };
    let (mut flows, mut streams, mut intervals) = (Vec::new(), Vec::new(), Vec::new());
    for direction in ways.iter().copied() {
        let rate = bits(direction);
        let bytes = (rate * seconds / 8.0).clamp(0.0, 1e18) as u64;
        let is_udp = p.protocol == Protocol::Udp;
        let udp = is_udp.then_some(Udp { sent: 10_000, lost: 120, out_of_order: 2, jitter_ms: 0.4 });
        flows.push(Flow {
            direction,
            sent_bytes: bytes,
            received_bytes: bytes,
            sent_bits_per_second: rate,
            received_bits_per_second: rate,
            retransmissions: (!is_udp).then_some(3),
            udp,
        });
        for id in 1..=p.streams {
            let share = rate / f64::from(p.streams);
            let tcp = (!is_udp).then(|| end(p, direction, share));
            streams.push(Stream {
                id,
                direction,
                sent_bytes: bytes / u64::from(p.streams),
                received_bytes: bytes / u64::from(p.streams),
                sender: tcp.clone(),
                receiver: tcp.clone(),
                udp,
            });
            for second in 0..6u32 {
                // It begins slowly, and the first second is omitted.
                let part = if second == 0 { 0.4 } else { 0.96 + 0.02 * f64::from(second % 3) };
                intervals.push(Interval {
                    stream: id,
                    direction,
                    begin_s: f64::from(second) - 1.0,
                    end_s: f64::from(second),
                    bytes: (share * part / 8.0).clamp(0.0, 1e18) as u64,
                    bits_per_second: share * part,
                    omitted: second == 0,
                    tcp: tcp.clone(),
                    udp,
                });
            }
        }
    }
    let exchange = p.messages.map(|m| {
        let mut latencies = histogram();
        for n in 1..=100u64 {
            latencies.saturating_record(200_000 + n * 10_000);
        }
        let rate = bits(Direction::Up) / 8.0 / f64::from(m.answer_bytes.max(1));
        Exchange {
            requests: (rate * seconds).clamp(0.0, 1e18) as u64,
            requests_per_second: rate,
            latency_ns: Latency::new(&latencies),
        }
    });
    Repetition {
        begin_s: 1.0,
        elapsed_s: seconds,
        peer: "flashmob 0.1.0".into(),
        flows,
        streams,
        intervals,
        exchange,
        cpu_s: 0.1,
        peer_cpu_s: Some(0.2),
        lateness: None,
        is_void: false,
    }
}

/// Three repetitions within 2 % of a rate in each way.
pub fn point(p: Parameters, bits: impl Fn(Direction) -> f64) -> Point {
    let repetitions = [0.99, 1.0, 1.01].map(|part| repetition(&p, |way| bits(way) * part)).to_vec();
    Point::new(p, repetitions)
}

/// The same at a rate that depends on its parameters.
pub fn measured(p: Parameters, bits: impl Fn(&Parameters, Direction) -> f64) -> Point {
    point(p.clone(), |way| bits(&p, way))
}

/// All that P4 measured of throughput: a client with a small receive maximum and then with the tenfold one, both ways over RTT, by TCP and UDP; two hosts
/// with the small one; congestion controls with loss and without.
pub fn p4(bits: impl Fn(&Parameters, Direction) -> f64) -> Vec<Point> {
    let mut all = Vec::new();
    for client in [SMALL, TENFOLD] {
        for direction in [Direction::Up, Direction::Down] {
            all.extend(RTTS.map(|rtt| maxima(over(direction, rtt, 0.0), client, TENFOLD)));
        }
    }
    for client in [SMALL, TENFOLD] {
        for direction in [Direction::Up, Direction::Down] {
            all.extend(RTTS.map(|rtt| datagrams(maxima(over(direction, rtt, 0.0), client, TENFOLD))));
        }
    }
    let small_pair = maxima(over(Direction::Up, RTTS[0], 0.0), SMALL, SMALL);
    all.extend([datagrams(small_pair.clone()), congestion(small_pair, "cubic")]);
    for name in ["reno", "cubic", "bbr"] {
        for loss in [0.0, 1.0] {
            let of = |rtt| congestion(maxima(over(Direction::Up, rtt, loss), TENFOLD, TENFOLD), name);
            all.extend(RTTS.map(of));
        }
    }
    all.into_iter().map(|p| measured(p, &bits)).collect()
}

pub fn net(setting: Setting, points: Vec<Point>) -> Net {
    Net { setting, server: "10.0.0.2:5201".into(), points }
}

pub fn document_of(net: Net) -> Document {
    Document { label: None, preset: None, measurement: Measurement::Net(net), ..document("", None, Vec::new()) }
}

/// Measured in the lab.
pub fn networked(points: Vec<Point>) -> Document {
    document_of(net(Setting::Lab, points))
}

/// What a run over a real network gives: a few points, each by itself.
pub fn plain() -> Document {
    let both = |p: Parameters| [Direction::Up, Direction::Down].map(|direction| Parameters { direction, ..p.clone() });
    let mut points: Vec<Point> = Vec::new();
    for p in both(parameters(Direction::Up)).into_iter().chain(both(datagrams(parameters(Direction::Up)))) {
        points.push(measured(p, as_in_p4));
    }
    points.push(measured(messages(parameters(Direction::Up)), |_, _| 4e6));
    Document { label: Some("tablet to desk".into()), ..document_of(net(Setting::Network, points)) }
}

fn quantiles(min: f64, median: f64, max: f64) -> Quantiles {
    Quantiles { count: 1_000, min, median, mean: median, p99: max, max }
}

/// A way of a connection whose receiver offers this window over a path of so many milliseconds.
pub fn captured_way(window: f64, flight: f64, rtt_ms: f64, queue_ms: f64) -> capture::Way {
    let packets = 2_000u64;
    let rate = (flight * 8_000.0 / (rtt_ms + queue_ms)).min(CARRIED_BITS);
    let second = |n: u64| n as f64 * 1_448.0 * 8.0 / rate;
    // Full swings, so that nobody takes the flight's line for a limit.
    let swing = |n: u64| 0.75 + 0.25 * (n % 40) as f64 / 39.0;
    let every = (0..packets).step_by(4);
    capture::Way {
        packets,
        data_packets: packets,
        bytes: packets * 1_448,
        unique_bytes: packets * 1_448,
        bits_per_second: rate,
        largest_packet_bytes: 1_448,
        packet_bytes: 1_448.0,
        retransmissions: 2,
        out_of_order: 0,
        resent: 2,
        sender_rtt_ms: Some(0.01),
        duplicate_acknowledgements: 5,
        acknowledgements: packets / 2,
        segments_per_acknowledgement: 2.0,
        zero_windows: 0,
        full_windows: 40,
        rtt_ms: Some(quantiles(rtt_ms, rtt_ms + queue_ms, rtt_ms + 2.0 * queue_ms)),
        flight_bytes: Some(quantiles(flight * 0.5, flight * 0.9, flight)),
        window_bytes: Some(quantiles(window * 0.9, window, window)),
        verdict: Some(Verdict {
            cause: if flight >= window * 0.9 { Cause::ReceiverLimited } else { Cause::CongestionLimited },
            fraction: 0.93,
            evidence: vec![
                format!("{flight} bytes were under way at most, and the receiver offered {window}"),
                "the sender waited for the window 93 % of the time".into(),
            ],
            remedy: "let the receiver's buffer grow: sysctl -w net.ipv4.tcp_rmem='4096 131072 6291456'".into(),
        }),
        series: Series {
            packets: every.clone().map(|n| (second(n), n as f64)).collect(),
            flight_bytes: every.clone().map(|n| (second(n), flight * swing(n))).collect(),
            rtt_ms: every.clone().map(|n| ((n * 1_448) as f64, rtt_ms + queue_ms * 2.0 * (swing(n) - 0.5))).collect(),
            window_bytes: every.map(|n| (second(n), window)).collect(),
        },
        ..capture::Way::default()
    }
}

/// A capture of one connection whose server sends.
pub fn captured(label: Option<&str>, way: capture::Way) -> Document {
    let flow = capture::Flow {
        number: 0,
        client: "10.0.0.1:49152".into(),
        server: "10.0.0.2:5201".into(),
        begin_s: 0.1,
        elapsed_s: 5.2,
        has_opening: true,
        opening_rtt_ms: Some(16.4),
        doubts: Vec::new(),
        up: capture::Way { packets: 1_000, acknowledgements: 1_000, ..capture::Way::default() },
        down: way,
    };
    capture_of(label, vec![flow])
}

pub fn capture_of(label: Option<&str>, flows: Vec<capture::Flow>) -> Document {
    let capture = Capture {
        source: "receive.pcapng".into(),
        form: "pcapng".into(),
        link_types: vec!["ethernet".into()],
        packets: 3_010,
        tcp_packets: 3_000,
        unreadable_packets: 0,
        lost_packets: Some(0),
        begun_unix_s: 1_790_000_000.5,
        elapsed_s: 5.4,
        ended_by: None,
        not_analyzed: Vec::new(),
        doubts: Vec::new(),
        left_out: 0,
        flows,
    };
    Document {
        label: label.map(str::to_string),
        preset: None,
        measurement: Measurement::Capture(capture),
        ..document("", None, Vec::new())
    }
}

/// Packets as P4's figures 11 to 14 have them.
pub fn p4_captures() -> Vec<Document> {
    let (small, tenfold) = (offered(Some(SMALL)) as f64, offered(Some(TENFOLD)) as f64);
    vec![
        captured(Some("receive maximum 32 KiB (small)"), captured_way(small, small * 0.95, 17.3, 1.0)),
        captured(Some("receive maximum 320 KiB (tenfold)"), captured_way(tenfold, 90_000.0, 17.5, 40.0)),
        captured(Some("the system's own receive maximum"), captured_way(offered(None) as f64, 92_000.0, 17.5, 41.0)),
    ]
}
