//! What a slot says about a node, and the comparisons with others in the same slot.

use super::{FACTOR, Finding, PART_MIN};
use crate::buckets::{BOUNDS, BOUNDS_NANOS, Buckets};
use crate::gateway::{Cause, NodeSlot};

/// A node in one slot. Times are of a piece.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measure {
    pub pieces: u64,
    queue_us: f64,
    way_us: f64,
    at_node_us: f64,
    way_median_us: f64,
    flash_us: f64,
    /// In the store, without those that were answered at once.
    stored_us: f64,
    stored: u64,
    at_once_permille: Option<f64>,
    running_permille: Option<f64>,
    starved_permille: Option<f64>,
    /// Bytes received.
    piece_bytes: f64,
    /// The longest time of a piece on its way.
    pub longest_us: f64,
    /// Pieces that were on their way as long as a pause. What waits for the store is at the node.
    long: u64,
}

/// A piece that takes so long has waited for a node that did not run, or for a frame that was lost.
const LONG_NANOS: u64 = 400_000_000;
/// Smaller excesses are noise.
const FAR_MIN_US: f64 = 3_000.0;
const FLASH_MIN_US: f64 = 150.0;
const CACHE_MIN_US: f64 = 8.0;
const STARVED_MIN_PERMILLE: f64 = 250.0;
/// One that takes hardly longer than the others lacks nothing.
const SLOWER_MIN: f64 = 1.3;
const BUSY_PERMILLE: f64 = 850.0;
/// Others have to answer so many at once for a small page cache to be told from a large volume.
const CACHED_MIN_PERMILLE: f64 = 500.0;
const CACHE_PART_MIN: f64 = 0.05;
const CACHED_PART_MAX: f64 = 0.7;
/// In the store, for a comparison.
const STORED_MIN: u64 = 8;
/// How many times as many pieces as others a node gets whose queue is filled, and how much longer they take there.
const FLOOD_FACTOR: f64 = 3.0;
const FLOOD_SLOWER_MIN: f64 = 1.5;
/// With so many times as many pieces as the others have, a node is not compared by how long they take.
const HOT_FACTOR: f64 = 2.0;

impl Measure {
    pub fn of(slot: &NodeSlot) -> Measure {
        let [queue, way, at_node, flash] =
            [Cause::Queue, Cause::Way, Cause::Node, Cause::Flash].map(|c| &slot.causes[c as usize]);
        let stored = flash.total().saturating_sub(slot.at_once);
        let served = slot.at_once.saturating_add(slot.store_operations);
        let permille = |share: Option<u16>| share.map(f64::from);
        Measure {
            pieces: slot.timed,
            queue_us: queue.mean_us(),
            way_us: way.mean_us(),
            at_node_us: at_node.mean_us(),
            way_median_us: way.quantile(0.5).map_or(0.0, |time| time.as_nanos() as f64 / 1e3),
            flash_us: flash.mean_us(),
            stored_us: slowest(flash, stored).mean_us(),
            stored,
            // What the gateway itself reads from an extent in its process is in neither.
            at_once_permille: (served > 0 && slot.counts.read_here == 0)
                .then(|| 1e3 * slot.at_once as f64 / served as f64),
            running_permille: permille(slot.running_permille),
            starved_permille: permille(slot.starved_permille),
            piece_bytes: slot.counts.bytes_in as f64 / slot.timed.max(1) as f64,
            longest_us: longest_us(way),
            long: above(way, LONG_NANOS),
        }
    }

    /// Without its wait in the queue, which follows from the rest.
    fn served_us(&self) -> f64 {
        self.way_us + self.at_node_us
    }

    pub fn lacks_processor(&self, others: &mut dyn Iterator<Item = Measure>) -> Option<Finding> {
        let (own, others) = (self.starved_permille?, self.of_quicker(others, |other| other.starved_permille)?);
        (own >= STARVED_MIN_PERMILLE.max(FACTOR * others)).then_some((own, others, None))
    }

    /// One that is slowed down is always busy, where those of others have nothing to do for most of the time.
    pub fn has_slow_processor(&self, others: &mut dyn Iterator<Item = Measure>) -> Option<Finding> {
        let (own, others) = (self.running_permille?, self.of_quicker(others, |other| other.running_permille)?);
        (own >= BUSY_PERMILLE && others < own / 2.0).then_some((own, others, None))
    }

    /// The median over the others, if this one takes longer than they do.
    fn of_quicker(&self, others: &mut dyn Iterator<Item = Measure>, value: fn(&Measure) -> Option<f64>) -> Option<f64> {
        let others: Vec<Measure> = others.collect();
        let served_us = median(others.iter().map(Measure::served_us))?;
        let is_slower = self.served_us() >= SLOWER_MIN * served_us && !self.is_hot(&others);
        median(others.iter().filter_map(value)).filter(|_| is_slower)
    }

    pub fn is_far(&self, others: &mut dyn Iterator<Item = Measure>) -> Option<Finding> {
        let others: Vec<Measure> = others.filter(|other| self.is_like(other)).collect();
        let others = median(others.iter().map(|other| other.way_median_us)).filter(|_| !self.is_hot(&others))?;
        let is_far = self.way_median_us >= FACTOR * others && self.way_median_us >= others + FAR_MIN_US;
        let share = self.way_us / self.served_us().max(1.0);
        (is_far && share >= PART_MIN).then_some((self.way_median_us, others, Some(share)))
    }

    pub fn has_slow_flash(&self, others: &mut dyn Iterator<Item = Measure>) -> Option<Finding> {
        let alike = others.filter(|other| other.stored >= STORED_MIN && self.is_like(other));
        let others = median(alike.map(|other| other.stored_us))?;
        let is_slow =
            self.stored >= STORED_MIN && self.stored_us >= FACTOR * others && self.stored_us >= others + FLASH_MIN_US;
        let share = (self.flash_us / self.served_us().max(1.0)).min(1.0);
        (is_slow && share >= PART_MIN).then_some((self.stored_us, others, Some(share)))
    }

    pub fn has_small_cache(&self, others: &mut dyn Iterator<Item = Measure>) -> Option<Finding> {
        let others: Vec<Measure> = others.filter(|other| self.is_like(other)).collect();
        let flash_us = median(others.iter().map(|other| other.flash_us))?;
        let (own, others) = (self.at_once_permille?, median(others.iter().filter_map(|other| other.at_once_permille))?);
        let is_small = others >= CACHED_MIN_PERMILLE && own <= CACHED_PART_MAX * others && self.stored >= STORED_MIN;
        let share = (self.flash_us / self.served_us().max(1.0)).min(1.0);
        let costs = self.flash_us >= (2.0 * flash_us).max(flash_us + CACHE_MIN_US) && share >= CACHE_PART_MIN;
        (is_small && costs).then_some((own, others, Some(share)))
    }

    /// It gets by far the most pieces, and they take longer than those of the others.
    pub fn has_full_queue(&self, others: &mut dyn Iterator<Item = Measure>) -> Option<Finding> {
        let others: Vec<Measure> = others.collect();
        let all_us = |measure: &Measure| measure.queue_us + measure.served_us();
        let other_pieces = median(others.iter().map(|other| other.pieces as f64))?;
        let (own_us, other_us) = (all_us(self), median(others.iter().map(all_us))?);
        let is_full = self.pieces as f64 >= FLOOD_FACTOR * other_pieces && own_us >= FLOOD_SLOWER_MIN * other_us;
        is_full.then_some((own_us, other_us, None))
    }

    /// How long it did nothing, if it did: some pieces were on their way as long as a pause, and the others of the slot were not.
    pub fn paused_us(&self) -> Option<f64> {
        let is_rule = self.way_median_us >= LONG_NANOS as f64 / 4e3;
        (self.long >= 2 && !is_rule).then_some(self.longest_us)
    }

    /// Whether it gets far more pieces than the others: then its own pieces wait for each other, also in the network and for its processor.
    fn is_hot(&self, others: &[Measure]) -> bool {
        median(others.iter().map(|other| other.pieces as f64))
            .is_none_or(|pieces| self.pieces as f64 >= HOT_FACTOR * pieces)
    }

    /// Whether pieces are about as large: large reads take longer everywhere.
    fn is_like(&self, other: &Measure) -> bool {
        let (small, large) = (self.piece_bytes.min(other.piece_bytes), self.piece_bytes.max(other.piece_bytes));
        large <= 2.0 * small + 256.0
    }
}

/// Times above a bound.
fn above(buckets: &Buckets, nanos: u64) -> u64 {
    let first = BOUNDS_NANOS.partition_point(|&bound| bound < nanos) + 1;
    buckets.0.iter().skip(first).map(|&count| u64::from(count)).sum()
}

/// The upper bound of the last bucket that is not empty.
fn longest_us(buckets: &Buckets) -> f64 {
    let last = buckets.0.iter().rposition(|&count| count > 0);
    last.map_or(0.0, |last| BOUNDS_NANOS[last.min(BOUNDS - 1)] as f64 / 1e3)
}

/// The `count` longest times.
fn slowest(buckets: &Buckets, count: u64) -> Buckets {
    let (mut slowest, mut left) = (Buckets::default(), count);
    for (of, &all) in slowest.0.iter_mut().zip(&buckets.0).rev() {
        *of = u32::try_from(left).unwrap_or(u32::MAX).min(all);
        left -= u64::from(*of);
    }
    slowest
}

/// The median; of an even number the larger of the two in the middle.
pub fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}
