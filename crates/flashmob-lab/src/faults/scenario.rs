//! The cluster, clients and faults of a run, drawn from a random seed or constructed by hand.

use std::time::Duration;

use flashmob_core::gateway::{BatchMode, VolumeSpec};
use flashmob_core::layout::LayoutKind;
use flashmob_core::units::{KIB, MIB};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};

use super::failed_sync;
use super::fault::{self, Fault};
use super::killed::ChangePlan;
use super::mapped::CopiesPlan;
use super::net::LinkQuality;
use super::remount;
use super::slow_flush;
use super::store::StoreQuality;

/// One run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Scenario {
    /// The random seed.
    pub seed: u64,
    /// Sizes of the extents, one per node.
    pub extents_bytes: Vec<u64>,
    /// The volume. The gateway fills in the extents: those are `extents_bytes`.
    pub volume: VolumeSpec,
    /// Whether the sizes are in the gateway's configuration; otherwise it learns them.
    pub sizes_configured: bool,
    /// The gateway's budget.
    pub gateway_memory_bytes: u64,
    /// The node's unit of rewriting.
    pub align_bytes: u64,
    /// Which nodes' bytes the gateway reads in its own process when they are at hand, one bit each.
    pub local_nodes: u64,
    /// Most operations in a store at once.
    pub store_depth: usize,
    /// Connections between gateway and nodes.
    pub node_link: LinkQuality,
    /// Connections between clients and gateway.
    pub client_link: LinkQuality,
    /// Every node's store.
    pub store: StoreQuality,
    /// How many times slower each node's store is.
    pub slowness: Vec<u64>,
    /// Who uses the volume.
    pub clients: Vec<ClientPlan>,
    /// Faults, and their times.
    pub faults: Vec<(Duration, Fault)>,
    /// When faults end.
    pub span: Duration,
    /// Keep the latency of each request.
    pub record_latencies: bool,
    /// Keep what clients saw: see [`Scenario::of_registers`].
    pub record_history: bool,
    /// One request in so many is followed; 0: none.
    pub sampled_one_in: u64,
    /// How far each node's clock is ahead of the gateway's, in nanoseconds.
    pub clocks_ahead_ns: Vec<i64>,
    /// The volume's copies; its layout is [`LayoutKind::Mapped`] then.
    pub copies: Option<CopiesPlan>,
    /// A change in whose middle somebody is killed.
    pub change: Option<ChangePlan>,
    /// The nodes that may lose data: fewer than there are copies.
    pub victims: Vec<usize>,
    /// The nodes whose systems name no instance of their page caches, one bit each.
    #[serde(default)]
    pub unknown_caches: u64,
}

/// One client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClientPlan {
    /// Calls the gateway in its process, instead of NBD.
    pub native: bool,
    /// Asks for structured replies.
    pub structured: bool,
    /// Requests to make.
    pub requests: u32,
    /// Requests outstanding.
    pub depth: usize,
    /// Mean pause before a request, in nanoseconds.
    pub think_ns: u64,
    /// Weights of reads, writes, flushes, trims, write-zeroes.
    pub mix: [u32; 5],
    /// How often a change has FUA.
    pub fua_rate: f64,
    /// The longest usual request.
    pub len_max: u64,
    /// How often a request falls into one of the busy places.
    pub busy_rate: f64,
    /// Where those are: first byte, bytes.
    pub busy: Vec<(u64, u64)>,
    /// How often it leaves without waiting for answers, per request.
    pub leave_rate: f64,
    /// How often it asks for a map of holes in place of a read. Native clients and those without structured replies never do.
    pub map_rate: f64,
}

impl Scenario {
    /// Whether a node is inside the gateway's process.
    #[must_use]
    pub fn is_local(&self, node: usize) -> bool {
        self.local_nodes & (1 << node.min(63)) != 0
    }

    /// A fault-free cluster of equal nodes with nothing left to chance but addresses.
    #[must_use]
    pub fn plain(seed: u64, nodes: usize, extent_bytes: u64) -> Scenario {
        let quality = LinkQuality {
            latency_ns: 500_000,
            jitter_ns: 0,
            bytes_per_second: 0,
            buffer_bytes: 1 << 20,
            cut_rate: 0.0,
        };
        Scenario {
            seed,
            extents_bytes: vec![extent_bytes; nodes],
            volume: VolumeSpec {
                id: "simulated".to_string(),
                batch_bytes: 256 * KIB,
                timeout: Duration::from_secs(2),
                connect_timeout: Duration::from_millis(500),
                reconnect_min: Duration::from_millis(5),
                reconnect_max: Duration::from_millis(500),
                keep_awake: None,
                ..VolumeSpec::new("v", Vec::new())
            },
            sizes_configured: true,
            gateway_memory_bytes: 64 * MIB,
            align_bytes: 1,
            local_nodes: 0,
            store_depth: 4,
            client_link: LinkQuality { latency_ns: 10_000, ..quality.clone() },
            node_link: quality,
            store: StoreQuality { base_ns: 100_000, jitter_ns: 0, hit_rate: 0.0, error_rate: 0.0 },
            slowness: vec![1; nodes],
            clients: Vec::new(),
            faults: Vec::new(),
            span: Duration::from_millis(100),
            record_latencies: false,
            record_history: false,
            sampled_one_in: 0,
            clocks_ahead_ns: vec![0; nodes],
            copies: None,
            change: None,
            victims: Vec::new(),
            unknown_caches: 0,
        }
    }

    /// The scenario of a seed.
    #[must_use]
    pub fn from_seed(seed: u64) -> Scenario {
        let rng = &mut SmallRng::seed_from_u64(seed ^ 0x5ce_0a12);
        let is_big = rng.random_ratio(1, 100);
        let nodes = rng.random_range(1..=if is_big { 3 } else { 5 });
        let (layout, extents_bytes) = draw_extents(rng, nodes, is_big);
        let volume_bytes: u64 = extents_bytes.iter().sum();
        let span_ms = *pick(rng, &[20, 60, 150, 400, 1500, 4000]);
        let timeout = Duration::from_millis(*pick(rng, &[400, 1000, 2500]));
        let plain = Scenario::plain(seed, nodes, 1);
        let mut scenario = Scenario {
            sizes_configured: rng.random_ratio(2, 3),
            volume: VolumeSpec {
                layout,
                batch: *pick(
                    rng,
                    &[BatchMode::Auto, BatchMode::Auto, BatchMode::Auto, BatchMode::Fixed(1), BatchMode::Fixed(3)],
                ),
                batch_bytes: *pick(rng, &[1, 4 * KIB, 64 * KIB, MIB, MIB]),
                links: *pick(rng, &[1, 1, 1, 2, 2, 3]),
                outstanding_batches: *pick(rng, &[1, 2, 2, 4]),
                timeout,
                connect_timeout: Duration::from_millis(rng.random_range(50..300)),
                reconnect_min: Duration::from_millis(*pick(rng, &[1, 5, 5, 60, 200])),
                reconnect_max: Duration::from_millis(rng.random_range(200..400)),
                ..plain.volume
            },
            gateway_memory_bytes: *pick(rng, &[4 * KIB, 64 * KIB, 64 * MIB, 64 * MIB, 64 * MIB, 64 * MIB]),
            align_bytes: *pick(rng, &[1, 1, 1, 512, 4096]),
            store_depth: rng.random_range(1..9),
            node_link: draw_quality(rng, is_big),
            client_link: draw_quality(rng, is_big),
            store: StoreQuality {
                base_ns: rng.random_range(10_000..300_000),
                jitter_ns: rng.random_range(0..1_000_000),
                hit_rate: *pick(rng, &[0.0, 0.3, 0.8, 1.0]),
                error_rate: 0.3,
            },
            span: Duration::from_millis(span_ms),
            extents_bytes,
            ..plain
        };
        let busy = draw_busy(rng, &scenario.extents_bytes, volume_bytes);
        let requests = rng.random_range(40..160);
        let clients = rng.random_range(1..=4);
        for _ in 0..clients {
            let plan = draw_client(rng, requests / clients, span_ms, volume_bytes, is_big, &busy);
            scenario.clients.push(plan);
        }
        // A generator of its own: whether there are such clusters changes nothing of the others.
        let dear = &mut SmallRng::seed_from_u64(seed ^ 0xdea2);
        let is_dear = dear.random_ratio(1, 6);
        if is_dear {
            scenario.make_frames_dear(dear);
        }
        scenario.volume.timeout = scenario.volume.timeout.max(scenario.patience());
        fault::draw(rng, &mut scenario);
        if is_dear && !scenario.faults.is_empty() {
            // In the middle of batches: some of their pieces are answered, and others take long.
            let at = Duration::from_micros(dear.random_range(10_000..40_000));
            let lasts = Duration::from_millis(dear.random_range(50..400));
            scenario.faults.push((at, Fault::StoreStall(dear.random_range(0..nodes), lasts)));
        }
        scenario.local_nodes = *pick(rng, &[0, 0, 0, 1, 2, u64::MAX]);
        // A generator of its own as well.
        let sampling = &mut SmallRng::seed_from_u64(seed ^ 0x5a_3b1e);
        scenario.sampled_one_in = *pick(sampling, &[0, 0, 0, 1, 3, 20]);
        // A generator of its own as well.
        let awake = &mut SmallRng::seed_from_u64(seed ^ 0xa_117e);
        fault::draw_doze(awake, &mut scenario);
        fault::draw_late_welcome(&mut SmallRng::seed_from_u64(seed ^ 0x1a7e), &mut scenario);
        fault::draw_copy(&mut SmallRng::seed_from_u64(seed ^ 0x0c_0b1e5), &mut scenario);
        failed_sync::draw(&mut SmallRng::seed_from_u64(seed ^ 0xfa_028), &mut scenario, 0..nodes);
        slow_flush::draw(&mut SmallRng::seed_from_u64(seed ^ 0xfb_4b5), &mut scenario);
        scenario.draw_maps(&mut SmallRng::seed_from_u64(seed ^ 0x3a95));
        remount::draw(&mut SmallRng::seed_from_u64(seed ^ 0x4e_3017), &mut scenario, 0..nodes);
        scenario.volume.keep_awake = pick(awake, &[None, Some(2), Some(20), Some(75)]).map(Duration::from_millis);
        scenario.clocks_ahead_ns =
            (0..nodes).map(|_| sampling.random_range(-1_000_000_000_000..1_000_000_000_000)).collect();
        scenario
    }

    /// A long way to the nodes, and clients that ask for much: there batches are answered together, and all links of a node count as one.
    fn make_frames_dear(&mut self, rng: &mut SmallRng) {
        self.volume.batch = BatchMode::Auto;
        self.volume.batch_bytes = *pick(rng, &[4 * KIB, 64 * KIB, MIB]);
        self.volume.links = *pick(rng, &[1, 2, 3]);
        self.node_link.latency_ns = *pick(rng, &[200_000, 1_000_000]);
        self.node_link.buffer_bytes = self.node_link.buffer_bytes.max(65536);
        for client in &mut self.clients {
            (client.requests, client.depth) = (6 * client.requests, 24);
            client.think_ns = client.think_ns.min(10_000);
        }
        self.store.hit_rate = *pick(rng, &[0.0, 0.3]);
    }

    /// Draws whether clients ask for maps of holes, and then make some.
    fn draw_maps(&mut self, rng: &mut SmallRng) {
        if !rng.random_ratio(1, 6) {
            return;
        }
        for client in &mut self.clients {
            client.map_rate = *pick(rng, &[0.2, 0.6]);
            client.structured = true;
            // Small pieces make maps of many runs.
            client.len_max = client.len_max.min(*pick(rng, &[64, 12_000]));
            client.mix = *pick(rng, &[[10, 10, 1, 4, 4], [20, 8, 0, 6, 6]]);
        }
    }

    /// Whether batches have one piece, or few.
    pub(super) fn is_one_by_one(&self) -> bool {
        self.volume.batch != BatchMode::Auto || self.volume.batch_bytes == 1
    }

    /// More than anything takes without faults, however unlucky the order: every request waits for all others.
    pub(super) fn patience(&self) -> Duration {
        let serial_ns = 2 * (self.node_link.latency_ns + self.node_link.jitter_ns)
            + 4 * (self.store.base_ns + self.store.jitter_ns)
            + 200_000;
        let by_bytes = |len: u64| if self.volume.batch_bytes > 1 { len / self.volume.batch_bytes } else { 0 };
        let pieces = |c: &ClientPlan| match self.volume.layout {
            LayoutKind::Mapped { chunk_bytes } => 4 + 4 * (c.len_max / chunk_bytes),
            LayoutKind::Striped { stripe_bytes } if self.is_one_by_one() => 2 + c.len_max / stripe_bytes,
            _ => 2 + by_bytes(c.len_max),
        };
        let waiting: u64 = self.clients.iter().map(|c| c.depth as u64 * pieces(c)).sum();
        Duration::from_nanos(2 * waiting * serial_ns) + Duration::from_millis(200)
    }
}

pub(super) fn pick<'a, T>(rng: &mut SmallRng, from: &'a [T]) -> &'a T {
    &from[rng.random_range(0..from.len())]
}

fn draw_extents(rng: &mut SmallRng, nodes: usize, is_big: bool) -> (LayoutKind, Vec<u64>) {
    let unit = if is_big { 400 * KIB } else { *pick(rng, &[600, 3 * KIB, 8 * KIB]) };
    let is_equal = rng.random_bool(0.4);
    let equal = unit + rng.random_range(0..unit);
    let mut sizes: Vec<u64> =
        (0..nodes).map(|_| if is_equal { equal } else { unit + rng.random_range(0..unit * 2) }).collect();
    if rng.random_bool(0.5) {
        return (LayoutKind::Linear, sizes);
    }
    let stripe_bytes = if is_big { *pick(rng, &[4096, 65536]) } else { *pick(rng, &[512, 1024, 4096]) };
    for size in &mut sizes {
        *size = (*size).max(stripe_bytes);
    }
    (LayoutKind::Striped { stripe_bytes }, sizes)
}

pub(super) fn draw_quality(rng: &mut SmallRng, is_big: bool) -> LinkQuality {
    let buffer_bytes = if is_big { 1 << 20 } else { *pick(rng, &[600, 4096, 65536, 1 << 20]) };
    // Small buffers on long paths would take for ever.
    let (latencies_ns, jitters_ns): (&[u64], &[u64]) = if buffer_bytes <= 4096 {
        (&[0, 50_000], &[0, 100_000])
    } else {
        (&[0, 50_000, 500_000, 2_000_000], &[0, 100_000, 1_000_000, 5_000_000])
    };
    LinkQuality {
        latency_ns: *pick(rng, latencies_ns),
        jitter_ns: *pick(rng, jitters_ns),
        bytes_per_second: if is_big { 0 } else { *pick(rng, &[0, 0, 10_000_000]) },
        buffer_bytes,
        cut_rate: *pick(rng, &[0.0, 0.05, 0.3]),
    }
}

/// A few short places that everybody uses, often across the ends of extents, stripes or chunks.
pub(super) fn draw_busy(rng: &mut SmallRng, extents_bytes: &[u64], volume_bytes: u64) -> Vec<(u64, u64)> {
    (0..rng.random_range(1..4))
        .map(|_| {
            let len = (*pick(rng, &[16, 256, 2048, 8192])).min(volume_bytes);
            let end = extents_bytes[..rng.random_range(1..=extents_bytes.len())].iter().sum::<u64>();
            let at = if rng.random_bool(0.5) { end.saturating_sub(len / 2) } else { rng.random_range(0..volume_bytes) };
            (at.min(volume_bytes - len), len)
        })
        .collect()
}

pub(super) fn draw_client(
    rng: &mut SmallRng,
    requests: u32,
    span_ms: u64,
    volume_bytes: u64,
    is_big: bool,
    busy: &[(u64, u64)],
) -> ClientPlan {
    let depth = *pick(rng, &[1, 2, 4, 8, 16]);
    let len_max = if is_big { 700 * KIB } else { (*pick(rng, &[1, 64, 512, 512, 4096, 12_000])).min(volume_bytes) };
    let requests = if is_big { requests / 4 + 1 } else { requests };
    // Requests are spread over the span, at whatever pace answers allow.
    let think_ns = span_ms * 1_000_000 / u64::from(requests.max(1));
    ClientPlan {
        native: rng.random_ratio(1, 4),
        structured: rng.random(),
        requests,
        depth,
        think_ns: if rng.random_ratio(1, 4) { think_ns / 10 } else { think_ns },
        mix: *pick(rng, &[[10, 10, 1, 1, 1], [6, 12, 2, 0, 0], [8, 8, 3, 2, 2], [20, 2, 0, 0, 0], [2, 10, 1, 0, 1]]),
        fua_rate: *pick(rng, &[0.0, 0.1, 0.5]),
        len_max,
        busy_rate: *pick(rng, &[0.3, 0.8, 1.0]),
        busy: busy.to_vec(),
        leave_rate: *pick(rng, &[0.0, 0.0, 0.0, 0.01, 0.04]),
        map_rate: 0.0,
    }
}
