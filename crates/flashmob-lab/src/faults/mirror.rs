//! Mirrors of the map on the nodes, and what they are for: the gateway's disk is lost, and the map is recovered from them.

use std::collections::VecDeque;
use std::time::Duration;

use flashmob_core::copies::{Found, RecoverError, Recovered, encode_snapshot, mirror_state, recover};
use flashmob_core::node::{MirrorDone, MirrorOp};
use flashmob_core::wire::mirror::{MIRROR_FRAME_BYTES_MAX, PutMirror};
use rand::Rng;
use rand::rngs::SmallRng;

use super::fault::Fault;
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

    fn put(&mut self, put: &PutMirror, bytes: &[u8]) {
        let at = put.offset_bytes as usize;
        let file = if put.is_new { &mut self.new } else { &mut self.bytes };
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

impl World {
    /// A node's process begins with the mirror that it finds.
    pub(super) fn open_mirror(&mut self, n: usize) {
        let node = &mut self.nodes[n];
        node.mirror_work = MirrorWork::default();
        node.mirror.opened();
        let found = mirror_state(node.mirror.bytes());
        if let Some(core) = &mut node.core {
            core.set_mirror(found);
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
        let now = self.ctx.now;
        let node = &mut self.nodes[n];
        if node.epoch != epoch {
            return;
        }
        if node.store.stalled_until > now {
            return self.ctx.at(node.store.stalled_until, Event::MirrorDone { node: n, epoch });
        }
        if let Some(MirrorOp::Put { link, put, bytes }) = node.mirror_work.waiting.pop_front() {
            // Now and then there is no room.
            let is_kept = !self.ctx.rng.random_ratio(1, 300);
            if !is_kept {
                node.mirror = MirrorDisk::default();
            } else {
                debug_assert!(bytes.len() <= MIRROR_FRAME_BYTES_MAX, "else it is refused");
                node.mirror.put(&put, &bytes);
            }
            node.mirror_work.done.push(MirrorDone::Put { link, put, is_kept });
        }
        if !node.mirror_work.waiting.is_empty() {
            self.mirror_op_takes(n);
        }
        self.wake_node(n);
    }

    /// The gateway's disk is lost with it. Its map is recovered before it is started again.
    pub(super) fn lose_map(&mut self, down: Duration) {
        if self.gateway.core.is_none() {
            return;
        }
        self.restart_gateway(down);
        let moment = self.ctx.now.as_nanos();
        let found: Vec<Found<'_>> = (0..self.nodes.len())
            .map(|n| Found {
                extent_id: self.nodes[n].extent_id(),
                charge: self.nodes[n].charge(),
                mirror: self.nodes[n].mirror.bytes(),
            })
            .collect();
        let Recovered { image, missing, without_mirror, .. } = match recover(&found, moment) {
            Ok(recovered) => recovered,
            // Nothing was mirrored yet: the disk was not lost.
            Err(RecoverError::NoMirror) => return,
            Err(error) => return self.ctx.fail(format!("the map cannot be recovered: {error}")),
        };
        if !missing.is_empty() {
            return self.ctx.fail(format!("the extents of members {missing:?} are not found"));
        }
        if !without_mirror.is_empty() {
            // It is refused: the disk was not lost.
            return;
        }
        self.ctx.trace(What::Phase("the map is recovered from the nodes"));
        self.map.store(encode_snapshot(&image), true);
        self.scrub_kept = Default::default();
    }
}
