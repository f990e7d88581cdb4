//! What must wait for what: the constraints between entries that touch the same bytes.
//!
//! A map from byte ranges to owners holds, for every byte, the last unfinished mutation that covers it. An arrival
//! waits for the owners of its range. That is enough, for an owner in turn waited for whoever owned its
//! bytes before. Every constraint points to an earlier arrival, so there is no cycle and no deadlock.

use std::collections::BTreeMap;
use std::ops::Range;

use slab::Slab;

use super::epochs::{Epoch, Epochs};
use crate::op::Op;

/// A read over more owned ranges than this becomes the owner of its range itself. It keeps the number of
/// constraints proportional to the number of entries, where many large reads lie over many small writes;
/// the price is that what arrives later on that range waits for this read too.
const READ_OWNERS_MAX: usize = 32;

/// The constraints between unfinished entries.
#[derive(Debug, Default)]
pub(super) struct Order {
    nodes: Slab<Node>,
    /// Start of a range -> its end and owner. Ranges do not overlap.
    owners: BTreeMap<u64, Owned>,
    epochs: Epochs,
    /// Owned ranges under consideration: start, end, owner.
    found: Vec<(u64, u64, u32)>,
}

#[derive(Debug)]
struct Owned {
    end: u64,
    node: u32,
}

#[derive(Debug)]
struct Node {
    /// The entry it stands for.
    entry: u32,
    arrival: u64,
    range: Range<u64>,
    /// Where what was left of its range behind a later arrival begins. Whoever came after that may have taken it since.
    /// Kept so that it never has to search for what it owns among the ranges of others.
    rest_starts: Vec<u64>,
    /// How many unfinished nodes it waits for.
    blockers: usize,
    /// Who waits for it.
    dependents: Vec<u32>,
    /// For a mutation: the epoch of its arrival.
    epoch: Option<Epoch>,
    /// Another node that is in flight within the same issue.
    next_in_flight: Option<u32>,
}

impl Order {
    /// Takes in `entry`, which concerns `range` (nothing, for a flush). Returns its node, if it waits for a range or others may
    /// wait for its range, and whether it may go at once.
    #[inline]
    pub(super) fn admit(&mut self, op: Op, range: Range<u64>, arrival: u64, entry: u32) -> (Option<u32>, bool) {
        match op {
            Op::Read if self.owners.is_empty() => (None, true),
            Op::Flush => (None, self.epochs.end(entry)),
            _ => self.admit_range(op, range, arrival, entry),
        }
    }

    fn admit_range(&mut self, op: Op, range: Range<u64>, arrival: u64, entry: u32) -> (Option<u32>, bool) {
        self.find(&range);
        if op == Op::Read && self.found.is_empty() {
            return (None, true);
        }
        let owns = op.mutates() || self.found.len() > READ_OWNERS_MAX;
        let epoch = op.mutates().then(|| self.epochs.enter());
        let node = self.insert(range, arrival, entry, epoch);
        let mut blockers = 0;
        for &(_, _, owner) in &self.found {
            let dependents = &mut self.nodes[owner as usize].dependents;
            // An owner may own several ranges: it is waited for once.
            if dependents.last() != Some(&node) {
                dependents.push(node);
                blockers += 1;
            }
        }
        self.nodes[node as usize].blockers = blockers;
        if owns {
            self.own(node);
        }
        (Some(node), blockers == 0)
    }

    /// Takes in a mutation that is known to wait for nobody, as it was ready before.
    pub(super) fn admit_ready(&mut self, range: Range<u64>, arrival: u64, entry: u32) -> u32 {
        self.find(&range);
        let epoch = self.epochs.enter();
        let node = self.insert(range, arrival, entry, Some(epoch));
        self.own(node);
        node
    }

    fn insert(&mut self, range: Range<u64>, arrival: u64, entry: u32, epoch: Option<Epoch>) -> u32 {
        self.nodes.insert(Node {
            entry,
            arrival,
            range,
            rest_starts: Vec::new(),
            blockers: 0,
            dependents: Vec::new(),
            epoch,
            next_in_flight: None,
        }) as u32
    }

    /// Forgets everybody, so that those who remain can be taken in anew.
    pub(super) fn clear(&mut self) {
        self.nodes.clear();
        self.owners.clear();
        self.epochs = Epochs::default();
    }

    /// Whether an unfinished mutation, or what stands for one, covers a byte of `range`.
    #[inline]
    pub(super) fn is_owned(&self, range: Range<u64>) -> bool {
        if self.owners.is_empty() || range.is_empty() {
            return false;
        }
        let before = self.owners.range(..range.start).next_back().is_some_and(|(_, owned)| owned.end > range.start);
        before || self.owners.range(range).next().is_some()
    }

    /// Fills `found` with the owned ranges that overlap `range`, ascending.
    fn find(&mut self, range: &Range<u64>) {
        self.found.clear();
        if range.is_empty() {
            return;
        }
        if let Some((&start, owned)) = self.owners.range(..range.start).next_back()
            && owned.end > range.start
        {
            self.found.push((start, owned.end, owned.node));
        }
        self.found.extend(self.owners.range(range.clone()).map(|(&start, owned)| (start, owned.end, owned.node)));
    }

    /// Makes `node` the owner of its range, of which `found` tells the owners until now.
    fn own(&mut self, node: u32) {
        let range = self.nodes[node as usize].range.clone();
        for &(start, end, owner) in &self.found {
            if start < range.start {
                self.owners.insert(start, Owned { end: range.start, node: owner });
            } else {
                self.owners.remove(&start);
            }
            if end > range.end {
                self.owners.insert(range.end, Owned { end, node: owner });
                self.nodes[owner as usize].rest_starts.push(range.end);
            }
        }
        if !range.is_empty() {
            self.owners.insert(range.start, Owned { end: range.end, node });
        }
    }

    /// Removes the range at `start` if `node` still owns it.
    fn disown(&mut self, node: u32, start: u64) {
        if self.owners.get(&start).is_some_and(|owned| owned.node == node) {
            self.owners.remove(&start);
        }
    }

    /// The entry of `node` has ended. Adds the entries that may go now to `ready`.
    pub(super) fn finish(&mut self, node: u32, ready: &mut Vec<u32>) {
        let finished = self.nodes.remove(node as usize);
        self.disown(node, finished.range.start);
        finished.rest_starts.into_iter().for_each(|start| self.disown(node, start));
        if let Some(epoch) = finished.epoch {
            self.epochs.leave(epoch, ready);
        }
        for dependent in finished.dependents {
            let waiting = &mut self.nodes[dependent as usize];
            waiting.blockers -= 1;
            if waiting.blockers == 0 {
                ready.push(waiting.entry);
            }
        }
    }

    /// The arrival and the range of `node` if it stands for a mutation.
    pub(super) fn mutation(&self, node: u32) -> Option<(u64, Range<u64>)> {
        let node = &self.nodes[node as usize];
        node.epoch.is_some().then(|| (node.arrival, node.range.clone()))
    }

    /// Puts `node` in front of the list of nodes in flight together that begins with `head`.
    pub(super) fn link(&mut self, node: u32, head: Option<u32>) {
        self.nodes[node as usize].next_in_flight = head;
    }

    /// The next of a list of nodes in flight together.
    pub(super) fn linked(&self, node: u32) -> Option<u32> {
        self.nodes[node as usize].next_in_flight
    }

    /// Whether nothing is remembered about anybody.
    #[cfg(test)]
    pub(super) fn is_blank(&self) -> bool {
        self.nodes.is_empty() && self.owners.is_empty() && self.epochs.is_blank()
    }

    /// How many constraints are remembered.
    #[cfg(test)]
    pub(super) fn constraints(&self) -> usize {
        self.nodes.iter().map(|(_, node)| node.dependents.len()).sum()
    }
}
