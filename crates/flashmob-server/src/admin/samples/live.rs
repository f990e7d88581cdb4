//! What nodes did, for tests.

use std::time::Duration;

use flashmob_core::buckets::Buckets;
use flashmob_core::gateway::{Counts, NodeSlot, Slot};

use super::EVIL;
use crate::status::finding::{Cause, Finding, Severity};
use crate::status::live::{LiveCopies, LiveNode, LiveReport, LiveSlot, LiveVolume, SCHEMA, bounds_us};
use crate::status::report::Rebuild;

/// Times around a middle: a tenth of `count` times in each bucket near it, some further away.
fn around(middle_us: u64, count: u32) -> Buckets {
    let mut buckets = Buckets::default();
    for (parts, share) in [(4, 10), (6, 10), (9, 30), (10, 45), (16, 30), (25, 10), (60, 3), (200, 1)] {
        buckets.record_n(middle_us * 100 * parts, count * share / 100);
    }
    buckets
}

fn node_slot(node: u64, second: u64) -> NodeSlot {
    // The third node is five times as slow, by its flash.
    let slow = if node == 2 { 5 } else { 1 };
    let count = (4_600 + 37 * ((node + second) % 10)) as u32;
    NodeSlot {
        timed: count.into(),
        causes: [around(300, count), around(900, count), around(240 * slow, count), around(170 * slow, count)],
        p50: Some(Duration::from_micros(1_400 * slow)),
        p99: Some(Duration::from_micros(9_800 * slow)),
        counts: Counts {
            batches: 310,
            pieces: count.into(),
            reply_frames: 322,
            bytes_in: u64::from(count) * 4_130,
            failures: second % 7 / 6,
            read_here: 0,
        },
        at_once: 3_900,
        store_operations: 690,
        running_permille: Some(310),
        starved_permille: Some(20),
    }
}

/// A gateway whose nodes are busy; the second one, if there is one, is away, and the name of the first tries to end a line and a page.
pub fn live(nodes: usize, seconds: u64) -> LiveReport {
    let slot = |second: u64| {
        let busy = (0..nodes).filter(|&node| node != 1 || nodes > 8);
        let slot = Slot {
            first_second: second,
            seconds: 1,
            nodes: busy.map(|node| (node, node_slot(node as u64, second))).collect(),
        };
        LiveSlot::of(&slot)
    };
    let node = |n: usize| LiveNode {
        volume: 0,
        name: if n == 0 { format!("{EVIL}<b>") } else { format!("192.168.178.{}:7780", 20 + n) },
        state: if n == 1 && nodes <= 8 { "waiting" } else { "ready" }.to_string(),
        queue: 3 * n,
        rtt_us: Some(870),
        segments: Some(18_400_000),
        retransmissions: Some(1_200),
        battery_percent: Some(98 - n as u8),
        charging: Some(n != 2),
        celsius: Some(31.5 + n as f64),
        free_bytes: Some(17_300_000_000),
        is_hot: n == 2,
        ..LiveNode::default()
    };
    LiveReport {
        schema: SCHEMA,
        version: env!("CARGO_PKG_VERSION").to_string(),
        start: "00000000688c3f2a".to_string(),
        uptime_seconds: 3_725.5,
        slot_seconds: 1,
        next_second: 3_700 + seconds,
        kept_seconds: 600,
        bounds_us: bounds_us(),
        warnings: if nodes > 2 {
            vec![format!("volume pool, node {}: it is hot (33.5 °C)", node(2).name)]
        } else {
            Vec::new()
        },
        more_warnings: 0,
        findings: if nodes > 2 {
            let finding =
                Finding::new(Cause::Heat, Severity::Wrong, "it is hot (33.5 °C) and will slow down", "give it air");
            vec![finding.of_node(0, 2)]
        } else {
            Vec::new()
        },
        more_findings: 0,
        measurement: None,
        may_change: false,
        clients: 2,
        in_hand: 64,
        memory_used_bytes: 3 << 20,
        memory_limit_bytes: 116 << 20,
        volumes: vec![LiveVolume {
            name: "pool".to_string(),
            size_bytes: Some((nodes as u64 * 64) << 30),
            copies: (nodes > 1).then(|| LiveCopies {
                copies: 2,
                fewest_current: 1,
                chunks: 131_072,
                behind_chunks: 4_096,
                doubtful_chunks: 0,
                is_scrubbing: false,
                rebuild: Rebuild::of(4_096, 4 << 20, Some(31e6)),
            }),
        }],
        nodes: (0..nodes).map(node).collect(),
        slots: (3_700..3_700 + seconds).map(slot).collect(),
    }
}
