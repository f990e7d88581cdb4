//! Documents of clusters for tests: a small model of what P1 saw, to be bent where a test wants something else.

use flashmob_results::cluster::{
    AirModel, AirUse, Attachment, Batch, Batches, Cluster, FlashLimit, FlashModel, Packets, Parameters, Point,
    Repetition, Setting,
};
use flashmob_results::latency::{Latency, histogram};
use flashmob_results::{Document, Measurement};

use super::builder::document;

/// What one node's flash does: P1's.
pub const LIMIT: f64 = 2_100.0;

pub fn parameters(nodes: u32, links: u32, batch: Batch) -> Parameters {
    let held = |k: u32| k.saturating_mul(links).saturating_mul(2);
    let outstanding = match batch {
        Batch::Auto => nodes.saturating_mul(256),
        Batch::Fixed(k) => nodes.saturating_mul(held(u32::from(k)).max(256)),
    };
    Parameters {
        nodes,
        links,
        batch,
        block_bytes: 1,
        read_percent: 100.0,
        outstanding,
        no_io: false,
        order: None,
        air_load_percent: None,
    }
}

pub fn without_io(p: Parameters) -> Parameters {
    Parameters { no_io: true, ..p }
}

/// What crosses the air for each request: bytes of a packet, and frames.
pub fn carried(batch: Batch) -> (f64, f64) {
    match batch {
        Batch::Fixed(1) => (40.0, 5.0),
        Batch::Fixed(k) => (20.0 + 8.0 * f64::from(k), 5.0 / f64::from(k)),
        Batch::Auto => (300.0, 0.1),
    }
}

pub fn repetition(p: &Parameters, rate: f64) -> Repetition {
    let (packet_bytes, frames) = carried(p.batch);
    let seconds = 3.0;
    let requests = (rate * seconds) as u64;
    let packets = (requests as f64 * frames / 2.0) as u64;
    let mut latencies = histogram();
    let mean_ns = if rate > 0.0 { f64::from(p.outstanding) * 1e9 / rate } else { 0.0 };
    for n in 1..=10u64 {
        latencies.saturating_record((mean_ns * (0.5 + n as f64 / 10.0)).clamp(1.0, 1e12) as u64);
    }
    Repetition {
        begin_s: 1.0,
        elapsed_s: seconds,
        requests,
        bytes: requests * u64::from(p.block_bytes),
        errors: 0,
        requests_per_second: rate,
        latency_ns: Latency::new(&latencies),
        batches: Batches { sent: packets / 2, pieces: requests, replies: packets / 2 },
        packets: Some(Packets {
            sent: packets / 2,
            received: packets / 2,
            data_sent: packets / 2,
            data_received: packets / 2,
            bytes_sent: (packets as f64 / 2.0 * packet_bytes) as u64,
            bytes_received: (packets as f64 / 2.0 * packet_bytes) as u64,
            retransmitted: 0,
        }),
        air: Some(AirUse {
            transmissions: packets,
            frames: (requests as f64 * frames) as u64,
            frame_bytes: packets * 100,
            collisions: 3,
            retries: 4,
            dropped: 0,
            busy_fraction: 0.7,
        }),
        flash_busy_fraction: Some(0.5),
        gateway_cpu_s: 0.4,
        hedged: None,
        rebuild: None,
        lateness: None,
        is_void: false,
    }
}

/// Three repetitions within 2 % of a rate.
pub fn point(p: Parameters, rate: f64) -> Point {
    let repetitions = [0.99, 1.0, 1.01].map(|part| repetition(&p, rate * part)).to_vec();
    Point::new(p, repetitions, Some(LIMIT))
}

pub const NODES: [u32; 4] = [1, 2, 4, 8];
pub const LINKS: [u32; 6] = [1, 2, 4, 8, 16, 32];
pub const BATCHES: [Batch; 3] = [Batch::Fixed(1), Batch::Fixed(10), Batch::Fixed(100)];

/// Requests each second as P1's figures have them.
pub fn as_in_p1(p: &Parameters) -> f64 {
    let (n, m) = (f64::from(p.nodes), f64::from(p.links));
    let air = |k: f64| 7_000.0 * k;
    match p.batch {
        Batch::Fixed(1) if p.no_io => (500.0 * m * n).min(air(1.0)),
        // What the air leaves to each of them.
        Batch::Fixed(1) => 2_050.0 * n.powf(0.6) * (m / 16.0).min(1.0),
        Batch::Fixed(10) if p.no_io => (5_000.0 * m * n).min(air(9.0)),
        Batch::Fixed(10) => (260.0 * m).min(LIMIT) * n * 0.96,
        Batch::Fixed(_) if p.no_io => (40_000.0 * m * n).min(air(60.0)),
        Batch::Fixed(_) => (520.0 * m).min(LIMIT) * n * 0.97,
        Batch::Auto => LIMIT * n * 0.98,
    }
}

/// All of P1's section 3, with these rates.
pub fn p1(rate: impl Fn(&Parameters) -> f64) -> Vec<Point> {
    let mut points = Vec::new();
    for nodes in NODES {
        for batch in BATCHES {
            points.extend(LINKS.map(|links| parameters(nodes, links, batch)));
        }
        points.extend([1, 4].map(|links| parameters(nodes, links, Batch::Auto)));
    }
    let without: Vec<Parameters> = points.iter().cloned().map(without_io).collect();
    points
        .into_iter()
        .chain(without)
        .map(|p| {
            let rate = rate(&p);
            point(p, rate)
        })
        .collect()
}

pub fn cluster(points: Vec<Point>) -> Cluster {
    Cluster {
        setting: Setting::Lab,
        air: Some(AirModel {
            profile: "11n-2014".into(),
            description: "An air for tests.".into(),
            gateway: Attachment::Wired,
            cells: 1,
        }),
        flash: Some(FlashModel {
            profile: "nexus7-emmc".into(),
            description: "A flash for tests.".into(),
            limits: vec![FlashLimit { block_bytes: 1, read_percent: 100.0, requests_per_second: LIMIT }],
        }),
        extent_bytes: 10_000_000_000,
        disk_ids: Vec::new(),
        copies: None,
        weak: None,
        rebuild: None,
        points,
    }
}

pub fn document_of(cluster: Cluster) -> Document {
    Document { label: None, preset: None, measurement: Measurement::Cluster(cluster), ..document("", None, Vec::new()) }
}

pub fn clustered(points: Vec<Point>) -> Document {
    document_of(cluster(points))
}
