//! The stages that every request passes, and histograms of the time between them.
//!
//! Stages have the same names in metrics, results, traces and plots. An interval has the name of the stage that ends it; `total` is
//! the whole time in one process.
//!
//! ```text
//! gateway  received -> queued -> batched -> sent ------------------------------------------------> replied
//! node                                         node_received -> scheduled -> flash_start -> flash_done -> replied
//! ```
//!
//! Each process measures with its own clock: no interval is a difference between the clocks of two devices.
//!
//! Values are nanoseconds. Histograms resolve 512 ns or 1 %, whichever is more, from 0 to 100 s; longer times count as 100 s. A set of
//! five takes 110 KiB, so a process that is gateway and node at once stays below 256 KiB.

use std::fmt::Debug;
use std::marker::PhantomData;

use hdrhistogram::Histogram;

use crate::enums::listed;

listed! {
    /// A point that every request passes; in order.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum Stage {
        /// The gateway has read the whole request and checked it.
        Received => "received",
        /// Its pieces are in the queues of their nodes.
        Queued => "queued",
        /// A piece is part of a batch.
        Batched => "batched",
        /// The batch was handed to the socket.
        Sent => "sent",
        /// The node has read the whole batch and checked it.
        NodeReceived => "node_received",
        /// The piece is in the elevator.
        Scheduled => "scheduled",
        /// The store began the operation.
        FlashStart => "flash_start",
        /// The store finished the operation.
        FlashDone => "flash_done",
        /// The answer was handed to the socket (node) or to the client (gateway).
        Replied => "replied",
    }
}

/// How many intervals a process measures: four between neighbouring stages, and the total.
pub const INTERVALS: usize = 5;

/// The intervals that one kind of process measures.
pub trait Interval: Copy + Debug + PartialEq + 'static {
    /// All of them, in order; the total comes last.
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

/// Declares the intervals of one kind of process, each with the stages at which it begins and ends.
macro_rules! intervals {
    ($(#[$attribute:meta])* pub enum $type:ident {
        $($(#[$of_variant:meta])* $variant:ident: $begin:ident => $end:ident,)*
    }) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $type {
            $($(#[$of_variant])* $variant,)*
        }

        impl Interval for $type {
            const ALL: [$type; INTERVALS] = [$($type::$variant),*];

            fn index(self) -> usize {
                self as usize
            }

            fn stages(self) -> (Stage, Stage) {
                match self {
                    $($type::$variant => (Stage::$begin, Stage::$end),)*
                }
            }
        }
    };
}

intervals! {
    /// The intervals that a gateway sees.
    pub enum GatewayInterval {
        /// Received until queued: the layout's work.
        Queued: Received => Queued,
        /// Queued until batched: waiting for a batch to leave.
        Batched: Queued => Batched,
        /// Batched until sent: encoding, and waiting for the socket.
        Sent: Batched => Sent,
        /// Sent until the node's answer is back: the network in both directions, and the node.
        Replied: Sent => Replied,
        /// Received until replied.
        Total: Received => Replied,
    }
}

intervals! {
    /// The intervals that a node sees.
    pub enum NodeInterval {
        /// Received by the node until scheduled: decoding, and waiting for memory.
        Scheduled: NodeReceived => Scheduled,
        /// Scheduled until the store is asked: waiting in the elevator.
        FlashStart: Scheduled => FlashStart,
        /// Asked until answered: the service time of the store.
        FlashDone: FlashStart => FlashDone,
        /// Answered by the store until handed to the socket.
        Replied: FlashDone => Replied,
        /// Received by the node until replied.
        Total: NodeReceived => Replied,
    }
}

/// The finest resolution: 1 us, which hdrhistogram rounds down to a power of two, 512 ns.
const LOWEST_NANOS: u64 = 1_000;
/// The longest time that is distinguished: 100 s, ten times the default timeout of a request.
pub const HIGHEST_NANOS: u64 = 100_000_000_000;
/// Two significant digits: 1 %, finer than measurements repeat.
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

/// One histogram for each interval. Recording never panics and never allocates.
#[derive(Clone, Debug)]
pub struct StageHistograms<I> {
    histograms: [Histogram<u64>; INTERVALS],
    sums_nanos: [u64; INTERVALS],
    intervals: PhantomData<I>,
}

impl<I: Interval> StageHistograms<I> {
    /// Records that `interval` took `nanos`.
    #[inline]
    pub fn record(&mut self, interval: I, nanos: u64) {
        self.record_n(interval, nanos, 1);
    }

    /// Records that `interval` took `nanos`, `count` times.
    #[inline]
    pub fn record_n(&mut self, interval: I, nanos: u64, count: u64) {
        let index = interval.index();
        let histogram = &mut self.histograms[index];
        // hdrhistogram adds up its cells unchecked: the sum must fit 64 bits.
        let count = count.min(u64::MAX - histogram.len());
        histogram.saturating_record_n(nanos.min(HIGHEST_NANOS), count);
        self.sums_nanos[index] = self.sums_nanos[index].saturating_add(nanos.saturating_mul(count));
    }

    /// How many times of `interval` were recorded.
    #[must_use]
    pub fn count(&self, interval: I) -> u64 {
        self.histograms[interval.index()].len()
    }

    /// The exact sum of the recorded times of `interval`, in nanoseconds.
    #[must_use]
    pub fn sum_nanos(&self, interval: I) -> u64 {
        self.sums_nanos[interval.index()]
    }

    /// The time in nanoseconds that a share `q` (0 to 1; 0.99 for p99) of the recorded times does not exceed, rounded up to the end of
    /// its cell; 0 if nothing was recorded.
    #[must_use]
    pub fn quantile(&self, interval: I, q: f64) -> u64 {
        self.histograms[interval.index()].value_at_quantile(q.clamp(0.0, 1.0))
    }

    /// The cells that are not empty, ascending: the longest time of the cell in nanoseconds, and its count. Results keep this raw
    /// histogram.
    pub fn cells(&self, interval: I) -> impl Iterator<Item = (u64, u64)> + '_ {
        let recorded = self.histograms[interval.index()].iter_recorded();
        recorded.map(|cell| (cell.value_iterated_to(), cell.count_at_value()))
    }

    /// For each of [`BUCKET_BOUNDS_NANOS`], how many recorded times do not exceed it. A cell that contains a bound counts as a whole.
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
}

impl<I: Interval> Default for StageHistograms<I> {
    /// Empty histograms. All their memory is allocated here.
    fn default() -> StageHistograms<I> {
        let empty = Histogram::new_with_bounds(LOWEST_NANOS, HIGHEST_NANOS, SIGNIFICANT_DIGITS)
            .expect("the bounds are constants in the order that hdrhistogram asks for");
        StageHistograms {
            histograms: std::array::from_fn(|_| empty.clone()),
            sums_nanos: [0; INTERVALS],
            intervals: PhantomData,
        }
    }
}

/// Records times in [`StageHistograms`]; equal ones in a row, such as those of one batch, cost one update of a histogram.
#[derive(Clone, Debug)]
pub struct StageRecorder<I> {
    histograms: StageHistograms<I>,
    /// For each interval the last time in nanoseconds, and how often it was recorded in a row.
    rows: [(u64, u64); INTERVALS],
}

impl<I: Interval> StageRecorder<I> {
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

    /// The histograms of everything recorded.
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
        StageRecorder { histograms: StageHistograms::default(), rows: [(0, 0); INTERVALS] }
    }
}

#[cfg(test)]
mod tests;
