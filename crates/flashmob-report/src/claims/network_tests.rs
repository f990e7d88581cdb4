//! Each claim about networks at, below and above its limits.

use flashmob_results::capture::{Quantiles, Way};
use flashmob_results::net::{Direction, Parameters, Point, Protocol};
use flashmob_results::warning::{Code, Warning};
use flashmob_results::{Document, Measurement};

use super::Verdict::{DoesNotHold, Holds};
use super::{Claim, Finding, Verdict};
use crate::tests::builder::report;
use crate::tests::net_builder::{
    RTTS, SMALL, TENFOLD, as_in_p4, captured, captured_way, congestion, maxima, measured, networked, over, p4,
    p4_captures, parameters,
};

const ALL: [&str; 7] = ["C14", "C15", "C16", "C17", "C24", "C25", "C26"];

fn claim(id: &str, documents: Vec<Document>) -> Claim {
    report(documents).claims().into_iter().find(|claim| claim.id == id).unwrap()
}

/// The only finding, or what is missing.
fn found(id: &str, documents: Vec<Document>) -> Result<Finding, String> {
    let claim = claim(id, documents);
    assert!(claim.findings.len() <= 1, "{:?}", claim.findings);
    match claim.findings.into_iter().next() {
        Some(finding) => Ok(finding),
        None => Err(claim.lacking[0].1.what.clone()),
    }
}

fn verdict(id: &str, points: Vec<Point>) -> Result<Verdict, String> {
    found(id, vec![networked(points)]).map(|finding| finding.verdict)
}

/// P4 with the rates of some points bent.
fn bent(of: impl Fn(&Parameters, Direction) -> f64) -> Vec<Point> {
    p4(|p, way| as_in_p4(p, way) * of(p, way))
}

fn rtt(p: &Parameters) -> f64 {
    p.path.as_ref().map_or(0.0, |path| path.rtt_ms)
}

#[test]
fn what_p4_saw_holds_and_says_what_the_paper_does() {
    let documents: Vec<Document> = [networked(p4(as_in_p4))].into_iter().chain(p4_captures()).collect();
    let claims = report(documents).claims();
    assert_eq!(claims.iter().map(|c| c.id).collect::<Vec<_>>(), ALL);
    for claim in claims {
        assert_eq!(claim.findings.len(), 1, "{}: {:?} {:?}", claim.id, claim.findings, claim.lacking);
        assert_eq!(claim.findings[0].verdict, Holds, "{}: {}", claim.id, claim.findings[0].numbers);
        assert!(!claim.paper.is_empty() && claim.command.starts_with("flashmob reproduce p4"));
        assert!(claim.lacking.is_empty(), "{}: {:?}", claim.id, claim.lacking);
    }
}

#[test]
fn networks_have_claims_of_their_own() {
    let ids = |documents| report(documents).claims().iter().map(|c| c.id).collect::<Vec<_>>();
    assert_eq!(ids(vec![networked(Vec::new())]), ALL);
    assert_eq!(ids(p4_captures()), ALL);
    let single = vec![measured(parameters(Direction::Down), as_in_p4)];
    assert!(verdict("C14", single).unwrap_err().contains("several round-trip times"));
}

#[test]
fn c14_wants_receiving_to_fall_and_sending_to_stay() {
    let c14 = |of: &dyn Fn(&Parameters, Direction) -> f64| verdict("C14", bent(of)).unwrap();
    // At RTT 128 ms a window of 21,845 bytes lets 1.37 Mbit/s through; the model makes 1.31 of it.
    let receiving =
        |part: f64| move |p: &Parameters, way| if rtt(p) > 100.0 && way == Direction::Down { part } else { 1.0 };
    assert_eq!(c14(&receiving(1.08)), Holds);
    assert_eq!(c14(&receiving(1.12)), DoesNotHold, "more than the window lets through");
    let sending =
        |part: f64| move |p: &Parameters, way| if rtt(p) > 100.0 && way == Direction::Up { part } else { 1.0 };
    assert_eq!(c14(&sending(0.76)), Holds);
    assert_eq!(c14(&sending(0.74)), DoesNotHold, "sending falls as well");
    let near = |part: f64| move |p: &Parameters, way| if rtt(p) < 1.0 && way == Direction::Down { part } else { 1.0 };
    assert_eq!(c14(&near(0.26)), Holds);
    assert_eq!(c14(&near(0.24)), DoesNotHold, "it was not much more before");
}

#[test]
fn c14_says_what_is_missing() {
    let missing = |keep: &dyn Fn(&Parameters) -> bool| {
        verdict("C14", p4(as_in_p4).into_iter().filter(|p| keep(&p.parameters)).collect()).unwrap_err()
    };
    assert!(missing(&|p| rtt(p) < 10.0).contains("no round-trip time of 16 ms or more"));
    assert!(missing(&|p| p.client_receive_max_bytes != Some(SMALL)).contains("no host had a receive maximum"));
    let only_up = |p: &Parameters| p.client_receive_max_bytes == Some(SMALL) && p.direction == Direction::Up;
    assert!(
        missing(&only_up).contains("how the client, which has the small receive maximum, receives was not measured")
    );
    let mut unknown = p4(as_in_p4);
    for stream in unknown.iter_mut().flat_map(|p| &mut p.repetitions).flat_map(|r| &mut r.streams) {
        stream.sender = None;
    }
    assert!(verdict("C14", unknown).unwrap_err().contains("the window that the receiver offered is not known"));
}

#[test]
fn c14_takes_either_host_for_the_small_one() {
    let mut points = Vec::new();
    for direction in [Direction::Up, Direction::Down] {
        points.extend(RTTS.map(|rtt| measured(maxima(over(direction, rtt, 0.0), TENFOLD, SMALL), as_in_p4)));
    }
    let finding = found("C14", vec![networked(points)]).unwrap();
    assert_eq!(finding.verdict, Holds);
    assert!(
        finding.numbers.contains("the server (receive maximum 32 KiB) receives 10.6 Mbit/s, then 1.31 Mbit/s"),
        "{}",
        finding.numbers
    );
}

#[test]
fn void_and_doubtful_points_are_treated_as_everywhere() {
    let mut points = p4(as_in_p4);
    points[0].warnings.push(Warning::new(Code::WideSpread, "wide"));
    for repetition in &mut points[15].repetitions {
        repetition.is_void = true;
    }
    let finding = found("C14", vec![networked(points)]).unwrap();
    assert_eq!(finding.doubts, [Code::WideSpread]);
    assert!(finding.numbers.starts_with("from RTT 0 ms to 64 ms"), "{}", finding.numbers);
}

#[test]
fn c15_compares_without_loss_everywhere_and_with_loss_on_average() {
    let c15 = |of: &dyn Fn(&Parameters, Direction) -> f64| verdict("C15", bent(of)).unwrap();
    let is = |p: &Parameters, name: &str, loss: f64| {
        p.congestion.as_deref() == Some(name) && p.path.as_ref().unwrap().loss_percent == loss
    };
    assert_eq!(c15(&|p, _| if is(p, "cubic", 0.0) && rtt(p) == 8.0 { 0.92 } else { 1.0 }), Holds);
    assert_eq!(c15(&|p, _| if is(p, "cubic", 0.0) && rtt(p) == 8.0 { 0.85 } else { 1.0 }), DoesNotHold);
    // With loss one point may be far off, all of them may not.
    assert_eq!(c15(&|p, _| if is(p, "cubic", 1.0) && rtt(p) == 8.0 { 1.5 } else { 1.0 }), Holds);
    assert_eq!(c15(&|p, _| if is(p, "cubic", 1.0) { 1.25 } else { 1.0 }), DoesNotHold);
    // The model leaves 10 % at RTT 128 ms.
    assert_eq!(c15(&|p, _| if is(p, "reno", 1.0) && rtt(p) == 128.0 { 8.0 } else { 1.0 }), DoesNotHold);
    assert_eq!(c15(&|p, _| if is(p, "bbr", 0.0) { 0.1 } else { 1.0 }), Holds, "bbr does not count");
}

#[test]
fn c15_looks_where_the_window_is_large_and_says_what_is_missing() {
    let mut points = p4(as_in_p4);
    for name in ["reno", "cubic"] {
        for loss in [0.0, 1.0] {
            let small = |rtt| congestion(maxima(over(Direction::Up, rtt, loss), TENFOLD, SMALL), name);
            // Nonsense that must not be looked at.
            let rate = if name == "reno" { 1e6 } else { 2e6 };
            points.extend(RTTS.map(|rtt| measured(small(rtt), |_, _| rate)));
        }
    }
    let finding = found("C15", vec![networked(points)]).unwrap();
    assert_eq!(finding.verdict, Holds, "{}", finding.numbers);
    assert!(finding.numbers.contains("bbr there, which the paper did not have: 10.6 Mbit/s without, 8.48 Mbit/s with"));
    let missing = |keep: &dyn Fn(&Parameters) -> bool| {
        verdict("C15", p4(as_in_p4).into_iter().filter(|p| keep(&p.parameters)).collect()).unwrap_err()
    };
    assert!(missing(&|p| p.congestion.as_deref() != Some("reno")).starts_with("reno was not measured"));
    assert_eq!(missing(&|p| p.path.as_ref().unwrap().loss_percent == 0.0), "nothing was measured with loss");
    assert!(missing(&|p| rtt(p) < 10.0).contains("16 ms"));
}

/// The verdict on two captures, the small one's way bent.
fn c16(bend: impl FnOnce(&mut Way)) -> Verdict {
    let mut documents = p4_captures();
    let Measurement::Capture(capture) = &mut documents[0].measurement else { panic!("a capture") };
    bend(&mut capture.flows[0].down);
    found("C16", documents).unwrap().verdict
}

fn flight(max: f64) -> Option<Quantiles> {
    Some(Quantiles { count: 9, min: 0.0, median: max * 0.9, mean: max * 0.9, p99: max, max })
}

#[test]
fn c16_wants_little_in_flight_and_acknowledgements_at_once() {
    assert_eq!(c16(|_| ()), Holds);
    assert_eq!(c16(|w| w.flight_bytes = flight(17_600.0)), Holds);
    assert_eq!(c16(|w| w.flight_bytes = flight(17_200.0)), DoesNotHold, "the window was not used");
    let wide = |w: &mut Way, max: f64| (w.flight_bytes, w.window_bytes) = (flight(max), flight(max));
    assert_eq!(c16(|w| wide(w, 67_000.0)), Holds);
    assert_eq!(c16(|w| wide(w, 68_000.0)), DoesNotHold, "as much as with the tenfold one");
    assert_eq!(c16(|w| w.segments_per_acknowledgement = 2.19), Holds);
    assert_eq!(c16(|w| w.segments_per_acknowledgement = 2.21), DoesNotHold);
    let late = |w: &mut Way, median: f64| w.rtt_ms.as_mut().unwrap().median = median;
    assert_eq!(c16(|w| late(w, 25.9)), Holds);
    assert_eq!(c16(|w| late(w, 26.0)), DoesNotHold);
}

#[test]
fn captures_are_paired_by_labels_or_by_windows() {
    let small = |label| captured(label, captured_way(20_000.0, 19_000.0, 17.0, 1.0));
    let large = |label| captured(label, captured_way(200_000.0, 90_000.0, 17.0, 40.0));
    let entries = |documents| found("C16", documents).map(|f| f.entries);
    assert_eq!(entries(vec![large(None), small(None)]), Ok(vec![1, 0]), "by their windows");
    assert_eq!(entries(vec![large(Some("Tenfold")), small(Some("the small one"))]), Ok(vec![1, 0]));
    // What labels say counts more than what windows do.
    let finding = found("C16", vec![large(Some("small")), small(Some("tenfold"))]).unwrap();
    assert_eq!((finding.entries, finding.verdict), (vec![0, 1], DoesNotHold));
    for alone in
        [vec![small(None)], vec![small(None), small(None)], vec![small(Some("small"))], vec![large(Some("tenfold"))]]
    {
        let what = found("C16", alone).unwrap_err();
        assert!(what.contains("no capture beside it with a receive maximum ten times as large"), "{what}");
    }
    let two = claim("C16", vec![small(Some("small")), small(Some("small")), large(Some("tenfold"))]);
    assert_eq!(two.findings.iter().map(|f| f.entries.clone()).collect::<Vec<_>>(), [[0, 2], [1, 2]]);
    let empty = captured(Some("small"), Way::default());
    let what = found("C16", vec![empty, large(Some("tenfold"))]).unwrap_err();
    assert_eq!(what, "in the capture with the small receive maximum no connection carried data");
}

#[test]
fn c17_wants_the_window_to_bind_and_the_tenfold_one_not_to() {
    let c17 = |of: &dyn Fn(&Parameters, Direction) -> f64| verdict("C17", bent(of)).unwrap();
    let small = |part: f64, at: f64| {
        move |p: &Parameters, way| {
            let is = p.client_receive_max_bytes == Some(SMALL) && way == Direction::Down && rtt(p) == at;
            if is { part } else { 1.0 }
        }
    };
    // The model reaches 97 % of window / RTT.
    assert_eq!(c17(&small(0.93, 64.0)), Holds);
    assert_eq!(c17(&small(0.92, 64.0)), DoesNotHold, "the window is not reached");
    assert_eq!(c17(&small(0.5, 8.0)), Holds, "where the window does not bind, nothing need be reached");
    assert_eq!(c17(&small(1.15, 128.0)), DoesNotHold, "above the window");
    let tenfold = |part: f64| {
        move |p: &Parameters, way| {
            let is = p.client_receive_max_bytes == Some(TENFOLD) && way == Direction::Down && rtt(p) == 128.0;
            if is { part } else { 1.0 }
        }
    };
    assert_eq!(c17(&tenfold(0.76)), Holds);
    assert_eq!(c17(&tenfold(0.74)), DoesNotHold, "the tenfold one falls as well");
}

#[test]
fn c17_compares_results_as_well_and_says_what_is_missing() {
    let part = |client: u64| {
        let points = RTTS.map(|rtt| measured(maxima(over(Direction::Down, rtt, 0.0), client, TENFOLD), as_in_p4));
        networked(points.to_vec())
    };
    let finding = found("C17", vec![part(TENFOLD), part(SMALL)]).unwrap();
    assert_eq!((finding.entries, finding.verdict), (vec![1, 0], Holds));
    assert!(found("C17", vec![part(SMALL)]).unwrap_err().contains("two receive maxima"));
    assert!(found("C17", vec![part(TENFOLD), part(TENFOLD / 2)]).unwrap_err().contains("two receive maxima"));
    let wide = found("C17", vec![part(TENFOLD * 10), part(TENFOLD)]).unwrap_err();
    assert!(wide.contains("lets nearly all through"), "{wide}");
}

/// UDP from this client to this server.
fn is_udp(p: &Parameters, client: u64, server: u64) -> bool {
    p.protocol == Protocol::Udp
        && (p.client_receive_max_bytes, p.server_receive_max_bytes) == (Some(client), Some(server))
}

#[test]
fn c24_wants_equal_and_mixed_pairs_alike_and_udp_no_slower() {
    let c24 = |of: &dyn Fn(&Parameters, Direction) -> f64| verdict("C24", bent(of)).unwrap();
    let tcp = |client: u64, server: u64, part: f64| {
        move |p: &Parameters, _| {
            let is = p.protocol == Protocol::Tcp && rtt(p) == 0.0 && p.client_receive_max_bytes == Some(client);
            if is && p.server_receive_max_bytes == Some(server) { part } else { 1.0 }
        }
    };
    for (client, server) in [(SMALL, SMALL), (TENFOLD, TENFOLD), (SMALL, TENFOLD)] {
        assert_eq!(c24(&tcp(client, server, 0.92)), Holds, "{client} {server}");
        assert_eq!(c24(&tcp(client, server, 0.90)), DoesNotHold, "{client} {server}");
    }
    let udp = |part: f64| move |p: &Parameters, _| if is_udp(p, SMALL, SMALL) { part } else { 1.0 };
    assert_eq!(c24(&udp(0.97)), Holds);
    assert_eq!(c24(&udp(0.94)), DoesNotHold, "less than TCP");
    assert_eq!(c24(&udp(1.09)), Holds);
    assert_eq!(c24(&udp(1.11)), DoesNotHold, "the equal pairs differ");
    assert_eq!(c24(&|p, _| if rtt(p) > 0.0 { 0.1 } else { 1.0 }), Holds, "only the least round trip counts");
}

#[test]
fn c24_says_what_is_missing() {
    let missing = |keep: &dyn Fn(&Parameters) -> bool| {
        verdict("C24", p4(as_in_p4).into_iter().filter(|p| keep(&p.parameters)).collect()).unwrap_err()
    };
    let equal = |p: &Parameters| p.client_receive_max_bytes == p.server_receive_max_bytes;
    assert!(missing(&|p| !equal(p)).contains("no two hosts had the same"));
    assert!(
        missing(&|p| !equal(p) || p.client_receive_max_bytes != Some(SMALL)).contains("a quarter of another pair's")
    );
    assert!(missing(&|p| !is_udp(p, SMALL, SMALL)).contains("UDP up with receive maxima of 32 KiB (client)"));
}

#[test]
fn c25_wants_udp_received_alike_and_sent_differently_at_every_round_trip() {
    let c25 = |of: &dyn Fn(&Parameters, Direction) -> f64| verdict("C25", bent(of)).unwrap();
    let udp = |client: u64, direction: Direction, at: f64, part: f64| {
        move |p: &Parameters, way| {
            if is_udp(p, client, TENFOLD) && way == direction && rtt(p) == at { part } else { 1.0 }
        }
    };
    // The model's client with the small maximum sends 85 %.
    assert_eq!(c25(&udp(SMALL, Direction::Up, 32.0, 1.06)), Holds);
    assert_eq!(c25(&udp(SMALL, Direction::Up, 32.0, 1.08)), DoesNotHold, "not enough more");
    for (client, at) in [(SMALL, 0.0), (TENFOLD, 128.0)] {
        assert_eq!(c25(&udp(client, Direction::Down, at, 0.92)), Holds);
        assert_eq!(c25(&udp(client, Direction::Down, at, 0.90)), DoesNotHold, "{client} receives less at {at} ms");
    }
    let finding = found(
        "C25",
        vec![networked(bent(
            |p, way| {
                if is_udp(p, SMALL, TENFOLD) && way == Direction::Up { 1.0 / 0.85 } else { 1.0 }
            },
        ))],
    );
    let finding = finding.unwrap();
    assert_eq!(finding.verdict, DoesNotHold);
    assert!(finding.numbers.contains("both hosts are the same system here"), "{}", finding.numbers);
    let only_small =
        p4(as_in_p4).into_iter().filter(|p| p.parameters.client_receive_max_bytes == Some(SMALL)).collect();
    assert!(verdict("C25", only_small).unwrap_err().contains("two receive maxima of the client"));
}

#[test]
fn c26_wants_the_tuned_receiver_like_the_system_s_own() {
    let c26 = |bend: &dyn Fn(&mut Way)| {
        let mut documents = p4_captures();
        let Measurement::Capture(capture) = &mut documents[1].measurement else { panic!("a capture") };
        bend(&mut capture.flows[0].down);
        found("C26", documents).unwrap().verdict
    };
    assert_eq!(c26(&|_| ()), Holds);
    assert_eq!(c26(&|w| w.bits_per_second *= 0.92), Holds);
    assert_eq!(c26(&|w| w.bits_per_second *= 0.90), DoesNotHold, "fewer packets");
    // The system's own has a median of 58.5 ms.
    let rtt = |median: f64| move |w: &mut Way| w.rtt_ms.as_mut().unwrap().median = median;
    assert_eq!(c26(&rtt(47.0)), Holds);
    assert_eq!(c26(&rtt(46.0)), DoesNotHold);
    assert_eq!(c26(&rtt(74.0)), DoesNotHold);
    let mut documents = p4_captures();
    documents.truncate(2);
    assert!(claim("C26", documents).lacking[0].1.what.contains("the system's own"));
}
