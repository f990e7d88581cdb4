//! What flashmob wants to reach, as ratios within one run.

use crate::stats::Best;

/// What of a row is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    PerSecond,
    BytesPerSecond,
    P50,
    P99,
}

/// A goal.
#[derive(Clone, Debug)]
pub struct Target {
    pub path: &'static str,
    pub measure: &'static str,
    /// Our row.
    pub ours: &'static str,
    /// The rows whose best it is compared with.
    pub others: &'static [&'static str],
    pub metric: Metric,
    pub at_least: f64,
    pub aim: f64,
}

impl Target {
    /// Latencies shall be small, rates large.
    pub fn best(&self) -> Best {
        match self.metric {
            Metric::PerSecond | Metric::BytesPerSecond => Best::Most,
            Metric::P50 | Metric::P99 => Best::Least,
        }
    }

    /// Whether a ratio reaches a bound.
    pub fn reaches(&self, ratio: f64, bound: f64) -> bool {
        match self.best() {
            Best::Most => ratio >= bound,
            Best::Least => ratio <= bound,
        }
    }
}

/// Memory that a process may take, by its role.
pub const GATEWAY_BYTES_MAX: u64 = 192 << 20;
/// The same for a node.
pub const NODE_BYTES_MAX: u64 = 64 << 20;

const ONE: &str = "one hop: gateway with a local extent";
const TWO: &str = "two hops: gateway, eight nodes";
const COPIES: &str = "copies, 4 KiB, 4 conn, eight nodes";
const NATIVE: &str = "native client, eight nodes";

const PEERS_4K: &[&str] = &[
    "4k-4x64/nbdkit-file",
    "4k-4x64/nbdkit-memory",
    "4k-4x64/nbd-server",
    "4k-4x64/qemu-nbd",
    "4k-4x64/qemu-storage-daemon",
];
const PEERS_1B: &[&str] = &[
    "1b-4x64/nbdkit-file",
    "1b-4x64/nbdkit-memory",
    "1b-4x64/nbd-server",
    "1b-4x64/qemu-nbd",
    "1b-4x64/qemu-storage-daemon",
];
const RELAYS_4K: &[&str] = &["4k-4x64/relay-nbdkit", "4k-4x64/relay-qemu"];

const fn rate(
    path: &'static str,
    measure: &'static str,
    ours: &'static str,
    others: &'static [&'static str],
    at_least: f64,
    aim: f64,
) -> Target {
    Target { path, measure, ours, others, metric: Metric::PerSecond, at_least, aim }
}

/// All goals.
pub const TARGETS: &[Target] = &[
    rate(ONE, "4 KiB, 1 conn, against nbdkit file", "4k-1x64/flashmob-one", &["4k-1x64/nbdkit-file"], 2.2, 3.0),
    rate(ONE, "4 KiB, 4 conn, against the best peer", "4k-4x64/flashmob-one", PEERS_4K, 1.8, 2.8),
    rate(ONE, "1 B, 4 conn, against the best peer", "1b-4x64/flashmob-one", PEERS_1B, 3.0, 7.0),
    rate(
        TWO,
        "4 KiB, 4 conn, against nbdkit file over one hop",
        "4k-4x64/flashmob-two",
        &["4k-4x64/nbdkit-file"],
        1.4,
        2.0,
    ),
    rate(TWO, "4 KiB, 4 conn, against the best relay", "4k-4x64/flashmob-two", RELAYS_4K, 5.0, 7.0),
    rate(
        TWO,
        "4 KiB, 4 conn, against nbdfuse x 8 + split",
        "4k-4x64/flashmob-two",
        &["4k-4x64/nbdfuse-split"],
        18.0,
        26.0,
    ),
    rate(TWO, "1 B, 4 conn, against the bare pread loop", "1b-4x64/flashmob-two", &["1b-4x64/pread"], 0.45, 0.80),
    rate(NATIVE, "1 B, 100 a call, against the bare pread loop", "1b-4x64/native-100", &["1b-4x64/pread"], 0.60, 1.1),
    rate(NATIVE, "1 B, 1,000 a call, against the bare pread loop", "1b-4x64/native-1000", &["1b-4x64/pread"], 1.2, 5.0),
    rate(
        NATIVE,
        "1 B, 100 a call, against Redis GETRANGE, pipelines of 100",
        "1b-4x64/native-100",
        &["1b-4x64/redis-getrange"],
        1.8,
        3.0,
    ),
    rate(NATIVE, "4 KiB, against the bare pread loop", "4k-4x64/native-100", &["4k-4x64/pread"], 0.25, 0.45),
    Target {
        path: "latency, one outstanding 4 KiB read",
        measure: "p50, one hop, against nbdkit file",
        ours: "latency/flashmob-one",
        others: &["latency/nbdkit-file"],
        metric: Metric::P50,
        at_least: 1.0,
        aim: 0.8,
    },
    Target {
        path: "latency, one outstanding 4 KiB read",
        measure: "p50, two hops, against the best relay",
        ours: "latency/flashmob-two",
        others: &["latency/relay-nbdkit", "latency/relay-qemu"],
        metric: Metric::P50,
        at_least: 1.0,
        aim: 0.8,
    },
    Target {
        path: "latency, one outstanding 4 KiB read",
        measure: "p50, two hops, against a ping-pong of the same bytes through a bare relay",
        ours: "latency/flashmob-two",
        others: &["latency/ping-pong"],
        metric: Metric::P50,
        at_least: 1.5,
        aim: 1.2,
    },
    rate(
        "writes, 4 KiB, page cache, two hops",
        "against the best relay",
        "writes/flashmob-two",
        &["writes/relay-nbdkit", "writes/relay-qemu"],
        4.0,
        6.0,
    ),
    Target {
        path: "sequential 1 MiB reads, two hops, 1 conn",
        measure: "against iperf3 over loopback, one stream",
        ours: "sequential/flashmob-two",
        others: &["sequential/iperf3"],
        metric: Metric::BytesPerSecond,
        at_least: 0.35,
        aim: 0.5,
    },
    Target {
        path: ONE,
        measure: "p99, 4 KiB, 4 conn, against the best peer's",
        ours: "4k-4x64/flashmob-one",
        others: PEERS_4K,
        metric: Metric::P99,
        at_least: 1.0,
        aim: 1.0,
    },
    Target {
        path: TWO,
        measure: "p99, 4 KiB, 4 conn, against the best relay's",
        ours: "4k-4x64/flashmob-two",
        others: RELAYS_4K,
        metric: Metric::P99,
        at_least: 1.0,
        aim: 1.0,
    },
    Target {
        path: ONE,
        measure: "p99 at one outstanding beside a greedy client, against alone",
        ours: "fairness/flashmob-one-beside",
        others: &["fairness/flashmob-one-alone"],
        metric: Metric::P99,
        at_least: 3.0,
        aim: 3.0,
    },
    Target {
        path: TWO,
        measure: "p99 at one outstanding beside a greedy client, against alone",
        ours: "fairness/flashmob-two-beside",
        others: &["fairness/flashmob-two-alone"],
        metric: Metric::P99,
        at_least: 3.0,
        aim: 3.0,
    },
    rate(COPIES, "reads, 2 copies, against 1", "copies/flashmob-reads-2", &["copies/flashmob-reads-1"], 0.97, 1.0),
    rate(COPIES, "reads, 3 copies, against 1", "copies/flashmob-reads-3", &["copies/flashmob-reads-1"], 0.97, 1.0),
    rate(COPIES, "writes, 2 copies, against 1", "copies/flashmob-writes-2", &["copies/flashmob-writes-1"], 0.6, 0.8),
    rate(COPIES, "writes, 3 copies, against 1", "copies/flashmob-writes-3", &["copies/flashmob-writes-1"], 0.45, 0.6),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_name_rows_that_there_are() {
        let ids: Vec<String> = crate::rows::all(false).into_iter().map(|row| row.id).collect();
        for target in TARGETS {
            for id in target.others.iter().chain([&target.ours]) {
                assert!(ids.iter().any(|known| known == id), "{id}");
            }
        }
    }

    #[test]
    fn rates_shall_be_high_and_latencies_low() {
        let of = |metric| TARGETS.iter().find(|target| target.metric == metric).unwrap();
        assert!(of(Metric::PerSecond).reaches(2.2, 2.2) && !of(Metric::PerSecond).reaches(2.1, 2.2));
        assert!(of(Metric::P50).reaches(1.0, 1.0) && !of(Metric::P50).reaches(1.1, 1.0));
    }
}
