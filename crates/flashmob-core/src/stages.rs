//! The stages that every request passes, and how long it took between them.
//!
//! The names of stages are the same in metrics, results, traces and plots. An interval bears the name of
//! the stage that ends it; `total` is the whole way through one process.
//!
//! ```text
//! gateway  received -> queued -> batched -> sent ------------------------------------------------> replied
//! node                                         node_received -> scheduled -> flash_start -> flash_done -> replied
//! ```
//!
//! Each process measures with its own clock and records only what it saw itself: no interval here may ever be a
//! difference between the clocks of two devices.
//!
//! Values are nanoseconds. Histograms tell them apart by 512 ns or 1 %, whichever is more, from 0 to 100 s; what is longer counts
//! as 100 s. A set of five takes 110 KiB, so a process that is gateway and node at once stays below 256 KiB.

use std::fmt::Debug;
use std::marker::PhantomData;

use hdrhistogram::Histogram;

/// A point that every request passes, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Stage {
    /// The gateway has read the request whole and checked it.
    Received,
    /// Its pieces stand in the queues of their nodes.
    Queued,
    /// A piece is part of a batch.
    Batched,
    /// The batch was handed to the socket.
    Sent,
    /// The node has read the batch whole and checked it.
    NodeReceived,
    /// The piece stands in the elevator.
    Scheduled,
    /// The store was asked.
    FlashStart,
    /// The store has answered.
    FlashDone,
    /// The answer was handed to the socket (node) or has come back and is handed on (gateway).
    Replied,
}

impl Stage {
    /// All of them, in the order in which a request passes them.
    pub const ALL: [Stage; 9] = [
        Stage::Received,
        Stage::Queued,
        Stage::Batched,
        Stage::Sent,
        Stage::NodeReceived,
        Stage::Scheduled,
        Stage::FlashStart,
        Stage::FlashDone,
        Stage::Replied,
    ];

    /// Its name in metrics, results, traces and plots.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Stage::Received => "received",
            Stage::Queued => "queued",
            Stage::Batched => "batched",
            Stage::Sent => "sent",
            Stage::NodeReceived => "node_received",
            Stage::Scheduled => "scheduled",
            Stage::FlashStart => "flash_start",
            Stage::FlashDone => "flash_done",
            Stage::Replied => "replied",
        }
    }
}

/// How many intervals a process sees: four between neighbouring stages, and the whole.
pub const INTERVALS: usize = 5;

/// The intervals that one kind of process sees.
pub trait Interval: Copy + Debug + PartialEq + 'static {
    /// All of them, in order; the whole comes last.
    const ALL: [Self; INTERVALS];

    /// Its place in [`Interval::ALL`].
    fn index(self) -> usize;

    /// The stages at which it begins and ends.
    fn stages(self) -> (Stage, Stage);

    /// Its name in metrics, results and plots: that of the stage that ends it, or `total`.
    fn name(self) -> &'static str {
        if self.index() == INTERVALS - 1 { "total" } else { self.stages().1.name() }
    }
}

/// The intervals that a gateway sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GatewayInterval {
    /// Received until queued: the layout's work.
    Queued,
    /// Queued until batched: waiting for a batch to leave.
    Batched,
    /// Batched until sent: encoding, and waiting for the socket.
    Sent,
    /// Sent until the node's answer is back: the air, twice, and all of the node.
    Replied,
    /// Received until replied.
    Total,
}

impl Interval for GatewayInterval {
    const ALL: [GatewayInterval; INTERVALS] = [
        GatewayInterval::Queued,
        GatewayInterval::Batched,
        GatewayInterval::Sent,
        GatewayInterval::Replied,
        GatewayInterval::Total,
    ];

    fn index(self) -> usize {
        self as usize
    }

    fn stages(self) -> (Stage, Stage) {
        match self {
            GatewayInterval::Queued => (Stage::Received, Stage::Queued),
            GatewayInterval::Batched => (Stage::Queued, Stage::Batched),
            GatewayInterval::Sent => (Stage::Batched, Stage::Sent),
            GatewayInterval::Replied => (Stage::Sent, Stage::Replied),
            GatewayInterval::Total => (Stage::Received, Stage::Replied),
        }
    }
}

/// The intervals that a node sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NodeInterval {
    /// Received by the node until scheduled: decoding, and waiting for memory.
    Scheduled,
    /// Scheduled until the store is asked: waiting in the elevator.
    FlashStart,
    /// Asked until answered: the service time of the store.
    FlashDone,
    /// Answered by the store until handed to the socket.
    Replied,
    /// Received by the node until replied.
    Total,
}

impl Interval for NodeInterval {
    const ALL: [NodeInterval; INTERVALS] = [
        NodeInterval::Scheduled,
        NodeInterval::FlashStart,
        NodeInterval::FlashDone,
        NodeInterval::Replied,
        NodeInterval::Total,
    ];

    fn index(self) -> usize {
        self as usize
    }

    fn stages(self) -> (Stage, Stage) {
        match self {
            NodeInterval::Scheduled => (Stage::NodeReceived, Stage::Scheduled),
            NodeInterval::FlashStart => (Stage::Scheduled, Stage::FlashStart),
            NodeInterval::FlashDone => (Stage::FlashStart, Stage::FlashDone),
            NodeInterval::Replied => (Stage::FlashDone, Stage::Replied),
            NodeInterval::Total => (Stage::NodeReceived, Stage::Replied),
        }
    }
}

/// What histograms resolve at best: 1 us, of which hdrhistogram makes the power of two below, 512 ns.
const LOWEST_NANOS: u64 = 1_000;
/// The longest time that is told apart from longer ones: 100 s, ten times the default timeout of a request.
pub const HIGHEST_NANOS: u64 = 100_000_000_000;
/// Two significant digits: 1 %, finer than any of these figures repeats.
const SIGNIFICANT_DIGITS: u8 = 2;

/// How many bounds the buckets for Prometheus have.
pub const BUCKETS: usize = 19;
/// The upper bounds of the buckets for Prometheus, in nanoseconds: 10 us to 10 s in steps of 1, 2, 5.
pub const BUCKET_BOUNDS_NANOS: [u64; BUCKETS] = {
    let (mut bounds, mut decade, mut i) = ([0; BUCKETS], 10_000, 0);
    while i < BUCKETS {
        bounds[i] = [1, 2, 5][i % 3] * decade;
        if i % 3 == 2 {
            decade *= 10;
        }
        i += 1;
    }
    bounds
};

/// The same bounds in seconds, as the `le` label wants them.
#[must_use]
pub fn bucket_bounds_seconds() -> [f64; BUCKETS] {
    BUCKET_BOUNDS_NANOS.map(|nanos| nanos as f64 / 1e9)
}

/// One histogram for each interval that a process sees. Nothing that is recorded makes it panic or grow.
#[derive(Clone, Debug)]
pub struct StageHistograms<I> {
    histograms: [Histogram<u64>; INTERVALS],
    sums_nanos: [u64; INTERVALS],
    intervals: PhantomData<I>,
}

impl<I: Interval> StageHistograms<I> {
    /// Empty histograms. All the memory they will ever take is taken here.
    #[must_use]
    pub fn new() -> StageHistograms<I> {
        let empty = Histogram::new_with_bounds(LOWEST_NANOS, HIGHEST_NANOS, SIGNIFICANT_DIGITS)
            .expect("the bounds are constants in the order that hdrhistogram asks for");
        StageHistograms {
            histograms: std::array::from_fn(|_| empty.clone()),
            sums_nanos: [0; INTERVALS],
            intervals: PhantomData,
        }
    }

    /// Records that `interval` took `nanos`.
    #[inline]
    pub fn record(&mut self, interval: I, nanos: u64) {
        self.record_n(interval, nanos, 1);
    }

    /// Records that `interval` took `nanos`, `count` times: for what travels in one batch.
    #[inline]
    pub fn record_n(&mut self, interval: I, nanos: u64, count: u64) {
        let index = interval.index();
        let histogram = &mut self.histograms[index];
        // A histogram adds up its cells without a check: together they must fit 64 bits.
        let count = count.min(u64::MAX - histogram.len());
        histogram.saturating_record_n(nanos.min(HIGHEST_NANOS), count);
        self.sums_nanos[index] = self.sums_nanos[index].saturating_add(nanos.saturating_mul(count));
    }

    /// How many times were recorded for `interval`.
    #[must_use]
    pub fn count(&self, interval: I) -> u64 {
        self.histograms[interval.index()].len()
    }

    /// The exact sum of what was recorded for `interval`, in nanoseconds.
    #[must_use]
    pub fn sum_nanos(&self, interval: I) -> u64 {
        self.sums_nanos[interval.index()]
    }

    /// The time in nanoseconds that a share `q` (0 to 1; 0.99 for p99) of what was recorded does not exceed, rounded up to the end
    /// of its cell; 0 if nothing was recorded.
    #[must_use]
    pub fn quantile(&self, interval: I, q: f64) -> u64 {
        self.histograms[interval.index()].value_at_quantile(q.clamp(0.0, 1.0))
    }

    /// Adds what `other` has recorded.
    pub fn merge(&mut self, other: &StageHistograms<I>) {
        for interval in I::ALL {
            let index = interval.index();
            let sum_nanos = self.sums_nanos[index].saturating_add(other.sums_nanos[index]);
            for (nanos, count) in other.cells(interval) {
                self.record_n(interval, nanos, count);
            }
            self.sums_nanos[index] = sum_nanos;
        }
    }

    /// The cells in which something was recorded, ascending: the longest time that falls into the cell, in nanoseconds, and how often
    /// one did. This is the raw histogram that results keep.
    pub fn cells(&self, interval: I) -> impl Iterator<Item = (u64, u64)> + '_ {
        let recorded = self.histograms[interval.index()].iter_recorded();
        recorded.map(|cell| (cell.value_iterated_to(), cell.count_at_value()))
    }

    /// For each of [`BUCKET_BOUNDS_NANOS`], how many of the recorded times do not exceed it; the bucket without a bound is
    /// [`StageHistograms::count`]. A cell that holds a bound counts as a whole.
    #[must_use]
    pub fn cumulative(&self, interval: I) -> [u64; BUCKETS] {
        let histogram = &self.histograms[interval.index()];
        let mut counts = [0u64; BUCKETS];
        for (nanos, count) in self.cells(interval) {
            let lowest = histogram.lowest_equivalent(nanos);
            let bucket = BUCKET_BOUNDS_NANOS.partition_point(|&bound| bound < lowest);
            if let Some(slot) = counts.get_mut(bucket) {
                *slot += count;
            }
        }
        let mut below = 0;
        counts.map(|count| {
            below += count;
            below
        })
    }

    /// Bytes of memory that all the cells take.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.histograms.iter().map(|h| h.distinct_values() * size_of::<u64>()).sum::<usize>() + size_of::<Self>()
    }
}

impl<I: Interval> Default for StageHistograms<I> {
    fn default() -> StageHistograms<I> {
        StageHistograms::new()
    }
}

/// Takes down times for [`StageHistograms`]: equal ones that follow one another, as those of one batch do, cost a
/// histogram one visit.
#[derive(Clone, Debug)]
pub struct StageRecorder<I> {
    histograms: StageHistograms<I>,
    /// For each interval the last time, in nanoseconds, and how often it came in a row.
    rows: [(u64, u64); INTERVALS],
}

impl<I: Interval> StageRecorder<I> {
    /// Empty histograms.
    #[must_use]
    pub fn new() -> StageRecorder<I> {
        StageRecorder { histograms: StageHistograms::new(), rows: [(0, 0); INTERVALS] }
    }

    /// Records that `interval` took `nanos`.
    #[inline]
    pub fn record(&mut self, interval: I, nanos: u64) {
        self.record_n(interval, nanos, 1);
    }

    /// Records that `interval` took `nanos`, `count` times.
    #[inline]
    pub fn record_n(&mut self, interval: I, nanos: u64, count: u64) {
        let row = &mut self.rows[interval.index()];
        if row.0 == nanos {
            row.1 = row.1.saturating_add(count);
        } else {
            let (last, times) = std::mem::replace(row, (nanos, count));
            if times > 0 {
                self.histograms.record_n(interval, last, times);
            }
        }
    }

    /// Everything that was recorded.
    pub fn histograms(&mut self) -> &StageHistograms<I> {
        for interval in I::ALL {
            let (nanos, times) = std::mem::take(&mut self.rows[interval.index()]);
            if times > 0 {
                self.histograms.record_n(interval, nanos, times);
            }
        }
        &self.histograms
    }
}

impl<I: Interval> Default for StageRecorder<I> {
    fn default() -> StageRecorder<I> {
        StageRecorder::new()
    }
}

#[cfg(test)]
mod tests;
