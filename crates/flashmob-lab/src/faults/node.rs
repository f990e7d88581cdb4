//! Drives one `flashmob_core::node::Node` as its shell would: turns, connections, the store, and its deaths.

use std::collections::BTreeMap;
use std::time::Duration;

use flashmob_core::node::{
    Host, LinkId, Node, NodeConfig, NodeEvent, StoreDone, TryRead, accept, is_of_later_generation,
};
use flashmob_core::planted::{self, Bug};
use flashmob_core::units::Time;
use flashmob_core::wire::digest::DIGEST_BLOCK_BYTES;
use flashmob_core::wire::hello::{Charge, Hello, RefuseReason};
use rand::Rng;
use rand::rngs::SmallRng;

use super::gateway::CLOCK_START_NS;
use super::hot_backup::{HotBackup, Parts};
use super::mirror::{MirrorDisk, MirrorWork};
use super::net::ConnId;
use super::record::{Record, Recorder};
use super::remount::{CacheState, Stop};
use super::store::Store;
use super::trace::What;
use super::{Event, World};

/// How long a node's loop needs to notice something, at most, in nanoseconds.
const WAKE_NS_MAX: u64 = 40_000;

/// More starts than any device of a run has: the boot ids of a copy are its own.
const COPY_BOOTS: u64 = 1 << 32;

#[derive(Debug)]
pub(super) struct NodeLoop {
    config: NodeConfig,
    clock_start_ns: u64,
    /// None while the process does not run.
    pub core: Option<Node>,
    /// Which process this is.
    pub epoch: u32,
    pub store: Store,
    /// What it keeps of the volume's map.
    pub mirror: MirrorDisk,
    pub mirror_work: MirrorWork,
    pub frozen_until: Time,
    /// Nothing comes through to it.
    pub away_until: Time,
    /// It never comes back.
    pub is_dead: bool,
    has_power: bool,
    boots: u64,
    pub cache: CacheState,
    /// The start of the device that its last process began with.
    pub start: [u8; 16],
    /// Of which node it is a copy.
    pub copy_of: Option<usize>,
    /// The identity of its extent, as its process has it.
    record: Record,
    /// How that is written.
    pub recorder: Recorder,
    /// The extent that is not in use: the old one after it was replaced, or the fresh one while the old one is back.
    pub other: Option<Extent>,
    /// An older copy of the extent, with its identity.
    pub backup: Option<Extent>,
    /// One that was made while the node ran.
    pub hot_backup: Option<HotBackup>,
    /// Whether the extent in use is the one that was replaced.
    pub has_old: bool,
    /// Its extents are files of one device, which goes on when one takes the place of the other.
    pub has_files: bool,
    is_awake: bool,
    /// Its store has made progress with a flush, and the process has yet to see it.
    pub has_progress: bool,
    pub has_timer: bool,
    accepting: Vec<ConnId>,
    links: BTreeMap<ConnId, LinkId>,
    closed: Vec<ConnId>,
    /// Links that end once what is queued is written.
    closing: Vec<LinkId>,
    done: Vec<StoreDone>,
}

struct NodeHost<'a> {
    store: &'a mut Store,
    rng: &'a mut SmallRng,
    now: Time,
    record: &'a mut Record,
    recorder: &'a mut Recorder,
    mirror: &'a mut MirrorDisk,
}

impl Host for NodeHost<'_> {
    fn try_read(&mut self, offset_bytes: u64, into: &mut [u8]) -> TryRead {
        self.store.try_read(self.rng, offset_bytes, into)
    }

    fn try_writes<'w>(&mut self, writes: impl Iterator<Item = (u64, &'w [u8])>) -> usize {
        self.store.try_writes(self.now, self.rng, writes)
    }

    fn charge(&self) -> Option<Charge> {
        self.record.charge
    }

    fn accepted(&self) -> Vec<(u64, u64)> {
        self.record.accepted.clone()
    }

    fn age(&self) -> Option<(u64, u64)> {
        self.store.age
    }

    fn adopt(&mut self, hello: &Hello) -> Result<(), (RefuseReason, String)> {
        let wanted = (hello.volume_id.clone(), hello.extent);
        let mut record = self.record.clone();
        // Only a free extent may begin to have copies.
        let is_as_before = record.adopted.is_none() || record.charge.is_some() == hello.charge.is_some();
        if is_as_before && *record.adopted.get_or_insert(wanted.clone()) == wanted {
            hello.charge.iter().for_each(|charge| accept(&mut record.accepted, charge));
            record.charge = hello.charge;
            if record == *self.record {
                return Ok(());
            }
            if is_of_later_generation(self.record.charge.as_ref(), hello.charge.as_ref()) {
                *self.mirror = MirrorDisk::default();
            }
            if !self.recorder.write(self.now, &record) {
                return Err((RefuseReason::Store, "no space left for the identity".to_string()));
            }
            *self.record = record;
            return Ok(());
        }
        Err((RefuseReason::Identity, "this extent belongs elsewhere".to_string()))
    }

    fn has_fast_reads(&self) -> bool {
        self.store.quality.hit_rate > 0.0
    }

    fn now(&mut self) -> Time {
        self.now
    }
}

/// An extent with its identity.
#[derive(Debug)]
pub(super) struct Extent {
    id: [u8; 16],
    store: Store,
    mirror: MirrorDisk,
    record: Record,
}

impl Extent {
    pub fn empty(id: [u8; 16], like: &Store) -> Extent {
        let mut store = Store::new(vec![0; like.live().len()], like.quality.clone());
        (store.slowness, store.has_sums) = (like.slowness, like.has_sums);
        Extent { id, store, mirror: MirrorDisk::default(), record: Record::default() }
    }

    pub fn age(&self) -> Option<(u64, u64)> {
        self.store.age
    }

    /// The charges that its identity has.
    pub fn accepted(&self) -> &[(u64, u64)] {
        &self.record.accepted
    }

    /// Whether its bytes are not those of a store, but for blocks that have rotted there: that is no change of a client.
    pub fn differs(&self, store: &Store) -> bool {
        let block = DIGEST_BLOCK_BYTES as usize;
        let pairs = self.store.live().chunks(block).zip(store.live().chunks(block)).enumerate();
        pairs.into_iter().any(|(n, (own, other))| own != other && !store.is_rotten((n * block) as u64))
    }
}

impl NodeLoop {
    /// Puts another extent in the place of the one in use, and returns that. The process must not run.
    pub fn exchange(&mut self, extent: Extent) -> Extent {
        Extent {
            id: std::mem::replace(&mut self.config.extent_id, extent.id),
            store: std::mem::replace(&mut self.store, extent.store),
            mirror: std::mem::replace(&mut self.mirror, extent.mirror),
            record: std::mem::replace(&mut self.record, extent.record),
        }
    }

    /// A copy of the extent that is in use, with its identity.
    pub fn copy_of_extent(&self) -> Extent {
        Extent {
            id: self.config.extent_id,
            store: self.store.copied(),
            mirror: self.mirror.clone(),
            record: self.record.clone(),
        }
    }

    /// A copy of the extent that is in use, as others read it while the process runs.
    pub fn hot_copy_of_extent(&self) -> Extent {
        Extent { store: self.store.copied_live(), ..self.copy_of_extent() }
    }

    /// The charges that the identity in use has.
    pub fn accepted(&self) -> &[(u64, u64)] {
        &self.record.accepted
    }

    /// Whether its identity is that of an extent.
    pub fn has_record_of(&self, extent: &Extent) -> bool {
        self.record == extent.record
    }

    /// Puts these parts of a copy of the extent back. The process must not run.
    pub fn put_back(&mut self, parts: Parts, extent: Extent) {
        if parts.extent {
            self.store = extent.store;
        }
        if parts.identity {
            self.record = extent.record;
        }
        if parts.mirror {
            self.mirror = extent.mirror;
        }
    }

    pub fn extent_id(&self) -> [u8; 16] {
        self.config.extent_id
    }

    pub fn charge(&self) -> Option<Charge> {
        self.record.charge
    }

    /// The volume that it serves, and which of its extents.
    pub fn adopted(&self) -> Option<&(String, u32)> {
        self.record.adopted.as_ref()
    }

    /// Links to end once what is queued is written.
    pub fn close_later(&mut self, links: impl IntoIterator<Item = LinkId>) {
        self.closing.extend(links);
    }

    /// Its state machine, unless it does not run, and what that needs of its surroundings.
    pub fn with_host<'a>(&'a mut self, rng: &'a mut SmallRng, now: Time) -> (Option<&'a mut Node>, impl Host + 'a) {
        let (record, recorder) = (&mut self.record, &mut self.recorder);
        (self.core.as_mut(), NodeHost { store: &mut self.store, rng, now, record, recorder, mirror: &mut self.mirror })
    }

    pub fn new(number: usize, content: Vec<u8>, scenario: &super::Scenario) -> NodeLoop {
        let config = NodeConfig {
            memory_bytes: 0,
            align_bytes: scenario.align_bytes,
            store_depth: scenario.store_depth,
            keeps_mirror: scenario.copies.is_some(),
            ..NodeConfig::new([number as u8 + 1; 16], [0; 16], content.len() as u64)
        };
        let mut store = Store::new(content, scenario.store.clone());
        store.slowness = scenario.slowness[number];
        store.has_sums = scenario.copies.is_some();
        NodeLoop {
            config,
            clock_start_ns: CLOCK_START_NS.saturating_add_signed(scenario.clocks_ahead_ns[number]),
            core: None,
            epoch: 0,
            store,
            mirror: MirrorDisk::default(),
            mirror_work: MirrorWork::default(),
            frozen_until: Time::default(),
            away_until: Time::default(),
            is_dead: false,
            has_power: true,
            boots: 0,
            cache: CacheState::new(scenario.unknown_caches & (1 << number) != 0),
            start: [0; 16],
            copy_of: None,
            record: Record::default(),
            recorder: Recorder::new(scenario.seed, number),
            other: None,
            backup: None,
            hot_backup: None,
            has_old: false,
            has_files: false,
            is_awake: false,
            has_progress: false,
            has_timer: false,
            accepting: Vec::new(),
            links: BTreeMap::new(),
            closed: Vec::new(),
            closing: Vec::new(),
            done: Vec::new(),
        }
    }

    /// A second device with the same bytes, which never started together with the first.
    pub fn copied(&self, number: usize, scenario: &super::Scenario) -> NodeLoop {
        let mut copy = NodeLoop::new(number, self.store.live().to_vec(), scenario);
        (copy.has_power, copy.boots, copy.copy_of) = (false, COPY_BOOTS, Some(number));
        (copy.record, copy.mirror) = (self.record.clone(), self.mirror.clone());
        copy.store.age = self.store.age;
        copy
    }

    /// Whether its device has not the start that is on record, or is off.
    pub fn is_start_unseen(&self, on_record: Option<[u8; 16]>) -> bool {
        !self.has_power || self.cache.is_loss_unseen || on_record.is_some_and(|boot_id| boot_id != self.config.boot_id)
    }

    /// Whether its kernel accepts connections, refuses them, or says nothing.
    pub fn answers_connect(&self, now: Time) -> Option<bool> {
        (self.has_power && now >= self.away_until).then_some(self.core.is_some())
    }
}

impl World {
    /// Starts a node's process, unless it changed its mind.
    pub(super) fn start_node(&mut self, n: usize, epoch: u32) {
        let node = &mut self.nodes[n];
        if node.epoch != epoch || node.core.is_some() || node.is_dead {
            return;
        }
        if !node.has_power || node.boots == 0 {
            node.has_power = true;
            node.boots += 1;
        }
        let mut boot_id = [0; 16];
        boot_id[..8].copy_from_slice(&node.boots.to_le_bytes());
        let shown = self.reopen_store(n, boot_id);
        let node = &mut self.nodes[n];
        node.config.boot_id = shown;
        if let Some(found) = node.recorder.take_left() {
            node.record = found;
        }
        if let Some(charge) = node.record.charge.as_mut().filter(|_| planted::is(Bug::EpochForgotten)) {
            (charge.epoch, charge.version) = (0, 0);
        }
        let mut core = Node::new(node.config.clone());
        core.set_clock_start(node.clock_start_ns);
        node.core = Some(core);
        node.frozen_until = self.ctx.now;
        self.open_mirror(n);
        self.disturb_if_restarted(n);
        self.ctx.trace(What::NodeStarted { node: n as u8 });
    }

    fn disturb_if_restarted(&mut self, n: usize) {
        if self.nodes[n].epoch > 0 {
            self.disturb(n, self.ctx.now);
        }
    }

    /// Ends a node's process, or cuts its power, and plans its return.
    pub(super) fn stop_node(&mut self, n: usize, down: Duration, stop: Stop) {
        let power = stop == Stop::PowerLost;
        self.disturb(n, self.ctx.now + down);
        let now = self.ctx.now;
        let node = &self.nodes[n];
        if node.is_dead || (node.core.is_none() && !power) {
            return;
        }
        let is_flushed = stop == Stop::InOrder && self.flush_at_end(n);
        let node = &mut self.nodes[n];
        node.cache.stopped(stop, node.start, is_flushed, &mut self.ctx.rng);
        node.core = None;
        node.epoch += 1;
        node.done.clear();
        node.closed.clear();
        node.closing.clear();
        let mut conns: Vec<ConnId> = std::mem::take(&mut node.links).into_keys().collect();
        conns.append(&mut node.accepting);
        let epoch = node.epoch;
        if stop.loses_cache() {
            node.has_power &= !power;
            let changed = node.store.lose_power(&mut self.ctx.rng);
            node.mirror.lose_power(&mut self.ctx.rng);
            if self.scenario.copies.is_none() {
                let changed: Vec<_> = changed.into_iter().flat_map(|run| self.to_volume(n, run)).collect();
                self.oracle.power_lost(n, &changed);
            }
            self.copies_lost_power(n);
        } else {
            node.store.kill(&mut self.ctx.rng);
        }
        self.ctx.trace(What::NodeStopped { node: n as u8, power });
        // A killed process's kernel closes its connections; a dead device says nothing, for some time.
        for conn in conns {
            let late = if power && self.ctx.rng.random_bool(0.7) { down } else { Duration::ZERO };
            self.net.close(&mut self.ctx, conn, 1, late);
        }
        self.ctx.at(now + down, Event::StartNode { node: n, epoch });
    }

    /// A gateway's connection reached the node's kernel.
    pub(super) fn node_accepts(&mut self, n: usize, conn: ConnId) {
        self.nodes[n].accepting.push(conn);
        self.wake_node(n);
    }

    /// Something happened on a connection of the node.
    pub(super) fn node_conn_event(&mut self, n: usize, conn: ConnId, is_closed: bool) {
        if is_closed {
            self.nodes[n].closed.push(conn);
        }
        self.wake_node(n);
    }

    pub(super) fn node_store_done(&mut self, n: usize, epoch: u32, slot: usize) {
        let node = &mut self.nodes[n];
        if node.epoch != epoch {
            return;
        }
        if node.store.stalled_until > self.ctx.now {
            self.ctx.at(node.store.stalled_until, Event::StoreDone { node: n, epoch, slot });
            return;
        }
        if let Some(done) = node.store.finish(self.ctx.now, &mut self.ctx.rng, slot) {
            node.done.push(done);
            self.wake_node(n);
        }
    }

    pub(super) fn wake_node(&mut self, n: usize) {
        if !std::mem::replace(&mut self.nodes[n].is_awake, true) {
            let delay = self.ctx.rng.random_range(0..WAKE_NS_MAX);
            self.ctx.after(delay, Event::NodeTurn { node: n });
        }
    }

    pub(super) fn node_turn(&mut self, n: usize) {
        let (ctx, net) = (&mut self.ctx, &mut self.net);
        let node = &mut self.nodes[n];
        node.is_awake = false;
        if node.frozen_until > ctx.now {
            node.is_awake = true;
            ctx.at(node.frozen_until, Event::NodeTurn { node: n });
            return;
        }
        let admitted = if self.scenario.is_local(n) { u64::MAX } else { self.stolen_key.generation };
        let now = ctx.now;
        let Some(core) = node.core.as_mut() else { return };
        for conn in node.accepting.drain(..) {
            let id = core.link_opened();
            core.link_admitted(id, admitted);
            node.links.insert(conn, id);
        }
        if std::mem::take(&mut node.has_progress) {
            core.store_progressed(now);
        }
        for done in node.done.drain(..) {
            core.store_done(done);
        }
        for done in node.mirror_work.take_done() {
            core.mirror_done(done);
        }
        let mut again = false;
        for (&conn, &id) in &node.links {
            if !net.has_unread(conn, 1) || !core.wants_bytes(id) {
                continue;
            }
            if let Some(rx) = core.rx(id) {
                again |= net.read(ctx, conn, 1, rx);
            }
            let (record, recorder) = (&mut node.record, &mut node.recorder);
            let (store, mirror) = (&mut node.store, &mut node.mirror);
            let host = &mut NodeHost { store, rng: &mut ctx.rng, now, record, recorder, mirror };
            core.process(now, id, host);
        }
        for conn in node.closed.drain(..) {
            if let Some(id) = node.links.remove(&conn) {
                node.closing.retain(|&c| c != id);
                core.link_closed(id);
            }
        }
        let (record, recorder) = (&mut node.record, &mut node.recorder);
        let (store, mirror) = (&mut node.store, &mut node.mirror);
        let host = &mut NodeHost { store, rng: &mut ctx.rng, now, record, recorder, mirror };
        core.turn(now, host);
        for op in core.store_ops().drain(..) {
            ctx.totals.store_ops += 1;
            let what = What::StoreOp { node: n as u8, op: op.op, offset: op.offset_bytes, len: op.len_bytes };
            ctx.trace(what);
            let (slot, at) = node.store.start(now, &mut ctx.rng, op);
            ctx.at(at, Event::StoreDone { node: n, epoch: node.epoch, slot });
        }
        while let Some(event) = core.poll_event() {
            match event {
                NodeEvent::Close { link, .. } => node.closing.push(link),
                NodeEvent::Linked { .. } => ctx.trace(What::Welcomed { node: n as u8 }),
            }
        }
        let mut ended = Vec::new();
        for (&conn, &id) in &node.links {
            let Some(out) = core.out(id) else { continue };
            let written = net.write(ctx, conn, 1, out);
            core.wrote(id, written);
            again |= written > 0 && !core.wants_bytes(id);
            // A link that was held back may be heard again, though nothing new arrives on it.
            again |= core.wants_bytes(id) && net.has_unread(conn, 1);
            let is_written = core.out(id).is_none_or(|out| out.is_empty());
            if node.closing.contains(&id) && (is_written || !net.conns[conn].open[1]) {
                ended.push((conn, id));
            }
        }
        for (conn, id) in ended {
            net.close(ctx, conn, 1, Duration::ZERO);
            node.links.remove(&conn);
            node.closing.retain(|&c| c != id);
            core.link_closed(id);
            again = true;
        }
        let timeout = core.next_timeout();
        self.begin_mirror_ops(n);
        if again {
            self.wake_node(n);
        } else if let Some(at) = timeout.filter(|_| !std::mem::replace(&mut self.nodes[n].has_timer, true)) {
            self.ctx.at(at, Event::NodeTimer { node: n });
        }
    }
}
