//! The constraints between entries that touch the same bytes.
//!
//! A map from byte ranges to owners holds the last unfinished mutation of every byte. An arrival waits for the owners of its range,
//! which in turn waited for the owners before them. Every constraint points to an earlier arrival, so there is no cycle.

use std::collections::BTreeMap;
use std::ops::Range;

use slab::Slab;

use super::epochs::{Epoch, Epochs};
use crate::op::Op;

/// A read over more owned ranges than this becomes the owner of its range. That keeps the number of constraints proportional to the
/// number of entries when large reads overlap many small writes; in return, later arrivals on that range wait for this read too.
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
    /// Starts of the rests of its range behind later arrivals, which others may own by now. They spare a search for what it owns.
    rest_starts: Vec<u64>,
    /// Unfinished nodes that it waits for.
    blockers: usize,
    /// Nodes that wait for it.
    dependents: Vec<u32>,
    /// For a mutation: the epoch of its arrival.
    epoch: Option<Epoch>,
    /// Another node that is in flight within the same issue.
    next_in_flight: Option<u32>,
}

impl Order {
    /// Adds `entry` with its `range` (empty for a flush). Returns its node, if it waits for a range or others may wait for its range, and
    /// whether it is ready.
    #[inline]
    pub(super) fn admit(&mut self, op: Op, range: Range<u64>, arrival: u64, entry: u32) -> (Option<u32>, bool) {
        match op {
            Op::Read | Op::Map | Op::Digest if self.owners.is_empty() => (None, true),
            Op::Flush => (None, self.epochs.end(entry)),
            _ => self.admit_range(op, range, arrival, entry),
        }
    }

    fn admit_range(&mut self, op: Op, range: Range<u64>, arrival: u64, entry: u32) -> (Option<u32>, bool) {
        self.find(&range);
        if !op.mutates() && self.found.is_empty() {
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

    /// Adds a mutation that waits for no other, as it was ready before.
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

    /// Removes all entries, so that the remaining ones can be added again.
    pub(super) fn clear(&mut self) {
        self.nodes.clear();
        self.owners.clear();
        self.epochs = Epochs::default();
    }

    /// Whether an owner covers a byte of `range`.
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

    /// Makes `node` the owner of its range, whose owners until now are in `found`.
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

    /// The entry of `node` has ended. Adds the entries that become ready to `ready`.
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

    /// The arrival and the range of `node` if it is a mutation.
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
