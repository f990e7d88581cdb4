//! What was recorded, for reports.

use std::sync::Arc;
use std::time::Duration;

use super::CAUSES;
use super::packed::Packed;
use crate::buckets::Buckets;

/// What is counted besides: of the gateway's links to the node, or reported by the node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Frames sent with batches of pieces.
    pub batches: u64,
    /// Pieces in them.
    pub pieces: u64,
    /// Frames with answers.
    pub reply_frames: u64,
    /// Bytes of whole frames from the node.
    pub bytes_in: u64,
    /// Pieces that failed.
    pub failures: u64,
    /// Reads that an extent in this process answered at once. They are in no histogram.
    pub read_here: u64,
}

impl Counts {
    pub(super) fn since(self, earlier: Counts) -> Counts {
        // A link that is connected anew keeps its counters.
        Counts {
            batches: self.batches.saturating_sub(earlier.batches),
            pieces: self.pieces.saturating_sub(earlier.pieces),
            reply_frames: self.reply_frames.saturating_sub(earlier.reply_frames),
            bytes_in: self.bytes_in.saturating_sub(earlier.bytes_in),
            failures: self.failures.saturating_sub(earlier.failures),
            read_here: self.read_here.saturating_sub(earlier.read_here),
        }
    }
}

/// One node in one slot.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct NodeSlot {
    /// By [`Cause`].
    pub causes: [Buckets; CAUSES],
    /// Pieces that were answered, without those in [`Counts::read_here`].
    pub timed: u64,
    /// Half of the pieces were answered within this time after their request's arrival; absent without answers.
    pub p50: Option<Duration>,
    /// 99 % of them.
    pub p99: Option<Duration>,
    /// Counted in the slot.
    pub counts: Counts,
    /// Pieces that the node answered without a thread of its store.
    pub at_once: u64,
    /// Operations of its store.
    pub store_operations: u64,
    /// Thousandths of the time in which the node's loop ran.
    pub running_permille: Option<u16>,
    /// Thousandths in which it waited for a processor.
    pub starved_permille: Option<u16>,
}

impl NodeSlot {
    /// Answered pieces.
    #[must_use]
    pub fn answered(&self) -> u64 {
        self.timed + self.counts.read_here
    }

    /// Takes in a later slot of the same node. The quantiles of both together are estimated: the median by how many each answered, p99 as the
    /// larger one.
    pub(super) fn merge(&mut self, later: &NodeSlot) {
        let weight = |slot: &NodeSlot| slot.timed as f64;
        self.p50 = match (self.p50, later.p50) {
            (Some(a), Some(b)) => {
                let (before, after) = (weight(self), weight(later));
                Some((a.mul_f64(before) + b.mul_f64(after)).div_f64((before + after).max(1.0)))
            }
            (a, b) => a.or(b),
        };
        self.p99 = self.p99.max(later.p99);
        self.causes.iter_mut().zip(&later.causes).for_each(|(sum, more)| sum.add(more));
        let Counts { batches, pieces, reply_frames, bytes_in, failures, read_here } = later.counts;
        let counts = &mut self.counts;
        for (sum, more) in [
            (&mut counts.batches, batches),
            (&mut counts.pieces, pieces),
            (&mut counts.reply_frames, reply_frames),
            (&mut counts.bytes_in, bytes_in),
            (&mut counts.failures, failures),
            (&mut counts.read_here, read_here),
            (&mut self.timed, later.timed),
            (&mut self.at_once, later.at_once),
            (&mut self.store_operations, later.store_operations),
        ] {
            *sum = sum.saturating_add(more);
        }
        self.running_permille = self.running_permille.max(later.running_permille);
        self.starved_permille = self.starved_permille.max(later.starved_permille);
    }
}

/// Some neighbouring slots of the ring.
#[derive(Debug, Clone, PartialEq)]
pub struct Slot {
    /// Its first second since the gateway's start.
    pub first_second: u64,
    /// How many it covers.
    pub seconds: u64,
    /// The nodes that did something in it, by their places among all, ascending.
    pub nodes: Vec<(usize, NodeSlot)>,
}

/// Slots of a gateway that are over: its ring, or the end of it.
#[derive(Debug, Clone, Default)]
pub struct LiveSlots {
    /// Seconds of a slot.
    pub length_s: u64,
    /// The number of the slot that is being recorded.
    pub(super) number: u64,
    pub(super) nodes: usize,
    /// By the number of a node, its place; empty if these are the same.
    pub(super) places: Vec<usize>,
    /// Those in which something happened, by number.
    pub(super) slots: Vec<(u64, Arc<[Packed]>)>,
}

impl LiveSlots {
    /// The first second of the slot that is being recorded: the next ones are at or behind it.
    #[must_use]
    pub fn next_second(&self) -> u64 {
        self.number * self.length_s
    }

    /// Oldest first, with at most about `entries_max` entries of nodes: of more, half of them are the newest slots, and the others older ones
    /// that are merged. There are more where half of them are fewer than the nodes.
    #[must_use]
    pub fn slots(&self, entries_max: usize) -> Vec<Slot> {
        let entries: usize = self.slots.iter().map(|(_, nodes)| nodes.len()).sum();
        if entries <= entries_max {
            return self.slots.iter().map(|(number, nodes)| self.slot(*number, nodes)).collect();
        }
        let (mut newest, mut left) = (self.slots.len(), entries_max / 2);
        while newest > 0 && self.slots[newest - 1].1.len() <= left {
            newest -= 1;
            left -= self.slots[newest].1.len();
        }
        // However the older ones are spread over time, no more than this many groups have all nodes.
        let groups = ((entries_max / 2) / self.nodes.max(1)).max(1) as u64;
        let numbers = |at: usize| self.slots.get(at).map_or(self.number, |(number, _)| *number);
        let first = numbers(0);
        let step = (numbers(newest) - first).div_ceil(groups).max(1);
        let mut merged: Vec<Slot> = Vec::new();
        for (number, nodes) in &self.slots[..newest] {
            let begin = first + (number - first) / step * step;
            let slot = self.slot(*number, nodes);
            match merged.last_mut().filter(|last| last.first_second == begin * self.length_s) {
                Some(last) => last.merge(slot),
                None => {
                    let seconds = step.min(numbers(newest) - begin) * self.length_s;
                    merged.push(Slot { first_second: begin * self.length_s, seconds, ..slot });
                }
            }
        }
        merged.extend(self.slots[newest..].iter().map(|(number, nodes)| self.slot(*number, nodes)));
        merged
    }

    /// Nodes are counted by their places in this order from now on.
    pub(in crate::gateway) fn in_order(mut self, order: &[usize]) -> LiveSlots {
        self.places = vec![0; order.len()];
        for (place, &node) in order.iter().enumerate() {
            self.places[node] = place;
        }
        self
    }

    fn slot(&self, number: u64, nodes: &[Packed]) -> Slot {
        let place = |node: u16| self.places.get(usize::from(node)).copied().unwrap_or(usize::from(node));
        let mut nodes: Vec<(usize, NodeSlot)> =
            nodes.iter().map(|packed| (place(packed.node), packed.unpack())).collect();
        if !self.places.is_empty() {
            nodes.sort_unstable_by_key(|(place, _)| *place);
        }
        Slot { first_second: number * self.length_s, seconds: self.length_s, nodes }
    }
}

impl Slot {
    fn merge(&mut self, later: Slot) {
        for (node, slot) in later.nodes {
            match self.nodes.binary_search_by_key(&node, |(node, _)| *node) {
                Ok(at) => self.nodes[at].1.merge(&slot),
                Err(at) => self.nodes.insert(at, (node, slot)),
            }
        }
    }
}
