//! Differences of counters.

use std::time::{Duration, Instant};

use flashmob_lab::load::Master;
use flashmob_results::cluster::{AirModel, Attachment, Lateness};

use super::*;
use crate::lab::status::AirCounters;

fn parameters() -> Parameters {
    Parameters {
        nodes: 2,
        links: 3,
        batch: Batch::Fixed(10),
        block_bytes: 4096,
        read_percent: 100.0,
        outstanding: 64,
        no_io: false,
        order: None,
        air_load_percent: None,
    }
}

fn lab(factor: u64) -> LabStatus {
    let counters = AirCounters {
        transmissions: 10 * factor,
        frames: 100 * factor,
        frame_bytes: 1000 * factor,
        collisions: factor,
        retries: 2 * factor,
        dropped: 3 * factor,
        busy_ns: 500_000_000 * factor,
    };
    LabStatus {
        nodes: 2,
        air: AirModel { profile: "p".into(), description: "d".into(), gateway: Attachment::Wired, cells: 2 },
        flash: None,
        order: None,
        extent_bytes: 1 << 30,
        weak: None,
        counters,
        lateness: Lateness { p50_us: 1.0, ..Lateness::default() },
        is_late: false,
        elapsed_ns: 1_000_000_000 * factor,
    }
}

fn look(factor: u64, at: Instant) -> Look {
    let packets = Packets {
        sent: 100 * factor,
        received: 90 * factor,
        data_sent: 80 * factor,
        data_received: 70 * factor,
        bytes_sent: 1000 * factor,
        bytes_received: 2000 * factor,
        retransmitted: factor,
    };
    Look {
        at,
        cpu: Duration::from_millis(100 * factor),
        batches: Batches { sent: 10 * factor, pieces: 50 * factor, replies: 12 * factor },
        packets: Some(packets),
        breaks: 1,
        lab: Some(lab(factor)),
    }
}

fn seen() -> Seen {
    let at = Instant::now();
    let plan = Plan { range_bytes: 1, block_bytes: 1, read_percent: 100.0, outstanding: 1, every_ns: None, seed: 1 };
    let mut tally = Master::new(plan, 0).reset();
    (tally.requests, tally.errors) = (500, 2);
    tally.latency_ns.record_n(1_000_000, 500).unwrap();
    Seen { begin: look(1, at), end: look(3, at + Duration::from_secs(2)), tally }
}

#[test]
fn a_repetition_is_the_difference_of_two_looks() {
    let r = repetition(&seen(), &parameters(), false);
    assert_eq!((r.requests, r.bytes, r.errors, r.elapsed_s, r.is_void), (500, 500 * 4096, 2, 2.0, false));
    assert_eq!((r.requests_per_second, r.latency_ns.count), (250.0, 500));
    assert_eq!(r.batches, Batches { sent: 20, pieces: 100, replies: 24 });
    let packets = r.packets.unwrap();
    assert_eq!((packets.sent, packets.received, packets.retransmitted), (200, 180, 2));
    assert_eq!((packets.data_sent, packets.data_received), (160, 140));
    assert!((packets.mean_bytes() - 20.0).abs() < 1e-9);
    let air = r.air.unwrap();
    assert_eq!((air.transmissions, air.frames, air.frame_bytes), (20, 200, 2000));
    assert_eq!((air.collisions, air.retries, air.dropped), (2, 4, 6));
    assert!((air.busy_fraction - 0.25).abs() < 1e-9, "the mean of two cells: {}", air.busy_fraction);
    assert!((r.gateway_cpu_s - 0.2).abs() < 1e-9);
    assert_eq!(r.lateness.unwrap().p50_us, 1.0);
}

#[test]
fn what_was_stopped_or_late_counts_for_nothing() {
    assert!(repetition(&seen(), &parameters(), true).is_void);
    let mut late = seen();
    late.end.lab.as_mut().unwrap().is_late = true;
    assert!(repetition(&late, &parameters(), false).is_void);
}

#[test]
fn a_link_that_broke_makes_its_packets_unknown() {
    let mut broken = seen();
    broken.end.breaks += 1;
    assert_eq!(repetition(&broken, &parameters(), false).packets, None);
}

#[test]
fn outside_a_lab_nothing_is_said_of_the_air() {
    let mut outside = seen();
    (outside.begin.lab, outside.end.lab) = (None, None);
    let r = repetition(&outside, &parameters(), false);
    assert_eq!((r.air, r.lateness), (None, None));
}
