//! Removing entries that were not issued yet, when their link has died.
//!
//! The constraints are rebuilt from the remaining entries, as if the removed ones had never come. Dead links are rare, so that may
//! cost a sort.

use std::ops::Range;

use super::{Elevator, Entry, Waiting};

/// What has to be added again.
enum Remaining {
    /// A mutation with this range, part of the flight in that slot.
    InFlight(usize, Range<u64>),
    /// The entry in that slot.
    Waiting(usize),
}

impl<T> Elevator<T> {
    /// Removes the entries that are not yet issued and whose tag is `unwanted`, and returns them in no particular order. Constraints
    /// between all others stay, also those that arose through a removed entry.
    pub fn remove_where(&mut self, mut unwanted: impl FnMut(&T) -> bool) -> Vec<Entry<T>> {
        let slots: Vec<usize> =
            self.entries.iter().filter(|(_, w)| unwanted(&w.entry.tag)).map(|(slot, _)| slot).collect();
        if slots.is_empty() {
            return Vec::new();
        }
        let mut tied = false;
        let mut removed = Vec::with_capacity(slots.len());
        for slot in slots {
            let Waiting { entry, ready, node, .. } = self.entries.remove(slot);
            tied |= node.is_some() || !ready;
            removed.push(entry);
        }
        self.sweep.retain(|key| self.entries.contains(key.slot()));
        self.gathered.retain(|key| self.entries.contains(key.slot()));
        self.urgent.retain(|key| self.entries.contains(key.slot()));
        self.background.retain(|&slot| self.entries.contains(slot as usize));
        if tied {
            self.rebuild_order();
        }
        removed
    }

    fn rebuild_order(&mut self) {
        let mut remaining: Vec<(u64, Remaining)> = Vec::with_capacity(self.entries.len());
        for (slot, flight) in &mut self.flights {
            // No entry has to wait for reads in flight.
            let mut next = flight.nodes.take();
            while let Some(node) = next {
                next = self.order.linked(node);
                let mutation = self.order.mutation(node);
                remaining.extend(mutation.map(|(arrival, range)| (arrival, Remaining::InFlight(slot, range))));
            }
        }
        remaining.extend(self.entries.iter().map(|(slot, w)| (w.arrival, Remaining::Waiting(slot))));
        remaining.sort_unstable_by_key(|&(arrival, _)| arrival);
        self.order.clear();
        for (arrival, remaining) in remaining {
            match remaining {
                Remaining::InFlight(slot, range) => {
                    let flight = &mut self.flights[slot];
                    // It was issued, so no entry becomes ready with it.
                    let node = self.order.admit_ready(range, arrival, u32::MAX);
                    self.order.link(node, flight.nodes);
                    flight.nodes = Some(node);
                }
                Remaining::Waiting(slot) => self.admit_again(slot),
            }
        }
    }

    fn admit_again(&mut self, slot: usize) {
        let waiting = &mut self.entries[slot];
        let (op, range) = (waiting.entry.op, self.config.range(&waiting.entry));
        if waiting.ready {
            let arrival = waiting.arrival;
            waiting.node = op.mutates().then(|| self.order.admit_ready(range, arrival, slot as u32));
            return;
        }
        (waiting.node, waiting.ready) = self.order.admit(op, range, waiting.arrival, slot as u32);
        if waiting.ready {
            let key = waiting.key(slot as u32, self.config.order);
            if waiting.is_urgent() {
                self.line_up(key);
            } else {
                self.gathered.push(key);
            }
        }
    }
}
