//! Lateness of frames compared with the model's clock, and the limits beyond which a run is void.
//!
//! The model determines when a frame arrives; the machine that runs the lab is sometimes busy then. A frame
//! that arrives later than the model says is an error of the lab, not a property of the air.

use flashmob_core::planted::{self, Bug};
use flashmob_results::cluster::Lateness;
use flashmob_results::latency;
use hdrhistogram::Histogram;

pub use flashmob_server::store::LATE_NS;

/// Largest acceptable fraction of late frames. Then 99 of 100 round trips, most of which have several frames in flight,
/// have no late frame.
pub const LATE_FRACTION_MAX: f64 = 0.02;
/// Largest acceptable lateness of a frame, in nanoseconds: half of TCP's shortest timeout (200 ms), after which it would
/// retransmit packets that were not lost.
pub const LATENESS_NS_MAX: u64 = 100_000_000;

/// Lateness of frames since the last reset.
#[derive(Debug)]
pub struct LatenessLog {
    histogram: Histogram<u64>,
    late: u64,
    max_ns: u64,
}

impl LatenessLog {
    /// Without frames.
    #[must_use]
    pub fn new() -> LatenessLog {
        LatenessLog { histogram: latency::histogram(), late: 0, max_ns: 0 }
    }

    /// Records the lateness of a frame.
    pub fn record(&mut self, ns: u64) {
        let ns = if planted::is(Bug::LatenessUntold) { 0 } else { ns };
        self.histogram.saturating_record(ns.max(1));
        self.late += u64::from(ns > LATE_NS);
        self.max_ns = self.max_ns.max(ns);
    }

    /// Resets it.
    pub fn clear(&mut self) {
        self.histogram.clear();
        self.late = 0;
        self.max_ns = 0;
    }

    /// In the format of results.
    #[must_use]
    pub fn summary(&self) -> Lateness {
        let us = |ns: u64| ns as f64 / 1e3;
        let at = |quantile| if self.histogram.is_empty() { 0 } else { self.histogram.value_at_quantile(quantile) };
        Lateness {
            p50_us: us(at(0.5).min(self.max_ns)),
            p99_us: us(at(0.99).min(self.max_ns)),
            max_us: us(self.max_ns),
            late_fraction: self.late as f64 / self.histogram.len().max(1) as f64,
        }
    }
}

impl Default for LatenessLog {
    fn default() -> Self {
        Self::new()
    }
}

/// Whether the measurements of this time are void.
#[must_use]
pub fn is_late(lateness: &Lateness) -> bool {
    lateness.late_fraction > LATE_FRACTION_MAX || lateness.max_us * 1e3 > LATENESS_NS_MAX as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(times_ns: impl IntoIterator<Item = u64>) -> LatenessLog {
        let mut log = LatenessLog::new();
        times_ns.into_iter().for_each(|ns| log.record(ns));
        log
    }

    #[test]
    fn nothing_moved_is_not_late() {
        assert_eq!(LatenessLog::new().summary(), Lateness::default());
        assert!(!is_late(&LatenessLog::new().summary()));
    }

    #[test]
    fn one_in_fifty_may_be_late_and_no_more() {
        let of = |late: usize| log((0..100).map(|i| if i < late { LATE_NS + 1 } else { LATE_NS })).summary();
        assert!(!is_late(&of(2)));
        assert!(is_late(&of(3)));
    }

    #[test]
    fn one_very_late_frame_is_enough() {
        let of = |ns| log(std::iter::repeat_n(0, 1000).chain([ns])).summary();
        assert!(!is_late(&of(LATENESS_NS_MAX)));
        assert!(is_late(&of(LATENESS_NS_MAX + 1)));
    }

    #[test]
    fn what_was_before_is_forgotten_when_it_begins_anew() {
        let mut log = log([LATENESS_NS_MAX * 2; 10]);
        log.clear();
        log.record(5_000);
        let summary = log.summary();
        assert_eq!((summary.max_us, summary.late_fraction), (5.0, 0.0));
        assert_eq!(summary.p50_us, 5.0);
    }
}
