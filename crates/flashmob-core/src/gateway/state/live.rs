//! What each node did in each of the last ten minutes' seconds: histograms of where the time of its pieces went, and counts.
//!
//! The current slot has full counters, which the paths of requests and answers add to; [`Live::advance`] packs it into a ring when its time is
//! over. Slots are seconds; with so many nodes that the ring would exceed its memory they are longer. A slot in which nothing happened takes no
//! memory.

mod packed;
mod recorded;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crate::buckets::Buckets;
use crate::units::{MIB, Time};
use crate::wire::service::Service;
use packed::{NODE_BYTES, Packed};
pub use recorded::{Counts, LiveSlots, NodeSlot, Slot};

/// How far back the ring goes.
pub const KEPT: Duration = Duration::from_secs(600);
/// Most bytes of a ring, and the part of the gateway's memory that it may take: 64 nodes have slots of a second in the default memory.
const BYTES_MAX: u64 = 12 * MIB;
const MEMORY_PART: u64 = 10;
/// Lengths of slots in seconds, all of which divide [`KEPT`].
const LENGTHS_S: [u64; 11] = [1, 2, 3, 5, 10, 15, 20, 30, 60, 120, 300];

/// Where the time of a piece goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// From the request's arrival until its piece was put into a batch.
    Queue = 0,
    /// The network, there and back: until the answer, without the node's own time.
    Way = 1,
    /// At the node, from the whole batch to the answer.
    Node = 2,
    /// In the node's store; a part of [`Cause::Node`]. The node reports it, for all its gateways together.
    Flash = 3,
}

/// How many there are.
pub const CAUSES: usize = 4;

/// A node in the current slot.
#[derive(Debug, Clone, Default)]
struct Current {
    causes: [Buckets; CAUSES],
    /// From the request's arrival to the answer.
    total: Buckets,
    at_once: u64,
    store_operations: u64,
    running_permille: Option<u16>,
    starved_permille: Option<u16>,
    /// Counters of the node's links when the slot began.
    before: Counts,
}

/// The slots of a gateway.
#[derive(Debug)]
pub struct Live {
    /// One for each node; none if nothing is recorded.
    current: Vec<Current>,
    /// When the current slot is over.
    ends: Time,
    length_s: u64,
    /// The number of the current slot: its first second divided by the length.
    number: u64,
    /// The slots before it in which something happened, oldest first.
    ring: VecDeque<(u64, Arc<[Packed]>)>,
}

impl Default for Live {
    /// Records nothing.
    fn default() -> Live {
        Live { current: Vec::new(), ends: Time(u64::MAX), length_s: 0, number: 0, ring: VecDeque::new() }
    }
}

impl Live {
    /// Records `nodes` nodes in at most a part of `memory_bytes`.
    pub fn new(nodes: usize, memory_bytes: u64) -> Live {
        let limit_bytes = BYTES_MAX.min(memory_bytes / MEMORY_PART);
        let of = |length_s: u64| KEPT.as_secs() / length_s * nodes as u64 * NODE_BYTES;
        let fitting = LENGTHS_S.into_iter().find(|&length_s| of(length_s) <= limit_bytes);
        let length_s = fitting.unwrap_or(LENGTHS_S[LENGTHS_S.len() - 1]);
        let ends = Time::default() + Duration::from_secs(length_s);
        Live { current: vec![Current::default(); nodes], ends, length_s, ..Live::default() }
    }

    /// One more node. The slots stay as long as they are.
    pub fn add(&mut self) {
        if self.is_on() {
            self.current.push(Current::default());
        }
    }

    pub fn is_on(&self) -> bool {
        !self.current.is_empty()
    }

    /// The most that the ring takes.
    pub fn bytes_max(&self) -> u64 {
        if self.is_on() { self.slots_max() as u64 * self.current.len() as u64 * NODE_BYTES } else { 0 }
    }

    fn slots_max(&self) -> usize {
        (KEPT.as_secs() / self.length_s.max(1)) as usize
    }

    /// So many pieces of a node spent this time there.
    #[inline]
    pub fn record_n(&mut self, node: usize, cause: Cause, nanos: u64, count: usize) {
        if let Some(current) = self.current.get_mut(node) {
            current.causes[cause as usize].record_n(nanos, count as u32);
        }
    }

    /// So many pieces of a node are answered: their time on the way, and at the node.
    #[inline]
    pub fn answered_n(&mut self, node: usize, [way_nanos, node_nanos]: [u64; 2], count: usize) {
        if let Some(current) = self.current.get_mut(node) {
            current.causes[Cause::Way as usize].record_n(way_nanos, count as u32);
            current.causes[Cause::Node as usize].record_n(node_nanos, count as u32);
        }
    }

    /// The same pieces, or some of them: their time since their requests arrived.
    #[inline]
    pub fn ended_n(&mut self, node: usize, total_nanos: u64, count: usize) {
        if let Some(current) = self.current.get_mut(node) {
            current.total.record_n(total_nanos, count as u32);
        }
    }

    /// A node reports what its store did.
    pub fn served(&mut self, node: usize, service: &Service) {
        let Some(current) = self.current.get_mut(node) else { return };
        current.causes[Cause::Flash as usize].add(&service.flash);
        current.at_once += u64::from(service.at_once);
        current.store_operations += u64::from(service.store_operations);
        current.running_permille = current.running_permille.max(service.running_permille);
        current.starved_permille = current.starved_permille.max(service.starved_permille);
    }

    /// Whether the current slot is over.
    #[inline]
    pub fn is_due(&self, now: Time) -> bool {
        now >= self.ends
    }

    /// Begins the slot of `now`; `counts` of a node are those of its links since the start.
    #[cold]
    pub fn advance(&mut self, now: Time, counts: impl Fn(usize) -> Counts) {
        let mut packed = Vec::new();
        for (node, current) in self.current.iter_mut().enumerate() {
            let counts = counts(node);
            let counted = counts.since(current.before);
            packed.extend(Packed::of(node, current, counted));
            *current = Current { before: counts, ..Current::default() };
        }
        if !packed.is_empty() {
            self.ring.push_back((self.number, packed.into()));
        }
        self.number = now.since(Time::default()).as_secs() / self.length_s;
        self.ends = Time::default() + Duration::from_secs((self.number + 1) * self.length_s);
        let oldest = self.number.saturating_sub(self.slots_max() as u64);
        while self.ring.front().is_some_and(|(number, _)| *number < oldest) {
            self.ring.pop_front();
        }
    }

    /// The slots that begin at or after a second and are over. It is cheap: they are shared, not copied.
    pub fn recorded(&self, second: u64) -> LiveSlots {
        let from = self.ring.partition_point(|(number, _)| number * self.length_s < second);
        let slots = self.ring.range(from..).cloned().collect();
        LiveSlots { length_s: self.length_s, number: self.number, nodes: self.current.len(), places: Vec::new(), slots }
    }
}

#[cfg(test)]
mod tests;
