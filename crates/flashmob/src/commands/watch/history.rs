//! What has been heard of a gateway: the last ten minutes of its nodes.

use std::collections::VecDeque;

use flashmob_core::buckets::Buckets;
use flashmob_server::status::live::{LiveReport, LiveSlot, untrimmed};

/// Over how many seconds the figures of the table are taken.
pub const LATELY_S: u64 = 5;
/// No gateway keeps more seconds.
const KEPT_MAX_S: u64 = 3600;

/// The last report, and the slots of all reports of this start of the gateway.
#[derive(Debug)]
pub struct History {
    pub last: LiveReport,
    pub slots: VecDeque<LiveSlot>,
}

/// A node over some seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Lately {
    pub answered_per_s: f64,
    pub p50_us: Option<u64>,
    pub p99_us: Option<u64>,
    pub pieces_per_batch: Option<f64>,
    /// Of the pieces that the node answered or its store did: those without a thread of the store.
    pub at_once: Option<f64>,
    pub starved_permille: Option<u16>,
    pub spent: Spent,
}

/// The mean time of a piece, by where it went, in microseconds: they are estimated from the middle of each bucket.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Spent {
    pub queue_us: f64,
    pub way_us: f64,
    /// Without the flash.
    pub node_us: f64,
    pub flash_us: f64,
}

impl Spent {
    /// All of it.
    pub fn total_us(&self) -> f64 {
        self.queue_us + self.way_us + self.node_us + self.flash_us
    }

    /// Each with its name.
    pub fn parts(&self) -> [(&'static str, f64); 4] {
        [("queue", self.queue_us), ("network", self.way_us), ("node", self.node_us), ("flash", self.flash_us)]
    }

    /// The largest part, and its share of all; `None` without any.
    pub fn largest(&self) -> Option<(&'static str, f64)> {
        let total = self.total_us();
        let (name, time) = self.parts().into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
        (total > 0.0).then(|| (name, time / total))
    }
}

impl History {
    /// What a first report says.
    pub fn new(mut first: LiveReport) -> History {
        let slots = std::mem::take(&mut first.slots).into_iter().filter(|slot| is_possible(slot, &first)).collect();
        History { last: first, slots }
    }

    /// Takes in the report that followed. One of another start begins anew.
    pub fn add(&mut self, mut report: LiveReport) {
        let slots = std::mem::take(&mut report.slots);
        if report.start != self.last.start {
            self.slots.clear();
        }
        let known = self.slots.back().map_or(0, |slot| slot.second + slot.seconds);
        self.slots.extend(slots.into_iter().filter(|slot| slot.second >= known && is_possible(slot, &report)));
        let oldest = report.next_second.saturating_sub(report.kept_seconds.min(KEPT_MAX_S));
        while self.slots.front().is_some_and(|slot| slot.second + slot.seconds <= oldest) {
            self.slots.pop_front();
        }
        self.last = report;
    }

    /// The last seconds that the table shows: whole slots.
    fn lately_seconds(&self) -> u64 {
        LATELY_S.next_multiple_of(self.last.slot_seconds.clamp(1, KEPT_MAX_S))
    }

    /// The slots of those seconds.
    fn within_lately(&self) -> impl Iterator<Item = &LiveSlot> {
        let from = self.last.next_second.saturating_sub(self.lately_seconds());
        self.slots.iter().rev().take_while(move |slot| slot.second >= from)
    }

    /// A node over the last seconds.
    pub fn lately(&self, node: usize) -> Lately {
        let mut lately = Lately::default();
        let [mut queue, mut way, mut at_node, mut flash] = [Buckets::default(); 4];
        let (mut answered, mut batches, mut pieces, mut at_once, mut operations) = (0, 0, 0, 0, 0);
        let (mut p50, mut timed) = (0.0, 0.0);
        for slot in self.within_lately() {
            let Some(at) = slot.node.iter().position(|&n| n == node) else { continue };
            let of = |column: &[u64]| column.get(at).copied().unwrap_or_default();
            let timed_here = of(&slot.answered).saturating_sub(of(&slot.read_here)) as f64;
            timed += timed_here;
            for (sum, column) in [
                (&mut answered, &slot.answered),
                (&mut batches, &slot.batches),
                (&mut pieces, &slot.pieces),
                (&mut at_once, &slot.at_once),
                (&mut operations, &slot.store_operations),
            ] {
                *sum = u64::saturating_add(*sum, of(column));
            }
            p50 += slot.p50_us.get(at).copied().flatten().unwrap_or_default() as f64 * timed_here;
            lately.p99_us = lately.p99_us.max(slot.p99_us.get(at).copied().flatten());
            lately.starved_permille = lately.starved_permille.max(slot.starved_permille.get(at).copied().flatten());
            for (sum, column) in [
                (&mut queue, &slot.queue),
                (&mut way, &slot.way),
                (&mut at_node, &slot.at_node),
                (&mut flash, &slot.flash),
            ] {
                sum.add(&column.get(at).map(|histogram| untrimmed(histogram)).unwrap_or_default());
            }
        }
        let seconds = self.lately_seconds().min(self.last.next_second.max(1));
        lately.answered_per_s = answered as f64 / seconds as f64;
        lately.p50_us = (timed > 0.0).then(|| (p50 / timed) as u64);
        lately.pieces_per_batch = (batches > 0).then(|| pieces as f64 / batches as f64);
        let served = at_once as f64 + operations as f64;
        lately.at_once = (served > 0.0).then(|| at_once as f64 / served);
        let [queue_us, way_us, at_node_us, flash_us] = [queue, way, at_node, flash].map(|buckets| buckets.mean_us());
        // The node's report comes later than the answers that it is about, and has those of other gateways.
        let flash_us = flash_us.min(at_node_us);
        lately.spent = Spent { queue_us, way_us, node_us: at_node_us - flash_us, flash_us };
        lately
    }

    /// The p99 of a node in each of `columns` columns of so many seconds, the last of which ends now; `None` where it answered nothing.
    pub fn p99_us(&self, node: usize, columns: usize, seconds: u64) -> Vec<Option<u64>> {
        let mut row = vec![None; columns];
        let end = self.last.next_second;
        for slot in &self.slots {
            let Some(at) = slot.node.iter().position(|&n| n == node) else { continue };
            let Some(p99) = slot.p99_us.get(at).copied().flatten() else { continue };
            for second in slot.second..slot.second + slot.seconds {
                let back = end.saturating_sub(second + 1) / seconds.max(1);
                let cell = columns.checked_sub(1 + usize::try_from(back).unwrap_or(usize::MAX));
                if let Some(cell) = cell.and_then(|column| row.get_mut(column)) {
                    *cell = (*cell).max(Some(p99));
                }
            }
        }
        row
    }
}

/// Whether a slot may be believed: not one of the future, or without end.
fn is_possible(slot: &LiveSlot, report: &LiveReport) -> bool {
    let end = slot.second.checked_add(slot.seconds);
    (1..=KEPT_MAX_S).contains(&slot.seconds) && end.is_some_and(|end| end <= report.next_second)
}
