//! Mirrors of the map on the nodes, and what they are for: the gateway's disk is lost, and the map is recovered from them.

use std::collections::VecDeque;
use std::time::Duration;

use flashmob_core::copies::{
    Found, RecoverError, Recovered, Terms, Unreadable, Verify, encode_snapshot, mirror_state, recover, replay,
};
use flashmob_core::node::{MirrorDone, MirrorOp};
use flashmob_core::wire::mirror::{MIRROR_FRAME_BYTES_MAX, PutMirror};
use rand::Rng;
use rand::rngs::SmallRng;

use super::fault::Fault;
use super::node::NodeLoop;
use super::scenario::{Scenario, pick};
use super::trace::What;
use super::{Event, World};

/// The longest that a node takes for bytes of its mirror, in nanoseconds.
const PUT_NS_MAX: u64 = 3_000_000;

/// The file of a node's mirror.
#[derive(Debug, Clone, Default)]
pub(super) struct MirrorDisk {
    bytes: Vec<u8>,
    /// How many of them are durable.
    durable: usize,
    /// A new mirror that is not whole yet.
    new: Vec<u8>,
}

/// An older state of the map.
#[derive(Debug, Default)]
pub(super) struct OldMap {
    backup: Option<Vec<u8>>,
    /// The gateway runs with it, or is about to. Nodes keep their mirrors meanwhile.
    pub is_in_use: bool,
}

/// What a node does with it.
#[derive(Debug, Default)]
pub(super) struct MirrorWork {
    /// What is to be done, the first of it now.
    waiting: VecDeque<MirrorOp>,
    done: Vec<MirrorDone>,
}

impl MirrorWork {
    pub fn take_done(&mut self) -> Vec<MirrorDone> {
        std::mem::take(&mut self.done)
    }
}

impl MirrorDisk {
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Puts bytes where they belong. False, as at a real node, if what comes before them is missing: an earlier part was not kept, and its link was lost
    /// before it was told.
    fn put(&mut self, put: &PutMirror, bytes: &[u8]) -> bool {
        let at = put.offset_bytes as usize;
        let file = if put.is_new { &mut self.new } else { &mut self.bytes };
        if at > file.len() {
            return false;
        }
        file.truncate(at);
        file.extend(bytes);
        if put.is_last {
            self.bytes = std::mem::take(&mut self.new);
        }
        if !put.is_new {
            self.durable = self.durable.min(at);
        }
        if put.is_last || put.is_durable {
            self.durable = self.bytes.len();
        }
        true
    }

    /// A process finds it: it is synced before anything is told of it.
    fn opened(&mut self) {
        self.new.clear();
        self.durable = self.bytes.len();
    }

    /// The device loses power: what was not synced may be there in part.
    pub fn lose_power(&mut self, rng: &mut SmallRng) {
        self.new.clear();
        let left = rng.random_range(self.durable.min(self.bytes.len())..=self.bytes.len());
        self.bytes.truncate(left);
        self.durable = left;
    }
}

/// Draws whether the gateway's disk is lost. Not where a node is, or its extent: without it nobody knows what was decided last.
pub(super) fn draw(rng: &mut SmallRng, scenario: &mut Scenario) {
    let takes_extents = |fault: &Fault| {
        use Fault::{Copy, Death, Replace, Restore, SecondGateway, Swap};
        matches!(fault, Copy(..) | Death(_) | Replace(..) | Restore(..) | SecondGateway(_) | Swap(..))
    };
    if !rng.random_ratio(1, 4) || scenario.faults.iter().any(|(_, fault)| takes_extents(fault)) {
        return;
    }
    let span_us = scenario.span.as_micros() as u64;
    for _ in 0..rng.random_range(1..3) {
        let at = Duration::from_micros(rng.random_range(0..span_us));
        let longest_us = *pick(rng, &[1_000, 50_000, 1_000_000]);
        scenario.faults.push((at, Fault::LoseMap(Duration::from_micros(rng.random_range(100..longest_us)))));
    }
}

/// Draws whether a gateway is started with an older state of its map. Not where a node is started with less than its mirror, or the gateway counts
/// in the meantime.
pub(super) fn draw_old(rng: &mut SmallRng, scenario: &mut Scenario) {
    let is_in_its_way = |fault: &Fault| {
        let is_of_map = matches!(fault, Fault::LoseMap(_) | Fault::MapFull(_) | Fault::MapSlow(_));
        let is_of_gateway =
            matches!(fault, Fault::GatewayRestart(_) | Fault::SecondGateway(_) | Fault::GatewayStall(_));
        fault.loses_data() || is_of_map || is_of_gateway || matches!(fault, Fault::Copy(..))
    };
    if !rng.random_ratio(3, 4) || scenario.faults.iter().any(|(_, fault)| is_in_its_way(fault)) {
        return;
    }
    let span_us = scenario.span.as_micros() as u64;
    let at = Duration::from_micros(rng.random_range(0..span_us / 2));
    let after = Duration::from_micros(rng.random_range(1_000..span_us.max(2_000)));
    let lasts = Duration::from_micros(rng.random_range(10_000..500_000));
    scenario.faults.push((at, Fault::OldMap(after, lasts)));
}

impl World {
    /// A node's process begins with the mirror that it finds.
    pub(super) fn open_mirror(&mut self, n: usize) {
        let node = &mut self.nodes[n];
        node.mirror_work = MirrorWork::default();
        node.mirror.opened();
        let (found, charge) = (mirror_state(node.mirror.bytes()), node.charge());
        if let Some(core) = &mut node.core {
            core.set_mirror(found, charge.as_ref());
        }
    }

    /// The node's process has something to do with its mirror.
    pub(super) fn begin_mirror_ops(&mut self, n: usize) {
        let node = &mut self.nodes[n];
        let Some(core) = &mut node.core else { return };
        let was_idle = node.mirror_work.waiting.is_empty();
        node.mirror_work.waiting.extend(core.mirror_ops().drain(..));
        if was_idle && !node.mirror_work.waiting.is_empty() {
            self.mirror_op_takes(n);
        }
    }

    fn mirror_op_takes(&mut self, n: usize) {
        let epoch = self.nodes[n].epoch;
        let takes_ns = self.ctx.rng.random_range(0..PUT_NS_MAX);
        self.ctx.after(takes_ns, Event::MirrorDone { node: n, epoch });
    }

    /// The first of it is done.
    pub(super) fn mirror_op_done(&mut self, n: usize, epoch: u32) {
        let (now, is_unwritable) = (self.ctx.now, self.is_mirror_unwritable(n));
        let node = &mut self.nodes[n];
        if node.epoch != epoch {
            return;
        }
        if node.store.stalled_until > now {
            return self.ctx.at(node.store.stalled_until, Event::MirrorDone { node: n, epoch });
        }
        if let Some(MirrorOp::Put { link, put, bytes }) = node.mirror_work.waiting.pop_front() {
            // Now and then there is no room; but a map that rots is mended by mirrors alone.
            let rots = self.scenario.faults.iter().any(|(_, fault)| matches!(fault, Fault::MapRot(..)));
            let is_needed = self.old_map.is_in_use || rots;
            debug_assert!(bytes.len() <= MIRROR_FRAME_BYTES_MAX, "else it is refused");
            let has_room = (!self.ctx.rng.random_ratio(1, 300) || is_needed) && !is_unwritable;
            let is_kept = has_room && node.mirror.put(&put, &bytes);
            if !is_kept {
                node.mirror = MirrorDisk::default();
            } else if put.is_durable {
                node.store.age = node.store.age.max(Some(put.state.age()));
            }
            node.mirror_work.done.push(MirrorDone::Put { link, put, is_kept });
        }
        if !node.mirror_work.waiting.is_empty() {
            self.mirror_op_takes(n);
        }
        self.wake_node(n);
    }

    /// The gateway's disk is lost with it. Its map is recovered from the mirrors before it is started again.
    pub(super) fn lose_map(&mut self, down: Duration) {
        self.recover_map(None, down);
    }

    /// The gateway is killed, and started again with a map that is recovered from the mirrors, or from its own.
    pub(super) fn recover_map(&mut self, map: Option<&[u8]>, down: Duration) {
        if self.gateway.core.is_none() {
            return;
        }
        let key = self.signing_key();
        let keys = key.as_ref().map(|key| key as &dyn Verify);
        let (moment, generation) = (self.ctx.now.as_nanos(), self.stolen_key.generation);
        let terms = Terms { moment, generation, map, keys, accepts_unsigned: false };
        let mirrors: Vec<Vec<u8>> = self.nodes.iter().map(|node| node.mirror.bytes().to_vec()).collect();
        let found = self.nodes.iter().zip(&mirrors);
        let found: Vec<Found<'_>> =
            found.map(|(node, mirror)| Found { extent_id: node.extent_id(), charge: node.charge(), mirror }).collect();
        self.check_forged(&found, &terms);
        let Recovered { image, missing, without_mirror, mirrors, .. } = match recover(&found, &terms) {
            Ok(recovered) => recovered,
            // Nothing was mirrored yet: the disk was not lost.
            Err(RecoverError::NoMirror) => return,
            Err(error) => return self.ctx.fail(format!("the map cannot be recovered: {error}")),
        };
        let unreadable = |why: &Unreadable| matches!(why, Unreadable::Unsigned | Unreadable::Damaged);
        if let Some((n, why)) =
            mirrors.iter().enumerate().find_map(|(n, mirror)| Some((n, mirror.err().filter(unreadable)?)))
            && map.is_none()
        {
            return self.ctx.fail(format!("the mirror of node {n} cannot be recovered from: {why}"));
        }
        if !missing.is_empty() {
            return self.ctx.fail(format!("the extents of members {missing:?} are not found"));
        }
        if map.is_none() && !without_mirror.is_empty() {
            // It is refused: the disk was not lost.
            return;
        }
        self.restart_gateway(down);
        self.ctx.trace(What::Phase("the map is recovered"));
        self.store_map(image.version(), encode_snapshot(&image), true);
        // What was settled may be open in it again: a power cut that comes before the gateway does counts.
        self.note_map_file(true);
        self.scrub_kept = Default::default();
    }

    /// The map is backed up, and restored later.
    pub(super) fn back_up_map(&mut self, after: Duration, lasts: Duration) {
        self.old_map.backup = Some(self.map.bytes().to_vec());
        self.calm_at = self.calm_at.max(self.ctx.now + after + lasts);
        self.ctx.at(self.ctx.now + after, Event::RestoreMap { lasts });
    }

    /// The gateway is started with an older state of its map, if all nodes know a later one.
    pub(super) fn restore_map(&mut self, lasts: Duration) {
        let Some(backup) = self.old_map.backup.take().filter(|_| self.gateway.core.is_some()) else { return };
        let decisions = |map: &[u8]| mirror_state(map).map(|(_, state)| state.decisions());
        let Some(known) = decisions(&backup) else { return };
        let knows_later = |node: &NodeLoop| {
            let is_later = decisions(node.mirror.bytes()).is_some_and(|later| later > known);
            is_later && node.mirror_work.waiting.is_empty()
        };
        if !self.nodes.iter().all(knows_later) {
            return;
        }
        self.ctx.totals.faults[Fault::OldMap(lasts, lasts).kind()] += 1;
        let until = self.ctx.now + lasts;
        (0..self.nodes.len()).for_each(|n| self.disturb(n, until));
        self.restart_gateway(Duration::from_micros(100));
        self.ctx.trace(What::Phase("an older state of the map is restored"));
        if let Ok(old) = replay(&backup) {
            self.sign_map(None, &encode_snapshot(&old.image));
        }
        self.map.store(backup, true);
        // It was started with it some times already.
        for _ in 0..self.ctx.rng.random_range(0..50) {
            self.load_map();
        }
        self.old_map.is_in_use = true;
        self.ctx.at(until, Event::RecoverMap { session: self.gateway.session + 1 });
    }

    /// The map is recovered: no node has accepted the older state of it.
    pub(super) fn end_old_map(&mut self, session: u64) {
        if self.gateway.session != session || self.gateway.core.is_none() {
            return self.ctx.fail("the gateway does not run with the older state of its map".to_string());
        }
        if let Some(n) = (0..self.nodes.len()).find(|&n| self.gateway.links_ready(n) > 0) {
            return self.ctx.fail(format!("node {n} accepts an older state of the map than its mirror has"));
        }
        self.old_map.is_in_use = false;
        self.lose_map(Duration::from_millis(1));
    }
}
