//! A node's loop in virtual time: the state machine, a modelled processor, and modelled flash as its store.

use flashmob_core::node::{Host, LinkId, Node, NodeConfig, StoreDone, TryRead};
use flashmob_core::op::Op;
use flashmob_core::units::{MIB, Time};
use flashmob_core::wire::hello::{Charge, Hello, RefuseReason};
use flashmob_core::wire::map::put_all_data;

use super::rebuild::Stale;
use super::tcp::{Connection, Side};
use super::{Cost, Settings, SettingsError};
use crate::flash::{self, Completion, FlashModel, Request, Scheduler};

/// Memory of a node, as by default.
const MEMORY_BYTES: u64 = 64 * MIB;
/// Queue depth of a store that answers without I/O.
const DEPTH_WITHOUT_FLASH: usize = 128;

/// The id of a node's extent.
pub(super) fn extent_id(number: u32) -> [u8; 16] {
    let mut id = [1; 16];
    id[..4].copy_from_slice(&number.to_le_bytes());
    id
}

#[derive(Debug)]
pub(super) struct SimNode {
    pub(super) core: Node,
    pub(super) flash: Option<FlashModel>,
    /// Its connections: the gateway's link id, and the node's own.
    links: Vec<(usize, LinkId)>,
    /// Connections with data to read, and those that the last turn wrote to.
    ready: Vec<usize>,
    pub(super) written: Vec<usize>,
    /// Its processor is busy until this time.
    pub(super) busy_until: Time,
    pub(super) is_awake: bool,
    pub(super) has_timer: bool,
    /// The planned time of the next poll of the flash.
    pub(super) flash_at: Option<Time>,
    /// Operations in the flash, by request id.
    in_flash: Vec<Option<(u64, Vec<u8>)>>,
    free: Vec<usize>,
    completions: Vec<Completion>,
    done: Vec<StoreDone>,
    cost: Cost,
    /// Of the gateway in charge, if the volume has copies.
    charge: Option<Charge>,
    /// What differs from the other copies.
    pub(super) stale: Stale,
}

/// The environment of the state machine.
struct SimHost {
    now: Time,
    answers_at_once: bool,
    charge: Option<Charge>,
}

impl Host for SimHost {
    fn try_read(&mut self, _offset_bytes: u64, into: &mut [u8]) -> TryRead {
        if !self.answers_at_once {
            return TryRead::Miss;
        }
        into.fill(0);
        TryRead::Hit
    }

    fn charge(&self) -> Option<Charge> {
        self.charge
    }

    fn accepted(&self) -> Vec<(u64, u64)> {
        self.charge.iter().map(|charge| (charge.epoch, charge.version)).collect()
    }

    fn age(&self) -> Option<(u64, u64)> {
        None
    }

    fn adopt(&mut self, hello: &Hello) -> Result<(), (RefuseReason, String)> {
        self.charge = hello.charge;
        Ok(())
    }

    fn has_fast_reads(&self) -> bool {
        self.answers_at_once
    }

    fn now(&mut self) -> Time {
        self.now
    }
}

impl SimNode {
    pub(super) fn new(number: u32, settings: &Settings) -> Result<SimNode, SettingsError> {
        let seed = settings.seed.wrapping_mul(1_000_003).wrapping_add(u64::from(number));
        let model = |profile: flash::Profile| FlashModel::new(&profile, Scheduler::None, settings.extent_bytes, seed);
        let flash = settings.flash_of(number).map(model).transpose()?;
        let extent_id = extent_id(number);
        let core = Node::new(NodeConfig {
            no_io: flash.is_none(),
            modelled: true,
            memory_bytes: MEMORY_BYTES,
            links_max: 1024,
            order: settings.order,
            store_depth: settings.flash.as_ref().map_or(DEPTH_WITHOUT_FLASH, flash::Profile::store_depth),
            ..NodeConfig::new(extent_id, extent_id, settings.extent_bytes)
        });
        Ok(SimNode {
            core,
            flash,
            links: Vec::new(),
            ready: Vec::new(),
            written: Vec::new(),
            busy_until: Time::default(),
            is_awake: false,
            has_timer: false,
            flash_at: None,
            in_flash: Vec::new(),
            free: Vec::new(),
            completions: Vec::new(),
            done: Vec::new(),
            cost: settings.cost_of(number),
            charge: None,
            stale: Stale::new(settings, number),
        })
    }

    /// Whether the flash has completed operations by now.
    pub(super) fn poll_flash(&mut self, now: Time) -> bool {
        if let Some(flash) = &mut self.flash {
            flash.advance(now, &mut self.completions);
        }
        !self.completions.is_empty()
    }

    /// One turn of its loop. Returns the processor time in nanoseconds.
    pub(super) fn turn(&mut self, now: Time, connections: &mut [Connection]) -> u64 {
        let mut host = SimHost { now, answers_at_once: self.flash.is_none(), charge: self.charge };
        let (mut bytes, mut packets) = (0, 0);
        for number in std::mem::take(&mut self.ready) {
            let Some(link) = self.link_of(number) else { continue };
            let before = bytes;
            let core = &mut self.core;
            connections[number].read(Side::Node, |data| {
                bytes += data.len();
                if let Some(rx) = core.rx(link) {
                    rx.extend(data);
                }
            });
            packets += (bytes - before).div_ceil(super::tcp::MSS_BYTES as usize);
            self.core.process(now, link, &mut host);
        }
        let mut pieces = self.completions.len();
        self.end_completions();
        loop {
            for done in self.done.drain(..) {
                self.core.store_done(done);
            }
            self.core.turn(now, &mut host);
            pieces += self.core.store_ops().len();
            self.begin_ops(now);
            if self.done.is_empty() && !self.core.wants_turn() {
                break;
            }
        }
        self.charge = host.charge;
        while self.core.poll_event().is_some() {}
        for &(number, link) in &self.links {
            let mut written = 0;
            while let Some(front) = self.core.out(link).map(|out| out.front()).filter(|front| !front.is_empty()) {
                let len = front.len();
                connections[number].write(Side::Node, front);
                self.core.wrote(link, len);
                written += len;
            }
            packets += written.div_ceil(super::tcp::MSS_BYTES as usize);
            bytes += written;
            if written > 0 {
                self.written.push(number);
            }
        }
        self.cost.of_turn(packets, pieces, bytes)
    }

    pub(super) fn add_link(&mut self, number: usize, link: LinkId) {
        self.links.push((number, link));
    }

    pub(super) fn remove_link(&mut self, number: usize) {
        if let Some(at) = self.links.iter().position(|(n, _)| *n == number) {
            let (_, link) = self.links.remove(at);
            self.core.link_closed(link);
        }
        self.ready.retain(|n| *n != number);
    }

    /// Marks a connection as having data to read.
    pub(super) fn note_ready(&mut self, number: usize) {
        if !self.ready.contains(&number) {
            self.ready.push(number);
        }
    }

    fn link_of(&self, number: usize) -> Option<LinkId> {
        self.links.iter().find(|(n, _)| *n == number).map(|(_, link)| *link)
    }

    fn end_completions(&mut self) {
        for completion in self.completions.drain(..) {
            let at = completion.id as usize;
            let Some((id, data)) = self.in_flash.get_mut(at).and_then(Option::take) else { continue };
            self.free.push(at);
            let (started, finished) = (completion.started, completion.at);
            self.done.push(StoreDone { id, result: Ok(()), data, started, finished });
        }
    }

    /// Submits operations to the flash; those that it does not support complete at once.
    fn begin_ops(&mut self, now: Time) {
        for mut op in self.core.store_ops().drain(..) {
            match op.op {
                Op::Map => put_all_data(&mut op.data, op.len_bytes),
                Op::Digest => self.stale.put_digest(op.offset_bytes, &mut op.data),
                Op::Write => self.stale.written(op.offset_bytes, op.len_bytes.into()),
                _ => {}
            }
            let (kind, offset_bytes, len_bytes) = match op.op {
                Op::Read | Op::Digest => (flash::Op::Read, op.offset_bytes, u64::from(op.len_bytes)),
                Op::Flush => (flash::Op::Flush, 0, 0),
                Op::Map => (flash::Op::Read, op.offset_bytes, 1),
                _ => (flash::Op::Write, op.offset_bytes, u64::from(op.len_bytes).max(1)),
            };
            let at = self.free.pop().unwrap_or_else(|| {
                self.in_flash.push(None);
                self.in_flash.len() - 1
            });
            let request = Request { id: at as u64, submitter: 0, op: kind, offset_bytes, len_bytes };
            let submitted = self.flash.as_mut().is_some_and(|flash| flash.submit(now, request).is_ok());
            if submitted {
                self.in_flash[at] = Some((op.id, op.data));
            } else {
                self.free.push(at);
                self.done.push(StoreDone { id: op.id, result: Ok(()), data: op.data, started: now, finished: now });
            }
        }
    }
}
