//! The order in which a node serves what it has in hand.
//!
//! The elevator sorts, merges and keeps order where order matters. It must never touch the store, look at a
//! clock, or judge whether a request is allowed: it orders whatever it is given.
//!
//! # Sweeps
//!
//! It is an FSCAN elevator (N-step SCAN with two queues). The *sweep* is a frozen set, served by ascending
//! offset. Whatever becomes ready meanwhile gathers for the next one, which begins when the sweep is used up.
//! So a ready entry (one that waits for no other) is preceded by at most the entries that were ready when it
//! became so, and those that became ready before its own sweep began: the rest of one sweep and its own.
//! However many arrive afterwards, nobody starves. Sweeps go upwards each time, never back and forth: flash gains from
//! ascending addresses (readahead, neighbouring pages) but has no arm to bring back.
//!
//! # Order
//!
//! Ranges are widened to `align_bytes` before they are compared: a store that rewrites whole blocks must not
//! have two writes in one block at once.
//!
//! - What overlaps an earlier mutation (write, trim, write-zeroes) is issued only after that has completed. So
//!   overlapping mutations keep their order of arrival, and a read sees every mutation that arrived before it.
//! - A flush is issued only after every mutation that arrived before it has completed, and holds up nobody.
//!   It has no place of its own and goes at the foot of its sweep.
//! - Everything else is free. A mutation may overtake an earlier read of the same bytes, and run beside it: both are unanswered,
//!   so the client that sent both has no claim to either order, and what it learns from the two answers fits the order in
//!   which they were served. (A block device promises no more, and no client relies on more.)
//!
//! An entry waits only for earlier ones, and is ready when the last of them completes. It then gathers for
//! the next sweep. What arrives later and overlaps a waiting mutation waits behind it, so a busy range cannot keep it out either.
//! (A read so large that it waits for very many does hold up what arrives later on its range: see `order`.)
//! While no mutation is waiting or in flight a read costs no bookkeeping at all.
//!
//! # Merging
//!
//! Neighbours in a sweep become one operation if both are reads or both writes, have the same flags, and
//! touch: writes end to start, reads also overlapping. Writes in one block of `align_bytes` do not merge,
//! as the second is not ready before the first has completed.

mod epochs;
mod order;
mod removal;

use std::cmp::Reverse;
use std::ops::Range;

use slab::Slab;

use self::order::Order;
use crate::op::{Op, OpFlags};
use crate::units::KIB;

/// How an [`Elevator`] compares and merges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElevatorConfig {
    /// Ranges are widened to multiples of this many bytes before they are checked for overlap: the block that the store
    /// rewrites as a whole. 1 if it can write single bytes; 0 counts as 1.
    pub align_bytes: u64,
    /// The most bytes that a merged operation may have. A single entry may have more.
    pub merge_bytes_max: u32,
    /// The most entries that a merged operation may have; below 2, nothing merges.
    pub merge_parts_max: usize,
}

/// Single bytes; merged operations of up to 256 KiB, which is where eMMC and UFS reach their sequential rate, and 64 parts,
/// so that the answers of many small requests do not all wait for one large operation.
impl Default for ElevatorConfig {
    fn default() -> ElevatorConfig {
        ElevatorConfig { align_bytes: 1, merge_bytes_max: 256 * KIB as u32, merge_parts_max: 64 }
    }
}

impl ElevatorConfig {
    /// The bytes that an entry concerns, widened; none for a flush.
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

/// One piece of work in the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry<T> {
    /// What to do.
    pub op: Op,
    /// Modifiers.
    pub flags: OpFlags,
    /// First byte of the extent; without meaning for a flush.
    pub offset_bytes: u64,
    /// How many bytes; without meaning for a flush.
    pub len_bytes: u32,
    /// What the caller knows it by.
    pub tag: T,
}

/// One operation for the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Issue {
    /// To be handed to [`Elevator::complete`] when the operation has ended.
    pub ticket: u64,
    /// What to do.
    pub op: Op,
    /// Modifiers.
    pub flags: OpFlags,
    /// First byte of the extent: the first part's.
    pub offset_bytes: u64,
    /// How many bytes: the union of all parts, which has no gap.
    pub len_bytes: u32,
}

/// A queue that gives back what was put in, in an order that is good for flash and right for the data.
#[derive(Debug)]
pub struct Elevator<T> {
    config: ElevatorConfig,
    /// What waits, ready or not.
    entries: Slab<Waiting<T>>,
    /// The rest of the sweep, descending: it is served from the end.
    sweep: Vec<Key>,
    /// What is ready for the next sweep.
    gathered: Vec<Key>,
    order: Order,
    flights: Slab<Flight>,
    arrivals: u64,
    issues: u32,
    waiting_mutations: usize,
    /// Entries that have just become ready; kept for its memory only.
    ready: Vec<u32>,
}

#[derive(Debug)]
struct Waiting<T> {
    entry: Entry<T>,
    arrival: u64,
    /// Whether it is in the sweep or gathered for the next, rather than held up.
    ready: bool,
    /// Its node in `order`, if it needs one.
    node: Option<u32>,
}

impl<T> Waiting<T> {
    fn key(&self, slot: u32) -> Key {
        let place_bytes = if self.entry.op == Op::Flush { 0 } else { self.entry.offset_bytes };
        Key::new(place_bytes, self.arrival, slot)
    }
}

/// An issue that has not completed.
#[derive(Debug)]
struct Flight {
    ticket: u64,
    /// The first of the linked nodes that complete with it.
    nodes: Option<u32>,
}

/// Offset, then arrival, then slot in `entries`, as one number: sorting compares nothing else.
///
/// Arrivals are cut to 32 bits and wrap. That only touches the order of entries with equal offsets in one sweep, and never that of
/// overlapping mutations, as these are never in one sweep.
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
    /// An empty elevator, which holds no memory until it is used.
    #[must_use]
    pub fn new(config: ElevatorConfig) -> Elevator<T> {
        Elevator {
            config,
            entries: Slab::new(),
            sweep: Vec::new(),
            gathered: Vec::new(),
            order: Order::default(),
            flights: Slab::new(),
            arrivals: 0,
            issues: 0,
            waiting_mutations: 0,
            ready: Vec::new(),
        }
    }

    /// How it compares and merges.
    #[must_use]
    pub fn config(&self) -> &ElevatorConfig {
        &self.config
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
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.flights.len()
    }

    /// Whether a write, trim or write-zeroes waits to be issued.
    #[must_use]
    pub fn has_waiting_mutations(&self) -> bool {
        self.waiting_mutations > 0
    }

    /// Whether a read of that range would have to wait for a mutation that is waiting or in flight.
    #[inline]
    #[must_use]
    pub fn overlaps_mutation(&self, offset_bytes: u64, len_bytes: u32) -> bool {
        self.order.is_owned(self.config.widen(offset_bytes, len_bytes))
    }

    /// Takes in an entry. The order of calls is the order of arrival.
    #[inline]
    pub fn push(&mut self, entry: Entry<T>) {
        let slot = self.entries.vacant_key() as u32;
        let arrival = self.arrivals;
        self.arrivals += 1;
        self.waiting_mutations += usize::from(entry.op.mutates());
        let (node, ready) = self.order.admit(entry.op, self.config.range(&entry), arrival, slot);
        let waiting = Waiting { entry, arrival, ready, node };
        if ready {
            self.gathered.push(waiting.key(slot));
        }
        self.entries.insert(waiting);
    }

    /// The next operation for the store, with its entries in `parts` by ascending offset (what was in
    /// `parts` is dropped). `None` if nothing can start now: nothing waits, or all that waits does so for issues in flight.
    pub fn next(&mut self, parts: &mut Vec<Entry<T>>) -> Option<Issue> {
        parts.clear();
        if self.sweep.is_empty() {
            std::mem::swap(&mut self.sweep, &mut self.gathered);
            self.sweep.sort_unstable_by_key(|&key| Reverse(key));
        }
        let first = self.sweep.pop()?;
        let mut nodes = None;
        let first = self.take(first, &mut nodes);
        let (op, flags, offset_bytes, mut len_bytes) = (first.op, first.flags, first.offset_bytes, first.len_bytes);
        parts.push(first);
        if matches!(op, Op::Read | Op::Write) {
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
        let slot = self.flights.vacant_key() as u64;
        let ticket = u64::from(self.issues) << 32 | slot;
        self.issues = self.issues.wrapping_add(1);
        self.flights.insert(Flight { ticket, nodes });
        Some(Issue { ticket, op, flags, offset_bytes, len_bytes })
    }

    /// The issue with that ticket has ended, well or badly. Returns whether it was in flight; nothing happens otherwise.
    pub fn complete(&mut self, ticket: u64) -> bool {
        let slot = ticket as u32 as usize;
        if self.flights.get(slot).is_none_or(|flight| flight.ticket != ticket) {
            return false;
        }
        let mut next = self.flights.remove(slot).nodes;
        while let Some(node) = next {
            next = self.order.linked(node);
            self.order.finish(node, &mut self.ready);
        }
        for slot in self.ready.drain(..) {
            let waiting = &mut self.entries[slot as usize];
            waiting.ready = true;
            self.gathered.push(waiting.key(slot));
        }
        true
    }

    /// Moves an entry out of the queue, and its node, if it has one, to the front of `nodes`.
    #[inline]
    fn take(&mut self, key: Key, nodes: &mut Option<u32>) -> Entry<T> {
        let Waiting { entry, node, .. } = self.entries.remove(key.slot());
        self.waiting_mutations -= usize::from(entry.op.mutates());
        if let Some(node) = node {
            self.order.link(node, *nodes);
            *nodes = Some(node);
        }
        entry
    }

    /// The length of the operation at `offset_bytes` once the entry of `key` has joined it; `None` if that may not be.
    #[inline]
    fn merged(&self, op: Op, flags: OpFlags, offset_bytes: u64, len_bytes: u32, key: Key) -> Option<u32> {
        let next = &self.entries[key.slot()].entry;
        if next.op != op || next.flags != flags {
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
