//! Networks and captures on the page and in the table.

use flashmob_results::cluster::Setting;
use flashmob_results::net::{Direction, Point, Protocol};
use flashmob_results::warning::{Code, Warning};
use flashmob_results::{Measurement, capture};

use super::builder::{document, flat_after_four, grid, report};
use super::net_builder::{
    PATH_BITS, SMALL, TENFOLD, as_in_p4, capture_of, captured, captured_way, congestion, datagrams, document_of,
    maxima, measured, messages, net, networked, over, p4, p4_captures, parameters, plain,
};
use super::page::{figures, page};

fn count(points: Vec<Point>) -> usize {
    figures(&page(vec![networked(points)])).len()
}

#[test]
fn all_of_p4s_figures_are_there() {
    let documents = [networked(p4(as_in_p4))].into_iter().chain(p4_captures()).collect();
    let html = page(documents);
    // 6; 7; 8; 9 or 10; 15; other controls without loss and with it; 11 to 14 and the window for three captures.
    assert_eq!(figures(&html).len(), 2 + 1 + 1 + 1 + 1 + 2 + 9);
    for words in [
        "In P4: TCP 10.8 and 11.4 Mbit/s, UDP 14.1.",
        "P4&#39;s figure 7. ",
        "no loss, data up, receive maxima 320 KiB (client), 320 KiB (server)</h4>",
        "loss 1 %, data up,",
        "Dashed: the window that was offered / RTT.",
        "receive maximum 32 KiB (small) · receiver-limited</h4>",
        "An acknowledgement for every 2 packets.",
    ] {
        let words = words.replace("&#39;", "'");
        assert!(html.contains(&words), "{words}");
    }
    let heading = |text: &str| html.find(&format!("<h3>{text}</h3>")).unwrap();
    assert!(
        heading("Other congestion controls") > heading("Under way against the window"),
        "what P4 did not draw is last"
    );
    assert!(!html.contains("id=\"devices\"") && !html.contains("C1<"), "nothing of devices without any");
    assert!(html.len() < 1_000_000, "{} bytes", html.len());
}

#[test]
fn figures_9_and_10_go_by_the_receive_maximum_of_the_sender() {
    let of = |client: u64| -> Vec<Point> {
        let sent = |name: &str, rtt: f64| congestion(maxima(over(Direction::Up, rtt, 0.0), client, TENFOLD), name);
        let each = |name| [0.0, 16.0].map(|rtt| measured(sent(name, rtt), as_in_p4));
        ["reno", "cubic"].into_iter().flat_map(each).collect()
    };
    let numbers = |all: Vec<Vec<Point>>| -> Vec<u32> {
        let html = page(all.into_iter().map(networked).collect());
        let found = html.split("P4's figure ").skip(1).filter_map(|rest| rest.split('.').next()?.parse::<u32>().ok());
        found.filter(|number| [9, 10].contains(number)).collect()
    };
    let large_first = || [of(TENFOLD), of(SMALL)].concat();
    assert_eq!(numbers(vec![large_first()]), [9, 10]);
    assert_eq!(numbers(vec![of(TENFOLD)]), [10]);
    assert_eq!(numbers(vec![of(SMALL)]), [9]);
    assert_eq!(numbers(vec![large_first(), large_first()]), [9, 10, 9, 10]);
}

#[test]
fn the_systems_own_congestion_control_is_no_other_one() {
    let own = [0.0, 16.0].map(|rtt| measured(over(Direction::Up, rtt, 0.0), as_in_p4));
    let named = |name| [0.0, 16.0].map(|rtt| measured(congestion(over(Direction::Up, rtt, 0.0), name), as_in_p4));
    let has_others = |points: Vec<Point>| page(vec![networked(points)]).contains("<h3>Other congestion controls</h3>");
    assert!(!has_others([own.clone(), named("cubic")].concat()));
    assert!(has_others([own, named("bbr")].concat()));
}

#[test]
fn datagrams_without_pairs_stay_beside_tcp_with_pairs() {
    let mut points = p4(as_in_p4);
    points.retain(|p| p.parameters.protocol != Protocol::Udp || p.parameters.client_receive_max_bytes == Some(TENFOLD));
    let html = page(vec![networked(points)]);
    assert!(html.contains("TCP between equal hosts and a mixed pair") && html.contains("UDP in each direction"));
}

#[test]
fn figures_are_there_if_their_data_is() {
    assert_eq!(count(Vec::new()), 0);
    let down = |rtt| measured(over(Direction::Down, rtt, 0.0), as_in_p4);
    assert_eq!(count(vec![down(0.0)]), 1, "over time");
    assert_eq!(count([0.0, 16.0].map(down).to_vec()), 3, "over RTT, and each over time");
    assert_eq!(count([0.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0].map(down).to_vec()), 1, "of a sweep nothing over time");
    // TCP and UDP, and five points over time.
    assert_eq!(figures(&page(vec![plain()])).len(), 1 + 5);
    let empty = captured(None, capture::Way { data_packets: 500, ..capture::Way::default() });
    assert_eq!(figures(&page(vec![empty])).len(), 0, "series without points");
}

#[test]
fn networks_captures_and_devices_share_a_page() {
    let device = document("tablet", Some(false), grid(&[4_096], &[1, 4, 8], 100.0, flat_after_four));
    let html = page(vec![plain(), device, p4_captures().remove(0)]);
    for id in ["C1", "C12", "C14", "C17", "network-points", "networks", "captures", "devices", "points"] {
        assert!(html.contains(&format!("id=\"{id}\"")), "{id}");
    }
    assert!(html.contains("<title>Storage and networks measured: "));
    assert!(html.contains("claims of the papers P1, P3 and P4 could be judged"));
}

#[test]
fn the_top_says_what_was_found_and_what_was_modelled() {
    let head = |documents| {
        let html = page(documents);
        html[..html.find("<main").unwrap()].to_string()
    };
    let lab = head([networked(p4(as_in_p4))].into_iter().chain(p4_captures()).collect());
    for words in [
        "Networks measured: 4 results",
        "at most 10.6 Mbit/s up and 10.6 Mbit/s down by TCP; at most 10.5 Mbit/s up and 10.5 Mbit/s down by UDP.",
        "networks in the lab are real programs and TCP over a modelled path",
        "7 of 7 claims of the paper P4",
        "most data: 10.0.0.2:5201 → 10.0.0.1:49152, 9.07 Mbit/s, receiver-limited for 93\u{a0}% of the time",
    ] {
        assert!(lab.to_lowercase().contains(&words.to_lowercase()), "{words}: {lab}");
    }
    let real = head(vec![plain()]);
    assert!(
        !real.contains("Modelled") && real.contains("/s of requests of 32 B answered by 4 KiB, 8 at once"),
        "{real}"
    );
}

#[test]
fn void_repetitions_are_named_and_shown_nowhere_else() {
    let mut points = [0.0, 16.0].map(|rtt| measured(over(Direction::Down, rtt, 0.0), as_in_p4));
    for (point, void) in points.iter_mut().zip([1, 3]) {
        for repetition in point.repetitions.iter_mut().take(void) {
            repetition.is_void = true;
            repetition.flows[0].received_bits_per_second = 987.654e6;
            repetition.intervals[2].bits_per_second = 987.654e6;
        }
        *point = Point::new(point.parameters.clone(), point.repetitions.clone());
    }
    let html = page(vec![networked(points.to_vec())]);
    assert!(html.contains("<strong>TCP down, RTT 0 ms, path 11 Mbit/s</strong>: 1 of 3 repetitions"), "{html}");
    assert!(html.contains("RTT 16 ms, path 11 Mbit/s</strong>: 3 of 3 repetitions"));
    assert!(html.contains("4 of them void and not counted"));
    assert!(!html.contains("988") && !html.contains("987"), "only void repetitions say so");
    assert_eq!(figures(&html).len(), 1, "the point that is left, over time");
}

#[test]
fn what_comes_from_a_file_is_escaped() {
    let evil = "<script>alert('1')</script>\"&";
    let mut measured_net = net(Setting::Network, p4(as_in_p4));
    measured_net.server = evil.into();
    for point in &mut measured_net.points {
        point.parameters.congestion = Some(evil.into());
        point.parameters.path.as_mut().unwrap().air = evil.into();
        point.warnings.push(Warning::new(Code::Late, evil));
        point.repetitions.iter_mut().for_each(|r| r.peer = evil.into());
    }
    let mut way = captured_way(20_000.0, 19_000.0, 17.0, 1.0);
    let verdict = way.verdict.as_mut().unwrap();
    (verdict.evidence, verdict.remedy) = (vec![evil.into()], evil.into());
    let mut captured = captured(Some(evil), way);
    let Measurement::Capture(capture) = &mut captured.measurement else { panic!("a capture") };
    (capture.source, capture.form, capture.ended_by) = (evil.into(), evil.into(), Some(evil.into()));
    (capture.flows[0].client, capture.flows[0].server) = (evil.into(), evil.into());
    let html = page(vec![document_of(measured_net), captured]);
    assert!(!html.contains("<script") && html.contains("&lt;script&gt;"));
}

#[test]
fn the_method_says_what_must_run_at_the_other_end() {
    assert!(
        page(vec![plain()])
            .contains("At the other end 'flashmob bench net --server --bind 0.0.0.0' or 'iperf3 -s' must be running.")
    );
    assert!(!page(vec![networked(p4(as_in_p4))]).contains("must be running"), "the lab starts its own server");
}

#[test]
fn every_repetition_and_way_is_a_row_void_ones_included() {
    let mut points = vec![
        measured(maxima(congestion(over(Direction::Both, 16.0, 1.0), "bbr"), SMALL, TENFOLD), as_in_p4),
        measured(datagrams(parameters(Direction::Down)), as_in_p4),
        measured(messages(parameters(Direction::Up)), |_, _| 4e6),
    ];
    points[0].repetitions[1].is_void = true;
    let report = report(vec![networked(points.clone()), p4_captures().remove(0)]);
    let rows: Vec<std::collections::HashMap<String, String>> =
        csv::Reader::from_reader(report.networks_csv().unwrap().as_bytes())
            .deserialize()
            .collect::<Result<_, _>>()
            .unwrap();
    assert_eq!(rows.len(), 6 + 3 + 3);
    let of = |row: usize, name: &str| rows[row][name].as_str();
    assert_eq!([of(0, "way"), of(1, "way"), of(2, "way")], ["up", "down", "up"]);
    assert_eq!([of(1, "is_void"), of(2, "is_void"), of(3, "is_void")], ["false", "true", "true"]);
    assert_eq!([of(0, "direction"), of(0, "congestion"), of(0, "path_loss_percent")], ["both", "bbr", "1"]);
    assert_eq!(
        [of(0, "client_receive_max_bytes"), of(0, "path_rate_bits_per_second")],
        [SMALL, PATH_BITS].map(|v| v.to_string())
    );
    let flow = &points[0].repetitions[0].flows[1];
    assert_eq!(
        of(1, "received_bits_per_second").parse::<f64>().unwrap().to_bits(),
        flow.received_bits_per_second.to_bits()
    );
    assert_eq!([of(6, "protocol"), of(6, "datagrams_lost"), of(6, "rtt_ms")], ["udp", "120", ""]);
    assert_eq!([of(9, "protocol"), of(9, "depth"), of(0, "requests_per_second")], ["messages", "8", ""]);
    assert!(of(9, "latency_p99_ns").parse::<u64>().unwrap() > 1_000_000);
    assert_eq!(report.csv().unwrap().lines().count(), 1, "devices have a table of their own");
}

#[test]
fn figures_whose_premise_the_capture_breaks_are_marked() {
    let sound = captured_way(60_000.0, 58_000.0, 20.0, 2.0);
    let row = |html: &str| {
        html.split("<tr>")
            .find(|part| part.contains("→ 10.0.0.1:49152</th>"))
            .unwrap()
            .split("</tr>")
            .next()
            .unwrap()
            .to_string()
    };
    let html = page(vec![captured(None, sound.clone())]);
    assert!(!row(&html).contains('⚠') && !html.contains("breaks a premise"));
    let doubt = capture::Doubt {
        premise: capture::Premise::Clock,
        packet: Some(98),
        count: 1,
        figures: vec!["rtt_ms".into(), "series".into()],
        message: "The clock stepped.".into(),
    };
    let html = page(vec![captured(None, capture::Way { doubts: vec![doubt], ..sound.clone() })]);
    assert_eq!(row(&html).matches('⚠').count(), 2, "two quantiles");
    assert!(html.contains("Packet 98: The clock stepped.") && html.contains("doubtful, see the table of connections"));
    // Saved by a version that did not look at the clock.
    let rtt_ms = sound.rtt_ms.map(|rtt| capture::Quantiles { min: -480.0, ..rtt });
    let html = page(vec![captured(None, capture::Way { rtt_ms, ..sound })]);
    assert!(html.contains("A round trip is negative") && row(&html).contains("Mbit/s ⚠"));
}

#[test]
fn many_connections_keep_the_page_small() {
    let flow = |number: u64| {
        let mut way = captured_way(60_000.0, 58_000.0, 20.0, 2.0);
        way.unique_bytes -= number;
        capture::Flow {
            number,
            client: format!("[2001:db8:1234:5678:9abc:def0:1234:{number:x}]:49152"),
            server: "[2001:db8:1234:5678:9abc:def0:1234:ffff]:5201".into(),
            begin_s: 0.0,
            elapsed_s: 5.0,
            has_opening: false,
            opening_rtt_ms: None,
            doubts: Vec::new(),
            up: way.clone(),
            down: way,
        }
    };
    let html = page(vec![capture_of(None, (0..200).map(flow).collect())]);
    assert!(html.contains("The other 350 ways are in the result."));
    assert_eq!(figures(&html).len(), 9, "the three with most data");
    assert!(html.len() < 600_000, "{} bytes", html.len());
}
