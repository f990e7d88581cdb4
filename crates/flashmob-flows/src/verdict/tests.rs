//! Verdicts on flows with planted causes, seen from either end.

use flashmob_results::capture::{Cause, Way};

use crate::testing::flow::{Captured, FULL_BYTES, Plant, play};
use crate::testing::{MS, pcapng};
use crate::{Analyzer, Limits, reader::CaptureReader};

fn analysed(frames: &[(i64, Vec<u8>)]) -> Way {
    let bytes = pcapng(frames);
    let mut reader = CaptureReader::open(bytes.as_slice()).unwrap();
    let mut analyzer = Analyzer::new(Limits::default());
    while reader.next_with(|frame| analyzer.take(&frame)) {}
    assert_eq!(reader.ended_by(), None);
    analyzer.finish().flows.remove(0).up
}

/// Both ends see the same cause, for most of the time.
fn expect(plant: &Plant, cause: Cause) -> [Way; 2] {
    let Captured { near_sender, near_receiver } = play(plant, 3000 * MS);
    [("near the sender", near_sender), ("near the receiver", near_receiver)].map(|(where_, frames)| {
        let way = analysed(&frames);
        let verdict = way.verdict.clone().unwrap();
        assert!(verdict.cause == cause && verdict.fraction > 0.5, "{where_}: {plant:?}: {verdict:#?}");
        assert!(verdict.evidence.iter().all(|s| s.ends_with('.')) && verdict.remedy.ends_with('.'), "{verdict:#?}");
        way
    })
}

/// What the path holds: 40 kB at 8 ms, 116 kB at 16, 463 kB at 64.
fn path_bytes(plant: &Plant) -> i64 {
    plant.rtt_ns / plant.packet_ns * FULL_BYTES
}

#[test]
fn a_small_window_is_the_receivers() {
    for rtt in [8, 16, 64] {
        for part in [4, 2] {
            let mut plant = Plant { rtt_ns: rtt * MS, ..Plant::default() };
            plant.window_bytes = path_bytes(&plant) / part;
            for way in expect(&plant, Cause::ReceiverLimited) {
                let flight = way.flight_bytes.unwrap().median;
                assert!(flight > 0.6 * plant.window_bytes as f64, "{flight} of {}", plant.window_bytes);
            }
        }
    }
}

#[test]
fn a_constant_flight_below_the_window_is_the_senders() {
    for rtt in [8, 16, 64] {
        for part in [4, 2] {
            let mut plant = Plant { rtt_ns: rtt * MS, ..Plant::default() };
            plant.sender_bytes = path_bytes(&plant) / part;
            let ways = expect(&plant, Cause::SenderLimited);
            assert!(ways[0].verdict.as_ref().unwrap().remedy.contains("SO_SNDBUF"));
        }
    }
}

#[test]
fn loss_is_the_networks() {
    for rtt in [8, 16, 64] {
        let plant = Plant { rtt_ns: rtt * MS, loses_one_of: 100, network_bytes: 60 * FULL_BYTES, ..Plant::default() };
        for way in expect(&plant, Cause::CongestionLimited) {
            let part = way.resent as f64 / way.data_packets as f64;
            assert!((0.004..0.02).contains(&part), "{part}");
        }
    }
}

#[test]
fn a_full_path_is_the_networks() {
    let plant = Plant { network_bytes: 400 * FULL_BYTES, ..Plant::default() };
    expect(&plant, Cause::CongestionLimited);
    // A window that is full on a full path: a larger one would not help.
    let plant = Plant { window_bytes: 300 * FULL_BYTES, ..Plant::default() };
    let ways = expect(&plant, Cause::CongestionLimited);
    assert!(ways[0].verdict.as_ref().unwrap().evidence.iter().any(|s| s.contains("queue")));
}

#[test]
fn a_program_with_pauses_is_itself_to_blame() {
    for (rtt, write_bytes, each_ms) in [(8, 20_000, 50), (16, 1000, 5), (32, 10_000, 13), (64, 100_000, 150)] {
        let plant = Plant { rtt_ns: rtt * MS, write_bytes, write_each_ns: each_ms * MS, ..Plant::default() };
        expect(&plant, Cause::ApplicationLimited);
    }
}

#[test]
fn without_stamps_the_opening_says_where_it_was_captured() {
    let small = Plant { has_stamps: false, window_bytes: 20 * FULL_BYTES, ..Plant::default() };
    let ways = expect(&small, Cause::ReceiverLimited);
    let distances = ways.map(|way| way.sender_rtt_ms.unwrap());
    assert!(distances[0] < 0.1 && (15.9..16.1).contains(&distances[1]), "{distances:?}");
    expect(&Plant { window_bytes: 1 << 20, sender_bytes: 20 * FULL_BYTES, ..small }, Cause::SenderLimited);
}

#[test]
fn too_little_is_not_judged() {
    let plant = Plant { write_bytes: 10_000, write_each_ns: 10_000 * MS, ..Plant::default() };
    let way = analysed(&play(&plant, 1000 * MS).near_sender);
    assert_eq!((way.verdict, way.data_packets, way.unique_bytes), (None, 7, 10_000));
}

#[test]
fn without_what_came_back_nothing_is_judged() {
    let plant = Plant { window_bytes: 20 * FULL_BYTES, ..Plant::default() };
    let mut frames = play(&plant, 1000 * MS).near_sender;
    // The client's packets alone, by their addresses: behind Ethernet's header and what is before them in IP's.
    frames.retain(|(_, data)| data[26..30] == crate::testing::CLIENT.0);
    let way = analysed(&frames);
    assert!(way.data_packets > 100, "{}", way.data_packets);
    assert_eq!((way.verdict, way.flight_bytes, way.rtt_ms), (None, None, None));
}
