//! Reports for tests, with names that try to break what prints them.

mod live;

use std::time::Duration;

use flashmob_core::gateway::{GatewayCounters, LinkCounters, SampleCounters};
use flashmob_core::node::NodeCounters;

use crate::status::failures::FailuresReport;
use crate::status::report::{
    ConditionReport, GatewayReport, KeysReport, LinkReport, ModelReport, NodeLinkReport, NodeOfVolume, NodeReport,
    PathLimit, PathReport, PauseReport, Report, StageReport, SumsReport, TcpReport, TraceCounters, VolumeReport,
};

pub use self::live::live;

const MIB: u64 = 1 << 20;
/// A name that tries to end a label, a line and a terminal's colour.
pub const EVIL: &str = "a\"b\\c\nd\u{1b}[31m\u{202e}é";

/// A stage that `count` requests passed.
pub fn stage(name: &str, count: u64) -> StageReport {
    StageReport {
        name: name.to_string(),
        count,
        sum_seconds: count as f64 * 0.0005,
        p50_seconds: 0.000_42,
        p90_seconds: 0.001_3,
        p99_seconds: 0.012_6,
        max_seconds: 1.25,
        buckets: vec![(0.0001, 0), (0.0005, count / 2), (0.01, count - count / 10), (10.0, count)],
    }
}

/// A path whose receive buffer is too small, and whose other end has the same fault.
pub fn path() -> PathReport {
    PathReport {
        congestion: Some("cubic".to_string()),
        delivery_rate_bytes_per_second: 2_500_000,
        in_bytes_per_second: 2_600_000.0,
        out_bytes_per_second: 5_000.0,
        receive_window_bytes: 85_632,
        send_window_bytes: 65_536,
        receive_buffer_bytes: 131_072,
        send_buffer_bytes: 87_040,
        receive_window_used_fraction: 0.98,
        busy_fraction: 0.9,
        receiver_limited_fraction: 0.5,
        send_buffer_limited_fraction: 0.25,
        lost_segments: 12,
        carried_segments: 48_000,
        lossy_looks: 1,
        is_limited_by_peer: true,
        limits: vec![PathLimit {
            buffer: "receive".to_string(),
            buffer_bytes: 131_072,
            wanted_bytes: 262_144,
            remedy: "sysctl -w net.ipv4.tcp_rmem=\"4096 131072 262144\"".to_string(),
        }],
    }
}

/// A link that is up.
pub fn link(number: usize) -> LinkReport {
    LinkReport {
        number,
        state: "ready".to_string(),
        outstanding_batches: 2,
        counters: LinkCounters {
            batches: 1000,
            pieces: 64_000,
            reply_frames: 1100,
            bytes_out: 300_000,
            bytes_in: 256 * MIB,
            resent: 3,
            breaks: 1,
            failures: 2,
            alive_frames: 14,
            ..LinkCounters::default()
        },
        pieces_per_batch: 64.0,
        node_seconds: 12.5,
        tcp: Some(TcpReport {
            rtt_us: 1800,
            rtt_variation_us: 250,
            min_rtt_us: 900,
            segments_out: 9000,
            segments_in: 190_000,
            data_segments_out: 1000,
            data_segments_in: 185_000,
            bytes_out: 300_000,
            bytes_in: 256 * MIB,
            mean_segment_out_bytes: 300.0,
            mean_segment_in_bytes: 1448.0,
            retransmissions: 7,
            congestion_window_segments: 40,
            mss_bytes: 1448,
        }),
        path: Some(path()),
    }
}

/// A node of a volume with this many links.
pub fn node_of_volume(name: &str, links: usize) -> NodeOfVolume {
    NodeOfVolume {
        name: name.to_string(),
        state: "ready".to_string(),
        is_paused: false,
        is_leaving: false,
        is_drained: false,
        size_bytes: Some(64 * MIB),
        queue_depth: 12,
        no_io: false,
        modelled: false,
        failures: FailuresReport::default(),
        refusal: None,
        clock_offset_seconds: Some(-12.25),
        clock_error_seconds: Some(0.000_75),
        seen_at: None,
        key_generation: None,
        condition: None,
        links: (0..links).map(link).collect(),
    }
}

fn report(stages: &[&str]) -> Report {
    let stages = stages.iter().map(|name| stage(name, 64_000)).collect();
    let report = Report::new(Duration::from_millis(11_530_400), (3 * MIB, 20 * MIB, 128 * MIB), stages);
    Report { version: "0.1.0".to_string(), ..report }
}

/// A modelled flash.
pub fn model() -> ModelReport {
    ModelReport {
        profile: "nexus7-emmc".to_string(),
        description: "a tablet".to_string(),
        served: 2100,
        busy_seconds: 1.5,
        busy_fraction: 0.75,
        upward_fraction: 0.5,
        lateness_p50_us: 60.0,
        lateness_p99_us: 250.0,
        lateness_max_us: 4000.0,
        late: 7,
    }
}

/// A tablet in a drawer, about to fail.
pub fn condition() -> ConditionReport {
    ConditionReport {
        age_seconds: Some(3.5),
        battery_percent: Some(12),
        charging: Some(false),
        celsius: Some(31.5),
        screen_on: Some(false),
        doze: Some(false),
        network: Some("wifi".to_string()),
        size_bytes: Some(10 << 30),
        free_bytes: Some(3 << 30),
        unallocated_bytes: Some(4 << 30),
        is_battery_low: true,
        is_space_little: true,
        warnings: vec!["the battery is at 12 % and not charging: plug it in before it switches off".to_string()],
        pauses_total: 2,
        pauses: vec![PauseReport {
            ended_seconds_ago: Some(60.0),
            lasted_seconds: 312.4,
            reason: "the device slept (screen off, not charging, battery 41 %)".to_string(),
        }],
        ..ConditionReport::default()
    }
}

/// A gateway with one volume: a good node, a refused one, one on its way back, a local one.
pub fn gateway() -> Report {
    let refused = NodeOfVolume {
        state: "refused".to_string(),
        size_bytes: None,
        refusal: Some("it belongs to volume 'photos'".to_string()),
        links: vec![],
        ..node_of_volume("tablet-2.lan:7000", 0)
    };
    let mut back = node_of_volume("192.168.100.103:7000", 4);
    back.state = "connecting".to_string();
    for link in &mut back.links[1..] {
        (link.state, link.tcp, link.path) = ("waiting".to_string(), None, None);
    }
    let mut local = node_of_volume("/srv/flash/extent", 1);
    local.no_io = true;
    (local.links[0].tcp, local.links[0].path) = (None, None);
    let mut first = node_of_volume("tablet-1.lan:7000", 8);
    first.condition = Some(condition());
    back.seen_at = Some("192.168.100.7:7000".to_string());
    back.condition = Some(ConditionReport { free_bytes: Some(50 << 30), ..ConditionReport::default() });
    let volume = VolumeReport {
        name: "tank".to_string(),
        size_bytes: Some(256 * MIB),
        copies: None,
        nodes: vec![first, refused, back, local],
    };
    Report {
        warnings: vec!["whoever reaches 0.0.0.0:10809 can read and write".to_string()],
        gateway: Some(GatewayReport {
            findings: Vec::new(),
            clients: 3,
            in_hand: 64,
            requests: vec![("read".to_string(), 1_234_567), ("write".to_string(), 987), ("flush".to_string(), 0)],
            counters: GatewayCounters { failures: 5, timeouts: 4, link_errors: 1, ..GatewayCounters::default() },
            trace: TraceCounters {
                one_in: 1000,
                in_flight: 2,
                counters: SampleCounters {
                    begun: 96,
                    finished: 90,
                    failed: 1,
                    crowded_out: 3,
                    abandoned: 1,
                    untold: 2,
                },
            },
            keys: None,
            volumes: vec![volume],
        }),
        ..report(&["queued", "batched", "sent", "replied", "total"])
    }
}

/// The report of a node.
pub fn node() -> Report {
    Report {
        node: Some(NodeReport {
            extent_id: "00112233445566778899aabbccddeeff".to_string(),
            path: "/data/extent".to_string(),
            size_bytes: 10 << 30,
            keys: Some(KeysReport { cluster: "4f".repeat(32), generation: 3 }),
            no_io: false,
            model: None,
            condition: condition(),
            volume: Some("tank".to_string()),
            place: None,
            links: 8,
            paths: vec![NodeLinkReport {
                peer: "192.168.1.2:40112".to_string(),
                tcp: link(0).tcp.unwrap_or_default(),
                path: path(),
            }],
            counters: NodeCounters {
                batches: 1000,
                pieces: 64_000,
                fast_reads: 12_345,
                fast_writes: 2_345,
                store_ops: 40_000,
                read_bytes: 256 * MIB,
                write_bytes: 4096,
                failures: 0,
                protocol_errors: 2,
            },
            mapped: true,
            mapped_reads: 11_000,
            mapped_major_faults: 3,
            sums: Some(SumsReport {
                bad_blocks: 2,
                mismatches: 5,
                adopted_blocks: 1,
                settled_blocks: 4,
                rewritten_blocks: 6,
                units_without: 7,
            }),
            waiting: 17,
            in_store: 4,
        }),
        ..report(&["scheduled", "flash_start", "flash_done", "replied", "total"])
    }
}
