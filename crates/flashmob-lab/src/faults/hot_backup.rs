//! A backup of a running node: at some moment its extent and checksums are copied, perhaps with its identity or its mirror of the map. Later the
//! process ends, the copies take the place of what is there, and it is started again on the same device, or on one that lost power as well.
//!
//! The copied files are put back once the map's file says that the extent is older: from then on the gateway has to notice it, whichever gateway that is. If the map
//! never says so though the node is there, that is a violation: then an older extent would be taken for the present one.

use std::time::Duration;

use flashmob_core::copies::replay;
use flashmob_core::units::Time;
use rand::Rng;
use rand::rngs::SmallRng;
use serde::{Deserialize, Serialize};

use super::fault::Fault;
use super::node::Extent;
use super::remount::Stop;
use super::scenario::{Scenario, pick};
use super::{Event, World};

/// How often somebody looks whether it can be put back.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// How many periods it takes at most until the map says how old an extent is: one until it grows older, one until that is recorded, one more.
const PERIODS: u32 = 3;
/// And what else that takes.
const PATIENCE: Duration = Duration::from_secs(1);

/// The files of a node that are copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parts {
    /// The extent with its checksums.
    pub extent: bool,
    /// The identity of the extent.
    pub identity: bool,
    /// The mirror of the map.
    pub mirror: bool,
}

impl Parts {
    /// All that make sense: an identity alone, or with the mirror alone, fits no checksums, so its extent is not served.
    const ALL: [Parts; 5] = [
        Parts { extent: true, identity: false, mirror: false },
        Parts { extent: true, identity: true, mirror: false },
        Parts { extent: true, identity: false, mirror: true },
        Parts { extent: true, identity: true, mirror: true },
        Parts { extent: false, identity: false, mirror: true },
    ];
}

/// A backup of a running node.
#[derive(Debug)]
pub(super) struct HotBackup {
    parts: Parts,
    extent: Extent,
    /// Which process of the node ran.
    process: u32,
    /// Since when the same gateway could have recorded that the extent is older, and which.
    steady: (Time, u64),
}

/// Draws whether a node is backed up while it runs. Not where extents, the map or all copies are lost otherwise, or other nodes fall behind.
pub(super) fn draw(rng: &mut SmallRng, scenario: &mut Scenario) {
    let is_in_the_way = |fault: &Fault| {
        use Fault::{Blackout, Copy, Death, LastCopy, Lie, MapFull, MapSlow, RecordsFail, Replace, Restore, RotBehind};
        use Fault::{Standby, StoreAway, Swap};
        fault.is_of_other_maps()
            || matches!(
                fault,
                Blackout(..)
                    | Copy(..)
                    | Death(_)
                    | LastCopy(..)
                    | Lie(..)
                    | MapFull(_)
                    | MapSlow(_)
                    | RecordsFail(..)
                    | Replace(..)
                    | Restore(..)
                    | RotBehind(_)
                    | Standby(_)
                    | StoreAway(_)
                    | Swap(..)
            )
    };
    let Some(&victim) = scenario.victims.last() else { return };
    if !rng.random_ratio(3, 4) || scenario.faults.iter().any(|(_, fault)| is_in_the_way(fault)) {
        return;
    }
    let span_us = scenario.span.as_micros() as u64;
    let at = Duration::from_micros(rng.random_range(0..span_us.max(2) / 2));
    let longest_us = *pick(rng, &[1, 30_000, 600_000]);
    let later = Duration::from_micros(rng.random_range(0..longest_us));
    if rng.random()
        && let Some(plan) = &mut scenario.copies
    {
        // The gateway may be killed before it is on record that the extent was restored.
        plan.commit_ns = 30_000_000;
    }
    scenario.faults.push((at, Fault::HotBackup(victim, *pick(rng, &Parts::ALL), later)));
}

impl World {
    /// The node's files are copied while it runs. They are put back so much later than they are known to be older.
    pub(super) fn back_up_hot(&mut self, node: usize, parts: Parts, later: Duration) {
        let state = &self.nodes[node];
        if state.is_dead || state.core.is_none() || state.hot_backup.is_some() {
            return;
        }
        let (extent, process) = (state.hot_copy_of_extent(), state.epoch);
        let steady = (self.ctx.now, self.gateway.session);
        self.nodes[node].hot_backup = Some(HotBackup { parts, extent, process, steady });
        self.ctx.at(self.ctx.now + LOOK_EVERY, Event::PutBack { node, later, is_known: false });
    }

    /// Puts the copies back if they are known to be older, or looks again.
    pub(super) fn put_back(&mut self, node: usize, later: Duration, is_known: bool) {
        let now = self.ctx.now;
        if self.is_healed || self.nodes[node].is_dead {
            return;
        }
        if !is_known {
            let is_known = self.is_backup_known(node);
            let at = if is_known { now + later } else { now + LOOK_EVERY };
            return self.ctx.at(at, Event::PutBack { node, later, is_known });
        }
        let Some(HotBackup { parts, extent, process, .. }) = self.nodes[node].hot_backup.take() else { return };
        // Checksums fit the identity of the present process and the last charge. Others are refused, and somebody puts the later files back.
        let fits = self.nodes[node].epoch == process && self.nodes[node].has_record_of(&extent);
        if parts.extent && !parts.identity && !fits {
            return;
        }
        self.ctx.totals.faults[Fault::HotBackup(node, parts, later).kind()] += 1;
        let down = Duration::from_micros(self.ctx.rng.random_range(1_000..50_000));
        let stop = if self.ctx.rng.random_ratio(2, 3) { Stop::Killed } else { Stop::PowerLost };
        self.stop_node(node, down, stop);
        self.calm_at = self.calm_at.max(now + down);
        self.nodes[node].put_back(parts, extent);
        if self.scenario.change.is_none() && self.ctx.rng.random_bool(0.5) {
            let longest_ns = self.scenario.copies.as_ref().map_or(1, |plan| plan.commit_ns.max(1));
            let soon = Duration::from_nanos(self.ctx.rng.random_range(0..longest_ns * 2));
            self.ctx.at(now + down + soon, Event::KillGateway);
        }
    }

    /// Whether the map's file says that the node's extent is older than its backup.
    fn is_backup_known(&mut self, node: usize) -> bool {
        let now = self.ctx.now;
        let Ok(replayed) = replay(self.map.bytes()) else { return false };
        let seen = replayed.image.members().get(node).and_then(|member| member.seen);
        let is_away = self.gateway.links_ready(node) == 0
            || self.disturbed_until[node].is_some_and(|until| until >= now)
            || self.nodes[node].mirror.bytes().is_empty();
        let session = self.gateway.session;
        if let Some(backup) = &mut self.nodes[node].hot_backup
            && (is_away || backup.steady.1 != session)
        {
            backup.steady = (now, session);
        }
        let Some(backup) = &self.nodes[node].hot_backup else { return false };
        let (age, since) = (backup.extent.age(), backup.steady.0);
        let settle_after = self.scenario.copies.as_ref().map_or(Duration::ZERO, |plan| plan.settle_after);
        // What the node will tell of charges that it accepted counts as well.
        let (extent, node_state) = (&backup.extent, &self.nodes[node]);
        let accepted = if backup.parts.identity { extent.accepted() } else { node_state.accepted() };
        let charge = accepted.iter().rev().find(|charge| Some(**charge) <= seen).copied();
        if charge.max(age.min(seen)) < seen {
            return true;
        }
        let is_changed = extent.differs(&node_state.store);
        if is_changed && now - since > settle_after * PERIODS + PATIENCE + self.scenario.volume.timeout / 4 {
            self.ctx
                .fail(format!("the map does not say that the extent of node {node} is older than {age:?}: {seen:?}"));
        }
        false
    }
}
