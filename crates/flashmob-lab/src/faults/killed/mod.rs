//! A volume is changed while it is used, and somebody is killed in the middle of that, at a drawn moment.
//!
//! A run in which nobody is killed shows from when to when the change is under way, and which copies move. The run with the kill is the same until
//! then, so a moment of that time lies in the change. A change that is on record when the gateway is killed has to come to its end; one that is not may be
//! forgotten, as whoever asked for it has no answer.

mod watch;

use std::time::Duration;

use flashmob_core::gateway::VolumeSpec;
use flashmob_core::layout::LayoutKind;
use flashmob_core::units::{KIB, Time};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};

use super::World;
use super::fault::Fault;
use super::joins::Spare;
use super::mapped::CopiesPlan;
use super::scenario::{Scenario, draw_busy, draw_client, draw_quality, pick};
use super::store::StoreQuality;
use watch::Move;
pub(super) use watch::Watch;

/// What is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change {
    /// A node is added, and gets its share.
    Add,
    /// A node gives all its copies away.
    Drain,
    /// A node comes back with an empty extent.
    Replace,
    /// The volume becomes larger.
    Grow,
    /// It becomes smaller.
    Shrink,
    /// Nodes are filled evenly.
    Rebalance,
}

/// Who is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Victim {
    /// The gateway.
    Gateway,
    /// The node that the next copy comes from. Where none moves, one that has a copy of the last chunk.
    Source,
    /// The node that it goes to. Where none moves, another one that has a copy of the last chunk.
    Target,
    /// The gateway and all nodes.
    All,
}

impl Change {
    /// All of them.
    pub const ALL: [Change; 6] =
        [Change::Add, Change::Drain, Change::Replace, Change::Grow, Change::Shrink, Change::Rebalance];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Change::Add => "add",
            Change::Drain => "drain",
            Change::Replace => "replace",
            Change::Grow => "grow",
            Change::Shrink => "shrink",
            Change::Rebalance => "rebalance",
        }
    }
}

impl Victim {
    /// All of them.
    pub const ALL: [Victim; 4] = [Victim::Gateway, Victim::Source, Victim::Target, Victim::All];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Victim::Gateway => "gateway",
            Victim::Source => "source",
            Victim::Target => "target",
            Victim::All => "all",
        }
    }
}

/// A change of a scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangePlan {
    /// What is changed.
    pub change: Change,
    /// Who is killed.
    pub victim: Victim,
    /// The node that it is about, if it is about one.
    node: usize,
    begins: Duration,
    /// By how many chunks the volume grows or shrinks.
    chunks: u32,
    /// How many it has at first.
    first_chunks: u32,
    /// A kill was drawn.
    has_kill: bool,
}

/// How changes of one kind ended in whose middle one kind of victim was killed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Killed {
    /// They came to their end.
    pub ended: u64,
    /// They were not on record before the gateway was killed, and were not asked for again.
    pub forgotten: u64,
}

/// How often another cluster is drawn, if the change of one comes to no end, as for lack of room.
const TRIES_MAX: u64 = 50;

impl Scenario {
    /// The scenario of a seed with a change and a kill in the middle of it. 24 seeds in a row have each change with each victim.
    #[must_use]
    pub fn killed_from_seed(seed: u64) -> Scenario {
        let change = Change::ALL[(seed % 6) as usize];
        let victim = Victim::ALL[(seed / 6 % 4) as usize];
        let mut tries = 0;
        loop {
            let mut scenario = changed(seed.wrapping_add(tries << 40), change, victim);
            let mut world = World::new(scenario.clone(), false);
            world.run();
            world.run_until(|world| world.watched.done.is_some(), Duration::from_secs(20));
            tries += 1;
            // What is wrong without a kill is told of the run that follows, which fails as it has none.
            if world.ctx.violation.is_some() || kill(&world, &mut scenario) || tries == TRIES_MAX {
                return scenario;
            }
        }
    }
}

/// A cluster with room, clients, and a change.
fn changed(seed: u64, change: Change, victim: Victim) -> Scenario {
    let rng = &mut SmallRng::seed_from_u64(seed ^ 0x0c_4a6e);
    let copies = *pick(rng, &[2, 2, 3]);
    let first_nodes = rng.random_range(copies + 1..=5);
    let chunk_bytes = *pick(rng, &[4 * KIB, 8 * KIB, 16 * KIB]);
    let slots: Vec<u64> = (0..first_nodes).map(|_| rng.random_range(4..9)).collect();
    let chunks = rng.random_range(2..=slots.iter().sum::<u64>() / copies as u64 / 2) as u32;
    let spares = if change == Change::Add { vec![Spare { holds_data: false }] } else { Vec::new() };
    let nodes = first_nodes + spares.len();
    let extents_bytes: Vec<u64> =
        slots.into_iter().chain(spares.iter().map(|_| 8)).map(|slots| slots * chunk_bytes).collect();
    let span_ms = 1_500;
    let plain = Scenario::plain(seed, nodes, 1);
    let plan = ChangePlan {
        change,
        victim,
        node: if change == Change::Add { first_nodes } else { rng.random_range(0..first_nodes) },
        begins: Duration::from_millis(if matches!(change, Change::Shrink | Change::Rebalance) { 600 } else { 200 }),
        chunks: rng.random_range(1..chunks.clamp(2, 4)),
        first_chunks: chunks,
        has_kill: false,
    };
    let mut scenario = Scenario {
        volume: VolumeSpec {
            layout: LayoutKind::Mapped { chunk_bytes },
            links: *pick(rng, &[1, 1, 2]),
            timeout: Duration::from_secs(4),
            connect_timeout: Duration::from_millis(200),
            reconnect_max: Duration::from_millis(200),
            ..plain.volume
        },
        store_depth: rng.random_range(1..9),
        node_link: draw_quality(rng, false),
        client_link: draw_quality(rng, false),
        store: StoreQuality {
            base_ns: rng.random_range(10_000..300_000),
            jitter_ns: rng.random_range(0..1_000_000),
            hit_rate: *pick(rng, &[0.0, 0.3, 0.8]),
            error_rate: 0.0,
        },
        span: Duration::from_millis(span_ms),
        copies: Some(CopiesPlan {
            copies,
            chunk_bytes,
            domains: (0..nodes as u32).collect(),
            commit_ns: *pick(rng, &[100_000, 2_000_000, 30_000_000]),
            evict_after: Duration::from_millis(*pick(rng, &[150, 400])),
            settle_after: Duration::from_millis(*pick(rng, &[5, 100, 1000])),
            min_current: 1,
            rewrites_one_in: 0,
            open_max: None,
            scrub_every: None,
            chunks: Some(chunks),
            growth: if matches!(change, Change::Grow | Change::Shrink) { plan.chunks } else { 0 },
            lease: None,
            spares,
            in_moves: None,
            is_power_cut_with_map: false,
        }),
        extents_bytes,
        change: Some(plan),
        ..plain
    };
    let volume_bytes = u64::from(chunks) * chunk_bytes;
    let busy = draw_busy(rng, &vec![chunk_bytes; chunks as usize], volume_bytes);
    for _ in 0..2 {
        let client = draw_client(rng, 60, span_ms, volume_bytes, false, &busy);
        scenario.clients.push(client);
    }
    scenario.volume.timeout = scenario.volume.timeout.max(scenario.patience());
    let gives_up = rng.random_bool(0.5);
    let before = Duration::from_millis(100);
    scenario.faults = match change {
        Change::Add => vec![(plan.begins, Fault::Join(false))],
        Change::Drain => vec![(plan.begins, Fault::Drain(plan.node, Duration::MAX))],
        Change::Replace => {
            let away = Duration::from_millis(rng.random_range(5..80));
            vec![(plan.begins - away, Fault::Replace(plan.node, away))]
        }
        Change::Grow => vec![(plan.begins, Fault::Grow(plan.chunks))],
        Change::Shrink if gives_up => vec![(plan.begins, Fault::Shrink(plan.chunks, true))],
        // What it has then holds nothing, until clients write there.
        Change::Shrink => vec![(before, Fault::Grow(plan.chunks)), (plan.begins, Fault::Shrink(plan.chunks, false))],
        Change::Rebalance => {
            vec![(before, Fault::Drain(plan.node, plan.begins - before * 2)), (plan.begins, Fault::Balance)]
        }
    };
    if change == Change::Replace {
        scenario.victims = vec![plan.node];
    }
    scenario
}

/// Draws the moment, from a run in which nobody is killed. False if its change came to no end.
fn kill(world: &World, scenario: &mut Scenario) -> bool {
    let (Some(plan), Some(done)) = (scenario.change, world.watched.done) else { return false };
    let rng = &mut SmallRng::seed_from_u64(scenario.seed ^ 0x000c_1113);
    let begins = Time::default() + plan.begins;
    if done <= begins {
        return false;
    }
    let moment = begins + Duration::from_nanos(rng.random_range(0..done.nanos_since(begins)));
    let Some((source, target)) = parties(world, plan, moment) else { return false };
    let at = moment - Time::default();
    let mut down = || {
        let longest_us = *pick(rng, &[5_000, 100_000, 800_000]);
        Duration::from_micros(rng.random_range(100..longest_us))
    };
    match plan.victim {
        Victim::Gateway => scenario.faults.push((at, Fault::GatewayRestart(down()))),
        Victim::Source => scenario.faults.push((at, Fault::Kill(source, down()))),
        Victim::Target => scenario.faults.push((at, Fault::Kill(target, down()))),
        Victim::All => {
            scenario.faults.push((at, Fault::GatewayRestart(down())));
            (0..world.nodes.len()).for_each(|node| scenario.faults.push((at, Fault::Kill(node, down()))));
        }
    }
    scenario.change = Some(ChangePlan { has_kill: true, ..plan });
    true
}

/// The nodes that the copy comes from and goes to that moves next, or moved last.
fn parties(world: &World, plan: ChangePlan, moment: Time) -> Option<(usize, usize)> {
    let watch = &world.watched;
    let next = watch.moves.iter().find(|moved| moved.at >= moment).or(watch.moves.last());
    if let Some(&Move { from: Some(from), to, .. }) = next {
        return Some((from.into(), to.into()));
    }
    if plan.change != Change::Replace {
        return Some((*watch.last_chunk_on.first()?, *watch.last_chunk_on.get(1)?));
    }
    let image = world.gateway.core.as_ref().and_then(|core| core.map(0))?;
    let (chunk, _) = image.chunks_of(plan.node as u16).last()?;
    let mut others = image.places(chunk).iter().map(|place| usize::from(place.member));
    Some((others.find(|&node| node != plan.node)?, plan.node))
}
