//! The order in which a node serves its pieces.
//!
//! The elevator sorts, merges and keeps order where order matters. It never touches the store, reads a clock, or judges whether a
//! request is allowed.
//!
//! # Sweeps
//!
//! (What follows is [`IssueOrder::Sorted`], the default.)
//!
//! It is an FSCAN elevator (N-step SCAN with two queues). The *sweep* is a frozen set, served by ascending offset. Entries that become
//! ready meanwhile are gathered for the next sweep, which begins when this one is empty. So a ready entry (one that waits for no
//! other) waits for the rest of one sweep and for its own at most, however many arrive afterwards. All sweeps go upwards: flash gains
//! from ascending addresses (readahead, neighbouring pages) but has no arm to move back.
//!
//! # Order
//!
//! Ranges are widened to `align_bytes` before they are compared: a store that rewrites whole blocks must not have two writes in one
//! block at once.
//!
//! - An entry that overlaps an earlier mutation (write, trim, write-zeroes) is issued only after that has completed. So overlapping
//!   mutations keep their order of arrival, and a read sees every mutation that arrived before it.
//! - A flush is issued only after every mutation that arrived before it has completed, and nothing waits for it. It comes first in
//!   its sweep.
//! - Everything else is free. A mutation may overtake an earlier read of the same bytes, or run beside it: neither is answered yet, so
//!   the client has no claim to an order, as with any block device.
//!
//! An entry waits only for earlier ones, and is ready for the next sweep when the last of them completes. Entries that arrive later
//! and overlap a waiting mutation wait behind it, so it cannot starve on a busy range. (A read that waits for very many mutations does
//! the same: see `order`.) While no mutation is waiting or in flight, a read costs no bookkeeping.
//!
//! # Background
//!
//! A digest with [`OpFlags::BACKGROUND`] is outside of sweeps and constraints: it waits for nothing and nothing waits for it. It is issued
//! when no other entry is ready, or after [`BACKGROUND_AFTER`] others, one at a time.
//!
//! # Urgent reads
//!
//! A read with [`OpFlags::URGENT`] is issued before the rest of the sweep as soon as it is ready, in the order of arrival and by itself. After
//! [`URGENT_RUN`] of them in a row one of the others has its turn.
//!
//! # Merging
//!
//! Neighbours in a sweep become one operation if both are reads or both writes, have the same flags, and are contiguous; reads may
//! also overlap. Writes in one block of `align_bytes` do not merge, as the second is not ready before the first has completed.

mod epochs;
mod order;
mod removal;

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::ops::Range;

use slab::Slab;

use self::order::Order;
use crate::op::{Op, OpFlags};
use crate::units::KIB;

/// So many issues of others may pass one that is done in the background. It is some 256 KiB, a few milliseconds of a flash that is busy all
/// the time: so background takes a few percent of it, and is done within a fraction of a second.
const BACKGROUND_AFTER: u32 = 256;

/// So many urgent reads in a row may pass the others.
const URGENT_RUN: u32 = 8;

/// The order in which ready entries are issued.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IssueOrder {
    /// In sweeps of ascending offsets, neighbours merged.
    #[default]
    Sorted,
    /// In the order of arrival, nothing merged: as P1's slaves did.
    Arrival,
}

/// How an [`Elevator`] compares and merges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElevatorConfig {
    /// How ready entries are issued.
    pub order: IssueOrder,
    /// Ranges are widened to multiples of this many bytes before they are checked for overlap: the block that the store rewrites as a
    /// whole. 1 if it can write single bytes; 0 counts as 1.
    pub align_bytes: u64,
    /// Most bytes of a merged operation. A single entry may have more.
    pub merge_bytes_max: u32,
    /// Most entries of a merged operation; below 2, and in the order of arrival, nothing merges.
    pub merge_parts_max: usize,
}

/// Single bytes; merged operations of up to 256 KiB, with which eMMC and UFS reach their sequential rate, and of up to 64 parts, so
/// that the answers of many small requests do not all wait for one large operation.
impl Default for ElevatorConfig {
    fn default() -> ElevatorConfig {
        let merge_bytes_max = 256 * KIB as u32;
        ElevatorConfig { order: IssueOrder::Sorted, align_bytes: 1, merge_bytes_max, merge_parts_max: 64 }
    }
}

impl ElevatorConfig {
    /// The range of an entry, widened; empty for a flush.
    #[inline]
    fn range<T>(&self, entry: &Entry<T>) -> Range<u64> {
        if entry.op == Op::Flush { 0..0 } else { self.widen(entry.offset_bytes, entry.len_bytes) }
    }

    #[inline]
    fn widen(&self, start: u64, len_bytes: u32) -> Range<u64> {
        let (align, end) = (self.align_bytes, start.saturating_add(u64::from(len_bytes)));
        if align <= 1 || len_bytes == 0 {
            return start..end;
        }
        start - start % align..end.checked_next_multiple_of(align).unwrap_or(u64::MAX)
    }
}

/// One operation in the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry<T> {
    /// The operation.
    pub op: Op,
    /// Modifiers.
    pub flags: OpFlags,
    /// First byte of the extent; without meaning for a flush.
    pub offset_bytes: u64,
    /// How many bytes; without meaning for a flush.
    pub len_bytes: u32,
    /// The caller's name for it.
    pub tag: T,
}

/// One operation for the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Issue {
    /// For [`Elevator::complete`] when the operation has ended.
    pub ticket: u64,
    /// The operation.
    pub op: Op,
    /// Modifiers.
    pub flags: OpFlags,
    /// First byte of the extent: the first part's.
    pub offset_bytes: u64,
    /// Length in bytes: the union of all parts, which has no gap.
    pub len_bytes: u32,
}

/// A queue that reorders operations for flash and keeps the order that data needs.
#[derive(Debug)]
pub struct Elevator<T> {
    config: ElevatorConfig,
    /// The entries that wait, ready or not.
    entries: Slab<Waiting<T>>,
    /// The rest of the sweep, descending: the last is served next.
    sweep: Vec<Key>,
    /// The entries of the next sweep.
    gathered: Vec<Key>,
    /// The urgent entries that are ready, in the order of arrival.
    urgent: VecDeque<Key>,
    /// How many of them were issued since one of the others was.
    urgent_run: u32,
    /// The entries that are done in the background, in the order of arrival.
    background: VecDeque<u32>,
    /// How many issues have passed the first of these.
    passed: u32,
    /// The ticket of the one that is in flight.
    background_out: Option<u64>,
    order: Order,
    flights: Slab<Flight>,
    arrivals: u64,
    issues: u32,
    /// Entries that have just become ready; a field only to reuse its memory.
    ready: Vec<u32>,
}

#[derive(Debug)]
struct Waiting<T> {
    entry: Entry<T>,
    arrival: u64,
    /// Whether it waits for no other: it is in the sweep, gathered for the next, or among the urgent.
    ready: bool,
    /// Its node in `order`, if it needs one.
    node: Option<u32>,
}

impl<T> Waiting<T> {
    #[inline]
    fn is_urgent(&self) -> bool {
        self.entry.op.is_urgent(self.entry.flags)
    }

    #[inline]
    fn key(&self, slot: u32, order: IssueOrder) -> Key {
        let is_unplaced = self.entry.op == Op::Flush || self.is_urgent();
        let is_placed = !is_unplaced && order == IssueOrder::Sorted;
        let place_bytes = if is_placed { self.entry.offset_bytes } else { 0 };
        Key::new(place_bytes, self.arrival, slot)
    }
}

/// An issue that has not completed.
#[derive(Debug)]
struct Flight {
    ticket: u64,
    /// The first in the linked list of nodes that complete with it.
    nodes: Option<u32>,
}

/// Offset, arrival and slot in `entries` as one number, for sorting.
///
/// Arrivals are cut to 32 bits and wrap. That only affects the order of entries with equal offsets in one sweep, and of urgent ones, never that of
/// overlapping mutations, which are never in one sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key(u128);

impl Key {
    fn new(place_bytes: u64, arrival: u64, slot: u32) -> Key {
        Key(u128::from(place_bytes) << 64 | u128::from(arrival as u32) << 32 | u128::from(slot))
    }

    fn slot(self) -> usize {
        self.0 as u32 as usize
    }
}

impl<T> Elevator<T> {
    /// An empty elevator, which allocates at its first use.
    #[must_use]
    pub fn new(config: ElevatorConfig) -> Elevator<T> {
        Elevator {
            config,
            entries: Slab::new(),
            sweep: Vec::new(),
            gathered: Vec::new(),
            urgent: VecDeque::new(),
            urgent_run: 0,
            background: VecDeque::new(),
            passed: 0,
            background_out: None,
            order: Order::default(),
            flights: Slab::new(),
            arrivals: 0,
            issues: 0,
            ready: Vec::new(),
        }
    }

    /// How many entries wait to be issued.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no entry waits to be issued. Issues may still be in flight.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// How many issues have not completed.
    #[cfg(test)]
    pub fn in_flight(&self) -> usize {
        self.flights.len()
    }

    /// Whether a read of this range would wait for a mutation that is waiting or in flight.
    #[inline]
    #[must_use]
    pub fn overlaps_mutation(&self, offset_bytes: u64, len_bytes: u32) -> bool {
        self.order.is_owned(self.config.widen(offset_bytes, len_bytes))
    }

    /// Adds an entry. The order of calls is the order of arrival.
    #[inline]
    pub fn push(&mut self, entry: Entry<T>) {
        let slot = self.entries.vacant_key() as u32;
        let arrival = self.arrivals;
        self.arrivals += 1;
        if entry.op.is_background(entry.flags) {
            self.background.push_back(slot);
            self.entries.insert(Waiting { entry, arrival, ready: true, node: None });
            return;
        }
        let (node, ready) = self.order.admit(entry.op, self.config.range(&entry), arrival, slot);
        let waiting = Waiting { entry, arrival, ready, node };
        if ready {
            let key = waiting.key(slot, self.config.order);
            if waiting.is_urgent() {
                self.line_up(key);
            } else {
                self.gathered.push(key);
            }
        }
        self.entries.insert(waiting);
    }

    /// An urgent entry has become ready.
    #[cold]
    fn line_up(&mut self, key: Key) {
        let at = self.urgent.partition_point(|&earlier| earlier < key);
        self.urgent.insert(at, key);
    }

    /// The next operation for the store, with its entries in `parts` (cleared first) by ascending offset. `None` if nothing can start
    /// now: no entry waits, or all of them wait for issues in flight.
    pub fn next(&mut self, parts: &mut Vec<Entry<T>>) -> Option<Issue> {
        parts.clear();
        if self.sweep.is_empty() {
            std::mem::swap(&mut self.sweep, &mut self.gathered);
            self.sweep.sort_unstable_by_key(|&key| Reverse(key));
        }
        if !self.urgent.is_empty() && self.urgent_run < URGENT_RUN {
            return self.next_urgent(parts);
        }
        if !self.background.is_empty()
            && let Some(issue) = self.next_background(parts)
        {
            return Some(issue);
        }
        let Some(first) = self.sweep.pop() else { return self.next_urgent(parts) };
        self.urgent_run = 0;
        let mut nodes = None;
        let first = self.take(first, &mut nodes);
        let (op, flags, offset_bytes, mut len_bytes) = (first.op, first.flags, first.offset_bytes, first.len_bytes);
        parts.push(first);
        if matches!(op, Op::Read | Op::Write) && self.config.order == IssueOrder::Sorted {
            while parts.len() < self.config.merge_parts_max
                && let Some(&key) = self.sweep.last()
                && let Some(merged) = self.merged(op, flags, offset_bytes, len_bytes, key)
            {
                self.sweep.pop();
                len_bytes = merged;
                let part = self.take(key, &mut nodes);
                parts.push(part);
            }
        }
        let ticket = self.fly(nodes);
        Some(Issue { ticket, op, flags, offset_bytes, len_bytes })
    }

    /// The next of those in the background, if it is its turn.
    #[cold]
    fn next_background(&mut self, parts: &mut Vec<Entry<T>>) -> Option<Issue> {
        let is_idle = self.sweep.is_empty() && self.urgent.is_empty();
        let is_its_turn = is_idle || self.passed >= BACKGROUND_AFTER;
        if !is_its_turn || self.background_out.is_some() {
            self.passed = self.passed.saturating_add(u32::from(!self.sweep.is_empty()));
            return None;
        }
        let slot = self.background.pop_front()?;
        (self.passed, self.urgent_run) = (0, 0);
        let Waiting { entry, .. } = self.entries.remove(slot as usize);
        let (op, flags, offset_bytes, len_bytes) = (entry.op, entry.flags, entry.offset_bytes, entry.len_bytes);
        parts.push(entry);
        let ticket = self.fly(None);
        self.background_out = Some(ticket);
        Some(Issue { ticket, op, flags, offset_bytes, len_bytes })
    }

    /// The next of the urgent ones.
    #[cold]
    fn next_urgent(&mut self, parts: &mut Vec<Entry<T>>) -> Option<Issue> {
        let key = self.urgent.pop_front()?;
        self.urgent_run = self.urgent_run.saturating_add(1);
        self.passed = self.passed.saturating_add(u32::from(!self.background.is_empty()));
        let mut nodes = None;
        let entry = self.take(key, &mut nodes);
        let (op, flags, offset_bytes, len_bytes) = (entry.op, entry.flags, entry.offset_bytes, entry.len_bytes);
        parts.push(entry);
        let ticket = self.fly(nodes);
        Some(Issue { ticket, op, flags, offset_bytes, len_bytes })
    }

    /// Notes an issue as in flight. Returns its ticket.
    fn fly(&mut self, nodes: Option<u32>) -> u64 {
        let slot = self.flights.vacant_key() as u64;
        let ticket = u64::from(self.issues) << 32 | slot;
        self.issues = self.issues.wrapping_add(1);
        self.flights.insert(Flight { ticket, nodes });
        ticket
    }

    /// The issue with this ticket has ended, with or without success. Returns whether it was in flight; otherwise it has no effect.
    pub fn complete(&mut self, ticket: u64) -> bool {
        let slot = ticket as u32 as usize;
        if self.flights.get(slot).is_none_or(|flight| flight.ticket != ticket) {
            return false;
        }
        if self.background_out == Some(ticket) {
            self.background_out = None;
        }
        let mut next = self.flights.remove(slot).nodes;
        while let Some(node) = next {
            next = self.order.linked(node);
            self.order.finish(node, &mut self.ready);
        }
        for at in 0..self.ready.len() {
            let slot = self.ready[at];
            let waiting = &mut self.entries[slot as usize];
            waiting.ready = true;
            let key = waiting.key(slot, self.config.order);
            if waiting.is_urgent() {
                self.line_up(key);
            } else {
                self.gathered.push(key);
            }
        }
        self.ready.clear();
        true
    }

    /// Removes an entry from the queue, and links its node, if it has one, in front of `nodes`.
    #[inline]
    fn take(&mut self, key: Key, nodes: &mut Option<u32>) -> Entry<T> {
        let Waiting { entry, node, .. } = self.entries.remove(key.slot());
        if let Some(node) = node {
            self.order.link(node, *nodes);
            *nodes = Some(node);
        }
        entry
    }

    /// The length of the operation at `offset_bytes` with the entry of `key` merged; `None` if they must not merge.
    #[inline]
    fn merged(&self, op: Op, flags: OpFlags, offset_bytes: u64, len_bytes: u32, key: Key) -> Option<u32> {
        let next = &self.entries[key.slot()].entry;
        if next.op != op || next.flags != flags || flags.has(OpFlags::ALONE) {
            return None;
        }
        // The sweep ascends: `next` does not begin before the operation.
        let skip = u32::try_from(next.offset_bytes - offset_bytes).ok()?;
        let touches = if op == Op::Read { skip <= len_bytes } else { skip == len_bytes };
        let merged = skip.checked_add(next.len_bytes)?.max(len_bytes);
        (touches && merged <= self.config.merge_bytes_max).then_some(merged)
    }
}

#[cfg(test)]
mod tests;
