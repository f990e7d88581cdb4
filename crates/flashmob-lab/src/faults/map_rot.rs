//! The last batch of the map's file is damaged, or cut in the middle, while the gateway does not run: decisions are gone that have had effect.
//!
//! The promise: while the nodes that may know them are away, nothing is served that they could contradict; and when one of them is back, its mirror has
//! the decisions, and the volume goes on by itself.

use std::time::Duration;

use flashmob_core::copies::{Found, MapImage, Place, Terms, Verify, catch_up, encode_snapshot, replay};
use flashmob_core::units::Time;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::fault::Fault;
use super::remount::Stop;
use super::scenario::Scenario;
use super::trace::What;
use super::{Event, World};

/// How often it is looked for a batch that says what is to be lost.
const LOOK_EVERY: Duration = Duration::from_micros(500);

/// Draws whether that happens, and when. Then no node falls silent otherwise, or loses what it has: those that know would not be back in time. Few runs
/// are like that, so these lose their other faults, unless one is as rare as this.
pub(super) fn draw(rng: &mut SmallRng, scenario: &mut Scenario) {
    let is_harmless = |fault: &Fault| {
        use Fault::{Balance, ClientCut, Cut, Drain, End, GatewayRestart, Measure, Scrub};
        matches!(fault, Balance | ClientCut(_) | Cut(_) | Drain(..) | End(..) | GatewayRestart(_) | Measure(..) | Scrub)
    };
    let is_rare = |fault: &Fault| {
        use Fault::{HotBackup, LastCopy, OldMap, RotBehind, StolenKey};
        matches!(fault, HotBackup(..) | LastCopy(..) | OldMap(..) | RotBehind(_) | StolenKey(_))
    };
    let is_drawn = rng.random_ratio(1, 10);
    let nodes = scenario.extents_bytes.len();
    let (volume, growth) = (&scenario.volume, scenario.growth());
    let back_after = volume.reconnect_max + volume.connect_timeout * 2 + Duration::from_millis(200);
    let Some(plan) = scenario.copies.as_mut().filter(|plan| is_drawn && plan.copies > 1) else { return };
    let has_others = plan.lease.is_some() || growth > 0 || !plan.spares.is_empty();
    let has_rare = scenario.faults.iter().any(|(_, fault)| is_rare(fault));
    if has_others || has_rare || scenario.local_nodes != 0 {
        return;
    }
    scenario.faults.retain(|(_, fault)| is_harmless(fault));
    // They are waited for nine times as long.
    plan.evict_after = plan.evict_after.max(back_after / 2);
    let evict_after = plan.evict_after;
    scenario.volume.timeout = scenario.volume.timeout.max(evict_after * 3 + Duration::from_secs(1));
    let span_us = scenario.span.as_micros() as u64;
    let at = Duration::from_micros(rng.random_range(0..span_us));
    let away = Duration::from_micros(rng.random_range(1_000..evict_after.as_micros() as u64 * 4));
    let lasts = rng.random_ratio(3, 4).then_some(evict_after * 4 + Duration::from_millis(500));
    scenario.faults.push((at, Fault::MapRot(rng.random_range(0..nodes), away, lasts)));
}

/// Draws whether nodes lose power when that happens.
pub(super) fn draw_power(rng: &mut SmallRng, scenario: &mut Scenario) {
    let rots = scenario.faults.iter().any(|(_, fault)| matches!(fault, Fault::MapRot(..)));
    if let Some(plan) = scenario.copies.as_mut().filter(|_| rots && rng.random()) {
        plan.is_power_cut_with_map = true;
    }
}

impl World {
    /// The map rots once a copy on the node has fallen behind, within that time; or else now.
    pub(super) fn map_rots(&mut self, node: usize, away: Duration, lasts: Option<Duration>) {
        self.calm_at = self.calm_at.max(self.ctx.now + lasts.unwrap_or_default() + away);
        let Some(lasts) = lasts else { return self.damage_map(node, away) };
        self.stop_node(node, lasts, Stop::Killed);
        self.ctx.at(self.ctx.now + LOOK_EVERY, Event::MapRots { node, away, until: self.ctx.now + lasts });
    }

    pub(super) fn map_rots_later(&mut self, node: usize, away: Duration, until: Time) {
        if self.is_healed || self.ctx.now >= until {
            return;
        }
        let before = replay(&self.map.bytes()[..self.map.last_at()]).map(|replayed| replayed.image);
        let after = replay(self.map.bytes()).map(|replayed| replayed.image);
        let (Ok(before), Ok(after)) = (before, after) else { return };
        let behind = |image: &MapImage, (chunk, copy): (u32, usize)| image.marks(chunk).behind & (1 << copy) != 0;
        let falls_behind = after.chunks_of(node as u16).any(|copy| behind(&after, copy) && !behind(&before, copy));
        if !falls_behind {
            return self.ctx.at(self.ctx.now + LOOK_EVERY, Event::MapRots { node, away, until });
        }
        // It has had effect by then, if anybody waits for that.
        let mut rng = self.rot_rng();
        if rng.random_ratio(7, 8) {
            return self.ctx.at(self.ctx.now + LOOK_EVERY, Event::MapRots { node, away, until });
        }
        self.damage_map(node, away);
        let epoch = self.nodes[node].epoch;
        self.ctx.at(self.ctx.now, Event::StartNode { node, epoch });
    }

    fn rot_rng(&self) -> SmallRng {
        SmallRng::seed_from_u64(self.scenario.seed ^ self.ctx.now.as_nanos())
    }

    /// The gateway is killed, and the last batch of its map damaged; all nodes but one are away for some time. Where they lose power, the one may, too.
    fn damage_map(&mut self, node: usize, away: Duration) {
        if self.gateway.core.is_none() {
            return;
        }
        let mut rng = self.rot_rng();
        // What was under way is lost as well.
        self.map.out = None;
        let (whole, from) = (self.map.bytes().to_vec(), self.map.last_at());
        if replay(&whole).is_ok_and(|replayed| replayed.torn_bytes > 0) || from >= whole.len() {
            return;
        }
        let mut damaged = whole.clone();
        if rng.random() {
            let at = rng.random_range(from..whole.len());
            damaged[at] ^= 1 << rng.random_range(0..8);
        } else {
            damaged.truncate(rng.random_range(from + 1..whole.len()));
        }
        // Other damage is refused when the map is opened.
        let Some(left) = replay(&damaged).ok().filter(|replayed| replayed.torn_bytes > 0) else { return };
        self.ctx.totals.faults[Fault::MapRot(node, away, None).kind()] += 1;
        let until = self.ctx.now + away;
        let is_power_cut = self.scenario.copies.as_ref().is_some_and(|plan| plan.is_power_cut_with_map);
        let stop = if is_power_cut { Stop::PowerLost } else { Stop::Killed };
        let is_spared = !is_power_cut || rng.random();
        for n in (0..self.nodes.len()).filter(|&n| n != node || !is_spared) {
            self.stop_node(n, away, stop);
        }
        if is_power_cut {
            self.tell_power_lost();
        }
        (0..self.nodes.len()).for_each(|n| self.disturb(n, until));
        self.restart_gateway(Duration::from_micros(rng.random_range(100..2_000)));
        self.ctx.trace(What::Phase("the end of the map is damaged"));
        self.sign_damaged_map(&encode_snapshot(&left.image));
        self.map.store(damaged, true);
        self.note_map_file(true);
    }

    /// Tells the oracle that all nodes with current copies may have lost power. What was flushed is there all the same.
    fn tell_power_lost(&mut self) {
        let Ok(image) = replay(self.map.bytes()).map(|replayed| replayed.image) else { return };
        let chunk_bytes = self.scenario.copies.as_ref().map_or(0, |plan| plan.chunk_bytes as usize);
        for chunk in 0..image.chunks() {
            let bytes_of = |place: &Place| {
                let at = place.slot as usize * chunk_bytes;
                &self.nodes[usize::from(place.member)].store.live()[at..at + chunk_bytes]
            };
            let copies: Vec<&[u8]> = image.places(chunk).iter().map(bytes_of).collect();
            self.oracle.all_copies_lost_power(chunk as usize, &copies);
        }
    }

    /// Whether the map's end was damaged: nodes refuse it then, until it has what their mirrors have.
    pub(super) fn has_map_rotted(&self) -> bool {
        self.ctx.totals.faults[Fault::MapRot(0, Duration::ZERO, None).kind()] > 0
    }

    /// Whether nothing is served, as the end of the map was dropped.
    pub(super) fn waits_for_nodes(&self) -> bool {
        let status = self.gateway.core.as_ref().and_then(|core| core.copies_status(self.ctx.now, 0));
        status.is_some_and(|status| status.waits_for.is_some())
    }

    /// Notes that nothing is served.
    pub(super) fn note_map_wait(&mut self) {
        if self.waits_for_nodes() {
            self.waited_at = Some(self.ctx.now);
        }
    }

    /// If a node refuses the map, and its mirror continues it, the gateway starts anew with what that has: as its shell does.
    pub(super) fn catch_map_up(&mut self) {
        let may_catch_up = self.gateway.core.as_ref().is_some_and(|core| core.may_catch_up(0));
        if !may_catch_up || self.gateway.is_former || self.old_map.is_in_use || self.stolen_key.is_in_use {
            return;
        }
        let Ok(map) = replay(self.map.bytes()).map(|replayed| replayed.image) else { return };
        let key = self.signing_key();
        let keys = key.as_ref().map(|key| key as &dyn Verify);
        let (moment, generation) = (self.ctx.now.as_nanos(), self.stolen_key.generation);
        let terms = Terms { moment, generation, map: None, keys, accepts_unsigned: false };
        let there = self.nodes.iter().filter(|node| node.core.is_some());
        let mirrors: Vec<_> =
            there.map(|node| (node.extent_id(), node.charge(), node.mirror.bytes().to_vec())).collect();
        let found = mirrors.iter().map(|(id, charge, mirror)| Found { extent_id: *id, charge: *charge, mirror });
        let Some(image) = catch_up(&map, &found.collect::<Vec<_>>(), &terms) else {
            // Its process ends, and is started again: the record of its last start may be what was lost.
            return if self.has_map_rotted() {
                self.restart_gateway(Duration::from_millis(50))
            };
        };
        self.restart_gateway(Duration::from_millis(1));
        self.ctx.trace(What::Phase("the map takes the decisions that a mirror has"));
        self.store_map(image.version(), encode_snapshot(&image), true);
        self.note_map_file(true);
        self.scrub_kept = Default::default();
    }
}
