//! Which node holds a cluster back, and why: a comparison of each node with the others of its volume over the last seconds.
//!
//! It is a pure function of what the gateway has recorded anyway ([`Slot`]) and of what it knows of each node now ([`Facts`]). A cause is named
//! only if it held in most of the last seconds, by a wide margin over the others, and costs a good part of the time of a request: what
//! all nodes have in common (a full air, a rebuild, a busy machine) is no fault of one of them.

mod measure;

use std::time::Duration;

use crate::gateway::Slot;
use measure::{Measure, median};

/// The last slots that are judged, and in how many of them a cause must hold.
pub const SLOTS_JUDGED: u64 = 4;
const SLOTS_HOLDING: usize = 3;
/// The same for what does not depend on times.
const SLOTS_COUNTED: usize = 3;
const SLOTS_COUNTED_HOLDING: usize = 2;
/// Pauses are short: one within this many slots counts.
pub const SLOTS_OF_PAUSES: u64 = 5;
/// By what a node must exceed the others.
const FACTOR: f64 = 2.5;
/// The part of a piece's time, without its wait in the queue, that a cause must cost.
const PART_MIN: f64 = 0.25;
/// A node is compared with so many others at most.
const OTHERS_MAX: usize = 16;
/// Fewer pieces in a slot are not judged.
const PIECES_MIN: u64 = 8;

/// What is wrong with a node. In this order one cause explains those behind it: a node without a processor also seems to be far away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Segments to and from it are lost. Values: thousandths.
    Loses,
    /// Nothing comes from it. Values: microseconds since the last that came.
    IsSilent,
    /// It does nothing for some time, and then goes on. Values: the pause in microseconds.
    Pauses,
    /// One client fills its queue. Values: requests in hand of that client, and of all others.
    IsFlooded,
    /// Its loop waits for a processor that others use. Values: thousandths of the time.
    LacksProcessor,
    /// Its loop uses a processor up, where those of others have little to do. Values: thousandths of the time.
    HasSlowProcessor,
    /// The network takes longer than to others. Values: half of the pieces, there and back, in microseconds.
    IsFar,
    /// Its flash takes longer. Values: a piece in its store, without those from the page cache, in microseconds.
    HasSlowFlash,
    /// Its page cache answers less than those of others. Values: thousandths of the pieces.
    HasSmallCache,
}

/// What holds a node back.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trouble {
    /// Which node, counted over all volumes.
    pub node: usize,
    /// Why.
    pub kind: Kind,
    /// Its own value; what it means depends on the kind.
    pub value: f64,
    /// That of the other nodes of its volume: their median.
    pub others: f64,
    /// The part of a piece's time at the node that the cause takes, 0 to 1, where it can be told.
    pub share: Option<f64>,
}

/// What is known of a node now.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Facts {
    /// Its volume. They are in the order of the volumes.
    pub volume: usize,
    /// It has a ready link.
    pub is_ready: bool,
    /// Somebody measures it, which makes it slow.
    pub is_measured: bool,
    /// For how long nothing has come from it, while it has something to answer.
    pub silent: Option<Duration>,
    /// Segments of its links that were lost in the last seconds, either way.
    pub lost_segments: u64,
    /// Segments with data that its links carried in that time.
    pub segments: u64,
    /// In how many of those seconds a link of it lost some: one that is lost makes all behind it late.
    pub lossy_seconds: u64,
}

/// The clients.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Demands {
    /// The most requests that the client with most of them had in hand lately.
    pub most: u64,
    /// The sum over all other clients.
    pub others: u64,
}

/// Longer than stores stand still that are well.
const SILENCE_MIN: Duration = Duration::from_millis(2_500);
/// A link with fewer lost segments is not judged, nor one that loses less.
const LOST_MIN: u64 = 6;
const LOST_PERMILLE_MIN: f64 = 20.0;
const LOSSY_SECONDS_MIN: u64 = 2;
const LOST_FACTOR: f64 = 3.0;
/// A client with fewer requests in hand floods nobody.
const FLOOD_REQUESTS_MIN: u64 = 64;
const FLOOD_PART: f64 = 0.75;

/// The troubles of all nodes: at most one for each, its first cause. `next_second` is the first second that is not over, and `slots` are those of about
/// [`SLOTS_OF_PAUSES`] slots before it, oldest first, of `slot_seconds` each.
#[must_use]
pub fn troubles(
    slots: &[Slot],
    next_second: u64,
    slot_seconds: u64,
    nodes: &[Facts],
    demands: Demands,
) -> Vec<Trouble> {
    let from = |count: u64| next_second.saturating_sub(count.saturating_mul(slot_seconds));
    let slots = &slots[slots.partition_point(|slot| slot.first_second < from(SLOTS_OF_PAUSES))..];
    let paused: Vec<_> = slots.iter().map(|slot| measures(slot, nodes.len())).collect();
    let judged = &paused[slots.partition_point(|slot| slot.first_second < from(SLOTS_JUDGED))..];
    let judge = Judge { nodes, judged, paused: &paused, demands };
    (0..nodes.len())
        .filter(|&node| nodes[node].is_ready && !nodes[node].is_measured)
        .filter_map(|node| judge.trouble(node))
        .collect()
}

/// A slot by node; `None` where it did too little.
fn measures(slot: &Slot, nodes: usize) -> Vec<Option<Measure>> {
    let mut measures = vec![None; nodes];
    for (node, slot) in &slot.nodes {
        if let Some(measure) = measures.get_mut(*node) {
            *measure = Some(Measure::of(slot)).filter(|measure| measure.pieces >= PIECES_MIN);
        }
    }
    measures
}

struct Judge<'a> {
    nodes: &'a [Facts],
    judged: &'a [Vec<Option<Measure>>],
    paused: &'a [Vec<Option<Measure>>],
    demands: Demands,
}

/// A value of a node, that of others, and the part of the time that it takes.
type Finding = (f64, f64, Option<f64>);

impl Judge<'_> {
    fn trouble(&self, node: usize) -> Option<Trouble> {
        let found = |kind: Kind, finding: Option<Finding>| {
            finding.map(|(value, others, share)| Trouble { node, kind, value, others, share })
        };
        // A frame that is lost stops a link for as long as a pause does.
        found(Kind::Loses, self.loses(node))
            .or_else(|| found(Kind::IsSilent, self.is_silent(node)))
            .or_else(|| found(Kind::Pauses, self.pauses(node).filter(|_| self.has_losses(node).is_none())))
            .or_else(|| found(Kind::IsFlooded, self.is_flooded(node)))
            .or_else(|| found(Kind::LacksProcessor, self.holds(node, Measure::lacks_processor)))
            .or_else(|| found(Kind::HasSlowProcessor, self.holds(node, Measure::has_slow_processor)))
            .or_else(|| found(Kind::IsFar, self.is_far(node)))
            .or_else(|| found(Kind::HasSlowFlash, self.holds(node, Measure::has_slow_flash)))
            .or_else(|| found(Kind::HasSmallCache, self.has_small_cache(node)))
    }

    /// The other nodes of its volume; of many some, from all over it.
    fn others(&self, node: usize) -> impl Iterator<Item = usize> + '_ {
        let volume = self.nodes[node].volume;
        let first = self.nodes.partition_point(|other| other.volume < volume);
        let count = self.nodes.partition_point(|other| other.volume <= volume) - first;
        let step = count.div_ceil(OTHERS_MAX).max(1);
        (1..count).step_by(step).map(move |ahead| first + (node - first + ahead) % count)
    }

    /// What holds in enough of the judged slots, and its means over those.
    fn holds(
        &self,
        node: usize,
        compare: fn(&Measure, &mut dyn Iterator<Item = Measure>) -> Option<Finding>,
    ) -> Option<Finding> {
        self.holds_in(SLOTS_HOLDING, self.judged, node, compare)
    }

    fn holds_in(
        &self,
        holding: usize,
        slots: &[Vec<Option<Measure>>],
        node: usize,
        compare: fn(&Measure, &mut dyn Iterator<Item = Measure>) -> Option<Finding>,
    ) -> Option<Finding> {
        let slot = |slot: &Vec<Option<Measure>>| compare(&slot[node]?, &mut self.others(node).filter_map(|n| slot[n]));
        let found: Vec<Finding> = slots.iter().filter_map(slot).collect();
        if found.len() < holding {
            return None;
        }
        let mean = |of: fn(&Finding) -> f64| found.iter().map(of).sum::<f64>() / found.len() as f64;
        let share = found.iter().all(|found| found.2.is_some()).then(|| mean(|found| found.2.unwrap_or_default()));
        Some((mean(|found| found.0), mean(|found| found.1), share))
    }

    fn is_silent(&self, node: usize) -> Option<Finding> {
        let silent = self.nodes[node].silent.filter(|&silent| silent >= SILENCE_MIN)?;
        let others = self.others(node).filter_map(|other| self.nodes[other].silent);
        let is_alone = others.max().is_none_or(|other| other < silent / 2);
        is_alone.then_some((silent.as_micros() as f64, 0.0, None))
    }

    fn pauses(&self, node: usize) -> Option<Finding> {
        let paused = |slot: &Vec<Option<Measure>>| {
            let paused_us = slot[node]?.paused_us()?;
            // What stops others as well is no pause of this one.
            let others_us = self.others(node).filter_map(|n| slot[n]).map(|other| other.longest_us).fold(0.0, f64::max);
            (others_us < paused_us / 2.0).then_some((paused_us, others_us, None))
        };
        self.paused.iter().filter_map(paused).max_by(|a, b| a.0.total_cmp(&b.0))
    }

    fn loses(&self, node: usize) -> Option<Finding> {
        self.has_losses(node).filter(|_| self.nodes[node].lossy_seconds >= LOSSY_SECONDS_MIN)
    }

    /// In whatever part of that time.
    fn has_losses(&self, node: usize) -> Option<Finding> {
        let permille = |facts: &Facts| 1e3 * facts.lost_segments as f64 / facts.segments.max(1) as f64;
        let own = permille(&self.nodes[node]);
        let used = self.others(node).map(|other| &self.nodes[other]).filter(|other| other.segments > 0);
        let others = median(used.map(permille))?;
        let is_much = self.nodes[node].lost_segments >= LOST_MIN && own >= LOST_PERMILLE_MIN;
        (is_much && own >= LOST_FACTOR * others).then_some((own.min(1e3), others, None))
    }

    /// What the page cache answers is counted, not timed, so two seconds will do; and nodes report it a second late.
    fn has_small_cache(&self, node: usize) -> Option<Finding> {
        let last = &self.judged[self.judged.len().saturating_sub(SLOTS_COUNTED)..];
        self.holds_in(SLOTS_COUNTED_HOLDING, last, node, Measure::has_small_cache)
    }

    /// What is lost comes late: whether that is why is known soon.
    fn is_far(&self, node: usize) -> Option<Finding> {
        self.holds(node, Measure::is_far).filter(|_| self.has_losses(node).is_none())
    }

    /// One of several clients has nearly all requests in hand, and nearly all at this node. It says more than what follows from it: a busy
    /// processor, and pieces that wait in sockets.
    fn is_flooded(&self, node: usize) -> Option<Finding> {
        let Demands { most, others } = self.demands;
        let part = most as f64 / (most as f64 + others as f64).max(1.0);
        if others == 0 || most < FLOOD_REQUESTS_MIN || part < FLOOD_PART {
            return None;
        }
        self.holds(node, Measure::has_full_queue)?;
        Some((most as f64, others as f64, None))
    }
}

#[cfg(test)]
mod tests;
