//! Clusters with copies, and their faults, drawn from a random seed: a family of scenarios of its own.
//!
//! In some runs no fault loses data, and any node may fall silent for as long as it likes. In the others nodes lose power or die: fewer of them
//! than there are copies, and no other node is silent for long, as a copy that is silent is declared behind. In runs of both kinds all copies may
//! lose power (`blackout.rs`).

use std::time::Duration;

use flashmob_core::gateway::{BatchMode, VolumeSpec};
use flashmob_core::layout::LayoutKind;
use flashmob_core::units::{KIB, MIB};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::accepted;
use super::blackout;
use super::failed_sync;
use super::fault::Fault;
use super::grow;
use super::hot_backup;
use super::joins;
use super::latent;
use super::lease;
use super::lie;
use super::map_rot;
use super::map_trouble;
use super::mapped::CopiesPlan;
use super::min_current;
use super::mirror;
use super::moves;
use super::open;
use super::pause;
use super::record;
use super::remount;
use super::replace;
use super::resync;
use super::rewrite;
use super::rot_behind;
use super::scenario::{Scenario, draw_busy, draw_client, draw_quality, pick};
use super::scrub;
use super::second;
use super::shrink;
use super::slow_flush;
use super::stall;
use super::stolen;
use super::store::StoreQuality;

impl Scenario {
    /// The scenario of a seed, with copies.
    #[must_use]
    pub fn with_copies_from_seed(seed: u64) -> Scenario {
        let rng = &mut SmallRng::seed_from_u64(seed ^ 0xc0_91e5);
        let copies = *pick(rng, &[2, 2, 2, 3, 3, 1]);
        let nodes = rng.random_range(copies..=5.max(copies));
        let chunk_bytes = *pick(rng, &[4 * KIB, 8 * KIB, 16 * KIB]);
        let slots = |rng: &mut SmallRng| rng.random_range(1..4) as u64;
        let equal = slots(rng);
        let is_equal = rng.random_bool(0.5);
        let extents_bytes: Vec<u64> =
            (0..nodes).map(|_| chunk_bytes * if is_equal { equal } else { slots(rng) }).collect();
        let domains: Vec<u32> = if rng.random_ratio(1, 4) && nodes > copies {
            (0..nodes).map(|n| (n % copies) as u32).collect()
        } else {
            (0..nodes as u32).collect()
        };
        let span_ms = *pick(rng, &[60, 150, 400, 1500, 4000]);
        let evict_after = Duration::from_millis(*pick(rng, &[60, 150, 400]));
        let timeout = Duration::from_millis(*pick(rng, &[2500, 4000]));
        let plain = Scenario::plain(seed, nodes, 1);
        let mut scenario = Scenario {
            volume: VolumeSpec {
                layout: LayoutKind::Mapped { chunk_bytes },
                batch: *pick(rng, &[BatchMode::Auto, BatchMode::Auto, BatchMode::Auto, BatchMode::Fixed(3)]),
                batch_bytes: *pick(rng, &[4 * KIB, 64 * KIB, MIB, MIB]),
                links: *pick(rng, &[1, 1, 1, 2, 2, 3]),
                outstanding_batches: *pick(rng, &[1, 2, 2, 4]),
                timeout,
                connect_timeout: Duration::from_millis(rng.random_range(50..300)),
                reconnect_min: Duration::from_millis(*pick(rng, &[1, 5, 5, 60])),
                reconnect_max: Duration::from_millis(rng.random_range(200..400)),
                keep_awake: pick(rng, &[None, Some(20), Some(75)]).map(Duration::from_millis),
                ..plain.volume
            },
            align_bytes: *pick(rng, &[1, 1, 1, 512, 4096]),
            store_depth: rng.random_range(1..9),
            node_link: draw_quality(rng, false),
            client_link: draw_quality(rng, false),
            store: StoreQuality {
                base_ns: rng.random_range(10_000..300_000),
                jitter_ns: rng.random_range(0..1_000_000),
                hit_rate: *pick(rng, &[0.0, 0.3, 0.8, 1.0]),
                error_rate: 0.3,
            },
            span: Duration::from_millis(span_ms),
            copies: Some(CopiesPlan {
                copies,
                chunk_bytes,
                domains,
                commit_ns: *pick(rng, &[100_000, 2_000_000, 30_000_000]),
                evict_after,
                settle_after: Duration::from_millis(*pick(rng, &[5, 100, 1000])),
                min_current: 1,
                rewrites_one_in: 0,
                open_max: None,
                scrub_every: None,
                chunks: None,
                spares: Vec::new(),
                growth: 0,
                lease: None,
                in_moves: None,
                is_power_cut_with_map: false,
            }),
            extents_bytes,
            ..plain
        };
        // Too little room: as few domains as there are copies may be of unequal size, or have none.
        let Some(image) = scenario.new_map().filter(|image| image.chunks() > 0) else {
            return Scenario::with_copies_from_seed(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        };
        let volume_bytes = image.size_bytes();
        let chunks = vec![chunk_bytes; image.chunks() as usize];
        let busy = draw_busy(rng, &chunks, volume_bytes);
        let requests = rng.random_range(40..160);
        let clients = rng.random_range(1..=3);
        for _ in 0..clients {
            let plan = draw_client(rng, requests / clients, span_ms, volume_bytes, false, &busy);
            scenario.clients.push(plan);
        }
        scenario.volume.timeout = scenario.volume.timeout.max(scenario.patience());
        moves::draw_room(&mut SmallRng::seed_from_u64(seed ^ 0x0003_00e5), &mut scenario);
        draw_faults(rng, &mut scenario, copies);
        scenario.local_nodes = *pick(rng, &[0, 0, 0, 1, u64::MAX]);
        scenario.clocks_ahead_ns =
            (0..nodes).map(|_| rng.random_range(-1_000_000_000_000..1_000_000_000_000)).collect();
        // Generators of their own: whether there are such faults changes nothing of the others.
        blackout::draw(&mut SmallRng::seed_from_u64(seed ^ 0x00b1_ac0e), &mut scenario);
        map_trouble::draw(&mut SmallRng::seed_from_u64(seed ^ 0xd15_cf11), &mut scenario);
        stall::draw(&mut SmallRng::seed_from_u64(seed ^ 0x57a_11ed), &mut scenario);
        second::draw(&mut scenario);
        scrub::draw(&mut SmallRng::seed_from_u64(seed ^ 0x005c_20bb), &mut scenario);
        slow_flush::draw(&mut SmallRng::seed_from_u64(seed ^ 0xfb_4b5), &mut scenario);
        mirror::draw(&mut SmallRng::seed_from_u64(seed ^ 0x3141_2042), &mut scenario);
        mirror::draw_old(&mut SmallRng::seed_from_u64(seed ^ 0x01d_3a97), &mut scenario);
        stolen::draw(&mut SmallRng::seed_from_u64(seed ^ 0x57_01e2), &mut scenario);
        pause::draw(&mut SmallRng::seed_from_u64(seed ^ 0x9a_05ed), &mut scenario);
        moves::draw(&mut SmallRng::seed_from_u64(seed ^ 0xd3_a145), &mut scenario);
        joins::draw(&mut SmallRng::seed_from_u64(seed ^ 0x0070_1175), &mut scenario);
        grow::draw(&mut SmallRng::seed_from_u64(seed ^ 0x93_0375), &mut scenario);
        shrink::draw(&mut SmallRng::seed_from_u64(seed ^ 0x0005_41a7), &mut scenario);
        lease::draw(&mut scenario);
        if let Some(&victim) = scenario.victims.last() {
            remount::draw(&mut SmallRng::seed_from_u64(seed ^ 0x4e_3017), &mut scenario, victim..victim + 1);
        }
        record::draw(&mut SmallRng::seed_from_u64(seed ^ 0x12ec_02d5), &mut scenario);
        rot_behind::draw(&mut SmallRng::seed_from_u64(seed ^ 0x0020_7be4), &mut scenario);
        accepted::draw(&mut SmallRng::seed_from_u64(seed ^ 0x000a_cce7), &mut scenario);
        hot_backup::draw(&mut SmallRng::seed_from_u64(seed ^ 0x04f_bac0), &mut scenario);
        map_rot::draw(&mut SmallRng::seed_from_u64(seed ^ 0x03a9_0207), &mut scenario);
        map_rot::draw_power(&mut SmallRng::seed_from_u64(seed ^ 0x90_3e4c), &mut scenario);
        blackout::draw_beside_moves(&mut SmallRng::seed_from_u64(seed ^ 0x0b1a_c303), &mut scenario);
        open::draw(&mut SmallRng::seed_from_u64(seed ^ 0x0093_0a7c), &mut scenario);
        resync::draw(&mut SmallRng::seed_from_u64(seed ^ 0x004e_597c), &mut scenario);
        min_current::draw(&mut SmallRng::seed_from_u64(seed ^ 0x0314_c022), &mut scenario);
        rewrite::draw(&mut SmallRng::seed_from_u64(seed ^ 0x03a9_4e3a), &mut scenario);
        blackout::draw_beside_growth(&mut SmallRng::seed_from_u64(seed ^ 0x0b1a_c960), &mut scenario);
        latent::draw(&mut SmallRng::seed_from_u64(seed ^ 0x001a_7e47), &mut scenario);
        scenario
    }
}

fn draw_faults(rng: &mut SmallRng, scenario: &mut Scenario, copies: usize) {
    if rng.random_ratio(1, 8) {
        return;
    }
    let nodes = scenario.extents_bytes.len();
    if rng.random_ratio(1, 8) {
        scenario.slowness[rng.random_range(0..nodes)] = rng.random_range(2..20);
    }
    // The nodes that may lose data: fewer than there are copies.
    let mut victims: Vec<usize> = Vec::new();
    while victims.len() + 1 < copies {
        let node = rng.random_range(0..nodes);
        if !victims.contains(&node) {
            victims.push(node);
        }
    }
    let is_lossless = rng.random_ratio(1, 3);
    scenario.victims = if is_lossless { Vec::new() } else { victims.clone() };
    let volume = &scenario.volume;
    let back_after = volume.reconnect_max + volume.connect_timeout * 2 + Duration::from_millis(200);
    if let Some(plan) = scenario.copies.as_mut().filter(|_| !is_lossless) {
        // A node that was cut off is back before it is declared behind.
        plan.evict_after = plan.evict_after * 2 + back_after;
    }
    let evict_after = scenario.copies.as_ref().map_or(Duration::ZERO, |plan| plan.evict_after);
    // As in a configuration: requests do not fail before others go on without a silent node.
    scenario.volume.timeout = scenario.volume.timeout.max(evict_after * 3 + Duration::from_secs(1));
    let enabled: Vec<u32> = (0..rng.random_range(1..5)).map(|_| rng.random_range(0..100)).collect();
    let span_us = scenario.span.as_micros() as u64;
    for _ in 0..rng.random_range(1..10) {
        let kind = enabled[rng.random_range(0..enabled.len())];
        let node = rng.random_range(0..nodes);
        let victim = victims.get(rng.random_range(0..victims.len().max(1))).copied().filter(|_| !is_lossless);
        let longest_us = *pick(rng, &[5_000, 100_000, 600_000, 3_000_000]);
        let lasts = Duration::from_micros(rng.random_range(1_000..longest_us));
        // With a victim, only that one is silent for long.
        let (any, node) = (node, victim.unwrap_or(node));
        let brief = if victim.is_some() { lasts.min(evict_after / 16) } else { lasts };
        let (node, lasts) = if rng.random_bool(0.4) { (any, brief) } else { (node, lasts) };
        let fault = match (kind, victim) {
            (0..10, _) => Fault::Cut(node),
            (10..20, _) => Fault::HalfOpen(node, lasts),
            (20..28, _) => Fault::Stall(node, lasts),
            (28..38, _) => Fault::Freeze(node, lasts),
            (38..44, _) => Fault::StoreStall(node, lasts),
            // A copy that fails a change is behind.
            (44..52, _) => Fault::StoreErrors(victim.unwrap_or(node), lasts),
            (52..60, _) => Fault::Kill(node, lasts),
            (60..76, Some(victim)) => Fault::PowerLoss(victim, lasts),
            (60..64, None) => Fault::Doze(node, lasts),
            // A damaged frame may keep a link silent for long.
            (76..80, _) => Fault::Damage(victim.unwrap_or(node), lasts),
            (80..92, _) => Fault::GatewayRestart(lasts / 8),
            (92..96, _) => Fault::Doze(node, lasts),
            _ => Fault::ClientCut(rng.random_range(0..scenario.clients.len())),
        };
        scenario.faults.push((Duration::from_micros(rng.random_range(0..span_us)), fault));
    }
    if rng.random_ratio(1, 8)
        && !is_lossless
        && let Some(&victim) = victims.first()
    {
        let at = Duration::from_micros(rng.random_range(0..span_us));
        scenario.faults.push((at, Fault::Death(victim)));
    }
    if rng.random_ratio(1, 6)
        && !is_lossless
        && let Some(&victim) = victims.last()
    {
        let at = Duration::from_micros(rng.random_range(0..span_us));
        let lasts = Duration::from_micros(rng.random_range(5_000..600_000));
        scenario.faults.push((at, Fault::Replace(victim, lasts)));
    }
    if rng.random_ratio(1, 8)
        && !is_lossless
        && let Some(&victim) = victims.last()
    {
        let at = Duration::from_micros(rng.random_range(0..span_us));
        let lasts = Duration::from_micros(rng.random_range(50_000..2_000_000));
        scenario.faults.push((at, Fault::Restore(victim, lasts)));
    }
    if rng.random_ratio(1, 4)
        && !is_lossless
        && let Some(&victim) = victims.first()
    {
        for _ in 0..rng.random_range(1..4) {
            let at = Duration::from_micros(rng.random_range(0..span_us));
            scenario.faults.push((at, Fault::Rot(victim, rng.random_range(1..4))));
        }
    }
    // A generator of its own.
    if !is_lossless && let Some(&victim) = victims.last() {
        replace::draw_swap(&mut SmallRng::seed_from_u64(scenario.seed ^ 0x5_3a9), scenario, victim);
        lie::draw(&mut SmallRng::seed_from_u64(scenario.seed ^ 0x11e5), scenario, victim);
        failed_sync::draw(&mut SmallRng::seed_from_u64(scenario.seed ^ 0xfa_028), scenario, victim..victim + 1);
    }
}
